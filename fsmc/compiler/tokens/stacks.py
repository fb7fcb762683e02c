"""Return stacks of a recursive state machine as nodes of one pool, and the kernels that push and return.

Each node is a frame on top of a parent node, and equal stacks are the same node (hash-consing), so that a configuration is
two integers, state and node: comparing, hashing and keeping it for rollback cost nothing, and a mask row can be remembered
by it.
"""

from __future__ import annotations

import threading

import numpy as np

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.tables import UNKNOWN
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import addresses_of, kernel

EMPTY_STACK = 0

_NO_NODE = -1
_EMPTY_TABLE = np.full(256, _NO_NODE, np.int32)


class ReturnStacks:
    """The pool of return stacks of one machine, shared by all its matchers, safe to use from several threads.

    nodes: int32[capacity, 3]; row ``i`` is the stack with ``frame`` on top of the stack ``parent``, of ``depth`` frames:
    (parent, frame, depth). Node 0 is the empty stack. Nodes are never changed or removed once made. More than
    ``max_nodes`` raise `LimitExceeded`.

    >>> stacks = ReturnStacks()
    >>> inner = stacks.push(stacks.push(EMPTY_STACK, 7), 5)
    >>> stacks.frames(inner), stacks.push(stacks.push(EMPTY_STACK, 7), 5) == inner
    ((7, 5), True)

    addresses: `addresses_of` the nodes, the hash table that finds them and their number. They hold, and a kernel may push, while
    ``lock`` is held. shown: the addresses and the nodes, for who only reads nodes, which hold as long as he keeps both. room: nodes
    that can be pushed for certain, see `reserve`; who takes some of it, with the lock held, takes them off.
    """

    def __init__(self, *, max_nodes: int = 1 << 24) -> None:
        self.max_nodes = max_nodes
        self.nodes = np.zeros((64, 3), np.int32)
        self._table = _EMPTY_TABLE.copy()
        self._count = np.ones(1, np.int64)
        self.addresses = addresses_of(self.nodes, self._table, self._count)
        self.shown = self.addresses, self.nodes
        self.lock = threading.Lock()
        self.room = 63

    def __len__(self) -> int:
        return int(self._count[0])

    def push(self, stack: int, frame: int) -> int:
        """The stack ``stack`` with ``frame`` on top."""
        with self.lock:
            self.reserve(1)
            return int(push_node(self.nodes, self._table, self._count, stack, frame))

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

    def reserve(self, n_more: int) -> None:
        """Make room for more nodes, with the lock held. The arrays are replaced, never resized: a kernel that still reads the
        old ones may."""
        self.room -= n_more
        if self.room >= 0:
            return
        needed = len(self) + n_more
        self.room = len(self.nodes) - needed
        if self.room >= 0:
            return
        if needed > self.max_nodes:
            raise LimitExceeded(
                "max_nodes", self.max_nodes, needed, "the text nests too deeply, or give more room for stacks"
            )
        capacity = max(2 * len(self.nodes), 1 << needed.bit_length())
        nodes = np.zeros((capacity, 3), np.int32)
        table, count = np.full(4 * capacity, _NO_NODE, np.int32), np.ones(1, np.int64)
        for parent, frame, _ in self.nodes[1 : len(self)].tolist():
            push_node(nodes, table, count, parent, frame)
        self.nodes, self._table, self._count = nodes, table, count
        self.addresses = addresses_of(nodes, table, count)
        self.shown = self.addresses, nodes
        self.room = capacity - needed


@kernel
def push_node(nodes: Array, table: Array, count: Array, stack: int, frame: int) -> int:
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
def after(returns: Array, frame: int, outcome: int) -> int:
    """The caller's next state, or UNKNOWN (`tables.find_return`)."""
    key = np.int64(frame) << 32 | np.int64(outcome)
    slot = np.int64((np.uint64(key) * np.uint64(0x1E3779B97F4A7C15)) >> np.uint64(33)) & (len(returns) - 1)
    while returns[slot, 0] != UNKNOWN:
        if returns[slot, 0] == key:
            return int(returns[slot, 1])
        slot = (slot + 1) & (len(returns) - 1)
    return UNKNOWN
