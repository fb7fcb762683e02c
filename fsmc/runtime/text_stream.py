"""From tokens' bytes to text on a screen: whole characters only, and nothing that a stop string may still take back."""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice

OnText = Callable[[str, bool], None]
"""Called with each new piece of text, and whether it was forced by the constraint rather than chosen by the model."""


class TextStream:
    """Collects the bytes of one generation and hands their text on as early as it is certain.

    A token may end inside a character, and the beginning of a stop string may turn out not to be one: such an end is
    held back until the next bytes decide. Bytes that are not UTF-8 (a model without a constraint may write them) become
    U+FFFD.

    >>> stream = TextStream(lambda piece, forced: print(repr(piece), forced), stop=["<end>"])
    >>> stream.add(b"caf\\xc3", forced=False)
    'caf' False
    False
    >>> stream.add(b"\\xa9 <", forced=True)
    'é ' True
    False
    >>> stream.add(b"end> and more", forced=False), stream.text
    (True, 'café ')
    """

    def __init__(self, on_text: OnText | None = None, stop: Sequence[str] = ()) -> None:
        self.text = ""
        self._on_text = on_text
        self._stops = sorted({s for s in stop if s})
        self._longest = max(map(len, self._stops), default=0)
        self._by_length: dict[int, set[str]] = {}
        for string in self._stops:
            self._by_length.setdefault(len(string), set()).add(string)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[tuple[str, bool]] = []

    def add(self, data: bytes, forced: bool) -> bool:
        """Append bytes. True if a stop string is now complete: ``text`` then ends before it, and nothing more counts."""
        return self._append(self._decoder.decode(data), forced)

    def close(self) -> None:
        """There is no more: what was held back is text after all."""
        self._append(self._decoder.decode(b"", final=True), False)
        self._release(0)

    def _append(self, piece: str, forced: bool) -> bool:
        if not piece:
            return False
        old_length = len(self.text)
        self.text += piece
        self._held.append((piece, forced))
        found = self._first_stop(old_length)
        if found >= 0:
            self._release(len(self.text) - found)
            self._held.clear()
            self.text = self.text[:found]
            return True
        self._release(self._length_of_begun())
        return False

    # Both ask sets and a sorted list, as the time a token takes must not grow with the number of stop strings.

    def _first_stop(self, old_length: int) -> int:
        """Where the first of the stop strings begins that end in what is new, -1 if there is none."""
        text, starts = self.text, []
        for n, stops in self._by_length.items():
            begins = range(max(old_length + 1 - n, 0), len(text) - n + 1)
            starts.extend(islice((i for i in begins if text[i : i + n] in stops), 1))
        return min(starts, default=-1)

    def _length_of_begun(self) -> int:
        """The length of the longest end of the text that begins a stop string."""
        text, stops = self.text, self._stops
        for n in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-n:]
            i = bisect_left(stops, end)
            if i < len(stops) and stops[i].startswith(end):
                return n
        return 0

    def _release(self, keep: int) -> None:
        """Hand on everything held back except the last ``keep`` characters."""
        n = sum(len(piece) for piece, _ in self._held) - keep
        while n > 0:
            piece, forced = self._held.pop(0)
            if len(piece) > n:
                self._held.insert(0, (piece[n:], forced))
                piece = piece[:n]
            n -= len(piece)
            if self._on_text is not None:
                self._on_text(piece, forced)
