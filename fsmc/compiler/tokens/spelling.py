"""How few tokens spell a given text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import kernel


def fewest_tokens(trie: TokenTrie, text: bytes, without: npt.NDArray[np.int32] | None = None) -> list[int] | None:
    """Token ids, as few as can be, that together spell ``text``; None where no tokens do. without: ids not to use.

    >>> from fsmc.compiler.tokens.vocabulary import Vocabulary
    >>> trie = TokenTrie.build(Vocabulary.from_tokens([b"a", b"b", b"ab", b"abb", b"bab"]))
    >>> fewest_tokens(trie, b"abbab"), fewest_tokens(trie, b"abc")
    ([2, 4], None)
    """
    data = np.frombuffer(text, np.uint8)
    cost, token = np.zeros(len(data) + 1, np.int32), np.full(len(data), -1, np.int32)
    length = np.zeros(len(data), np.int32)
    excluded = _NO_IDS if without is None else np.ascontiguousarray(without, np.int32)
    _spell(trie.byte, trie.end, trie.token_start, trie.token_ids, trie.first, data, excluded, cost, token, length)
    if cost[0] >= _IMPOSSIBLE:
        return None
    ids, at = [], 0
    while at < len(data):
        ids.append(int(token[at]))
        at += int(length[at])
    return ids


_NO_IDS = np.empty(0, np.int32)
_IMPOSSIBLE = np.int32(1 << 30)


@kernel
def _spell(
    byte: Array, end: Array, token_start: Array, token_ids: Array, first: Array,
    data: Array, excluded: Array, cost: Array, token: Array, length: Array,
) -> None:  # fmt: skip
    """From the end of the text backwards: how many tokens the rest takes (``cost``), and the first of them."""
    for start in range(len(data) - 1, -1, -1):
        cost[start] = 1 << 30
        node, at = np.int64(first[data[start]]), start + 1
        while node >= 0:
            if cost[at] + 1 < cost[start]:
                for rank in range(token_start[node], token_start[node + 1]):
                    usable = True
                    for other in excluded:
                        usable = usable and token_ids[rank] != other
                    if usable:
                        cost[start], token[start], length[start] = cost[at] + 1, token_ids[rank], at - start
                        break
            if at == len(data):
                break
            child, stop = node + 1, np.int64(end[node])
            while child < stop and byte[child] != data[at]:
                child = np.int64(end[child])
            node = child if child < stop else np.int64(-1)
            at += 1
