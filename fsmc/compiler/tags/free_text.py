"""Free text up to the first occurrence of some strings: the automaton of Aho and Corasick (1975).

Its state is the longest end of the text so far that begins one of the strings; so it knows, after each byte, whether one
of them is complete. The texts that hold none of them are those that lead through no such state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fsmc.compiler.errors import LimitExceeded

MARKER, CALL = 0xFF, 0xFE
"""Bytes that begin no text: of a special token, and of a call of a schema (see `language`)."""

MAX_SOUGHT = 100_000
"""Bytes of the strings that one free text is searched for, together,"""
MAX_EDGES = 2_000_000
"""and what there may be to tell apart after them."""


@dataclass(slots=True)
class FirstOf:
    """States are numbers from 0, the start. ``lengths[q]``: of the beginning of a string that state q stands for.

    Raises LimitExceeded for more than ``max_sought`` bytes of strings, and for more than ``max_edges`` of what is told apart after them.

    >>> found = FirstOf([b"he", b"she"])
    >>> q = 0
    >>> for byte in b"ushe":
    ...     q = found.step(q, byte)
    >>> sorted(found.complete[q])
    [b'he', b'she']
    """

    strings: Iterable[bytes]
    max_sought: int = MAX_SOUGHT
    max_edges: int = MAX_EDGES
    check: Callable[[], None] = lambda: None
    """Called again and again, may raise."""
    lengths: list[int] = field(init=False)
    complete: list[frozenset[bytes]] = field(init=False)
    """The strings that end where each state has just been entered."""
    _reads: list[dict[int, int]] = field(init=False)  # the bytes that do not lead back to the start
    _last: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.strings = sorted(set(self.strings))
        total = sum(map(len, self.strings))
        if total > self.max_sought:
            raise LimitExceeded(
                "max_sought", self.max_sought, total, "bytes of texts that end free text, or that it excludes"
            )
        self.lengths, ends = [0], {}
        children: list[dict[int, int]] = [{}]
        for string in self.strings:
            self.check()
            q = 0
            for i, byte in enumerate(string, 1):
                if byte not in children[q]:
                    children[q][byte] = len(children)
                    self.lengths.append(i)
                    children.append({})
                q = children[q][byte]
            ends[q] = frozenset((string,))
        shorter = [0] * len(children)
        self._last = bytearray(len(children))
        self._reads, self.complete = [{}] * len(children), [frozenset()] * len(children)
        todo, n_edges = [0], 0
        for q in todo:  # grows as it goes: those of shorter texts come first
            if not q & 0xFF:
                self.check()
            is_inside = self._last[q] == MARKER and not shorter[q]
            self._reads[q] = children[q] if is_inside else self._reads[shorter[q]] | children[q]
            n_edges += len(self._reads[q])
            if n_edges > self.max_edges:
                raise LimitExceeded("max_edges", self.max_edges, n_edges, "of what free text is searched for")
            for byte, target in children[q].items():
                self._last[target] = byte
                shorter[target] = self._reads[shorter[q]].get(byte, 0) if q else 0
                self.complete[target] = ends.get(target, frozenset()) | self.complete[shorter[target]]
                todo.append(target)

    def step(self, q: int, byte: int) -> int:
        """The state after one more byte."""
        return self._reads[q].get(byte, 0)

    def row(self, q: int) -> list[tuple[int, int, int]]:
        """(low, high, state): where the bytes of text lead, as ranges; others only where a string goes on with them."""
        if self._last[q] == MARKER:  # inside the two bytes of a token
            return [(byte, byte, target) for byte, target in sorted(self._reads[q].items())]
        special = self._reads[q]
        spans: list[tuple[int, int, int]] = []
        byte = 0
        for other in sorted(b for b in special if b < 0xF5):
            if byte < other:
                spans.append((byte, other - 1, 0))
            spans.append((other, other, special[other]))
            byte = other + 1
        if byte < 0xF5:
            spans.append((byte, 0xF4, 0))
        return spans + [(byte, byte, target) for byte, target in sorted(special.items()) if byte >= 0xF5]
