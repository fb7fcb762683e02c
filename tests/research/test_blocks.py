"""Filling blocks of positions against trying every block."""

from __future__ import annotations

import numpy as np
import pytest
from small_languages import EOS, NO_EOS, PATTERNS, VOCAB, dfa_of, fits, machine_of, sequences

import fsmc
from fsmc.research import BlockSampler, most_probable_block

CASES = [
    (pattern, vocab, final, fixed)
    for pattern in PATTERNS
    for vocab, final in ((VOCAB, "live"), (VOCAB, "complete"), (VOCAB, "ended"), (NO_EOS, "live"))
    for fixed in ({}, {1: 0}, {0: 2, 2: 1})
]


def random_scores(seed: int, n_positions: int, vocab_size: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = np.log(rng.dirichlet(np.ones(vocab_size), n_positions))
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    return scores


@pytest.mark.parametrize(("pattern", "vocab", "final", "fixed"), CASES)
def test_against_every_block(pattern: str, vocab: fsmc.Vocabulary, final: str, fixed: dict[int, int]) -> None:
    dfa, machine = dfa_of(pattern, vocab), machine_of(pattern, vocab)
    scores = random_scores(len(pattern) + len(fixed), 3, vocab.size)
    probability = {}
    for tokens in sequences(vocab, 3):
        if all(tokens[i] == t for i, t in fixed.items()) and fits(dfa, vocab, tokens, final):
            probability[tokens] = float(np.exp(sum(scores[i, t] for i, t in enumerate(tokens) if i not in fixed)))
    probability = {tokens: p for tokens, p in probability.items() if p}
    if not probability:
        for call in (most_probable_block, BlockSampler):
            with pytest.raises(fsmc.EmptyLanguageError, match="no block of 3 tokens"):
                call(machine, scores, fixed=fixed, final=final)
        return
    block = most_probable_block(machine, scores, fixed=fixed, final=final)  # type: ignore[arg-type]
    assert np.exp(block.log_probability) == pytest.approx(max(probability.values()))
    assert probability[tuple(block.tokens)] == pytest.approx(max(probability.values()))
    assert block.state == machine.run(block.tokens)
    sampler, total = BlockSampler(machine, scores, fixed=fixed, final=final), sum(probability.values())  # type: ignore[arg-type]
    assert np.exp(sampler.log_probability) == pytest.approx(total)
    marginals = np.zeros((3, vocab.size))
    for tokens, p in probability.items():
        marginals[np.arange(3), tokens] += p / total
    assert sampler.marginals() == pytest.approx(marginals)
    drawn = sampler.sample(np.random.default_rng(1))
    assert np.exp(drawn.log_probability) == pytest.approx(probability[tuple(drawn.tokens)])


def test_the_cases_are_not_all_empty() -> None:
    n = sum(bool(fits(dfa_of(p), VOCAB, t, "live")) for p in PATTERNS for t in sequences(VOCAB, 2))
    assert n > 50


def test_blocks_one_after_the_other() -> None:
    """The second block begins in the state in which the first one ended; what is fixed in it is a suffix."""
    machine, scores = machine_of("(ab|ba)*"), np.log(np.random.default_rng(7).dirichlet(np.ones(VOCAB.size), 3))
    first = most_probable_block(machine, scores, fixed={0: 0})
    second = most_probable_block(machine, scores, state=first.state, fixed={2: EOS}, final="ended")
    assert machine.accepts([*first.tokens, *second.tokens], "ended")


def test_draws_are_exact() -> None:
    machine, scores, n = machine_of("[ab]*", NO_EOS), np.log([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25]]), 3000
    sampler, rng = BlockSampler(machine, scores), np.random.default_rng(3)
    share = np.zeros((2, 3))
    for _ in range(n):
        share[[0, 1], sampler.sample(rng).tokens] += 1 / n
    assert share == pytest.approx(np.exp(scores), abs=0.04)


def test_bad_arguments() -> None:
    machine, scores = machine_of("[ab]*", NO_EOS), np.zeros((2, 3))
    for changed, problem in (
        ({"log_probabilities": np.zeros(3)}, "positions, 3"),
        ({"log_probabilities": np.full((2, 3), np.nan)}, "nan"),
        ({"fixed": {2: 0}}, "no position 2"),
        ({"fixed": {0: 3}}, "no token 3"),
        ({"fixed": {-1: 0}}, "no position -1"),
        ({"state": 0}, "state is 0"),
        ({"state": 99}, "state is 99"),
        ({"final": "somewhere"}, "'ended', 'complete' or 'live'"),
    ):
        with pytest.raises(ValueError, match=problem):
            most_probable_block(machine, **({"log_probabilities": scores} | changed))
    with pytest.raises(fsmc.LimitExceeded, match="max_bytes"):
        most_probable_block(machine, scores, max_bytes=10)
    assert most_probable_block(machine, np.zeros((0, 3))).tokens == []
