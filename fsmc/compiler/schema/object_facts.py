"""What is known of an object's members while a way of making a formula true is being searched for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fsmc.compiler.schema.atoms import All
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.cofactors import Cofactors
from fsmc.compiler.schema.conditions import every_member, one_of_names
from fsmc.compiler.schema.cubes import Case, Cube
from fsmc.compiler.schema.domains import Domain
from fsmc.compiler.schema.formula import AND, FALSE, TRUE, Formulas
from fsmc.compiler.schema.residual import ValueFacts

if TYPE_CHECKING:
    from fsmc.compiler.schema.objects import ObjectShape


class _Speaking(NamedTuple):
    atom: int
    value: int
    classes: int


FEW = 8
"""Conditions on so many classes at most are kept class by class."""


class Limits:
    """What every member has to be, class by class: at first what ``static`` says, then what is added."""

    def __init__(self, table: Formulas, static: tuple[int, ...]) -> None:
        self.table, self.static = table, static
        self.classes = 0  # about which something was added
        self._added: dict[int, list[int]] = {}
        self._broad: list[tuple[int, int]] = []
        self._known: dict[int, int] = {}

    def add(self, classes: int, value: int) -> None:
        """Members of these classes (a mask) have to satisfy ``value``."""
        self.classes |= classes
        if classes.bit_count() > FEW:
            self._broad.append((classes, value))
            self._known.clear()
        else:
            for c in bits(classes):
                self._added.setdefault(c, []).append(value)
                self._known.pop(c, None)

    def of(self, c: int) -> int:
        """What a member of class ``c`` has to be."""
        if not self.classes >> c & 1:
            return self.static[c]
        known = self._known.get(c)
        if known is None:
            broad = (value for classes, value in self._broad if classes >> c & 1)
            known = self._known[c] = self.table.conj((self.static[c], *self._added.get(c, ()), *broad))
        return known


class ObjectFacts(ValueFacts):
    """Of each class of keys: what a member of it, if there is one, has to be; which members there have to be, and what
    is wanted of those beside."""

    def __init__(self, shape: ObjectShape, place: int, static: int, found: Sequence[frozenset[int]]) -> None:
        super().__init__(shape, static, found)
        self.shape = shape
        self._available = shape.available(place)
        self._present = shape.missing(place)
        self._limits = Limits(self.table, shape.static)
        self._needs: dict[int, list[int]] = {}
        self._changed = 0
        self._speaking: dict[int, list[_Speaking]] = {}  # the atoms that speak of each class, unless it is one of many
        self._broad: list[_Speaking] = []

    def assume(self, literals: Cube) -> bool:
        """See `Facts`."""
        if not super().assume(literals):
            return False
        table, shape = self.table, self.shape
        self._changed = 0
        for atom, sign in literals.items():
            payload = table.payload(atom)
            if not isinstance(payload, All):
                continue
            mask = shape.mask(atom) & self._available
            if sign:
                self._changed |= mask
                self._limits.add(mask, payload.value)
            elif shape.is_declared_name(mask):
                self._changed |= mask
                self._present |= mask
                self._needs.setdefault(mask.bit_length() - 1, []).append(table.negate(payload.value))
        satisfiable = self.emptiness.satisfiable
        return all(satisfiable(self._needed(c)) for c in bits(self._changed & self._present))

    def _needed(self, c: int) -> int:
        return self.table.conj((self._limits.of(c), *self._needs.get(c, ())))

    def watch(self, atoms: Iterable[int]) -> None:
        """See `Facts`."""
        super().watch(atoms)
        self._speaking, self._broad = {}, []
        for atom in atoms:
            payload = self.table.payload(atom)
            if isinstance(payload, All):
                speaking = _Speaking(atom, payload.value, self.shape.mask(atom) & self._available)
                if speaking.classes.bit_count() > FEW:
                    self._broad.append(speaking)
                else:
                    for c in bits(speaking.classes):
                        self._speaking.setdefault(c, []).append(speaking)

    def consequences(self) -> dict[int, int]:
        """See `Facts`."""
        decided = super().consequences()
        table, surely_empty = self.table, self.emptiness.surely_empty
        changed = self._changed
        few = changed.bit_count() < len(self._speaking)
        classes = bits(changed) if few else (c for c in self._speaking if changed >> c & 1)
        news = {speaking for c in classes for speaking in self._speaking.get(c, ())}
        news.update(speaking for speaking in self._broad if speaking.classes & changed)
        for atom, value, mask in news:
            negated = table.negate(value)
            if all(surely_empty(table.conj((self._limits.of(c), negated))) for c in bits(mask)):
                decided[atom] = TRUE
            elif mask & (mask - 1) == 0 and self._present & mask:
                if surely_empty(table.conj((self._needed(mask.bit_length() - 1), value))):
                    decided[atom] = FALSE
        return decided

    def cases(self, formula: int) -> Sequence[Case]:
        """See `Facts`: by the member on whose tag most of the formula depends, one case a tag, one for any other value, and
        one without the member."""
        table, shape = self.table, self.shape
        if table.kind(formula) != AND:
            return ()  # a disjunction is split by itself
        domain_of = self.emptiness.domains.of
        tags: dict[int, dict[int, tuple[int, Domain]]] = {}
        for atom in table.atoms(formula):
            payload = table.payload(atom)
            if not isinstance(payload, All):
                continue
            mask = shape.mask(atom) & self._available
            if shape.is_declared_name(mask) and (domain := domain_of(payload.value)) is not None:
                tags.setdefault(mask, {})[atom] = (payload.value, domain)
        # "no such member" is an atom with no tag; two tags are told apart as well by splitting
        numbers = {mask: sum(bool(domain) for _, domain in of.values()) for mask, of in tags.items()}
        mask = max(numbers, key=lambda mask: (numbers[mask], -mask), default=0)
        if not mask or numbers[mask] < 2:
            return ()
        return self._by_tag(formula, mask, tags[mask])

    def _by_tag(self, formula: int, mask: int, tags: dict[int, tuple[int, Domain]]) -> list[Case]:
        table, shape = self.table, self.shape
        key = one_of_names(table, [shape.keys.names[mask.bit_length() - 1]])
        absent = every_member(table, key, FALSE)
        cofactors = Cofactors(table, formula, frozenset(tags))
        found: list[Case] = []
        for true, value in shape.cells({atom: tag for atom, tag in tags.items() if tag[1]}):
            found.append(({absent: False, every_member(table, key, value): True}, cofactors.of(true)))
        listed = table.disj(value for value, _ in tags.values())
        found.append(({every_member(table, key, listed): False}, cofactors.of(frozenset())))
        if not self._present & mask:
            found.append(({absent: True}, cofactors.of(frozenset(tags))))
        return [case for case in found if case[1] != FALSE]
