"""Whether items can still come that make conditions on an array true.

Mostly that is clear from the stretches of indices of which the same is asked; where wanted items compete for indices, all
choices are searched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from fsmc.compiler.errors import LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema.atoms import Count, El, MinItems, Unique
from fsmc.compiler.schema.cubes import Cube
from fsmc.compiler.schema.formula import TRUE

if TYPE_CHECKING:
    from fsmc.compiler.schema.arrays import ArrayShape

MAX_SEARCH = 20_000


class Placing:
    """Answers for one array shape, see `Shape._possible`."""

    def __init__(self, shape: ArrayShape) -> None:
        self.shape, self.table, self.emptiness = shape, shape.table, shape.emptiness

    def possible(self, cube: Cube, place: int) -> bool:
        """Whether items can still come that make every literal true.

        Wanted items are put one by one at the first index that can take them; where at-most counts or a shortage of
        indices make that choice matter, all choices are searched.
        """
        table = self.table
        shape = self.shape
        least, most = shape.least, shape.most
        unique: list[str] = [shape.unique_pointer] if shape.unique else []
        repeated: list[str] = []
        always = list(shape.static)
        wanted: list[tuple[int, int | None, int]] = []  # an item in [low, high) that satisfies the formula
        bounded: list[tuple[int, int]] = []  # at most n items satisfy the formula
        for atom, sign in cube.items():
            payload = table.payload(atom)
            if isinstance(payload, El):
                if sign:
                    always.append(payload)
                else:
                    wanted.append((max(payload.low, place), payload.high, table.negate(payload.value)))
            elif isinstance(payload, Count):
                if sign:
                    if payload.count > MAX_SEARCH:
                        hint = "so many wanted items cannot be placed one by one: lower minContains"
                        raise LimitExceeded("steps to place array items", MAX_SEARCH, payload.count, hint)
                    wanted += [(place, None, payload.value)] * payload.count
                else:
                    bounded.append((payload.value, payload.count - 1))
            elif isinstance(payload, MinItems):
                if sign:
                    least = max(least, payload.count)
                else:
                    most = payload.count - 1 if most is None else min(most, payload.count - 1)
            elif isinstance(payload, Unique):
                (unique if sign else repeated).append(payload.pointer)
        if (most is not None and most < least) or (unique and repeated):
            return False
        horizon = max([least, shape.last, place, *(low + 1 for low, _, _ in wanted)]) + len(wanted)
        horizon = horizon if most is None else min(horizon, most)

        def at(index: int) -> int:
            return table.conj(e.value for e in always if covers(e, index))

        if unique:
            if not self._enough_values(always, place, least):
                return False
            kinds = {value for _, value in self._stretches(always, place, horizon)}
            if (wanted or bounded) and not self._differ(kinds, horizon - place, wanted, bounded, unique[0]):
                return False
        if repeated:
            stretches = self._stretches(always, place, horizon + 1 if most is None else min(horizon + 1, most))
            if not self._repeat(stretches, most, place, wanted, bounded, repeated[0]):
                return False
        if not bounded:
            if not self._can_fill(always, place, least):
                return False
            if not wanted:
                return True
            placed = self._place_freely(always, place, horizon, wanted)
            if placed is not None:
                return placed
        search = _Search(self, horizon, least, at, wanted, bounded, set(), itertools.count())
        return search.found(place, tuple(range(len(wanted))), tuple(n for _, n in bounded))

    def _enough_values(self, always: list[El], place: int, end: int) -> bool:
        """Whether the items from ``place`` to ``end`` can all be different.

        Where they are all of one kind, that takes as many values of it. Where a kind has few values and there are others, items
        would have to be chosen with the later ones in mind, which is refused.
        """
        kinds: dict[int, int] = {}
        for n, kind in self._stretches(always, place, end):
            kinds[kind] = kinds.get(kind, 0) + n
        for kind, count in kinds.items():
            if count > 1 and not self.emptiness.count_at_least(kind, count):
                return False
            if len(kinds) > 1 and not self.emptiness.count_at_least(kind, end - place):
                raise UnsupportedSchemaError(
                    "is not supported for required items of different kinds of which one has few values",
                    self.shape.unique_pointer,
                    "uniqueItems",
                )
        return True

    def _stretches(self, always: list[El], place: int, end: int) -> list[tuple[int, int]]:
        """(how many items, what all of them have to be), one after the other from ``place`` to ``end``."""
        if end <= place:
            return []
        cuts = [*sorted({place, *(b for e in always for b in (e.low, e.high or 0) if place < b < end)}), end]
        return [
            (high - low, self.table.conj(e.value for e in always if covers(e, low)))
            for low, high in itertools.pairwise(cuts)
        ]

    def _differ(
        self,
        values: set[int],
        n: int,
        wanted: list[tuple[int, int | None, int]],
        bounded: list[tuple[int, int]],
        pointer: str,
    ) -> bool:
        """Whether the wanted items can all be different; what the items before were never matters.

        That is clear where each can have as many values as there are items, and where all are wanted alike, anywhere among
        items of one kind: then those written before that would have done have been counted. Else it is refused.
        """
        conj, negate, enough = self.table.conj, self.table.negate, self.emptiness.count_at_least
        marks = [conj(choice) for choice in itertools.product(*((f, negate(f)) for f, _ in bounded))]
        whats = {TRUE, *(what for _, _, what in wanted)}
        several = {conj(parts) for parts in itertools.product(values, whats, marks)}
        if all(enough(f, n + 1) for f in several if self.emptiness.satisfiable(f)):
            return True
        alike = {(low, high, what) for low, high, what in wanted}
        if len(values) == 1 and len(alike) == 1 and not bounded and wanted[0][1] is None:
            return enough(conj((*values, wanted[0][2])), len(wanted))
        raise UnsupportedSchemaError(
            "is not supported beside conditions on items that few values satisfy", pointer, "uniqueItems"
        )

    def _repeat(
        self,
        stretches: list[tuple[int, int]],
        most: int | None,
        place: int,
        wanted: list[tuple[int, int | None, int]],
        bounded: list[tuple[int, int]],
        pointer: str,
    ) -> bool:
        """Whether some item can come that equals another: clear where the array may go on for ever with items that nothing
        counts, or where all items are of one kind. Else it is refused."""
        conj, negate, satisfiable = self.table.conj, self.table.negate, self.emptiness.satisfiable
        reached = list(itertools.takewhile(lambda stretch: satisfiable(stretch[1]), stretches))
        endless = most is None and len(reached) == len(stretches)
        if endless and satisfiable(conj((stretches[-1][1], *(negate(f) for f, _ in bounded)))):
            return True
        if not wanted and not bounded and len({value for _, value in reached}) <= 1:
            return place + sum(n for n, _ in reached) >= max(place + 1, 2)
        raise UnsupportedSchemaError(
            "is not supported negated where items are of different kinds or counted", pointer, "uniqueItems"
        )

    def _place_freely(
        self, always: list[El], place: int, horizon: int, wanted: list[tuple[int, int | None, int]]
    ) -> bool | None:
        """Whether the wanted items have room, where that is clear stretch by stretch; None where they compete for indices."""
        satisfiable, conj = self.emptiness.satisfiable, self.table.conj
        cuts = {place, *(low for low, _, _ in wanted), *(high or 0 for _, high, _ in wanted)}
        cuts |= {b for e in always for b in (e.low, e.high or 0)}
        stretches = []
        bounds = [*sorted(b for b in cuts if place <= b < horizon), horizon]
        for begin, end in itertools.pairwise(bounds):
            value = conj(e.value for e in always if covers(e, begin))
            if not satisfiable(value):
                break  # no array gets past this index
            stretches.append((begin, end, value))
        competing = False
        for low, high, what in wanted:
            fits = [
                (max(begin, low), end)
                for begin, end, value in stretches
                if end > low and (high is None or begin < high) and satisfiable(conj((value, what)))
            ]
            if not fits:
                return False
            competing = competing or all(end - begin < len(wanted) for begin, end in fits)
        return None if competing else True

    def _can_fill(self, always: list[El], place: int, end: int) -> bool:
        """Whether each index from ``place`` to ``end`` can be filled: one question for each stretch of equal conditions."""
        cuts = sorted({place, *(b for e in always for b in (e.low, e.high or 0) if place < b < end)})
        return end <= place or all(
            self.emptiness.satisfiable(self.table.conj(e.value for e in always if covers(e, cut))) for cut in cuts
        )


class _Search(NamedTuple):
    """Depth-first over indices: which of the wanted items stand here, which bounded formulas this item satisfies.

    at: what every item at an index has to satisfy. failed: places from which there is no way on. steps: counted.
    """

    placing: Placing
    horizon: int
    least: int
    at: Callable[[int], int]
    wanted: list[tuple[int, int | None, int]]
    bounded: list[tuple[int, int]]
    failed: set[tuple[int, tuple[int, ...], tuple[int, ...]]]
    steps: Iterator[int]

    def found(self, index: int, open_: tuple[int, ...], left: tuple[int, ...]) -> bool:
        """Whether there is a way on from an index. open_: the wishes that are left; left: how many more of each bounded formula."""
        table, satisfiable = self.placing.table, self.placing.emptiness.satisfiable
        wanted = self.wanted
        if not open_ and index >= self.least:
            return True
        if index >= self.horizon or (index, open_, left) in self.failed:
            return False
        if next(self.steps) > MAX_SEARCH:
            raise LimitExceeded("steps to place array items", MAX_SEARCH, MAX_SEARCH, "simplify contains and items")
        table.clock.check()
        here = [i for i in open_ if wanted[i][0] <= index and (wanted[i][1] is None or index < (wanted[i][1] or 0))]
        distinct: dict[int, int] = {}  # equal wishes are interchangeable: of each keep the first
        for i in here:
            distinct.setdefault(wanted[i][2], i)
        for chosen in _subsets(tuple(distinct.values())):
            value = table.conj((self.at(index), *(wanted[i][2] for i in chosen)))
            if not satisfiable(value):
                continue
            rest = tuple(i for i in open_ if i not in chosen)
            for taken in itertools.product((False, True), repeat=len(self.bounded)):
                if any(t and n == 0 for t, n in zip(taken, left, strict=True)):
                    continue
                marks = (f if t else table.negate(f) for (f, _), t in zip(self.bounded, taken, strict=True))
                if satisfiable(table.conj((value, *marks))):
                    if self.found(index + 1, rest, tuple(n - t for n, t in zip(left, taken, strict=True))):
                        return True
        self.failed.add((index, open_, left))
        return False


def covers(element: El, index: int) -> bool:
    """Whether a condition is on the item at this index."""
    return element.low <= index and (element.high is None or index < element.high)


def _subsets(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All subsets, larger ones first: an item that serves several wishes leaves more room."""
    for n in range(len(items), -1, -1):
        yield from itertools.combinations(items, n)
