"""How many characters of a string each token takes: the masks of strings of bounded length, from those of any string.

From a place in a string of at least ``low`` and at most ``high`` more characters, a token that stays inside may follow if
it takes at most ``high`` characters, and one that holds the closing quote if there are ``low`` to ``high`` before that.
So all that is left to do for each count is to leave tokens out of the mask of a string of any length.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import Counted, RecursiveMachine
from fsmc.compiler.tokens.mask_source import RECORD, Scratch
from fsmc.compiler.tokens.trie import DEPTH, END, START, TokenTrie
from fsmc.jit import bytes_at, int_rows_at, ints_at, kernel

MAX_ROWS = 256
"""Rows that are kept for a vocabulary, one for each number of characters that may follow."""


class TokenLengths:
    """Of each token the characters that it takes from one state on, int32[vocab_size]: up to the closing quote, if it holds that; a
    character that it begins counts. -1 where it cannot be read. words: the mask of the tokens that stay inside."""

    def __init__(
        self, machine: RecursiveMachine, trie: TokenTrie, counted: Counted, words: npt.NDArray[np.int32]
    ) -> None:
        self.lengths, self.words = np.full(trie.vocab_size, -1, np.int32), words
        tables, path = machine.tables, np.empty((trie.height + 1, 2), np.int32)
        path[0] = counted.like, 0
        _measure(tables.addresses, trie.addresses, counted.whole, counted.offset, path, self.lengths)
        self.longest = int(self.lengths.max(initial=0))
        self._rows: dict[int, npt.NDArray[np.int32]] = {}

    def at_most(self, high: int) -> npt.NDArray[np.int32]:
        """The mask of the tokens that stay inside and take at most so many characters."""
        if high >= self.longest:
            return self.words
        row = self._rows.get(high)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                self._rows.clear()
            row = np.empty_like(self.words)
            _shorter(self.words, self.lengths, high, row)
            row.setflags(write=False)
            self._rows[high] = row
        return row

    def write(
        self, record: npt.NDArray[np.int64], counted: Counted, scratch: Scratch
    ) -> tuple[npt.NDArray[np.int32], int]:
        """Write the record of a counted state to ``scratch.record``, from that of the state without the count for the same stack;
        the words it begins with, and its size."""
        words = self.at_most(counted.high)
        size = _within(
            record, words.ctypes.data, self.lengths, counted.low, counted.high, scratch.record, scratch.addresses
        )
        return words, size


_lengths: weakref.WeakKeyDictionary[TokenTrie, dict[tuple[Hashable, int], TokenLengths]] = weakref.WeakKeyDictionary()


def token_lengths(
    machine: RecursiveMachine, trie: TokenTrie, counted: Counted, words: npt.NDArray[np.int32]
) -> TokenLengths:
    """The `TokenLengths` of a state of a named block, made once for a vocabulary."""
    known = _lengths.setdefault(trie, {})
    key = (counted.name, counted.like - counted.offset)
    found = known.get(key)
    if found is None:
        found = known[key] = TokenLengths(machine, trie, counted, words)
    return found


@kernel
def _measure(machine: Array, trie_at: Array, whole: Array, offset: int, path: Array, lengths: Array) -> None:
    """Fill ``lengths``. ``path`` int32[height + 1, 2]: after each depth, the state and the characters that are complete."""
    edges, states, class_maps = ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2)
    trie, token_ids = int_rows_at(trie_at, 0, 8), ints_at(trie_at, 1)
    node = 0
    while node < len(trie):
        d = np.int64(trie[node, DEPTH])
        q, n = path[d - 1, 0], path[d - 1, 1]
        q = edges[states[q, 0] + class_maps[states[q, 1] + (trie[node, 0] & 255)]]
        if q <= 0:
            if q < 0:
                for rank in range(trie[node, START], trie[node, START + 2]):
                    lengths[token_ids[rank]] = n
            node = np.int64(trie[node, END])
            continue
        ends = whole[q - offset]
        if ends:
            n += np.int32(1)
        for rank in range(trie[node, START], trie[node, START + 1]):
            lengths[token_ids[rank]] = n if ends else n + 1
        path[d, 0], path[d, 1] = q, n
        node += 1


@kernel
def _shorter(words: Array, lengths: Array, high: int, row: Array) -> None:
    """The bits of ``words`` whose tokens take at most ``high`` characters."""
    for w in range(len(words)):
        left = words[w]
        kept = np.int32(0)
        if left != 0:
            for b in range(32):
                if left >> b & 1 and lengths[32 * w + b] <= high:
                    kept |= np.int32(1) << np.int32(b)
        row[w] = kept


@kernel
def _within(record: Array, words: int, lengths: Array, low: int, high: int, to: Array, scratch: Array) -> int:
    """Copy a record with other words, and of its ids only those of tokens that take ``low`` to ``high`` characters; its size."""
    ids, out = ints_at(record, 1), ints_at(scratch, 7)
    n = 0
    for i in range(len(ids)):
        if low <= lengths[ids[i]] <= high:
            out[n] = ids[i]
            n += 1
    to[0], to[1], to[2], to[3] = words, record[1], scratch[12] + 8 * RECORD, n
    return RECORD + (n + 1) // 2
