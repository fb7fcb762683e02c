"""Shortest witnesses of difference, inclusion, shortest members: against brute force over short words."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from random_machines import PlainMachine, all_words, plain_machines

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.equivalence import difference_witness, equivalent, is_subset, shortest_string

N = 5
SYMBOLS = b"a\x80\xff"  # of PlainMachine.to_byte_dfa
WORDS = [bytes(SYMBOLS[symbol] for symbol in word) for word in all_words(N)]
machines = plain_machines(max_states=3)
bounded = settings(max_examples=150, deadline=None)


@given(machines, machines)
@bounded
def test_witness_is_a_shortest_difference(left: PlainMachine, right: PlainMachine) -> None:
    """Two machines of at most 4 states (the missing one included) differ on a word shorter than 8, if at all."""
    a, b = left.to_byte_dfa(), right.to_byte_dfa()
    witness = difference_witness(a, b)
    differences = [word for word in WORDS if a.matches(word) != b.matches(word)]
    assert equivalent(a, b) == (witness is None)
    if witness is None:
        assert not differences
    else:
        assert a.matches(witness) != b.matches(witness)
        assert len(witness) <= N or not differences
        assert not differences or len(witness) == len(differences[0])
    assert (difference_witness(b, a) is None) == (witness is None)


@given(machines, machines)
@bounded
def test_subset(left: PlainMachine, right: PlainMachine) -> None:
    a, b = left.to_byte_dfa(), right.to_byte_dfa()
    words = all_words(7)
    assert is_subset(a, b) == all(right.accepts(word) for word in words if left.accepts(word))
    assert is_subset(a & b, a) and is_subset(a, a | b)


@given(plain_machines(max_states=5))
@bounded
def test_shortest_string(machine: PlainMachine) -> None:
    expected = next((word for word in WORDS if machine.to_byte_dfa().matches(word)), None)  # WORDS is in shortlex order
    assert shortest_string(machine.to_byte_dfa()) == expected


def ring(n: int, accepting: set[int]) -> DFA:
    """Strings of x whose length modulo n is in ``accepting``."""
    delta = np.stack([np.full(n, -1), (np.arange(n) + 1) % n], axis=1)
    return DFA.from_arrays(np.arange(256) == ord("x"), delta, np.isin(np.arange(n), list(accepting)), start=0)


def test_large_machines_need_no_product() -> None:
    """The product of these has 10^12 pairs; joined states keep the search below 2·10^6."""
    n = 1_000_000
    assert equivalent(ring(n, {0}), ring(n, {0}))
    witness = difference_witness(ring(n, {0}), ring(n - 1, {0}))
    assert witness == b"x" * (n - 1)


def test_the_witness_may_be_long_and_sparse() -> None:
    evens, odd_one_out = ring(2, {0}), ring(1000, set(range(0, 1000, 2)) - {998})
    assert difference_witness(evens, odd_one_out) == b"x" * 998
    assert difference_witness(odd_one_out, evens) == b"x" * 998
