"""What is known of an object's members while a way of making a formula true is being searched for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fsmc.compiler.schema.atoms import All
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.cofactors import Cofactors
from fsmc.compiler.schema.conditions import every_member, one_of_names
from fsmc.compiler.schema.cubes import Case, Cube
from fsmc.compiler.schema.domains import Domain
from fsmc.compiler.schema.formula import AND, FALSE, TRUE
from fsmc.compiler.schema.residual import ValueFacts

if TYPE_CHECKING:
    from fsmc.compiler.schema.objects import ObjectShape


class ObjectFacts(ValueFacts):
    """Of each class of keys: what a member of it, if there is one, has to be; which members there have to be, and what
    is wanted of those beside."""

    def __init__(self, shape: ObjectShape, place: int, static: int, found: Sequence[frozenset[int]]) -> None:
        super().__init__(shape, static, found)
        self.shape = shape
        self._available = shape.available(place)
        self._present = shape.missing(place)
        self._limited: dict[int, int] = {}
        self._needs: dict[int, list[int]] = {}
        self._changed = 0

    def assume(self, literals: Cube) -> bool:
        """See `Facts`."""
        if not super().assume(literals):
            return False
        table, shape = self.table, self.shape
        limits: dict[int, list[int]] = {}
        self._changed = 0
        for atom, sign in literals.items():
            payload = table.payload(atom)
            if not isinstance(payload, All):
                continue
            mask = shape.mask(atom) & self._available
            if sign:
                self._changed |= mask
                for c in bits(mask):
                    limits.setdefault(c, []).append(payload.value)
            elif shape.is_declared_name(mask):
                self._changed |= mask
                self._present |= mask
                self._needs.setdefault(mask.bit_length() - 1, []).append(table.negate(payload.value))
        for c, values in limits.items():
            self._limited[c] = table.conj((self._value_of(c), *values))
        satisfiable = self.emptiness.satisfiable
        return all(satisfiable(self._needed(c)) for c in bits(self._changed & self._present))

    def _value_of(self, c: int) -> int:
        return self._limited.get(c, self.shape.static[c])

    def _needed(self, c: int) -> int:
        return self.table.conj((self._value_of(c), *self._needs.get(c, ())))

    def consequences(self, atoms: Iterable[int]) -> dict[int, int]:
        """See `Facts`."""
        atoms = list(atoms)
        decided = super().consequences(atoms)
        if not self._changed:
            return decided
        table, surely_empty = self.table, self.emptiness.surely_empty
        for atom in atoms:
            payload = table.payload(atom)
            if not isinstance(payload, All):
                continue
            mask = self.shape.mask(atom) & self._available
            if not mask & self._changed:
                continue
            negated = table.negate(payload.value)
            if all(surely_empty(table.conj((self._value_of(c), negated))) for c in bits(mask)):
                decided[atom] = TRUE
            elif mask & (mask - 1) == 0 and self._present & mask:
                c = mask.bit_length() - 1
                if surely_empty(table.conj((self._needed(c), payload.value))):
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
        shape.keys.mask_of.setdefault(key, mask)
        cofactors = Cofactors(table, formula, frozenset(tags))
        found: list[Case] = []
        for true, value in shape.cells({atom: tag for atom, tag in tags.items() if tag[1]}):
            found.append(({absent: False, every_member(table, key, value): True}, cofactors.of(true)))
        listed = table.disj(value for value, _ in tags.values())
        found.append(({every_member(table, key, listed): False}, cofactors.of(frozenset())))
        if not self._present & mask:
            found.append(({absent: True}, cofactors.of(frozenset(tags))))
        return [case for case in found if case[1] != FALSE]
