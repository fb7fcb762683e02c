"""The machine that reads an object's key: the declared names as a trie, laid over the machine of all other keys.

Which names may come differs from place to place, and a trie for each would take a thousand times a thousand states for as many
members. So a state is a node of the trie with those names *below it* that may come: all places in whose past no name below
a node has been written share the node, and places that differ in one name differ in the nodes on its way. States are
made when a text gets there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from json.encoder import encode_basestring

import numpy as np
import numpy.typing as npt

from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.json_text import escape_json
from fsmc.compiler.schema.key_rows import NameTrie
from fsmc.compiler.schema.key_space import KeySpace, Masks
from fsmc.compiler.schema.left_out import MoreTexts, by_first_byte
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.strings import any_string


class UndeclaredKeys:
    """The machine of the JSON text of undeclared keys of some of their classes (``allowed``: a mask of `KeySpace` classes
    minus the declared names).

    dfa: its outcomes are the classes; every state but 0 that an edge leads to reaches one.
    """

    def __init__(self, keys: KeySpace, allowed: int) -> None:
        base = escape_json(keys.others if keys.others is not None else any_string())
        kept = np.array([i if allowed >> i & 1 else -1 for i in range(len(keys.sizes))] + [-1], np.int32)
        outcome, delta = kept[base.outcome], base.delta
        if allowed != (1 << len(keys.sizes)) - 1:
            delta = _without_dead_ends(delta, outcome)
        self.dfa = OutcomeDFA(base.byte_class, delta, outcome, base.start, tuple(() for _ in keys.sizes))
        self.more = MoreTexts(self.dfa)


@cache
def any_key() -> UndeclaredKeys:
    """All keys, in one class."""
    return UndeclaredKeys(KeySpace((), Masks((), Formulas()), None, (None,)), 1)


def _without_dead_ends(delta: npt.NDArray[np.int32], outcome: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The edges, 0 where they lead to where no outcome can be reached."""
    live = outcome >= 0
    while True:
        grown = live | live[delta].any(axis=1)
        grown[0] = False
        if (grown == live).all():
            return np.where(live[delta], delta, 0).astype(np.int32)
        live = grown


@dataclass(frozen=True, slots=True)
class KeyNode:
    """A state: what is left of a key between its quotes, behind ``depth`` bytes that the names ``low`` to ``high`` begin with.

    Names are counted in the order of their texts. allowed: bit i says that name low + i may come; base: the state of
    `UndeclaredKeys` after the same bytes, 0 if no undeclared key may come. seen: what is left of undeclared keys that may not come.
    """

    trie: KeyTrie
    low: int
    high: int
    depth: int
    allowed: int
    others: int
    base: int
    seen: frozenset[bytes]


