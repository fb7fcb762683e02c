"""Kernels that run a recursive state machine from a configuration: along given bytes, forced bytes, or the token trie.

A configuration is a state and a return stack. Stacks are nodes of one pool, each a frame on top of a parent node, and
equal stacks are the same node (hash-consing), so that a configuration is two integers: comparing, hashing and keeping
it for rollback cost nothing, and a mask row can be remembered by it.

Where a machine is made as it is walked, a kernel returns MISSING and says what; the wrapper has it built, and the kernel
goes on from where it stopped.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, Array
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED, UNKNOWN
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import kernel

EMPTY_STACK = 0
DONE, MISSING, STARTED, ENDED, FULL = 0, 1, 2, 3, 4
"""Why a kernel stopped: it is finished; something must be built; a recorded call was made; one has returned; no room."""

_NO_NODE = -1

Recording = tuple[bytes, tuple[int, ...]]
"""What was read since the outermost open recorded call, and where in it each open one began (see `LazyRSM`)."""

NOTHING: Recording = (b"", ())

MAX_JUMP_BYTES = 1 << 24

FREE = -1
"""Where no byte is forced."""


class Jump(NamedTuple):
    """What is forced: ``text``, up to the last character boundary, leads to (state, stack); ``rest`` is forced after it."""

    text: bytes
    rest: bytes
    state: int
    stack: int


class ReturnStacks:
    """The pool of return stacks of one machine, shared by all its matchers, safe to use from several threads.

    nodes: int32[capacity, 3]; row ``i`` is the stack with ``frame`` on top of the stack ``parent``, of ``depth`` frames:
    (parent, frame, depth). Node 0 is the empty stack. Nodes are never changed or removed once made. More than
    ``max_nodes`` raise `LimitExceeded`.

    >>> stacks = ReturnStacks()
    >>> inner = stacks.push(stacks.push(EMPTY_STACK, 7), 5)
    >>> stacks.frames(inner), stacks.push(stacks.push(EMPTY_STACK, 7), 5) == inner
    ((7, 5), True)
    """

    def __init__(self, *, max_nodes: int = 1 << 24) -> None:
        self.max_nodes = max_nodes
        self.nodes = np.zeros((64, 3), np.int32)
        self._table = np.full(256, _NO_NODE, np.int32)
        self._count = np.ones(1, np.int64)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._count[0])

    def push(self, stack: int, frame: int) -> int:
        """The stack ``stack`` with ``frame`` on top."""
        with self._lock:
            self._reserve(1)
            return int(_push(self.nodes, self._table, self._count, stack, frame))

    def top(self, stack: int) -> tuple[int, int]:
        """The stack below the top frame, and the top frame, of a stack that is not empty."""
        parent, frame, _ = self.nodes[stack].tolist()
        return parent, frame

    def frames(self, stack: int, most: int = -1) -> tuple[int, ...]:
        """The frames of a stack, the innermost last (as in `Configuration`); only the ``most`` innermost ones if given."""
        found: list[int] = []
        while stack != EMPTY_STACK and len(found) != most:
            stack, frame = self.top(stack)
            found.append(frame)
        return tuple(reversed(found))

    def _reserve(self, n_more: int) -> None:
        """Make room for more nodes. The arrays are replaced, never resized: a kernel that still reads the old ones may."""
        needed = len(self) + n_more
        if needed <= len(self.nodes):
            return
        if needed > self.max_nodes:
            raise LimitExceeded(
                "max_nodes", self.max_nodes, needed, "the text nests too deeply, or give more room for stacks"
            )
        capacity = max(2 * len(self.nodes), 1 << needed.bit_length())
        nodes = np.zeros((capacity, 3), np.int32)
        table, count = np.full(4 * capacity, _NO_NODE, np.int32), np.ones(1, np.int64)
        for parent, frame, _ in self.nodes[1 : len(self)].tolist():
            _push(nodes, table, count, parent, frame)
        self.nodes, self._table, self._count = nodes, table, count


def advance(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    state: int,
    stack: int,
    data: npt.NDArray[np.uint8],
    recording: Recording = NOTHING,
) -> tuple[int, int, Recording, int]:
    """Run ``machine`` over ``data`` (uint8): (state, stack, recording, bytes consumed).

    Stops before the first byte that is not allowed; the state is DEAD if that is so because of what a recorded call read.
    """
    if type(machine) is RSM and machine.is_regular:  # isinstance asks the abstract class, which takes longer
        state, n = _advance_regular(machine.delta, machine.byte_class, state, data)
        return state, stack, recording, n
    text, starts = recording
    n = kept = 0  # kept: bytes of data that are in the text already
    while True:
        tables = machine.tables
        with stacks._lock:
            stacks._reserve(len(data) - n)  # a byte pushes at most one frame
            status, state, stack, n, frame, number = _advance(
                tables.edges, tables.states, tables.class_maps, tables.actions, tables.returns,
                stacks.nodes, stacks._table, stacks._count,
                state, stack, data, n,
            )  # fmt: skip
        if status == MISSING:
            machine.build(frame, number)
            continue
        if starts:
            text += data[kept:n].tobytes()
        kept = n
        if status == DONE:
            return state, stack, (text, starts) if starts else NOTHING, n
        if status == STARTED:
            if not starts:
                text = data[n - 1 : n].tobytes()
            starts = (*starts, len(text) - 1)
        else:
            state = machine.record(state, text[starts[-1] :])
            starts = starts[:-1]
            if state == DEAD:
                return DEAD, EMPTY_STACK, NOTHING, n - number


def jump_on_stack(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    state: int,
    stack: int,
    next_byte: npt.NDArray[np.int16],
    *,
    max_bytes: int = MAX_JUMP_BYTES,
) -> Jump:
    """Follow what is forced: as long as one byte leads on and the text may not end.

    It ends after a byte with which a recorded call returns: what follows depends on the text that was read.
    next_byte: int16, FREE for states at which to stop in any case (states beyond its end are judged by their rows).
    Raises LimitExceeded for more than ``max_bytes``.
    """
    out = np.empty(64, np.uint8)
    n = n_whole = 0
    end, end_stack = state, stack
    while True:
        tables = machine.tables
        with stacks._lock:
            stacks._reserve(len(out) - n)
            status, state, stack, n, n_whole, end, end_stack, frame, number = _jump(
                tables.edges, tables.states, tables.class_maps, tables.actions, tables.returns,
                stacks.nodes, stacks._table, stacks._count, next_byte, out,
                state, stack, n, n_whole, end, end_stack,
            )  # fmt: skip
        if n > max_bytes:
            raise LimitExceeded("max_bytes", max_bytes, n, "more text than that is forced in one jump")
        if status == DONE:
            return Jump(out[:n_whole].tobytes(), out[n_whole:n].tobytes(), end, end_stack)
        if status == MISSING:
            machine.build(frame, number)
        else:
            out = np.concatenate((out, out))


def fill(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    trie: TokenTrie,
    state: int,
    stack: int,
    rank_row: npt.NDArray[np.int32],
    path: npt.NDArray[np.int32],
) -> tuple[int, int]:
    """Write the mask row of a configuration as rank bits. Returns how many frames it depends on, and how many bits are set.

    rank_row: int32[ceil(n_tokens / 32)], overwritten: bit ``r`` is set iff all bytes of the token ``trie.token_ids[r]``
    can be consumed. path: scratch, int32[trie.height + 1, 4]. A row that depends on n frames holds for any other stack with
    the same n frames on top; where an exit met the end of the stack n is one more than there are frames.
    """
    depth = lowest = int(stacks.nodes[stack, 2])
    rank_row.fill(0)
    path[0, :2] = state, stack
    lead, node, n_allowed = 0, _NO_NODE, 0
    while True:
        tables = machine.tables
        status, lead, node, lowest, n_allowed, frame, number = _fill(
            tables.edges, tables.states, tables.class_maps, tables.actions, tables.returns, tables.loops, stacks.nodes,
            trie.byte, trie.depth, trie.end, trie.token_start, trie.first, trie.groups, trie.level, trie.rounds,
            rank_row, path, lead, node, lowest, n_allowed,
        )  # fmt: skip
        if status == DONE:
            return depth - lowest, n_allowed
        machine.build(frame, number)


@kernel
def _push(nodes: Array, table: Array, count: Array, stack: int, frame: int) -> int:
    """The node of ``frame`` on ``stack``, made if it is new (there must be room)."""
    mixed = (np.int64(stack) << 32 ^ np.int64(frame)) * np.int64(0x1E3779B97F4A7C15)
    slot = (mixed >> 32) & (len(table) - 1)
    while table[slot] != _NO_NODE:
        node = table[slot]
        if nodes[node, 0] == stack and nodes[node, 1] == frame:
            return int(node)
        slot = (slot + 1) & (len(table) - 1)
    node = np.int32(count[0])
    nodes[node, 0], nodes[node, 1], nodes[node, 2] = stack, frame, nodes[stack, 2] + 1
    table[slot] = node
    count[0] += 1
    return int(node)


@kernel
def _after(returns: Array, frame: int, outcome: int) -> int:
    """The caller's next state, or UNKNOWN (`tables.find_return`)."""
    key = np.int64(frame) << 32 | np.int64(outcome)
    slot = np.int64((np.uint64(key) * np.uint64(0x1E3779B97F4A7C15)) >> np.uint64(33)) & (len(returns) - 1)
    while returns[slot, 0] != UNKNOWN:
        if returns[slot, 0] == key:
            return int(returns[slot, 1])
        slot = (slot + 1) & (len(returns) - 1)
    return UNKNOWN


