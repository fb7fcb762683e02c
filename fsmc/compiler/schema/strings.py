"""Strings: from a formula over patterns, lengths, formats and enumerations to a machine over JSON text.

Each atom is a DFA over the string's content (UTF-8). Their product, run all at once, knows which atoms hold of a text; what
must hold decides whether the text may end there, what is watched is the outcome. Only then is the machine carried over to
JSON text, in which some characters are written as escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.determinize import MAX_STATES, determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.errors import LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema.atoms import Doubtful, Format, Length, Pattern, StrEnum
from fsmc.compiler.schema.cubes import Cube, cubes
from fsmc.compiler.schema.format_doubts import INEXACT
from fsmc.compiler.schema.formats import doubtful_dfa, format_dfa
from fsmc.compiler.schema.formula import AND, ATOM, FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA, joint_component, joint_satisfiable
from fsmc.compiler.syntax.expr import Expr
from fsmc.compiler.syntax.regex import parse_regex

MAX_STRING_STATES = 400_000

# ── atoms ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def pattern_expr(source: str) -> Expr:
    """The syntax tree of "contains a match of this ECMA-262 regex"."""
    return parse_regex(source, "ecma")


@lru_cache(maxsize=4096)
def pattern_dfa(source: str) -> DFA:
    """The strings that contain a match of an ECMA-262 regex."""
    return minimize(determinize(thompson(pattern_expr(source), max_states=MAX_STATES)))


@lru_cache(maxsize=256)
def length_dfa(minimum: int, maximum: int | None) -> DFA:
    """The strings of ``minimum`` to ``maximum`` (None: any number of) code points.

    The machine of all text once per count: each time it comes back to its start, a character has been read.
    """
    text = all_text()
    n, top = text.n_states - 1, minimum if maximum is None else maximum
    if (top + 1) * n > MAX_STRING_STATES:
        raise LimitExceeded("max_string_states", MAX_STRING_STATES, (top + 1) * n, "the length bound is too large")
    assert text.start == 1
    counts = np.arange(top + 1, dtype=np.int32)[:, None, None] * n
    one = np.where(text.delta[None, 1:] == 0, 0, text.delta[None, 1:] + counts)
    one = np.where(text.delta[None, 1:] == 1, one + n, one)  # the next count
    if maximum is None:
        one[-1] = np.where(one[-1] > top * n + n, one[-1] - n, one[-1])
    else:
        one[-1] = 0
    delta = np.zeros(((top + 1) * n + 1, text.n_classes), np.int32)
    delta[1:] = one.reshape(-1, text.n_classes)
    accepting = np.zeros(len(delta), np.bool_)
    accepting[1 + n * np.arange(minimum, top + 1)] = True
    return DFA.from_arrays(text.byte_class, delta, accepting, 1)


def enum_dfa(values: frozenset[str]) -> DFA:
    """Exactly these strings: their trie, minimized."""
    return minimize(_trie(dict.fromkeys(values, 0), ((),)).only())


def _trie(outcomes: dict[str, int], vectors: tuple[tuple[bool, ...], ...]) -> OutcomeDFA:
    """The trie of these strings, each with its outcome."""
    rows: list[dict[int, int]] = [{}, {}]
    ends = {}
    for text, outcome in outcomes.items():
        state = 1
        for byte in text.encode():
            target = rows[state].get(byte)
            if target is None:
                target = rows[state][byte] = len(rows)
                rows.append({})
            state = target
        ends[state] = outcome
    used = sorted({byte for row in rows for byte in row})
    byte_class = np.zeros(256, np.uint8)
    byte_class[used] = np.arange(1, len(used) + 1)
    delta = np.zeros((len(rows), len(used) + 1), np.int32)
    for state, row in enumerate(rows):
        for byte, target in row.items():
            delta[state, byte_class[byte]] = target
    final = np.full(len(rows), -1, np.int32)
    final[list(ends)] = list(ends.values())
    return OutcomeDFA(byte_class, delta, final, 1, vectors)


def _atom_dfa(payload: object) -> DFA:
    if isinstance(payload, StrEnum):
        return enum_dfa(payload.values)
    if isinstance(payload, Pattern):
        return pattern_dfa(payload.source)
    if isinstance(payload, Length):
        return length_dfa(payload.minimum, payload.maximum)
    if isinstance(payload, Doubtful):
        doubtful = doubtful_dfa(payload.name)
        assert doubtful is not None
        return doubtful
    assert isinstance(payload, Format)
    return format_dfa(payload.name)


def string_holds(formula: int, text: str, table: Formulas) -> bool:
    """Whether a string formula holds of one string."""

    def value_of(atom: int) -> int:
        payload = table.payload(atom)
        if isinstance(payload, StrEnum):
            holds = text in payload.values
        elif isinstance(payload, Length):
            holds = payload.minimum <= len(text) and (payload.maximum is None or len(text) <= payload.maximum)
        else:
            holds = _atom_dfa(payload).matches(text.encode("utf-8", "surrogatepass"))
        return TRUE if holds else FALSE

    return table.substitute(formula, value_of) == TRUE


def without_doubt(must: int, watches: Sequence[int], table: Formulas) -> int:
    """``must``, and that no format is in doubt whose absence something here may rest on.

    A text that a format's machine does not accept may have the format all the same. So where a format must not hold, is one
    of alternatives of which exactly one must, or is watched, the texts it cannot tell are left out.

    >>> table = Formulas()
    >>> name = table.atom(Format("hostname"))
    >>> table.show(without_doubt(table.negate(name), (), table))
    "(not Format(name='hostname') and not Doubtful(name='hostname'))"
    >>> without_doubt(name, (), table) == name
    True
    """
    inexact = _inexact_formats((must, *watches), table)
    if not inexact:
        return must
    at_stake = _negative_atoms(must, table).union(*map(table.atoms, watches))
    names = sorted(name for atom, name in inexact.items() if atom in at_stake)
    return table.conj([must, *(table.negate(table.atom(Doubtful(name))) for name in names)])


def _inexact_formats(formulas: Iterable[int], table: Formulas) -> dict[int, str]:
    """The atoms of formats about some of whose texts there is doubt, and the formats' names."""
    payloads = {atom: table.payload(atom) for formula in formulas for atom in table.atoms(formula)}
    return {atom: p.name for atom, p in payloads.items() if isinstance(p, Format) and p.name in INEXACT}


