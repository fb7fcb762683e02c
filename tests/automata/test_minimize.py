"""Minimization and partition histories, against definitions executed word by word or round by round."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_patterns import language, pattern

from fsmc.compiler.automata import minimize as minimize_module
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize, partition_history
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.regex import parse_regex


def minimal(source: str) -> DFA:
    return minimize(determinize(thompson(parse_regex(source))))


def moore(delta: np.ndarray, initial: list[int], rounds: int | None = None) -> list[int]:
    """Plain Moore: blocks after so many rounds, or when stable; each round renames every state."""
    rows, blocks = delta.tolist(), list(initial)
    while rounds is None or rounds > 0:
        names: dict[tuple[int, ...], int] = {}
        after = [names.setdefault((blocks[q], *(blocks[t] for t in row)), len(names)) for q, row in enumerate(rows)]
        if rounds is None and len(set(after)) == len(set(blocks)):
            return after
        blocks, rounds = after, None if rounds is None else rounds - 1
    return blocks


def same_partition(left: list[int], right: list[int]) -> bool:
    return len(set(zip(left, right, strict=True))) == len(set(left)) == len(set(right))


def same_arrays(left: DFA, right: DFA) -> bool:
    return (
        left.start == right.start
        and np.array_equal(left.byte_class, right.byte_class)
        and np.array_equal(left.delta, right.delta)
        and np.array_equal(left.accepting, right.accepting)
    )


def test_language_is_kept_and_no_two_states_are_equivalent() -> None:
    rng = random.Random(3)
    for _ in range(250):
        source = pattern(rng, 4)
        raw = determinize(thompson(parse_regex(source)))
        dfa = minimize(raw)
        assert language(dfa, "aé😀\n", 4) == language(raw, "aé😀\n", 4), source
        assert dfa.n_states == len(set(moore(raw.delta, raw.accepting.tolist()))), source
        assert len({tuple(column) for column in dfa.delta.T.tolist()}) == dfa.n_classes


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a|b|c", "[a-c]"),
        ("(a|b)*", "(a*b*)*"),
        ("(?:ab)*a", "a(?:ba)*"),
        ("a{2,4}", "aaa?a?"),
        ("[^a]|a", r"[\s\S]"),
        ("(?!b)[ab]c", "ac"),
        (r"x(?<=x)y", "xy"),
        ("é|[^é]", r"[\u0000-\ud7ff\ue000-\U0010ffff]"),
    ],
)
def test_equal_languages_give_equal_arrays(left: str, right: str) -> None:
    assert same_arrays(minimal(left), minimal(right))


@pytest.mark.parametrize("seed", range(25))
def test_canonical_form_does_not_depend_on_numbering(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dfa = minimal(pattern(random.Random(seed), 4))
    states = np.concatenate([[0], 1 + rng.permutation(dfa.n_states - 1)]).astype(np.int32)
    columns = rng.permutation(dfa.n_classes)
    inverse = np.argsort(states)
    delta = np.ascontiguousarray(states[dfa.delta[inverse]][:, np.argsort(columns)]).astype(np.int32)
    shuffled = DFA(columns[dfa.byte_class].astype(np.uint8), delta, dfa.accepting[inverse], int(states[dfa.start]))
    assert same_arrays(minimize(shuffled), dfa)


def test_long_chains_are_fast_enough_to_finish() -> None:
    dfa = minimal(r".{0,5000}")  # 20,000 rounds over 40,000 states: 800 million row visits if done plainly
    assert dfa.n_states == 40_002
    assert dfa.matches("é".encode() * 5000) and not dfa.matches("é".encode() * 5001)


@st.composite
def machines(draw: st.DrawFn) -> tuple[np.ndarray, list[int]]:
    n_states = draw(st.integers(1, 9))
    n_columns = draw(st.integers(1, 4))
    rows = draw(
        st.lists(
            st.lists(st.integers(0, n_states - 1), min_size=n_columns, max_size=n_columns),
            min_size=n_states - 1,
            max_size=n_states - 1,
        )
    )
    initial = draw(st.lists(st.integers(0, 2), min_size=n_states, max_size=n_states))
    return np.array([[0] * n_columns, *rows], np.int32), initial


@settings(max_examples=300, deadline=None)
@given(machines())
def test_history_is_agreement_on_all_words_up_to_the_round(machine: tuple[np.ndarray, list[int]]) -> None:
    delta, initial = machine
    rounds = [0, 1, 2, 2, 3, 12]
    history = partition_history(delta, np.array(initial, np.int32), rounds)
    assert history.shape == (len(rounds), len(delta)) and history.dtype == np.int32
    table = delta.tolist()
    for row, length in zip(history.tolist()[:5], rounds, strict=False):
        outcomes = []
        for state in range(len(table)):
            words = []
            for word in itertools.chain.from_iterable(
                itertools.product(range(delta.shape[1]), repeat=n) for n in range(length + 1)
            ):
                target = state
                for symbol in word:
                    target = table[target][symbol]
                words.append(initial[target])
            outcomes.append(hash(tuple(words)))
        assert same_partition(row, outcomes)
    assert same_partition(history[-1].tolist(), moore(delta, initial))  # n - 1 rounds are enough for n states


@pytest.mark.parametrize("seed", range(6))
def test_history_on_larger_machines(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_states = 400
    delta = rng.integers(0, n_states, (n_states, 6)).astype(np.int32)
    if seed % 2:  # nearly a chain: many rounds
        delta = np.minimum(np.arange(n_states)[:, None] + rng.integers(1, 4, (n_states, 6)), n_states - 1).astype(
            np.int32
        )
    delta[0] = 0
    initial = (rng.random(n_states) < 0.02).astype(np.int32)
    rounds = [1, 2, 3, 4, 5, 8, 16, 100, 399]
    for row, length in zip(partition_history(delta, initial, rounds).tolist(), rounds, strict=True):
        assert same_partition(row, moore(delta, initial.tolist(), length)), length


def test_history_accepts_any_block_numbers_and_no_rounds() -> None:
    delta = np.array([[0, 0], [0, 2], [1, 0]], np.int32)
    assert partition_history(delta, np.array([7, -3, 7], np.int32), []).shape == (0, 3)
    row = partition_history(delta, np.array([7, -3, 7], np.int32), [0])[0].tolist()
    assert same_partition(row, [7, -3, 7])
    with pytest.raises(ValueError, match="rounds must ascend"):
        partition_history(delta, np.array([0, 1, 1], np.int32), [2, 1])


@pytest.mark.parametrize("source", ["axc|bxc", "(?:ab|cd)*[a-c]?", "[é-ü]{1,2}"])
def test_kernels_agree_with_plain_python(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = determinize(thompson(parse_regex(source)))
    initial = (np.arange(raw.n_states) > 0).astype(np.int32)
    compiled, history = minimize(raw), partition_history(raw.delta, initial, [1, 3, 20])
    for name in ("_mix", "_invert", "_same_row", "_refine", "_take_quotient"):
        monkeypatch.setattr(minimize_module, name, getattr(minimize_module, name).py_func)
    with np.errstate(over="ignore"):
        assert same_arrays(minimize(raw), compiled)
        assert np.array_equal(partition_history(raw.delta, initial, [1, 3, 20]), history)


def test_equal_signatures_of_different_rows_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hash that always collides, only the comparison in full is left, and the result is the same."""
    raw = determinize(thompson(parse_regex("axc|bxd|(?:ab)*")))
    expected = minimize(raw)
    for name in ("_invert", "_same_row", "_refine"):
        monkeypatch.setattr(minimize_module, name, getattr(minimize_module, name).py_func)
    monkeypatch.setattr(minimize_module, "_mix", lambda _: np.uint64(0))
    assert same_arrays(minimize(raw), expected)