@kernel
def _advance_regular(delta: Array, byte_class: Array, state: int, data: Array) -> tuple[int, int]:
    for i in range(len(data)):
        target = delta[state, byte_class[data[i]]]
        if target == 0:
            return state, i
        state = np.int64(target)
    return state, len(data)


@kernel
def _step(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array, nodes: Array,
    state: int, stack: int, byte: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Move by one byte: (status, state, stack, frame, number). Writes nothing, so that a step can be tried.

    DONE: state 0 where the byte is not allowed; ``frame`` is to be pushed, or -1. MISSING: see `RecursiveMachine.build`.
    ENDED: a recorded call returned; ``number`` tells whether the byte was consumed by that.
    """
    while True:
        if states[state, 0] == UNKNOWN:
            return MISSING, state, stack, -1, state
        code = edges[states[state, 0] + class_maps[states[state, 1] + byte]]
        if code >= 0:
            return DONE, np.int64(code), stack, -1, 0
        kind, operand = actions[-1 - code, 0], np.int64(actions[-1 - code, 1])
        if kind == CALL:
            return DONE, operand, stack, np.int64(actions[-1 - code, 2]), 0
        if stack == 0:
            return DONE, 0, stack, -1, 0
        frame = np.int64(nodes[stack, 1])
        state = _after(returns, frame, operand)
        if state == UNKNOWN:
            return MISSING, state, stack, frame, operand
        stack = np.int64(nodes[stack, 0])
        if state > 0 and frame >= RECORDED:
            return ENDED, state, stack, -1, int(kind == EXIT)
        if state == 0 or kind == EXIT:
            return DONE, state, stack, -1, 0


@kernel
def _advance(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array,
    nodes: Array, table: Array, count: Array, state: int, stack: int, data: Array, n: int,
) -> tuple[int, int, int, int, int, int]:  # fmt: skip
    """Run over ``data[n:]``: (why it stopped, state, stack, bytes consumed, what is missing: see `RecursiveMachine.build`).

    Stops after a byte that makes a recorded call, and when a recorded call has returned: after the byte if the exit
    consumed it (the last number is 1), before it otherwise.
    """
    while n < len(data):
        status, q, top, frame, number = _step(
            edges, states, class_maps, actions, returns, nodes, state, stack, np.int64(data[n])
        )
        if status == MISSING:
            return MISSING, state, stack, n, frame, number
        if q == 0:
            break
        if frame >= 0:
            top = _push(nodes, table, count, top, frame)
            if frame >= RECORDED:
                status = STARTED
        state, stack = q, top
        n += number if status == ENDED else 1
        if status != DONE:
            return status, state, stack, n, 0, number
    return DONE, state, stack, n, 0, 0


@kernel
def _jump(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array,
    nodes: Array, table: Array, count: Array, next_byte: Array, out: Array,
    state: int, stack: int, n: int, n_whole: int, end: int, end_stack: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Append forced bytes to ``out[:n]``: (why it stopped, state, stack, n, n, state and stack at the last character
    boundary, what is missing)."""
    while True:
        if states[state, 0] == UNKNOWN:
            return MISSING, state, stack, n, n_whole, end, end_stack, -1, state
        start, base, outcome = states[state, 0], states[state, 1], states[state, 2]
        n_live, n_sure, outside = 0, 0, outcome >= 0
        for byte in range(256):
            code = edges[start + class_maps[base + byte]]
            if code != 0:
                n_live += 1
                outside = outside or byte & 0xC0 != 0x80
                if code > 0 or actions[-1 - code, 0] == CALL:  # live with any stack
                    n_sure += 1
                    if n_sure > 1 and outside:
                        break
        if outside or n_live == 0:
            n_whole, end, end_stack = n, state, stack
        if n_sure > 1 or n_live == 0 or (state < len(next_byte) and next_byte[state] == FREE):
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0
        n_live, forced, q, top, pushed, ended = 0, 0, state, stack, np.int64(-1), False
        for byte in range(256):
            if edges[start + class_maps[base + byte]] == 0:
                continue
            status, to, below, frame, number, over = ENDED, state, stack, np.int64(-1), 0, False
            while status == ENDED and number == 0:  # past recorded calls, whatever they read
                status, to, below, frame, number = _step(
                    edges, states, class_maps, actions, returns, nodes, to, below, byte
                )
                over = over or status == ENDED
            if status == MISSING:
                return MISSING, state, stack, n, n_whole, end, end_stack, frame, number
            if to != 0:
                n_live += 1
                forced, q, top, pushed, ended = byte, to, below, frame, over
        if n_live != 1:
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0
        up = stack  # the text may end here if every open call does, with an outcome that its caller takes
        while up != 0 and outcome >= 0:
            after = _after(returns, np.int64(nodes[up, 1]), np.int64(outcome))
            if after == UNKNOWN:
                return MISSING, state, stack, n, n_whole, end, end_stack, np.int64(nodes[up, 1]), np.int64(outcome)
            if states[after, 0] == UNKNOWN:
                return MISSING, state, stack, n, n_whole, end, end_stack, -1, after
            up, outcome = np.int64(nodes[up, 0]), states[after, 2]
        if outcome >= 0:
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0
        if n == len(out):
            return FULL, state, stack, n, n_whole, end, end_stack, 0, 0
        state, stack = q, top
        if pushed >= 0:
            stack = _push(nodes, table, count, stack, pushed)
        out[n] = forced
        n += 1
        if ended:
            if forced < 0x80:
                n_whole, end, end_stack = n, state, stack
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0


@kernel
def _fill(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array, loops: Array, nodes: Array,
    byte: Array, depth: Array, end: Array, token_start: Array, first: Array, groups: Array, level: Array, rounds: Array,
    row: Array, path: Array, lead: int, node: int, lowest: int, n_allowed: int,
) -> tuple[int, int, int, int, int, int, int]:  # fmt: skip
    """The walk along the trie, from ``node`` of those below the first byte ``lead``, or their first one if it is -1.

    ``path`` int32[height + 1, 4] holds, after each depth: state, stack, pushed parent and frame. A frame pushed on the way
    needs no node in the pool: at most one is pushed at each depth, and only what lies deeper on the same path refers to
    it, so the frame pushed at depth ``d`` is called ``-d`` and lies in ``path[d]``.

    Returns why it stopped; lead and node to go on from; the length of the shortest stack that was left (-1 if an exit met
    the end); the number of tokens allowed; what is missing.
    """
    while lead < 256:
        if node < 0:
            node = np.int64(first[lead])
        stop = end[first[lead]] if node >= 0 else -1
        while node < stop:
            d = depth[node]
            q, top = path[d - 1, 0], path[d - 1, 1]
            left = lowest
            while True:
                if states[q, 0] == UNKNOWN:
                    return MISSING, lead, node, lowest, n_allowed, -1, np.int64(q)
                code = edges[states[q, 0] + class_maps[states[q, 1] + byte[node]]]
                if code >= 0:
                    q = code
                    break
                kind, operand, frame = actions[-1 - code, 0], actions[-1 - code, 1], actions[-1 - code, 2]
                if kind == CALL:
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
                after = _after(returns, frame, operand)
                if after == UNKNOWN:
                    return MISSING, lead, node, lowest, n_allowed, np.int64(frame), np.int64(operand)
                q = np.int32(after)
                if q == 0 or kind == EXIT:
                    break
            lowest = left
            below = end[node]
            if q == 0:
                node = np.int64(below)
                continue
            stays = groups[node] & ~loops[q] == 0 and rounds[level[node]] <= states[q, 3]
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
                node = np.int64(below)
                continue
            path[d, 0], path[d, 1] = q, top
            node += 1
        lead += 1
        node = np.int64(-1)
    return DONE, lead, node, lowest, n_allowed, 0, 0
