"""What a walk for a mask begins with, and works in: `Source`, `Scratch`, and the registers that its kernels keep between calls."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import addresses_of

MAX_EXITS = 4096
RECORD = 4
"""int64 numbers at the beginning of a record: `addresses_of` the words of a mask row and of the ids that differ."""

NO_NODE = -1

STATE, STACK, JOB, NODE, LOWEST, N_RANGES, FRAME, NUMBER, LOOKED, SIZE, FINAL, ROOM, N_EXITS, N_IDS = range(14)
"""Registers of a walk. STATE, STACK: where it begins. JOB, NODE, LOWEST, N_RANGES: how far it has come. FRAME, NUMBER: what is
missing, see `RecursiveMachine.build`. LOOKED: how many frames of the stack were looked at. SIZE: int64 numbers in the record. FINAL:
the outcome with which the text may end in the state, or -1. ROOM, N_EXITS, N_IDS: of `walk_alike`."""


class Source(NamedTuple):
    """What is walked for a state, and what its record begins with.

    state: where to begin, instead of the state itself (0: there). trie: the addresses of a `TokenTrie`. numbers: `addresses_of`
    jobs int32[m, 3] (first nodes as in ``TokenTrie.tops``, or exits), of the words of a mask row and of ids that differ from that; the
    words are empty where all that is allowed is walked. held: what must not be freed.
    """

    state: int
    trie: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    held: Any

    @classmethod
    def of(
        cls,
        trie: TokenTrie,
        jobs: npt.NDArray[np.int32],
        words: npt.NDArray[np.int32] | None = None,
        ids: npt.NDArray[np.int32] | None = None,
        hold: TokenTrie | None = None,
    ) -> Source:
        """The source with these arrays. hold: the trie, if nobody else holds it."""
        words, ids = _NO_IDS if words is None else words, _NO_IDS if ids is None else ids
        return cls(0, trie.addresses, addresses_of(jobs, words, ids), (jobs, words, ids, hold))


_NO_IDS = np.empty(0, np.int32)


class Scratch(NamedTuple):
    """Arrays that a walk works in. ranges: int32[n_tokens // 2 + 1, 2]; path: int32[height + 1, 4]; exits: int32[2 * MAX_EXITS, 3];
    ids: int32[n_tokens]; words: int32[n_words]; source: int64[6]; record: int64[RECORD + n_words / 2 + 1];
    registers: int64[16], and the same as a memoryview. addresses: `addresses_of` those before the registers, and of the record's ids."""

    ranges: npt.NDArray[np.int32]
    path: npt.NDArray[np.int32]
    exits: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int32]
    words: npt.NDArray[np.int32]
    source: npt.NDArray[np.int64]
    record: npt.NDArray[np.int64]
    registers: npt.NDArray[np.int64]
    view: memoryview
    addresses: npt.NDArray[np.int64]


_pools: weakref.WeakKeyDictionary[TokenTrie, list[Scratch]] = weakref.WeakKeyDictionary()
_wholes: weakref.WeakKeyDictionary[TokenTrie, Source] = weakref.WeakKeyDictionary()


def whole_source(trie: TokenTrie) -> Source:
    """All of a trie, from the state itself; made once."""
    known = _wholes.get(trie)
    if known is None:
        known = _wholes[trie] = Source.of(trie, trie.tops)
    return known


def scratch_pool(trie: TokenTrie) -> list[Scratch]:
    """Arrays that are not in use now, shared by the grammars of a vocabulary: pop one (or make one), and append it again."""
    return _pools.setdefault(trie, [])


def new_scratch(trie: TokenTrie) -> Scratch:
    """Arrays for one walk at a time."""
    ranges = np.empty((trie.n_tokens // 2 + 1, 2), np.int32)
    path = np.empty((trie.height + 1, 4), np.int32)
    exits = np.empty((2 * MAX_EXITS, 3), np.int32)
    ids = np.empty(trie.n_tokens, np.int32)
    record = np.zeros(RECORD + len(trie.no_tokens) // 2 + 1, np.int64)
    arrays = ranges, path, exits, ids, np.empty_like(trie.no_tokens), np.zeros(6, np.int64), record
    registers = np.zeros(16, np.int64)
    places = addresses_of(*arrays, record[RECORD:].view(np.int32))
    arrays[5].setflags(write=False)  # like the numbers of every source; the kernel that writes it has its address
    return Scratch(*arrays, registers, registers.data, places)
