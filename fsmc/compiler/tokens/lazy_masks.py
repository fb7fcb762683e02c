"""Masks computed when met: a configuration's row is walked the first time it is asked for, and remembered."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import Block, RecursiveMachine
from fsmc.compiler.tokens.mask_rows import max_packed_ids
from fsmc.compiler.tokens.mask_walk import (
    Scratch,
    ids_in,
    new_scratch,
    scratch_pool,
    walk_alike,
    walk_block,
    walk_configuration,
)
from fsmc.compiler.tokens.stacks import ReturnStacks
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import addresses_of, copy_bytes, ints_at, kernel

_ENTRY_BYTES = 400  # a key, a tuple, an array's header and their places in the dictionary, about
_MAX_SHARED = 2048  # rows of shared blocks that are kept for a vocabulary


class Row(NamedTuple):
    """A mask row as it is kept: the words ``base``, beyond them 0, with the bits of ``ids`` flipped; both int32 and read-only.

    Most rows are those of nothing, of all tokens, or of the inside of a string, but for a few tokens; the base is shared.
    addresses: `addresses_of` both (hold the row while a kernel uses them). may_end: false if the text surely may not end here.
    """

    base: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int32]
    addresses: npt.NDArray[np.int64]
    may_end: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _row, (self.base, self.ids, self.may_end)


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
        self.asked: dict[tuple[int, int], Row] = {}  # every (state, stack) that was asked for, as long as there is room
        self._rows: dict[
            tuple[int, int, tuple[int, ...]], Row
        ] = {}  # by state, number of frames looked at, these frames
        self._depths: dict[int, tuple[int, ...]] = {}  # how many frames the rows of a state depend on
        self._blocks: dict[int, BlockRow | None] = {}
        self._nbytes = 0
        self._pool = scratch_pool(trie)
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
        if out.dtype != np.int32 or not out.flags.c_contiguous or len(out) < len(self.trie.all_tokens):
            raise ValueError(f"a mask row is int32[{len(self.trie.all_tokens)} or more], its words adjacent")
        row = self.row(state, stack)  # held until the kernel is done
        copy_flipped(row.addresses, addresses_of(out))

    def row(self, state: int, stack: int) -> Row:
        """The mask row of a configuration."""
        row = self.asked.get((state, stack))
        return self._find(state, stack) if row is None else row

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
            if (state, stack) not in self.asked:
                self.asked[state, stack] = row
                self._nbytes += _ENTRY_BYTES
            if self._nbytes > self.max_cache_bytes:
                self._forget()
        return row

    def _size(self, row: Row) -> int:
        own_base = row.base is not self.trie.no_tokens and row.base is not self.trie.all_tokens and not len(row.ids)
        return row.ids.nbytes + (row.base.nbytes if own_base else 0) + _ENTRY_BYTES

    def _forget(self) -> None:
        """Drop rows, the first ones first, until a quarter of the room is free; the ways to all others are found again."""
        self.asked.clear()
        self._depths.clear()
        self._blocks.clear()
        self._nbytes = sum(map(self._size, self._rows.values()))
        while self._nbytes > self.max_cache_bytes * 3 // 4 and len(self._rows) > 1:
            self._nbytes -= self._size(self._rows.pop(next(iter(self._rows))))

    def _compute(self, state: int, stack: int) -> tuple[int, Row]:
        """How many frames a row depends on, and the row. Without the lock: two threads may both do it, with equal results."""
        machine, trie = self.machine, self.trie
        try:
            scratch = self._pool.pop()
        except IndexError:
            scratch = new_scratch(trie)
        block = self._block_row(state, scratch)
        if block is None:
            depth, n_ranges, n_tokens = walk_configuration(machine, self.stacks, trie, state, stack, scratch)
            base, ids = self._pack(scratch, n_ranges, n_tokens)
        else:
            (base, ids, *_), exits = block
            depth, n_ranges, n_tokens = walk_configuration(machine, self.stacks, trie, state, stack, scratch, exits)
            if n_tokens:
                ids = np.concatenate((ids, ids_in(scratch.ranges, n_ranges, trie, n_tokens)))
        self._pool.append(scratch)
        return depth, _few_flips(base, ids, machine.final(state) >= 0)

    def _pack(
        self, scratch: Scratch, n_ranges: int, n_tokens: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The base and the ids to flip of ranges."""
        trie = self.trie
        if 2 * n_tokens <= trie.n_tokens:
            return self.trie.no_tokens, ids_in(scratch.ranges, n_ranges, trie, n_tokens)
        return trie.all_tokens, ids_in(scratch.ranges, n_ranges, trie, trie.n_tokens - n_tokens, gaps=True)

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _block_row(self, state: int, scratch: Scratch) -> BlockRow | None:
        """What does not depend on the caller, for a state of a block for which it is worth to know that apart."""
        known = self._blocks.get(state, _UNASKED)
        if known is not _UNASKED:
            return known  # type: ignore[return-value]  # the other kind is excluded
        block, found = self.machine.block_of(state), None
        if isinstance(block, Block):
            found = self._row_in(block, state, scratch)
        elif block is not None:
            like, room = block.like(state)
            row = self._block_row(like, scratch) if like else None
            if row is not None:
                words = np.empty_like(row.inside.base)
                copy_flipped(row.inside.addresses, addresses_of(words))
                other = walk_alike(self.machine, self.trie, state, like, room, row.exits, words, scratch)
                if other is not None:
                    refused, exits = other
                    inside = row.inside
                    if len(refused):
                        inside = _few_flips(inside.base, np.concatenate((inside.ids, refused)))
                    found = BlockRow(inside, exits)
        with self._lock:
            self._blocks[state] = found
            if found is not None:
                self._nbytes += self._size(found.inside) + found.exits.nbytes
        return found

    def _row_in(self, block: Block, state: int, scratch: Scratch) -> BlockRow | None:
        """The same for a block that was added as a whole; None where that is no help."""
        rows = _shared_rows(self.trie) if block.name is not None else {}
        key = (block.name, state - block.first)
        found = rows.get(key)
        if found is None:
            if not block.is_large:
                return None
            n_ranges, n_tokens, exits = walk_block(self.machine, self.trie, state, scratch)
            if exits is None:
                return None
            found = BlockRow(_few_flips(*self._pack(scratch, n_ranges, n_tokens)), exits)
            if len(rows) < _MAX_SHARED:
                rows[key] = found
        return found