class KeyTrie:
    """The keys of one `KeySpace`.

    >>> trie = KeyTrie(KeySpace(("a", "b"), {}, None, (None,)))  # two declared names, and one class (2) of all other keys
    >>> def class_of(key):
    ...     node = trie.root(0b101, frozenset({"c"}))
    ...     for byte in key:
    ...         node = trie.children(node).get(byte) or trie.outside(node, byte)
    ...     return trie.ends(node)
    >>> [class_of(key) for key in (b"a", b"b", b"c", b"d")]
    [0, None, None, 2]
    """

    def __init__(self, keys: KeySpace) -> None:
        self.keys = keys
        spelled = sorted((_spelling(name), i) for i, name in enumerate(keys.names))
        self._texts = [text for text, _ in spelled]
        self._name = [i for _, i in spelled]
        self._undeclared: dict[int, UndeclaredKeys] = {}

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of all names together: the trie has one node more at most."""
        return sum(map(len, self._texts))

    @cached_property
    def names(self) -> NameTrie:
        """The names as arrays, in the order of their texts."""
        return NameTrie.of(self._texts)

    @cached_property
    def classes(self) -> npt.NDArray[np.int64]:
        """The class of each name, in the order of their texts."""
        return np.array(self._name, np.int64)

    def in_order(self, allowed: int) -> npt.NDArray[np.bool_]:
        """Which names a mask of classes allows (bool[names]), in the order of their texts."""
        n = self.keys.n_names
        packed = np.frombuffer((allowed & ((1 << n) - 1)).to_bytes(n // 8 + 1, "little"), np.uint8)
        return np.unpackbits(packed, bitorder="little")[self.classes].view(np.bool_)

    def undeclared(self, others: int) -> UndeclaredKeys:
        """The machine of undeclared keys of these classes."""
        known = self._undeclared.get(others)
        if known is None:
            known = any_key() if self.keys.others is None else UndeclaredKeys(self.keys, others)
            self._undeclared[others] = known
        return known

    def root(self, allowed: int, seen: frozenset[str] = frozenset()) -> KeyNode:
        """Before the first byte: of the classes ``allowed`` (a mask) a key may come, and none in ``seen``."""
        n = self.keys.n_names
        others = allowed >> n
        ordered = np.packbits(self.in_order(allowed), bitorder="little")
        base = self.undeclared(others).dfa.start if others else 0
        rest = frozenset(map(_spelling, seen)) if others else frozenset[bytes]()
        return KeyNode(self, 0, n, 0, int.from_bytes(ordered.tobytes(), "little"), others, base, rest)

    def ends(self, node: KeyNode) -> int | None:
        """The class of the key that ends here; None if none may."""
        if node.low < node.high and len(self._texts[node.low]) == node.depth:
            return self._name[node.low] if node.allowed & 1 else None
        if not node.base or b"" in node.seen:
            return None
        outcome = int(self.undeclared(node.others).dfa.outcome[node.base])
        return None if outcome < 0 else self.keys.n_names + outcome

    def children(self, node: KeyNode) -> dict[int, KeyNode | None]:
        """Byte → the node after it, of each byte with which a declared or a seen key goes on; None if no key may.

        Other bytes lead `outside`.
        """
        found: dict[int, KeyNode | None] = {}
        seen = by_first_byte(node.seen)
        for byte, low, high in self._branches(node):
            allowed = node.allowed >> (low - node.low) & ((1 << high - low) - 1)
            found[byte] = self._child(node, byte, low, high, allowed, seen.pop(byte, ()))
        for byte, texts in seen.items():
            found[byte] = self._child(node, byte, 0, 0, 0, texts)
        return found

    def outside(self, node: KeyNode, byte: int) -> KeyNode:
        """The node after a byte with which neither a declared nor a seen key goes on."""
        base = self.undeclared(node.others).more.step(node.base, byte)
        return KeyNode(self, 0, 0, 0, 0, node.others, base, frozenset())

    def _branches(self, node: KeyNode) -> Iterator[tuple[int, int, int]]:
        """(byte, low, high) of each byte with which declared names go on, and which those are."""
        texts, depth, low = self._texts, node.depth, node.low
        if low < node.high and len(texts[low]) == depth:
            low += 1
        while low < node.high:
            prefix = texts[low][: depth + 1]
            high = (
                bisect_left(texts, prefix[:-1] + bytes([prefix[-1] + 1]), low, node.high)
                if prefix[-1] < 255
                else node.high
            )
            yield prefix[-1], low, high
            low = high

    def _child(
        self, node: KeyNode, byte: int, low: int, high: int, allowed: int, seen: list[bytes] | tuple[()]
    ) -> KeyNode | None:
        base = self.undeclared(node.others).more.step(node.base, byte) if node.base else 0
        rest = frozenset(seen) if base else frozenset[bytes]()
        if not allowed and not (base and self.undeclared(node.others).more.than(base, rest)):
            return None
        return KeyNode(self, low, high, node.depth + 1 if high else 0, allowed, node.others, base, rest)


def _spelling(name: str) -> bytes:
    return encode_basestring(name)[1:-1].encode()
