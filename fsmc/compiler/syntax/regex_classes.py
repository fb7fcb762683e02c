"""Bracket expressions: ``[a-z]``, ``[^\\s,]`` and what the two dialects make of ``[]``, ``[^]`` and ``[\\w-.]``."""

from __future__ import annotations

from fsmc.compiler.errors import PatternSyntaxError, UnsupportedPatternError
from fsmc.compiler.syntax.charclass import CharClass, Range
from fsmc.compiler.syntax.regex_escapes import read_escape
from fsmc.compiler.syntax.regex_mode import Mode

SURROGATE_HINT = (
    r"half a surrogate pair is in no UTF-8 text: write the whole character, such as 😀 or \U0001F600 (ECMA: \u{1F600})"
)


def read_class(pattern: str, start: int, mode: Mode) -> tuple[CharClass, int]:
    """Read the class whose ``[`` is at ``start``; returns its characters, case folded, and where it ends.

    As in Python, a ``]`` that comes first is literal; as in ECMA-262, ``[]`` is nothing there and ``[^]`` anything.
    Raises PatternSyntaxError for a class without end and for a bad range.

    >>> read_class("[^b-y]", 0, Mode())[0].contains(ord("c"))
    False
    """
    position = start + 1
    negated = pattern.startswith("^", position)
    position += negated
    first = position
    ranges: list[Range] = []
    classes: list[CharClass] = []
    only_surrogates = True  # so far
    while True:
        here = position
        if pattern.startswith("]", here) and (here > first or mode.flavor == "ecma"):
            break
        low, position = _read_member(pattern, start, here, mode)
        high = low
        # A hyphen makes a range, unless it ends the class
        if pattern.startswith("-", position) and not pattern.startswith("]", position + 1):
            after_hyphen, end = _read_member(pattern, start, position + 1, mode)
            if isinstance(low, int) and isinstance(after_hyphen, int):
                if after_hyphen < low:
                    raise PatternSyntaxError(
                        "the range runs backwards", pattern, (here, end), "the smaller code point comes first"
                    )
                high, position = after_hyphen, end
            elif mode.flavor == "python":
                raise PatternSyntaxError(
                    "a class escape cannot end a range", pattern, (here, end), r"write \- for a hyphen, or put it last"
                )
            # else: [\w-.] in ECMA patterns without the u flag, seen in real schemas: the hyphen is a member, read next
        if isinstance(low, int) and isinstance(high, int):
            ranges.append((low, high))
            only_surrogates = only_surrogates and 0xD800 <= low <= high <= 0xDFFF
        else:
            assert isinstance(low, CharClass)
            classes.append(low)
            only_surrogates = False
    if only_surrogates and ranges and not negated:
        raise UnsupportedPatternError("the class holds surrogates only", pattern, (start, position + 1), SURROGATE_HINT)
    chars = mode.fold(CharClass.from_ranges(ranges))
    for other in classes:
        chars |= other
    return (~chars if negated else chars), position + 1


def _read_member(pattern: str, start: int, position: int, mode: Mode) -> tuple[int | CharClass, int]:
    if position >= len(pattern):
        hint = r"write \[ for the character itself" if len(pattern) - start < 200 else ""
        raise PatternSyntaxError("the class has no closing ]", pattern, (start, start + 1), hint)
    if pattern[position] != "\\":
        return ord(pattern[position]), position + 1
    member, end = read_escape(pattern, position, mode, in_class=True)
    assert not isinstance(member, str)
    return member, end
