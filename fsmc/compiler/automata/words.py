"""The machine of finitely many texts: the smallest acyclic one, in time linear in their length.

The texts in order make a trie in preorder. Read backwards, children come before their parents, so that each node can be
looked up by its label and its edges: nodes from which the same can follow become one state. That is how Daciuk et al.
(2000) grow the minimal automaton of a sorted list, with all of the list at hand (Revuz 1992): no text is entered into an
automaton that is changed under it, and no object is made for a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA, Array
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import kernel

MAX_WORD_BYTES = 1 << 28
"""Of the table of one such machine."""


def words_dfa(words: Iterable[bytes], *, max_states: int | None = None, max_bytes: int = MAX_WORD_BYTES) -> DFA:
    """The minimal DFA that accepts exactly these texts. Raises LimitExceeded like `word_table`.

    >>> dfa = words_dfa([b"go", b"go on", b"gone"])
    >>> dfa.matches(b"go"), dfa.matches(b"go o"), dfa.n_states
    (True, False, 8)
    """
    byte_class, delta, outcome = word_table(dict.fromkeys(words, 0), max_states=max_states, max_bytes=max_bytes)
    return DFA(byte_class, delta, outcome >= 0, min(1, len(delta) - 1))


def word_table(
    outcomes: Mapping[bytes, int], *, max_states: int | None = None, max_bytes: int = MAX_WORD_BYTES
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The minimal machine of these texts, each with its outcome (a number from 0 on); it starts in state 1, if there are any.

    Returns byte_class uint8[256], delta int32[n_states, n_classes] (0 where the text cannot go on) and int32[n_states], the
    outcome of a text that ends there, or -1. Raises LimitExceeded for more than ``max_states``, or a table of more than
    ``max_bytes``.
    """
    if not outcomes:
        return np.zeros(256, np.uint8), np.zeros((1, 1), np.int32), np.full(1, -1, np.int32)
    words = sorted(outcomes)
    data = np.frombuffer(b"".join(words), np.uint8)
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, words), np.int64, len(words)), out=offsets[1:])
    labels = np.fromiter(map(outcomes.__getitem__, words), np.int32, len(words))
    used = np.unique(data)
    byte_class = np.zeros(256, np.uint8)
    n_classes = len(used) + (len(used) < 256)
    byte_class[used] = np.arange(n_classes - len(used), n_classes)
    byte, label, first, following = _trie(data, offsets, labels)
    state, n_states = _merge(byte, label, first, following)
    if max_states is not None and n_states > max_states:
        raise LimitExceeded("max_states", max_states, n_states, "the texts listed are too many or too long")
    size = 4 * n_states * n_classes
    if size > max_bytes:
        raise LimitExceeded("max_bytes", max_bytes, size, "the texts listed are too many or too long")
    delta = np.zeros((n_states, n_classes), np.int32)
    outcome = np.full(n_states, -1, np.int32)
    _fill(byte, label, first, following, state, byte_class, delta, outcome)
    return byte_class, delta, outcome


@kernel
def _trie(data: Array, offsets: Array, labels: Array) -> tuple[Array, Array, Array, Array]:
    """The trie of sorted texts in preorder, node 0 its root.

    Returns for each node: uint8 the byte that leads to it, int32 its label (-1 for none), int32 its first child and its next
    sibling (0 for none).
    """
    n = len(labels)
    byte = np.empty(len(data) + 1, np.uint8)
    label = np.full(len(data) + 1, -1, np.int32)
    first = np.zeros(len(data) + 1, np.int32)
    following = np.zeros(len(data) + 1, np.int32)
    longest = 0
    for i in range(n):
        longest = max(longest, offsets[i + 1] - offsets[i])
    path = np.zeros(longest + 1, np.int32)
    byte[0] = 0
    n_nodes = 1
    before = 0  # length of the text before
    for i in range(n):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        k = 0
        if i > 0:
            last = offsets[i - 1]
            while k < size and k < before and data[start + k] == data[last + k]:
                k += 1
        for depth in range(k, size):
            node = n_nodes
            n_nodes += 1
            byte[node] = data[start + depth]
            if depth == k and depth < before:
                following[path[depth + 1]] = node
            else:
                first[path[depth]] = node
            path[depth + 1] = node
        label[path[size]] = labels[i]
        before = size
    return byte[:n_nodes], label[:n_nodes], first[:n_nodes], following[:n_nodes]


@kernel
def _merge(byte: Array, label: Array, first: Array, following: Array) -> tuple[Array, int]:
    """The state of each node, int32, and how many states there are, DEAD (0) included. The root is state 1."""
    n = len(byte)
    same = np.empty(n, np.int32)  # the node that stands for all of its kind
    slots = np.full(1 << max(4, np.int64(np.ceil(np.log2(2.0 * n)))), -1, np.int32)
    mask = len(slots) - 1
    for node in range(n - 1, -1, -1):
        key = np.uint64(label[node] + 2)
        child = first[node]
        while child != 0:
            key = (key ^ np.uint64(byte[child])) * np.uint64(0x9E3779B97F4A7C15)
            key = (key ^ np.uint64(same[child])) * np.uint64(0xBF58476D1CE4E5B9)
            key ^= key >> np.uint64(29)
            child = following[child]
        slot = np.int64(key >> np.uint64(17)) & mask
        same[node] = node
        while slots[slot] >= 0:
            other = slots[slot]
            if label[other] == label[node]:
                a, b = first[node], first[other]
                while a != 0 and b != 0 and byte[a] == byte[b] and same[a] == same[b]:
                    a, b = following[a], following[b]
                if a == 0 and b == 0:
                    same[node] = other
                    break
            slot = (slot + 1) & mask
        if same[node] == node:
            slots[slot] = node
    n_states = 1
    state = np.empty(n, np.int32)
    for node in range(n):
        if same[node] == node:
            state[node] = n_states
            n_states += 1
    for node in range(n):
        state[node] = state[same[node]]
    return state, n_states


@kernel
def _fill(
    byte: Array,
    label: Array,
    first: Array,
    following: Array,
    state: Array,
    byte_class: Array,
    delta: Array,
    outcome: Array,
) -> None:
    """Write the rows of ``delta`` and the outcomes, from zeros and -1."""
    for node in range(len(byte)):
        outcome[state[node]] = label[node]
        child = first[node]
        while child != 0:
            delta[state[node], byte_class[byte[child]]] = state[child]
            child = following[child]
