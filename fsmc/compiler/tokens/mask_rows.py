"""What a stored mask row is: the allowed token ids, or the forbidden ones, or bits.

While a trie is walked a row is bits over *ranks* (places in ``TokenTrie.token_ids``), where a subtree is one range. To
keep it, it is *packed* into ids: most rows of most machines allow a handful of tokens, or (inside a string) all but a
handful, and only what lies between needs a bit for each token. Ids are used up to a quarter of the words of a mask row,
1,002 ids for 128,256 tokens: up to there they are a quarter of the size or less, and as quick to *expand* into the
words of a mask as those are to copy (about a microsecond).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.jit import kernel

ALLOWED, FORBIDDEN, BITS = 0, 1, 2
"""Kinds of packed row: ids of the allowed tokens; ids of the tokens with bytes that are *not* allowed; words of a mask."""


def n_mask_words(vocab_size: int) -> int:
    """int32 words in a mask row of ``vocab_size`` tokens.

    >>> n_mask_words(33)
    2
    """
    return (vocab_size + 31) // 32


def max_packed_ids(n_words: int) -> int:
    """The most ids that a row of ``n_words`` words is packed into; with more it stays bits."""
    return n_words // 4


def expand_row(kind: int, packed: Array, all_tokens: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> None:
    """Write a packed row into ``out`` (int32[at least n_words], whatever it held before; words beyond become 0).

    all_tokens: int32[n_words], every token with bytes, as in `TokenTrie`.

    >>> trie_tokens, out = np.array([0b11100000], np.int32), np.full(1, -1, np.int32)
    >>> expand_row(FORBIDDEN, np.array([5], np.int32), trie_tokens, out); bin(out[0])
    '0b11000000'
    """
    _expand_row(kind, packed, all_tokens, out)


@kernel
def _expand_row(kind: int, packed: Array, all_tokens: Array, out: Array) -> None:
    n_words = len(all_tokens)
    if kind == BITS:
        for w in range(n_words):
            out[w] = packed[w]
    elif kind == FORBIDDEN:
        for w in range(n_words):
            out[w] = all_tokens[w]
        for i in range(len(packed)):
            out[packed[i] >> 5] &= ~(np.int32(1) << np.int32(packed[i] & 31))
    else:
        for w in range(n_words):
            out[w] = 0
        for i in range(len(packed)):
            out[packed[i] >> 5] |= np.int32(1) << np.int32(packed[i] & 31)
    for w in range(n_words, len(out)):
        out[w] = 0


@kernel
def copy_row(
    row_of_state: Array, row_kind: Array, row_start: Array, packed: Array, all_tokens: Array, state: int, out: Array
) -> None:
    """Expand the row of a state of a `TokenIndex`, in one call: with so many arrays that costs as much as the copy."""
    row = row_of_state[state]
    _expand_row(np.int64(row_kind[row]), packed[row_start[row] : row_start[row + 1]], all_tokens, out)