_shared: weakref.WeakKeyDictionary[TokenTrie, dict[tuple[Hashable, int], BlockRow]] = weakref.WeakKeyDictionary()


def _shared_rows(trie: TokenTrie) -> dict[tuple[Hashable, int], BlockRow]:
    """Rows of blocks that any schema may have, by the block's name and the place in it."""
    return _shared.setdefault(trie, {})


def _few_flips(base: npt.NDArray[np.int32], ids: npt.NDArray[np.int32], may_end: bool = False) -> Row:
    """A row of few ids, or of words of its own."""
    if len(ids) > max_packed_ids(len(base)):
        words = np.empty_like(base)
        copy_flipped(addresses_of(base, ids), addresses_of(words))
        base, ids = words, _NO_IDS
    return _row(base, ids, may_end)


def _row(base: npt.NDArray[np.int32], ids: npt.NDArray[np.int32], may_end: bool) -> Row:
    base.setflags(write=False)
    ids.setflags(write=False)
    return Row(base, ids, addresses_of(base, ids), may_end)


_NO_IDS = np.empty(0, np.int32)
_UNASKED = object()


@kernel
def copy_flipped(row: Array, to: Array) -> None:
    """Copy the words of a row to ``to``, clear what lies beyond, and flip the bits of its ids there; both by address."""
    ids, out, n_words = ints_at(row, 1), ints_at(to, 0), row[1]
    copy_bytes(to[0], row[0], 4 * n_words)
    for w in range(n_words, len(out)):
        out[w] = 0
    for i in range(len(ids)):
        out[ids[i] >> 5] ^= np.int32(1) << np.int32(ids[i] & 31)
