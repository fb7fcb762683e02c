"""The meaning of a syntax tree, spelled out: which of a text's places a match can end at. Slow, obvious, an oracle."""

from fsmc.compiler.syntax.expr import Alternate, Chars, Concat, Look, Repeat, TextEnd, TextStart


def fullmatch(expr, text):
    """Whether the whole text is in the language of ``expr``."""
    return len(text) in _ends(expr, text, 0, {})


def _ends(expr, text, start, memo):
    key = id(expr), start
    if key not in memo:
        memo[key] = frozenset(_compute_ends(expr, text, start, memo))
    return memo[key]


def _compute_ends(expr, text, start, memo):
    if isinstance(expr, Chars):
        return {start + 1} if start < len(text) and expr.chars.contains(ord(text[start])) else set()
    if isinstance(expr, Concat):
        places = {start}
        for part in expr.parts:
            places = {end for place in places for end in _ends(part, text, place, memo)}
        return places
    if isinstance(expr, Alternate):
        return {end for branch in expr.branches for end in _ends(branch, text, start, memo)}
    if isinstance(expr, Repeat):
        reached, new, count = set(), {start}, 0
        seen = []
        while True:
            if count >= expr.minimum:
                reached |= new
            if count == expr.maximum or not new or (count >= expr.minimum and new in seen):
                return reached
            if count >= expr.minimum:
                seen.append(new)
            new = {end for place in new for end in _ends(expr.body, text, place, memo)}
            count += 1
    if isinstance(expr, Look):
        if expr.ahead:
            holds = bool(_ends(expr.body, text, start, memo))
        else:
            holds = any(start in _ends(expr.body, text, place, memo) for place in range(start + 1))
        return {start} if holds != expr.negated else set()
    if isinstance(expr, TextStart):
        return {start} if start == 0 else set()
    assert isinstance(expr, TextEnd)
    return {start} if start == len(text) else set()
