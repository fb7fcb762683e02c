"""The subset construction on bare arrays (Rabin and Scott, 1959): the kernel behind `determinize` and `look`.

A state of the DFA stands for the set of NFA states that may be reached by the same text. What makes it fast:

* Only NFA states that read bytes, or are final, are kept in a set; those with epsilons only are passed through.
* Rows are built as ranges of bytes (see `range_table`), never byte by byte.
* Sets lie one after the other in one pool and are found by a hash that does not depend on their order, so nothing is
  sorted. A hit is compared in full: same size, and each stored member is in the new set.
* A range that leads to one NFA state alone is by far the most common case (each byte inside a character is one) and is
  answered by a memo without building the set.

The kernel never allocates. Where an array is full it returns, the wrapper enlarges the array, and the kernel does the
state at hand again; in between the wrapper looks at the clock and at the limits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.range_table import RangeTable
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import exceeded, kernel, working_seconds

_T = TypeVar("_T", bound=np.generic)

READS, FINAL, ACCEPTS_ALL = 1, 2, 4
"""Marks of NFA states: it has edges; a text may end in it; every text is accepted from it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one construction may use in all; the clock runs from when this object is made."""

    max_states: int
    max_bytes: int
    max_seconds: float
    started: float = field(default_factory=working_seconds)

    def check(self, n_states: int, n_bytes: int) -> None:
        """Raise LimitExceeded if ``n_states``, ``n_bytes`` or the time since the start is too much."""
        if n_states > self.max_states:
            raise LimitExceeded("max_states", self.max_states, n_states, "raise the limit or simplify the pattern")
        if n_bytes > self.max_bytes:
            raise LimitExceeded("max_bytes", self.max_bytes, n_bytes, "raise the limit or simplify the pattern")
        if over := exceeded(self.max_seconds, self.started + self.max_seconds):
            raise LimitExceeded("max_seconds", *over, "raise the limit or simplify the pattern")


@dataclass(frozen=True, slots=True, eq=False)
class PlainNFA:
    """An NFA without guards, by source, with any number of starts and finals.

    edge_offsets: int64[n + 1] into edges: int32[m, 4], rows (source, low byte, high byte, target), disjoint for one source.
    epsilon_offsets: int64[n + 1] into epsilon_targets: int32[k]. marks: uint8[n], sums of READS, FINAL and
    ACCEPTS_ALL. starts: int32[s]. Edges are read-only, the other arrays not.
    """

    edge_offsets: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int32]
    epsilon_offsets: npt.NDArray[np.int64]
    epsilon_targets: npt.NDArray[np.int32]
    marks: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Subsets:
    """Outcome of the construction: the machine, the state of each start, and the NFA states behind each state.

    ``table.start`` is the state of the first start. Members of state q are ``pool[offsets[q]:offsets[q + 1]]``.
    """

    table: RangeTable
    starts: npt.NDArray[np.int32]
    pool: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]


def offsets_by_source(sources: npt.NDArray[np.int32], n_states: int) -> npt.NDArray[np.int64]:
    """int64[n_states + 1]: where the rows of each source begin, for rows sorted by source."""
    offsets = np.zeros(n_states + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=n_states), out=offsets[1:])
    return offsets


def construct_subsets(nfa: PlainNFA, limits: Limits) -> Subsets:
    """Run the kernel to the end. States are numbered in the order in which they are met; unreachable ones do not occur.

    A set that holds an ACCEPTS_ALL state is reduced to that state. Raises LimitExceeded.
    """
    n_nfa = len(nfa.marks)
    n_columns = _count_intervals(nfa.edges)
    known = np.full(n_nfa, -1, np.int32)  # DFA state of each one-element set of targets, once it has been met
    seen = np.zeros(n_nfa, np.int32)
    stack, members = np.empty(n_nfa, np.int32), np.empty(n_nfa, np.int32)
    next_edge, active = np.empty(len(nfa.edges), np.int32), np.empty(len(nfa.edges), np.int32)
    first_edge, ends = np.full(257, -1, np.int32), np.zeros(257, np.bool_)
    start_states = np.zeros(len(nfa.starts), np.int32)
    state = np.zeros(6, np.int64)
    state[_N_STATES] = 1  # state 0 is the empty set, DEAD

    capacity = min(1024 + n_nfa, limits.max_states + 1)
    set_offsets, hashes = np.zeros(capacity + 1, np.int64), np.zeros(capacity, np.uint64)
    accepting, range_offsets = np.zeros(capacity, np.bool_), np.zeros(capacity + 1, np.int64)
    slots = np.zeros(_table_size(capacity), np.int32)
    pool, ranges = (
        np.empty(4 * capacity + n_nfa, np.int32),
        np.empty((4 * capacity + len(nfa.edges) + 256, 3), np.int32),
    )
    while True:
        code = _construct(
            nfa.edge_offsets, nfa.edges, nfa.epsilon_offsets, nfa.epsilon_targets, nfa.marks, nfa.starts, start_states,
            known, seen, stack, members, next_edge, active, first_edge, ends,
            pool, set_offsets, hashes, slots, accepting, range_offsets, ranges, state,
        )  # fmt: skip
        n_states = int(state[_N_STATES])
        n_bytes = n_states * n_columns * 4 + pool.nbytes + ranges.nbytes + 25 * capacity + slots.nbytes
        limits.check(n_states, n_bytes)
        if code == _DONE:
            break
        if code == _STATES_FULL:  # never at max_states + 1 states: the check has raised then
            capacity = min(4 * capacity, limits.max_states + 1)
            set_offsets, hashes = _enlarged(set_offsets, capacity + 1), _enlarged(hashes, capacity)
            accepting, range_offsets = _enlarged(accepting, capacity), _enlarged(range_offsets, capacity + 1)
            slots = np.zeros(_table_size(capacity), np.int32)
            _rehash(hashes, n_states, slots)
        elif code == _POOL_FULL:
            limits.check(n_states, n_bytes + pool.nbytes)  # before it is twice as large
            pool = _enlarged(pool, 2 * len(pool))
        elif code == _RANGES_FULL:
            limits.check(n_states, n_bytes + ranges.nbytes)
            ranges = _enlarged(ranges, 2 * len(ranges))

    table = RangeTable(
        range_offsets[: n_states + 1], ranges[: state[_N_RANGES]], accepting[:n_states], int(start_states[0])
    )
    return Subsets(table, start_states, pool, set_offsets[: n_states + 1])


def _table_size(capacity: int) -> int:
    """A power of two that leaves half of the slots free."""
    return 1 << (2 * capacity - 1).bit_length()


def _enlarged(array: npt.NDArray[_T], length: int) -> npt.NDArray[_T]:
    larger = np.zeros((length, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _count_intervals(edges: npt.NDArray[np.int32]) -> int:
    """Number of byte intervals that the edges tell apart: a bound on the columns of the dense table."""
    starts_here = np.zeros(257, np.bool_)
    starts_here[0] = True
    starts_here[edges[:, 1]] = True
    starts_here[edges[:, 2] + 1] = True
    return int(starts_here[:256].sum())


_N_STATES, _NEXT, _POOL_USED, _N_RANGES, _STAMP, _STEPS = range(6)  # indices into the kernel's state
_DONE, _STATES_FULL, _POOL_FULL, _RANGES_FULL, _PAUSED = range(5)  # why the kernel returned
_STEPS_PER_CALL = 20_000_000  # edges and states looked at between two looks at the clock: under 0.1 s


@kernel
def _rehash(hashes: Array, n_states: int, slots: Array) -> None:
    """Enter states 1..n_states-1 into empty slots."""
    mask = len(slots) - 1
    for q in range(1, n_states):
        i = hashes[q] & np.uint64(mask)
        while slots[i] != 0:
            i = (i + np.uint64(1)) & np.uint64(mask)
        slots[i] = q


@kernel
def _close(
    n_targets: int, epsilon_offsets: Array, epsilon_targets: Array, marks: Array,
    seen: Array, stack: Array, members: Array, pool: Array, set_offsets: Array, hashes: Array, slots: Array,
    accepting: Array, state: Array,
) -> int:  # fmt: skip
    """DFA state of the epsilon closure of ``stack[:n_targets]``, new or old; minus a code if an array is full.

    While it runs, ``seen[x]`` equals the current stamp for the NFA states in the closure.
    """
    if state[_STAMP] >= 2147483646:  # stamps are int32
        for x in range(len(seen)):
            seen[x] = 0
        state[_STAMP] = 0
    state[_STAMP] += 1
    stamp = state[_STAMP]
    depth = 0
    for k in range(n_targets):
        x = stack[k]
        if seen[x] != stamp:
            seen[x] = stamp
            stack[depth] = x
            depth += 1
    n = 0
    key = np.uint64(0)
    final = False
    steps = 0
    while depth > 0:
        steps += 1
        depth -= 1
        x = stack[depth]
        mark = marks[x]
        if mark & 4:  # ACCEPTS_ALL: nothing else matters; a new stamp, so that only x counts as a member
            state[_STAMP] += 1
            stamp = state[_STAMP]
            seen[x] = stamp
            n = 0
            key = np.uint64(0)
            depth = 0
        if mark != 0:
            members[n] = x
            n += 1
            final |= (mark & 2) != 0
            z = (np.uint64(x) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)  # SplitMix64's mixing (Steele, 2014)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            key += z ^ (z >> np.uint64(31))
        if mark & 4:
            break
        for e in range(epsilon_offsets[x], epsilon_offsets[x + 1]):
            y = epsilon_targets[e]
            if seen[y] != stamp:
                seen[y] = stamp
                stack[depth] = y
                depth += 1
    state[_STEPS] += steps
    if n == 0:
        return 0

    mask = np.uint64(len(slots) - 1)
    i = key & mask
    while slots[i] != 0:
        q = slots[i]
        if hashes[q] == key and set_offsets[q + 1] - set_offsets[q] == n:
            same = True
            for k in range(set_offsets[q], set_offsets[q + 1]):
                if seen[pool[k]] != stamp:
                    same = False
                    break
            if same:
                return int(q)
        i = (i + np.uint64(1)) & mask

    q = state[_N_STATES]
    used = state[_POOL_USED]
    if q >= len(hashes):
        return -1  # _STATES_FULL
    if used + n > len(pool):
        return -2  # _POOL_FULL
    for k in range(n):
        pool[used + k] = members[k]
    set_offsets[q] = used
    set_offsets[q + 1] = used + n
    hashes[q] = key
    accepting[q] = final
    slots[i] = q
    state[_N_STATES] = q + 1
    state[_POOL_USED] = used + n
    return int(q)


@kernel
def _construct(
    edge_offsets: Array, edges: Array, epsilon_offsets: Array, epsilon_targets: Array, marks: Array, starts: Array,
    start_states: Array, known: Array, seen: Array, stack: Array, members: Array, next_edge: Array, active: Array,
    first_edge: Array, ends: Array, pool: Array, set_offsets: Array, hashes: Array, slots: Array, accepting: Array,
    range_offsets: Array, ranges: Array, state: Array,
) -> int:  # fmt: skip
    """Go on with the construction until it is done, an array is full or it is time to look at the clock.

    State 0 stands for the starts: its turn comes first, and its "ranges" are the starts instead of bytes.
    """
    state[_STEPS] = 0
    while state[_NEXT] < state[_N_STATES]:
        if state[_STEPS] > _STEPS_PER_CALL:
            return 4  # _PAUSED
        q = state[_NEXT]
        out = first = range_offsets[q]
        if out + 256 > len(ranges):
            return 3  # _RANGES_FULL
        readers, reader = 0, 0
        for k in range(set_offsets[q], set_offsets[q + 1]):
            if marks[pool[k]] & 1:  # READS
                readers += 1
                reader = pool[k]
        # With one reader, its edges are the state's ranges. With several, sweep over the bytes and keep a list of the
        # edges that cover the current one: the target can change only where an edge begins or the byte after one ends.
        at, stop = edge_offsets[reader], edge_offsets[reader + 1]
        if readers > 1:
            at, stop = 256, 0
            for k in range(set_offsets[q], set_offsets[q + 1]):
                x = pool[k]
                state[_STEPS] += edge_offsets[x + 1] - edge_offsets[x]
                for e in range(edge_offsets[x], edge_offsets[x + 1]):
                    at = min(at, edges[e, 1])
                    stop = max(stop, edges[e, 2] + 1)
                    next_edge[e] = first_edge[edges[e, 1]]
                    first_edge[edges[e, 1]] = e
                    ends[edges[e, 2] + 1] = True
        elif q == 0:
            at, stop = 0, len(starts)
        elif readers == 0:
            stop = at
        n_active = 0
        full = False
        t = 0
        while at < stop:
            low = high = 0
            n_targets = 1
            if readers > 1:
                low = at
                if ends[at]:
                    ends[at] = False
                    kept = 0
                    for k in range(n_active):
                        if edges[active[k], 2] >= at:
                            active[kept] = active[k]
                            kept += 1
                    n_active = kept
                e = first_edge[at]
                first_edge[at] = -1
                while e >= 0:
                    active[n_active] = e
                    n_active += 1
                    e = next_edge[e]
                at += 1
                while at < stop and first_edge[at] < 0 and not ends[at]:
                    at += 1
                high = at - 1
                n_targets = n_active
                if full or n_active == 0:
                    continue  # where an array is full, the rest of the sweep only clears first_edge and ends
                for k in range(n_active):
                    stack[k] = edges[active[k], 3]
            elif q == 0:
                stack[0] = starts[at]
                at += 1
            else:
                low, high = edges[at, 1], edges[at, 2]
                stack[0] = edges[at, 3]
                at += 1
            target = stack[0]
            t = known[target] if n_targets == 1 else -1
            if t < 0:
                t = _close(n_targets, epsilon_offsets, epsilon_targets, marks, seen, stack, members, pool, set_offsets,
                           hashes, slots, accepting, state)  # fmt: skip
                if t < 0:
                    full = True
                    if readers > 1:
                        continue
                    break
                if n_targets == 1:
                    known[target] = t
            if q == 0:
                start_states[at - 1] = t
            elif t != 0:
                if out > first and ranges[out - 1, 2] == t and ranges[out - 1, 1] == low - 1:
                    ranges[out - 1, 1] = high
                else:
                    ranges[out, 0] = low
                    ranges[out, 1] = high
                    ranges[out, 2] = t
                    out += 1
        if readers > 1:
            ends[stop] = False
        if full:
            return int(-t)
        state[_STEPS] += 1
        range_offsets[q + 1] = out
        state[_NEXT] = q + 1
        state[_N_RANGES] = out
    return 0
