"""The syntax tree of a regular language: eight frozen nodes, from which everything else is built.

Front ends desugar into these: ``a?`` is ``Repeat(a, 0, 1)``, ``\\b`` is an alternation of two pairs of looks, ``.`` is
a character class. A tree says nothing about bytes; the NFA construction turns classes into UTF-8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fsmc.compiler.syntax.charclass import CharClass

MAX_LISTED = 64
"""Texts that `listed_texts` lists at most."""


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of the nodes. Nodes are values: equal trees compare equal.

    >>> EPSILON == Concat(())
    True
    """


@dataclass(frozen=True, slots=True)
class Chars(Expr):
    """One character out of a class. The empty class matches nothing."""

    chars: CharClass


@dataclass(frozen=True, slots=True)
class Concat(Expr):
    """The parts, one after the other; no parts is the empty string."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Alternate(Expr):
    """Any one of the branches; no branches matches nothing."""

    branches: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Expr):
    """``minimum`` to ``maximum`` copies of the body; ``maximum`` None is no bound. 0 <= minimum <= maximum."""

    body: Expr
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Look(Expr):
    """Zero-width: the text from here on starts with (``ahead``), or the text up to here ends with, a match of the body.

    ``negated`` looks hold where the body does not match. Only the text is looked at, so a look may stand anywhere.
    """

    body: Expr
    ahead: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class TextStart(Expr):
    """Zero-width: holds at the start of the whole text (``\\A``)."""


@dataclass(frozen=True, slots=True)
class TextEnd(Expr):
    """Zero-width: holds at the end of the whole text (``\\Z``)."""


_MANY = 32

EPSILON = Concat(())
NOTHING = Alternate(())


def counted(parts: Sequence[Expr]) -> list[tuple[Expr, int]]:
    """The different objects among the parts, each with how often it is there: of a megabyte of text there are few. Few parts are listed
    as they are, which is faster.

    >>> a = Chars(CharClass.of("a"))
    >>> counted([a, EPSILON] * 50) == [(a, 50), (EPSILON, 50)]
    True
    """
    if len(parts) < _MANY:
        return [(part, 1) for part in parts]
    by_id = dict(zip(map(id, parts), parts, strict=True))
    return [(by_id[number], n) for number, n in Counter(map(id, parts)).items()]


def surely_matches(expr: Expr, first: bool = True, last: bool = True) -> bool:
    """Whether some text matches, as far as that can be seen without a machine. first, last: whether nothing need stand before
    it, and after it. Whatever may be empty is taken as empty.

    >>> a = Chars(CharClass.of("a"))
    >>> surely_matches(Concat((Repeat(a, 0, None), TextStart(), a))), surely_matches(Concat((a, TextStart())))
    (True, False)
    """
    if isinstance(expr, Chars):
        return bool(expr.chars)
    if isinstance(expr, Concat):
        parts = expr.parts
        if all(type(part) is Chars for part in parts):  # a literal, of which a grammar may have thousands
            return all(part.chars for part in parts)  # type: ignore[attr-defined]  # all are Chars
        empty = [
            isinstance(part, (TextStart, TextEnd)) or (isinstance(part, Repeat) and not part.minimum) for part in parts
        ]
        begin = empty.index(False) if False in empty else len(parts)
        end = len(parts) - (empty[::-1].index(False) if False in empty else len(parts))
        inside = counted(parts[begin + 1 : end - 1])
        return all(surely_matches(part, False, False) for part, _ in inside) and all(
            surely_matches(parts[i], first and i <= begin, last and i >= end - 1)
            for i in {*range(min(begin + 1, len(parts))), *range(max(end - 1, 0), len(parts))}
        )
    if isinstance(expr, Alternate):
        return any(surely_matches(branch, first, last) for branch in expr.branches)
    if isinstance(expr, Repeat):
        once = expr.minimum == 1
        return not expr.minimum or surely_matches(expr.body, first and once, last and once)
    return first if isinstance(expr, TextStart) else last if isinstance(expr, TextEnd) else False


def listed_texts(expr: Expr) -> frozenset[str] | None:
    """The texts that match, where the tree only lists up to ``MAX_LISTED`` of them; else None.

    >>> a, b = Chars(CharClass.of("a")), Chars(CharClass.of("b"))
    >>> sorted(listed_texts(Concat((a, Alternate((b, EPSILON)))))), listed_texts(Repeat(a, 0, None))
    (['a', 'ab'], None)
    """
    if isinstance(expr, Chars):
        few = len(expr.chars) <= MAX_LISTED
        return frozenset(chr(c) for low, high in expr.chars.ranges for c in range(low, high + 1)) if few else None
    found: frozenset[str] = frozenset()
    if isinstance(expr, Alternate):
        for branch in expr.branches:
            texts = listed_texts(branch)
            if texts is None or len(found := found | texts) > MAX_LISTED:
                return None
        return found
    if not isinstance(expr, Concat):
        return None
    found = frozenset([""])
    for part in expr.parts:
        texts = listed_texts(part)
        if texts is None or len(found) * len(texts) > MAX_LISTED:
            return None
        found = frozenset(a + b for a in found for b in texts)
    return found
