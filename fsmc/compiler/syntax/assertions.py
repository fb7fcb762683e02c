"""Settle what the neighbours decide: anchors and looks cost a slower construction, and most need none.

``^`` at the start of the whole text always holds, ``\\b`` between ``-`` and ``\\w`` too, ``a^`` never does. For every
zero-width node we know, from the nodes around it, an *edge set*: which characters can stand right before (or right
after) that place, and whether the text can begin (end) there. Where that settles the node, it becomes ε or nothing.
The sets may be too large but never too small, so what is settled is settled exactly.

``search`` uses the same knowledge for an unanchored match: ``^`` and ``$`` cancel the arbitrary text around the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fsmc.compiler.kept import kept
from fsmc.compiler.syntax.charclass import ANY, EMPTY, CharClass, Range
from fsmc.compiler.syntax.expr import (
    EPSILON,
    NOTHING,
    Alternate,
    Chars,
    Concat,
    Expr,
    Look,
    Repeat,
    TextEnd,
    TextStart,
)
from fsmc.compiler.syntax.simplify import ANY_TEXT, alternate, concat, is_nothing, look, repeat

_MAX_NEIGHBOURS = 8  # optional neighbours looked through (a?b?c?…), so that the cost stays linear


@dataclass(frozen=True, slots=True)
class Edge:
    """What can stand right beside a place in the text: one of ``chars``, or (``boundary``) the text's start or end."""

    chars: CharClass
    boundary: bool

    def __or__(self, other: Edge) -> Edge:
        return Edge(self.chars | other.chars, self.boundary or other.boundary)


BOUNDARY = Edge(EMPTY, True)
UNKNOWN = Edge(ANY, True)


def settle(expr: Expr, before: Edge = BOUNDARY, after: Edge = BOUNDARY) -> Expr:
    """``expr`` without the anchors and looks that its surroundings decide; by default it is the whole text.

    >>> a = Chars(CharClass.of("a"))
    >>> settle(Concat((TextStart(), a, TextEnd()))) == a
    True
    >>> settle(Concat((a, TextStart(), a))) == NOTHING
    True
    """
    return _Settler().settle(expr, before, after)


def search(body: Expr) -> Expr:
    """All texts of which some part matches ``body``: any text, body, any text, with anchors taken into account.

    >>> a = Chars(CharClass.of("a"))
    >>> search(Concat((TextStart(), a, TextEnd()))) == a
    True
    >>> search(Concat((TextStart(), a))) == Concat((a, ANY_TEXT))
    True
    """
    parts = body.parts if type(body) is Concat else (body,)
    at_start = bool(parts) and type(parts[0]) is TextStart
    at_end = bool(parts) and type(parts[-1]) is TextEnd
    inner = concat(parts[at_start : len(parts) - at_end])
    if not _asserts(inner):  # as most patterns: anchors stand at the ends, if anywhere
        if not (at_start or at_end) and _may_be_empty(inner):
            return ANY_TEXT
        return concat([EPSILON if at_start else ANY_TEXT, inner, EPSILON if at_end else ANY_TEXT])
    settler = _Settler()
    branches = []
    for rest, before in zip(_split(body, TextStart, first=True), (BOUNDARY, UNKNOWN), strict=True):
        for core, after in zip(_split(rest, TextEnd, first=False), (BOUNDARY, UNKNOWN), strict=True):
            ends = [ANY_TEXT if edge is UNKNOWN else EPSILON for edge in (before, after)]
            branches.append(concat([ends[0], settler.settle(core, before, after), ends[1]]))
    return alternate(branches)


def _asserts(expr: Expr) -> bool:
    """Whether it holds an anchor or a look."""
    if type(expr) is Chars:
        return False
    if type(expr) is Repeat:
        return _asserts(expr.body)
    below = expr.parts if type(expr) is Concat else expr.branches if type(expr) is Alternate else None
    return below is None or any(map(_asserts, below))


def _may_be_empty(expr: Expr) -> bool:
    """Whether the empty text matches, where nothing is asserted."""
    if type(expr) is Repeat:
        return not expr.minimum or _may_be_empty(expr.body)
    if type(expr) is Concat:
        return all(map(_may_be_empty, expr.parts))
    return type(expr) is Alternate and any(map(_may_be_empty, expr.branches))


def _split(expr: Expr, anchor: type[Expr], first: bool) -> tuple[Expr, Expr]:
    """(A, B) such that ``expr`` is "the anchor holds here, and A" or else B; here is its first place, or its last.

    A sequence is split by its outermost part, so each part is copied at most once: both together are at most twice
    as large as ``expr``.
    """
    if type(expr) is anchor:
        return EPSILON, NOTHING
    if type(expr) is Alternate:
        anchored, free = [], []
        for branch in expr.branches:
            a, b = _split(branch, anchor, first)
            anchored.append(a)
            free.append(b)
        return alternate(anchored), alternate(free)
    if type(expr) is Concat:
        parts = expr.parts if first else expr.parts[::-1]
        index = 0
        while index < len(parts) and type(parts[index]) is Look:  # a look is asked at the same place, so order is free
            index += 1
        if index < len(parts):
            split = _split(parts[index], anchor, first)
            if not is_nothing(split[0]):
                sequences = [(*parts[:index], part, *parts[index + 1 :]) for part in split]
                a, b = (concat(sequence if first else sequence[::-1]) for sequence in sequences)
                return a, b
    return NOTHING, expr