def _negative_atoms(formula: int, table: Formulas) -> frozenset[int]:
    """The atoms that do not only speak for the formula: all but those under nothing else than "and" and "or"."""
    kind = table.kind(formula)
    if kind in (AND, OR):
        return frozenset().union(*(_negative_atoms(part, table) for part in table.arguments(formula)))
    return frozenset() if kind == ATOM else table.atoms(formula)


# ── emptiness ────────────────────────────────────────────────────────────────────────────────────────────────────────


def string_satisfiable(formula: int, table: Formulas) -> bool:
    """Whether some string satisfies the formula; the usual cases are answered without building anything."""
    if formula in (TRUE, FALSE):
        return formula == TRUE
    return _satisfiable(without_doubt(formula, (), table), table)


def string_conceivable(formula: int, table: Formulas) -> bool:
    """Whether some string satisfies the formula if texts in doubt may have a format, or not have it, as it suits.

    Where this says no, no string satisfies it; `string_satisfiable` says no also where no string is *known* to.

    >>> table = Formulas()
    >>> both = table.conj([table.atom(StrEnum(frozenset({"xn--9n2bp8q"}))), table.atom(Format("hostname"))])
    >>> string_satisfiable(both, table), string_conceivable(both, table)
    (False, True)
    """
    inexact = _inexact_formats((formula,), table)
    wider = [(atom, table.disj([atom, table.atom(Doubtful(name))])) for atom, name in inexact.items()]

    def satisfiable_as(reading: dict[int, int]) -> bool:
        return _satisfiable(table.substitute(formula, lambda atom: reading.get(atom, atom)), table)

    return any(map(satisfiable_as, map(dict, product(*([(atom, atom), (atom, wide)] for atom, wide in wider)))))


def _satisfiable(formula: int, table: Formulas) -> bool:
    alternatives = cubes(table, _without_negated_lengths(formula, table), _undecided)
    return any(_cube_satisfiable(cube, table) for cube in alternatives)


def _undecided(_: Cube) -> Callable[[int], int]:
    return lambda atom: atom


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
        if isinstance(payload, StrEnum):
            if sign:
                included = payload.values if included is None else included & payload.values
            else:
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
        return any(string_holds(formula, text, table) for text in included - excluded)
    if high is not None and high < low:
        return False
    if not machines and not negative:
        if high is None or high >= 1:
            return True  # more strings of one character than any enumeration excludes
        return "" not in excluded
    if any(string_holds(formula, text, table) for text in _candidates(machines)):
        return True
    rest, low, high = split_length(formula, table)

    def machine_of(atom: int) -> DFA:
        return _atom_dfa(table.payload(atom))

    if (low, high) == (0, None):
        return joint_satisfiable(all_text(), machine_of, formula, table)
    from fsmc.compiler.schema.counted import CountedString

    return CountedString(joint_component(all_text(), machine_of, rest, (), table), low, high).satisfiable


