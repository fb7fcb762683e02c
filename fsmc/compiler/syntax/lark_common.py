"""The terminals of Lark's module ``common``, from their documentation, as regexes.

ESCAPED_STRING is the text between two quotes in which a backslash takes the next character along; a string ends at its first quote.
"""

from __future__ import annotations

_INT = "[0-9]+"
_EXP = f"[eE][+-]?{_INT}"
_DECIMAL = rf"(?:{_INT}\.[0-9]*|\.{_INT})"
_FLOAT = rf"(?:{_INT}{_EXP}|{_DECIMAL}(?:{_EXP})?)"
_LETTER = "[A-Za-z]"

COMMON: dict[str, str] = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9A-Fa-f]",
    "INT": _INT,
    "_EXP": _EXP,
    "SIGNED_INT": f"[+-]?{_INT}",
    "DECIMAL": _DECIMAL,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": f"[+-]?{_FLOAT}",
    "NUMBER": f"(?:{_FLOAT}|{_INT})",
    "SIGNED_NUMBER": f"[+-]?(?:{_FLOAT}|{_INT})",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": _LETTER,
    "WORD": f"{_LETTER}+",
    "CNAME": f"(?:_|{_LETTER})(?:_|{_LETTER}|[0-9])*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*(?:[^*]|\*+[^*/])*\*+/",
    "SQL_COMMENT": r"--[^\n]*",
}

LAZY = ("_STRING_INNER", "_STRING_ESC_INNER")
"""Terminals of common that end where Lark's lazy matching ends them, at what follows them: no texts of their own."""
