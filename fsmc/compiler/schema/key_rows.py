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

BYTE, PARENT, END, LOW, HIGH, ENDS = range(6)
"""The columns of `NameTrie.nodes`."""

_NO_CLASSES = read_only(np.zeros(256, np.uint8))
_NO_EDGES = read_only(np.zeros((1, 1), np.int32))


class NameTrie(NamedTuple):
    """Names in the order of their texts as a trie, nodes in preorder, the root first.

    nodes: int32[nodes, 6], rows (the byte that leads to the node, the node above or -1, one past the nodes below, the first of
    the names that begin with its bytes, one past the last of them, the name that ends there or -1). n_names: how many names.
    """

    nodes: npt.NDArray[np.int32]
    n_names: int

    @classmethod
    def of(cls, texts: list[bytes]) -> NameTrie:
        """The trie of different texts in ascending order.

        >>> NameTrie.of([b"a", b"ab"]).nodes.tolist()
        [[0, -1, 3, 0, 2, -1], [97, 0, 3, 0, 2, 0], [98, 1, 3, 1, 2, 1]]
        """
        data = b"".join(texts)
        nodes, path = np.empty((len(data) + 1, 6), np.int32), np.empty(len(data) + 1, np.int32)
        ends = np.array([*accumulate(map(len, texts))], np.int32)
        n = _spell(np.frombuffer(data or b"\0", np.uint8), ends, nodes, path)
        return cls(nodes[:n], len(texts))


