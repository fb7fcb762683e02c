"""Tries of what is left of tokens: behind white space, or behind the end of a component.

Inside a JSON string 1,345 of 128,000 tokens hold the closing quote, at 189 places of the trie, but only 581 different
texts follow it; and most tokens that begin with white space go on like one that does not. A walk for each of these places
would visit the same texts again and again. So their rests are put into a trie of their own, which is walked once.
"""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.tokens.mask_source import Source
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import kernel

FEW_EXITS = 48
"""So many are walked one by one."""


def rests_of(trie: TokenTrie, nodes: npt.NDArray[np.int32]) -> TokenTrie:
    """The tokens below some nodes, none of which lies below another, without the bytes before the one that leads to the node.

    >>> from fsmc.compiler.tokens.vocabulary import Vocabulary
    >>> trie = TokenTrie.build(Vocabulary.from_tokens([b"a,", b"b,", b"b,c", b"d"]))
    >>> commas = np.flatnonzero(trie.byte == ord(",")).astype(np.int32)
    >>> rests = rests_of(trie, commas)
    >>> rests.byte.tobytes(), rests.token_ids.tolist(), rests.token_start.tolist()
    (b',c', [0, 1, 2], [0, 2, 3])
    """
    n_tokens = int((trie.token_start[trie.end[nodes]] - trie.token_start[nodes]).sum())
    data, offsets = np.empty(n_tokens * trie.height, np.uint8), np.zeros(n_tokens + 1, np.int64)
    ids = np.empty(n_tokens, np.int32)
    _spell_rests(
        nodes, trie.byte, trie.depth, trie.end, trie.token_start, trie.token_ids, np.empty(trie.height + 1, np.uint8),
        data, offsets, ids,
    )  # fmt: skip
    rests = TokenTrie.of(data[: offsets[-1]], offsets)
    return replace(rests, token_ids=ids[rests.token_ids], all_tokens=trie.all_tokens, vocab_size=trie.vocab_size)


def source_of_exits(
    trie: TokenTrie, exits: npt.NDArray[np.int32], words: npt.NDArray[np.int32], ids: npt.NDArray[np.int32]
) -> Source:
    """The source of a state of a block, from what stays inside and the exits (see `walk_block`)."""
    kinds = {
        (int(byte), kind, outcome)
        for byte, kind, outcome in zip(trie.byte[exits[:, 0]], *exits.T[1:].tolist(), strict=True)
    }
    if len(exits) <= FEW_EXITS or len({byte for byte, _, _ in kinds}) < len(kinds):
        return Source.of(trie, exits, words, ids)
    rests = rests_of(trie, np.array(exits[:, 0]))  # of its own: numba compiles for each layout
    jobs = np.array([(rests.first[byte], kind, outcome) for byte, kind, outcome in sorted(kinds)], np.int32)
    return Source.of(rests, jobs, words, ids, hold=rests)


class SpaceTokens:
    """The tokens of a trie by what follows at most so many characters of white space at their beginning.

    source: that of a position before which white space may stand, but for its state. Tokens in which something else follows than
    a byte of ``behind`` are left out.
    """

    def __init__(self, trie: TokenTrie, space: bytes, at_most: int, behind: bytes) -> None:
        byte, end, depth = trie.byte, trie.end, trie.depth
        inside: list[int] = []
        nodes: list[int] = []
        left = trie.first[trie.first >= 0].tolist()
        while left:
            node = left.pop()
            if byte[node] not in space:
                if byte[node] in behind:
                    nodes.append(node)
            elif depth[node] <= at_most:
                inside += trie.token_ids[trie.token_start[node] : trie.token_start[node + 1]].tolist()
                child = node + 1
                while child < end[node]:
                    left.append(child)
                    child = int(end[child])
        rests = rests_of(trie, np.array(sorted(nodes), np.int32))
        words, ids = trie.no_tokens.copy(), np.array(inside, np.int64)
        np.bitwise_or.at(words, ids >> 5, (1 << (ids & 31)).astype(np.uint32).view(np.int32))
        self.source = Source.of(rests, rests.tops, words, hold=rests)


_spaces: weakref.WeakKeyDictionary[TokenTrie, dict[tuple[bytes, int, bytes], SpaceTokens]] = weakref.WeakKeyDictionary()


def space_tokens(trie: TokenTrie, space: bytes, at_most: int, behind: bytes) -> SpaceTokens:
    """The `SpaceTokens` of a trie, made once."""
    known = _spaces.setdefault(trie, {})
    key = (space, at_most, behind)
    if key not in known:
        known[key] = SpaceTokens(trie, *key)
    return known[key]


@kernel
def _spell_rests(
    nodes: Array, byte: Array, depth: Array, end: Array, token_start: Array, token_ids: Array, path: Array,
    data: Array, offsets: Array, ids: Array,
) -> None:  # fmt: skip
    """Write the bytes and the ids of the tokens of `rests_of`."""
    n = length = 0
    for i in range(len(nodes)):
        top = np.int64(nodes[i])
        above = depth[top] - 1
        for node in range(top, np.int64(end[top])):
            d = depth[node] - above
            path[d - 1] = byte[node]
            for rank in range(token_start[node], token_start[node + 1]):
                ids[n] = token_ids[rank]
                for k in range(d):
                    data[length + k] = path[k]
                length += d
                n += 1
                offsets[n] = length
