"""Masks computed when met: a configuration's row is walked the first time it is asked for, and remembered."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import Block, Like, RecursiveMachine
from fsmc.compiler.tokens.mask_rows import Row, max_packed_ids
from fsmc.compiler.tokens.mask_walk import (
    Scratch,
    borrow_scratch,
    ids_in,
    other_exits,
    return_scratch,
    walk_block,
    walk_configuration,
)
from fsmc.compiler.tokens.stacks import ReturnStacks
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import kernel

_ENTRY_BYTES = 400  # a key, a tuple, an array's header and their places in the dictionary, about
_MAX_SHARED = 2048  # rows of shared blocks that are kept for a vocabulary


class BlockRow(NamedTuple):
    """The tokens that stay inside a block, and the exits (see `walk_block`)."""

    inside: Row
    exits: npt.NDArray[np.int32]


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
        self._nothing = np.zeros(len(trie.all_tokens), np.int32)
        self._asked: dict[int | tuple[int, int], Row] = {}  # by the state if the row depends on nothing else
        self._rows: dict[
            tuple[int, int, tuple[int, ...]], Row
        ] = {}  # by state, number of frames looked at, these frames
        self._depths: dict[int, tuple[int, ...]] = {}  # how many frames the rows of a state depend on
        self._blocks: dict[int, BlockRow | None] = {}
        self._nbytes = 0
        self._lock = threading.Lock()

    @property
    def n_rows(self) -> int:
        """Rows remembered now."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows remembered now, about, without what the grammars of a vocabulary share."""
        return self._nbytes

    def copy_row(self, state: int, stack: int, out: npt.NDArray[np.int32]) -> None:
        """Write the mask row of a configuration into ``out`` (int32, at least ceil(vocab_size / 32) words; more become 0)."""
        row = self.row(state, stack)
        copy_flipped(row[0], row[1], out)

    def row(self, state: int, stack: int) -> Row:
        """The row of a configuration as it is kept."""
        row = self._asked.get(state)
        if row is None:
            row = self._asked.get((state, stack))
            if row is None:
                row = self._find(state, stack)
        return row

    def allowed_token_ids(self, state: int, stack: int = 0) -> npt.NDArray[np.int32]:
        """The ids of the tokens that a configuration allows, ascending (int32)."""
        out = np.empty(len(self.trie.all_tokens), np.int32)
        self.copy_row(state, stack, out)
        return np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little")).astype(np.int32)

    def _find(self, state: int, stack: int) -> Row:
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
                self._nbytes += self._size(row)
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

    def _size(self, row: Row) -> int:
        own_base = row.base is not self._nothing and row.base is not self.trie.all_tokens and not len(row.ids)
        return row.ids.nbytes + (row.base.nbytes if own_base else 0) + _ENTRY_BYTES

    def _forget(self) -> None:
        """Drop rows, the first ones first, until a quarter of the room is free; the ways to all others are found again."""
        self._asked.clear()
        self._depths.clear()
        self._blocks.clear()
        self._nbytes = sum(map(self._size, self._rows.values()))
        while self._nbytes > self.max_cache_bytes * 3 // 4 and len(self._rows) > 1:
            self._nbytes -= self._size(self._rows.pop(next(iter(self._rows))))

    def _compute(self, state: int, stack: int) -> tuple[int, Row]:
        """How many frames a row depends on, and the row. Without the lock: two threads may both do it, with equal results."""
        scratch = borrow_scratch(self.trie)
        block = self._block_row(state, scratch)
        if block is None:
            depth, n_ranges, n_tokens = walk_configuration(self.machine, self.stacks, self.trie, state, stack, scratch)
            row = self._pack(scratch, n_ranges, n_tokens)
        else:
            (base, ids, _), exits = block
            depth, n_ranges, n_tokens = walk_configuration(
                self.machine, self.stacks, self.trie, state, stack, scratch, exits
            )
            if n_tokens:
                beyond = ids_in(scratch.ranges, n_ranges, self.trie, n_tokens)
                ids = np.concatenate((ids, beyond))
            row = _few_flips(base, ids)
        return_scratch(self.trie, scratch)
        return depth, row

    def _pack(self, scratch: Scratch, n_ranges: int, n_tokens: int) -> Row:
        """The row of ranges."""
        trie = self.trie
        if 2 * n_tokens <= trie.n_tokens:
            return _few_flips(self._nothing, ids_in(scratch.ranges, n_ranges, trie, n_tokens))
        others = ids_in(scratch.ranges, n_ranges, trie, trie.n_tokens - n_tokens, gaps=True)
        return _few_flips(trie.all_tokens, others)

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _block_row(self, state: int, scratch: Scratch) -> BlockRow | None:
        """What does not depend on the caller, for a state of a block for which it is worth to know that apart."""
        if state in self._blocks:
            return self._blocks[state]
        block, found = self.machine.block_of(state), None
        if type(block) is Block:
            found = self._row_in(block, state, scratch)
        elif type(block) is Like:
            like = int(block.states[state - block.first])
            row = self._block_row(like, scratch) if like else None
            if row is not None:
                exits = other_exits(self.machine, self.trie, state, like, row.exits, scratch)
                found = BlockRow(row.inside, exits)
        self._blocks[state] = found
        return found

    def _row_in(self, block: Block, state: int, scratch: Scratch) -> BlockRow | None:
        """The same for a block that was added as a whole; None where the machine stays in no state of it for long."""
        rows = _shared_rows(self.trie) if block.name is not None else {}
        key = (block.name, state - block.first)
        found = rows.get(key)
        if found is None:
            if block.name is None and not self.machine.tables.loops[state]:
                return None
            n_ranges, n_tokens, exits = walk_block(self.machine, self.trie, state, scratch)
            if exits is None:
                return None
            exits[:, 2] -= block.shift
            found = BlockRow(self._pack(scratch, n_ranges, n_tokens), exits)
            if len(rows) < _MAX_SHARED:
                rows[key] = found
        if block.shift:
            exits = found.exits.copy()
            exits[:, 2] += block.shift
            found = BlockRow(found.inside, exits)
        return found


_shared: weakref.WeakKeyDictionary[TokenTrie, dict[tuple[Hashable, int], BlockRow]] = weakref.WeakKeyDictionary()


def _shared_rows(trie: TokenTrie) -> dict[tuple[Hashable, int], BlockRow]:
    """Rows of blocks that any schema may have, by the block's name and the place in it."""
    return _shared.setdefault(trie, {})


def _few_flips(base: npt.NDArray[np.int32], ids: npt.NDArray[np.int32]) -> Row:
    """A row of few ids, or of words of its own."""
    if len(ids) > max_packed_ids(len(base)):
        words = np.empty_like(base)
        copy_flipped(base, ids, words)
        words.setflags(write=False)
        base, ids = words, _NO_IDS
    ids.setflags(write=False)
    return Row(base, ids, [])


_NO_IDS = np.empty(0, np.int32)


@kernel
def copy_flipped(base: Array, ids: Array, out: Array) -> None:
    """Copy words, clear what lies beyond, and flip the bits of ``ids``."""
    n_words = len(base)
    for w in range(n_words):
        out[w] = base[w]
    for w in range(n_words, len(out)):
        out[w] = 0
    for i in range(len(ids)):
        out[ids[i] >> 5] ^= np.int32(1) << np.int32(ids[i] & 31)
