"""Case-insensitive matching: the characters that count as the same letter, by Python's rule and by ECMA-262's.

Both rules part the characters into groups; under ``(?i)`` a class stands for all groups that it touches.

*Python.* ``re`` compares lower-case forms, and adds pairs of lower-case letters that share their upper case, such as
s and ſ, or i and ı. Together: two characters match when the upper case of their lower case is the same.
*ECMA-262* with the ``u`` flag compares simple case foldings (CaseFolding.txt of Unicode, statuses C and S). Python
knows the full foldings only. Where one is longer than one character, the simple one is the lower case if that is one
character (ẞ → ß), and otherwise the character itself (ŉ).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fsmc.compiler.kept import kept
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.unicode_tables import all_code_points, unicode_table

# Simple foldings new in Unicode 15.1: pairs of letters that were always canonically or visually one
_ADDED_FOLDINGS = {"\u1fd3": "\u0390", "\u1fe3": "\u03b0", "\ufb05": "\ufb06"}


@kept(1 << 24, lambda folded, chars: 150 * (len(folded.ranges) + len(chars.ranges)))
def fold_ascii(chars: CharClass) -> CharClass:
    """``chars`` with the other case of each ASCII letter in it, as under ``(?ia)``.

    That is what the documentation of ``re`` says. CPython itself departs from it in one place: a range that reaches
    beyond U+FFFF also matches what has its upper case in the range, by Unicode's rules.

    >>> fold_ascii(CharClass.of("aß-")) == CharClass.of("aAß-")
    True
    """
    letters = chars & CharClass.from_ranges([(0x41, 0x5A), (0x61, 0x7A)])
    return chars | CharClass.from_ranges(
        (cp ^ 0x20, cp ^ 0x20) for low, high in letters.ranges for cp in range(low, high + 1)
    )


@kept(1 << 24, lambda folded, chars: 150 * (len(folded.ranges) + len(chars.ranges)))
def fold_python(chars: CharClass) -> CharClass:
    """All characters that ``(?i)`` lets match one of ``chars`` in a Python str pattern.

    >>> fold_python(CharClass.of("s")) == CharClass.of("sSſ")
    True
    """
    return _with_groups(chars, unicode_table("case-python", lambda: _case_groups(_python_key)))


@kept(1 << 24, lambda folded, chars: 150 * (len(folded.ranges) + len(chars.ranges)))
def fold_ecma(chars: CharClass) -> CharClass:
    """All characters that match one of ``chars`` in ECMA-262 with the flags ``i`` and ``u``.

    >>> fold_ecma(CharClass.of("i")) == CharClass.of("iI"), fold_ecma(CharClass.of("ß")) == CharClass.of("ßẞ")
    (True, True)
    """
    return _with_groups(chars, unicode_table("case-ecma", lambda: _case_groups(_simple_folding)))


def _with_groups(chars: CharClass, table: np.ndarray) -> CharClass:
    """``chars`` and every code point of ``table`` (rows: code point, code point, group) whose group it touches."""
    if not chars:
        return chars
    code_points, group = table[:, 0], table[:, 2]
    low, high = np.array(chars.ranges).T
    nearest = np.searchsorted(low, code_points, side="right") - 1
    inside = (nearest >= 0) & (code_points <= high[nearest])
    touched = np.zeros(int(group.max()) + 1, dtype=bool)
    touched[group[inside]] = True
    return chars | CharClass.from_ranges((cp, cp) for cp in code_points[touched[group] & ~inside].tolist())


def _lower(character: str) -> str:
    lower = character.lower()
    return lower if len(lower) == 1 else "i"  # İ alone has a longer lower case; its simple one is i


def _python_key(character: str) -> str:
    return _lower(character).upper()


def _simple_folding(character: str) -> str:
    folded, lower = character.casefold(), character.lower()
    if len(folded) > 1:
        folded = lower if len(lower) == 1 else character
    return _ADDED_FOLDINGS.get(folded, folded)


def _case_groups(key: Callable[[str], str]) -> np.ndarray:
    """Rows (code point, code point, group number) of all groups of more than one character, sorted."""
    groups: dict[str, list[int]] = {}
    everything = all_code_points()
    for start in range(0, len(everything), 64):
        block = everything[start : start + 64]
        # Nearly all blocks have no case at all, which two calls tell (30 ms in all; letter by letter 300 ms)
        if block.lower() != block or block.upper() != block:
            for character in block:
                groups.setdefault(key(character), []).append(ord(character))
    shared = [group for group in groups.values() if len(group) > 1]
    return np.array(sorted((cp, cp, number) for number, group in enumerate(shared) for cp in group))
