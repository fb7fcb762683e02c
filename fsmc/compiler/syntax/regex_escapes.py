r"""Escapes: what a backslash and the characters after it stand for, in Python patterns and in ECMA-262's.

Python's are those of ``re`` for str patterns, plus ``\p{…}``. ECMA-262's are those with the ``u`` flag, on which JSON
Schema insists, read leniently where real schemas need it and no other reading exists: a backslash before any character
that is no ASCII letter or digit is that character. An unknown letter is an error in both: ``\Z`` in an ECMA pattern is
meant as Python's anchor, but would be the letter Z to an old browser.
"""

from __future__ import annotations

import re
import unicodedata

from fsmc.compiler.errors import PatternSyntaxError, UnsupportedPatternError
from fsmc.compiler.syntax.charclass import MAX_CODE_POINT, CharClass
from fsmc.compiler.syntax.regex_mode import Mode

Escape = int | CharClass | str
"""A code point (maybe a surrogate), a class, or the letter of an assertion: b, B, A or Z."""

_CONTROL_PYTHON = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_CONTROL_ECMA = {"f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_HEX = re.compile("[0-9A-Fa-f]*")
_OCTAL = re.compile("[0-7]{1,3}")
_DIGITS = re.compile("[0-9]+")
_CODE_POINT_IN_BRACES = re.compile(r"\{([0-9A-Fa-f]+)\}")
_TRAILING_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_NAME_IN_BRACES = re.compile(r"\{([^{}]*)\}")

_BACK_REFERENCE_HINT = "no finite-state machine can compare two parts of a text: write the alternatives out"
_LETTER_HINTS = {
    ("ecma", "A"): "ECMA-262 writes the start of the text ^",
    ("ecma", "Z"): "ECMA-262 writes the end of the text $",
    ("ecma", "z"): "ECMA-262 writes the end of the text $",
    ("ecma", "U"): r"ECMA-262 writes \u{1F600}",
    ("ecma", "a"): r"ECMA-262 writes the bell \x07",
    ("ecma", "e"): r"ECMA-262 writes escape \x1B",
    ("python", "z"): r"Python writes the end of the text \Z",
    ("python", "c"): r"Python writes control characters \x01 to \x1F",
    ("python", "e"): r"Python writes escape \x1B",
    ("python", "h"): r"for horizontal white space write [ \t]",
    ("python", "R"): r"for line ends write (?:\r\n|\n|\r)",
}


def read_escape(pattern: str, start: int, mode: Mode, in_class: bool) -> tuple[Escape, int]:
    r"""Read the escape whose backslash is at ``start``; returns what it stands for and where it ends.

    Raises PatternSyntaxError for an escape that does not exist, UnsupportedPatternError for a back-reference.

    >>> read_escape(r"a\x41b", 1, Mode(), in_class=False)
    (65, 5)
    """
    if start + 1 == len(pattern):
        raise PatternSyntaxError(
            "the pattern ends in a backslash", pattern, (start, start + 1), r"write \\ for a backslash"
        )
    letter = pattern[start + 1]
    if not letter.isascii() or not letter.isalnum():
        return ord(letter), start + 2
    if letter in "dDsSwW":
        return mode.class_escape(letter), start + 2
    if letter in "pP":
        return _category(pattern, start, mode)
    read = _python_escape if mode.flavor == "python" else _ecma_escape
    found = read(pattern, start, letter, in_class)
    if found is not None:
        return found
    where = "in a class" if in_class else f"in {'a Python' if mode.flavor == 'python' else 'an ECMA-262'} pattern"
    raise PatternSyntaxError(
        f"there is no escape \\{letter} {where}",
        pattern,
        (start, start + 2),
        _LETTER_HINTS.get((mode.flavor, letter), f"write {letter} for the character itself"),
    )


def _python_escape(pattern: str, start: int, letter: str, in_class: bool) -> tuple[Escape, int] | None:
    if letter in _CONTROL_PYTHON:
        return _CONTROL_PYTHON[letter], start + 2
    if letter == "b" and in_class:
        return 8, start + 2
    if letter in "bBAZ":
        return None if in_class else (letter, start + 2)
    if letter in "xuU":
        return _hex(pattern, start, {"x": 2, "u": 4, "U": 8}[letter])
    if letter == "N":
        return _named_character(pattern, start)
    if letter.isdigit():
        return _python_digits(pattern, start, in_class)
    return None


def _python_digits(pattern: str, start: int, in_class: bool) -> tuple[Escape, int] | None:
    r"""``\0`` and up to two octal digits, or three octal digits: a character. In a class, any octal digits."""
    octal = _OCTAL.match(pattern, start + 1)
    if octal and (in_class or pattern[start + 1] == "0" or len(octal[0]) == 3):
        if int(octal[0], 8) > 0o377:
            raise PatternSyntaxError(
                "an octal escape is at most \\377", pattern, (start, octal.end()), "write \\x or \\u and hex digits"
            )
        return int(octal[0], 8), octal.end()
    return None if in_class else _back_reference(pattern, start)


def _ecma_escape(pattern: str, start: int, letter: str, in_class: bool) -> tuple[Escape, int] | None:
    if letter in _CONTROL_ECMA:
        return _CONTROL_ECMA[letter], start + 2
    if letter == "b" and in_class:
        return 8, start + 2
    if letter in "bB":
        return None if in_class else (letter, start + 2)
    if letter == "x":
        return _hex(pattern, start, 2)
    if letter == "u":
        return _ecma_code_point(pattern, start)
    if letter == "c":
        control = pattern[start + 2 : start + 3]
        if not (control.isascii() and control.isalpha()):
            raise PatternSyntaxError(
                "\\c must be followed by an ASCII letter", pattern, (start, start + 2 + len(control))
            )
        return ord(control) % 32, start + 3
    if letter == "0" and not _DIGITS.match(pattern, start + 2):
        return 0, start + 2
    if letter == "k" and not in_class:
        name = re.compile("<[^>]*>?").match(pattern, start + 2)
        raise UnsupportedPatternError(
            "back-references are not regular", pattern, (start, name.end() if name else start + 2), _BACK_REFERENCE_HINT
        )
    if letter.isdigit():
        if in_class or letter == "0":
            digits = _DIGITS.match(pattern, start + 1)
            assert digits
            raise PatternSyntaxError(
                "ECMA-262 has no octal escapes", pattern, (start, digits.end()), "write \\x and two hex digits"
            )
        return _back_reference(pattern, start)
    return None


def _ecma_code_point(pattern: str, start: int) -> tuple[Escape, int]:
    r"""``\u{…}``, ``\uXXXX``, or two of these that are the halves of a surrogate pair."""
    braces = _CODE_POINT_IN_BRACES.match(pattern, start + 2)
    if braces:
        digits = braces[1].lstrip("0") or "0"
        if len(digits) > 6 or int(digits, 16) > MAX_CODE_POINT:
            raise PatternSyntaxError("the largest code point is 10FFFF", pattern, (start, braces.end()))
        return int(digits, 16), braces.end()
    if pattern.startswith("{", start + 2):
        raise PatternSyntaxError("\\u{ must be followed by hex digits and }", pattern, (start, start + 3))
    code_point, end = _hex(pattern, start, 4)
    trailing = _TRAILING_SURROGATE.match(pattern, end)
    if 0xD800 <= code_point <= 0xDBFF and trailing:
        return 0x10000 + (code_point - 0xD800) * 0x400 + int(trailing[1], 16) - 0xDC00, trailing.end()
    return code_point, end


def _hex(pattern: str, start: int, n_digits: int) -> tuple[int, int]:
    match = _HEX.match(pattern, start + 2, start + 2 + n_digits)
    assert match
    if len(match[0]) < n_digits:
        letter = pattern[start + 1]
        raise PatternSyntaxError(f"\\{letter} must be followed by {n_digits} hex digits", pattern, (start, match.end()))
    if int(match[0], 16) > MAX_CODE_POINT:
        raise PatternSyntaxError("the largest code point is 10FFFF", pattern, (start, match.end()))
    return int(match[0], 16), match.end()


def _in_braces(pattern: str, start: int, what: str, example: str) -> tuple[str, int]:
    match = _NAME_IN_BRACES.match(pattern, start + 2)
    if not match:
        raise PatternSyntaxError(
            f"\\{pattern[start + 1]} must be followed by a {what} in braces", pattern, (start, start + 2), example
        )
    return match[1], match.end()


def _named_character(pattern: str, start: int) -> tuple[Escape, int]:
    name, end = _in_braces(pattern, start, "character name", r"such as \N{EM DASH}")
    try:
        character = unicodedata.lookup(name)
    except KeyError:
        character = ""
    if len(character) != 1:  # a named sequence is several characters, which re refuses too
        raise PatternSyntaxError(
            "no character has this name", pattern, (start, end), "names are those of the Unicode standard"
        )
    return ord(character), end


def _category(pattern: str, start: int, mode: Mode) -> tuple[Escape, int]:
    text, end = _in_braces(pattern, start, "general category", r"such as \p{Lu} or \p{Letter}")
    key, equals, value = text.rpartition("=")
    span = (start, end)
    if equals and key not in ("gc", "General_Category"):
        raise UnsupportedPatternError(f"the Unicode property {key} is not supported", pattern, span, _PROPERTY_HINT)
    try:
        return mode.category(value, negated=pattern[start + 1] == "P"), end
    except KeyError:
        message = f"{value!r} is not a general category of Unicode"
        raise UnsupportedPatternError(message, pattern, span, _PROPERTY_HINT) from None


_PROPERTY_HINT = (
    "general categories are: L, Lu, Ll, Nd, P, Letter, … For a script, write its ranges, as in [\\u0370-\\u03FF]"
)


def _back_reference(pattern: str, start: int) -> tuple[Escape, int]:
    digits = _DIGITS.match(pattern, start + 1)
    assert digits
    span = (start, min(digits.end(), start + 3))
    raise UnsupportedPatternError("back-references are not regular", pattern, span, _BACK_REFERENCE_HINT)
