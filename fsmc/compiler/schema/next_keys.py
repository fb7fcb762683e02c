"""Which keys may come next in an object.

A key may come if some value for it leaves the rest possible. That is not asked of each of a hundred keys by itself, for most of
them it follows from one answer for all: see `NextKeys._surely`.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

from fsmc.compiler.schema.atoms import All
from fsmc.compiler.schema.bits import as_mask, bits
from fsmc.compiler.schema.formula import FALSE, TRUE

if TYPE_CHECKING:
    from fsmc.compiler.schema.objects import ObjectShape

FEW = 8
"""Conditions on so many classes at most are looked at only where such a class is."""


class _Speaking(NamedTuple):
    atom: int
    value: int
    classes: int


class NextKeys:
    """Answers for one object shape, see `ObjectShape.allowed`."""

    def __init__(self, shape: ObjectShape) -> None:
        self.shape, self.table = shape, shape.table
        self._allowed: dict[tuple[int, int], int] = {}
        self._may_come: dict[tuple[int, object, int], bool] = {}

    def allowed(self, residual: int, place: int) -> int:
        """The classes that may come next, as a mask."""
        shape = self.shape
        if residual == TRUE:
            return self._in_reach(shape.required, place) & shape.live
        key = (residual, place)
        known = self._allowed.get(key)
        if known is None:
            wanted = shape.required | shape.wanted(residual, place)
            candidates = self._in_reach(wanted, place) & shape.live
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
        barrier = self._barrier(residual, list(bits(touched & candidates)))
        if barrier is not None:
            candidates &= (2 << barrier) - 1
        found = self._each(residual, place, candidates & touched, wanted)
        return found | candidates & ~touched, barrier is None

    def _barrier(self, residual: int, classes: list[int]) -> int | None:
        """The first of the declared names that cannot be left out, None if there is none; mostly it is the last, if any."""
        shape = self.shape

        def has_to_come(c: int) -> bool:
            return not shape.feasible(shape.normal(residual, c + 1), c + 1)

        low, high, step = 0, len(classes), 1
        while low < high and has_to_come(classes[high - 1]):
            high -= 1
            low, step = max(0, high - step), 2 * step
            if low < high and not has_to_come(classes[low]):
                high = bisect.bisect_left(classes, True, low + 1, high, key=has_to_come)
                break
            high = low
        return classes[high] if high < len(classes) else None

    def _each(self, residual: int, place: int, candidates: int, wanted: int) -> int:
        """Those of the classes of which a member may come. wanted: names that have to come."""
        surely = self._surely(residual, place, candidates & ~wanted)
        return surely | sum(1 << c for c in bits(candidates & ~surely) if self._comes(residual, place, c))

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

    def _surely(self, residual: int, place: int, classes: int) -> int:
        """Those of the classes that may come since the rest can hold even if none of the others comes any more.

        A member changes only the conditions that speak of it. Its value can be such that they hold as they would without it,
        but for those that forbid it: these become false. If what is left can hold then, from a place behind all these classes,
        the member may come.
        """
        shape, table = self.shape, self.table
        if classes & (classes - 1) == 0 or shape.touched(residual) & shape.counts:
            return 0
        declared = classes & shape.declared_mask
        if shape.any_order:
            end = place | declared
        else:
            end = declared.bit_length() if declared == classes else shape.keys.n_names + 1
        speaking: dict[int, list[_Speaking]] = {}
        broad: list[_Speaking] = []
        for atom in table.atoms(residual):
            payload = table.payload(atom)
            assert isinstance(payload, All)
            of_atom = _Speaking(atom, payload.value, shape.mask(atom) & classes)
            if of_atom.classes.bit_count() > FEW:
                broad.append(of_atom)
            else:
                for c in bits(of_atom.classes):
                    speaking.setdefault(c, []).append(of_atom)
        possible: dict[frozenset[int], bool] = {}
        found = 0
        for c in bits(classes):
            about = [*speaking.get(c, ()), *(s for s in broad if s.classes >> c & 1)]
            forbid = frozenset(s.atom for s in about if s.value == FALSE)
            if forbid not in possible:
                rest = table.substitute(residual, lambda atom, forbid=forbid: FALSE if atom in forbid else atom)  # type: ignore[misc]
                possible[forbid] = shape.feasible(shape.normal(rest, end), end)
            if possible[forbid]:
                value = table.conj((shape.static[c], *(s.value for s in about if s.value != FALSE)))
                found |= shape.emptiness.satisfiable(value) << c
        return found
