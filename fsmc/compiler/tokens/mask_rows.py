"""What a stored mask row is: the allowed token ids, the forbidden ones, or bits, whichever is smallest.

While a trie is walked a row is bits over *ranks* (places in ``TokenTrie.token_ids``), where a subtree is one range. To
keep it, it is *packed* into ids: most rows of most machines allow a handful of tokens, or (inside a string) all but a
handful, and only what lies between needs a bit for each token. A packed row is *expanded* into the int32 words of a
mask when it is used: 0.7 µs for the words and about a nanosecond for each id.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.jit import kernel

ALLOWED, FORBIDDEN, BITS = 0, 1, 2
"""Kinds of packed row: ids of the allowed tokens; ids of the tokens with bytes that are *not* allowed; words of a mask."""


def n_mask_words(vocab_size: int) -> int:
    """int32 words in a mask row of ``vocab_size`` tokens.

    >>> n_mask_words(33)
    2
    """
    return (vocab_size + 31) // 32


def pack_row(
    rank_row: npt.NDArray[np.int32], token_ids: npt.NDArray[np.int32], n_words: int
) -> tuple[int, npt.NDArray[np.int32]]:
    """Pack a row of rank bits: its kind, and its ids or words (int32).

    rank_row: int32[at least ceil(n_tokens / 32)], bit ``r`` for the token ``token_ids[r]``; ``n_words``: of a mask row.
    Ids come in the order of ranks, that is of the tokens' bytes.

    >>> pack_row(np.array([0b010], np.int32), np.array([7, 5, 6], np.int32), 1)
    (0, array([5], dtype=int32))
    """
    packed = np.empty(n_words, np.int32)
    kind, n = _pack_row(rank_row, token_ids, packed)
    return kind, packed[:n].copy()


def expand_row(
    kind: int, packed: npt.NDArray[np.int32], all_tokens: npt.NDArray[np.int32], out: npt.NDArray[np.int32]
) -> None:
    """Write a packed row into ``out`` (int32[at least n_words], whatever it held before; words beyond become 0).

    >>> out = np.full(1, -1, np.int32)
    >>> expand_row(FORBIDDEN, np.array([5], np.int32), np.array([0b11100000], np.int32), out); bin(out[0])
    '0b11000000'
    """
    _expand_row(kind, packed, all_tokens, out)


@kernel
def _count_bits(word):  # type: ignore[no-untyped-def]
    """Bits set in an int32 (the pattern that LLVM turns into one POPCNT)."""
    x = np.int64(word) & 0xFFFFFFFF
    x -= (x >> 1) & 0x55555555
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24) & 0xFF


@kernel
def _pack_row(rank_row, token_ids, packed):  # type: ignore[no-untyped-def]
    n_words = len(packed)
    n_tokens = len(token_ids)
    n_allowed = 0
    for w in range((n_tokens + 31) >> 5):
        n_allowed += _count_bits(rank_row[w])
    kind = ALLOWED if n_allowed < n_words else FORBIDDEN if n_tokens - n_allowed < n_words else BITS
    if kind == BITS:
        for w in range(n_words):
            packed[w] = 0
    n = 0
    for w in range((n_tokens + 31) >> 5):
        bits = np.int64(rank_row[w]) & 0xFFFFFFFF
        if kind == FORBIDDEN:
            bits ^= 0xFFFFFFFF
        if bits == 0:
            continue
        for r in range(w << 5, min((w << 5) + 32, n_tokens)):
            if bits >> (r & 31) & 1:
                token = token_ids[r]
                if kind == BITS:
                    packed[token >> 5] |= np.int64(1) << (token & 31)
                else:
                    packed[n] = token
                    n += 1
    return kind, n_words if kind == BITS else n


@kernel
def _expand_row(kind, packed, all_tokens, out):  # type: ignore[no-untyped-def]
    if kind == BITS:
        for w in range(len(packed)):
            out[w] = packed[w]
    elif kind == FORBIDDEN:
        for w in range(len(all_tokens)):
            out[w] = all_tokens[w]
        for i in range(len(packed)):
            out[packed[i] >> 5] &= ~(np.int64(1) << (packed[i] & 31))
    else:
        for w in range(len(all_tokens)):
            out[w] = 0
        for i in range(len(packed)):
            out[packed[i] >> 5] |= np.int64(1) << (packed[i] & 31)
    for w in range(len(all_tokens), len(out)):
        out[w] = 0
