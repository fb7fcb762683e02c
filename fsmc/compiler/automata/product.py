"""Two DFAs at once: the product construction (Rabin and Scott, 1959).

A state of the product is a pair of states. What a boolean combination accepts is decided pair by pair, so union,
intersection and difference are one construction with different accepting pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.determinize import MAX_BYTES, MAX_SECONDS, MAX_STATES
from fsmc.compiler.automata.dfa import DFA, Array, trim
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import exceeded, kernel, working_seconds

Accepts = Callable[[npt.NDArray[np.bool_], npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]


def product(
    left: DFA,
    right: DFA,
    accepts: Accepts,
    *,
    needs_left: bool = False,
    needs_right: bool = False,
    **limits: Any,
) -> DFA:
    """The minimal DFA that accepts where ``accepts(left accepts, right accepts)`` (arrays of bool) holds.

    ``needs_left``: no text that ``left`` has given up on is accepted, which prunes the search; ``needs_right`` likewise.
    ``limits`` are those of `explore`.
    """
    byte_class, columns = joint_classes(left, right)
    start = np.array([[left.start, right.start]])
    pairs, delta = explore(left, right, columns, start, needs_left, needs_right, **limits)
    return minimize(trim(byte_class, delta, accepts(left.accepting[pairs[:, 0]], right.accepting[pairs[:, 1]]), 0))


def joint_classes(left: DFA, right: DFA) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The coarsest byte classes that respect both: (uint8[256], int64[n_classes, 2] the column in each), by first byte."""
    both = left.byte_class.astype(np.int64) << 8 | right.byte_class
    values, first, inverse = np.unique(both, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.uint8)
    rank[order] = np.arange(len(order))
    return rank[inverse.reshape(256)], np.stack([values >> 8, values & 255], axis=1)[order]


def explore(
    left: DFA,
    right: DFA,
    columns: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    needs_left: bool,
    needs_right: bool,
    *,
    max_states: int = MAX_STATES,
    max_bytes: int = MAX_BYTES,
    max_seconds: float = MAX_SECONDS,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """All pairs that are reachable from ``starts`` (int[n, 2], distinct), breadth first, and their transitions.

    Returns (int64[n_pairs, 2], int32[n_pairs, n_classes], a pair's number or -1 for none). Raises LimitExceeded with more
    than ``max_states`` pairs, when their tables take more than ``max_bytes``, and after ``max_seconds`` of wall time.
    """
    deadline = working_seconds() + max_seconds
    n_columns = len(columns)
    bytes_per_pair = 4 * n_columns + 8 + 4 * 4  # its row, its key, and two to four slots of the hash table
    limit = min(max_states, max_bytes // bytes_per_pair)
    n_found, n_done = len(starts), 0
    capacity = max(256, n_found) + n_columns
    keys = np.empty(capacity, np.int64)
    keys[:n_found] = starts[:, 0] * right.n_states + starts[:, 1]
    delta = np.empty((capacity, n_columns), np.int32)
    while True:
        slots = np.full(1 << (2 * capacity - 1).bit_length(), -1, np.int32)
        n_done, n_found = _explore(
            left.delta, right.delta, columns, needs_left, needs_right, keys, delta, slots, n_done, n_found
        )
        if n_found > max_states:
            raise LimitExceeded("max_states", max_states, n_found, "the product has at least that many pairs of states")
        if n_found > limit:
            raise LimitExceeded(
                "max_bytes", max_bytes, n_found * bytes_per_pair, f"tables of {n_found} pairs of states"
            )
        if n_done == n_found:
            return np.stack(np.divmod(keys[:n_found], right.n_states), axis=1), delta[:n_found]
        if over := exceeded(max_seconds, deadline):
            raise LimitExceeded("max_seconds", *over, f"{n_found} pairs so far")
        capacity = min(2 * capacity, limit + 2 * n_columns)
        keys = np.concatenate([keys[:n_found], np.empty(capacity - n_found, np.int64)])
        delta = np.concatenate([delta[:n_done], np.empty((capacity - n_done, n_columns), np.int32)])


@kernel
def _explore(
    left: Array,
    right: Array,
    columns: Array,
    needs_left: bool,
    needs_right: bool,
    keys: Array,
    delta: Array,
    slots: Array,
    n_done: int,
    n_found: int,
) -> tuple[int, int]:
    """Fill rows of ``delta`` from number ``n_done`` on, until all is done or the next row's pairs might not fit.

    keys: int64[capacity], left state * n_right + right state; delta: int32[capacity, n_columns]; slots: int32, a power of
    two of them, all -1: a table of pair numbers with linear probing, filled here with the pairs already found.
    """
    n_right = right.shape[0]
    n_columns = len(columns)
    mask = len(slots) - 1
    i = 0
    q = n_done
    c = 0
    while True:
        # One place for both uses of the hash table: first to enter what is already known, then to look up targets.
        if i < n_found:
            key = keys[i]
            known = i
            i += 1
        else:
            if c == n_columns:
                c = 0
                q += 1
            if q == n_found or (c == 0 and n_found + n_columns > len(keys)):
                return q, n_found
            p, r = keys[q] // n_right, keys[q] % n_right
            p, r = left[p, columns[c, 0]], right[r, columns[c, 1]]
            if (p == 0 and (needs_left or r == 0)) or (r == 0 and needs_right):
                delta[q, c] = -1
                c += 1
                continue
            key = p * n_right + r
            known = -1
        slot = ((key * 0x9E3779B97F4A7C1) >> 20) & mask
        while slots[slot] >= 0 and keys[slots[slot]] != key:
            slot = (slot + 1) & mask
        if known >= 0:
            slots[slot] = known
            continue
        if slots[slot] < 0:
            slots[slot] = n_found
            keys[n_found] = key
            n_found += 1
            i = n_found
        delta[q, c] = slots[slot]
        c += 1
