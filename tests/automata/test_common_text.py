"""The search for a text on which machines agree says what their product says."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.common_text import have_common_text
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema.format_machine import machine

PATTERNS = ["a*", ".*b.*", "[ab]{3}", "(ab)*", "é?a+", "[^a]*", "", "..", "(a|é){2,4}", ".*a.", "(aa)*", "(aaa)*a"]


@pytest.mark.parametrize("seed", range(60))
def test_the_search_agrees_with_the_product(seed: int) -> None:
    rng = random.Random(seed)
    chosen = rng.sample(PATTERNS, rng.randrange(1, 5))
    signs = [rng.random() < 0.6 for _ in chosen]
    joint = all_text()
    for pattern, sign in zip(chosen, signs, strict=True):
        joint = joint & machine(pattern) if sign else joint - machine(pattern)
    machines = [(all_text(), True), *((machine(p), s) for p, s in zip(chosen, signs, strict=True))]
    assert have_common_text(machines) == (not joint.is_empty)


def test_an_answer_about_lengths_is_right() -> None:
    texts = ["".join(t) for n in range(6) for t in itertools.product("abé", repeat=n)]
    for first, second in itertools.combinations(PATTERNS, 2):
        machines = [(machine("[abé]*"), True), (machine(first), True), (machine(second), False)]
        lengths = {len(t) for t in texts if re.fullmatch(first, t) and not re.fullmatch(second, t)}
        for low, high in ((0, 0), (1, 2), (2, 2), (3, 5), (0, 5), (3, 2)):
            assert have_common_text(machines, low, high) == any(low <= n <= high for n in lengths), (first, second, low)


def test_characters_are_counted_not_bytes() -> None:
    mixed, three = machine("(?:日a|aa)*"), machine("(?:日日|a)*")
    assert have_common_text([(machine("日{3}"), True)], 3, 3) and not have_common_text([(machine("日{3}"), True)], 4, 9)
    assert have_common_text([(mixed, True), (three, True), (machine(".*日.*"), True)], 0, 9) is False
    assert have_common_text([(machine("aaaa|日日"), True)], 0, 2) is True  # the shorter one has more bytes


def test_long_least_lengths_are_left_to_others() -> None:
    few = [(machine("a*"), True), (machine("(?:aa)*"), False)]
    assert have_common_text(few, 64, 64) is False and have_common_text(few, 64, 65) is True
    assert have_common_text(few, 65) is None


def test_what_takes_too_long_is_given_up() -> None:
    far = [(machine(f"(?:a{{{n}}})*a"), True) for n in (7, 11, 13)]  # first met at a text of 1,002 letters
    long = (machine("a{1000}a*"), True)
    assert have_common_text([*far, long], max_states=2000) is None
    assert have_common_text([*far, long]) is True


def test_nothing_is_common_to_a_machine_and_its_complement() -> None:
    dfa: DFA = machine("[a-z]{2,5}é*")
    assert have_common_text([(dfa, True), (dfa, False)]) is False
    assert have_common_text([(machine("[^\\s\\S]"), True)]) is False
