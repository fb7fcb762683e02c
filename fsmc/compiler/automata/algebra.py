"""The algebra of regular languages: boolean and regular operations on DFAs, whose results are minimal DFAs.

Every function takes limits as keyword arguments, ``max_states``, ``max_bytes`` and ``max_seconds`` with the defaults of
`determinize`, and raises LimitExceeded when one is reached.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA, find_live, trim
from fsmc.compiler.automata.edges import byte_edges, character_edges, nfa_from_edges, text_nfa
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.product import explore, joint_classes, product
from fsmc.compiler.syntax.charclass import ANY, CharClass


def union(left: DFA, right: DFA, **limits: Any) -> DFA:
    """What at least one of the two accepts. Also ``left | right``."""
    return product(left, right, np.logical_or, **limits)


def intersection(left: DFA, right: DFA, **limits: Any) -> DFA:
    """What both accept. Also ``left & right``.

    >>> from fsmc.compiler.automata.nfa import thompson
    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> two_digits, even = (determinize(thompson(parse_regex(p))) for p in ("[0-9]{2}", "[0-9]*[02468]"))
    >>> both = intersection(two_digits, even)
    >>> both.matches(b"38"), both.matches(b"37"), both.n_states
    (True, False, 4)
    """
    return product(left, right, np.logical_and, needs_left=True, needs_right=True, **limits)


def difference(left: DFA, right: DFA, **limits: Any) -> DFA:
    """What ``left`` accepts and ``right`` does not. Also ``left - right``."""
    return product(left, right, lambda a, b: a & ~b, needs_left=True, **limits)


def symmetric_difference(left: DFA, right: DFA, **limits: Any) -> DFA:
    """What exactly one of the two accepts."""
    return product(left, right, np.logical_xor, **limits)


@lru_cache(maxsize=1)
def all_text() -> DFA:
    """All well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates), the empty string included."""
    loop = text_nfa([(0, ANY, 0)], n_states=1, start=0, accepting=[0])
    return minimize(determinize(loop))


def all_bytes() -> DFA:
    """All byte strings: what runs beside another machine without asking anything.

    >>> all_bytes().matches(b"\\xff")
    True
    """
    return DFA(np.zeros(256, np.uint8), np.array([[0], [1]], np.int32), np.array([False, True]), 1)


def complement(dfa: DFA, universe: DFA | None = None, **limits: Any) -> DFA:
    """What ``universe`` accepts and ``dfa`` does not. Also ``~dfa``.

    The default universe is `all_text`: the complement of a set of texts is again a set of texts, never broken UTF-8.

    >>> nothing = DFA.from_arrays(np.zeros(256, int), [[0]], [False], start=0)
    >>> [complement(nothing).matches(data) for data in (b"", "é".encode(), b"\\xff")]
    [True, True, False]
    """
    return difference(all_text() if universe is None else universe, dfa, **limits)


def concatenate(left: DFA, right: DFA, **limits: Any) -> DFA:
    """A string of ``left`` followed by one of ``right``. Also ``left + right``."""
    n_left = left.n_states
    right_edges = byte_edges(right) + np.array([n_left, 0, 0, n_left], np.int32)
    epsilons = [(int(q), n_left + right.start) for q in np.flatnonzero(left.accepting)]
    nfa = nfa_from_edges(
        np.concatenate([byte_edges(left), right_edges]),
        epsilons,
        n_left + right.n_states,
        [left.start],
        n_left + np.flatnonzero(right.accepting),
    )
    return minimize(determinize(nfa, **limits))


def star(dfa: DFA, **limits: Any) -> DFA:
    """Any number of strings of ``dfa`` one after the other, also none (Kleene star)."""
    hub = dfa.n_states
    epsilons = [(int(q), hub) for q in np.flatnonzero(dfa.accepting)] + [(hub, dfa.start)]
    return minimize(determinize(nfa_from_edges(byte_edges(dfa), epsilons, hub + 1, [hub], [hub]), **limits))


def reverse(dfa: DFA, unit: Literal["characters", "bytes"] = "characters", **limits: Any) -> DFA:
    """Every accepted string backwards: its characters, so that the result is text again, or its bytes.

    With characters, raises MachineError if the machine accepts anything that is not well-formed UTF-8.

    >>> word = text_nfa([(0, CharClass.of("é"), 1), (1, CharClass.of("a"), 2)], n_states=3, start=0, accepting=[2])
    >>> reverse(determinize(word)).matches("aé".encode())
    True
    """
    accepting = np.flatnonzero(dfa.accepting)
    if unit == "characters":
        classes: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for source, low, high, target in character_edges(dfa).tolist():
            classes.setdefault((target, source), []).append((low, high))
        steps = [(p, CharClass.from_ranges(ranges), q) for (p, q), ranges in classes.items()]
        hub = dfa.n_states
        nfa = text_nfa(steps, hub + 1, start=hub, accepting=[dfa.start], epsilons=[(hub, int(q)) for q in accepting])
        return minimize(determinize(nfa, **limits))
    if unit != "bytes":
        raise ValueError(f"unit is {unit!r}; it must be 'characters' or 'bytes'")
    # Several states may lead to one on the same byte, so that its reversed edges overlap: each pair (target, source)
    # gets a state of its own, in which they do not.
    edges = byte_edges(dfa)
    pairs, pair_of_edge = np.unique(edges[:, [3, 0]], axis=0, return_inverse=True)
    middle = dfa.n_states + np.arange(len(pairs))
    backwards = np.stack([middle[pair_of_edge.reshape(-1)], edges[:, 1], edges[:, 2], edges[:, 0]], axis=1)
    epsilons = list(zip(pairs[:, 0].tolist(), middle.tolist(), strict=True))
    nfa = nfa_from_edges(backwards, epsilons, dfa.n_states + len(pairs), accepting, [dfa.start])
    return minimize(determinize(nfa, **limits))


def left_quotient(dfa: DFA, prefixes: DFA, **limits: Any) -> DFA:
    """What completes a string of ``prefixes`` to a string of ``dfa``: all y for which some accepted x has xy accepted."""
    _, columns = joint_classes(prefixes, dfa)
    pairs, _ = explore(prefixes, dfa, columns, np.array([[prefixes.start, dfa.start]]), True, True, **limits)
    entered = np.unique(pairs[prefixes.accepting[pairs[:, 0]], 1])
    nfa = nfa_from_edges(byte_edges(dfa), [], dfa.n_states, entered, np.flatnonzero(dfa.accepting))
    return minimize(determinize(nfa, **limits))


def right_quotient(dfa: DFA, suffixes: DFA, **limits: Any) -> DFA:
    """What a string of ``suffixes`` completes to a string of ``dfa``: all x for which some accepted y has xy accepted.

    Every state of ``dfa`` is paired with what ``suffixes`` reads from there: ``max_states`` bounds those pairs.
    """
    origins = np.arange(1, dfa.n_states)
    starts = np.stack([origins, np.full_like(origins, suffixes.start)], axis=1)
    _, columns = joint_classes(dfa, suffixes)
    pairs, delta = explore(dfa, suffixes, columns, starts, True, True, **limits)
    both = dfa.accepting[pairs[:, 0]] & suffixes.accepting[pairs[:, 1]]
    accepting = np.zeros(dfa.n_states, np.bool_)
    accepting[1:] = find_live(delta, both, np.arange(len(origins)))[: len(origins)]
    return minimize(trim(dfa.byte_class, dfa.delta, accepting, dfa.start))
