"""Keys and values of token prefixes, shared by all requests: a radix tree (RadixAttention of Zheng et al., "SGLang", 2024).

An edge holds some tokens with their keys and values; a path from the root is a text that some request began with. A
request copies the longest prefix that is known, once, and computes the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch

from fsmc.runtime.packed_model import KeyValueRow


class _Node:
    """The tokens of the edge that leads here, their keys and values by layer, and what follows, by first token."""

    __slots__ = ("children", "layers", "parent", "tokens")

    def __init__(self, parent: _Node | None, tokens: list[int], layers: list[torch.Tensor]) -> None:
        self.parent, self.tokens, self.layers = parent, tokens, layers
        self.children: dict[int, _Node] = {}

    @property
    def n_bytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)


class PrefixCache:
    """Keys and values by token prefix, at most ``max_bytes`` of them: the least recently used ends go first.

    ``n_bytes``: held now. Not for several threads at once.

    >>> row, again = KeyValueRow(), KeyValueRow()
    >>> ids = [7, 8, 9]
    >>> for layer in range(2):
    ...     _ = row.put(layer, torch.ones(1, 3, 4), torch.ones(1, 3, 4))
    >>> row.length = 3
    >>> cache = PrefixCache(max_bytes=10_000)
    >>> cache.insert(ids, row)
    >>> cache.extend(again, [7, 8, 5]), again.length, cache.n_bytes
    (2, 2, 192)
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes={max_bytes} must not be negative")
        self.max_bytes, self.n_bytes = max_bytes, 0
        self._root = _Node(None, [], [])
        self._by_use: OrderedDict[_Node, None] = OrderedDict()
        """Least recently used first. A path is marked from its end to the root, so that the first is always a leaf."""

    def match_length(self, ids: Sequence[int]) -> int:
        """How many of the first tokens are known; nothing counts as used."""
        return sum(n for _, n in self._path(ids))

    def extend(self, row: KeyValueRow, ids: Sequence[int], keep_open: int = 1) -> int:
        """Append to ``row``, which holds a prefix of ``ids``, what is known of the rest; the number of tokens copied.

        keep_open: so many tokens at the end are left to be computed, as their logits are wanted.
        """
        position, begin = 0, row.length
        limit = len(ids) - keep_open
        path = self._path(ids)
        for node, n in path:
            first, last = max(row.length - position, 0), min(n, limit - position)
            if last > first:
                row.extend([layer[:, :, first:last] for layer in node.layers])
            position += n
        self._use(path)
        return row.length - begin

    def insert(self, ids: Sequence[int], row: KeyValueRow) -> None:
        """Keep the keys and values of ``ids``, which are the first of ``row``."""
        path = self._path(ids)
        known = sum(n for _, n in path)
        node, n = path[-1] if path else (self._root, 0)
        if known < len(ids) and (len(ids) - known) * row.bytes_per_token <= self.max_bytes:
            if n < len(node.tokens):
                node = self._split(node, n)
                path[-1] = (node, n)
            new = _Node(node, list(ids[known:]), row.copy(known, len(ids)))
            node.children[ids[known]] = new
            self.n_bytes += new.n_bytes
            path.append((new, len(new.tokens)))
        self._use(path)
        while self.n_bytes > self.max_bytes:
            self._drop_least_recently_used()

    def _path(self, ids: Sequence[int]) -> list[tuple[_Node, int]]:
        """The nodes along ``ids``, and how many tokens of each agree: all, except perhaps of the last."""
        path, node, position = [], self._root, 0
        while position < len(ids) and (child := node.children.get(ids[position])) is not None:
            n = common_prefix_length(child.tokens, ids[position : position + len(child.tokens)])
            path.append((child, n))
            if n < len(child.tokens):
                break
            node, position = child, position + n
        return path

    def _split(self, node: _Node, n: int) -> _Node:
        """Put a node behind the first ``n`` tokens of an edge; that new node. Both parts own their memory."""
        parent = node.parent
        assert parent is not None
        front = _Node(parent, node.tokens[:n], [layer[:, :, :n].clone() for layer in node.layers])
        node.tokens, node.layers = node.tokens[n:], [layer[:, :, n:].clone() for layer in node.layers]
        node.parent = front
        front.children[node.tokens[0]] = node
        parent.children[front.tokens[0]] = front
        self._by_use[front] = None
        return front

    def _use(self, path: Sequence[tuple[_Node, int]]) -> None:
        for node, _ in reversed(path):
            self._by_use[node] = None
            self._by_use.move_to_end(node)

    def _drop_least_recently_used(self) -> None:
        node, _ = self._by_use.popitem(last=False)
        assert not node.children and node.parent is not None
        del node.parent.children[node.tokens[0]]
        self.n_bytes -= node.n_bytes


def common_prefix_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike.

    >>> common_prefix_length([1, 2, 3], [1, 2, 4]), common_prefix_length([1], [1, 2])
    (2, 1)
    """
    n = min(len(a), len(b))
    if a[:n] == b[:n]:  # the rule, and a comparison in C
        return n
    return next(i for i in range(n) if a[i] != b[i])
