"""interegular's FSMs in and out, and its parser and subset construction as an oracle for ours."""

from __future__ import annotations

import re

import interegular
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interegular.fsm import FSM, Alphabet, anything_else
from random_machines import CHARACTERS, PlainMachine, all_words, plain_machines, text

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.equivalence import difference_witness
from fsmc.compiler.automata.interop import from_interegular, to_interegular
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.errors import LimitExceeded, MachineError
from fsmc.compiler.syntax.regex import parse_regex


def compiled(pattern: str) -> DFA:
    return minimize(determinize(thompson(parse_regex(pattern))))


def repeated(part: str, low: int, extra: int) -> str:
    return f"(?:{part}){{{low},{low + extra}}}"


atoms = st.sampled_from(
    ["a", "é", "☃", "😀", "[aé]", "[^a]", "[^é☃]", "[a-z]", "[α-ω]", "[^\u07fc-\u0803]", "[0-9]", ""]
)
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("(?:{})*".format, inner),
        st.builds("(?:{})?".format, inner),
        st.builds(repeated, inner, st.integers(0, 2), st.integers(0, 2)),
    ),
    max_leaves=6,
)


@given(patterns)
@settings(max_examples=80, deadline=None)
def test_both_parsers_and_both_constructions_agree(pattern: str) -> None:
    foreign = from_interegular(interegular.parse_pattern(pattern).to_fsm())
    assert difference_witness(foreign, compiled(pattern)) is None


@given(patterns)
@settings(max_examples=60, deadline=None)
def test_round_trip(pattern: str) -> None:
    dfa = compiled(pattern)
    there = to_interegular(dfa)
    back = from_interegular(there)
    assert np.array_equal(back.delta, dfa.delta) and np.array_equal(back.byte_class, dfa.byte_class)
    for sample in ("", "a", "é", "☃", "😀", "aé", "é☃", "zz", "\n", "\U0010ffff", "\ud7ff\ue000", "ab0"):
        assert there.accepts(sample) == bool(re.fullmatch(pattern, sample)), sample


@given(plain_machines())
@settings(max_examples=60, deadline=None)
def test_hand_built_fsms(machine: PlainMachine) -> None:
    """States of any kind, transitions left out, dead states kept, and no "anything else"."""
    names = [("state", i) for i in range(len(machine.table))]
    fsm = FSM(
        alphabet=Alphabet({character: i for i, character in enumerate(CHARACTERS)}),
        states=set(names),
        initial=names[0],
        finals={name for name, final in zip(names, machine.accepting, strict=True) if final},
        map={names[q]: {i: names[t] for i, t in enumerate(row) if t >= 0} for q, row in enumerate(machine.table)},
    )
    dfa = from_interegular(fsm)
    assert all(dfa.matches(text(word)) == machine.accepts(word) for word in all_words(4))
    assert not dfa.matches(b"z")


def test_one_key_may_hold_characters_and_anything_else() -> None:
    fsm = FSM(
        alphabet=Alphabet({"a": 0, "é": 1, anything_else: 1, "\ud800": 0}),  # a lone surrogate is no character
        states={0, 1},
        initial=0,
        finals={1},
        map={0: {1: 1}},
    )
    dfa = from_interegular(fsm)
    assert [dfa.matches(data.encode()) for data in ("é", "z", "\U0010ffff", "a")] == [True, True, True, False]
    assert dfa.equivalent(compiled(r"[^a]|\n"))


def test_the_largest_class_is_anything_else() -> None:
    assert set(to_interegular(compiled("[ab]c")).alphabet) == {"a", "b", "c", anything_else}
    assert set(to_interegular(all_text()).alphabet) == {anything_else}
    words = to_interegular(compiled(r"\w+"))
    assert len(words.alphabet) > 100_000 and words.accepts("naïve") and not words.accepts("a b")
    with pytest.raises(LimitExceeded, match="max_symbols=1000"):
        to_interegular(compiled(r"\w+"), max_symbols=1000)


def test_nothing_at_all() -> None:
    nothing = all_text() - all_text()
    assert not to_interegular(nothing).accepts("")
    assert from_interegular(to_interegular(nothing)).is_empty


def test_what_is_refused() -> None:
    with pytest.raises(MachineError, match="not str"):
        from_interegular("a+")
    with pytest.raises(MachineError, match="symbol 'ab' of the FSM's alphabet is not one character"):
        from_interegular(FSM(alphabet=Alphabet({"ab": 0}), states={0}, initial=0, finals={0}, map={}))
    broken = DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0)
    with pytest.raises(MachineError, match="not UTF-8"):
        to_interegular(broken)
    with pytest.raises(LimitExceeded, match="max_states=3"):
        from_interegular(interegular.parse_pattern("a{9}").to_fsm(), max_states=3)