@kept(1 << 24, lambda both, *parts: 150 * sum(len(c.ranges) for c in (both, *parts)))
def _union(a: CharClass, b: CharClass) -> CharClass:
    return a | b  # 0.2 ms where \w takes part, and neighbours are much alike


@dataclass(frozen=True, slots=True)
class _Facts:
    consumes: bool  # never matches the empty string; exact where the node asserts nothing, else only if it says yes
    asserts: bool  # holds an anchor or a look
    first: CharClass  # at least all characters that a match can begin with
    last: CharClass  # … and end with


_ZERO_WIDTH = _Facts(False, True, EMPTY, EMPTY)


class _Settler:
    """The recursion behind ``settle``, with memos by node identity: the parser shares equal nodes, and ``_memo`` keeps them alive."""

    def __init__(self) -> None:
        self._memo: dict[int, tuple[Expr, _Facts]] = {}
        self._settled: dict[tuple[int, Edge, Edge], Expr] = {}

    def facts(self, expr: Expr) -> _Facts:
        known = self._memo.get(id(expr))
        if known is None:
            known = self._memo[id(expr)] = expr, self._compute_facts(expr)
        return known[1]

    def _compute_facts(self, expr: Expr) -> _Facts:
        if type(expr) is Chars:
            return _Facts(True, False, expr.chars, expr.chars)
        if type(expr) is Repeat:
            body = self.facts(expr.body)
            return _Facts(body.consumes and expr.minimum > 0, body.asserts, body.first, body.last)
        if type(expr) is Concat:
            consumes = asserts = False
            for part in expr.parts:
                facts = self.facts(part)
                consumes, asserts = consumes or facts.consumes, asserts or facts.asserts
            return _Facts(
                consumes, asserts, self._beside(expr.parts, True).chars, self._beside(expr.parts[::-1], False).chars
            )
        if type(expr) is Alternate:
            consumes, asserts = True, False
            first: list[Range] = []
            last: list[Range] = []
            for branch in expr.branches:
                facts = self.facts(branch)
                consumes, asserts = consumes and facts.consumes, asserts or facts.asserts
                first += facts.first.ranges
                last += facts.last.ranges
            return _Facts(consumes, asserts, CharClass.from_ranges(first), CharClass.from_ranges(last))
        return _ZERO_WIDTH

    def _beside(self, neighbours: Sequence[Expr], ahead: bool, beyond: Edge = BOUNDARY) -> Edge:
        """What stands beside a place whose neighbours, nearest first, are given; ``beyond`` is behind all of them."""
        chars = EMPTY
        for index, neighbour in enumerate(neighbours):
            if index == _MAX_NEIGHBOURS:
                return UNKNOWN
            facts = self.facts(neighbour)
            chars = _union(chars, facts.first if ahead else facts.last)
            if facts.consumes:
                return Edge(chars, False)
        return Edge(chars | beyond.chars, beyond.boundary)

    def settle(self, expr: Expr, before: Edge, after: Edge) -> Expr:
        facts = self.facts(expr)
        if not facts.asserts:
            return expr
        key = id(expr), before, after
        settled = self._settled.get(key)
        if settled is None:
            settled = self._settled[key] = self._compute_settled(expr, facts, before, after)
        return settled

    def _compute_settled(self, expr: Expr, facts: _Facts, before: Edge, after: Edge) -> Expr:
        if type(expr) is TextStart or type(expr) is TextEnd:
            edge = before if type(expr) is TextStart else after
            if not edge.boundary:
                return NOTHING
            return expr if edge.chars else EPSILON
        if type(expr) is Look:
            return self._settle_look(expr, before, after)
        if type(expr) is Repeat:
            if expr.maximum != 1:  # the neighbour may be another copy
                before, after = before | Edge(facts.last, False), after | Edge(facts.first, False)
            return repeat(self.settle(expr.body, before, after), expr.minimum, expr.maximum)
        if type(expr) is Alternate:
            branches = []
            for branch in expr.branches:
                branches.append(self.settle(branch, before, after))
            return alternate(branches)
        assert type(expr) is Concat
        parts = list(expr.parts)
        for index, part in enumerate(expr.parts):
            if self.facts(part).asserts:
                nearest = expr.parts[max(0, index - _MAX_NEIGHBOURS - 1) : index][::-1]
                following = expr.parts[index + 1 : index + _MAX_NEIGHBOURS + 2]
                parts[index] = self.settle(
                    part, self._beside(nearest, False, before), self._beside(following, True, after)
                )
        return concat(parts)

    def _settle_look(self, expr: Look, before: Edge, after: Edge) -> Expr:
        body = self.settle(expr.body, before, UNKNOWN) if expr.ahead else self.settle(expr.body, UNKNOWN, after)
        edge = after if expr.ahead else before
        facts = self.facts(body)
        near = facts.first if expr.ahead else facts.last
        if facts.consumes and near.isdisjoint(edge.chars):
            return EPSILON if expr.negated else NOTHING
        seen = type(body) is Chars and not edge.boundary and edge.chars.issubset(body.chars)
        if seen or not (facts.consumes or facts.asserts):
            return NOTHING if expr.negated else EPSILON
        return look(body, expr.ahead, expr.negated)
