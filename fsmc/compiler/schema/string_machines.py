"""Machines of strings: each condition as a DFA over a string's content (UTF-8), before any escaping."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.determinize import determinize_ranges
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize_ranges
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.kept import Kept, kept
from fsmc.compiler.schema.atoms import Doubtful, Format, Length, Pattern, StrEnum
from fsmc.compiler.schema.bits import as_mask
from fsmc.compiler.schema.clock import Clock
from fsmc.compiler.schema.formats import doubtful_dfa, format_dfa
from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.joint import Sorter, values_by_atoms
from fsmc.compiler.schema.word_machine import word_machine
from fsmc.compiler.syntax.expr import Expr, listed_texts
from fsmc.compiler.syntax.regex import parse_regex

MAX_STRING_STATES = 400_000


@kept(1 << 26, lambda _, source: 200 * len(source))
def pattern_expr(source: str) -> Expr:
    """The syntax tree of "contains a match of this ECMA-262 regex". Raises PatternSyntaxError, UnsupportedPatternError."""
    return parse_regex(source, "ecma")


def atom_texts(payload: object) -> frozenset[str] | None:
    """The strings that satisfy a string atom, where it is an enumeration or a regex that only lists a few; else None.

    >>> sorted(atom_texts(Pattern("^(yes|no)$"))), atom_texts(Pattern("yes|no"))
    (['no', 'yes'], None)
    """
    if isinstance(payload, StrEnum):
        return payload.values
    return _pattern_texts(payload.source) if isinstance(payload, Pattern) else None


def _pattern_texts(source: str) -> frozenset[str] | None:
    """The texts that a regex lists, if it does; kept."""
    known = _TEXTS.get(source)
    if known is None:
        known = (listed_texts(pattern_expr(source)),)
        _TEXTS.put(source, known, 2 * len(source) + sum(80 + 4 * len(text) for text in known[0] or ()))
    return known[0]


_TEXTS = Kept[tuple[frozenset[str] | None]](1 << 24)
_DFAS = Kept[DFA](1 << 27)


def pattern_dfa(source: str, clock: Clock | None = None) -> DFA:
    """The strings that contain a match of an ECMA-262 regex; kept. ``clock`` says how large its machines may become, and for
    how long they are built: LimitExceeded.

    >>> pattern_dfa("^a|b$").matches("a…".encode()), pattern_dfa("^a|b$").matches(b"ba")
    (True, False)
    """
    known = _DFAS.get(source)
    if known is None:
        limits = (clock or Clock()).limits()
        nfa = thompson(pattern_expr(source), max_states=limits.max_states)
        known = minimize_ranges(determinize_ranges(nfa, limits)).to_dfa()
        _DFAS.put(source, known, known.nbytes + 4 * len(source))
    return known


@kept(1 << 26, lambda dfa, *_: int(dfa.nbytes))
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


def string_sorters(atoms: Iterable[int], table: Formulas) -> list[Sorter]:
    """The machines of string atoms, all enumerations in one: see `joint_component`."""
    sorters, listed = [], []
    for atom in atoms:
        table.clock.check()
        payload = table.payload(atom)
        texts = atom_texts(payload)
        if texts is not None:
            listed.append((atom, texts))
        else:
            sorters.append(Sorter.of(atom, atom_dfa(payload, table.clock)))
    if listed:
        by_atoms = values_by_atoms(listed)
        kinds = {kind: i for i, kind in enumerate(dict.fromkeys(by_atoms.values()))}
        words = {text.encode(): kinds[kind] for text, kind in by_atoms.items()}
        sorters.append(Sorter.of_outcomes(word_machine(words, ((),) * len(kinds)), tuple(kinds)))
    return sorters


def atom_dfa(payload: object, clock: Clock | None = None) -> DFA:
    """The machine of a string atom (see atoms.py) that is no enumeration. clock: see `pattern_dfa`."""
    if isinstance(payload, Pattern):
        return pattern_dfa(payload.source, clock)
    if isinstance(payload, Length):
        return length_dfa(payload.minimum, payload.maximum)
    if isinstance(payload, Doubtful):
        doubtful = doubtful_dfa(payload.name)
        assert doubtful is not None
        return doubtful
    assert isinstance(payload, Format)
    return format_dfa(payload.name)


def strings_that(formulas: Sequence[int], texts: Sequence[str], table: Formulas) -> list[int]:
    """For each string formula the texts of which it holds, as cases (`Formulas.cases`).

    >>> table = Formulas()
    >>> strings_that([table.negate(table.atom(Pattern("b")))], ["abc", "ac"], table)
    [2]
    """
    index = {text: i for i, text in enumerate(texts)}
    n = len(texts)

    def of_atom(atom: int) -> int:
        table.clock.check()
        payload = table.payload(atom)
        listed = atom_texts(payload)
        if listed is not None:
            return as_mask((index[text] for text in listed if text in index), n)
        if isinstance(payload, Length):
            high = math.inf if payload.maximum is None else payload.maximum
            return as_mask((i for i, text in enumerate(texts) if payload.minimum <= len(text) <= high), n)
        dfa = atom_dfa(payload, table.clock)
        return as_mask((i for i, text in enumerate(texts) if dfa.matches(text.encode("utf-8", "surrogatepass"))), n)

    memo: dict[int, int] = {}
    return [table.cases(formula, of_atom, (1 << n) - 1, memo) for formula in formulas]


def string_holds(formula: int, text: str, table: Formulas) -> bool:
    """Whether a string formula holds of one string.

    >>> table = Formulas()
    >>> string_holds(table.negate(table.atom(Pattern("b"))), "abc", table)
    False
    """
    return strings_that([formula], [text], table) == [1]
