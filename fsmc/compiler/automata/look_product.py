"""Threads: an NFA with guards, unfolded into one without.

A thread is (joint state, NFA state, set of obligations): where the look-behinds are, where the match is, and what is owed
to look-aheads that were passed. The joint state is a function of the text read so far, so a guard's value is known in
each thread; a guarded epsilon becomes one epsilon for each alternative set of obligations under which it opens. What is
left is a plain NFA whose states are the threads that occur, and the subset construction needs to know nothing of looks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.nfa import NO_GUARD
from fsmc.compiler.automata.obligations import Obligations
from fsmc.compiler.automata.subsets import Limits, offsets_by_source
from fsmc.jit import kernel


@dataclass(frozen=True, slots=True, eq=False)
class Threads:
    """The unfolded NFA. states: int32[n, 3], rows (joint state, NFA state, set); joint is 0 where no guard can follow.

    edges: int32[m, 4], rows (source, low, high, target), and epsilons: int32[k, 2], rows (source, target), by source.
    starts: int32[s], the threads of the starts that were asked for. Edges are read-only.
    """

    states: npt.NDArray[np.int32]
    edges: npt.NDArray[np.int32]
    epsilons: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]


def unfold(
    edges: npt.NDArray[np.int32],
    epsilons: npt.NDArray[np.int32],
    n_states: int,
    joint: npt.NDArray[np.int32],
    values: list[list[list[int]]],
    obligations: Obligations,
    starts: npt.NDArray[np.int32],
    keeps_joint: bool,
    limits: Limits,
) -> Threads:
    """The threads that are reachable from ``starts``: int32[s, 3], rows (joint state, NFA state, set).

    edges: int32[m, 4] over symbols, and epsilons: int32[k, 3] with guards, by source. joint: int32[n_joint, n_symbols].
    values[guard][joint state]: alternative sets of obligations. ``keeps_joint``: state 0 always knows its joint state.
    """
    needs_joint = _reaches_guard(edges, epsilons, n_states)
    needs_joint[0] |= keeps_joint
    rows = [[obligations.number_alternative(number) for number in sets] for by_joint in values for sets in by_joint]
    alternative_offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    alternatives = np.array([number for row in rows for number in row], np.int32)
    edge_offsets = offsets_by_source(edges[:, 0], n_states)
    epsilon_offsets = offsets_by_source(epsilons[:, 0], n_states)

    capacity = 1024 + 2 * len(starts)
    states = np.zeros((capacity, 3), np.int32)
    new_edges, new_epsilons = np.empty((8 * capacity, 4), np.int32), np.empty((4 * capacity, 2), np.int32)
    state = np.zeros(7, np.int64)
    slots = _slots_for(states, 0)
    start_threads = np.array(
        [_find_thread(j if needs_joint[q] else 0, q, s, states, slots, state) for j, q, s in starts.tolist()], np.int32
    )
    while True:
        code = _unfold(
            edge_offsets, edges, epsilon_offsets, epsilons, needs_joint, joint, alternative_offsets, alternatives,
            obligations.steps, obligations.unions, states, slots, new_edges, new_epsilons, state,
        )  # fmt: skip
        n_threads = int(state[_N_THREADS])
        n_bytes = states.nbytes + slots.nbytes + new_edges.nbytes + new_epsilons.nbytes + obligations.nbytes
        limits.check(max(n_threads, obligations.n_sets), n_bytes)
        if code == _DONE:
            break
        if code == _THREADS_FULL:
            states = _doubled(states)
            slots = _slots_for(states, n_threads)
        elif code == _EDGES_FULL:
            new_edges = _doubled(new_edges)
        elif code == _EPSILONS_FULL:
            new_epsilons = _doubled(new_epsilons)
        elif code == _STEP_UNKNOWN:
            obligations.build_steps(int(state[_ASKED_SET]), limits)
        elif code == _UNION_UNKNOWN:
            obligations.build_union(int(state[_ASKED_SET]), int(state[_ASKED_ALTERNATIVE]))
    new_edges = new_edges[: state[_N_EDGES]]
    new_edges.flags.writeable = False
    return Threads(states[:n_threads], new_edges, new_epsilons[: state[_N_EPSILONS]], start_threads)


def _reaches_guard(
    edges: npt.NDArray[np.int32], epsilons: npt.NDArray[np.int32], n_states: int
) -> npt.NDArray[np.bool_]:
    """bool[n_states]: whether a guarded epsilon can be reached from the state."""
    reaches = np.zeros(n_states, np.bool_)
    pending = np.unique(epsilons[epsilons[:, 2] != NO_GUARD, 0]).tolist()
    if not pending:
        return reaches
    pairs = np.concatenate([edges[:, [0, 3]], epsilons[:, :2]])
    pairs = pairs[np.argsort(pairs[:, 1], kind="stable")]
    offsets = offsets_by_source(pairs[:, 1], n_states).tolist()
    sources = pairs[:, 0].tolist()
    reaches[pending] = True
    while pending:
        state = pending.pop()
        for source in sources[offsets[state] : offsets[state + 1]]:
            if not reaches[source]:
                reaches[source] = True
                pending.append(source)
    return reaches


def _doubled(table: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return np.concatenate([table, np.empty_like(table)])


def _slots_for(states: npt.NDArray[np.int32], n_threads: int) -> npt.NDArray[np.int32]:
    """A hash table that stays at least half empty while ``states`` fills up, with the threads there are."""
    slots = np.zeros(1 << (2 * len(states) - 1).bit_length(), np.int32)
    _rehash(states, n_threads, slots)
    return slots


_N_THREADS, _NEXT, _N_EDGES, _N_EPSILONS, _ASKED_SET, _ASKED_ALTERNATIVE = range(6)  # indices into the kernel's state
_DONE, _THREADS_FULL, _EDGES_FULL, _EPSILONS_FULL, _STEP_UNKNOWN, _UNION_UNKNOWN, _PAUSED = range(7)
_STATES_PER_CALL = 100_000  # between two looks at the clock


@kernel
def _slot_of(j: int, q: int, s: int, n_slots: int) -> int:
    """Where to look for a thread first. Plain int64 arithmetic, without overflow for numbers below 2^29."""
    z = int(j) * 0x9E3779B1 + int(q) * 0x85EBCA77 + int(s) * 0xC2B2AE3D
    return (z ^ (z >> 15) ^ (z >> 32)) & (n_slots - 1)


@kernel
def _rehash(states: Array, n_threads: int, slots: Array) -> None:
    """Enter the threads into empty slots, as number + 1."""
    for x in range(n_threads):
        i = _slot_of(np.int64(states[x, 0]), np.int64(states[x, 1]), np.int64(states[x, 2]), len(slots))
        while slots[i] != 0:
            i = (i + 1) & (len(slots) - 1)
        slots[i] = x + 1


@kernel
def _find_thread(j: int, q: int, s: int, states: Array, slots: Array, state: Array) -> int:
    """Number of a thread, new or old; -1 if it is new and the table is full."""
    i = _slot_of(j, q, s, len(slots))
    while slots[i] != 0:
        x = slots[i] - 1
        if states[x, 0] == j and states[x, 1] == q and states[x, 2] == s:
            return int(x)
        i = (i + 1) & (len(slots) - 1)
    x = state[_N_THREADS]
    if x == len(states):
        return -1
    states[x, 0] = j
    states[x, 1] = q
    states[x, 2] = s
    slots[i] = x + 1
    state[_N_THREADS] = x + 1
    return int(x)


@kernel
def _unfold(
    edge_offsets: Array, edges: Array, epsilon_offsets: Array, epsilons: Array, needs_joint: Array, joint: Array,
    alternative_offsets: Array, alternatives: Array, steps: Array, unions: Array, states: Array, slots: Array,
    new_edges: Array, new_epsilons: Array, state: Array,
) -> int:  # fmt: skip
    """Give each thread its rows, as long as there is room and the tables of sets are filled in."""
    n_joint, n_symbols = joint.shape
    first = state[_NEXT]
    while state[_NEXT] < state[_N_THREADS]:
        x = state[_NEXT]
        if x - first > _STATES_PER_CALL:
            return 6  # _PAUSED
        j, q, s = states[x, 0], states[x, 1], states[x, 2]
        out = state[_N_EDGES]
        if edge_offsets[q] < edge_offsets[q + 1] and steps[s, 0] == -2:
            state[_ASKED_SET] = s
            return 4  # _STEP_UNKNOWN
        for e in range(edge_offsets[q], edge_offsets[q + 1]):
            if out + n_symbols > len(new_edges):
                return 2  # _EDGES_FULL
            t = edges[e, 3]
            last_j = last_s = -1
            for c in range(edges[e, 1], edges[e, 2] + 1):
                to_s = steps[s, c]
                to_j = joint[j, c] if needs_joint[t] else 0
                if to_s >= 0:
                    if to_s == last_s and to_j == last_j:
                        new_edges[out - 1, 2] = c
                    else:
                        y = _find_thread(np.int64(to_j), np.int64(t), np.int64(to_s), states, slots, state)
                        if y < 0:
                            return 1  # _THREADS_FULL
                        new_edges[out, 0] = x
                        new_edges[out, 1] = c
                        new_edges[out, 2] = c
                        new_edges[out, 3] = y
                        out += 1
                last_j, last_s = to_j, to_s
        out_epsilon = state[_N_EPSILONS]
        for e in range(epsilon_offsets[q], epsilon_offsets[q + 1]):
            t, guard = epsilons[e, 1], epsilons[e, 2]
            to_j = j if needs_joint[t] else 0
            begin, end = 0, 1
            if guard >= 0:
                begin = alternative_offsets[guard * n_joint + j]
                end = alternative_offsets[guard * n_joint + j + 1]
            if out_epsilon + end - begin > len(new_epsilons):
                return 3  # _EPSILONS_FULL
            for k in range(begin, end):
                to_s = s
                if guard >= 0:
                    to_s = unions[s, alternatives[k]]
                    if to_s == -2:
                        state[_ASKED_SET] = s
                        state[_ASKED_ALTERNATIVE] = alternatives[k]
                        return 5  # _UNION_UNKNOWN
                    if to_s < 0:
                        continue
                y = _find_thread(np.int64(to_j), np.int64(t), np.int64(to_s), states, slots, state)
                if y < 0:
                    return 1  # _THREADS_FULL
                new_epsilons[out_epsilon, 0] = x
                new_epsilons[out_epsilon, 1] = y
                out_epsilon += 1
        state[_N_EDGES] = out
        state[_N_EPSILONS] = out_epsilon
        state[_NEXT] = x + 1
    return 0
