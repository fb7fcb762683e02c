"""The smallest DFA of a language, and how partitions of the states come about on the way to it.

Moore (1956): start with the blocks "accepts" and "does not", and split blocks whose states lead, on some byte, to
different blocks; after round r two states share a block iff no word of at most r bytes tells them apart. When nothing
splits any more, the blocks are the states of the minimal DFA (Myhill and Nerode). Done plainly, each round looks at every
state: hopeless for ``\\w{0,1000}``, which takes 3,000 rounds over 309,000 states. Here a round looks only at states that
have a successor whose block changed, and of a block that splits, the largest part keeps its number (Hopcroft's smaller half,
1971), so that a state is renumbered at most log n times. Yet the rounds stay *synchronous*, which Hopcroft's are not: the
token masks need the partition after exactly r rounds (see `partition_history`).

States of a block are told apart by a signature that is *linear* in the successors' blocks, modulo 2^64:

    signature(q) = sum over ranges (low, high, t) of q of  (W[high + 1] - W[low]) * R[block(t)]

with W the running sum of a random number per byte and R a random number per block. It does not depend on how a row is cut into
ranges, and when a successor moves from one block to another it is corrected by one multiplication, without looking at the
row. Equal rows have equal signatures; states with equal signatures are compared in full before they share a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA, Array
from fsmc.compiler.automata.range_table import RangeTable, runs_of, to_range_table
from fsmc.jit import kernel


def minimize(dfa: DFA) -> DFA:
    """The minimal DFA of the same language, in canonical form: equal languages give equal arrays.

    States are numbered breadth first from the start (1), bytes in order; bytes with equal columns share a class, numbered
    by first byte. Time O(m log n) for m ranges of bytes that lead on from n states.

    >>> from fsmc.compiler.automata.determinize import determinize
    >>> from fsmc.compiler.automata.nfa import thompson
    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> raw = determinize(thompson(parse_regex("axc|bxc")))
    >>> raw.n_states, minimize(raw).n_states
    (7, 5)
    """
    return minimize_ranges(to_range_table(dfa)).to_dfa()


def minimize_ranges(table: RangeTable) -> RangeTable:
    """The same on ranges; states that are unreachable or cannot reach acceptance are dropped on the way."""
    return quotient(table, refine(table, table.accepting.astype(np.int32)))


def refine(table: RangeTable, initial: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The coarsest congruence that refines ``initial`` (int32[n], numbers from 0 to n at most), as block numbers int32[n]."""
    blocks: npt.NDArray[np.int32] = initial.copy()
    _run(table, blocks, _NO_ROUNDS, _NO_HISTORY)
    return blocks


def quotient(table: RangeTable, blocks: npt.NDArray[np.int32]) -> RangeTable:
    """One state per reachable block of a congruence (int32[n]), numbered breadth first from the start, bytes in order.

    The block of DEAD is state 0; it must not accept.
    """
    offsets, ranges, members = _take_quotient(table.offsets, table.ranges, blocks, int(blocks.max()) + 1, table.start)
    return RangeTable(offsets, ranges, table.accepting[members], int(blocks[table.start] != blocks[0]))


def partition_history(
    delta: npt.NDArray[np.int32], initial: npt.NDArray[np.int32], rounds: Sequence[int]
) -> npt.NDArray[np.int32]:
    """Blocks of states that agree on all words up to given lengths.

    delta: int32[n, C] of a `DFA` (row 0 is 0); initial: int32[n], any numbers; rounds: ascending. Returns
    int32[len(rounds), n]: in row i, two states have the same number iff each word of at most ``rounds[i]`` symbols takes
    both to states with the same initial number.

    >>> chain = np.array([[0], [2], [3], [0]], np.int32)  # 1 → 2 → 3 → DEAD
    >>> partition_history(chain, np.array([0, 1, 1, 1], np.int32), [0, 1, 2]).tolist()
    [[0, 1, 1, 1], [0, 1, 1, 2], [0, 1, 3, 2]]
    """
    n_states, n_columns = delta.shape
    wanted = np.array(rounds, np.int64)
    if wanted.size and (wanted[0] < 0 or (np.diff(wanted) < 0).any()):
        raise ValueError(f"rounds must ascend from 0 or more, not {list(rounds)}")
    columns, bounds = np.arange(n_columns, dtype=np.int32), np.arange(n_columns + 1, dtype=np.int32)
    table = runs_of(delta, columns, bounds, np.zeros(n_states, np.bool_), 0)
    blocks = np.unique(initial, return_inverse=True)[1].reshape(-1).astype(np.int32)
    history = np.empty((len(wanted), n_states), np.int32)
    if wanted.size:
        _run(table, blocks, wanted, history)
    return history


def _run(
    table: RangeTable, blocks: npt.NDArray[np.int32], wanted: npt.NDArray[np.int64], history: npt.NDArray[np.int32]
) -> None:
    inverse = _invert(table.offsets, table.ranges)
    _refine(table.offsets, table.ranges, *inverse, blocks, int(blocks.max()) + 1, wanted, history)


