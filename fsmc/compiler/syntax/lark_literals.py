r"""The pieces of Lark's grammars that are text themselves: ``"…"``, ``"…"i``, ``"a".."z"``, ``/…/flags`` and the schema after ``%json``.

Each function is given the whole text and where the piece begins, and returns its node and where it ends.
"""

from __future__ import annotations

import ast
import json
import re

from fsmc.compiler.errors import GrammarError, UnsupportedGrammarError
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.ebnf import literal, regex_leaf
from fsmc.compiler.syntax.expr import Chars
from fsmc.compiler.syntax.grammar_tree import Leaf, Node, Schema, Span

_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"(i?)')
_RANGE = re.compile(r"[ \t]*\.\.[ \t]*")
_REGEX = re.compile(r"/(?!/)((?:[^/\\]|\\[\s\S])+)/([imslux]*)")
_FLAGS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "u": 0}
_LINES = "with the flag x, for white space and comments in it, it may have several lines"


def string(text: str, start: int, rule: str) -> tuple[Node, int]:
    """A literal, or a range of two of them.

    >>> string('start: "a".."f"', 7, "start")[1]
    15
    """
    found = _STRING.match(text, start)
    if not found:
        raise GrammarError('the literal has no closing "', text, (start, start + 1), rule)
    end, characters = found.end(), _unescaped(text, found, rule)
    dots = _RANGE.match(text, end)
    if dots:
        other = _STRING.match(text, dots.end())
        last = _unescaped(text, other, rule) if other else ""
        if not other or len(characters) != 1 or len(last) != 1 or found[2] or other[2]:
            raise GrammarError('a range is written "a".."z"', text, (start, dots.end()), rule)
        if last < characters:
            raise GrammarError("the range is reversed", text, (start, other.end()), rule)
        return Leaf(Chars(CharClass.from_ranges([(ord(characters), ord(last))]))), other.end()
    if characters.isascii() and not found[2]:
        return Leaf(literal(characters)), end
    return regex_leaf(text, re.escape(characters), re.I if found[2] else 0, (start, end), rule), end


def regex(text: str, start: int, rule: str) -> tuple[Node, int]:
    """A regex with its flags."""
    found = _REGEX.match(text, start)
    if not found or ("\n" in found[1] and "x" not in found[2]):
        raise GrammarError("the regex has no closing / on its line", text, (start, start + 1), rule, _LINES)
    flags = 0
    for letter in found[2]:
        if letter not in _FLAGS:
            what = f"the flag {letter} of regexes is not supported"
            raise UnsupportedGrammarError(what, text, found.span(2), rule, "known: i, m, s, x, u")
        flags |= _FLAGS[letter]
    return regex_leaf(text, found[1].replace("\\/", "/"), flags, found.span(), rule), found.end()


def schema(text: str, start: int, span: Span, rule: str) -> tuple[Node, int]:
    """The JSON Schema that begins at ``start``, behind a ``%json`` at ``span``: a value that is valid under it."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"after %json comes a JSON Schema: {error}", text, span, rule) from None
    return Schema(text[start:end], (span[0], end)), end


def _unescaped(text: str, found: re.Match[str], rule: str) -> str:
    r"""What a literal stands for; a backslash before another letter than those of ``\n \r \t \f \x \u \U`` stands for itself."""
    if found[1].isascii() and "\\" not in found[1]:
        return found[1]
    body = re.sub(r"\\(.)", lambda m: m[0] if m[1] in 'Uuxnftr\\"' else "\\" + m[0], found[1].replace("\x00", "\\x00"))
    try:
        characters = str(ast.literal_eval(f'"{body}"'))
        characters.encode()
    except (SyntaxError, ValueError) as error:
        surrogate = isinstance(error, UnicodeEncodeError)
        what = (
            "a lone surrogate is in no UTF-8 text"
            if surrogate
            else "an escape in the literal is cut off, or no character"
        )
        hint = "" if surrogate else r"known: \n \r \t \f \\ \" \xHH \uHHHH \UHHHHHHHH"
        raise GrammarError(what, text, found.span(), rule, hint) from error
    return characters
