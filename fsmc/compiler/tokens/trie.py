"""The vocabulary as a trie in preorder, in flat arrays: a rejected byte skips a whole subtree with one jump."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.byte_groups import groups_below
from fsmc.compiler.automata.dfa import Array
from fsmc.jit import addresses_of, kernel

if TYPE_CHECKING:
    from fsmc.compiler.tokens.vocabulary import Vocabulary

_SMALL = 12  # groups up to this size are sorted by insertion: passing over 257 counters would cost more


DEPTH, END, START = 1, 2, 3
"""Columns of ``TokenTrie.packed``."""


@dataclass(frozen=True, eq=False)
class TokenTrie:
    """Every token with bytes, in a trie without its root, nodes in preorder, children in byte order.

    byte: uint8[N], the byte that leads to the node; depth: int32[N], 1 for first bytes.
    end: int32[N], one past the node's subtree, which is the nodes ``p … end[p]``.
    token_start: int32[N + 1] and token_ids: int32[n_tokens]: the tokens that end at node ``p`` are
    ``token_ids[token_start[p]:token_start[p + 1]]`` (several where tokens have the same bytes), so that those of its
    subtree are ``token_ids[token_start[p]:token_start[end[p]]]``. A token's place in ``token_ids`` is its *rank*: the kernels
    work on rows of rank bits, where a subtree is one range.
    first: int32[256], the node of each first byte or -1, side by side (they are far apart in ``byte``).
    groups: int64[N], the byte groups below each node (`byte_groups`).
    rounds: int32[n_levels], ascending from 0 to ``height``; level: uint8[N]: ``rounds[level[p]]`` is at least the number
    of bytes that can still follow node ``p``. all_tokens: int32[ceil(vocab_size / 32)], the tokens of the trie as a mask row.
    tops: int32[k, 3], the first nodes as `walk_configuration` takes them: rows (node, -1, byte). no_tokens: a mask row that allows
    nothing. packed: int32[N, 8], what walks look at of a node, side by side (in seven arrays each would be far away): byte and, from
    bit 8 on, ``rounds[level]``; depth; end; ``token_start`` of the node, of the one behind it, and of ``end``; groups, low and high half.
    addresses: `addresses_of` packed, token_ids, no_tokens, all_tokens and tops.
    """

    byte: npt.NDArray[np.uint8]
    depth: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    token_start: npt.NDArray[np.int32]
    token_ids: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    groups: npt.NDArray[np.int64]
    rounds: npt.NDArray[np.int32]
    level: npt.NDArray[np.uint8]
    all_tokens: npt.NDArray[np.int32]
    vocab_size: int
    addresses: npt.NDArray[np.int64] = field(init=False, repr=False)
    tops: npt.NDArray[np.int32] = field(init=False, repr=False)
    no_tokens: npt.NDArray[np.int32] = field(init=False, repr=False)
    packed: npt.NDArray[np.int32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name, None)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        top = self.first[self.first >= 0]
        tops = np.stack((top, np.full_like(top, -1), self.byte[top]), axis=1, dtype=np.int32)
        no_tokens = np.zeros_like(self.all_tokens)
        packed = np.empty((len(self.byte), 8), np.int32)
        packed[:, 0] = self.byte | self.rounds[self.level] << 8
        packed[:, 1], packed[:, 2] = self.depth, self.end
        packed[:, 3], packed[:, 4], packed[:, 5] = (
            self.token_start[:-1],
            self.token_start[1:],
            self.token_start[self.end],
        )
        packed[:, 6:] = self.groups.view(np.int32).reshape(-1, 2)
        for name, made in (("tops", tops), ("no_tokens", no_tokens), ("packed", packed)):
            made.setflags(write=False)
            object.__setattr__(self, name, made)
        addresses = addresses_of(packed, self.token_ids, no_tokens, self.all_tokens, tops)
        object.__setattr__(self, "addresses", addresses)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenTrie, tuple(
            getattr(self, each.name) for each in fields(self) if each.init
        )  # addresses are made anew

    @property
    def n_nodes(self) -> int:
        return len(self.byte)

    @property
    def n_tokens(self) -> int:
        """How many tokens have bytes: special tokens, padding and tokens without bytes are not in the trie."""
        return len(self.token_ids)

    @property
    def height(self) -> int:
        """Bytes of the longest token."""
        return int(self.rounds[-1])

    @classmethod
    def build(cls, vocab: Vocabulary) -> TokenTrie:
        """The trie of a vocabulary's ``token_bytes`` (uint8[total]) and ``token_offsets`` (int64[size + 1]).

        >>> from fsmc.compiler.tokens.vocabulary import Vocabulary
        >>> trie = TokenTrie.build(Vocabulary.from_tokens([b"a", b"ab", b"b", b"", b"ab"]))
        >>> trie.byte.tobytes(), trie.depth.tolist(), trie.token_ids.tolist()
        (b'abb', [1, 2, 1], [0, 1, 4, 2])
        """
        return cls.of(
            np.ascontiguousarray(vocab.token_bytes, np.uint8), np.ascontiguousarray(vocab.token_offsets, np.int64)
        )

    @classmethod
    def of(cls, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> TokenTrie:
        """The trie of tokens whose bytes are ``data[offsets[i]:offsets[i + 1]]``."""
        data, offsets = data.view(), offsets.view()
        data.setflags(write=False)  # always: a kernel is compiled anew for arrays that can be written
        offsets.setflags(write=False)
        lengths = np.diff(offsets)
        token_ids = np.flatnonzero(lengths).astype(np.int32)
        height = int(lengths.max(initial=0))
        _sort_tokens(
            data,
            offsets,
            token_ids,
            np.empty_like(token_ids),
            np.empty(len(token_ids), np.int16),
            np.empty(258, np.int32),
            np.empty((len(token_ids) // _SMALL + 1, 3), np.int32),
        )
        shared = np.empty(len(token_ids), np.int32)
        n = _shared_prefixes(data, offsets, token_ids, shared)
        byte, token_start = np.empty(n, np.uint8), np.empty(n + 1, np.int32)
        depth, end, parent = (np.empty(n, np.int32) for _ in range(3))
        _nodes(data, offsets, token_ids, shared, np.empty(height + 1, np.int32), byte, depth, end, parent, token_start)
        below = np.zeros(n, np.int32)
        _longest_below(parent, below)
        first = np.full(256, -1, np.int32)
        top = np.flatnonzero(depth == 1)
        first[byte[top]] = top
        rounds = _rounds(height)
        all_tokens = np.zeros((len(lengths) + 31) // 32, np.int32)
        packed = np.packbits(lengths > 0, bitorder="little")
        all_tokens.view(np.uint8)[: len(packed)] = packed
        return cls(
            byte=byte,
            depth=depth,
            end=end,
            token_start=token_start,
            token_ids=token_ids,
            first=first,
            groups=groups_below(byte, parent),
            rounds=rounds,
            level=np.searchsorted(rounds, np.arange(height + 1)).astype(np.uint8)[below],
            all_tokens=all_tokens.astype("<i4", copy=False),
            vocab_size=len(lengths),
        )


_tries: weakref.WeakKeyDictionary[Vocabulary, TokenTrie] = weakref.WeakKeyDictionary()


def trie_of(vocab: Vocabulary) -> TokenTrie:
    """The trie of a vocabulary object, built on first use and kept as long as the vocabulary is.

    >>> from fsmc.compiler.tokens.vocabulary import Vocabulary
    >>> vocab = Vocabulary.from_tokens([b"a"])
    >>> trie_of(vocab) is trie_of(vocab)
    True
    """
    trie = _tries.get(vocab)
    if trie is None:
        trie = _tries.setdefault(vocab, TokenTrie.build(vocab))
    return trie


def _rounds(height: int) -> npt.NDArray[np.int32]:
    """0, 1, 2, 3, then steps of a third up to ``height``: 18 levels for 128 bytes.

    A level for every length would be exact but hold 129 block ids for each state of a machine; rounding a node's
    height up only makes some subtrees be walked that need not be.
    """
    rounds = [0]
    while rounds[-1] < height:
        rounds.append(min(height, max(rounds[-1] + 1, rounds[-1] * 4 // 3)))
    return np.array(rounds, np.int32)


@kernel
def _sort_tokens(
    data: Array, offsets: Array, ids: Array, scratch: Array, keys: Array, ends: Array, stack: Array
) -> None:
    """Sort token ids by their bytes, in place: radix sort by the most significant byte, small groups by insertion.

    ``stack`` holds groups (from, to, length of the common prefix) of ``ids`` still to sort. They are disjoint and
    larger than ``_SMALL``. Both sorts are stable: tokens with equal bytes stay in id order.
    """
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, len(ids), 0
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        low, high, prefix = stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2]
        for key in range(258):
            ends[key] = 0
        for i in range(low, high):  # 0: the token ends here, else its next byte + 1
            position = offsets[ids[i]] + prefix
            keys[i] = np.int16(data[position]) + 1 if position < offsets[ids[i] + 1] else 0
            ends[keys[i] + 1] += 1
        ends[0] = low
        for key in range(257):
            ends[key + 1] += ends[key]
        for i in range(low, high):
            scratch[ends[keys[i]]] = ids[i]
            ends[keys[i]] += 1
        for i in range(low, high):
            ids[i] = scratch[i]
        for key in range(1, 257):
            start, stop = ends[key - 1], ends[key]
            if stop - start > _SMALL:
                stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2] = start, stop, prefix + 1
                n_stack += 1
                continue
            for i in range(start + 1, stop):
                token, j = ids[i], i
                token_end = offsets[token + 1]
                while j > start:
                    a, b = offsets[ids[j - 1]] + prefix + 1, offsets[token] + prefix + 1
                    other_end = offsets[ids[j - 1] + 1]
                    while a < other_end and b < token_end and data[a] == data[b]:
                        a += 1
                        b += 1
                    if a == other_end or (b < token_end and data[a] < data[b]):
                        break
                    ids[j] = ids[j - 1]
                    j -= 1
                ids[j] = token


@kernel
def _shared_prefixes(data: Array, offsets: Array, ids: Array, shared: Array) -> int:
    """How many bytes each sorted token shares with the one before. Returns the number of trie nodes, the bytes not shared."""
    n_nodes = 0
    before, before_end = 0, 0
    for rank in range(len(ids)):
        start, end = offsets[ids[rank]], offsets[ids[rank] + 1]
        same = 0
        while start + same < end and before + same < before_end and data[before + same] == data[start + same]:
            same += 1
        shared[rank] = same
        n_nodes += end - start - same
        before, before_end = start, end
    return n_nodes


@kernel
def _nodes(
    data: Array, offsets: Array, ids: Array, shared: Array, path: Array,
    byte: Array, depth: Array, end: Array, parent: Array, token_start: Array,
) -> None:  # fmt: skip
    """Write the trie of sorted tokens: each adds the nodes past what it shares with the one before."""
    n_nodes = 0
    deepest = 0  # path[d] is the open node of depth d
    for rank in range(len(ids)):
        start, stop = offsets[ids[rank]], offsets[ids[rank] + 1]
        for d in range(shared[rank] + 1, deepest + 1):
            end[path[d]] = n_nodes
        deepest = stop - start
        for d in range(shared[rank] + 1, deepest + 1):
            byte[n_nodes] = data[start + d - 1]
            depth[n_nodes] = d
            parent[n_nodes] = path[d - 1] if d > 1 else -1
            token_start[n_nodes] = rank
            path[d] = n_nodes
            n_nodes += 1
    for d in range(1, deepest + 1):
        end[path[d]] = n_nodes
    token_start[n_nodes] = len(ids)


@kernel
def _longest_below(parent: Array, below: Array) -> None:
    """The number of bytes on the longest way down from each node (``below`` comes as zeros)."""
    for node in range(len(parent) - 1, -1, -1):
        if parent[node] >= 0:
            if below[parent[node]] < below[node] + 1:
                below[parent[node]] = below[node] + 1


@kernel
def packed_groups(packed: Array, node: int) -> int:
    """The byte groups below a node of ``TokenTrie.packed``."""
    groups: int = np.int64(packed[node, 7]) << 32 | np.int64(np.uint32(packed[node, 6]))
    return groups
