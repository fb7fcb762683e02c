"""Exact conditional sampling against the enumeration of all texts."""

from __future__ import annotations

from itertools import takewhile

import numpy as np
import pytest
from small_languages import EOS, NO_EOS, VOCAB, dfa_of, fits, machine_of, random_model, sequences

import fsmc
from fsmc.research import ConditionedModel, HiddenMarkovModel, TokenMachine, product_matrix

CASES = [
    (pattern, vocab, final)
    for pattern in ("(ab|ba)*", "[abé]{1,4}", "(?:aab|b)+", "(a|b)*a(a|b)")
    for vocab, final in ((VOCAB, "ended"), (VOCAB, "complete"), (VOCAB, "live"), (NO_EOS, "complete"), (NO_EOS, "live"))
]


def all_texts(vocab: fsmc.Vocabulary, max_tokens: int) -> list[tuple[int, ...]]:
    """Every sequence that stops: after its first EOS, or after ``max_tokens`` tokens."""
    texts = set()
    for tokens in sequences(vocab, max_tokens):
        before = tuple(takewhile(lambda token: token not in vocab.eos_token_ids, tokens))
        texts.add(tokens[: len(before) + 1])
    return sorted(texts)


@pytest.mark.parametrize("n_hidden", [1, 3])
@pytest.mark.parametrize(("pattern", "vocab", "final"), CASES)
def test_everything_against_enumeration(pattern: str, vocab: fsmc.Vocabulary, final: str, n_hidden: int) -> None:
    max_tokens = 3
    dfa, machine = dfa_of(pattern, vocab), TokenMachine.of(dfa_of(pattern, vocab), vocab)
    fitting = [text for text in all_texts(vocab, max_tokens) if fits(dfa, vocab, text, final)]
    rng = np.random.default_rng(len(pattern) + n_hidden)
    total = 0.0
    while not total:  # a model that never writes any of them is no test
        model = random_model(rng, n_hidden, vocab.size)
        weights = {t: float(np.exp(model.log_probability(t))) for t in all_texts(vocab, max_tokens)}
        valid = {text: weights[text] for text in fitting if weights[text]}
        total = sum(valid.values())
    assert sum(weights.values()) == pytest.approx(1)
    exact = ConditionedModel(machine, model, max_tokens, final)  # type: ignore[arg-type]
    assert np.exp(exact.log_probability) == pytest.approx(total)
    for text in weights:
        assert np.exp(exact.text_log_probability(text)) == pytest.approx(valid.get(text, 0.0) / total)
    for prefix in {t[:n] for t in valid for n in range(len(t))}:
        share = np.zeros(vocab.size)
        for text, weight in valid.items():
            if text[: len(prefix)] == prefix:
                share[text[len(prefix)]] += weight
        assert exact.next_token_distribution(prefix) == pytest.approx(share / share.sum())
    marginals = np.zeros((max_tokens + 1, machine.n_states))
    for text, weight in valid.items():
        for i in range(max_tokens + 1):
            marginals[i, machine.run(text[:i])] += weight / total
    assert exact.state_marginals() == pytest.approx(marginals)
    power = np.linalg.matrix_power(product_matrix(machine, model), max_tokens)
    ends = power.reshape(machine.n_states, n_hidden, machine.n_states, n_hidden).sum(3)[machine.start]
    assert model.initial @ ends @ machine.final(final) == pytest.approx(total)  # type: ignore[arg-type]


def test_samples_have_the_exact_distribution() -> None:
    machine = TokenMachine.of(dfa_of("[ab]{1,3}"), VOCAB)
    model = random_model(np.random.default_rng(5), 2, VOCAB.size)
    exact = ConditionedModel(machine, model, 4)
    rng, n = np.random.default_rng(0), 4000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(n):
        text = tuple(exact.sample(rng))
        seen[text] = seen.get(text, 0) + 1
    expected = {text: n * np.exp(exact.text_log_probability(text)) for text in all_texts(VOCAB, 4)}
    assert all(expected[text] > 0 for text in seen)
    statistic = sum((seen.get(t, 0) - e) ** 2 / e for t, e in expected.items() if e > 5)
    degrees = sum(e > 5 for e in expected.values())
    assert degrees > 5 and statistic < degrees + 5 * (2 * degrees) ** 0.5  # five standard deviations of chi squared


