"""Kernels that run a recursive state machine from a configuration: along given bytes, or along the whole token trie.

A configuration is a state and a return stack. Stacks are nodes of one pool, each a frame on top of a parent node, and
equal stacks are the same node (hash-consing), so that a configuration is two integers: comparing, hashing and keeping
it for rollback cost nothing, and a mask row can be remembered by it.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.rsm import CALL, EXIT, RSM
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import kernel

EMPTY_STACK = 0
_NO_NODE = -1


class ReturnStacks:
    """The pool of return stacks of one machine, shared by all its matchers, safe to use from several threads.

    parent, frame: int32[capacity], node ``i`` is the stack ``parent[i]`` with ``frame[i]`` on top; node 0 is the empty
    stack. Nodes are never changed or removed once made. More than ``max_nodes`` raise `LimitExceeded`.

    >>> stacks = ReturnStacks()
    >>> inner = stacks.push(stacks.push(EMPTY_STACK, 7), 5)
    >>> stacks.frames(inner), stacks.push(stacks.push(EMPTY_STACK, 7), 5) == inner
    ((7, 5), True)
    """

    def __init__(self, *, max_nodes: int = 1 << 24) -> None:
        self.max_nodes = max_nodes
        self.parent, self.frame = np.zeros(64, np.int32), np.zeros(64, np.int32)
        self._table = np.full(256, _NO_NODE, np.int32)
        self._count = np.ones(1, np.int64)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._count[0])

    def push(self, stack: int, frame: int) -> int:
        """The stack ``stack`` with ``frame`` on top."""
        with self._lock:
            self._reserve(1)
            return int(_push(self.parent, self.frame, self._table, self._count, stack, frame))

    def frames(self, stack: int) -> tuple[int, ...]:
        """The frames of a stack, the innermost last (as in `rsm.Configuration`)."""
        found: list[int] = []
        while stack != EMPTY_STACK:
            found.append(int(self.frame[stack]))
            stack = int(self.parent[stack])
        return tuple(reversed(found))

    def advance(self, machine: RSM, state: int, stack: int, data: npt.NDArray[np.uint8]) -> tuple[int, int, int]:
        """Run ``machine`` over ``data`` (uint8): (state, stack, bytes consumed), stopping before the first byte not allowed."""
        if machine.is_regular:
            state, n_consumed = _advance_regular(machine.delta, machine.byte_class, state, data)
            return state, stack, n_consumed
        with self._lock:
            self._reserve(len(data))  # a byte pushes at most one frame
            return _advance(
                machine.delta, machine.byte_class, machine.actions, machine.returns,
                self.parent, self.frame, self._table, self._count,
                state, stack, data,
            )  # fmt: skip

    def _reserve(self, n_more: int) -> None:
        """Make room for more nodes. The arrays are replaced, never resized: a kernel that still reads the old ones may."""
        needed = len(self) + n_more
        if needed <= len(self.parent):
            return
        if needed > self.max_nodes:
            raise LimitExceeded(
                "max_nodes", self.max_nodes, needed, "the text nests too deeply, or give more room for stacks"
            )
        capacity = max(2 * len(self.parent), 1 << needed.bit_length())
        parent, frame = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
        table, count = np.full(4 * capacity, _NO_NODE, np.int32), np.ones(1, np.int64)
        for node in range(1, len(self)):
            _push(parent, frame, table, count, self.parent[node], self.frame[node])
        self.parent, self.frame, self._table, self._count = parent, frame, table, count


def fill(
    machine: RSM,
    stacks: ReturnStacks,
    trie: TokenTrie,
    loops: npt.NDArray[np.int64],
    state: int,
    stack: int,
    rank_row: npt.NDArray[np.int32],
) -> tuple[bool, int]:
    """Write the mask row of a configuration as rank bits. Returns whether it depends on the stack, and how many bits are set.

    loops: `byte_groups.loop_groups` of the machine; rank_row: int32[ceil(n_tokens / 32)], overwritten: bit ``r`` is set
    iff all bytes of the token ``trie.token_ids[r]`` can be consumed. A row that never looked at the given stack holds
    for any other; one that met its end (an exit with nothing to return to) has looked.
    """
    path = np.empty((trie.height + 1, 4), np.int32)
    return _fill(
        machine.delta, machine.byte_class, machine.actions, machine.returns, stacks.parent, stacks.frame, loops,
        trie.byte, trie.depth, trie.end, trie.token_start, trie.first, trie.groups,
        state, stack, rank_row, path,
    )  # fmt: skip


@kernel
def _push(parent: Array, frame: Array, table: Array, count: Array, stack: int, new_frame: int) -> int:
    """The node of ``new_frame`` on ``stack``, made if it is new (there must be room)."""
    mixed = (np.int64(stack) << 32 ^ np.int64(new_frame)) * np.int64(0x1E3779B97F4A7C15)
    slot = (mixed >> 32) & (len(table) - 1)
    while table[slot] != _NO_NODE:
        node = table[slot]
        if parent[node] == stack and frame[node] == new_frame:
            return int(node)
        slot = (slot + 1) & (len(table) - 1)
    node = np.int32(count[0])
    parent[node], frame[node] = stack, new_frame
    table[slot] = node
    count[0] += 1
    return int(node)


@kernel
def _advance_regular(delta: Array, byte_class: Array, state: int, data: Array) -> tuple[int, int]:
    for i in range(len(data)):
        target = delta[state, byte_class[data[i]]]
        if target == 0:
            return state, i
        state = np.int64(target)
    return state, len(data)


@kernel
def _advance(
    delta: Array, byte_class: Array, actions: Array, returns: Array,
    parent: Array, frame: Array, table: Array, count: Array,
    state: int, stack: int, data: Array,
) -> tuple[int, int, int]:  # fmt: skip
    for i in range(len(data)):
        c = byte_class[data[i]]
        entry, top = delta[state, c], stack
        while entry < 0:
            action = -1 - entry
            operand = actions[action, 1]
            if actions[action, 0] == CALL:
                top = np.int64(_push(parent, frame, table, count, top, np.int64(actions[action, 2])))
                entry = operand
            elif top == 0:
                entry = np.int32(0)
            else:
                entry = returns[frame[top], operand]
                top = np.int64(parent[top])
                if actions[action, 0] == EXIT:
                    break
                entry = delta[entry, c]
        if entry == 0:
            return state, stack, i
        state, stack = np.int64(entry), top
    return state, stack, len(data)


@kernel
def _fill(
    delta: Array, byte_class: Array, actions: Array, returns: Array, parent: Array, frame: Array, loops: Array,
    byte: Array, depth: Array, end: Array, token_start: Array, first: Array, groups: Array,
    state: int, stack: int, row: Array, path: Array,
) -> tuple[bool, int]:  # fmt: skip
    """The walk along the trie; ``path`` int32[height + 1, 4] holds, after each depth: state, stack, pushed parent and frame.

    A frame pushed on the way needs no node in the pool: at most one is pushed at each depth, and only what lies deeper
    on the same path refers to it, so the frame pushed at depth ``d`` is called ``-d`` and lies in ``path[d]``.
    """
    for w in range(len(row)):
        row[w] = 0
    looked, n_allowed = False, np.int64(0)
    path[0, 0], path[0, 1] = state, stack
    for lead in range(256):
        node = first[lead]
        if node < 0 or delta[state, byte_class[lead]] == 0:
            continue
        stop = end[node]
        while node < stop:
            d = depth[node]
            c = byte_class[byte[node]]
            entry, top = delta[path[d - 1, 0], c], path[d - 1, 1]
            while entry < 0:
                action = -1 - entry
                operand = actions[action, 1]
                if actions[action, 0] == CALL:
                    path[d, 2], path[d, 3] = top, actions[action, 2]
                    top = np.int32(-d)
                    entry = operand
                    continue
                if top >= 0:
                    looked = True
                if top == 0:
                    entry = np.int32(0)
                elif top > 0:
                    entry = returns[frame[top], operand]
                    top = parent[top]
                else:
                    entry = returns[path[-top, 3], operand]
                    top = path[-top, 2]
                if actions[action, 0] == EXIT:
                    break
                entry = delta[entry, c]
            below = end[node]
            if entry == 0:
                node = below
                continue
            stays = groups[node] & ~loops[entry] == 0
            low, high = token_start[node], token_start[below if stays else node + 1]
            n_allowed += high - low
            if high - low < 32:
                for rank in range(low, high):
                    row[rank >> 5] |= np.int32(1) << np.int32(rank & 31)
            else:
                for rank in range(low, (low + 31) & ~31):
                    row[rank >> 5] |= np.int32(1) << np.int32(rank & 31)
                for w in range((low + 31) >> 5, high >> 5):
                    row[w] = -1
                for rank in range(high & ~31, high):
                    row[rank >> 5] |= np.int32(1) << np.int32(rank & 31)
            if stays:
                node = below
                continue
            path[d, 0], path[d, 1] = entry, top
            node += 1
    return looked, n_allowed
