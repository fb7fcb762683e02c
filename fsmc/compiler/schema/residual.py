"""What an object or an array has still to do: the part of the algorithm that both share.

A formula over members (items) is followed along the text like a regular expression by its derivatives (Brzozowski 1964).
Before each value the formula is rewritten in terms of *this* value and of the rest (`derivative`, which the subclasses
define); once it is known what holds of the value, what is left is the *residual* (`after_value`). Two questions are asked of
a residual: can it still be made true (`feasible`), and what does that take of the next value (`strongest`). Both look at
its cubes: ways of making it true, conjunctions of literals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.cubes import Cube, cubes
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas

MAX_OUTCOME_CUBES = 5_000


@dataclass(frozen=True, slots=True)
class Member:
    """An atom: the value being written (a member's or an item's) satisfies the value formula ``value``."""

    value: int


class Shape(ABC):
    """An object or array formula that has to hold, with what is watched beside it.

    watches: formulas over the same type, of which the caller wants to know whether they hold. residual: what has to hold
    and changes with the members or items; what never changes is kept apart by the subclasses. A *place* is an int that says
    how far the object or array has come.
    """

    residual: int

    def __init__(self, watches: tuple[int, ...], table: Formulas, emptiness: Emptiness) -> None:
        self.watches, self.table, self.emptiness = watches, table, emptiness
        self._feasible: dict[tuple[int, int], bool] = {}

    @abstractmethod
    def normal(self, formula: int, place: int) -> int:
        """The formula at this place, without atoms that the place already decides."""

    @abstractmethod
    def _possible(self, cube: Cube, place: int) -> bool:
        """Whether members or items can still come from this place that make every literal true."""

    def _implied(self, cube: Cube, place: int) -> Callable[[int], int] | None:
        """What literals about what is still to come imply: None if they contradict each other, else a function from
        another atom to TRUE, FALSE or, where that is not clear, the atom."""
        return lambda atom: atom

    def at_start(self) -> tuple[int, tuple[int, ...]]:
        """(residual, watches) before anything is written."""
        return self.normal(self.residual, 0), tuple(self.normal(watch, 0) for watch in self.watches)

    def satisfiable(self) -> bool:
        """Whether there is such an object or array at all."""
        return self.feasible(self.at_start()[0], 0)

    # ── one value ────────────────────────────────────────────────────────────────────────────────────────────────────

    def watched_values(self, derivatives: tuple[int, ...]) -> tuple[int, ...]:
        """The value formulas on whose truth for this value the derivatives depend, sorted."""
        payloads = map(self.table.payload, frozenset().union(*map(self.table.atoms, derivatives)))
        return tuple(sorted(p.value for p in payloads if isinstance(p, Member)))

    def after_value(self, derivative: int, truth: dict[int, bool], place: int) -> int:
        """The residual after a value, once it is known which of `watched_values` hold of it. place: the one after it."""

        def value_of(atom: int) -> int:
            payload = self.table.payload(atom)
            return (TRUE if truth[payload.value] else FALSE) if isinstance(payload, Member) else atom

        return self.normal(self.table.substitute(derivative, value_of), place)

    def this_value(self, formula: int) -> int:
        """The formula over members "the value being written satisfies ``formula``"."""
        return formula if formula in (TRUE, FALSE) else self.table.atom(Member(formula))

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def feasible(self, residual: int, place: int) -> bool:
        """Whether an object or array with this residual can be completed from this place."""
        if residual == FALSE:
            return False
        key = (residual, place)
        known = self._feasible.get(key)
        if known is None:
            known = any(self._possible(cube, place) for cube in self._cubes(residual, place, TRUE, []))
            if known or not self.emptiness.leaning:
                self._feasible[key] = known
        return known

    def strongest(self, derivative: int, static: int, place: int) -> int:
        """The strongest formula for this value that leaves the rest possible: with ``static``, what each of the ways to
        make the derivative true asks of it. FALSE if there is none. place: the one after the value.

        Raises LimitExceeded where more than ``MAX_OUTCOME_CUBES`` ways differ in that.
        """
        found: list[frozenset[int]] = []
        for cube in self._cubes(derivative, place, static, found):
            if self._possible(cube, place):
                here = self._here(cube)
                found.append(here)
                if not here:
                    break  # nothing is asked of the value: no other way could ask less
                if len(found) > MAX_OUTCOME_CUBES:
                    raise LimitExceeded("alternatives of one value", MAX_OUTCOME_CUBES, len(found))
        return self.table.conj((static, self.table.disj(map(self.table.conj, found))))

    def _cubes(self, formula: int, place: int, static: int, found: list[frozenset[int]]) -> Iterator[Cube]:
        return cubes(self.table, formula, lambda cube: self._decide(cube, place, static, found))

    def _here(self, cube: Cube) -> frozenset[int]:
        """What a cube asks of the value being written: value formulas."""
        literals = ((self.table.payload(atom), sign) for atom, sign in cube.items())
        return frozenset(
            p.value if sign else self.table.negate(p.value) for p, sign in literals if isinstance(p, Member)
        )

    def _decide(self, cube: Cube, place: int, static: int, found: list[frozenset[int]]) -> Callable[[int], int] | None:
        """As `cubes.Decide`. found: what the cubes asked of the value that were found so far."""
        table, emptiness = self.table, self.emptiness
        here = self._here(cube)
        value = table.conj((static, *here))
        if here and any(known <= here for known in found):
            return None  # this cube would add nothing
        if here and not emptiness.satisfiable(value):
            return None
        implied = self._implied(cube, place)
        if implied is None:
            return None

        def decided(atom: int) -> int:
            payload = table.payload(atom)
            if not isinstance(payload, Member):
                return implied(atom)
            if not here:
                return atom
            if emptiness.surely_empty(table.conj((value, table.negate(payload.value)))):
                return TRUE
            return FALSE if emptiness.surely_empty(table.conj((value, payload.value))) else atom

        return decided
