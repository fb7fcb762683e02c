"""Masks computed when met: a configuration's row is walked the first time it is asked for, and remembered."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import Alike, Block, RecursiveMachine
from fsmc.compiler.tokens.alike_walk import walk_alike
from fsmc.compiler.tokens.mask_rows import max_packed_ids
from fsmc.compiler.tokens.mask_source import (
    FINAL,
    RECORD,
    SIZE,
    Scratch,
    Source,
    new_scratch,
    scratch_pool,
    whole_source,
)
from fsmc.compiler.tokens.mask_walk import ids_in, walk_block, walk_configuration
from fsmc.compiler.tokens.rests import source_of_exits, space_tokens
from fsmc.compiler.tokens.stacks import ReturnStacks
from fsmc.compiler.tokens.token_lengths import token_lengths
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import addresses_of, copy_bytes, ints_at, kernel

_ENTRY_BYTES = 400  # a key, a tuple, an array's header and their places in the dictionary, about
_SMALLEST, _LARGEST = 1 << 9, 1 << 15  # numbers in a chunk of records, an eighth of what there is already
_MANY = 256  # numbers in a record, each for two tokens: so much is not walked again for each caller
_MAX_SHARED = 2048  # sources of shared blocks that are kept for a vocabulary


class Row(NamedTuple):
    """A mask row as it is kept. addresses: int64[4], `addresses_of` words (int32), beyond which it is 0, and of the ids whose bits are
    flipped there. Most rows are those of nothing, of all tokens, or of the inside of a string, but for a few tokens.

    may_end: false if the text surely may not end here. n_frames: how many frames the row depends on. size: int64 numbers in its
    record. held: what must not be freed while a kernel uses the addresses.
    """

    addresses: npt.NDArray[np.int64]
    may_end: bool
    n_frames: int = 0
    size: int = 0
    held: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a row cannot be copied or sent to another process: its addresses mean nothing there")


class SharedRow(NamedTuple):
    """What is known of a state of a block that any schema may have: the tokens that stay inside, words and ids whose bits are
    flipped there, and the exits (see `walk_block`); all int32 and read-only."""

    words: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int32]
    exits: npt.NDArray[np.int32]


_Key: TypeAlias = "tuple[int, int, tuple[int, ...]]"


class LazyMasks:
    """The mask rows of a machine over a vocabulary, computed when first asked for; safe to use from several threads.

    A row is remembered by the state and as many of the top frames as it depends on, and found again, without looking at
    the frames, by the (state, stack) that asked for it. Half of ``max_cache_bytes`` is for rows asked for lately: when it is full
    it becomes the other half, which is forgotten but for those rows that are asked for again. ``stacks`` is the pool that the
    stacks of configurations come from. No row holds EOS, special tokens or padding.
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
        self.max_cache_bytes, self._half = max_cache_bytes, max_cache_bytes // 2
        self.asked: dict[tuple[int, int], Row] = {}  # every (state, stack) that was asked for lately
        self._rows: dict[_Key, Row] = {}  # by state, number of frames looked at, these frames
        self._older: dict[_Key, Row] = {}
        self._nbytes = self._older_nbytes = 0
        self._depths: dict[int, tuple[int, ...]] = {}  # how many frames the rows of a state depend on
        self._sources: dict[int, Source | Alike] = {}
        self._heavy: set[int] = set()  # states whose walk found many tokens
        self._whole = whole_source(trie)
        self._chunk, self._place = _NO_CHUNK, 0
        self._view, self._address = self._chunk.data, 0
        self._spaces: Source | None = None  # of a position before which white space may stand, but for its state
        self._shared = _shared.setdefault(trie, {})
        self._pool = scratch_pool(trie)
        self._lock = threading.Lock()

    @property
    def n_rows(self) -> int:
        """Rows remembered now."""
        return len(self._rows.keys() | self._older.keys())

    @property
    def nbytes(self) -> int:
        """Bytes of the rows remembered now, about, without what the grammars of a vocabulary share."""
        return self._nbytes + self._older_nbytes

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
        """The row of a configuration that has not asked before, or not lately."""
        for depth in self._depths.get(state, ()):
            key = (state, depth, self.stacks.frames(stack, depth))
            row, older = self._rows.get(key), self._older.get(key)
            if row is not None or older is not None:
                with self._lock:
                    if row is None:
                        assert older is not None
                        numbers = ctypes.c_int64 * older.size
                        record = np.array(numbers.from_address(int(older.addresses[2]) - 8 * RECORD), np.int64)
                        row = self._keep(key, record, older.may_end, older.size, older.held)
                    self._ask(state, stack, row)
                return row
        return self._compute(state, stack)

    def _compute(self, state: int, stack: int) -> Row:
        """Walk, and remember. Two threads may both do it, with equal results."""
        try:
            scratch = self._pool.pop()
        except IndexError:
            scratch = new_scratch(self.trie)
        source = self._sources.get(state)
        if source is None:
            source = self._sources[state] = self._source(state, scratch)
        if isinstance(source, Source):
            n_frames = walk_configuration(self.machine, self.stacks, source, state, stack, scratch)
            held: Any = source.held
            if scratch.view[SIZE] > _MANY and source is self._whole and state not in self._heavy:
                self._heavy.add(state)
                self._sources.pop(state, None)  # looked at again if another caller asks
        else:
            n_frames, held = self._walk_alike(source, state, stack, scratch)
        view = scratch.view
        key = (state, n_frames, self.stacks.frames(stack, n_frames) if n_frames else ())
        with self._lock:
            row = self._keep(key, scratch.record, view[FINAL] >= 0, view[SIZE], held)
            depths = self._depths.get(state)
            if depths is None:
                self._depths[state] = (n_frames,)
            elif n_frames not in depths:
                self._depths[state] = (*depths, n_frames)
            self._ask(state, stack, row)
        self._pool.append(scratch)
        return row

    def _walk_alike(self, alike: Alike, state: int, stack: int, scratch: Scratch) -> tuple[int, Any]:
        """Write the record of a state that is like another, from that one's; how many frames it depends on, and what it needs."""
        counted = alike.counted(state)
        if counted is not None:
            other = self.row(counted.like, stack)
            source = self._sources.get(counted.like)
            if isinstance(source, Source):
                _, words, ids, _ = source.held
                if (
                    len(words) and not len(ids) and other.addresses[0] == words.ctypes.data
                ):  # many tokens, of which few end it
                    lengths = token_lengths(self.machine, self.trie, counted, words)
                    words, scratch.view[SIZE] = lengths.write(other.addresses, counted, scratch)
                    scratch.view[FINAL] = -1
                    return other.n_frames, (words, other)
        like, room = alike.like(state)
        if not like:
            return walk_configuration(self.machine, self.stacks, self._whole, state, stack, scratch), None
        other = self.row(like, stack)
        if walk_alike(self.machine, self.trie, state, like, room, other.addresses, scratch):
            source = Source(0, self.trie.addresses, scratch.source, None)
            n_frames = walk_configuration(self.machine, self.stacks, source, state, stack, scratch)
            return max(n_frames, other.n_frames), other
        return walk_configuration(self.machine, self.stacks, self._whole, state, stack, scratch), None

    # ── memory, with the lock held ───────────────────────────────────────────────────────────────────────────────────

    def _keep(self, key: _Key, record: npt.NDArray[np.int64], may_end: bool, size: int, held: Any) -> Row:
        """Remember a row with this record, which is copied; if the key has a row already, that one."""
        known = self._rows.get(key)
        if known is not None:
            return known
        self._take(8 * size + _ENTRY_BYTES)
        place, end = self._place, self._place + size
        if end > len(self._view):
            n = max(size, _SMALLEST, min(self._nbytes // 64, _LARGEST))
            self._chunk, place, end = np.empty(n, np.int64), 0, size
            self._view, self._address = self._chunk.data, int(addresses_of(self._chunk)[0])
        self._place = end
        chunk, view = self._chunk, self._view
        chunk[place:end] = record[:size]
        view[place + 2] = self._address + 8 * (place + RECORD)
        if size > RECORD and view[place + 3] == 0:  # words of its own
            view[place] = view[place + 2]
        row = self._rows[key] = Row(chunk[place : place + RECORD], may_end, key[1], size, held)
        return row

    def _ask(self, state: int, stack: int, row: Row) -> None:
        """Remember who asked."""
        if (state, stack) not in self.asked:
            self._take(_ENTRY_BYTES)
            self.asked[state, stack] = row

    def _take(self, n_bytes: int) -> None:
        """Make room: let what was asked for lately be older, and forget what is."""
        nbytes = self._nbytes + n_bytes
        if nbytes <= self._half:
            self._nbytes = nbytes
            return
        if self._nbytes:
            self._older, self._rows = self._rows, {}
            self._older_nbytes, self._nbytes = self._nbytes, 0
            self.asked.clear()
            self._sources.clear()
            self._heavy.clear()
            self._chunk, self._view, self._place = _NO_CHUNK, _NO_CHUNK.data, 0
        self._nbytes += n_bytes
        if self.nbytes > self.max_cache_bytes:
            self._older, self._older_nbytes = {}, 0

    # ── what is walked ───────────────────────────────────────────────────────────────────────────────────────────────

    def _source(self, state: int, scratch: Scratch) -> Source | Alike:
        """What is to be walked for a state."""
        machine = self.machine
        block = machine.block_of(state)
        if isinstance(block, Block):
            return self._source_in(block, state, scratch)
        if block is not None:
            return block if block.counted(state) or block.like(state)[0] else self._whole
        if machine.space is not None and machine.code(state, machine.space[0][0]):  # its row is there now
            inner = machine.behind_space(state)
            if inner:
                if self._spaces is None:
                    self._spaces = space_tokens(self.trie, *machine.space).source
                return self._spaces._replace(state=inner)
        return self._whole

    def _source_in(self, block: Block, state: int, scratch: Scratch) -> Source:
        """What does not depend on the caller, and the exits, where it is worth to know that apart."""
        shared = self._shared if block.name is not None else {}
        key = (block.name, state - block.first)
        found = shared.get(key)
        if found is None:
            if not block.is_large and state not in self._heavy:
                return self._whole
            row = self._walk_block(state, scratch)
            if row is None:
                return self._whole
            if block.name is None:
                with self._lock:
                    self._take(row.exits.nbytes + row.ids.nbytes + (0 if len(row.ids) else row.words.nbytes))
                return Source.of(self.trie, row.exits, row.words, row.ids)
            found = row
        if isinstance(found, SharedRow):
            found = source_of_exits(self.trie, found.exits, found.words, found.ids)
            if key in shared or len(shared) < _MAX_SHARED:
                shared[key] = found
        return found

    def _walk_block(self, state: int, scratch: Scratch) -> SharedRow | None:
        n_ranges, n_tokens, exits = walk_block(self.machine, self.trie, state, scratch)
        return None if exits is None else SharedRow(*self._inside(scratch, n_ranges, n_tokens), exits)

    @staticmethod
    def shared_states(machine: RecursiveMachine) -> list[tuple[int, tuple[Hashable, int]]]:
        """(state, (name of its block, place in it)) of the states whose rows grammars of a vocabulary share."""
        blocks = ((state, machine.block_of(state)) for state in range(1, machine.n_states))
        return [
            (state, (block.name, state - block.first))
            for state, block in blocks
            if isinstance(block, Block) and block.name is not None and block.is_large
        ]

    def walk_shared(self) -> list[tuple[tuple[Hashable, int], SharedRow]]:
        """Walk these, for all grammars; what was found."""
        scratch, rows = new_scratch(self.trie), []
        for state, key in self.shared_states(self.machine):
            row = self._walk_block(state, scratch)
            if row is not None:
                rows.append((key, row))
        self.put_shared(rows)
        return rows

    def put_shared(self, rows: list[tuple[tuple[Hashable, int], SharedRow]]) -> None:
        """Let all grammars of the vocabulary have these rows."""
        for key, row in rows:
            self._shared.setdefault(key, row)

    def knows_shared(self, names: list[tuple[Hashable, int]]) -> bool:
        """Whether these rows are there already."""
        return all(name in self._shared for name in names)

    def _inside(
        self, scratch: Scratch, n_ranges: int, n_tokens: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The tokens in ranges: words, and ids whose bits are flipped there."""
        trie = self.trie
        gaps = 2 * n_tokens > trie.n_tokens
        ids = ids_in(scratch.ranges, n_ranges, trie, trie.n_tokens - n_tokens if gaps else n_tokens, gaps=gaps)
        words = trie.all_tokens if gaps else trie.no_tokens
        if len(ids) > max_packed_ids(len(words)):
            words = words.copy()
            flipped = addresses_of(trie.all_tokens if gaps else trie.no_tokens, ids)
            copy_flipped(flipped.copy(), addresses_of(words))  # a copy can be written, like the addresses of rows
            ids = ids[:0].copy()
        return words, ids


_shared: weakref.WeakKeyDictionary[TokenTrie, dict[tuple[Hashable, int], Source | SharedRow]] = (
    weakref.WeakKeyDictionary()
)
"""Of states of blocks that any schema may have, by the block's name and the place in it; sources from when one is first needed."""

_NO_CHUNK = np.empty(0, np.int64)


@kernel
def copy_flipped(row: Array, to: Array) -> None:
    """Copy the words of a row to ``to``, clear what lies beyond, and flip the bits of its ids there; both by address."""
    ids, out, n_words = ints_at(row, 1), ints_at(to, 0), row[1]
    copy_bytes(to[0], row[0], 4 * n_words)
    for w in range(n_words, len(out)):
        out[w] = 0
    for i in range(len(ids)):
        out[ids[i] >> 5] ^= np.int32(1) << np.int32(ids[i] & 31)
