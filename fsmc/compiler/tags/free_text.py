"""Free text up to the first occurrence of some strings: the automaton of Aho and Corasick (1975).

Its state is the longest end of the text so far that begins one of the strings; so it knows, after each byte, whether one
of them is complete. The texts that hold none of them are those that lead through no such state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MARKER, CALL = 0xFF, 0xFE
"""Bytes that begin no text: of a special token, and of a call of a schema (see `language`)."""


@dataclass(slots=True)
class FirstOf:
    """States are numbers from 0, the start. ``texts[q]``: the beginning of a string that state q stands for.

    >>> found = FirstOf([b"he", b"she"])
    >>> q = 0
    >>> for byte in b"ushe":
    ...     q = found.step(q, byte)
    >>> sorted(found.complete(q))
    [b'he', b'she']
    """

    strings: Iterable[bytes]
    texts: list[bytes] = field(init=False)
    _children: list[dict[int, int]] = field(init=False)
    _shorter: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.strings = sorted(set(self.strings))
        self.texts, self._children = [b""], [{}]
        for string in self.strings:
            q = 0
            for i, byte in enumerate(string, 1):
                if byte not in self._children[q]:
                    self._children[q][byte] = len(self.texts)
                    self.texts.append(string[:i])
                    self._children.append({})
                q = self._children[q][byte]
        self._ends = {text: q for q, text in enumerate(self.texts)}
        self._shorter = [0] * len(self.texts)
        for q in sorted(range(1, len(self.texts)), key=lambda q: len(self.texts[q])):
            if len(self.texts[q]) > 1:
                parent = self._ends[self.texts[q][:-1]]
                self._shorter[q] = self.step(self._shorter[parent], self.texts[q][-1])

    _ends: dict[bytes, int] = field(init=False)

    def step(self, q: int, byte: int) -> int:
        """The state after one more byte."""
        while byte not in self._children[q] and q:
            q = self._shorter[q]
        return self._children[q].get(byte, 0)

    def complete(self, q: int) -> set[bytes]:
        """The strings that end where state ``q`` has just been entered."""
        found = set()
        while q:
            if self.texts[q] in self.strings:
                found.add(self.texts[q])
            q = self._shorter[q]
        return found

    def row(self, q: int) -> list[tuple[int, int, int]]:
        """(low, high, state): where the bytes of text lead, as ranges; others only where a string goes on with them."""
        if MARKER in self.texts[q][-1:]:  # inside the two bytes of a token
            return [(byte, byte, target) for byte, target in sorted(self._children[q].items())]
        special = self._reads(q)
        spans: list[tuple[int, int, int]] = []
        byte = 0
        while byte < 0xF5:
            target = special.get(byte, 0)
            end = byte
            while end + 1 < 0xF5 and special.get(end + 1, 0) == target:
                end += 1
            spans.append((byte, end, target))
            byte = end + 1
        return spans + [(byte, byte, target) for byte, target in sorted(special.items()) if byte >= 0xF5]

    def _reads(self, q: int) -> dict[int, int]:
        """The bytes that do not lead back to the start."""
        found: dict[int, int] = {}
        while True:
            for byte, target in self._children[q].items():
                found.setdefault(byte, target)
            if not q:
                return found
            q = self._shorter[q]
