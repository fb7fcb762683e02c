"""Whether some string satisfies a formula, mostly without building a product of machines."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.common_text import have_common_text
from fsmc.compiler.schema.atoms import Length, Pattern, StrEnum
from fsmc.compiler.schema.conditions import one_of_names
from fsmc.compiler.schema.counted import CountedString
from fsmc.compiler.schema.cubes import Cube, cubes
from fsmc.compiler.schema.formula import ATOM, FALSE, TRUE, Formulas
from fsmc.compiler.schema.joint import Sorter, joint_component, joint_satisfiable
from fsmc.compiler.schema.string_doubts import readings, without_doubt
from fsmc.compiler.schema.string_machines import (
    atom_dfa,
    atom_texts,
    pattern_expr,
    string_sorters,
    strings_that,
)
from fsmc.compiler.schema.word_machine import word_machine
from fsmc.compiler.syntax.expr import surely_matches

MAX_EXCLUDED = 200
"""Excluded strings that a search for another one is tried with."""


def string_satisfiable(formula: int, table: Formulas) -> bool:
    """Whether some string is known to satisfy the formula; the usual cases are answered without building anything.

    >>> table = Formulas()
    >>> digits, short = table.atom(Pattern("^[0-9]{4,}$")), table.atom(Length(0, 3))
    >>> string_satisfiable(digits, table), string_satisfiable(table.conj([digits, short]), table)
    (True, False)
    """
    if formula in (TRUE, FALSE):
        return formula == TRUE
    if table.kind(formula) == ATOM:
        return _holds_of_some(table.payload(formula), table)
    return _satisfiable(without_doubt(formula, (), table), table)


def string_conceivable(formula: int, table: Formulas) -> bool:
    """Whether some string satisfies the formula if texts in doubt may have a format, or not have it, as it suits.

    Where this says no, no string satisfies it; `string_satisfiable` says no also where no string is *known* to.

    >>> from fsmc.compiler.schema.atoms import Format
    >>> table = Formulas()
    >>> both = table.conj([table.atom(StrEnum(frozenset({"xn--9n2bp8q"}))), table.atom(Format("hostname"))])
    >>> string_satisfiable(both, table), string_conceivable(both, table)
    (False, True)
    """
    return any(_satisfiable(reading, table) for reading in readings(formula, table))


def _holds_of_some(payload: object, table: Formulas) -> bool:
    """Whether some string satisfies an atom."""
    if isinstance(payload, Length):
        return payload.maximum is None or payload.minimum <= payload.maximum
    if isinstance(payload, Pattern) and surely_matches(pattern_expr(payload.source)):
        return True
    return isinstance(payload, StrEnum) or not atom_dfa(payload, table.clock).is_empty


def _satisfiable(formula: int, table: Formulas) -> bool:
    return any(_cube_satisfiable(cube, table) for cube in cubes(table, formula))


_Span = tuple[int, int | None]
"""The least and the greatest number of characters, None for no bound."""


def _cube_satisfiable(cube: Cube, table: Formulas) -> bool:
    """Whether one string makes all these literals true."""
    included: frozenset[str] | None = None
    excluded: set[str] = set()
    machines: dict[int, bool] = {}
    spans: list[_Span] = [(0, None)]
    for atom, sign in cube.items():
        payload = table.payload(atom)
        texts = atom_texts(payload)
        if sign and texts is not None:
            included = texts if included is None else included & texts
        elif isinstance(payload, StrEnum):
            excluded |= payload.values
        elif isinstance(payload, Length):
            spans = [part for span in spans for part in _cut(span, payload, sign)]
        else:
            machines[atom] = sign
    if included is not None:
        formula = table.conj([atom if sign else table.negate(atom) for atom, sign in cube.items()])
        return strings_that([formula], sorted(included - excluded), table) != [0]
    if not machines:  # of one character there are more strings than any enumeration excludes
        return any(high is None or high >= 1 or "" not in excluded for _, high in spans)
    return any(_holds_of_one(machines, excluded, *span, table) for span in spans)


def _cut(span: _Span, length: Length, inside: bool) -> list[_Span]:
    """What a bound on the length leaves of a span: what is in it, or the parts below it and above it.

    >>> _cut((2, None), Length(4, 6), True), _cut((2, None), Length(4, 6), False)
    ([(4, 6)], [(2, 3), (7, None)])
    """
    low, high = span
    top = math.inf if high is None else high
    most = math.inf if length.maximum is None else length.maximum
    ranges = [(length.minimum, most)] if inside else [(0, length.minimum - 1), (most + 1, math.inf)]
    cut = [(max(low, start), min(top, end)) for start, end in ranges]
    return [
        (int(start), None if end == math.inf else int(end)) for start, end in cut if start <= end and start < math.inf
    ]


def _holds_of_one(machines: dict[int, bool], excluded: set[str], low: int, high: int | None, table: Formulas) -> bool:
    """Whether atoms hold, or do not hold, of a string of so many characters that is not ``excluded``."""
    found = _search(machines, excluded, low, high, table)
    if found is not None:
        return found
    literals = [atom if sign else table.negate(atom) for atom, sign in machines.items()]
    formula = table.conj([*literals, table.negate(one_of_names(table, excluded))])

    def sorters(atoms: Iterable[int]) -> list[Sorter]:
        return string_sorters(atoms, table)

    if (low, high) == (0, None):
        return joint_satisfiable(all_text(), sorters, formula, table)
    return CountedString(joint_component(all_text(), sorters, formula, (), table), low, high).satisfiable


def _search(machines: dict[int, bool], excluded: set[str], low: int, high: int | None, table: Formulas) -> bool | None:
    """`_holds_of_one` if that turns out soon, else None."""
    if len(excluded) > MAX_EXCLUDED:
        return None
    known = [(all_text(), True)]
    for atom, sign in machines.items():
        table.clock.check()
        known.append((atom_dfa(table.payload(atom), table.clock), sign))
    if excluded:
        words = word_machine({text.encode(): 0 for text in excluded}, ((),))
        known.append((words.only(), False))
    return have_common_text(known, low, high)
