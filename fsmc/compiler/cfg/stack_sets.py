"""Sets of stacks: all ways in which a text so far may stand in the rules of a grammar, as one number.

A stack is a row of places, the innermost first, that ends in a *base*: the symbol at whose completion it is used up. A set of stacks is kept
as an acyclic deterministic automaton read from the innermost place on, made of hash-consed nodes: one entry (place, rest) for each place that may
be on top, the rests united. So equal sets are the same number, and a set of exponentially many stacks is as large as its differences: what
parsers call a graph-structured stack (Tomita, 1985), in canonical form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fsmc.compiler.errors import LimitExceeded

Entries: TypeAlias = "tuple[tuple[int, int], ...]"

EMPTY = 0
"""The set of no stacks."""


class StackSets:
    """The pool of sets. entries[s]: (place, rest) rows, ascending; a place below 0 is a base. depth[s]: places of the longest stack.

    check_time: called now and then; may raise.
    """

    def __init__(
        self,
        max_sets: int,
        is_end: Callable[[int], bool],
        absorbs: Callable[[int, int], bool],
        check_time: Callable[[], None],
    ) -> None:
        self.max_sets, self._is_end, self._absorbs, self._check_time = max_sets, is_end, absorbs, check_time
        self._n_looked_at = 0
        self.entries: list[Entries] = [()]
        self.depth = [0]
        self._numbers: dict[Entries, int] = {(): EMPTY}
        self._unions: dict[tuple[int, int], int] = {}
        self._pushed: dict[tuple[int, int], int] = {}

    def of(self, entries: Entries) -> int:
        """The set with these entries."""
        known = self._numbers.get(entries)
        if known is None:
            known = len(self.entries)
            if known >= self.max_sets:
                raise LimitExceeded(
                    "max_stack_sets", self.max_sets, known + 1, "the grammar reads the text in too many ways at once"
                )
            self._numbers[entries] = known
            self.entries.append(entries)
            self.depth.append(1 + max((self.depth[rest] for _, rest in entries), default=-1))
        return known

    def base(self, symbol: int) -> int:
        """The stack that is used up when the symbol is complete."""
        return self.of(((-1 - symbol, EMPTY),))

    def push(self, place: int, rest: int) -> int:
        """The stacks of ``rest`` with a place on top. One that adds nothing is left out: an end, or one that what lies below takes in."""
        if rest == EMPTY or self._is_end(place):
            return rest
        known = self._pushed.get((place, rest))
        if known is None:
            below = self.entries[rest]
            same = tuple(entry for entry in below if entry[0] >= 0 and self._absorbs(entry[0], place))
            if not same:
                known = self.of(((place, rest),))
            elif len(same) == len(below):
                known = rest
            else:
                others = self.of(tuple(entry for entry in below if entry not in same))
                known = self.union(self.of(same), self.of(((place, others),)))
            self._pushed[place, rest] = known
        return known

    def union(self, a: int, b: int) -> int:
        """All stacks of both, without recursion: a set may be as deep as the text is long."""
        if a == b or b == EMPTY:
            return a
        if a == EMPTY:
            return b
        known = self._unions
        wanted = (a, b) if a < b else (b, a)
        pending = [wanted]
        while pending:
            pair = pending[-1]
            if pair in known:
                pending.pop()
                continue
            merged = dict(self.entries[pair[0]])
            missing = []
            self._n_looked_at += 1
            if not self._n_looked_at & 0xFF:
                self._check_time()
            for place, rest in self.entries[pair[1]]:
                other = merged.get(place, EMPTY)
                if other in (EMPTY, rest) or rest == EMPTY:
                    merged[place] = rest or other
                    continue
                inner = (other, rest) if other < rest else (rest, other)
                united = known.get(inner)
                if united is None:
                    missing.append(inner)
                else:
                    merged[place] = united
            if missing:
                pending += missing
            else:
                pending.pop()
                known[pair] = self.of(tuple(sorted(merged.items())))
        return known[wanted]

    def union_of(self, several: list[int]) -> int:
        """All stacks of several sets, two and two: one after the other, each set on the way would be kept."""
        while len(several) > 1:
            pairs = [self.union(a, b) for a, b in zip(several[::2], several[1::2], strict=False)]
            several = pairs + several[len(pairs) * 2 :]
        return several[0] if several else EMPTY

    def grafted(self, stacks: int, below: dict[int, int]) -> int:
        """The stacks with the bases replaced by the sets that ``below`` has for their symbols."""
        done: dict[int, int] = {EMPTY: EMPTY}
        pending = [stacks]
        while pending:
            current = pending[-1]
            if current in done:
                pending.pop()
                continue
            entries = self.entries[current]
            missing = [rest for place, rest in entries if place >= 0 and rest not in done]
            if missing:
                pending += missing
                continue
            pending.pop()
            united = EMPTY
            for place, rest in entries:
                united = self.union(united, below[-1 - place] if place < 0 else self.push(place, done[rest]))
            done[current] = united
        return done[stacks]
