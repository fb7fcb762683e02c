"""Edges over bytes and over characters, and NFAs put together from them."""

from __future__ import annotations

import random
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from random_machines import CHARACTERS, PlainMachine, plain_machines

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.edges import byte_edges, character_edges, nfa_from_edges, text_nfa
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.errors import MachineError
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.regex import parse_regex


@given(plain_machines())
@settings(max_examples=100, deadline=None)
def test_byte_edges_are_the_table(machine: PlainMachine) -> None:
    dfa = machine.to_dfa()
    full = np.zeros((dfa.n_states, 256), np.int32)
    edges = byte_edges(dfa)
    for source, low, high, target in edges.tolist():
        assert target != DEAD and not full[source, low : high + 1].any()
        full[source, low : high + 1] = target
    assert np.array_equal(full, dfa.delta[:, dfa.byte_class])
    follows = (edges[1:, 0] == edges[:-1, 0]) & (edges[1:, 1] == edges[:-1, 2] + 1)
    assert not (follows & (edges[1:, 3] == edges[:-1, 3])).any()  # as long as possible
    assert edges.tolist() == sorted(edges.tolist())


@given(plain_machines())
@settings(max_examples=100, deadline=None)
def test_character_edges_of_small_alphabets(machine: PlainMachine) -> None:
    """Walk both machines side by side: the same characters lead from each pair of states."""
    dfa = minimize(machine.to_dfa())
    by_source: dict[int, list[list[int]]] = {}
    for source, low, high, target in character_edges(dfa).tolist():
        by_source.setdefault(source, []).append([low, high, target])
    seen, todo = {(0, dfa.start)}, [(0, dfa.start)]
    for plain, state in todo:
        for symbol, character in enumerate(CHARACTERS):
            expected = dfa.run(character.encode(), state)
            found = [t for low, high, t in by_source.get(state, []) if low <= ord(character) <= high]
            assert found == ([expected] if expected != DEAD else [])
            target = machine.table[plain][symbol]
            assert target >= 0 or expected == DEAD
            if expected != DEAD and (target, expected) not in seen:
                seen.add((target, expected))
                todo.append((target, expected))
    assert sum(high - low + 1 for spans in by_source.values() for low, high, _ in spans) == sum(
        dfa.run(character.encode(), state) != DEAD for state in {s for _, s in seen} for character in CHARACTERS
    )


@pytest.mark.parametrize(
    "pattern", [r"\w", r"\W", ".", r"[\u0080-\u07ff]", "[ࠀ-퟿]", "[\ue000-\uffff]", r"[^\U00010000]", "[a-\U0010ffff]"]
)
def test_character_edges_of_large_classes(pattern: str) -> None:
    """Every code point at a border of some range, and 2,000 others, led where its bytes lead."""
    dfa = minimize(determinize(thompson(parse_regex(pattern))))
    edges = character_edges(dfa)
    assert edges.tolist() == sorted(edges.tolist())
    borders = {c + d for c in edges[:, 1:3].ravel().tolist() for d in (-1, 0, 1)}
    lows, highs = edges[:, 1].tolist(), edges[:, 2].tolist()
    rng = random.Random(0)
    samples = borders | {rng.randrange(0x110000) for _ in range(2000)} | {0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000}
    for code_point in samples:
        if 0 <= code_point <= 0x10FFFF and not 0xD800 <= code_point <= 0xDFFF:
            place = bisect_right(lows, code_point) - 1
            covered = place >= 0 and code_point <= highs[place]
            assert covered == dfa.matches(chr(code_point).encode()), hex(code_point)


def test_all_of_unicode_is_two_edges() -> None:
    assert character_edges(all_text()).tolist() == [[1, 0, 0xD7FF, 1], [1, 0xE000, 0x10FFFF, 1]]


@pytest.mark.parametrize(
    "data",
    [b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xc3a", b"\xe0\x9f\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf0\x8f\x80\x80",
     b"\xf4\x90\x80\x80", b"\xf8\x80", b"\xff", b"\xc3\xa9\xa9", b"\xf0\x9f\x98a"],
)  # fmt: skip
def test_what_is_not_utf8_has_no_character_edges(data: bytes) -> None:
    n = len(data)
    delta = np.full((n + 1, 256), -1)
    delta[range(n), list(data)] = range(1, n + 1)
    dfa = DFA.from_arrays(np.arange(256), delta, np.arange(n + 1) == n, start=0)
    assert dfa.matches(data)
    with pytest.raises(MachineError, match="not UTF-8"):
        character_edges(dfa)


def test_nfas_are_put_together_from_unsorted_rows() -> None:
    rows = np.array([[1, 98, 98, 0], [0, 120, 122, 1], [0, 97, 97, 1]], np.int32)
    nfa = nfa_from_edges(rows, [(1, 0)], n_states=2, starts=[0], accepting=[1])
    assert [nfa.matches(data) for data in (b"a", b"xb", b"xbaay", b"", b"ab")] == [True, False, True, False, False]
    assert determinize(nfa).matches(b"xbaay")
    nothing = nfa_from_edges(np.empty((0, 4), np.int32), [], n_states=1, starts=[], accepting=[0])
    assert not nothing.matches(b"") and determinize(nothing).is_empty


def test_text_nfa_may_be_nondeterministic() -> None:
    steps = [(0, CharClass.of("aé"), 0), (0, CharClass.of("é"), 1), (1, CharClass.of("☃é"), 2)]
    nfa = text_nfa(steps, n_states=3, start=0, accepting=[2])
    for word, expected in {"aéé": True, "é☃": True, "ééé": True, "éa": False, "☃": False, "aé": False}.items():
        assert nfa.matches(word.encode()) == determinize(nfa).matches(word.encode()) == expected


def test_text_nfa_leaves_out_what_leads_nowhere() -> None:
    steps = [(0, CharClass.of("a"), 1), (0, CharClass.of("é"), 2), (2, CharClass.of("a"), 2), (2, CharClass.of(""), 1)]
    assert determinize(text_nfa(steps, n_states=3, start=0, accepting=[1])).n_states == 3
    assert determinize(text_nfa(steps, n_states=3, start=2, accepting=[1])).is_empty
