"""Look-around against `re`: random nesting on all short texts, and the figures that show it stays small."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from random_patterns import language, pattern, texts

from fsmc.compiler.automata import look_product
from fsmc.compiler.automata.determinize import determinize, determinize_ranges
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.automata.obligations import BROKEN, EMPTY, FALSE, TRUE, Obligations
from fsmc.compiler.automata.subsets import Limits
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.syntax.expr import Look, Repeat
from fsmc.compiler.syntax.regex import parse_regex

ALPHABET = "abé\n"


def minimal(source: str) -> DFA:
    return minimize(determinize(thompson(parse_regex(source))))


def expected_language(source: str) -> set[str]:
    compiled = re.compile(source)
    return {text for text in texts(ALPHABET, 5) if compiled.fullmatch(text)}


@pytest.mark.parametrize("seed", range(10))
def test_random_nesting_agrees_with_re(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        source = pattern(rng, 4, looks=True)
        got, expected = language(minimal(source), ALPHABET, 5), expected_language(source)
        if r"\B" in source:  # up to Python 3.13, \B does not match in the empty text
            got, expected = got - {""}, expected - {""}
        assert got == expected, source


@pytest.mark.parametrize(
    "source",
    [
        r"(?=(?=a)(?!ab).)[ab]*",
        r"(?:(?=a.*b$)a|b)*",
        r"(?:(?!(?<=b)a)[ab])*",
        r"(?:a(?=(?:..)*\Z)|b)*",
        r"(?<!(?<=a)b)(?:[ab](?<!(?<=a)b))*",
        r"(?:(?<=a(?=b))b|a)*",
        r"(?:(?<!a(?=b))b|a)*",
        r"(?:(?<=\A(?!aa).)a|[ab])*",
        r"(?m)(?:^a*$\n?)*",
        r"(?m)(?:^(?!b)[ab]*$|\n)*",
        r"(?:\b[ab]+\b|\W)*",
        r"(?:a\Bb|b\B|a\b\n)*",
        r"(?!.*(?:ab|é)).*",
        r"(?:a|b(?!\Z))+",
        r"(?!(?!(?!a)))[ab]*",
        r"(?:(?=a)(?=.b)a|b(?=a|$))*",
    ],
)
def test_chosen_patterns(source: str) -> None:
    got, expected = language(minimal(source), ALPHABET, 5), expected_language(source)
    assert got - {""} == expected - {""}
    assert 0 < len(expected) < len(texts(ALPHABET, 5))


@pytest.mark.parametrize(
    ("source", "accepted", "rejected"),
    [
        (r"(?=.*[A-Z])(?=.*\d)(?=.*[^\w]).{8,20}", ["Passw0rd!", "ñandú-7Ü A"], ["password", "Passw0rd", "Pa0!"]),
        (r"\b\w+\b", ["word", "été", "x1_"], ["", "two words", "-"]),
        (r"\w+(?<!ing)", ["sung", "in", "ingot"], ["sing", "ing"]),
        (r"(?!000|666)[0-8]\d{2}-(?!00)\d{2}", ["123-45", "665-01"], ["000-45", "666-45", "123-00", "912-45"]),
        (r"\d{1,3}(?:,\d{3})*(?!,)", ["1,234", "999"], ["1,234,", "12,34"]),
        (r"(?:(?!--).)*", ["a-b-c", "<b>"], ["a--b", "--"]),
        (r'"(?:\\.|[^"\\])*(?<!\\)"', ['"a"', r'"\""'], [r'"\\"']),
    ],
)
def test_everyday_patterns(source: str, accepted: list[str], rejected: list[str]) -> None:
    dfa = minimal(source)
    for text in accepted + rejected:
        assert bool(re.fullmatch(source, text)) == (text in accepted), f"the test itself is wrong about {text!r}"
        assert dfa.matches(text.encode()) == (text in accepted), text


def test_implied_obligations_are_dropped() -> None:
    raw = determinize(thompson(parse_regex(r"(?:a(?=.{0,10}b)|b|c)*")))
    assert raw.n_states < 20  # 2,049 when each subset of ten distances is kept


def test_look_machines_count_against_the_limits() -> None:
    nfa = thompson(parse_regex(r"(?:(?=[ab]*a[ab]{16}c)[abc])*"))
    with pytest.raises(LimitExceeded, match="max_states=5000 exceeded"):
        determinize(nfa, max_states=5000)
    with pytest.raises(LimitExceeded, match="max_bytes=1000000 exceeded"):
        determinize(nfa, max_bytes=1_000_000)
    with pytest.raises(LimitExceeded, match=r"max_seconds=0\.001 exceeded"):
        determinize(nfa, max_seconds=0.001)


def test_size_of_a_body_counts_against_the_limit() -> None:
    body = parse_regex("[ab]{100}")
    with pytest.raises(LimitExceeded, match="max_states"):
        determinize(thompson(Look(Repeat(body, 100, 100), True, False)), max_states=5000)


@pytest.mark.parametrize("source", [r"(?:a(?=.b)|(?<!a)b)*", r"(?!.*aa)[aé]{0,3}\Z"])
def test_kernels_agree_with_plain_python(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nfa = thompson(parse_regex(source))
    limits = Limits(10**6, 1 << 30, 1e9)
    compiled = determinize_ranges(nfa, limits)
    for name in ("_slot_of", "_rehash", "_find_thread", "_unfold"):
        monkeypatch.setattr(look_product, name, getattr(look_product, name).py_func)
    with np.errstate(over="ignore"):
        plain = determinize_ranges(nfa, limits)
    for name in ("offsets", "ranges", "accepting"):
        assert np.array_equal(getattr(plain, name), getattr(compiled, name)), name


class TestObligations:
    """Over one symbol: "the rest has exactly n symbols" for n = 2, 1, 0, then nothing."""

    def setup_method(self) -> None:
        self.all = Obligations(1)
        chain = np.array([[0], [0], [1], [2]], np.int32)  # 3 → 2 → 1 (accepts) → 0
        self.state = self.all.add_machine(chain, np.array([False, True, False, False])).tolist()

    def test_constants(self) -> None:
        assert self.state[0] == FALSE
        assert self.all.intern([TRUE]) == EMPTY
        assert self.all.intern([self.state[2], FALSE]) == BROKEN

    def test_complements_break_a_set_and_hold_at_the_right_ends(self) -> None:
        one = self.state[1]
        assert self.all.intern([one, self.all.complement(one)]) == BROKEN
        assert self.all.is_fulfilled(self.all.intern([one]))
        assert not self.all.is_fulfilled(self.all.intern([self.all.complement(one)]))

    def test_steps_follow_the_machine(self) -> None:
        number = self.all.intern([self.state[3]])
        for state in (2, 1):
            self.all.build_steps(number, Limits(1000, 1 << 20, 10.0))
            number = int(self.all.steps[number, 0])
            assert self.all.members(number) == (self.state[state],)
        self.all.build_steps(number, Limits(1000, 1 << 20, 10.0))
        assert self.all.steps[number, 0] == BROKEN

    def test_implied_ones_vanish(self) -> None:
        two, not_one = self.state[3], self.all.complement(self.state[2])
        assert self.all.intern([two, not_one]) == self.all.intern([two])  # two symbols left: not one

    def test_negation_of_alternatives(self) -> None:
        a, b = self.all.intern([self.state[3]]), self.all.intern([self.state[2]])
        (neither,) = self.all.negate([a, b])
        assert set(self.all.members(neither)) == {
            self.all.complement(self.state[3]),
            self.all.complement(self.state[2]),
        }
        assert self.all.negate([]) == [EMPTY] and self.all.negate([EMPTY]) == []


def test_text_end_inside_a_look_behind() -> None:
    got = language(minimize(determinize(thompson(parse_regex(r"(?:a(?<=a\Z)|b)*")))), "ab", 4)
    assert got == {text for text in texts("ab", 4) if re.fullmatch("b*a?", text)}
