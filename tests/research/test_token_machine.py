"""The machine over tokens against bytes, and its matrices against counting sequences."""

from __future__ import annotations

import numpy as np
import pytest
from small_languages import EOS, NO_EOS, PATTERNS, VOCAB, dfa_of, fits, machine_of, sequences

import fsmc
from fsmc.research import TokenMachine


@pytest.mark.parametrize("vocab", [VOCAB, NO_EOS], ids=["with EOS", "without EOS"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_sequence(pattern: str, vocab: fsmc.Vocabulary) -> None:
    dfa, machine = dfa_of(pattern, vocab), machine_of(pattern, vocab)
    by_token = machine.token_matrices()
    assert (sum(by_token) == machine.matrix()).all()
    for length in range(4):
        n = {"complete": 0, "ended": 0, "live": 0}
        for tokens in sequences(vocab, length):
            for final in n:
                expected = fits(dfa, vocab, tokens, final)
                assert machine.accepts(tokens, final) == expected, (tokens, final)
                n[final] += expected
        power = np.linalg.matrix_power(machine.matrix(), length)[machine.start]
        assert {final: power @ machine.final(final) for final in n} == n


@pytest.mark.parametrize("pattern", PATTERNS)
def test_edges_are_the_masks(pattern: str) -> None:
    grammar = fsmc.GrammarCompiler(VOCAB, cache_dir=None).compile_regex(pattern)
    machine = TokenMachine.of(grammar.dfa, VOCAB)
    index, table = grammar.build_index(), machine.table()
    for state in range(1, grammar.dfa.n_states):
        allowed = np.flatnonzero(table[state]).tolist()
        expected = index.allowed_token_ids(state).tolist() + [EOS] * bool(grammar.dfa.accepting[state])
        assert allowed == sorted(expected)
        assert all(machine.step(state, token) == table[state, token] for token in range(VOCAB.size))


def test_sparse_is_dense() -> None:
    pytest.importorskip("scipy")
    machine = machine_of("(a|b)*a(a|b)")
    weights = np.linspace(0, 1, VOCAB.size)
    assert (machine.matrix(weights, sparse=True).toarray() == machine.matrix(weights)).all()
    for sparse, dense in zip(machine.token_matrices(sparse=True), machine.token_matrices(), strict=True):
        assert (sparse.toarray() == dense).all()


def test_live_is_decided_in_tokens() -> None:
    """The text a can be completed to ac in bytes, but no token has a c."""
    machine = machine_of("ac|ab", NO_EOS)
    assert machine.accepts([0], "live") and not machine.accepts([0], "complete")
    stuck = TokenMachine.of(dfa_of("ac|b"), NO_EOS)
    assert not stuck.accepts([0], "live") and stuck.accepts([1], "live")


def test_bad_arguments() -> None:
    machine = machine_of("a*")
    with pytest.raises(ValueError, match="'ended', 'complete' or 'live'"):
        machine.final("done")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one for each of 10 tokens"):
        machine.matrix([1.0, 2.0])
    with pytest.raises(ValueError, match="padding tokens"):
        TokenMachine.of(dfa_of("a*"), VOCAB, pad_token_ids=[99])
    with pytest.raises(fsmc.MachineError, match="accepts nothing"):
        TokenMachine.of(dfa_of("a") & dfa_of("b"), VOCAB)
    with pytest.raises(fsmc.LimitExceeded, match="max_edges"):
        TokenMachine.of(dfa_of("[ab]{1,50}"), VOCAB, max_edges=20)
    with pytest.raises(fsmc.LimitExceeded, match="max_bytes"):
        machine.table(max_bytes=10)
