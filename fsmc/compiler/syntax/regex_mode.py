"""What a piece of a pattern means under the flags in force: Python's rules and ECMA-262's, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from fsmc.compiler.syntax import unicode_tables as tables
from fsmc.compiler.syntax.case_folding import fold_ascii, fold_ecma, fold_python
from fsmc.compiler.syntax.charclass import ANY, CharClass
from fsmc.compiler.syntax.expr import Chars, Concat, Expr, TextEnd, TextStart
from fsmc.compiler.syntax.simplify import alternate, concat, look

Flavor = Literal["python", "ecma"]


@dataclass(frozen=True, slots=True)
class Mode:
    """The flavor and the flags in force at a place of a pattern; ``ascii`` and ``verbose`` exist in Python only."""

    flavor: Flavor = "python"
    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    verbose: bool = False
    ascii: bool = False

    def fold(self, chars: CharClass) -> CharClass:
        """``chars`` and, where case is ignored, all that counts as the same letters."""
        if not self.ignore_case:
            return chars
        if self.flavor == "ecma":
            return fold_ecma(chars)
        return fold_ascii(chars) if self.ascii else fold_python(chars)

    def class_escape(self, letter: str) -> CharClass:
        r"""The class of ``\d \w \s`` or, by the capital letter, its complement."""
        return _class_escape(self, letter)

    def category(self, name: str, negated: bool) -> CharClass:
        r"""The class of ``\p{name}`` or ``\P{name}``; KeyError where there is no such category.

        Under (?i) ``\p{Lu}`` takes in the other cases of its letters. ``\P`` is the complement of ``\p`` in Python
        patterns; in ECMA-262 the complement is taken first, so that ``\P{Lu}`` then matches all letters.
        """
        chars = tables.general_category(name)
        if self.flavor == "ecma":
            return self.fold(~chars if negated else chars)
        return ~self.fold(chars) if negated else self.fold(chars)

    def dot(self) -> CharClass:
        """What ``.`` matches."""
        return ANY if self.dot_all else ~self.line_ends()

    def line_ends(self) -> CharClass:
        """The characters that end a line."""
        return CharClass.of("\n\r\u2028\u2029") if self.flavor == "ecma" else CharClass.of("\n")

    def line_start(self) -> Expr:
        """``^``"""
        if not self.multiline:
            return TextStart()
        return alternate([TextStart(), look(Chars(self.line_ends()), ahead=False, negated=False)])

    def line_end(self) -> Expr:
        """``$``. Python's also holds before a newline that ends the text."""
        if self.multiline:
            return alternate([TextEnd(), look(Chars(self.line_ends()), ahead=True, negated=False)])
        if self.flavor == "ecma":
            return TextEnd()
        return alternate([TextEnd(), look(Concat((Chars(CharClass.of("\n")), TextEnd())), ahead=True, negated=False)])

    def word_boundary(self, negated: bool) -> Expr:
        r"""``\b`` or ``\B``. In Python up to 3.13, ``\B`` does not match in the empty text."""
        word = self.class_escape("w")
        if not negated:
            return alternate([_between(word, True, False), _between(word, False, True)])
        nothing_around = _between(word, False, False)
        if self.flavor == "python":
            other = [look(Chars(~word), ahead, negated=False) for ahead in (False, True)]
            nothing_around = concat([nothing_around, alternate(other)])
        return alternate([_between(word, True, True), nothing_around])


def _between(word: CharClass, behind: bool, ahead: bool) -> Expr:
    """Zero-width: a word character stands right before (or none does), and right after."""
    return concat([look(Chars(word), False, not behind), look(Chars(word), True, not ahead)])


@cache
def _class_escape(mode: Mode, letter: str) -> CharClass:
    kind = letter.lower()
    if mode.flavor == "ecma":
        # WordCharacters of ECMA-262: ignoring case adds ſ and K, which fold to s and k; \W is its complement
        chars = {"d": tables.ASCII_DIGIT, "s": tables.ECMA_SPACE, "w": mode.fold(tables.ASCII_WORD)}[kind]
    elif mode.ascii:
        chars = {"d": tables.ASCII_DIGIT, "s": tables.ASCII_SPACE, "w": tables.ASCII_WORD}[kind]
    elif kind == "s":
        chars = tables.UNICODE_SPACE
    else:
        chars = tables.unicode_digit() if kind == "d" else tables.unicode_word()
    return chars if letter == kind else ~chars
