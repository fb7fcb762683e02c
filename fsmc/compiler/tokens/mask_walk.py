"""The tokens that a configuration allows, by a walk of the token trie beside the machine.

What is found are *ranges*, int32[n, 2] ascending rows (low, high): the tokens with ranks ``low`` to ``high - 1`` are allowed.

Most of a large mask does not depend on who called: inside a string, all tokens without a quote are allowed whatever follows
the string. So a state of a block (a component that is known as a whole and calls nothing) is walked once on its own, which
gives the tokens that stay inside and the *exits*, the places in the trie at which the component ends. Only what lies
beyond the exits is walked for each caller.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, UNKNOWN, read_only
from fsmc.compiler.tokens.stacks import ReturnStacks, after
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.walk import DONE, FULL, MISSING
from fsmc.jit import bytes_at, int_rows_at, ints_at, kernel, long_rows_at, longs_at

MAX_EXITS = 4096

_NO_NODE = -1


class Scratch(NamedTuple):
    """Arrays that a walk works in. ranges: int32[n_tokens // 2 + 1, 2]; path: int32[height + 1, 4]; exits: int32[MAX_EXITS, 3]; ids:
    int32[n_tokens]."""

    ranges: npt.NDArray[np.int32]
    path: npt.NDArray[np.int32]
    exits: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int32]


_pools: weakref.WeakKeyDictionary[TokenTrie, list[Scratch]] = weakref.WeakKeyDictionary()


def scratch_pool(trie: TokenTrie) -> list[Scratch]:
    """Arrays that are not in use now, shared by the grammars of a vocabulary: pop one (or make one), and append it again."""
    return _pools.setdefault(trie, [])


def new_scratch(trie: TokenTrie) -> Scratch:
    """Arrays for one walk at a time."""
    return Scratch(
        np.empty((trie.n_tokens // 2 + 1, 2), np.int32),
        np.empty((trie.height + 1, 4), np.int32),
        np.empty((MAX_EXITS, 3), np.int32),
        np.empty(trie.n_tokens, np.int32),
    )


def walk_configuration(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    trie: TokenTrie,
    state: int,
    stack: int,
    scratch: Scratch,
    exits: npt.NDArray[np.int32] | None = None,
) -> tuple[int, int, int]:
    """Write the ranges of a configuration to ``scratch.ranges``. Returns how many frames they depend on, how many ranges there
    are, and how many tokens.

    exits: from `walk_block`, int32[m, 3]: then only the tokens that leave the block that ``state`` is in; else all. Ranges that depend on
    n frames hold for any other stack with the same n frames on top; where an exit met the end of the stack n is one more
    than there are frames.
    """
    nodes = stacks.nodes  # these, whatever replaces them meanwhile: the nodes of this stack are there
    depth = lowest = int(nodes[stack, 2])
    scratch.path[0, :2] = state, stack
    if exits is None:
        exits = trie.tops
    job, node, n_ranges = 0, _NO_NODE, 0
    while True:
        tables = machine.tables
        status, job, node, lowest, n_ranges, n_tokens, frame, number = _walk_at(
            tables.addresses, nodes, trie.addresses, exits, scratch.ranges, scratch.path,
            stack, job, node, lowest, n_ranges,
        )  # fmt: skip
        if status == DONE:
            return depth - lowest, n_ranges, n_tokens
        machine.build(frame, number)


def walk_block(
    machine: RecursiveMachine, trie: TokenTrie, state: int, scratch: Scratch
) -> tuple[int, int, npt.NDArray[np.int32] | None]:
    """Write the ranges of the tokens that stay inside the block of ``state``; how many ranges and tokens, and the exits.

    exits: int32[m, 3], read-only rows (node of the trie, EXIT or EXIT_REDO, outcome); None where there are too many.
    """
    tables = machine.tables
    scratch.path[0, 0] = state
    status, n_ranges, n_tokens, n_exits = _walk_block_at(
        tables.addresses, trie.addresses, scratch.ranges, scratch.path, scratch.exits
    )
    return n_ranges, n_tokens, read_only(scratch.exits[:n_exits].copy()) if status == DONE else None


def walk_alike(
    machine: RecursiveMachine,
    trie: TokenTrie,
    state: int,
    like: int,
    room: int,
    exits: npt.NDArray[np.int32],
    words: npt.NDArray[np.int32],
    scratch: Scratch,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None:
    """For a state that is `Alike` another, whose exits and mask ``words`` are given: the ids of those tokens that do not stay
    inside here, and the exits. None if more can be read here than there."""
    scratch.path[0, :2] = state, like
    out = np.empty((len(exits) + MAX_EXITS, 3), np.int32)
    node = n_exits = n_known = n_refused = 0
    while True:
        tables = machine.tables
        missing, node, n_exits, n_known, n_refused = _walk_alike_at(
            tables.addresses, trie.addresses, scratch.path, room, exits, words, trie.token_ids, out, scratch.ids,
            node, n_exits, n_known, n_refused,
        )  # fmt: skip
        if missing == -2:
            return None
        if missing < 0:
            return scratch.ids[:n_refused].copy(), read_only(out[:n_exits].copy())
        machine.build(-1, missing)


def ids_in(
    ranges: npt.NDArray[np.int32], n_ranges: int, trie: TokenTrie, n_tokens: int, *, gaps: bool = False
) -> npt.NDArray[np.int32]:
    """The ids (int32[n_tokens], read-only) of the tokens in the ranges, or of the trie's tokens in none of them."""
    ids = np.empty(n_tokens, np.int32)
    _list_ids(ranges, n_ranges, trie.token_ids, gaps, ids)
    ids.setflags(write=False)
    return ids


@kernel
def _add_range(ranges: Array, n_ranges: int, low: int, high: int) -> int:
    """Add the ranks from ``low`` on, if any, to ascending ranges; how many ranges there are then."""
    if low == high:
        return n_ranges
    if n_ranges > 0 and ranges[n_ranges - 1, 1] == low:
        ranges[n_ranges - 1, 1] = high
        return n_ranges
    ranges[n_ranges, 0], ranges[n_ranges, 1] = low, high
    return n_ranges + 1


@kernel
def _walk(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array, loops: Array, nodes: Array,
    byte: Array, depth: Array, end: Array, token_start: Array, groups: Array, level: Array, rounds: Array,
    exits: Array, ranges: Array, path: Array, stack: int, job: int, node: int, lowest: int, n_ranges: int,
) -> tuple[int, int, int, int, int, int, int]:  # fmt: skip
    """Go on at ``node`` of what lies beyond ``exits[job]``, or begin it if that is -1. A kind of -1 is a first byte, not an exit.

    ``path`` int32[height + 1, 4] holds, after each depth: state, stack, pushed parent and frame. A frame pushed on the way
    needs no node in the pool: at most one is pushed at each depth, and only what lies deeper on the same path refers to
    it, so the frame pushed at depth ``d`` is called ``-d`` and lies in ``path[d]``.

    Returns why it stopped; job and node to go on from; the length of the shortest stack that was left (-1 if an exit met
    the end); the number of ranges; what is missing.
    """
    while job < len(exits):
        top_node, kind = np.int64(exits[job, 0]), exits[job, 1]
        if kind < 0 and node < 0:  # one of all first bytes: the node is far away, and mostly not needed
            q = path[0, 0]
            if states[q, 0] == UNKNOWN:
                return MISSING, job, node, lowest, n_ranges, -1, np.int64(q)
            if edges[states[q, 0] + class_maps[states[q, 1] + exits[job, 2]]] == 0:
                job += 1
                continue
            node = top_node
        stop = np.int64(end[top_node])
        if kind >= 0:
            if node < 0:
                lowest = min(lowest, np.int64(nodes[stack, 2]) - 1)
                if stack == 0:
                    return DONE, job, node, lowest, n_ranges, 0, 0
                target = after(returns, np.int64(nodes[stack, 1]), np.int64(exits[job, 2]))
                if target == UNKNOWN:
                    return MISSING, job, node, lowest, n_ranges, np.int64(nodes[stack, 1]), np.int64(exits[job, 2])
                node = top_node
                d = np.int64(depth[top_node])
                if target == 0:
                    node = stop
                elif kind == EXIT:
                    path[d, 0], path[d, 1] = target, nodes[stack, 0]
                    low, high = token_start[node], token_start[node + 1]
                    n_ranges = _add_range(ranges, n_ranges, low, high)
                    node += 1
                else:
                    path[d - 1, 0], path[d - 1, 1] = target, nodes[stack, 0]
        while node < stop:
            d = np.int64(depth[node])
            q, top = path[d - 1, 0], path[d - 1, 1]
            left = lowest
            while True:
                if states[q, 0] == UNKNOWN:
                    return MISSING, job, node, lowest, n_ranges, -1, np.int64(q)
                code = edges[states[q, 0] + class_maps[states[q, 1] + byte[node]]]
                if code >= 0:
                    q = code
                    break
                action, operand, frame = actions[-1 - code, 0], actions[-1 - code, 1], actions[-1 - code, 2]
                if action == CALL:
                    path[d, 2], path[d, 3] = top, frame
                    q, top = operand, np.int32(-d)
                    break
                if top >= 0:
                    left = min(left, np.int64(nodes[top, 2]) - 1)
                    if top == 0:
                        q = np.int32(0)
                        break
                    frame, top = nodes[top, 1], nodes[top, 0]
                else:
                    frame, top = path[-top, 3], path[-top, 2]
                target = after(returns, np.int64(frame), np.int64(operand))
                if target == UNKNOWN:
                    return MISSING, job, node, lowest, n_ranges, np.int64(frame), np.int64(operand)
                q = np.int32(target)
                if q == 0 or action == EXIT:
                    break
            lowest = left
            below = np.int64(end[node])
            if q == 0:
                node = below
                continue
            stays = groups[node] & ~loops[q] == 0 and rounds[level[node]] <= states[q, 3]
            low, high = token_start[node], token_start[below if stays else node + 1]
            n_ranges = _add_range(ranges, n_ranges, low, high)
            if stays:
                node = below
                continue
            path[d, 0], path[d, 1] = q, top
            node += 1
        job += 1
        node = np.int64(-1)
    return DONE, job, node, lowest, n_ranges, 0, 0


@kernel
def _walk_block(
    edges: Array, states: Array, class_maps: Array, actions: Array, loops: Array,
    byte: Array, depth: Array, end: Array, token_start: Array, groups: Array, level: Array, rounds: Array,
    ranges: Array, path: Array, exits: Array,
) -> tuple[int, int, int]:  # fmt: skip
    """The walk inside a block: why it stopped, the numbers of ranges and exits."""
    n_ranges = n_exits = 0
    node = 0
    while node < len(byte):
        d = np.int64(depth[node])
        q = path[d - 1, 0]
        q = edges[states[q, 0] + class_maps[states[q, 1] + byte[node]]]
        below = np.int64(end[node])
        if q <= 0:
            if q < 0:
                if n_exits == len(exits):
                    return FULL, n_ranges, n_exits
                exits[n_exits, 0], exits[n_exits, 1], exits[n_exits, 2] = node, actions[-1 - q, 0], actions[-1 - q, 1]
                n_exits += 1
            node = below
            continue
        stays = groups[node] & ~loops[q] == 0 and rounds[level[node]] <= states[q, 3]
        low, high = token_start[node], token_start[below if stays else node + 1]
        n_ranges = _add_range(ranges, n_ranges, low, high)
        path[d, 0] = q
        node = below if stays else node + 1
    return DONE, n_ranges, n_exits


@kernel
def _walk_alike(
    edges: Array, states: Array, class_maps: Array, actions: Array,
    byte: Array, depth: Array, end: Array, token_start: Array, level: Array, rounds: Array,
    path: Array, room: int, exits: Array, words: Array, token_ids: Array, out: Array, refused: Array,
    node: int, n: int, i: int, n_refused: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Walk a state and the one it is like side by side, as long as they are apart, from ``node`` on: (state to build, -1 or, where
    something can be read here and not there, -2; node, exits here, exits there that were looked at, tokens refused)."""
    while node < len(byte):
        d = np.int64(depth[node])
        q, p = path[d - 1, 0], path[d - 1, 1]
        if states[q, 0] == UNKNOWN:
            return np.int64(q), node, n, i, n_refused
        q = edges[states[q, 0] + class_maps[states[q, 1] + byte[node]]]
        p = edges[states[p, 0] + class_maps[states[p, 1] + byte[node]]]
        if q > 0 and p <= 0:
            return -2, node, n, i, n_refused
        if q > 0 and q != p and d + rounds[level[node]] > room:
            path[d, 0], path[d, 1] = q, p
            node += 1
            continue
        below = np.int64(end[node])
        if q <= 0 and q != p:
            while i < len(exits) and exits[i, 0] < node:
                out[n, 0], out[n, 1], out[n, 2] = exits[i, 0], exits[i, 1], exits[i, 2]
                n += 1
                i += 1
            while i < len(exits) and exits[i, 0] < below:
                i += 1
            if q < 0:
                out[n, 0], out[n, 1], out[n, 2] = node, actions[-1 - q, 0], actions[-1 - q, 1]
                n += 1
            if p > 0:
                for rank in range(token_start[node], token_start[below]):
                    token = token_ids[rank]
                    if words[token >> 5] >> (token & 31) & 1:
                        refused[n_refused] = token
                        n_refused += 1
        node = below
    while i < len(exits):
        out[n, 0], out[n, 1], out[n, 2] = exits[i, 0], exits[i, 1], exits[i, 2]
        n += 1
        i += 1
    return -1, node, n, i, n_refused


@kernel
def _count_tokens(ranges: Array, n_ranges: int) -> int:
    n_tokens = 0
    for r in range(n_ranges):
        n_tokens += np.int64(ranges[r, 1]) - np.int64(ranges[r, 0])
    return n_tokens


@kernel
def _walk_at(
    machine: Array, nodes: Array, trie: Array, exits: Array, ranges: Array, path: Array,
    stack: int, job: int, node: int, lowest: int, n_ranges: int,
) -> tuple[int, int, int, int, int, int, int, int]:  # fmt: skip
    """`_walk` with addresses of the machine's and the trie's arrays; the number of tokens comes behind that of the ranges."""
    status, job, node, lowest, n_ranges, frame, number = _walk(
        ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2), int_rows_at(machine, 3, 3),
        long_rows_at(machine, 4, 2), longs_at(machine, 5), nodes,
        bytes_at(trie, 0), ints_at(trie, 1), ints_at(trie, 2), ints_at(trie, 3), longs_at(trie, 4), bytes_at(trie, 5),
        ints_at(trie, 6), exits, ranges, path, stack, job, node, lowest, n_ranges,
    )  # fmt: skip
    n_tokens = _count_tokens(ranges, n_ranges) if status == DONE else 0
    return status, job, node, lowest, n_ranges, n_tokens, frame, number


@kernel
def _walk_block_at(machine: Array, trie: Array, ranges: Array, path: Array, exits: Array) -> tuple[int, int, int, int]:
    """`_walk_block` with addresses of the arrays, and the number of tokens behind that of the ranges."""
    status, n_ranges, n_exits = _walk_block(
        ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2), int_rows_at(machine, 3, 3),
        longs_at(machine, 5),
        bytes_at(trie, 0), ints_at(trie, 1), ints_at(trie, 2), ints_at(trie, 3), longs_at(trie, 4), bytes_at(trie, 5),
        ints_at(trie, 6), ranges, path, exits,
    )  # fmt: skip
    return status, n_ranges, _count_tokens(ranges, n_ranges), n_exits


@kernel
def _walk_alike_at(
    machine: Array, trie: Array, path: Array, room: int, exits: Array, words: Array, token_ids: Array,
    out: Array, refused: Array, node: int, n: int, i: int, n_refused: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """`_walk_alike` with addresses of the arrays."""
    return _walk_alike(
        ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2), int_rows_at(machine, 3, 3),
        bytes_at(trie, 0), ints_at(trie, 1), ints_at(trie, 2), ints_at(trie, 3), bytes_at(trie, 5), ints_at(trie, 6),
        path, room, exits, words, token_ids, out, refused, node, n, i, n_refused,
    )  # fmt: skip


@kernel
def _list_ids(ranges: Array, n_ranges: int, token_ids: Array, gaps: bool, ids: Array) -> None:
    """Write the ids of `ids_in`."""
    out = 0
    previous = 0
    for r in range(n_ranges + 1):
        low = np.int64(ranges[r, 0]) if r < n_ranges else len(token_ids)
        high = np.int64(ranges[r, 1]) if r < n_ranges else low
        start, stop = (previous, low) if gaps else (low, high)
        for rank in range(start, stop):
            ids[out] = token_ids[rank]
            out += 1
        previous = high
