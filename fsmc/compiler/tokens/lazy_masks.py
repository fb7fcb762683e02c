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

    Rows are remembered by state, those that depend on the return stack by state and stack. Beyond ``max_cache_bytes``
    the rows that were computed first are dropped. ``stacks`` is the pool that the stacks of configurations come from.
    No row holds EOS, special tokens or padding.
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
        self._rows: dict[int | tuple[int, int], _Row] = {}
        self._nbytes = 0
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
        row = self._rows.get(state)
        if row is None:
            row = self._rows.get((state, stack))
            if row is None:
                row = self._compute(state, stack)
        expand_row(row[0], row[1], self.trie.all_tokens, out)

    def allowed_token_ids(self, state: int, stack: int = 0) -> npt.NDArray[np.int32]:
        """The ids of the tokens that a configuration allows, ascending (int32)."""
        out = np.empty(len(self.trie.all_tokens), np.int32)
        self.copy_row(state, stack, out)
        return np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little")).astype(np.int32)

    def _compute(self, state: int, stack: int) -> _Row:
        """Walk the trie (without the lock: two threads may both do it, with equal results) and remember the row."""
        rank_row = np.empty((self.trie.n_tokens + 31) // 32, np.int32)
        path = np.empty((self.trie.height + 1, 4), np.int32)
        looked, n_allowed = fill(self.machine, self.stacks, self.trie, state, stack, rank_row, path)
        row = pack_row(rank_row, n_allowed, self.trie)
        key = (state, stack) if looked else state
        with self._lock:
            if key not in self._rows:
                self._rows[key] = row
                self._nbytes += row[1].nbytes + _ENTRY_BYTES
            while self._nbytes > self.max_cache_bytes and len(self._rows) > 1:
                _, packed = self._rows.pop(next(iter(self._rows)))
                self._nbytes -= packed.nbytes + _ENTRY_BYTES
        return row
