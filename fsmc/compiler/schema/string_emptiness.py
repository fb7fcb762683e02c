"""Whether some string satisfies a formula, mostly without building a product of machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.schema.atoms import Format, Length, Pattern, StrEnum
from fsmc.compiler.schema.counted import CountedString
from fsmc.compiler.schema.cubes import Cube, cubes
from fsmc.compiler.schema.formula import AND, ATOM, FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.joint import Sorter, joint_component, joint_satisfiable
from fsmc.compiler.schema.string_doubts import readings, without_doubt
from fsmc.compiler.schema.string_machines import (
    atom_dfa,
    atom_texts,
    pattern_expr,
    string_holds,
    string_sorters,
    strings_that,
)
from fsmc.compiler.schema.strings import split_length
from fsmc.compiler.syntax.expr import surely_matches


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
    alternatives = cubes(table, _without_negated_lengths(formula, table))
    return any(_cube_satisfiable(cube, table) for cube in alternatives)


def _without_negated_lengths(formula: int, table: Formulas) -> int:
    """The formula with "not minimum to maximum characters" written as "fewer, or more"."""
    kind = table.kind(formula)
    if kind in (AND, OR):
        parts = [_without_negated_lengths(part, table) for part in table.arguments(formula)]
        return table.conj(parts) if kind == AND else table.disj(parts)
    literal = table.literal(formula)
    payload = table.payload(literal[0]) if literal else None
    if not isinstance(payload, Length) or (literal and literal[1]):
        return formula
    fewer = table.atom(Length(0, payload.minimum - 1)) if payload.minimum > 0 else FALSE
    more = table.atom(Length(payload.maximum + 1, None)) if payload.maximum is not None else FALSE
    return table.disj([fewer, more])


def _cube_satisfiable(cube: Cube, table: Formulas) -> bool:
    """Whether one string makes all these literals true."""
    included: frozenset[str] | None = None
    excluded: set[str] = set()
    machines: list[Pattern | Format] = []
    low, high = 0, None
    negative = False
    for atom, sign in cube.items():
        payload = table.payload(atom)
        texts = atom_texts(payload)
        if sign and texts is not None:
            included = texts if included is None else included & texts
        elif isinstance(payload, StrEnum):
            excluded |= payload.values
        elif isinstance(payload, Length) and sign:
            low = max(low, payload.minimum)
            if payload.maximum is not None:
                high = payload.maximum if high is None else min(high, payload.maximum)
        elif sign:
            machines.append(payload)
        else:
            negative = True
    formula = table.conj(atom if sign else table.negate(atom) for atom, sign in cube.items())
    if included is not None:
        return strings_that([formula], sorted(included - excluded), table) != [0]
    if high is not None and high < low:
        return False
    if not machines and not negative:
        if high is None or high >= 1:
            return True  # more strings of one character than any enumeration excludes
        return "" not in excluded
    for payload in machines:
        atom_dfa(payload, table.clock)  # made under the clock, and kept
    if any(string_holds(formula, text, table) for text in _candidates(machines)):
        return True
    rest, low, high = split_length(formula, table)

    def sorters(atoms: Iterable[int]) -> list[Sorter]:
        return string_sorters(atoms, table)

    if (low, high) == (0, None):
        return joint_satisfiable(all_text(), sorters, formula, table)
    return CountedString(joint_component(all_text(), sorters, rest, (), table), low, high).satisfiable


def _candidates(machines: Sequence[Pattern | Format]) -> Iterator[str]:
    """Strings to try first: most formulas hold of one of them, and no product need be built."""
    yield from ("", "a", "0", "Ab-1 z", "\u00e9")
    for payload in machines:
        yield from _some_strings(payload)


@lru_cache(maxsize=4096)
def _some_strings(payload: Pattern | Format) -> tuple[str, ...]:
    """A few accepted strings of different kinds: from the start, or some steps away from it, the shortest way to the end."""
    dfa = atom_dfa(payload)
    source, column = np.nonzero(dfa.delta)
    target = dfa.delta[source, column]
    away = np.where(dfa.accepting, 0, dfa.n_states)
    while True:
        closer = away.copy()
        np.minimum.at(closer, source, away[target] + 1)
        if (closer == away).all():
            break
        away = closer
    byte_of = np.zeros(dfa.n_classes, np.int64)
    byte_of[dfa.byte_class[::-1]] = np.arange(255, -1, -1)
    rng = np.random.default_rng(0)
    found = []
    for detour in (0, 3, 9):
        state, text = dfa.start, bytearray()
        while len(text) < 200 and (detour > len(text) or not dfa.accepting[state]):
            columns = np.flatnonzero(dfa.delta[state])
            if not len(columns):
                break
            nearest = columns[np.argmin(away[dfa.delta[state, columns]])]
            chosen = rng.choice(columns) if len(text) < detour else nearest
            text.append(int(byte_of[chosen]))
            state = int(dfa.delta[state, chosen])
        if dfa.accepting[state]:
            found.append(text.decode())
    return tuple(found)
