"""What Unicode says about characters: ``\\w``, ``\\d``, ``\\s`` and general categories, for the running Python's Unicode.

Asking ``re`` or ``unicodedata`` about all 1,114,112 code points takes 30 to 150 ms, so a table is computed when first
needed, kept for the process, and kept on disk: a small sealed file per table in the user's cache folder, named after
the Unicode and Python versions, read back in about 0.2 ms.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache

import numpy as np

from fsmc.cache_dir import default_cache_dir, read_sealed, write_sealed
from fsmc.compiler.syntax.charclass import ANY, EMPTY, MAX_CODE_POINT, CharClass

_MAGIC = b"fsmc unicode table 1\n"  # count up when what a table holds changes

ASCII = CharClass.from_ranges([(0, 0x7F)])
ASCII_WORD = CharClass.of("_") | CharClass.from_ranges([(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)])
ASCII_DIGIT = CharClass.from_ranges([(0x30, 0x39)])
ASCII_SPACE = CharClass.of(" \t\n\r\f\v")

# str.isspace: bidirectional type WS, B or S, or category Zs. Short enough to write down (a test asks every character).
UNICODE_SPACE = CharClass.of("\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | (
    CharClass.from_ranges([(0x2000, 0x200A)])
)
# ECMA-262 WhiteSpace and LineTerminator: unlike Python's with the byte order mark, without 0x1C–0x1F and 0x85
ECMA_SPACE = (UNICODE_SPACE | CharClass.of("\ufeff")) - CharClass.of("\x1c\x1d\x1e\x1f\x85")

_CATEGORY_NAMES = """
Lu Uppercase_Letter; Ll Lowercase_Letter; Lt Titlecase_Letter; Lm Modifier_Letter; Lo Other_Letter;
Mn Nonspacing_Mark; Mc Spacing_Mark; Me Enclosing_Mark; Nd Decimal_Number digit; Nl Letter_Number; No Other_Number;
Pc Connector_Punctuation; Pd Dash_Punctuation; Ps Open_Punctuation; Pe Close_Punctuation; Pi Initial_Punctuation;
Pf Final_Punctuation; Po Other_Punctuation; Sm Math_Symbol; Sc Currency_Symbol; Sk Modifier_Symbol; So Other_Symbol;
Zs Space_Separator; Zl Line_Separator; Zp Paragraph_Separator; Cc Control cntrl; Cf Format; Cs Surrogate;
Co Private_Use; Cn Unassigned; LC Cased_Letter; L Letter; M Mark Combining_Mark; N Number; P Punctuation punct;
S Symbol; Z Separator; C Other
"""


def _loose(name: str) -> str:
    """Names are compared without case, spaces, hyphens and underscores (Unicode Standard Annex 44, rule LM3)."""
    return re.sub(r"[\s_-]", "", name).lower()


_CATEGORY_BY_NAME = {_loose(alias): entry.split()[0] for entry in _CATEGORY_NAMES.split(";") for alias in entry.split()}
_CATEGORIES = [code for code in dict.fromkeys(_CATEGORY_BY_NAME.values()) if len(code) == 2 and code != "LC"]


def all_code_points() -> str:
    """Every code point in order, surrogates too, as one string (built in 5 ms, where joining ``chr`` takes 60)."""
    return np.arange(MAX_CODE_POINT + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@cache
def unicode_word() -> CharClass:
    """What ``\\w`` matches in a Python str pattern: letters, numbers and the underscore.

    >>> unicode_word().contains(ord("ß")), unicode_word().contains(ord("-"))
    (True, False)
    """
    return _class_of_table("word", lambda: _spans(r"\w+"))


@cache
def unicode_digit() -> CharClass:
    """What ``\\d`` matches in a Python str pattern: the decimal digits of all scripts.

    >>> unicode_digit().contains(ord("٣")), unicode_digit().contains(ord("²"))
    (True, False)
    """
    return _class_of_table("digit", lambda: _spans(r"\d+"))


@cache
def general_category(name: str) -> CharClass:
    """The characters of a general category or group of categories, by short or long name; also Any, ASCII, Assigned.

    Case, spaces, hyphens and underscores do not matter. Raises KeyError for a name that is none of these.

    >>> general_category("Lu").contains(ord("Ä")), general_category("lowercase letter").contains(ord("Ä"))
    (True, False)
    >>> general_category("Greek")
    Traceback (most recent call last):
    ...
    KeyError: 'Greek'
    """
    loose = _loose(name)
    if loose in ("any", "ascii", "assigned"):
        return {"any": ANY, "ascii": ASCII, "assigned": ~general_category("Cn") if loose == "assigned" else EMPTY}[
            loose
        ]
    if loose not in _CATEGORY_BY_NAME:
        raise KeyError(name)
    code = _CATEGORY_BY_NAME[loose]
    members = ("Lu", "Ll", "Lt") if code == "LC" else tuple(c for c in _CATEGORIES if c.startswith(code))
    runs = unicode_table("categories", _category_runs)
    chosen = np.isin(runs[:, 2], [_CATEGORIES.index(member) for member in members])
    return CharClass.from_ranges(map(tuple, runs[chosen, :2].tolist()))


def unicode_table(name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The int32 table ``name``, whose rows are (first code point, last code point, value): from disk, or computed.

    A computed table is written to the cache folder; failing to write it is no error.
    """
    version = f"{unicodedata.unidata_version}-python{sys.version_info[0]}.{sys.version_info[1]}"
    path = default_cache_dir() / f"unicode-{version}-{name}.bin"
    stored = read_sealed(path, _MAGIC)
    if stored is not None:
        return np.frombuffer(stored, dtype="<i4").reshape(-1, 3)
    table = np.ascontiguousarray(compute(), dtype="<i4")
    write_sealed(path, _MAGIC, table.tobytes())
    return table


def _class_of_table(name: str, compute: Callable[[], np.ndarray]) -> CharClass:
    return CharClass.from_ranges(map(tuple, unicode_table(name, compute)[:, :2].tolist()))


def _spans(pattern: str) -> np.ndarray:
    """Rows (first, last, 0) of the stretches of code points that ``pattern`` matches."""
    return np.array([(m.start(), m.end() - 1, 0) for m in re.finditer(pattern, all_code_points())])


def _category_runs() -> np.ndarray:
    """Rows (first, last, index in _CATEGORIES) of the maximal runs of one general category."""
    codes = np.frombuffer("".join(map(unicodedata.category, all_code_points())).encode(), dtype="<u2")
    last = np.append(np.flatnonzero(np.diff(codes)), MAX_CODE_POINT)
    first = np.append(0, last[:-1] + 1)
    index = {int(np.frombuffer(code.encode(), dtype="<u2")[0]): i for i, code in enumerate(_CATEGORIES)}
    return np.stack([first, last, [index[code] for code in codes[first].tolist()]], axis=1)
