"""Machines of strings: each condition as a DFA over a string's content (UTF-8), before any escaping."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.determinize import MAX_STATES, determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.atoms import Doubtful, Format, Length, Pattern, StrEnum
from fsmc.compiler.schema.formats import doubtful_dfa, format_dfa
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.syntax.expr import Expr
from fsmc.compiler.syntax.regex import parse_regex

MAX_STRING_STATES = 400_000


@lru_cache(maxsize=4096)
def pattern_expr(source: str) -> Expr:
    """The syntax tree of "contains a match of this ECMA-262 regex". Raises PatternSyntaxError, UnsupportedPatternError."""
    return parse_regex(source, "ecma")


@lru_cache(maxsize=4096)
def pattern_dfa(source: str) -> DFA:
    """The strings that contain a match of an ECMA-262 regex.

    >>> pattern_dfa("^a|b$").matches("a…".encode()), pattern_dfa("^a|b$").matches(b"ba")
    (True, False)
    """
    return minimize(determinize(thompson(pattern_expr(source), max_states=MAX_STATES)))


@lru_cache(maxsize=256)
def length_dfa(minimum: int, maximum: int | None) -> DFA:
    """The strings of ``minimum`` to ``maximum`` (None: any number of) code points.

    The machine of all text once per count: each time it comes back to its start, a character has been read. Raises
    LimitExceeded for more than ``MAX_STRING_STATES`` states.

    >>> length_dfa(1, 2).matches("é€".encode()), length_dfa(1, 2).matches(b"abc")
    (True, False)
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
    return minimize(trie(dict.fromkeys(values, 0), ((),)).only())


def trie(outcomes: dict[str, int], vectors: tuple[tuple[bool, ...], ...]) -> OutcomeDFA:
    """The trie of these strings, each with its outcome: an index into ``vectors``.

    >>> trie({"a": 0, "ab": 1}, ((True,), (False,))).run(b"ab")
    (False,)
    """
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


def atom_dfa(payload: object) -> DFA:
    """The machine of a string atom (see atoms.py)."""
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
    """Whether a string formula holds of one string.

    >>> table = Formulas()
    >>> string_holds(table.negate(table.atom(Pattern("b"))), "abc", table)
    False
    """

    def value_of(atom: int) -> int:
        payload = table.payload(atom)
        if isinstance(payload, StrEnum):
            holds = text in payload.values
        elif isinstance(payload, Length):
            holds = payload.minimum <= len(text) and (payload.maximum is None or len(text) <= payload.maximum)
        else:
            holds = atom_dfa(payload).matches(text.encode("utf-8", "surrogatepass"))
        return TRUE if holds else FALSE

    return table.substitute(formula, value_of) == TRUE
