"""Kernels that run a machine that is built as it is walked: they stop where something is missing, and go on from there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.rsm import CALL, EXIT
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.walk import ReturnStacks
from fsmc.jit import kernel

DONE, MISSING, STARTED, ENDED = 0, 1, 2, 3

Recording = tuple[bytes, tuple[int, ...]]
"""What was read since the outermost open recorded call, and where in it each open one began."""

NOTHING: Recording = (b"", ())


def advance(
    machine: LazyRSM, stacks: ReturnStacks, state: int, stack: int, recording: Recording, data: npt.NDArray[np.uint8]
) -> tuple[int, int, Recording, int]:
    """Run ``machine`` over ``data`` (uint8): (state, stack, recording, bytes consumed).

    Stops before the first byte that is not allowed.
    """
    at = np.array([state, stack, 0, 0, 0], np.int64)
    text, starts = recording
    kept = 0  # bytes of data that are in the text already
    with stacks._lock:
        stacks._reserve(len(data))
        while True:
            t = machine.tables
            status = _advance(
                t.edges, t.row_start, t.class_base, t.class_maps, t.actions, t.return_key, t.return_state, t.records,
                stacks.parent, stacks.frame, stacks._table, stacks._count, data, at,
            )  # fmt: skip
            n = int(at[2])
            if status == MISSING:
                machine.build(int(at[3]), int(at[4]))
                continue
            if starts:
                text += data[kept:n].tobytes()
            kept = n
            if status == DONE:
                return int(at[0]), int(at[1]), (text, starts) if starts else NOTHING, n
            if status == STARTED:
                if not starts:
                    text = data[n - 1 : n].tobytes()
                starts = (*starts, len(text) - 1)
            else:
                with machine.lock:
                    at[0] = machine.builder.record(int(at[0]), text[starts[-1] :])
                starts = starts[:-1]


def fill(
    machine: LazyRSM, stacks: ReturnStacks, trie: TokenTrie, state: int, stack: int, rank_row: npt.NDArray[np.int32]
) -> tuple[bool, int]:
    """As `walk.fill`."""
    path = np.empty((trie.height + 1, 4), np.int32)
    path[0, 0], path[0, 1] = state, stack
    at = np.array([0, -1, 0, 0, 0, 0], np.int64)  # lead byte, node to go on at, looked below, what is missing, tokens
    rank_row[:] = 0
    while True:
        t = machine.tables
        status = _fill(
            t.edges, t.row_start, t.class_base, t.class_maps, t.actions, t.return_key, t.return_state, t.loops,
            stacks.parent, stacks.frame,
            trie.byte, trie.depth, trie.end, trie.token_start, trie.first, trie.groups,
            rank_row, path, at,
        )  # fmt: skip
        if status == DONE:
            return bool(at[2]), int(at[5])
        machine.build(int(at[3]), int(at[4]))


@kernel
def _push(parent, frame, table, count, stack, new_frame):  # type: ignore[no-untyped-def]
    mixed = (np.int64(stack) << 32 ^ np.int64(new_frame)) * np.int64(0x1E3779B97F4A7C15)
    slot = (mixed >> 32) & (len(table) - 1)
    while table[slot] != -1:
        node = table[slot]
        if parent[node] == stack and frame[node] == new_frame:
            return node
        slot = (slot + 1) & (len(table) - 1)
    node = np.int32(count[0])
    parent[node], frame[node] = stack, new_frame
    table[slot] = node
    count[0] += 1
    return node


@kernel
def _after(return_key, return_state, frame, outcome):  # type: ignore[no-untyped-def]
    """The caller's next state, or -1 if it is not known yet."""
    key = np.int64(frame) << 32 | np.int64(outcome)
    slot = np.int64((np.uint64(key) * np.uint64(0x1E3779B97F4A7C15)) >> np.uint64(33)) & (len(return_key) - 1)
    while return_key[slot] != -1:
        if return_key[slot] == key:
            return return_state[slot]
        slot = (slot + 1) & (len(return_key) - 1)
    return np.int32(-1)


