"""From a nondeterministic to a deterministic automaton.

The construction itself is in `subsets`; conditions on the text around a place are compiled away before it, in `look`.
"""

from __future__ import annotations

import numpy as np

from fsmc.compiler.automata.dfa import DFA, trim
from fsmc.compiler.automata.look import determinize_guarded
from fsmc.compiler.automata.nfa import NFA
from fsmc.compiler.automata.range_table import RangeTable
from fsmc.compiler.automata.subsets import FINAL, READS, Limits, PlainNFA, construct_subsets, offsets_by_source

MAX_STATES = 1_000_000
MAX_BYTES = 1 << 30
MAX_SECONDS = 60.0


def determinize(
    nfa: NFA,
    *,
    max_states: int = MAX_STATES,
    max_bytes: int = MAX_BYTES,
    max_seconds: float = MAX_SECONDS,
) -> DFA:
    """The trimmed DFA of an NFA; look-around is compiled away exactly (see `look`).

    Nobody knows the size of the result beforehand, so it is watched while it grows: LimitExceeded is raised beyond
    ``max_states`` states (DEAD included), ``max_bytes`` bytes for the machine and the sets it is built from, or
    ``max_seconds`` seconds of wall time.

    >>> from fsmc.compiler.automata.nfa import thompson
    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> determinize(thompson(parse_regex("(a|b)*a"))).delta
    array([[0, 0, 0],
           [0, 2, 1],
           [0, 2, 1]], dtype=int32)
    """
    dfa = determinize_ranges(nfa, Limits(max_states, max_bytes, max_seconds)).to_dfa()
    if not nfa.guards:
        return dfa  # every state of the NFA reaches the final one, so every set does
    return trim(dfa.byte_class, dfa.delta, dfa.accepting, dfa.start)


def determinize_ranges(nfa: NFA, limits: Limits) -> RangeTable:
    """The same as ranges, not trimmed where there are looks: for `minimize_ranges`, which has no use for a dense table."""
    if nfa.guards:
        return determinize_guarded(nfa, limits)
    offsets = offsets_by_source(nfa.edges[:, 0], nfa.n_states)
    marks = (offsets[1:] > offsets[:-1]).astype(np.uint8) * np.uint8(READS)
    marks[nfa.final] = FINAL
    plain = PlainNFA(
        offsets,
        nfa.edges,
        offsets_by_source(nfa.epsilons[:, 0], nfa.n_states),
        nfa.epsilons[:, 1].copy(),
        marks,
        np.array([nfa.start], np.int32),
    )
    return construct_subsets(plain, limits).table
