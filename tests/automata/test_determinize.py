"""Subset construction: the language against `re`, the limits, the kernels against plain Python."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from random_patterns import language, pattern, texts

from fsmc.compiler.automata import range_table, subsets
from fsmc.compiler.automata.determinize import determinize, determinize_ranges
from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.automata.range_table import RangeTable, to_range_table
from fsmc.compiler.automata.subsets import Limits
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.syntax.regex import parse_regex

NO_LIMITS = Limits(10**7, 1 << 34, 1e9)


def raw(source: str) -> DFA:
    return determinize(thompson(parse_regex(source)))


def test_agrees_with_re() -> None:
    rng = random.Random(5)
    candidates = texts("aé😀\n", 4)
    for _ in range(250):
        source = pattern(rng, 4)
        compiled = re.compile(source)
        assert language(raw(source), "aé😀\n", 4) == {t for t in candidates if compiled.fullmatch(t)}, source


def test_only_whole_well_formed_characters_are_accepted() -> None:
    dfa = raw(".{0,3}")
    good = [b"", "a€😀".encode(), "\u07ff\ud7ff\U0010ffff".encode()]
    bad = [b"\x80", b"\xc3", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xe2\x82"]
    assert all(dfa.matches(text) for text in good)
    assert not any(dfa.matches(text) for text in bad)


@pytest.mark.parametrize("source", ["(a|b)*a(a|b){3}", r"\w{0,3}", "(?:ab|a)*b?", "[é-😀]+|x", "(?=a.)[a-c]{1,3}", ""])
def test_result_is_trimmed(source: str) -> None:
    dfa = raw(source)
    successors = [set(row) for row in dfa.delta.tolist()]
    reached, pending = {dfa.start}, [dfa.start]
    while pending:
        for target in successors[pending.pop()] - reached:
            reached.add(target)
            pending.append(target)
    assert reached | {DEAD} == set(range(dfa.n_states))
    alive, size = set(np.flatnonzero(dfa.accepting).tolist()), 0
    while len(alive) > size:
        size = len(alive)
        alive |= {state for state in range(dfa.n_states) if successors[state] & alive}
    assert alive == set(range(1, dfa.n_states))
    assert len({tuple(column) for column in dfa.delta.T.tolist()}) == dfa.n_classes


def test_the_empty_language_is_one_dead_state() -> None:
    for source in ("[^\\s\\S]", "a(?!a)a", "(?=b)a"):
        dfa = raw(source)
        assert (dfa.n_states, dfa.n_classes, dfa.start) == (1, 1, DEAD)


def test_every_array_of_the_construction_grows() -> None:
    # 2^15 states from an NFA of 20: each array is enlarged several times, in the middle of a state's row as well.
    dfa = raw("[ab]*a[ab]{14}")
    assert dfa.n_states == 2**15 + 1
    rng = random.Random(2)
    for _ in range(200):
        text = "".join(rng.choice("ab") for _ in range(rng.randrange(12, 30)))
        assert dfa.matches(text.encode()) == bool(re.fullmatch("[ab]*a[ab]{14}", text))


def test_state_limit_is_exact() -> None:
    nfa = thompson(parse_regex("a{50}"))
    assert determinize(nfa, max_states=52).n_states == 52
    with pytest.raises(LimitExceeded, match="max_states=51 exceeded"):
        determinize(nfa, max_states=51)


def test_explosion_meets_the_state_limit() -> None:
    with pytest.raises(LimitExceeded, match=r"max_states=65000 exceeded \(reached 65001\)"):
        determinize(thompson(parse_regex("(a|b)*a(a|b){20}")), max_states=65_000)


def test_explosion_meets_the_memory_limit() -> None:
    nfa = thompson(parse_regex(r"(\w{1,16}\d){5}"))
    with pytest.raises(LimitExceeded, match="max_bytes=20000000 exceeded") as caught:
        determinize(nfa, max_bytes=20_000_000)
    assert caught.value.reached < 60_000_000


def test_explosion_meets_the_time_limit() -> None:
    with pytest.raises(LimitExceeded, match=r"max_seconds=0\.01 exceeded"):
        determinize(thompson(parse_regex(r"(\w{1,16}\d){5}")), max_seconds=0.01)


@pytest.mark.parametrize("source", ["(a|b)*a(a|b){2}", "é{0,2}|[^a]b", "(?:a?){4}"])
def test_kernels_agree_with_plain_python(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nfa = thompson(parse_regex(source))
    compiled = determinize_ranges(nfa, NO_LIMITS)
    compiled_dfa = compiled.to_dfa()
    for module, names in ((subsets, ["_construct", "_close"]), (range_table, ["_merge_bytes", "_fill", "_find_runs"])):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
    with np.errstate(over="ignore"):
        plain = determinize_ranges(nfa, NO_LIMITS)
    for name in ("offsets", "ranges", "accepting"):
        assert np.array_equal(getattr(plain, name), getattr(compiled, name)), name
    plain_dfa = plain.to_dfa()
    assert np.array_equal(plain_dfa.byte_class, compiled_dfa.byte_class)
    assert np.array_equal(plain_dfa.delta, compiled_dfa.delta)
    assert same_table(to_range_table(plain_dfa), plain)


def same_table(left: RangeTable, right: RangeTable) -> bool:
    return np.array_equal(left.offsets, right.offsets) and np.array_equal(left.ranges, right.ranges)


@pytest.mark.parametrize("seed", range(20))
def test_dense_table_and_ranges_say_the_same(seed: int) -> None:
    """Random rows, cut at random: the dense table, byte by byte, is what the ranges say."""
    rng = random.Random(seed)
    n_states = rng.randrange(2, 7)
    rows, offsets = [], [0, 0]
    expected = np.zeros((n_states, 256), np.int64)
    for state in range(1, n_states):
        cuts = sorted(rng.sample(range(257), 2 * rng.randrange(0, 6)))
        for low, end in zip(cuts[::2], cuts[1::2], strict=True):
            target = rng.randrange(1, n_states)
            rows.append((low, end - 1, target))
            expected[state, low:end] = target
        offsets.append(len(rows))
    accepting = np.array([False] + [rng.random() < 0.5 for _ in range(n_states - 1)])
    ranges = np.array(rows, np.int32).reshape(-1, 3)
    dfa = RangeTable(np.array(offsets), ranges, accepting, 1).to_dfa()
    assert np.array_equal(dfa.delta[:, dfa.byte_class], expected)
    assert len({tuple(column) for column in dfa.delta.T.tolist()}) == dfa.n_classes
    first = [int(np.flatnonzero(dfa.byte_class == c)[0]) for c in range(dfa.n_classes)]
    assert first == sorted(first)
    again = to_range_table(dfa).to_dfa()
    assert np.array_equal(again.delta, dfa.delta) and np.array_equal(again.byte_class, dfa.byte_class)
