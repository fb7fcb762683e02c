"""Sets of characters: sorted ranges of Unicode scalar values, with the set operations.

A character is a *scalar value*: 0 to 0x10FFFF without the surrogates 0xD800–0xDFFF, which no UTF-8 text can hold. So the
complement of a class never contains a surrogate, and neither does any class.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_CODE_POINT = 0x10FFFF
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CharClass:
    """An immutable set of characters. ``ranges`` are inclusive, sorted, disjoint, not adjacent, free of surrogates.

    That form is canonical: equal sets have equal ranges, so classes compare and hash as sets. Build one with
    ``from_ranges`` or ``of``; combine with ``|``, ``&``, ``-``, ``~`` (the complement within all scalar values).

    >>> vowels = CharClass.of("aeiou")
    >>> letters = CharClass.from_ranges([(ord("a"), ord("z"))])
    >>> consonants = letters - vowels
    >>> len(consonants), consonants.contains(ord("b")), bool(consonants & vowels)
    (21, True, False)
    >>> consonants | vowels == letters
    True
    >>> CharClass(((0xD800, 0xD8FF),))
    Traceback (most recent call last):
    ...
    ValueError: ranges of a CharClass must be sorted, disjoint, not adjacent and free of surrogates: use from_ranges
    """

    ranges: tuple[Range, ...]
    _hash: int = field(init=False, repr=False, compare=False)  # \w has 734 ranges, and classes are looked up often

    def __post_init__(self) -> None:
        previous = -2
        for low, high in self.ranges:
            holds_surrogate = low <= 0xDFFF and high >= 0xD800
            if low <= previous + 1 or high < low or high > MAX_CODE_POINT or holds_surrogate:
                raise ValueError(
                    "ranges of a CharClass must be sorted, disjoint, not adjacent and free of surrogates: use from_ranges"
                )
            previous = high
        object.__setattr__(self, "_hash", hash(self.ranges))

    @classmethod
    def from_ranges(cls, ranges: Iterable[Range]) -> CharClass:
        """The class of all characters in ``ranges``: inclusive (low, high), in any order, overlapping or not.

        Surrogates inside a range are left out. Raises ValueError for a reversed range or one outside 0…0x10FFFF.

        >>> CharClass.from_ranges([(98, 99), (97, 97), (0xD000, 0xE000)]).ranges
        ((97, 99), (53248, 55295), (57344, 57344))
        """
        merged: list[Range] = []
        for low, high in sorted(ranges):
            if not 0 <= low <= high <= MAX_CODE_POINT:
                raise ValueError(f"not a range of code points: ({low}, {high})")
            if merged and low <= merged[-1][1] + 1:
                if high > merged[-1][1]:
                    merged[-1] = (merged[-1][0], high)
            else:
                merged.append((low, high))
        return cls(tuple(_without_surrogates(merged)))

    @classmethod
    def of(cls, characters: Iterable[str]) -> CharClass:
        """The class of the given characters.

        >>> CharClass.of("cab").ranges
        ((97, 99),)
        """
        return cls.from_ranges((ord(c), ord(c)) for c in characters)

    def contains(self, code_point: int) -> bool:
        """Whether the character with this code point is in the class."""
        index = bisect_right(self.ranges, (code_point, MAX_CODE_POINT)) - 1
        return index >= 0 and code_point <= self.ranges[index][1]

    def __invert__(self) -> CharClass:
        gaps: list[Range] = []
        start = 0
        for low, high in self.ranges:
            if low > start:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= MAX_CODE_POINT:
            gaps.append((start, MAX_CODE_POINT))
        return CharClass(tuple(_without_surrogates(gaps)))

    def __or__(self, other: CharClass) -> CharClass:
        if not other.ranges or self.ranges == other.ranges:
            return self
        return CharClass.from_ranges(self.ranges + other.ranges) if self.ranges else other

    def __and__(self, other: CharClass) -> CharClass:
        few, many = sorted((self.ranges, other.ranges), key=len)
        common: list[Range] = []
        for low, high in few:  # a letter and \w, with its 734 ranges, is the usual case: so find, not merge
            index = bisect_right(many, (low, -1))
            if index and many[index - 1][1] >= low:
                index -= 1
            while index < len(many) and many[index][0] <= high:
                common.append((max(low, many[index][0]), min(high, many[index][1])))
                index += 1
        return CharClass(tuple(common))

    def issubset(self, other: CharClass) -> bool:
        """Whether every character of this class is in ``other``."""
        if self.ranges == other.ranges:
            return True
        for low, high in self.ranges:
            index = bisect_right(other.ranges, (low, MAX_CODE_POINT)) - 1
            if index < 0 or other.ranges[index][1] < high:
                return False
        return True

    def isdisjoint(self, other: CharClass) -> bool:
        """Whether no character is in both classes."""
        few, many = sorted((self.ranges, other.ranges), key=len)
        for low, high in few:
            index = bisect_right(many, (high, MAX_CODE_POINT)) - 1  # the last range that starts at or before high
            if index >= 0 and many[index][1] >= low:
                return False
        return True

    def __sub__(self, other: CharClass) -> CharClass:
        return self & ~other

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[CharClass], tuple[tuple[Range, ...]]]:
        return CharClass, (self.ranges,)  # the cached hash is not part of the value


def _without_surrogates(ranges: Iterable[Range]) -> Iterable[Range]:
    for low, high in ranges:
        if high <= _BEFORE_SURROGATES or low >= _AFTER_SURROGATES:
            yield low, high
        else:
            if low <= _BEFORE_SURROGATES:
                yield low, _BEFORE_SURROGATES
            if high >= _AFTER_SURROGATES:
                yield _AFTER_SURROGATES, high


EMPTY = CharClass(())
ANY = ~EMPTY
