"""Masks computed when met: a configuration's row is walked the first time it is asked for, and remembered."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.tokens.difference import ranks_to_ids, store_ranks
from fsmc.compiler.tokens.mask_rows import expand_row, max_packed_ids
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.walk import ReturnStacks, fill

_ENTRY_BYTES = 400  # a key, a tuple, an array's header and their places in the dictionary, about

_Row = tuple[int, npt.NDArray[np.int32]]
_Key = tuple[int, int, tuple[int, ...]]
"""State, number of frames that the row depends on (one more than there are if it met the end of the stack), these frames."""


def pack_row(rank_row: npt.NDArray[np.int32], n_allowed: int, trie: TokenTrie) -> _Row:
    """Pack a row of rank bits, ``n_allowed`` of them set (see `mask_rows`): its kind, and its ids or words (int32, read-only).

    rank_row: int32[ceil(n_tokens / 32)]. Ids come in the order of ranks, that is of the tokens' bytes.

    >>> from fsmc.compiler.tokens.vocabulary import Vocabulary
    >>> trie = TokenTrie.build(Vocabulary.from_tokens([b"%03d" % n for n in range(200)][::-1]))
    >>> pack_row(np.array([0b010, 0, 0, 0, 0, 0, 0], np.int32), 1, trie)
    (0, array([198], dtype=int32))
    """
    n_words = len(trie.all_tokens)
    stored = np.empty(n_words, np.int32)
    kind, size = store_ranks(rank_row, n_allowed, trie.n_tokens, n_words, max_packed_ids(n_words), stored, 0)
    packed, scratch = stored[:size].copy(), np.empty(n_words, np.int32)
    ranks_to_ids(np.array([kind], np.uint8), np.array([0, size]), packed, trie.token_ids, trie.all_tokens, scratch)
    packed.setflags(write=False)
    return kind, packed


class LazyMasks:
    """The mask rows of a machine over a vocabulary, computed when first asked for; safe to use from several threads.

    A row is remembered by the state and as many of the top frames as it depends on, and found again, without looking at
    the frames, by the (state, stack) that asked for it. Beyond ``max_cache_bytes`` the rows that were computed first are
    dropped. ``stacks`` is the pool that the stacks of configurations come from. No row holds EOS, special tokens or padding.
    """

    def __init__(
        self,
        machine: RecursiveMachine,
        trie: TokenTrie,
        *,
        stacks: ReturnStacks | None = None,
        max_cache_bytes: int = 256 << 20,
    ) -> None:
        self.machine, self.trie = machine, trie
        self.stacks = ReturnStacks() if stacks is None else stacks
        self.max_cache_bytes = max_cache_bytes
        self._asked: dict[int | tuple[int, int], _Row] = {}  # by the state if the row depends on nothing else
        self._rows: dict[_Key, _Row] = {}
        self._depths: dict[int, tuple[int, ...]] = {}  # how many frames the rows of a state depend on
        self._nbytes = 0
        self._scratch: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]] = []  # not in use now
        self._lock = threading.Lock()

    @property
    def n_rows(self) -> int:
        """Rows remembered now."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows remembered now, about."""
        return self._nbytes

    def copy_row(self, state: int, stack: int, out: npt.NDArray[np.int32]) -> None:
        """Write the mask row of a configuration into ``out`` (int32, at least ceil(vocab_size / 32) words; more become 0)."""
        row = self._asked.get(state)
        if row is None:
            row = self._asked.get((state, stack))
            if row is None:
                row = self._find(state, stack)
        expand_row(row[0], row[1], self.trie.all_tokens, out)

    def allowed_token_ids(self, state: int, stack: int = 0) -> npt.NDArray[np.int32]:
        """The ids of the tokens that a configuration allows, ascending (int32)."""
        out = np.empty(len(self.trie.all_tokens), np.int32)
        self.copy_row(state, stack, out)
        return np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little")).astype(np.int32)

    def _find(self, state: int, stack: int) -> _Row:
        """The row of a configuration that has not asked before."""
        for depth in self._depths.get(state, ()):
            key = (state, depth, self.stacks.frames(stack, depth))
            row = self._rows.get(key)
            if row is not None:
                break
        else:
            depth, row = self._compute(state, stack)
            key = (state, depth, self.stacks.frames(stack, depth))
        with self._lock:
            if key not in self._rows:
                self._rows[key] = row
                self._nbytes += row[1].nbytes + _ENTRY_BYTES
            depths = self._depths.get(state, ())
            if depth not in depths:
                self._depths[state] = (*depths, depth)
            asked = (state, stack) if depth else state
            if asked not in self._asked:
                self._asked[asked] = row
                self._nbytes += _ENTRY_BYTES
            if self._nbytes > self.max_cache_bytes:
                self._forget()
        return row

    def _forget(self) -> None:
        """Drop rows, the first ones first, until a quarter of the room is free; the ways to all others are found again."""
        self._asked.clear()
        self._depths.clear()
        self._nbytes = sum(packed.nbytes + _ENTRY_BYTES for _, packed in self._rows.values())
        while self._nbytes > self.max_cache_bytes * 3 // 4 and len(self._rows) > 1:
            _, packed = self._rows.pop(next(iter(self._rows)))
            self._nbytes -= packed.nbytes + _ENTRY_BYTES

    def _compute(self, state: int, stack: int) -> tuple[int, _Row]:
        """How many frames a row depends on, and the row. Without the lock: two threads may both do it, with equal results."""
        try:
            rank_row, path = self._scratch.pop()
        except IndexError:
            rank_row = np.empty((self.trie.n_tokens + 31) // 32, np.int32)
            path = np.empty((self.trie.height + 1, 4), np.int32)
        depth, n_allowed = fill(self.machine, self.stacks, self.trie, state, stack, rank_row, path)
        row = pack_row(rank_row, n_allowed, self.trie)
        self._scratch.append((rank_row, path))
        return depth, row
