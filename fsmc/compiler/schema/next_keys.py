"""Which keys may come next in an object.

A key may come if some value for it leaves the rest possible. That is not asked of each of a hundred keys by itself, for most of
them it follows from one answer for all: see `NextKeys._at_once`.
"""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from fsmc.compiler.schema.atoms import All
from fsmc.compiler.schema.bits import as_mask, bits
from fsmc.compiler.schema.formula import AND, ATOM, CONSTANT, FALSE, NOT, OR, TRUE

if TYPE_CHECKING:
    from fsmc.compiler.schema.objects import ObjectShape


class _Speaking(NamedTuple):
    atom: int
    value: int


class NextKeys:
    """Answers for one object shape, see `ObjectShape.allowed`."""

    shape: ObjectShape

    def __init__(self, shape: ObjectShape) -> None:
        self.shape, self.table = weakref.proxy(shape), shape.table  # the shape holds this
        self._allowed: dict[tuple[int, int], int] = {}
        self._at_once_known: dict[tuple[int, Hashable, int], tuple[int, int]] = {}
        self._may_come: dict[tuple[int, Hashable, int], bool] = {}

    def allowed(self, residual: int, place: int) -> int:
        """The classes that may come next, as a mask."""
        shape = self.shape
        if residual == TRUE:
            return shape.live(self._in_reach(shape.required, place))
        key = (residual, place)
        known = self._allowed.get(key)
        if known is None:
            wanted = shape.required | shape.wanted(residual, place)
            candidates = shape.live(self._in_reach(wanted, place))
            declared = candidates & shape.declared_mask
            allowed = self._anywhere if shape.any_order else self._in_order
            known, others_too = allowed(residual, place, declared, wanted)
            if others_too:
                known |= self._each(residual, place, candidates & shape.keys.others_mask, 0)
            self._allowed[key] = known
        return known

    def _in_reach(self, wanted: int, place: int) -> int:
        """Classes that may come next as far as the order goes, where the names ``wanted`` have to come."""
        available = self.shape.available(place)
        due = wanted & available
        if self.shape.any_order or not due:
            return available
        return available & ((due & -due) * 2 - 1)

    def _anywhere(self, residual: int, place: int, candidates: int, wanted: int) -> tuple[int, bool]:
        """`allowed` among declared names in any order, and whether undeclared ones may be."""
        touched = self.shape.touched(residual)
        alike = candidates & ~touched
        found = self._each(residual, place, candidates & touched, wanted)
        if not touched & self.shape.counts:
            return found | alike, True
        for kind in (
            alike & self.shape.required,
            alike & ~self.shape.required,
        ):  # each as good as another, if it only counts
            if self._each(residual, place, kind & -kind, wanted):
                found |= kind
        return found, True

    def _in_order(self, residual: int, place: int, candidates: int, wanted: int) -> tuple[int, bool]:
        """`allowed` among declared names in schema order, and whether undeclared ones may be: once there is no way to go on, there
        is none from a later place."""
        shape = self.shape
        touched = shape.touched(residual)
        if touched & shape.counts:
            alike = list(bits(candidates & ~touched & ~shape.required))
            end = bisect.bisect_left(alike, True, key=lambda c: not self._each(residual, place, 1 << c, wanted))
            found = self._each(residual, place, candidates & (touched | shape.required), wanted)
            return found | as_mask(alike[:end], shape.keys.n_classes), True
        barriers = (self._barrier(part, bits(mask)) for part, mask in self._parts(residual, candidates & ~wanted))
        barrier = min((c for c in barriers if c is not None), default=None)
        if barrier is not None:
            candidates &= (2 << barrier) - 1
        found = self._each(residual, place, candidates & touched, wanted)
        return found | candidates & ~touched, barrier is None

    def _barrier(self, residual: int, of: Iterable[int]) -> int | None:
        """The first of the classes ``of`` behind which the residual cannot hold, None if there is none; mostly it is the last, if any.

        None of the classes may be a required name: behind that one, nothing is known any more of the value that it has to have.
        """
        shape, classes = self.shape, list(of)

        def has_to_come(c: int) -> bool:
            place = shape.after(0, c)
            return not shape.feasible(shape.normal(residual, place), place)

        if not classes or not has_to_come(classes[-1]):
            return None
        high, step = len(classes) - 1, 1
        while high > 0 and has_to_come(classes[max(high - step, 0)]):
            high, step = max(high - step, 0), 2 * step
        return classes[bisect.bisect_left(classes, True, max(high - step + 1, 0), high, key=has_to_come)]

    def _parts(self, residual: int, classes: int) -> list[tuple[int, int]]:
        """The components of the residual that speak of some of the classes: (component, of which); of each speaks one at most."""
        touched = self.shape.touched
        return [(p, mask) for p, _ in self.shape.components_of(residual) if (mask := touched(p) & classes)]

    def _each(self, residual: int, place: int, candidates: int, wanted: int) -> int:
        """Those of the classes of which a member may come. wanted: names that have to come."""
        found, open_ = 0, candidates
        if not self.shape.touched(residual) & self.shape.counts:
            for part, classes in self._parts(residual, candidates & ~wanted):
                if classes & (classes - 1):
                    surely, left = self._at_once(part, place, classes)
                    found |= surely
                    open_ ^= classes ^ left
        return found | sum(1 << c for c in bits(open_) if self._comes(residual, place, c))

    def _comes(self, residual: int, place: int, c: int) -> bool:
        """Whether a member of class ``c`` may come: whether `ObjectShape.asked_of` is satisfiable."""
        shape = self.shape
        static = shape.static[c]
        if residual == FALSE or not shape.emptiness.satisfiable(static):
            return False
        part = shape.part_about(residual, c)
        if part == TRUE:
            return True
        after = shape.after(place, c)
        key = (part, shape.context(part, after), c)
        known = self._may_come.get(key)
        if known is None:
            derivative = shape.normal(shape.derivative(part, place, c), after)
            known = self._may_come[key] = shape.attainable(derivative, static, after)
        return known

    def _at_once(self, residual: int, place: int, classes: int) -> tuple[int, int]:
        """(those of the classes that surely may come, those of which it is still open).

        A member changes only the conditions that speak of it. Those that forbid it become false. Its value may be such that all
        others hold as they would without it; where they occur only positively, no other value is better. So what is left of
        the residual where certain conditions are false decides of all classes that those forbid, and it gets harder from place to place.
        """
        shape, table = self.shape, self.table
        key = (residual, shape.context(residual, place), classes)
        known = self._at_once_known.get(key)
        if known is not None:
            return known
        about = self._about(residual, classes)
        groups: dict[frozenset[int], list[int]] = {}
        for c, speaking in about.items():
            groups.setdefault(frozenset(s.atom for s in speaking if s.value == FALSE), []).append(c)
        two_sided = self._two_sided(residual)
        found, open_ = 0, 0
        for forbid, group in groups.items():
            rest = self._without(residual, forbid)
            barrier: int | None = -1  # of some order only; else one place behind all
            if rest != FALSE and shape.any_order:
                end = place | classes & shape.declared_mask
                barrier = None if shape.feasible(shape.normal(rest, end), end) else -1
            elif rest != FALSE:
                barrier = self._barrier(rest, group)
            for c in group:
                others = [s for s in about[c] if s.value != FALSE]
                if barrier is None or c < barrier:
                    value = table.conj((shape.static[c], *(s.value for s in others)))
                    may_come = shape.emptiness.satisfiable(value)
                    found |= may_come << c
                    open_ |= (not may_come) << c
                elif (shape.any_order and rest != FALSE) or any(s.atom in two_sided for s in others):
                    open_ |= 1 << c
        self._at_once_known[key] = found, open_
        return found, open_

    def _about(self, residual: int, classes: int) -> dict[int, list[_Speaking]]:
        """For each of the classes the atoms of the residual that speak of it."""
        about: dict[int, list[_Speaking]] = {c: [] for c in bits(classes)}
        for atom in self.table.atoms(residual):
            payload = self.table.payload(atom)
            assert isinstance(payload, All)
            speaking = _Speaking(atom, payload.value)
            for c in bits(self.shape.mask(atom) & classes):
                about[c].append(speaking)
        return about

    def _two_sided(self, formula: int) -> frozenset[int]:
        """The atoms that may have to be false."""
        kind = self.table.kind(formula)
        if kind in (AND, OR):
            return frozenset().union(*map(self._two_sided, self.table.arguments(formula)))
        return frozenset() if kind in (ATOM, CONSTANT) else self.table.atoms(formula)

    def _without(self, formula: int, false: frozenset[int]) -> int:
        """The formula where these atoms are false."""
        table = self.table
        if false.isdisjoint(table.atoms(formula)):
            return formula
        kind, parts = table.kind(formula), table.arguments(formula)
        if kind == ATOM or (kind == AND and not false.isdisjoint(parts)):
            return FALSE
        left = [self._without(part, false) for part in parts]
        if kind == NOT:
            return table.negate(left[0])
        return (table.conj if kind == AND else table.disj if kind == OR else table.exactly_one)(left)
