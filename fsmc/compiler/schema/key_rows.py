"""Rows of the states in keys, made by a kernel for all names of an object at once.

The states are those of `key_trie`: a node of the trie of the declared names, with the names below it that may come. Made one
by one in Python they cost more than all the rest of a mask, since a mask looks at every one of them; a thousand names
are the other way round. So objects of ordinary size have theirs made here, when a key may begin; what is there already
from another place in the object is used again, with all below it.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import Like
from fsmc.compiler.automata.tables import read_only
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.jit import kernel

MAX_NODES = 4096
"""Tries with more nodes are not built whole."""

_NO_CLASSES = read_only(np.zeros(256, np.uint8))
_NO_EDGES = read_only(np.zeros((1, 1), np.int32))


class NameTrie(NamedTuple):
    """Names in the order of their texts as a trie, nodes in preorder, the root first.

    byte: uint8[N], the byte that leads to a node; parent, end: int32[N], the node above, and one past those below;
    low, high: int32[N], the names that begin with the node's bytes; ends: int32[N], the name that ends there, or -1.
    """

    byte: npt.NDArray[np.uint8]
    parent: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]

    @classmethod
    def of(cls, texts: list[bytes]) -> NameTrie:
        """The trie of different texts in ascending order.

        >>> trie = NameTrie.of([b"a", b"ab", b"b"])
        >>> trie.parent.tolist(), trie.ends.tolist(), trie.end.tolist()
        ([-1, 0, 1, 0], [-1, 0, 1, 2], [4, 3, 3, 4])
        """
        data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
        offsets = np.array([0, *accumulate(map(len, texts))], np.int64)
        most = int(offsets[-1]) + 1
        numbers = np.empty((5, most), np.int32)
        byte, path = np.zeros(most, np.uint8), np.zeros(most + 1, np.int32)
        n = _spell(data, offsets, byte, numbers, path)
        return cls(byte[:n], *(numbers[:, :n]))


class KeyRows:
    """The states of one trie, with the same undeclared keys allowed, in a machine.

    undeclared: their machine, already in ``rsm`` with its state numbers higher by ``offset``; None if none may come.
    exits: for each name, in order, the code of its closing quote; others: int32[states of undeclared], the same after an
    undeclared key (0 where none ends).
    """

    def __init__(
        self,
        rsm: LazyRSM,
        trie: NameTrie,
        exits: npt.NDArray[np.int32],
        undeclared: OutcomeDFA | None,
        offset: int,
        others: npt.NDArray[np.int32],
    ) -> None:
        self.rsm, self.trie, self.exits, self.offset, self.others = rsm, trie, exits, offset, others
        if undeclared is None:
            base_class, self._delta, self._base = _NO_CLASSES, _NO_EDGES, 0
        else:
            base_class, self._delta, self._base = undeclared.byte_class, undeclared.delta, undeclared.start
        self._byte_class, columns = np.empty(256, np.uint8), np.empty(256, np.int32)
        self._columns = columns[: _name_classes(base_class, trie.byte, self._byte_class, columns)].copy()
        self._map = rsm.class_map(self._byte_class)
        n_nodes = len(trie.byte)
        self._newest = np.full(n_nodes, -1, np.int32)  # per node: the last entry made for it
        self._entries = np.empty((2 * n_nodes, 4), np.int32)
        self._n_entries = 0
        self._n_roots = 0
        self._allowed = np.empty((4, len(exits)), np.bool_)

    def roots(self, allowed: npt.NDArray[np.bool_]) -> list[int]:
        """The states before the first byte, when the names with ``allowed[i]`` may come (bool[n, names])."""
        rsm, trie, n, n_nodes = self.rsm, self.trie, len(allowed), len(self.trie.byte)
        first_number, self._n_roots = self._n_roots, self._n_roots + n
        self._allowed = _with_room(self._allowed, self._n_roots)
        self._entries = _with_room(self._entries, self._n_entries + n * n_nodes)
        self._allowed[first_number : self._n_roots] = allowed
        codes, like = np.empty((n * n_nodes, len(self._columns)), np.int32), np.empty(n * n_nodes, np.int32)
        first, roots = rsm.n_states, np.zeros(n, np.int64)
        n_new = _add_nodes(
            *trie, self._allowed, first_number, self._delta, self._base, self.offset, self.exits, self.others,
            self._columns, self._byte_class, self._newest, self._entries, self._n_entries, first, codes, like, roots,
        )  # fmt: skip
        self._n_entries += n_new
        if 2 * self._n_entries < len(self._entries):  # there are far fewer than there might have been
            self._entries = self._entries[: self._n_entries].copy()
        if n_new:
            try:
                rsm.reserve(n_new, Like(first, like[:n_new].copy()))
                rsm.set_rows(first, self._map, codes[:n_new])
            except LimitExceeded:  # the entries speak of states that are not there: forget them all
                self._newest.fill(-1)
                self._n_entries = 0
                raise
        found: list[int] = roots.tolist()
        return found


def _with_room(array: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    if n <= len(array):
        return array
    larger = np.empty((max(n, 2 * len(array)), array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _name_classes(base_class: Array, byte: Array, byte_class: Array, columns: Array) -> int:
    """Byte classes in which each byte of the names, and the quote, is a class of its own. Returns how many there are; ``columns``:
    of each, the class in ``base_class``."""
    byte_class[:] = 0
    for v in range(1, len(byte)):
        byte_class[byte[v]] = 1
    byte_class[34] = 1
    number = np.full(256, -1, np.int64)
    n = 0
    for b in range(256):
        base = base_class[b]
        if byte_class[b] == 0 and number[base] >= 0:
            byte_class[b] = number[base]
            continue
        if byte_class[b] == 0:
            number[base] = n
        byte_class[b] = n
        columns[n] = base
        n += 1
    return n


@kernel
def _spell(data: Array, offsets: Array, byte: Array, numbers: Array, path: Array) -> int:
    """Fill the arrays of `NameTrie`; the number of nodes. ``numbers``: parent, end, low, high, ends."""
    for k in range(5):
        numbers[k, 0] = -1 if k == 0 or k == 4 else 0
    n = 1
    for i in range(len(offsets) - 1):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        d = 0
        if i > 0:
            before, most = offsets[i - 1], min(length, offsets[i] - offsets[i - 1])
            while d < most and data[before + d] == data[start + d]:
                d += 1
        while d < length:
            byte[n] = data[start + d]
            numbers[0, n], numbers[2, n], numbers[3, n], numbers[4, n] = path[d], i, i, -1
            d += 1
            path[d] = n
            n += 1
        numbers[4, path[length]], numbers[3, path[length]] = i, i + 1
    for v in range(n):
        numbers[1, v] = v + 1
    for v in range(n - 1, 0, -1):
        parent = numbers[0, v]
        numbers[1, parent] = max(numbers[1, parent], numbers[1, v])
        numbers[3, parent] = max(numbers[3, parent], numbers[3, v])
    return n


@kernel
def _add_root(
    byte: Array, parent: Array, end: Array, low: Array, high: Array, ends: Array, allowed: Array, number: int,
    delta: Array, base_start: int, offset: int, exits: Array, others: Array,
    columns: Array, byte_class: Array, newest: Array, entries: Array, n_entries: int, first: int,
    codes: Array, like: Array, roots: Array, place: int, n_new: int, quote: int,
) -> int:  # fmt: skip
    """`_add_nodes` for one root; how many nodes are new so far."""
    v = 0
    while v < len(byte):
        base = base_start
        row = np.int64(-1)
        if v > 0:
            above = newest[parent[v]]
            row = np.int64(entries[above, 0]) - first
            base = delta[entries[above, 3], columns[byte_class[byte[v]]]]
        live = base > 0
        for i in range(low[v], high[v]):
            live = live or allowed[number, i]
        state = 0
        entry = newest[v] if live else -1
        while entry >= 0 and state == 0:
            same = True
            other = entries[entry, 1]
            for i in range(low[v], high[v]):
                if allowed[number, i] != allowed[other, i]:
                    same = False
                    break
            if same:
                state = entries[entry, 0]
            entry = entries[entry, 2]
        new = live and state == 0
        if new:
            state = first + n_new
            entry = n_entries + n_new
            entries[entry, 0], entries[entry, 1], entries[entry, 2], entries[entry, 3] = state, number, newest[v], base
            newest[v] = entry
            for c in range(len(columns)):
                target = delta[base, columns[c]]
                codes[n_new, c] = target + offset if target > 0 else 0
            if ends[v] >= 0:
                codes[n_new, quote] = exits[ends[v]] if allowed[number, ends[v]] else 0
            elif others[base] != 0:  # else the quote is no end, but may be escaped
                codes[n_new, quote] = others[base]
            like[n_new] = base + offset if base > 0 else 0
            n_new += 1
        if row >= 0:
            codes[row, byte_class[byte[v]]] = state
        else:
            roots[place] = state
        v = v + 1 if new else np.int64(end[v])
    return n_new


@kernel
def _add_nodes(
    byte: Array, parent: Array, end: Array, low: Array, high: Array, ends: Array, allowed: Array, number: int,
    delta: Array, base_start: int, offset: int, exits: Array, others: Array,
    columns: Array, byte_class: Array, newest: Array, entries: Array, n_entries: int, first: int,
    codes: Array, like: Array, roots: Array,
) -> int:  # fmt: skip
    """Rows of the nodes that are new under ``allowed[number]`` and those after it, one for each of ``roots``, which gets the state of
    the root.

    entries: int32[capacity, 4], rows (state, a number under which the node was made, the entry made for the node before, the
    state of the undeclared keys' machine there). like: for each row, that state in the machine, or 0.
    """
    quote = byte_class[34]
    n_new = 0
    for i in range(len(roots)):
        n_new = _add_root(
            byte, parent, end, low, high, ends, allowed, number + i, delta, base_start, offset, exits, others, columns,
            byte_class, newest, entries, n_entries, first, codes, like, roots, i, n_new, quote,
        )  # fmt: skip
    return n_new