@kernel
def _advance(  # type: ignore[no-untyped-def]
    edges, row_start, class_base, class_maps, actions, return_key, return_state, records,
    parent, frame, table, count, data, at,
):  # fmt: skip
    """Run from ``at``: [state, stack, bytes consumed, missing frame or -1, missing state or outcome].

    Stops after a byte that makes a recorded call, and when a recorded call has returned: after the byte if the exit consumed
    it, before it otherwise.
    """
    state, stack, i = at[0], at[1], at[2]
    status = DONE
    while i < len(data):
        byte = data[i]
        q, top = state, stack
        entry = np.int32(0)
        again = True
        consumed = 1
        while again:
            again = False
            if row_start[q] < 0:
                at[3], at[4] = -1, q
                status = MISSING
                break
            entry = edges[row_start[q] + class_maps[class_base[q] + byte]]
            if entry < 0:
                action = -1 - entry
                operand = actions[action, 1]
                if actions[action, 0] == CALL:
                    if records[actions[action, 2]]:
                        status = STARTED
                    top = np.int64(_push(parent, frame, table, count, top, actions[action, 2]))
                    entry = operand
                elif top == 0:
                    entry = np.int32(0)
                else:
                    after = _after(return_key, return_state, frame[top], operand)
                    if after < 0:
                        at[3], at[4] = frame[top], operand
                        status = MISSING
                        break
                    if records[frame[top]]:
                        status = ENDED
                    top = np.int64(parent[top])
                    entry = after
                    if actions[action, 0] != EXIT and after > 0:
                        q = np.int64(after)
                        again = status != ENDED
                        consumed = 0 if status == ENDED else 1
        if status == MISSING or entry == 0:
            if entry == 0 and status != MISSING:
                status = DONE
            break
        state, stack = np.int64(entry), top
        i += consumed
        if status != DONE:
            break
    at[0], at[1], at[2] = state, stack, i
    return status


@kernel
def _fill(  # type: ignore[no-untyped-def]
    edges, row_start, class_base, class_maps, actions, return_key, return_state, loops, parent, frame,
    byte, depth, end, token_start, first, groups, row, path, at,
):  # fmt: skip
    """As `walk._fill`, from ``at``: [lead byte, node or -1, looked, missing frame or -1, missing state or outcome, tokens]"""
    lead = at[0]
    node = at[1]
    while lead < 256:
        if node < 0:
            node = np.int64(first[lead])
            if node < 0:
                lead += 1
                continue
        stop = end[first[lead]]
        while node < stop:
            d = depth[node]
            b = byte[node]
            q, top = path[d - 1, 0], path[d - 1, 1]
            entry = np.int32(0)
            looked = False
            again = True
            while again:
                again = False
                if row_start[q] < 0:
                    at[0], at[1], at[3], at[4] = lead, node, -1, q
                    return MISSING
                entry = edges[row_start[q] + class_maps[class_base[q] + b]]
                if entry < 0:
                    action = -1 - entry
                    operand = actions[action, 1]
                    if actions[action, 0] == CALL:
                        path[d, 2], path[d, 3] = top, actions[action, 2]
                        top = np.int32(-d)
                        entry = operand
                    else:
                        looked |= top >= 0
                        if top == 0:
                            entry = np.int32(0)
                        else:
                            back = frame[top] if top > 0 else path[-top, 3]
                            after = _after(return_key, return_state, back, operand)
                            if after < 0:
                                at[0], at[1], at[3], at[4] = lead, node, back, operand
                                return MISSING
                            top = parent[top] if top > 0 else path[-top, 2]
                            entry = after
                            if actions[action, 0] != EXIT and after > 0:
                                q = after
                                again = True
            if looked:
                at[2] = 1
            below = end[node]
            if entry == 0:
                node = np.int64(below)
                continue
            stays = groups[node] & ~loops[entry] == 0
            low, high = token_start[node], token_start[below if stays else node + 1]
            at[5] += high - low
            if high - low < 32:
                for rank in range(low, high):
                    row[rank >> 5] |= np.int64(1) << (rank & 31)
            else:
                for rank in range(low, (low + 31) & ~31):
                    row[rank >> 5] |= np.int64(1) << (rank & 31)
                for w in range((low + 31) >> 5, high >> 5):
                    row[w] = -1
                for rank in range(high & ~31, high):
                    row[rank >> 5] |= np.int64(1) << (rank & 31)
            if stays:
                node = np.int64(below)
                continue
            path[d, 0], path[d, 1] = entry, top
            node += 1
        lead += 1
        node = np.int64(-1)
    return DONE
