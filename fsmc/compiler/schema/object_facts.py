"""What is known of an object's members while a way of making a formula true is being searched for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fsmc.compiler.schema.atoms import All, MinProps
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.cofactors import Cofactors
from fsmc.compiler.schema.conditions import every_member, this_name
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
        key = this_name(table, shape.keys.names[mask.bit_length() - 1])
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


def possible(shape: ObjectShape, cube: Cube, place: int) -> bool:
    """Whether members can still come from a place that make every literal true.

    What declared names must have is put together, then a member is searched for each other wish.
    """
    table, satisfiable = shape.table, shape.emptiness.satisfiable
    available = shape.available(place)
    limits = Limits(table, shape.static)
    wanted: list[tuple[int, int]] = []
    least, most = 0, None
    for atom, sign in cube.items():
        payload = shape.table.payload(atom)
        if isinstance(payload, MinProps):
            if sign:
                least = max(least, payload.count)
            else:
                most = payload.count - 1 if most is None else min(most, payload.count - 1)
        elif isinstance(payload, All):
            mask = shape.mask(atom) & available
            if sign:
                limits.add(mask, payload.value)
            else:
                wanted.append((mask, table.negate(payload.value)))

    value = limits.of
    missing = shape.missing(place)  # of which every one can have a value, if nothing limits it (see `satisfiable`)
    members = {c: value(c) for c in bits(limits.classes & missing)}
    several = []
    for mask, what in wanted:
        if shape.is_declared_name(mask):
            c = mask.bit_length() - 1
            members[c] = table.conj((members.get(c, value(c)), what))
        else:
            several.append((mask, what))
    if not all(satisfiable(f) for f in members.values()):
        return False
    return _Places(shape, limits, available, missing, several, least, most).found(0, members, ())


class _Places(NamedTuple):
    """The search for a member for each of the wishes ``several`` (classes, what is wanted), among ``least`` to ``most`` members."""

    shape: ObjectShape
    limits: Limits
    available: int
    missing: int
    several: list[tuple[int, int]]
    least: int
    most: int | None

    def found(self, i: int, members: dict[int, int], extra: tuple[tuple[int, int], ...]) -> bool:
        """Find a member for each of ``several[i:]``: one that is there anyhow, a declared one, or an undeclared one."""
        shape, limits, most = self.shape, self.limits, self.most
        conj, satisfiable, value, n = shape.table.conj, shape.emptiness.satisfiable, limits.of, shape.keys.n_names
        number = (self.missing | sum(1 << c for c in members)).bit_count() + len(extra)
        if most is not None and number > most:
            return False
        if i == len(self.several):
            if self.least <= number:
                return True
            free = self.available & ~self.missing & ~sum(1 << c for c in members)
            return (most is None or self.least <= most) and _room(shape, free, self.least - number, limits)
        mask, what = self.several[i]
        for c in bits(mask & ((1 << n) - 1)):
            together = conj((members.get(c, value(c)), what))
            if satisfiable(together) and self.found(i + 1, {**members, c: together}, extra):
                return True
        for j, (c, f) in enumerate(extra):
            together = conj((f, what))
            if mask >> c & 1 and satisfiable(together):
                if self.found(i + 1, members, (*extra[:j], (c, together), *extra[j + 1 :])):
                    return True
        for c in bits(mask & self.available & shape.keys.others_mask):
            size = shape.keys.sizes[c - n]
            used = sum(other == c for other, _ in extra)
            if (size is None or used < size) and satisfiable(conj((value(c), what))):
                if self.found(i + 1, members, (*extra, (c, conj((value(c), what))))):
                    return True
        return False


def _room(shape: ObjectShape, free: int, wanted: int, limits: Limits) -> bool:
    """Whether so many members can come of the classes ``free``.

    Keys of a finite class that are there already may be counted twice; `SchemaMachine` sees it when the class is used up.
    """
    n, satisfiable = shape.keys.n_names, shape.emptiness.satisfiable
    declared = free & shape.declared_mask
    unlimited = declared & shape.judged & ~limits.classes
    wanted -= (unlimited & shape.known_live).bit_count()
    declared &= ~unlimited
    for c in bits(declared):
        if wanted <= 0:
            return True
        wanted -= satisfiable(limits.of(c))
    for c in bits(free & shape.keys.others_mask):
        if satisfiable(limits.of(c)):
            size = shape.keys.sizes[c - n]
            if size is None:
                return True
            wanted -= size
    return wanted <= 0
