"""Matrices of machines say what the machines say; counts and growth against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from rsm_examples import EXAMPLES
from small_languages import PATTERNS, dfa_of

import fsmc
from fsmc.compiler.automata.counting import count_strings
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.research import (
    TokenMachine,
    class_matrices,
    count_completions,
    growth_rate,
    recursive_matrices,
    remaining_bits,
    transition_matrix,
)
from fsmc.research.matrices import RecursiveMatrices

ALPHABET = "é".encode() + b"ab"


@pytest.mark.parametrize(
    "ask",
    [
        transition_matrix,
        class_matrices,
        growth_rate,
        lambda m: count_completions(m, 2),
        lambda m: remaining_bits(m, 2),
        lambda m: TokenMachine.of(m, fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])),
    ],
)
def test_what_is_no_dfa_is_said(ask) -> None:
    recursive = fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1]), cache_dir=None)
    with pytest.raises(TypeError, match=r"a DFA is wanted, not a .*flatten"):
        ask(recursive.compile_json_schema({}).machine)
    with pytest.raises(TypeError, match="from_dfa"):
        recursive_matrices(dfa_of(PATTERNS[0]))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_matrices_run_texts_and_count_them(pattern: str, sparse: bool) -> None:
    if sparse:
        pytest.importorskip("scipy")
    dfa = dfa_of(pattern)
    by_class, matrix = class_matrices(dfa, sparse=sparse), transition_matrix(dfa, sparse=sparse)
    start = np.eye(dfa.n_states, dtype=int)[dfa.start]
    for length in range(5):
        for letters in product(ALPHABET, repeat=length):
            vector = start
            for byte in letters:
                vector = vector @ by_class[dfa.byte_class[byte]]
            assert (vector @ dfa.accepting == 1) == dfa.matches(bytes(letters))
    counts, vector = count_strings(dfa, 6, unit="bytes"), start
    for length in range(7):
        assert vector @ dfa.accepting == counts[length]
        vector = vector @ matrix


@pytest.mark.parametrize("pattern", PATTERNS)
def test_completions_of_every_state(pattern: str) -> None:
    dfa = dfa_of(pattern)
    counts, bits = count_completions(dfa, 4), remaining_bits(dfa, 4)
    for state in range(dfa.n_states):
        for length in range(5):
            tried = sum(bool(dfa.accepting[dfa.run(bytes(t), state)]) for t in product(ALPHABET, repeat=length))
            assert counts[length, state] == (tried if state else 0)
        total = counts[:, state].sum()
        assert bits[state] == (np.log2(total) if total else -np.inf)


def test_counts_of_long_texts_are_exact() -> None:
    dfa = dfa_of("[a-j]*")
    assert count_completions(dfa, 400)[400, dfa.start] == 10**400
    assert remaining_bits(dfa, 400)[dfa.start] == pytest.approx(400 * np.log2(10) + np.log2(10 / 9))


@pytest.mark.parametrize(
    ("pattern", "rate"),
    [
        ("[a-p]*", 4.0),
        ("a*b*a*b*", 0.0),  # grows like a power: one eigenvalue 1 four times, of which rounding would make 1.0001
        ("(ab|ba)*", 0.5),
        ("(a|bb)*", np.log2((1 + 5**0.5) / 2)),
        ("x(ab){3}|yz", -np.inf),
        ("", -np.inf),
    ],
)
def test_growth(pattern: str, rate: float) -> None:
    assert growth_rate(dfa_of(pattern)) == pytest.approx(rate, abs=1e-9)


def test_growth_is_the_slope_of_the_counts() -> None:
    dfa = dfa_of("(a|b)*a(a|b)c?(ab|c)*")
    counts = count_completions(dfa, 220)[:, dfa.start]
    assert np.log2(counts[220] / counts[200]) / 20 == pytest.approx(growth_rate(dfa), abs=1e-6)


def accepts(matrices: RecursiveMatrices, text: bytes) -> bool:
    """Running a recursive machine on its coordinates alone."""
    inside = {(b, q): r for b, q, r in matrices.inside.tolist()}
    calls = {(b, q): (f, r) for b, q, f, r in matrices.calls.tolist()}
    exits = {(b, q): (o, redo) for b, q, o, redo in matrices.exits.tolist()}
    returns = {(f, o): r for f, o, r in matrices.returns.tolist()}
    state, stack = matrices.start, []
    for byte in text:
        while True:
            if (byte, state) in inside:
                state = inside[byte, state]
            elif (byte, state) in calls:
                frame, state = calls[byte, state]
                stack.append(frame)
            elif (byte, state) in exits and stack:
                outcome, redo = exits[byte, state]
                state = returns.get((stack.pop(), outcome), 0)
                if redo and state:
                    continue
            else:
                return False
            break
        if state == 0:
            return False
    while stack:
        outcome = int(matrices.final[state])
        state = returns.get((stack.pop(), outcome), 0)
    return bool(matrices.final[state] >= 0)


@pytest.mark.parametrize("name", EXAMPLES)
def test_recursive_machines_run_on_their_coordinates(name: str) -> None:
    example = EXAMPLES[name]
    machine = example.machine
    matrices = recursive_matrices(machine)
    alphabet = sorted(set(example.alphabet))
    seen = set()
    for length in range(6):
        for letters in product(alphabet, repeat=length):
            text = bytes(letters)
            seen.add(machine.matches(text))
            assert accepts(matrices, text) == machine.matches(text), text
    assert seen == {True, False}
    assert all(accepts(matrices, text) for text in example.accepted)


def test_a_machine_that_is_made_as_it_is_walked() -> None:
    vocab = fsmc.Vocabulary.from_tokens([b"a"])
    schema = {"type": "array", "items": {"$ref": "#"}}
    machine: RecursiveMachine = (
        fsmc.GrammarCompiler(vocab, cache_dir=None, whitespace="compact").compile_json_schema(schema).machine
    )
    text = b"[[],[[]]]"
    assert machine.matches(text)
    matrices = recursive_matrices(machine)
    assert accepts(matrices, text) and not accepts(matrices, b"[[],]") and len(matrices.calls)
    assert matrices.call_matrix().sum() == len(matrices.calls)
    assert matrices.inside_matrix().sum() == len(matrices.inside)


def test_limits_and_bad_arguments() -> None:
    dfa = dfa_of("[ab]{1,50}")
    with pytest.raises(fsmc.LimitExceeded, match="max_bytes"):
        transition_matrix(dfa, max_bytes=1000)
    with pytest.raises(fsmc.LimitExceeded, match="max_bytes"):
        class_matrices(dfa, max_bytes=1000)
    with pytest.raises(fsmc.LimitExceeded, match="max_bytes"):
        count_completions(dfa, 10**9)
    with pytest.raises(fsmc.LimitExceeded, match="max_states"):
        growth_rate(dfa, max_states=10)
    with pytest.raises(ValueError, match="negative"):
        count_completions(dfa, -1)
