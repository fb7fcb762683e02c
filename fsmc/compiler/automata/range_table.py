"""Deterministic rows as byte ranges: the form in which machines are built and minimized.

A state that reads one letter out of ``\\w`` goes on with some four ranges of bytes, but a dense row of its machine has 95
columns. So subset construction and minimization work on ranges, and the dense table of a `DFA`, with equal byte columns
merged, is written once at the end: `\\w{0,1000}` has 1.2 million ranges and 29 million dense entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA, Array
from fsmc.jit import kernel


@dataclass(frozen=True, slots=True, eq=False)
class RangeTable:
    """A total DFA over bytes in sparse form. State 0 is DEAD and has no ranges.

    offsets: int64[n_states + 1]; ranges: int32[n_ranges, 3], rows (low byte, high byte, target). State q has the rows
    ``offsets[q]:offsets[q + 1]``, sorted and disjoint; every other byte leads to DEAD.
    accepting: bool[n_states]; start: a state. Nothing says that states are reachable or alive.
    """

    offsets: npt.NDArray[np.int64]
    ranges: npt.NDArray[np.int32]
    accepting: npt.NDArray[np.bool_]
    start: int

    def __post_init__(self) -> None:
        for name in ("offsets", "ranges", "accepting"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def n_states(self) -> int:
        """Number of states, DEAD included."""
        return len(self.accepting)

    def to_dfa(self) -> DFA:
        """The same machine with a dense table: same state numbers, equal byte columns merged, columns by first byte."""
        byte_class = _merge_bytes(self.offsets, self.ranges)
        delta = np.zeros((self.n_states, int(byte_class.max()) + 1), np.int32)
        _fill(self.offsets, self.ranges, byte_class, delta)
        return DFA(byte_class, delta, self.accepting, self.start)


def fill_columns(table: RangeTable, n_columns: int) -> npt.NDArray[np.int32]:
    """int32[n_states, n_columns], the dense table of a machine over symbols 0..n_columns-1 instead of bytes."""
    delta = np.zeros((table.n_states, n_columns), np.int32)
    _fill(table.offsets, table.ranges, np.arange(256, dtype=np.uint8), delta)
    return delta


def to_range_table(dfa: DFA) -> RangeTable:
    """The rows of a DFA as byte ranges."""
    starts = np.flatnonzero(np.diff(dfa.byte_class, prepend=-1))
    bounds = np.append(starts, 256).astype(np.int32)
    columns = dfa.byte_class[starts].astype(np.int32)
    return runs_of(dfa.delta, columns, bounds, dfa.accepting, dfa.start)


def runs_of(
    delta: npt.NDArray[np.int32],
    columns: npt.NDArray[np.int32],
    bounds: npt.NDArray[np.int32],
    accepting: npt.NDArray[np.bool_],
    start: int,
) -> RangeTable:
    """Maximal ranges of equal targets, column by column.

    delta: int32[n, C]; columns: int32[k], the columns to read, in order; the k-th stands for the symbols ``bounds[k]`` to
    ``bounds[k + 1] - 1``.
    """
    n_states = len(delta)
    offsets = np.zeros(n_states + 1, np.int64)
    ranges = np.empty((max(1024, 8 * n_states), 3), np.int32)
    row = _find_runs(delta, columns, bounds, 0, offsets, ranges)
    while row < n_states:
        ranges = _grown(ranges, 2 * len(ranges))
        row = _find_runs(delta, columns, bounds, row, offsets, ranges)
    return RangeTable(offsets, ranges[: offsets[-1]], accepting, start)


def _grown(array: npt.NDArray[np.int32], length: int) -> npt.NDArray[np.int32]:
    larger = np.empty((length, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _find_runs(delta: Array, columns: Array, bounds: Array, row: int, offsets: Array, ranges: Array) -> int:
    """Fill ``ranges`` from ``row`` on; returns the first row that did not fit, or the number of rows."""
    n, n_columns = len(delta), len(columns)
    used = offsets[row]
    while row < n and used + n_columns <= len(ranges):
        previous = 0
        for k in range(n_columns):
            t = delta[row, columns[k]]
            if t != previous:
                if t != 0:
                    ranges[used, 0] = bounds[k]
                    ranges[used, 2] = t
                    used += 1
                previous = t
            if t != 0:
                ranges[used - 1, 1] = bounds[k + 1] - 1
        row += 1
        offsets[row] = used
    return row


@kernel
def _merge_bytes(offsets: Array, ranges: Array) -> Array:
    """uint8[256]: the class of each byte, equal for bytes whose columns are equal, numbered by first byte.

    Bytes between two neighbouring range ends cannot differ: such intervals start in one group, which is split at each
    state that tells two of its members apart. That happens at most 255 times; all else is one look at each interval
    that a range covers.
    """
    is_start = np.zeros(257, np.bool_)
    is_start[0] = True
    for r in range(len(ranges)):
        is_start[ranges[r, 0]] = True
        is_start[ranges[r, 1] + 1] = True
    interval = np.zeros(257, np.int64)  # number of the interval that each byte is in
    k = -1
    for b in range(257):
        if is_start[b]:
            k += 1
        interval[b] = k
    n_intervals = interval[255] + 1
    interval[256] = n_intervals

    group = np.zeros(n_intervals, np.int64)
    size = np.zeros(n_intervals, np.int64)
    size[0] = n_intervals
    n_groups = 1
    seen_in = np.zeros(n_intervals, np.int64)  # by group: last state, plus 1, whose ranges covered a member
    target = np.zeros(n_intervals, np.int32)
    covered = np.zeros(n_intervals, np.int64)
    row = np.zeros(n_intervals, np.int32)
    for q in range(len(offsets) - 1):
        split = False
        for r in range(offsets[q], offsets[q + 1]):
            t = ranges[r, 2]
            for i in range(interval[ranges[r, 0]], interval[ranges[r, 1] + 1]):
                g = group[i]
                if seen_in[g] != q + 1:
                    seen_in[g] = q + 1
                    target[g] = t
                    covered[g] = 0
                elif target[g] != t:
                    split = True
                covered[g] += 1
        for r in range(offsets[q], offsets[q + 1]):
            if split:
                break
            for i in range(interval[ranges[r, 0]], interval[ranges[r, 1] + 1]):
                if covered[group[i]] != size[group[i]]:
                    split = True
        if not split:
            continue
        for i in range(n_intervals):
            row[i] = 0
        for r in range(offsets[q], offsets[q + 1]):
            for i in range(interval[ranges[r, 0]], interval[ranges[r, 1] + 1]):
                row[i] = ranges[r, 2]
        n_old = n_groups
        for g in range(n_old):
            # The first member's part keeps the number, each other target gets a new group.
            first_new = n_groups
            kept = np.int32(-1)
            for i in range(n_intervals):
                if group[i] != g:
                    continue
                if kept < 0:
                    kept = row[i]
                if row[i] != kept:
                    other = first_new
                    while other < n_groups and target[other] != row[i]:
                        other += 1
                    if other == n_groups:
                        n_groups += 1
                        target[other] = row[i]
                        size[other] = 0
                        seen_in[other] = 0
                    group[i] = other
                    size[other] += 1
                    size[g] -= 1

    number = np.zeros(n_intervals, np.int64)  # of each group's class, plus 1
    byte_class = np.zeros(256, np.uint8)
    n_classes = 0
    for b in range(256):
        g = group[interval[b]]
        if number[g] == 0:
            n_classes += 1
            number[g] = n_classes
        byte_class[b] = number[g] - 1
    return byte_class


@kernel
def _fill(offsets: Array, ranges: Array, byte_class: Array, delta: Array) -> None:
    """Write the ranges into the zeroed dense table."""
    classes_before = np.zeros(
        257, np.int64
    )  # classes are numbered by first byte: these are the ones that begin before b
    n_classes = 0
    for b in range(256):
        classes_before[b] = n_classes
        if byte_class[b] == n_classes:
            n_classes += 1
    classes_before[256] = n_classes
    for q in range(len(offsets) - 1):
        for r in range(offsets[q], offsets[q + 1]):
            for c in range(classes_before[ranges[r, 0]], classes_before[ranges[r, 1] + 1]):
                delta[q, c] = ranges[r, 2]
