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

_GROUP = "\ue000"
"""Stands for a whole group in the machine without brackets; cut out of the pattern characters for it."""

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
        rf"\u{ord(low):04x}(?:-(?![\]\\])[\u{ord(low):04x}-\uffff])?" for low in map(chr, range(0x20, 0x7F)) if low not in r"\]-"
    ]
    from_zero = rf"\\(?:x00|u0000)-(?:\\(?:x[{HEXDIG}]{{2}}|u[{HEXDIG}]{{4}})|[^\]\\])"
    alone = r"[\x00-\x1f\x7f-\U0010ffff]"
    items = f"(?:{'|'.join(ranges)}|{alone}|{_ESCAPE}|{from_zero}|\\\\[b-])*"
    return rf"\[(?:\^|(?!\^))-?{items}-?\]"


def _without_groups() -> DFA:
    """Disjunctions in which `_GROUP` stands for each group."""
    characters = rf"(?!{_GROUP})[^{_SYNTAX}\\]"
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
    n = len(table)
    start, after_group = flat.start, int(flat.run(_GROUP.encode()))
    before_group = flat.start
    for byte in _GROUP.encode()[:-1]:
        before_group = int(table[before_group, byte])
    first, last = _GROUP.encode()[0], _GROUP.encode()[-1]
    opens = np.flatnonzero(_leads_to_group(table, flat.start))
    del before_group, first, last
    # Per place: the states of `flat`, then four that read "(", "(?", "(?<" of a group or an assertion within it
    size = n + 3
    delta = np.zeros((len(_PLACES) * size, 256), np.int32)
    for i, place in enumerate(_PLACES):
        base = i * size
        block = delta[base : base + n]
        block[:] = np.where(table == 0, 0, table + base)
        inner = {kind: _PLACES.index(place + kind) * size for kind in "ga" if place + kind in _PLACES}
        if place:
            outer = _PLACES.index(place[:-1]) * size
            block[flat.accepting, ord(")")] = outer + (after_group if place[-1] == "g" else start)
        opened, asked, behind = base + n, base + n + 1, base + n + 2
        if not inner:
            continue
        block[opens, ord("(")] = opened
        if "g" in inner:
            group = inner["g"]
            delta[opened] = delta[0]
            delta[opened] = np.where(table[start] == 0, 0, table[start] + group)
            delta[asked, ord(":")] = group + start
        delta[opened, ord("?")] = asked
        if "a" in inner:
            delta[asked, [ord("="), ord("!")]] = inner["a"] + start
            delta[asked, ord("<")] = behind
            delta[behind, [ord("="), ord("!")]] = inner["a"] + start
    return delta