def test_bigrams_are_hidden_markov_models() -> None:
    first, following = np.array([0.5, 0.25, 0.25]), np.array([[0.1, 0.9, 0], [0.3, 0.3, 0.4], [1, 0, 0]])
    model = HiddenMarkovModel.from_bigrams(first, following)
    for a, b, c in sequences(NO_EOS, 3):
        assert np.exp(model.log_probability((a, b, c))) == pytest.approx(first[a] * following[a, b] * following[b, c])
        if following[a, b]:
            assert model.next_token_distribution((a, b)) == pytest.approx(following[b])


def test_long_texts_do_not_underflow() -> None:
    """A text of 3000 tokens, of which each has probability 1/8: the logarithm is -6238, far below the smallest float."""
    vocab = fsmc.Vocabulary.from_tokens([*map(bytes, ([x] for x in b"abcdefg")), b""], eos_token_ids=[7])
    machine = TokenMachine.of(dfa_of("a{2999}|b", vocab), vocab)
    exact = ConditionedModel(machine, HiddenMarkovModel([1.0], [[1.0]], [[1 / 8] * 8]), 3000)
    assert np.exp(exact.log_probability) == pytest.approx(1 / 64)
    assert exact.text_log_probability([0] * 2999 + [7]) == pytest.approx(np.log(64) - 3000 * np.log(8))
    assert exact.next_token_distribution([0])[0] == 1
    assert len(exact.next_token_distribution([0] * 2000)) == 8


def test_sparse_product() -> None:
    pytest.importorskip("scipy")
    machine, model = machine_of("(ab|ba)*"), random_model(np.random.default_rng(2), 3, VOCAB.size)
    assert product_matrix(machine, model, sparse=True).toarray() == pytest.approx(product_matrix(machine, model))


def test_bad_arguments() -> None:
    machine, model = machine_of("ab", NO_EOS), HiddenMarkovModel([1.0], [[1.0]], [[0.5, 0.5, 0.0]])
    with pytest.raises(ValueError, match="for 3 tokens, the model for 10"):
        ConditionedModel(machine, random_model(np.random.default_rng(0), 1, VOCAB.size), 2)
    with pytest.raises(ValueError, match="negative"):
        ConditionedModel(machine, model, -1)
    with pytest.raises(fsmc.LimitExceeded, match="max_bytes"):
        ConditionedModel(machine, model, 10**9)
    never = ConditionedModel(machine, model, 1, "complete")  # two tokens are needed
    assert never.log_probability == -np.inf
    for call in (lambda: never.sample(np.random.default_rng(0)), never.state_marginals):
        with pytest.raises(ValueError, match="no text of 1 tokens fits"):
            call()
    exact = ConditionedModel(machine, model, 2, "complete")
    for prefix, problem in (([0, 1], "whole"), ([1], "cannot come"), ([2], "cannot come")):
        with pytest.raises(ValueError, match=problem):
            exact.next_token_distribution(prefix)
    for bad in (([0.5], [[1.0]], [[1.0]]), ([1.0], [[1.0]], [[-1.0, 2.0]]), ([1.0], [[np.nan]], [[1.0]])):
        with pytest.raises(ValueError, match="distribution"):
            HiddenMarkovModel(*bad)
    with pytest.raises(ValueError, match="shapes"):
        HiddenMarkovModel([1.0], [[1.0, 0.0]], [[1.0]])
    with pytest.raises(ValueError, match="outside"):
        model.log_probability([EOS])
    with pytest.raises(ValueError, match="outside"):
        model.next_token_distribution([-1])
    assert exact.text_log_probability([99]) == -np.inf
    with pytest.raises(ValueError, match="cannot come"):
        exact.next_token_distribution([-1])
