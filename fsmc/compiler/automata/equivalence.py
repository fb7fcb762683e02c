"""Comparing languages: a shortest string in which two machines differ, equivalence, inclusion, a shortest member."""

from __future__ import annotations

from typing import Any

import numpy as np

from fsmc.compiler.automata.dfa import DFA, Array
from fsmc.compiler.automata.product import joint_classes, product
from fsmc.jit import kernel

NOTHING = DFA(np.zeros(256, np.uint8), np.zeros((1, 1), np.int32), np.zeros(1, np.bool_), 0)


def difference_witness(left: DFA, right: DFA) -> bytes | None:
    """A shortest byte string that exactly one of the two accepts, None if there is none: they are equivalent.

    Hopcroft and Karp (1971): pairs of states that the same text leads to must agree, and so must all states that a chain
    of such pairs links (union-find). A pair that is linked already need not be followed, so there are fewer than
    ``left.n_states + right.n_states`` of them, not the product. The search is breadth first and still finds a shortest
    witness: if a string tells a skipped pair apart, it tells apart one of the pairs, met earlier, of the chain.

    >>> from fsmc.compiler.automata.dfa import DFA
    >>> letter_a = np.arange(256) == ord("a")
    >>> even = DFA.from_arrays(letter_a, [[-1, 1], [-1, 0]], [True, False], start=0)
    >>> all_but_2 = DFA.from_arrays(letter_a, [[-1, 1], [-1, 2], [-1, 1]], [True, False, False], start=0)
    >>> difference_witness(even, all_but_2), difference_witness(even, even)
    (b'aa', None)
    """
    if left.accepting[left.start] != right.accepting[right.start]:
        return b""
    byte_class, columns = joint_classes(left, right)
    n_states = left.n_states + right.n_states
    group = np.arange(n_states, dtype=np.int32)
    found = np.zeros((n_states, 4), np.int32)
    found[0, :2] = left.start, right.start
    row = _find_difference(left.delta, right.delta, left.accepting, right.accepting, columns, group, found)
    if row == 0:
        return None
    first_byte = np.unique(byte_class, return_index=True)[1]
    path = []
    while row:
        _, _, row, column = found[row].tolist()
        path.append(int(first_byte[column]))
    return bytes(reversed(path))


def equivalent(left: DFA, right: DFA) -> bool:
    """Whether both accept the same byte strings; near-linear in the sum of their sizes."""
    return difference_witness(left, right) is None


def is_subset(left: DFA, right: DFA, **limits: Any) -> bool:
    """Whether ``right`` accepts all that ``left`` accepts. ``limits`` are those of `product`."""
    return product(left, right, lambda a, b: a & ~b, needs_left=True, **limits).is_empty


def shortest_string(dfa: DFA) -> bytes | None:
    """The shortest accepted byte string, the first in byte order among several; None if nothing is accepted."""
    return difference_witness(dfa, NOTHING)


@kernel
def _find_difference(
    left: Array,
    right: Array,
    left_accepting: Array,
    right_accepting: Array,
    columns: Array,
    group: Array,
    found: Array,
) -> int:
    """Number of the first pair that disagrees, 0 if none does.

    group: int32, union-find over the states of both machines, those of the right one after the left's; each its own.
    found: int32[n_states of both, 4], rows (left state, right state, row it was reached from, column); row 0 is the start.
    """
    n_left = left.shape[0]
    group[n_left + found[0, 1]] = found[0, 0]
    n_found = 1
    q = 0
    while q < n_found:
        for c in range(len(columns)):
            p, r = left[found[q, 0], columns[c, 0]], right[found[q, 1], columns[c, 1]]
            a, b = p, n_left + r
            while group[a] != a:
                group[a] = group[group[a]]
                a = group[a]
            while group[b] != b:
                group[b] = group[group[b]]
                b = group[b]
            if a == b:
                continue
            group[b] = a
            found[n_found, 0], found[n_found, 1] = p, r
            found[n_found, 2], found[n_found, 3] = q, c
            if left_accepting[p] != right_accepting[r]:
                return n_found
            n_found += 1
        q += 1
    return 0
