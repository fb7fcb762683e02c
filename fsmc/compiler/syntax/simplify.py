"""Node constructors that keep trees small: each returns the plainest tree of the same language.

They flatten nested sequences and alternations, merge single characters of an alternation into one class, and decide
what is empty or matches nothing. Everything after the parser costs time per node, so this pays at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from fsmc.compiler.syntax.charclass import ANY, CharClass
from fsmc.compiler.syntax.expr import EPSILON, NOTHING, Alternate, Chars, Concat, Expr, Look, Repeat

ANY_TEXT = Repeat(Chars(ANY), 0, None)


def is_nothing(expr: Expr) -> bool:
    """Whether ``expr`` is visibly the empty language (there are others that only a machine can tell)."""
    return (type(expr) is Alternate and not expr.branches) or (type(expr) is Chars and not expr.chars)


def concat(parts: Iterable[Expr]) -> Expr:
    """The parts in sequence.

    >>> a = Chars(CharClass.of("a"))
    >>> concat([EPSILON, Concat((a, a)), a]) == Concat((a, a, a))
    True
    >>> concat([a, NOTHING]) == NOTHING
    True
    """
    flat: list[Expr] = []
    for part in parts:
        if type(part) is Concat:
            flat.extend(part.parts)
        elif is_nothing(part):
            return NOTHING
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Concat(tuple(flat))


def alternate(branches: Iterable[Expr]) -> Expr:
    """Any of the branches.

    >>> alternate([Chars(CharClass.of("a")), NOTHING, Chars(CharClass.of("b"))])
    Chars(chars=CharClass(ranges=((97, 98),)))
    """
    flat: list[Expr] = []
    for branch in branches:
        flat.extend(branch.branches if type(branch) is Alternate else (branch,))
    classes = [branch.chars for branch in flat if type(branch) is Chars]
    if len(classes) > 1:
        merged = Chars(CharClass.from_ranges(r for chars in classes for r in chars.ranges))
        flat = [merged, *(branch for branch in flat if type(branch) is not Chars)]
    flat = [branch for branch in flat if not is_nothing(branch)]
    if flat.count(EPSILON) > 1:
        flat = [EPSILON, *(branch for branch in flat if branch != EPSILON)]
    return flat[0] if len(flat) == 1 else Alternate(tuple(flat))


def repeat(body: Expr, minimum: int, maximum: int | None) -> Expr:
    """``minimum`` to ``maximum`` copies of the body (None: no bound).

    >>> a = Chars(CharClass.of("a"))
    >>> repeat(repeat(a, 0, 1), 0, None) == Repeat(a, 0, None)
    True
    """
    if maximum == 0 or body == EPSILON:
        return EPSILON
    if is_nothing(body):
        return NOTHING if minimum else EPSILON
    if type(body) is Look:  # it holds or not, however often it is asked
        return body if minimum else EPSILON
    if type(body) is Repeat and body.minimum <= 1 and (body.maximum is None or (body.minimum, body.maximum) == (0, 1)):
        # (x*){m,n} is x*; (x+){m,n} is x{m,} (and x* from m = 0); (x?){m,n} is x{0,n}
        return repeat(body.body, minimum * body.minimum, None if body.maximum is None else maximum)
    return body if minimum == maximum == 1 else Repeat(body, minimum, maximum)


def look(body: Expr, ahead: bool, negated: bool) -> Expr:
    """A look-ahead or look-behind.

    >>> look(EPSILON, ahead=True, negated=True) == NOTHING
    True
    """
    if body == EPSILON or is_nothing(body):
        return NOTHING if (body == EPSILON) == negated else EPSILON
    return Look(body, ahead, negated)
