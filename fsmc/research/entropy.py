"""How much is left to say: completions of a state, counted; what choosing among them takes in bits; the growth of a language."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.errors import LimitExceeded
from fsmc.research.matrices import MAX_DENSE_BYTES, check_dfa, transition_matrix

MAX_DENSE_STATES = 1500


def count_completions(dfa: DFA, max_length: int, *, max_bytes: int = MAX_DENSE_BYTES) -> npt.NDArray[Any]:
    """object[max_length + 1, n_states] of exact integers: how many texts of n bytes lead from a state to an accepting one.

    For characters instead of bytes and from the start only, see `fsmc.compiler.automata.counting`. Raises ValueError for a negative
    length, LimitExceeded where the integers, at 64 bytes each, would take more than ``max_bytes``.

    >>> dfa = DFA.from_arrays(np.arange(256) < 128, [[-1, 1], [1, -1]], [False, True], start=0)
    >>> count_completions(dfa, 2).tolist()
    [[0, 0, 1], [0, 128, 128], [0, 16384, 16384]]
    """
    check_dfa(dfa)
    if max_length < 0:
        raise ValueError(f"max_length={max_length} must not be negative")
    needed = (max_length + 1) * dfa.n_states * 64
    if needed > max_bytes:
        raise LimitExceeded("max_bytes", max_bytes, needed, "count shorter texts")
    widths = np.bincount(dfa.byte_class, minlength=dfa.n_classes)
    source, column = np.nonzero(dfa.delta)
    pairs, places = np.unique(np.stack((source, dfa.delta[source, column]), axis=1), axis=0, return_inverse=True)
    ways = np.bincount(places.reshape(-1), widths[column], minlength=len(pairs)).astype(np.int64).astype(object)
    counts = np.zeros((max_length + 1, dfa.n_states), object)
    counts[0] = dfa.accepting.astype(np.int64)
    filled, first = np.unique(pairs[:, 0], return_index=True)
    for n in range(max_length if len(pairs) else 0):
        counts[n + 1, filled] = np.add.reduceat(ways * counts[n, pairs[:, 1]], first)
    return counts


def remaining_bits(dfa: DFA, max_length: int, *, max_bytes: int = MAX_DENSE_BYTES) -> npt.NDArray[np.float64]:
    """float64[n_states]: entropy, in bits, of a fair choice among all completions of at most ``max_length`` bytes; -inf for none.

    A state of 0 bits has one way to go on. The difference along a path is what its text has told, so it says where a constraint leaves freedom.
    Raises as `count_completions`.

    >>> dfa = DFA.from_arrays(np.arange(256) < 128, [[-1, 1], [-1, -1]], [False, True], start=0)
    >>> remaining_bits(dfa, 1)
    array([-inf,   7.,   0.])
    """
    totals = count_completions(dfa, max_length, max_bytes=max_bytes).sum(0)
    return np.array([math.log2(total) if total else -np.inf for total in totals])  # of integers of any size


def growth_rate(dfa: DFA, *, max_states: int = MAX_DENSE_STATES) -> float:
    """The entropy of the language in bits a byte (Shannon 1948): the limit superior of log2(texts of n bytes) / n.

    0 for languages that grow slower than exponentially, -inf for finite ones. It is the logarithm of the largest eigenvalue of `transition_matrix`,
    computed for each strongly connected part by itself, where that eigenvalue is simple and hence well determined. Raises
    LimitExceeded beyond ``max_states`` states: the matrices are dense.

    >>> from fsmc.compiler.automata.determinize import determinize
    >>> from fsmc.compiler.automata.nfa import thompson
    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> machine = determinize(thompson(parse_regex("(a|bb)*")))
    >>> round(growth_rate(machine), 6)  # texts of n bytes: the Fibonacci numbers
    0.694242
    """
    check_dfa(dfa)
    if dfa.n_states > max_states:
        raise LimitExceeded("max_states", max_states, dfa.n_states, "take a smaller machine or raise the limit")
    matrix = transition_matrix(dfa).astype(np.float64)
    reach = ((matrix > 0) | np.eye(len(matrix), dtype=np.bool_)).astype(np.float32)
    for _ in range(len(matrix).bit_length()):  # paths of up to 2, 4, 8 … edges
        reach = (reach @ reach > 0).astype(np.float32)
    together = (reach > 0) & (reach.T > 0)
    largest, seen = 0.0, np.zeros(len(matrix), np.bool_)
    for state in range(1, len(matrix)):
        if not seen[state]:
            part = np.flatnonzero(together[state])
            seen[part] = True
            largest = max(largest, float(np.abs(np.linalg.eigvals(matrix[np.ix_(part, part)])).max()))
    # A cycle has an eigenvalue of at least 1, so what lies below is no cycle at all.
    return math.log2(max(largest, 1.0)) if largest > 0.5 else -math.inf