_NO_ROUNDS, _NO_HISTORY = np.empty(0, np.int64), np.empty((0, 0), np.int32)


@kernel
def _mix(x: Any) -> Any:
    """SplitMix64's output function (Steele, Lea, Flood 2014): a fixed random-looking number for each x."""
    z = (np.uint64(x) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _invert(offsets: Array, ranges: Array) -> tuple[Array, Array, Array]:
    """Ranges by target: int64[n + 1] offsets, int32[m] sources, uint64[m] weights ``W[high + 1] - W[low]``."""
    n, m = len(offsets) - 1, len(ranges)
    weight_below = np.zeros(257, np.uint64)
    for b in range(256):
        weight_below[b + 1] = weight_below[b] + _mix(np.uint64(b))
    in_offsets = np.zeros(n + 2, np.int64)  # one longer: while rows are placed, the offsets run one place ahead
    for r in range(m):
        in_offsets[ranges[r, 2] + 2] += 1
    for q in range(n):
        in_offsets[q + 2] += in_offsets[q + 1]
    sources = np.empty(m, np.int32)
    weights = np.empty(m, np.uint64)
    for q in range(n):
        for r in range(offsets[q], offsets[q + 1]):
            place = in_offsets[ranges[r, 2] + 1]
            in_offsets[ranges[r, 2] + 1] = place + 1
            sources[place] = q
            weights[place] = weight_below[ranges[r, 1] + 1] - weight_below[ranges[r, 0]]
    return in_offsets[: n + 1], sources, weights


@kernel
def _same_row(offsets: Array, ranges: Array, block: Array, p: int, q: int) -> bool:
    """Whether p and q lead to the same blocks on all bytes, however their rows are cut into ranges."""
    dead = block[0]
    i, i_end = offsets[p], offsets[p + 1]
    j, j_end = offsets[q], offsets[q + 1]
    i_low = j_low = 0  # where the rest of the range at hand begins
    while True:
        while i < i_end and block[ranges[i, 2]] == dead:
            i += 1
        while j < j_end and block[ranges[j, 2]] == dead:
            j += 1
        if i == i_end or j == j_end:
            return bool(i == i_end and j == j_end)
        i_low = max(i_low, ranges[i, 0])
        j_low = max(j_low, ranges[j, 0])
        if i_low != j_low or block[ranges[i, 2]] != block[ranges[j, 2]]:
            return False
        i_high, j_high = ranges[i, 1], ranges[j, 1]
        i_low = j_low = min(i_high, j_high) + 1
        i += i_high < i_low
        j += j_high < j_low


@kernel
def _refine(
    offsets: Array, ranges: Array, in_offsets: Array, sources: Array, weights: Array, block: Array, n_blocks: int,
    wanted: Array, history: Array,
) -> None:  # fmt: skip
    """Split ``block``, numbers below ``n_blocks``, in place and round by round, until it is stable or all is written.

    The block of state 0, DEAD, counts as zero in signatures, as do the bytes that no range covers; so the part with state
    0 always keeps the number. Each other state leaves that block at most once, so nothing is lost.
    """
    n = len(block)
    capacity = n + n_blocks
    dead = block[0]

    # Members of block b: elements[begin[b] : end[b]], of which the first n_dirty[b] are dirty.
    begin = np.zeros(capacity + 1, np.int64)
    end = np.zeros(capacity, np.int64)
    n_dirty = np.zeros(capacity, np.int64)
    parent = np.zeros(capacity, np.int32)
    elements = np.empty(n, np.int32)
    position = np.empty(n, np.int64)
    for q in range(n):
        begin[block[q] + 1] += 1
    for b in range(n_blocks):
        begin[b + 1] += begin[b]
        end[b] = begin[b]
    for q in range(n):
        position[q] = end[block[q]]
        elements[position[q]] = q
        end[block[q]] += 1

    signature = np.zeros(n, np.uint64)
    for t in range(n):
        if block[t] != dead:
            factor = _mix(np.uint64(block[t]))
            for k in range(in_offsets[t], in_offsets[t + 1]):
                signature[sources[k]] += weights[k] * factor
    touched = np.empty(capacity, np.int32)  # blocks with dirty states; in the first round all are
    n_touched = 0
    for b in range(n_blocks):
        n_dirty[b] = end[b] - begin[b]
        if n_dirty[b] > 0:
            touched[n_touched] = b
            n_touched += 1

    n_slots = 4
    while n_slots < 2 * n:
        n_slots *= 2
    slots = np.zeros(n_slots, np.int64)  # epoch * capacity + group: entries of earlier epochs count as empty
    epoch = 0
    representative = np.empty(n, np.int32)
    count = np.empty(n, np.int64)
    place = np.empty(n, np.int64)
    group_of = np.empty(n, np.int32)
    moved = np.empty(n, np.int32)
    n_rounds = 0
    n_written = 0
    while True:
        while n_written < len(wanted) and (wanted[n_written] == n_rounds or n_touched == 0):
            for q in range(n):
                history[n_written, q] = block[q]
            n_written += 1
        if n_touched == 0 or (n_written == len(wanted) and n_written > 0):
            break
        first_new = n_blocks
        for k in range(n_touched):
            b = touched[k]
            dirty = n_dirty[b]
            n_dirty[b] = 0
            size = end[b] - begin[b]
            if size == 1:
                continue
            # Group the dirty states. One whose row changed leads to a block that is new in this round or the last, and
            # a clean state does not: no dirty state belongs with the clean ones.
            base = begin[b]
            epoch += 1
            n_groups = 0
            for i in range(dirty):
                q = elements[base + i]
                slot = np.int64((signature[q] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (n_slots - 1)
                while True:
                    g = slots[slot] - epoch * capacity
                    if g < 0:
                        g = n_groups
                        n_groups += 1
                        slots[slot] = epoch * capacity + g
                        representative[g] = q
                        count[g] = 0
                        break
                    r = representative[g]
                    if signature[r] == signature[q] and _same_row(offsets, ranges, block, r, q):
                        break
                    slot = (slot + 1) & (n_slots - 1)
                count[g] += 1
                group_of[i] = g
            clean = size - dirty
            if clean == 0 and n_groups == 1:
                continue
            keeper = -1  # the clean states
            if b == dead:
                if clean == 0:
                    keeper = group_of[position[0] - base]
            else:
                largest = clean
                for g in range(n_groups):
                    if count[g] > largest:
                        largest = count[g]
                        keeper = g
            used = 0
            if keeper >= 0:
                place[keeper] = base
                used = count[keeper]
            for g in range(n_groups):
                if g != keeper:
                    place[g] = base + used
                    begin[n_blocks] = place[g]
                    used += count[g]
                    end[n_blocks] = base + used
                    parent[n_blocks] = b
                    n_blocks += 1
            if keeper < 0:
                begin[b] += dirty
            else:
                end[b] = base + count[keeper]
                if clean > 0:
                    begin[n_blocks] = base + dirty
                    end[n_blocks] = base + size
                    parent[n_blocks] = b
                    n_blocks += 1
            for i in range(dirty):
                moved[i] = elements[base + i]
            for i in range(dirty):
                q = moved[i]
                to = place[group_of[i]]
                place[group_of[i]] = to + 1
                elements[to] = q
                position[q] = to

        # Only now do the new numbers become visible: the round has compared rows by the old ones. The states that moved
        # are listed first, because marking predecessors as dirty reorders the blocks.
        n_moved = 0
        for b in range(first_new, n_blocks):
            for i in range(begin[b], end[b]):
                q = elements[i]
                block[q] = b
                moved[n_moved] = q
                n_moved += 1
        n_touched = 0
        for i in range(n_moved):
            t = moved[i]
            change = _mix(np.uint64(block[t]))
            if parent[block[t]] != dead:
                change -= _mix(np.uint64(parent[block[t]]))
            for k in range(in_offsets[t], in_offsets[t + 1]):
                q = sources[k]
                signature[q] += weights[k] * change
                b = block[q]
                at, front = position[q], begin[b] + n_dirty[b]
                if at >= front:
                    other = elements[front]
                    elements[front], elements[at] = q, other
                    position[q], position[other] = front, at
                    if n_dirty[b] == 0:
                        touched[n_touched] = b
                        n_touched += 1
                    n_dirty[b] += 1
        n_rounds += 1


@kernel
def _take_quotient(
    offsets: Array, ranges: Array, block: Array, n_blocks: int, start: int
) -> tuple[Array, Array, Array]:
    """Rows of the reachable blocks and a member of each: int64[k + 1] offsets, int32[m, 3] ranges, int32[k] members."""
    number = np.zeros(n_blocks, np.int32)
    members = np.zeros(n_blocks + 1, np.int32)
    new_offsets = np.zeros(n_blocks + 2, np.int64)
    new_ranges = np.empty((len(ranges), 3), np.int32)
    n_found, out = 1, 0
    if block[start] != block[0]:
        members[1] = start
        number[block[start]] = 1
        n_found = 2
    q = 1
    while q < n_found:
        first = out
        for r in range(offsets[members[q]], offsets[members[q] + 1]):
            b = block[ranges[r, 2]]
            if b == block[0]:
                continue
            if number[b] == 0:
                number[b] = n_found
                members[n_found] = ranges[r, 2]
                n_found += 1
            if out > first and new_ranges[out - 1, 2] == number[b] and new_ranges[out - 1, 1] == ranges[r, 0] - 1:
                new_ranges[out - 1, 1] = ranges[r, 1]
            else:
                new_ranges[out, 0] = ranges[r, 0]
                new_ranges[out, 1] = ranges[r, 1]
                new_ranges[out, 2] = number[b]
                out += 1
        q += 1
        new_offsets[q] = out
    return new_offsets[: n_found + 1], new_ranges[:out], members[:n_found]