class KeyRows:
    """The states of one trie in a machine.

    undeclared: the machine of the undeclared keys that may come, already in ``rsm`` with its state numbers higher by ``offset``; None
    if none ever may. exits: int32, for each name, in order, the code of its closing quote; others: int32[states of undeclared], the
    same after an undeclared key (0 where none ends).
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
        self._columns = columns[: _name_classes(base_class, trie.nodes, self._byte_class, columns)]
        self._map = rsm.class_map(self._byte_class)
        self._newest = np.empty(len(trie.nodes), np.int32)  # per node: the last entry made for it
        self._entries = np.empty((0, 4), np.int32)
        self._n_entries = 0
        self._n_roots = 0
        self._allowed = np.empty((0, trie.n_names + 1), np.bool_)

    def roots(self, allowed: npt.NDArray[np.bool_]) -> list[int]:
        """The states before the first byte, when the names with ``allowed[i]`` may come, and undeclared keys if the last of them says
        so (bool[n, names + 1])."""
        rsm, n, n_nodes = self.rsm, len(allowed), len(self.trie.nodes)
        number, first = self._n_roots, rsm.n_states
        if number == 0:
            self._allowed = allowed
        else:
            self._allowed = _with_room(self._allowed, number + n)
            self._allowed[number : number + n] = allowed
        self._n_roots = number + n
        self._entries = _with_room(self._entries, self._n_entries + n * n_nodes)
        n_columns, roots = len(self._columns), np.empty(n, np.int32)
        scratch = _take_scratch(n * n_nodes * (n_columns + 1))
        codes, like = scratch[: n * n_nodes * n_columns].reshape(-1, n_columns), scratch[n * n_nodes * n_columns :]
        n_new = _add_nodes(
            self.trie.nodes, self._allowed, number, self._delta, self._base, self.offset, self.exits, self.others,
            self._columns, self._byte_class, self._newest, self._entries, self._n_entries, first, codes, like, roots,
        )  # fmt: skip
        self._n_entries += n_new
        if n > 1 and 2 * self._n_entries < len(self._entries):  # there are far fewer than there might have been
            self._entries = self._entries[: self._n_entries].copy()
        if n_new:
            try:
                rsm.reserve(n_new, Like(first, like[:n_new].copy()))
                rsm.set_rows(first, self._map, codes[:n_new])
            except LimitExceeded:  # the entries speak of states that are not there: forget them all
                self._n_entries = 0
                raise
        if len(scratch) <= _MAX_SCRATCH:
            _scratch.append(scratch)
        found: list[int] = roots.tolist()
        return found


_scratch: list[npt.NDArray[np.int32]] = []
"""Arrays for rows that are being made, to be used again: new ones cost more than what is put into them."""

_MAX_SCRATCH = 1 << 20


def _take_scratch(n: int) -> npt.NDArray[np.int32]:
    """An array with room for so many numbers, to be put back; such a large one is not kept."""
    try:
        known = _scratch.pop()
    except IndexError:
        known = np.empty(1 << 12, np.int32)
    if n <= len(known):
        return known
    if len(known) < _MAX_SCRATCH < n:
        _scratch.append(known)
    return np.empty(max(n, min(2 * len(known), _MAX_SCRATCH)), np.int32)


def _with_room(array: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    if n <= len(array):
        return array
    larger = np.empty((max(n, 2 * len(array)), array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _name_classes(base_class: Array, nodes: Array, byte_class: Array, columns: Array) -> int:
    """Byte classes in which each byte of the names, and the quote, is a class of its own. Returns how many there are; ``columns``:
    of each, the class in ``base_class``."""
    byte_class[:] = 0
    for v in range(1, len(nodes)):
        byte_class[nodes[v, BYTE]] = 1
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
def _spell(data: Array, text_ends: Array, nodes: Array, path: Array) -> int:
    """Fill the nodes of a `NameTrie`; how many there are. text_ends: where each text ends in ``data``."""
    nodes[0, BYTE], nodes[0, PARENT], nodes[0, LOW], nodes[0, HIGH], nodes[0, ENDS] = 0, -1, 0, 0, -1
    path[0] = 0
    n, before, start = 1, 0, 0
    for i in range(len(text_ends)):
        length = text_ends[i] - start
        d = 0
        if i > 0:
            while d < length and before + d < start and data[before + d] == data[start + d]:
                d += 1
        while d < length:
            nodes[n, BYTE] = data[start + d]
            nodes[n, PARENT], nodes[n, LOW], nodes[n, HIGH], nodes[n, ENDS] = path[d], i, i, -1
            d += 1
            path[d] = n
            n += 1
        nodes[path[length], ENDS], nodes[path[length], HIGH] = i, i + 1
        before, start = start, text_ends[i]
    for v in range(n):
        nodes[v, END] = v + 1
    for v in range(n - 1, 0, -1):
        parent = nodes[v, PARENT]
        nodes[parent, END] = max(nodes[parent, END], nodes[v, END])
        nodes[parent, HIGH] = max(nodes[parent, HIGH], nodes[v, HIGH])
    return n


@kernel
def places_in_order(classes: Array, live: Array, required: Array, others: bool) -> Any:
    """Which keys may come at each place in the order of the names, as `KeyRows.roots` takes them: bool[names + 1, names + 1].

    classes: int64, the class of each name in the order of texts. live, required: uint8, bit sets of declared names. others: whether
    undeclared keys may come in the end.
    """
    n = len(classes)
    allowed = np.zeros((n + 1, n + 1), np.bool_)
    due = n
    for place in range(n, -1, -1):
        if place < n and required[place >> 3] >> (place & 7) & 1:
            due = place
        for i in range(n):
            c = classes[i]
            allowed[place, i] = place <= c <= due and live[c >> 3] >> (c & 7) & 1
        allowed[place, n] = others and due == n
    return allowed


@kernel
def at_one_place(classes: Array, allowed: Array, others: bool) -> Any:
    """The same for one place at which the classes ``allowed`` may come, a bit set as well: bool[1, names + 1]."""
    n = len(classes)
    found = np.zeros((1, n + 1), np.bool_)
    for i in range(n):
        found[0, i] = allowed[classes[i] >> 3] >> (classes[i] & 7) & 1
    found[0, n] = others
    return found


@kernel
def _add_nodes(
    nodes: Array, allowed: Array, number: int, delta: Array, base_start: int, offset: int, exits: Array, others: Array,
    columns: Array, byte_class: Array, newest: Array, entries: Array, n_entries: int, first: int,
    codes: Array, like: Array, roots: Array,
) -> int:  # fmt: skip
    """Rows of the nodes that are new under ``allowed[number]`` and those after it, one for each of ``roots``, which gets the state of
    the root. Returns how many there are.

    entries: int32[capacity, 4], rows (state, a number under which the node was made, the entry made for the node before, the
    state of the undeclared keys' machine there). like: for each row, that state in the machine, or 0.
    """
    quote, n_names = byte_class[34], allowed.shape[1] - 1
    n_new = 0
    if n_entries == 0:
        newest[:] = -1
    for place in range(len(roots)):
        v, now = 0, number + place
        while v < len(nodes):
            base = np.int64(base_start) if allowed[now, n_names] else np.int64(0)
            row = np.int64(-1)
            if v > 0:
                above = newest[nodes[v, PARENT]]
                row = np.int64(entries[above, 0]) - first
                base = np.int64(delta[entries[above, 3], columns[byte_class[nodes[v, BYTE]]]])
            low, high = nodes[v, LOW], nodes[v, HIGH]
            live = base > 0
            for i in range(low, high):
                live = live or allowed[now, i]
            state = np.int64(0)
            entry = newest[v] if live else np.int32(-1)
            while entry >= 0 and state == 0:
                same = entries[entry, 3] == base
                other = entries[entry, 1]
                for i in range(low, high):
                    if allowed[now, i] != allowed[other, i]:
                        same = False
                        break
                if same:
                    state = np.int64(entries[entry, 0])
                entry = entries[entry, 2]
            new = live and state == 0
            if new:
                state = np.int64(first + n_new)
                made = n_entries + n_new
                entries[made, 0], entries[made, 1], entries[made, 2], entries[made, 3] = state, now, newest[v], base
                newest[v] = made
                for c in range(len(columns)):
                    target = delta[base, columns[c]]
                    codes[n_new, c] = target + offset if target > 0 else 0
                ends = nodes[v, ENDS]
                if ends >= 0:
                    codes[n_new, quote] = exits[ends] if allowed[now, ends] else 0
                elif others[base] != 0:  # else the quote is no end, but may be escaped
                    codes[n_new, quote] = others[base]
                like[n_new] = base + offset if base > 0 else 0
                n_new += 1
            if row >= 0:
                codes[row, byte_class[nodes[v, BYTE]]] = state
            else:
                roots[place] = state
            v = v + 1 if new else np.int64(nodes[v, END])
    return n_new