def _candidates(machines: Sequence[Pattern | Format]) -> Iterator[str]:
    """Strings to try first: most formulas hold of one of them, and no product need be built."""
    yield from ("", "a", "0", "Ab-1 z", "\u00e9")
    for payload in machines:
        yield from _some_strings(payload)


@lru_cache(maxsize=4096)
def _some_strings(payload: Pattern | Format) -> tuple[str, ...]:
    """A few accepted strings of different kinds: from the start, or some steps away from it, the shortest way to the end."""
    dfa = _atom_dfa(payload)
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


# ── components ───────────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=1)
def any_string() -> OutcomeDFA:
    """All strings, by content, with one outcome."""
    return _one_outcome(all_text())


def _one_outcome(dfa: DFA) -> OutcomeDFA:
    """The texts of a plain DFA."""
    return OutcomeDFA(dfa.byte_class, dfa.delta, np.where(dfa.accepting, 0, -1).astype(np.int32), dfa.start, ((),))


def split_length(formula: int, table: Formulas) -> tuple[int, int, int | None]:
    """A string formula as (what it asks apart from its length, minimum, maximum length); a length inside it stays there.

    >>> table = Formulas()
    >>> digits = table.atom(Pattern("^[0-9]*$"))
    >>> rest, low, high = split_length(table.conj([digits, table.atom(Length(2, 5)), table.atom(Length(0, 3))]), table)
    >>> rest == digits, low, high
    (True, 2, 3)
    """
    low, high, rest = 0, None, []
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if isinstance(payload, Length) and literal and literal[1]:
            low = max(low, payload.minimum)
            if payload.maximum is not None:
                high = payload.maximum if high is None else min(high, payload.maximum)
        else:
            rest.append(part)
    return table.conj(rest), low, high


def string_component(must: int, watches: Sequence[int], table: Formulas) -> OutcomeDFA:
    """The machine over string content that accepts where ``must`` holds, its outcomes telling which of ``watches`` hold.

    Texts of which a format's machine cannot tell what ``must`` or ``watches`` have to know are left out (`without_doubt`).
    Raises LimitExceeded if the atoms' product grows too large, UnsupportedSchemaError if no other text is left to watch.
    """
    if must == TRUE and not watches:
        return any_string()
    if not watches and table.kind(must) == ATOM and isinstance(payload := table.payload(must), Format):
        return _one_outcome(format_dfa(payload.name))  # text already: nothing to multiply it with
    certain = without_doubt(must, watches, table)
    included, certain = _merge_enumerations(certain, table)
    if included is not None:
        return _listed_component(included, certain, watches, table)
    component = joint_component(all_text(), lambda atom: _atom_dfa(table.payload(atom)), certain, watches, table)
    if watches and certain != must and not component.vectors:
        raise UnsupportedSchemaError(
            f"cannot tell which alternative holds of any text that satisfies {table.show(must)}", "", "format"
        )
    return component


def _merge_enumerations(formula: int, table: Formulas) -> tuple[frozenset[str] | None, int]:
    """(the strings of which the formula asks that it be one, or None; the formula with all excluded strings in one atom)."""
    included: frozenset[str] | None = None
    excluded: set[str] = set()
    rest = []
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if isinstance(payload, StrEnum) and literal and literal[1]:
            included = payload.values if included is None else included & payload.values
        elif isinstance(payload, StrEnum):
            excluded |= payload.values
        else:
            rest.append(part)
    if excluded:
        rest.append(table.negate(table.atom(StrEnum(frozenset(excluded)))))
    return included, table.conj(rest)


def _listed_component(texts: frozenset[str], must: int, watches: Sequence[int], table: Formulas) -> OutcomeDFA:
    """As `string_component`, of finitely many strings: each is judged by itself, whatever the other atoms' machines are."""
    vectors: dict[tuple[bool, ...], int] = {}
    outcomes = {}
    for text in sorted(texts):
        if string_holds(must, text, table):
            vector = tuple(string_holds(watch, text, table) for watch in watches)
            outcomes[text] = vectors.setdefault(vector, len(vectors))
    if not watches:
        return _one_outcome(enum_dfa(frozenset(outcomes)))
    return _trie(outcomes, tuple(vectors))
