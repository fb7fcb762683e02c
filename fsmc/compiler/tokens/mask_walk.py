"""The tokens that a configuration allows, by a walk of a token trie beside the machine.

What is found are *ranges*, int32[n, 2] ascending rows (low, high): the tokens with ranks ``low`` to ``high - 1`` are allowed.
They are kept as a *record*, int64[n]: `addresses_of` the words of a mask row and of the ids of the tokens whose bits differ from it;
then these ids, two in a number, or, where they are many, words of its own and no ids.

Most of a large mask does not depend on who called: inside a string, all tokens without a quote are allowed whatever follows
the string. So a state of a block (a component that is known as a whole and calls nothing) is walked once on its own, which
gives the tokens that stay inside and the *exits*, the places in the trie at which the component ends. Only what lies
beyond the exits is walked for each caller. What is walked, and what the record begins with, is a `Source`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, UNKNOWN, read_only
from fsmc.compiler.tokens.mask_source import (
    FINAL,
    FRAME,
    JOB,
    LOOKED,
    LOWEST,
    N_RANGES,
    NO_NODE,
    NODE,
    NUMBER,
    RECORD,
    SIZE,
    STACK,
    STATE,
    Scratch,
    Source,
)
from fsmc.compiler.tokens.stacks import ReturnStacks, after
from fsmc.compiler.tokens.trie import DEPTH, END, START, TokenTrie, packed_groups
from fsmc.compiler.tokens.walk import DONE, FULL, MISSING
from fsmc.jit import bytes_at, copy_bytes, int_rows_at, ints_at, kernel, long_rows_at, longs_at


def walk_configuration(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    source: Source,
    state: int,
    stack: int,
    scratch: Scratch,
) -> int:
    """Write the record of a configuration to ``scratch.record``, and how much it is to ``scratch.view[SIZE]``. Returns how many frames
    it depends on: it holds for any other stack with the same frames on top. Where an exit met the end of the stack, that is one
    more than there are.
    """
    view = scratch.view
    view[STATE], view[STACK], view[JOB], view[NODE], view[LOWEST] = source.state or state, stack, 0, NO_NODE, -2
    registers, places = scratch.registers, scratch.addresses
    of_stacks, _nodes = stacks.shown  # these, whatever replaces them meanwhile: the nodes of this stack are there
    while True:
        tables = machine.tables
        status = _mask_at(tables.addresses, of_stacks, source.trie, source.numbers, places, registers)
        if status == DONE:
            return view[LOOKED]
        machine.build(view[FRAME], view[NUMBER])


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
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array, loops: Array, nodes: Array, trie: Array,
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
        stop = np.int64(trie[top_node, END])
        if kind >= 0:
            if node < 0:
                lowest = min(lowest, np.int64(nodes[stack, 2]) - 1)
                if stack == 0:
                    return DONE, job, node, lowest, n_ranges, 0, 0
                target = after(returns, np.int64(nodes[stack, 1]), np.int64(exits[job, 2]))
                if target == UNKNOWN:
                    return MISSING, job, node, lowest, n_ranges, np.int64(nodes[stack, 1]), np.int64(exits[job, 2])
                node = top_node
                d = np.int64(trie[top_node, DEPTH])
                if target == 0:
                    node = stop
                elif kind == EXIT:
                    path[d, 0], path[d, 1] = target, nodes[stack, 0]
                    low, high = trie[node, START], trie[node, START + 1]
                    n_ranges = _add_range(ranges, n_ranges, low, high)
                    node += 1
                else:
                    path[d - 1, 0], path[d - 1, 1] = target, nodes[stack, 0]
        while node < stop:
            d = np.int64(trie[node, DEPTH])
            q, top = path[d - 1, 0], path[d - 1, 1]
            left = lowest
            while True:
                if states[q, 0] == UNKNOWN:
                    return MISSING, job, node, lowest, n_ranges, -1, np.int64(q)
                code = edges[states[q, 0] + class_maps[states[q, 1] + (trie[node, 0] & 255)]]
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
            below = np.int64(trie[node, END])
            if q == 0:
                node = below
                continue
            stays = packed_groups(trie, node) & ~loops[q] == 0 and trie[node, 0] >> 8 <= states[q, 3]
            low, high = trie[node, START], trie[node, START + 2 if stays else START + 1]
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
    edges: Array, states: Array, class_maps: Array, actions: Array, loops: Array, trie: Array,
    ranges: Array, path: Array, exits: Array,
) -> tuple[int, int, int]:  # fmt: skip
    """The walk inside a block: why it stopped, the numbers of ranges and exits."""
    n_ranges = n_exits = np.int64(0)  # a plain 0 would be typed anew when it grows, and what is called compiled twice
    node = n_exits
    while node < len(trie):
        d = np.int64(trie[node, DEPTH])
        q = path[d - 1, 0]
        q = edges[states[q, 0] + class_maps[states[q, 1] + (trie[node, 0] & 255)]]
        below = np.int64(trie[node, END])
        if q <= 0:
            if q < 0:
                if n_exits == len(exits):
                    return FULL, n_ranges, n_exits
                exits[n_exits, 0], exits[n_exits, 1], exits[n_exits, 2] = node, actions[-1 - q, 0], actions[-1 - q, 1]
                n_exits += 1
            node = below
            continue
        stays = packed_groups(trie, node) & ~loops[q] == 0 and trie[node, 0] >> 8 <= states[q, 3]
        low, high = trie[node, START], trie[node, START + 2 if stays else START + 1]
        n_ranges = _add_range(ranges, n_ranges, low, high)
        path[d, 0] = q
        node = below if stays else node + 1
    return DONE, n_ranges, n_exits


@kernel
def _count_tokens(ranges: Array, n_ranges: int) -> int:
    n_tokens = 0
    for r in range(n_ranges):
        n_tokens += np.int64(ranges[r, 1]) - np.int64(ranges[r, 0])
    return n_tokens


@kernel
def _mask_at(machine: Array, stacks: Array, trie: Array, source: Array, scratch: Array, registers: Array) -> int:
    """`_walk` with addresses of the arrays, and the record of what was found; why it stopped."""
    states, nodes = int_rows_at(machine, 1, 4), int_rows_at(stacks, 0, 3)
    ranges, path = int_rows_at(scratch, 0, 2), int_rows_at(scratch, 1, 4)
    stack = registers[STACK]
    if registers[LOWEST] == -2:
        registers[LOWEST], registers[N_RANGES] = nodes[stack, 2], 0
        path[0, 0], path[0, 1] = registers[STATE], stack
    status, job, node, lowest, n_ranges, frame, number = _walk(
        ints_at(machine, 0), states, bytes_at(machine, 2), int_rows_at(machine, 3, 3),
        long_rows_at(machine, 4, 2), longs_at(machine, 5), nodes,
        int_rows_at(trie, 0, 8), int_rows_at(source, 0, 3), ranges, path,
        stack, registers[JOB], registers[NODE], registers[LOWEST], registers[N_RANGES],
    )  # fmt: skip
    registers[JOB], registers[NODE], registers[LOWEST], registers[N_RANGES] = job, node, lowest, n_ranges
    registers[FRAME], registers[NUMBER] = frame, number
    if status == MISSING:
        return status
    registers[FINAL], registers[LOOKED] = states[registers[STATE], 2], nodes[stack, 2] - lowest
    registers[SIZE] = _record(
        ranges, n_ranges, ints_at(trie, 1), source, trie, longs_at(scratch, 6), ints_at(scratch, 7), scratch[12]
    )
    return DONE


@kernel
def _record(
    ranges: Array,
    n_ranges: int,
    token_ids: Array,
    source: Array,
    trie: Array,
    numbers: Array,
    ints: Array,
    address: int,
) -> int:
    """Write a record to ``numbers``, at ``address``, of which ``ints`` is all but the first RECORD; its size. trie, source: as in
    `_mask_at`."""
    n_tokens = _count_tokens(ranges, n_ranges)
    n_words, base, first = source[3], source[2], ints_at(source, 2)
    gaps = False
    if n_words == 0:  # nothing to begin with: no token, or all of them
        n_words = trie[5]
        gaps = 2 * n_tokens > len(token_ids)
        base = trie[6] if gaps else trie[4]
    n_ids = len(first) + (len(token_ids) - n_tokens if gaps else n_tokens)
    numbers[0], numbers[1], numbers[2], numbers[3] = base, n_words, address + 8 * RECORD, n_ids
    if n_ids <= n_words // 4:
        for i in range(len(first)):
            ints[i] = first[i]
        _list_ids(ranges, n_ranges, token_ids, gaps, ints[len(first) : n_ids])
        return RECORD + (n_ids + 1) // 2
    copy_bytes(numbers[2], base, 4 * n_words)
    for i in range(len(first)):
        ints[first[i] >> 5] ^= np.int32(1) << np.int32(first[i] & 31)
    previous = 0
    for r in range(n_ranges + 1):
        low = np.int64(ranges[r, 0]) if r < n_ranges else len(token_ids)
        high = np.int64(ranges[r, 1]) if r < n_ranges else low
        start, stop = (previous, low) if gaps else (low, high)
        for rank in range(start, stop):
            token = token_ids[rank]
            ints[token >> 5] ^= np.int32(1) << np.int32(token & 31)
        previous = high
    numbers[0], numbers[3] = numbers[2], 0
    return int(RECORD + (n_words + 1) // 2)


@kernel
def _walk_block_at(machine: Array, trie: Array, ranges: Array, path: Array, exits: Array) -> tuple[int, int, int, int]:
    """`_walk_block` with addresses of the arrays, and the number of tokens behind that of the ranges."""
    status, n_ranges, n_exits = _walk_block(
        ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2), int_rows_at(machine, 3, 3),
        longs_at(machine, 5), int_rows_at(trie, 0, 8), ranges, path, exits,
    )  # fmt: skip
    return status, n_ranges, _count_tokens(ranges, n_ranges), n_exits


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
