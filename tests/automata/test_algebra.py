"""Boolean and regular operations against Python's sets of words, and against the laws they must obey."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from random_machines import CHARACTERS, PlainMachine, Word, all_words, plain_machines, text

from fsmc.compiler.automata import algebra
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.errors import LimitExceeded, MachineError

N = 4
WORDS = all_words(N)
NOT_IN_ALPHABET = (b"z", "éz".encode(), b"\xc3", b"\xa9", b"a\xff", b"\xed\xa0\x80", b"\xc0\x80")

machines = plain_machines()
two_machines = given(machines, machines)
bounded = settings(max_examples=60, deadline=None)


def words_of(dfa: DFA) -> set[Word]:
    """Accepted words up to length N, and nothing of what is not over the alphabet."""
    assert not any(dfa.matches(data) for data in NOT_IN_ALPHABET)
    return {word for word in WORDS if dfa.matches(text(word))}


def same_arrays(left: DFA, right: DFA) -> bool:
    """Results are minimal and numbered canonically: equal languages give equal arrays."""
    return (
        left.start == right.start
        and np.array_equal(left.byte_class, right.byte_class)
        and np.array_equal(left.delta, right.delta)
        and np.array_equal(left.accepting, right.accepting)
    )


@two_machines
@bounded
def test_boolean_operations_are_set_operations(left: PlainMachine, right: PlainMachine) -> None:
    a, b = left.to_dfa(), right.to_dfa()
    words_a, words_b = left.words(N), right.words(N)
    assert words_of(a | b) == words_a | words_b
    assert words_of(a & b) == words_a & words_b
    assert words_of(a - b) == words_a - words_b
    assert words_of(algebra.symmetric_difference(a, b)) == words_a ^ words_b
    assert words_of(algebra.complement(a, universe=b)) == words_b - words_a


@given(machines)
@bounded
def test_complement_is_within_text(machine: PlainMachine) -> None:
    rest = ~machine.to_dfa()
    assert {word for word in WORDS if rest.matches(text(word))} == set(WORDS) - machine.words(N)
    assert rest.matches(b"z") and rest.matches("é\U0010ffffz".encode())
    for broken in (b"\xc3", b"a\xa9", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"):
        assert not rest.matches(broken)


def test_all_text_is_what_python_decodes() -> None:
    """Every string of up to two bytes, and each third and fourth byte at the borders of the ranges of RFC 3629."""
    every = algebra.all_text()
    borders = (
        0x00,
        0x7F,
        0x80,
        0x8F,
        0x90,
        0x9F,
        0xA0,
        0xBF,
        0xC0,
        0xC2,
        0xDF,
        0xE0,
        0xED,
        0xEF,
        0xF0,
        0xF4,
        0xF5,
        0xFF,
    )
    samples = [bytes([b]) for b in range(256)] + [bytes([a, b]) for a in range(256) for b in range(256)]
    samples += [bytes([a, b, c]) for a in borders for b in borders for c in borders]
    samples += [
        bytes([a, b, c, d]) for a in borders for b in borders for c in (0x7F, 0x80, 0xBF, 0xC0) for d in (0x80, 0xC0)
    ]
    for data in samples:
        try:
            data.decode()
            is_text = True
        except UnicodeDecodeError:
            is_text = False
        assert every.matches(data) == is_text, data


@two_machines
@bounded
def test_concatenation(left: PlainMachine, right: PlainMachine) -> None:
    expected = {w for w in WORDS if any(left.accepts(w[:i]) and right.accepts(w[i:]) for i in range(len(w) + 1))}
    assert words_of(left.to_dfa() + right.to_dfa()) == expected


@given(machines)
@bounded
def test_star(machine: PlainMachine) -> None:
    expected: set[Word] = {()}
    for word in WORDS[1:]:  # shorter ones first
        if any(word[:i] in expected and machine.accepts(word[i:]) for i in range(len(word))):
            expected.add(word)
    assert words_of(algebra.star(machine.to_dfa())) == expected


@given(machines)
@bounded
def test_reversal_by_characters_and_by_bytes(machine: PlainMachine) -> None:
    dfa = machine.to_dfa()
    backwards = algebra.reverse(dfa)
    assert words_of(backwards) == {word[::-1] for word in machine.words(N)}
    assert same_arrays(algebra.reverse(backwards), dfa | dfa)
    bytewise = algebra.reverse(dfa, unit="bytes")
    assert all(bytewise.matches(text(word)[::-1]) == machine.accepts(word) for word in WORDS)
    assert same_arrays(algebra.reverse(bytewise, unit="bytes"), dfa | dfa)


def test_reversal_of_what_is_not_text() -> None:
    dfa = DFA.from_arrays(np.arange(256) == 0xC3, [[-1, 1], [1, -1]], [False, True], start=0)
    with pytest.raises(MachineError, match=r"not UTF-8 .*state 2 accepts inside a character.*all_text"):
        algebra.reverse(dfa)
    assert algebra.reverse(dfa, unit="bytes").matches(b"zzz\xc3")
    with pytest.raises(ValueError, match="unit is 'words'"):
        algebra.reverse(dfa, unit="words")  # type: ignore[arg-type]


def pairs_reachable(a: PlainMachine, b: PlainMachine, start: tuple[int, int]) -> set[tuple[int, int]]:
    """Pairs of states to which some common word leads, by plain search."""
    seen, todo = {start}, [start]
    for p, q in todo:
        for symbol in range(len(CHARACTERS)):
            pair = a.table[p][symbol], b.table[q][symbol]
            if min(pair) >= 0 and pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return seen


@two_machines
@bounded
def test_left_quotient(machine: PlainMachine, prefixes: PlainMachine) -> None:
    entered = {q for p, q in pairs_reachable(prefixes, machine, (0, 0)) if prefixes.accepting[p]}
    ends = {word: [machine.run(word, q) for q in entered] for word in WORDS}
    expected = {word for word in WORDS if any(q >= 0 and machine.accepting[q] for q in ends[word])}
    assert words_of(algebra.left_quotient(machine.to_dfa(), prefixes.to_dfa())) == expected


@two_machines
@bounded
def test_right_quotient(machine: PlainMachine, suffixes: PlainMachine) -> None:
    def completes(state: int) -> bool:
        pairs = pairs_reachable(machine, suffixes, (state, 0))
        return any(machine.accepting[p] and suffixes.accepting[q] for p, q in pairs)

    expected = {word for word in WORDS if (q := machine.run(word)) >= 0 and completes(q)}
    assert words_of(algebra.right_quotient(machine.to_dfa(), suffixes.to_dfa())) == expected


LAWS: dict[str, Callable[[DFA, DFA, DFA], tuple[DFA, DFA]]] = {
    "De Morgan": lambda a, b, c: (~(a | b), ~a & ~b),
    "double complement": lambda a, b, c: (~~a, a | a),
    "distributivity of & over |": lambda a, b, c: (a & (b | c), (a & b) | (a & c)),
    "distributivity of + over |": lambda a, b, c: (a + (b | c), (a + b) | (a + c)),
    "associativity of +": lambda a, b, c: ((a + b) + c, a + (b + c)),
    "reversal of +": lambda a, b, c: (algebra.reverse(a + b), algebra.reverse(b) + algebra.reverse(a)),
    "star of star": lambda a, b, c: (algebra.star(algebra.star(a)), algebra.star(a)),
    "star of union": lambda a, b, c: (
        algebra.star(a | b),
        algebra.star(algebra.star(a) + algebra.star(b)),
    ),
    "difference": lambda a, b, c: (a - b, a & ~b),
    "symmetric difference": lambda a, b, c: (algebra.symmetric_difference(a, b), (a - b) | (b - a)),
    "quotients mirror each other": lambda a, b, c: (
        algebra.reverse(algebra.left_quotient(a, b)),
        algebra.right_quotient(algebra.reverse(a), algebra.reverse(b)),
    ),
    "quotient by a union": lambda a, b, c: (
        algebra.left_quotient(a, b | c),
        algebra.left_quotient(a, b) | algebra.left_quotient(a, c),
    ),
}


@pytest.mark.parametrize("law", LAWS)
@given(plain_machines(max_states=3), plain_machines(max_states=3), plain_machines(max_states=3))
@settings(max_examples=40, deadline=None)
def test_laws(law: str, first: PlainMachine, second: PlainMachine, third: PlainMachine) -> None:
    left, right = LAWS[law](first.to_dfa(), second.to_dfa(), third.to_dfa())
    assert left.equivalent(right)
    assert same_arrays(left, right)


def multiples(n: int) -> DFA:
    """Strings of a and b with a multiple of n letters."""
    byte_class = np.isin(np.arange(256), list(b"ab")).astype(np.uint8)
    ring = (np.arange(n) + 1) % n
    return DFA.from_arrays(byte_class, np.stack([np.full(n, -1), ring], axis=1), np.arange(n) == 0, start=0)


def test_a_product_larger_than_its_first_tables() -> None:
    both = multiples(101) & multiples(103)
    assert both.n_states == 101 * 103 + 1
    assert [n for n in range(0, 25_000, 101) if both.matches(b"a" * n)] == [0, 10403, 20806]
    assert both.equivalent(multiples(101 * 103))


@pytest.mark.parametrize(("limit", "value"), [("max_states", 1000), ("max_bytes", 40_000), ("max_seconds", 0.0)])
def test_limits(limit: str, value: float) -> None:
    a, b = multiples(50), multiples(51)
    assert (a | b).n_states == 2551
    for operation in (algebra.union, algebra.intersection, algebra.symmetric_difference):
        with pytest.raises(LimitExceeded) as caught:
            operation(a, b, **{limit: value})
        assert caught.value.name == limit and caught.value.reached > value
    with pytest.raises(LimitExceeded):
        algebra.right_quotient(a, b, **{limit: value})


def test_a_limit_that_is_just_enough() -> None:
    assert algebra.intersection(multiples(50), multiples(51), max_states=2550).n_states == 2551
    with pytest.raises(LimitExceeded, match=r"max_states=2549 exceeded \(reached 2550\)"):
        algebra.intersection(multiples(50), multiples(51), max_states=2549)


def test_reversal_may_explode_and_is_stopped() -> None:
    """(a|b){19}a(a|b)*: 2^20 states backwards (a classic)."""
    n = 20
    letter = np.arange(256)
    byte_class = np.where(letter == ord("a"), 1, np.where(letter == ord("b"), 2, 0))
    delta = np.stack([np.full(n + 1, -1), np.minimum(np.arange(n + 1) + 1, n), np.minimum(np.arange(n + 1) + 1, n)], 1)
    delta[n - 1, 2] = -1
    dfa = DFA.from_arrays(byte_class, delta, np.arange(n + 1) == n, start=0)
    for unit in ("characters", "bytes"):
        with pytest.raises(LimitExceeded, match="max_states=5000"):
            algebra.reverse(dfa, unit, max_states=5000)  # type: ignore[arg-type]


def test_empty_languages() -> None:
    nothing, some = multiples(2) - multiples(1), multiples(2)
    assert nothing.is_empty and nothing.n_states == 1
    for result in (nothing & some, nothing - some, nothing + some, some + nothing, algebra.reverse(nothing)):
        assert result.is_empty
    assert algebra.left_quotient(some, nothing).is_empty and algebra.right_quotient(nothing, some).is_empty
    assert algebra.star(nothing).matches(b"") and algebra.star(nothing).n_states == 2
    assert (nothing | some).equivalent(some)
