"""Counting, ranking, sampling and enumeration: against brute force, closed formulas and a chi-squared test."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from random_machines import PlainMachine, all_words, plain_machines, text

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.counting import StringCounts, count_strings, enumerate_strings, is_finite, sample_string
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.errors import MachineError
from fsmc.compiler.syntax.regex import parse_regex

N = 4
bounded = settings(max_examples=60, deadline=None)


def compiled(pattern: str) -> DFA:
    return determinize(thompson(parse_regex(pattern)))


@given(plain_machines())
@bounded
def test_counts_are_those_of_brute_force(machine: PlainMachine) -> None:
    words = machine.words(N)
    dfa = machine.to_dfa()
    lengths = Counter(len(word) for word in words)
    assert count_strings(dfa, N) == [lengths[n] for n in range(N + 1)]
    byte_lengths = Counter(len(text(word)) for word in words)  # every text of up to N bytes has up to N characters
    assert count_strings(dfa, N, unit="bytes") == [byte_lengths[n] for n in range(N + 1)]


@given(plain_machines())
@bounded
def test_ranks_and_enumeration_follow_byte_order(machine: PlainMachine) -> None:
    dfa = machine.to_dfa()
    texts = [text(word) for word in machine.words(N)]
    strings = StringCounts(dfa, N)
    listed = [strings.string_at(n, rank) for n in range(N + 1) for rank in range(strings.counts[n])]
    assert listed == sorted(texts, key=lambda data: (len(data.decode()), data))
    assert list(islice(enumerate_strings(dfa), len(listed))) == listed
    by_bytes = sorted((data for data in texts if len(data) <= N), key=lambda data: (len(data), data))
    assert list(islice(enumerate_strings(dfa, unit="bytes"), len(by_bytes))) == by_bytes


@given(plain_machines(max_states=4))
@bounded
def test_finite_languages_end(machine: PlainMachine) -> None:
    """A machine of n states accepts infinitely many words just if it accepts one of n to 2n - 1 symbols."""
    dfa = machine.to_dfa()
    n = len(machine.table)
    infinite = any(machine.accepts(word) for word in all_words(2 * n - 1) if len(word) >= n)
    assert is_finite(dfa) == (not infinite)
    if not infinite:
        assert set(enumerate_strings(dfa)) == {text(word) for word in machine.words(n)}


def test_characters_and_bytes_of_all_text() -> None:
    """Closed forms: 1,112,064 scalar values; and a recurrence over the length of the last character's encoding."""
    n_scalars = 0x110000 - 0x800
    assert count_strings(all_text(), 1000)[1000] == n_scalars**1000
    expected = [1]
    of_length = (0x80, 0x800 - 0x80, 0x10000 - 0x800 - 0x800, 0x110000 - 0x10000)
    for n in range(1, 40):
        expected.append(sum(k * expected[n - i] for i, k in enumerate(of_length, 1) if n >= i))
    assert count_strings(all_text(), 39, unit="bytes") == expected


def test_ranks_are_exact_far_beyond_machine_integers() -> None:
    strings = StringCounts(all_text(), 50)
    last = strings.counts[50] - 1
    assert strings.string_at(50, 0) == b"\0" * 50
    assert strings.string_at(50, last) == ("\U0010ffff" * 50).encode()
    assert strings.string_at(50, last - 1) == ("\U0010ffff" * 49 + "\U0010fffe").encode()
    for length, rank in ((50, last + 1), (50, -1), (51, 0), (-1, 0)):
        with pytest.raises(IndexError, match="no string number"):
            strings.string_at(length, rank)


def chi_squared(observed: Counter[bytes], cells: list[bytes]) -> float:
    expected = sum(observed.values()) / len(cells)
    assert set(observed) <= set(cells)
    return sum((observed[cell] - expected) ** 2 / expected for cell in cells)


@pytest.mark.parametrize(
    ("pattern", "length", "max_length", "unit"),
    [
        ("a(b|c){0,3}|x[0-9é]", None, 4, "characters"),
        ("(aa|[éb]){1,4}", 3, None, "characters"),
        ("(aa|[éb]){1,4}", 4, None, "bytes"),
        ("(☃|ab|c)*", None, 5, "bytes"),
    ],
)
def test_sampling_is_uniform(pattern: str, length: int | None, max_length: int | None, unit: str) -> None:
    """Chi-squared of 200 draws per string, fixed seed: five standard deviations above its mean would be 1 in 10^6."""
    dfa = compiled(pattern)
    strings = StringCounts(dfa, length if max_length is None else max_length, unit)  # type: ignore[arg-type]
    lengths = range(len(strings.counts)) if length is None else [length]
    cells = [strings.string_at(n, rank) for n in lengths for rank in range(strings.counts[n])]
    assert 8 <= len(cells) == len(set(cells)) and all(map(dfa.matches, cells))
    rng = np.random.default_rng(20240229)
    observed = Counter(strings.sample(rng, length) for _ in range(200 * len(cells)))
    freedom = len(cells) - 1
    assert chi_squared(observed, cells) < freedom + 5 * (2 * freedom) ** 0.5
    one = sample_string(dfa, np.random.default_rng(1), length=length, max_length=max_length, unit=unit)  # type: ignore[arg-type]
    assert one == strings.sample(np.random.default_rng(1), length)


def test_long_samples() -> None:
    drawn = sample_string(compiled(r"(\w+ )*\w+\."), np.random.default_rng(3), length=200)
    assert len(drawn.decode()) == 200 and compiled(r"(\w+ )*\w+\.").matches(drawn)


def test_enumeration_is_lazy_and_goes_deep() -> None:
    every = enumerate_strings(all_text())
    assert list(islice(every, 3)) == [b"", b"\0", b"\1"]
    deep = enumerate_strings(compiled("(a{3000})*"))
    assert [len(data) for data in islice(deep, 2)] == [0, 3000]
    assert list(enumerate_strings(compiled("[^\\s\\S]"))) == []


def test_requests_that_cannot_be_met() -> None:
    digits = compiled("[0-9]{2}")
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"no string of length 3\.\.3 \(characters\)"):
        sample_string(digits, rng, length=3)
    with pytest.raises(ValueError, match=r"no string of length 0\.\.1"):
        sample_string(digits, rng, max_length=1)
    for arguments in ({}, {"length": 2, "max_length": 2}):
        with pytest.raises(ValueError, match="either length or max_length"):
            sample_string(digits, rng, **arguments)
    with pytest.raises(ValueError, match=r"length is 3, outside 0\.\.2"):
        StringCounts(digits, 2).sample(rng, 3)
    with pytest.raises(ValueError, match="must not be negative"):
        count_strings(digits, -1)
    with pytest.raises(ValueError, match="unit is 'words'"):
        count_strings(digits, 1, unit="words")  # type: ignore[arg-type]
    broken = DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0)
    assert count_strings(broken, 2, unit="bytes") == [0, 256, 0]
    with pytest.raises(MachineError, match="not UTF-8"):
        count_strings(broken, 2)
