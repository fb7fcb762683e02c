"""The states of strings of bounded length, in a lazy machine: a block of counts at a time, made as texts get there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import Alike, Counted
from fsmc.compiler.automata.tables import FOREVER
from fsmc.compiler.schema.atoms import STRING
from fsmc.compiler.schema.counted import CountedString
from fsmc.compiler.schema.outcome_dfa import own_class

ENTRIES_AT_ONCE = 1 << 12
"""Edges of a counted string that are made together, for one count at least."""

MIN_ROOM = 12
"""Nearer to the bound than so many bytes, a counted string's mask is walked on its own: it is small."""

_ANY_STRING = (STRING, None)
"""The name of the block of all strings."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedBlock(Alike):
    """The key of the states of a counted string for some counts from ``first`` on."""

    string: CountedBlocks
    first: int

    def build(self, state: int) -> None:
        """Make the row of a state, and mostly of all."""
        self.string.build(self.first, state)

    def like(self, state: int) -> tuple[int, int]:
        """See `Alike`."""
        return self.string.like(self.first, state)

    def counted(self, state: int) -> Counted | None:
        """See `Alike`."""
        return self.string.bounds(self.first, state)


class CountedBlocks:
    """The states of a `CountedString` in a machine: blocks of counts, made as texts get there.

    exits: for each outcome, the code of the closing quote. name: that of the machine without the count, see `Block`.
    """

    def __init__(self, rsm: LazyRSM, counted: CountedString, exits: list[int], name: Hashable) -> None:
        self.rsm, self.counted, self._name = rsm, counted, name
        self._uncounted: int | None = None
        self._byte_class, _ = own_class(counted.dfa, b'"')
        self._map = rsm.class_map(self._byte_class)
        self._exits = np.array([*exits, 0], np.int32)  # [-1]: of a state in which the text may not end
        self._loops = counted.content.loops
        self._blocks: dict[int, int] = {}
        self._n_counts = max(1, min(32, ENTRIES_AT_ONCE // counted.dfa.delta.size))  # in a block

    @property
    def start(self) -> int:
        """The state after the opening quote."""
        return self._offset(0) + self.counted.dfa.start

    def _offset(self, count: int) -> int:
        """What to add to a state of the uncounted machine, after ``count`` characters."""
        n = self.counted.dfa.n_states
        block, place = divmod(count, self._n_counts)
        if block not in self._blocks:
            key = CountedBlock(self, block * self._n_counts)
            self._blocks[block] = self.rsm.reserve(self._n_counts * n, key)
        return self._blocks[block] + place * n

    def like(self, first: int, state: int) -> tuple[int, int]:
        """The state without the count, and how many bytes surely do not bring the text too near to the bound: each is a
        character at most, and what remains must leave room for the shortest rest that any state has."""
        counted = self.counted
        count, q = divmod(state - self._offset(first), counted.dfa.n_states)
        count += first
        room = FOREVER if counted.maximum is None else counted.maximum - count - counted.longest_short_rest
        if not counted.may_end(count) or room < MIN_ROOM:
            return 0, 0
        return self._without_count() + q, room

    def bounds(self, first: int, state: int) -> Counted | None:
        """How many characters have to come, and may, if any will do."""
        if self._name != _ANY_STRING:
            return None
        counted = self.counted
        count, q = divmod(state - self._offset(first), counted.dfa.n_states)
        count += first
        high = FOREVER if counted.maximum is None else counted.maximum - count
        offset = self._without_count()
        return Counted(offset + q, counted.minimum - count, high, self._name, offset, counted.whole)

    def _without_count(self) -> int:
        """What to add to a state of the uncounted machine where there is no count."""
        with self.rsm.lock:
            if self._uncounted is None:
                dfa = self.counted.dfa
                delta = np.concatenate((dfa.delta, dfa.delta[:, dfa.byte_class[ord('"')], None]), axis=1)
                quote, ends = self._byte_class[ord('"')], dfa.outcome >= 0
                delta[ends, quote] = self._exits[dfa.outcome[ends]]
                self._uncounted = self.rsm.add_block(
                    self._byte_class, delta, np.full(len(delta), -1, np.int32), self._name
                )
        return self._uncounted

    def build(self, first: int, state: int) -> None:
        """Make the rows for the counts from ``first`` on; only that of ``state`` where there would be many for one count."""
        counted, dfa = self.counted, self.counted.dfa
        n_counts = self._n_counts
        if dfa.delta.size > ENTRIES_AT_ONCE:
            start = self._offset(first)
            row = counted.row(state - start, first, start, self._offset(counted.next_count(first)))
            outcome = dfa.outcome[state - start] if counted.may_end(first) else -1
            quote = self._exits[outcome] if outcome >= 0 else row[dfa.byte_class[ord('"')]]
            codes = np.empty((1, len(row) + 1), np.int32)
            codes[0, :-1], codes[0, -1] = row, quote
            self.rsm.set_rows(
                state,
                self._map,
                codes,
                loops=int(self._loops[state - start]),
                room=counted.room_of(state - start, first),
            )
            return
        counts = range(first, first + n_counts)
        here = self._offset(first) + dfa.n_states * np.arange(n_counts)
        there = np.array([self._offset(counted.next_count(count)) for count in counts])
        edges = counted.rows(counts, here, there)
        rows = np.concatenate((edges, edges[:, :, dfa.byte_class[ord('"')], None]), axis=2)
        ends = dfa.outcome >= 0
        may_end = np.array([counted.may_end(count) for count in counts])
        quote = rows[:, :, -1]
        quote[np.ix_(may_end, ends)] = self._exits[dfa.outcome[ends]]
        codes, room = rows.reshape(n_counts * dfa.n_states, -1), counted.room(counts).reshape(-1)
        loops = np.tile(self._loops, n_counts)
        self.rsm.set_rows(self._blocks[first // n_counts], self._map, codes, loops=loops, room=room)
