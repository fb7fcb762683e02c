r"""Regular expressions as strings: the machine of a part of ECMA-262's patterns that all its modes accept.

Brackets nest without bound, which no finite machine follows, and group names must differ. So this accepts less than the
standard, never more:

- groups three deep; look-around at the top or in a group, with groups at most one deep inside;
- no named groups and no references, by name or number, no ``\0``, no ``\u{…}``; ``\p`` with general categories alone;
- ranges in classes from an ASCII character as it stands, or from ``\x00`` and ``\u0000``;
- ``{n,m}`` with n below 100, or m with more digits than n; counts of at most four digits.

It is what both with and without the ``u`` flag is valid, so nothing that leans on Annex B (``\a``, a lone ``]``).
"""

from __future__ import annotations

import numpy as np

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.schema.format_machine import ALPHA, HEXDIG, machine

_GROUP = r"\x00"
"""Stands for a whole group in the machine without brackets; as a character of a pattern it is left out."""

_SYNTAX = r"\^$.*+?()\[\]{}|"
_CATEGORIES = "C[cfnos]?|L[Clmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?"
_ESCAPE = rf"\\(?:[{_SYNTAX}\\/dDsSwWfnrtv]|c[{ALPHA}]|x[{HEXDIG}]{{2}}|u[{HEXDIG}]{{4}}|[pP]\{{(?:{_CATEGORIES})\}})"


def _quantifier() -> str:
    """``*``, ``+``, ``?``, ``{n}``, ``{n,}`` and ``{n,m}`` with n <= m, greedy or not."""
    bounds = [r"[0-9]{1,4},?", "[1-9][0-9]{2},[1-9][0-9]{3}"]
    bounds += [f"{n},(?:[{n}-9]|[1-9][0-9]{{1,3}})" for n in range(10)]
    for tens in range(1, 10):
        above = f"[{tens + 1}-9][0-9]|[1-9][0-9]{{2,3}}" if tens < 9 else "[1-9][0-9]{2,3}"
        bounds += [f"{tens}{ones},(?:{tens}[{ones}-9]|{above})" for ones in range(10)]
    return rf"(?:[*+?]|\{{(?:{'|'.join(bounds)})\}})\??"


def _character_class() -> str:
    """``[…]``: a hyphen stands for itself first or last, else between the ends of a range that goes up."""
    ranges = [
        rf"\u{ord(low):04x}(?:-(?![\]\\])[\u{ord(low):04x}-\uffff])?"
        for low in map(chr, range(0x20, 0x7F))
        if low not in r"\]-"
    ]
    from_zero = rf"\\(?:x00|u0000)-(?:\\(?:x[{HEXDIG}]{{2}}|u[{HEXDIG}]{{4}})|[^\]\\\x00-\x1f\U00010000-\U0010ffff])"
    alone = r"[\x01-\x1f\x7f-\U0010ffff]"
    items = f"(?:{'|'.join(ranges)}|{alone}|{_ESCAPE}|{from_zero}|\\\\[b-])*"
    return rf"\[(?:\^|(?!\^))-?{items}-?\]"


def _without_groups() -> DFA:
    """Disjunctions in which `_GROUP` stands for each group."""
    characters = rf"[^{_SYNTAX}\\{_GROUP}]"
    atom = f"(?:{characters}|\\.|{_ESCAPE}|{_character_class()}|{_GROUP})"
    return machine(rf"(?:{atom}(?:{_quantifier()})?|[\^$|]|\\[bB])*")


_PLACES = ("", "g", "gg", "ggg", "a", "ga", "ag")
"""What one may stand in, outermost first: g a group, a an assertion (look-around)."""


def regex() -> DFA:
    r"""ECMA-262, section 22.2.1, ``Pattern``, within the bounds above.

    >>> accepts = regex().matches
    >>> accepts(b"^(?:[a-z]+(?=x)){2,3}$"), accepts(b"^(abc]"), accepts(b"*"), accepts(b"[z-a]"), accepts(rb"\a")
    (True, False, False, False, False)
    """
    flat = _without_groups()
    table = flat.delta[:, flat.byte_class]
    before_group = np.flatnonzero(table[:, 0])
    after_group = table[before_group[0], 0]
    table[:, 0] = 0
    # For each place the states of `flat`, and three more: after "(", after "(?", after "(?<"
    n = flat.n_states
    base = {place: i * (n + 3) for i, place in enumerate(_PLACES)}
    delta = np.zeros((len(_PLACES) * (n + 3), 256), np.int32)
    for place, offset in base.items():
        rows = delta[offset : offset + n]
        rows[:] = np.where(table == 0, 0, table + offset)
        if place:  # an assertion takes no quantifier
            rows[flat.accepting, ord(")")] = base[place[:-1]] + (after_group if place[-1] == "g" else flat.start)
    for place, offset in reversed(base.items()):  # inner places first: what follows "(" is copied from them
        parenthesis, question, behind = range(offset + n, offset + n + 3)
        group, assertion = (base.get(place + kind) for kind in "ga")
        if group is not None:
            delta[offset + before_group, ord("(")] = parenthesis
            delta[parenthesis] = delta[group + flat.start]
            delta[parenthesis, ord("?")] = question
            delta[question, ord(":")] = group + flat.start
        if assertion is not None:
            delta[question, [ord("="), ord("!")]] = assertion + flat.start
            delta[question, ord("<")] = behind
            delta[behind, [ord("="), ord("!")]] = assertion + flat.start
    accepting = np.zeros(len(delta), np.bool_)
    accepting[:n] = flat.accepting
    return minimize(DFA.from_arrays(np.arange(256), delta, accepting, flat.start))
