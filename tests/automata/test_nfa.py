"""Thompson's construction: the language (by simulation), the invariants of the arrays, and limits before memory."""

from __future__ import annotations

import itertools
import random
import re
import tracemalloc

import numpy as np
import pytest
from random_patterns import pattern, texts

from fsmc.compiler.automata.nfa import NFA, NO_GUARD, thompson
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.syntax.charclass import EMPTY, CharClass
from fsmc.compiler.syntax.expr import EPSILON, NOTHING, Alternate, Chars, Concat, Expr, Look, Repeat
from fsmc.compiler.syntax.regex import parse_regex

A, B = Chars(CharClass.of("a")), Chars(CharClass.of("b"))


@pytest.mark.parametrize("looks", [False, True])
def test_simulation_agrees_with_re(looks: bool) -> None:
    rng = random.Random(11)
    few = texts("aé\n", 3)
    for _ in range(120):
        source = pattern(rng, 3, looks=looks)
        nfa = thompson(parse_regex(source))
        for text in few:
            if text or r"\B" not in source:  # up to Python 3.13, \B does not match in the empty text
                assert nfa.matches(text.encode()) == bool(re.fullmatch(source, text)), (source, text)


@pytest.mark.parametrize(
    "source",
    [
        "(?:a{2}){3}",
        "(?:ab|b){2,4}",
        "(?:a{0,2}b){0,3}",
        "(?:a*b){2,}",
        "(?:a?){3}",
        "(?:(?:a|bb)*b?){1,2}",
        "(?:){5}a",
    ],
)
def test_repeats_as_python_reads_them(source: str) -> None:
    nfa = thompson(parse_regex(source))
    for text in texts("ab", 7):
        assert nfa.matches(text.encode()) == bool(re.fullmatch(source, text)), text


def test_coming_back_to_the_entry_of_a_loop_does_not_leave_it_half_way() -> None:
    # The body's own entry is a loop: leaving the outer loop from there would accept "a" and "aba".
    nfa = thompson(Repeat(Concat((Repeat(A, 0, None), B)), 0, None))
    assert [nfa.matches(t) for t in (b"", b"a", b"ab", b"aba", b"abab", b"bb")] == [
        True,
        False,
        True,
        False,
        True,
        True,
    ]
    nfa = thompson(Repeat(Concat((Repeat(A, 0, None), B)), 1, 2))
    assert [nfa.matches(t) for t in (b"", b"a", b"ab", b"aba", b"abab", b"bbb")] == [
        False,
        False,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("seed", range(30))
def test_arrays_keep_their_invariants(seed: int) -> None:
    nfa = thompson(parse_regex(pattern(random.Random(seed), 4, looks=True)))
    assert nfa.edges.dtype == nfa.epsilons.dtype == np.int32
    assert not nfa.edges.flags.writeable and not nfa.epsilons.flags.writeable
    edges, epsilons = nfa.edges.tolist(), nfa.epsilons.tolist()
    assert edges == sorted(edges)
    assert [row[0] for row in epsilons] == sorted(row[0] for row in epsilons)
    for (source, _, high, _), (following, low, _, _) in itertools.pairwise(edges):
        assert source < following or high < low
    assert all(0 <= low <= high <= 255 for _, low, high, _ in edges)
    assert all(guard == NO_GUARD or 0 <= guard < len(nfa.guards) for _, _, guard in epsilons)
    assert nfa.final not in {row[0] for row in edges + epsilons}
    if edges or epsilons:
        assert _reaching(nfa) == set(range(nfa.n_states))


def _reaching(nfa: NFA) -> set[int]:
    """States from which the final one can be reached, guards taken as open."""
    pairs = {(row[0], row[-1]) for row in nfa.edges.tolist()} | {(row[0], row[1]) for row in nfa.epsilons.tolist()}
    reached, size = {nfa.final}, 0
    while len(reached) > size:
        size = len(reached)
        reached |= {source for source, target in pairs if target in reached}
    return reached


@pytest.mark.parametrize(
    "expr",
    [
        NOTHING,
        Chars(EMPTY),
        Concat((A, NOTHING, B)),
        Repeat(Chars(EMPTY), 1, None),
        Alternate((NOTHING, Concat((Chars(EMPTY), A)))),
        Look(NOTHING, True, False),
    ],
)
def test_what_matches_nothing_has_no_edges(expr: Expr) -> None:
    nfa = thompson(expr)
    assert len(nfa.edges) == len(nfa.epsilons) == 0
    assert not any(nfa.matches(text) for text in (b"", b"a", b"ab"))


def test_parts_that_match_nothing_are_left_out() -> None:
    assert thompson(Alternate((NOTHING, A))).edges.tolist() == thompson(A).edges.tolist()
    assert thompson(Repeat(NOTHING, 0, None)).matches(b"")
    assert thompson(EPSILON).n_states == 1
    assert thompson(Concat((Look(NOTHING, False, True), A))).matches(b"a")


def test_deep_trees_do_not_exhaust_the_stack() -> None:
    source = "a"
    for _ in range(99):
        source = f"(?:x{source}*|y)"
    assert thompson(parse_regex(source)).matches(b"xxxy")
    assert thompson(parse_regex(f"(?={source})..")).matches(b"xy")


def test_shared_nodes_are_measured_once() -> None:
    expr: Expr = EPSILON
    for _ in range(200):
        expr = Concat((expr, expr))
    assert thompson(expr).n_states == 1


@pytest.mark.parametrize("source", ["a{1000000000}", "(?:(?:a{1000}){1000}){1000}", "(?:[a-é]{0,9999}b){0,9999}"])
def test_huge_repeats_meet_the_limit_before_memory(source: str) -> None:
    expr = parse_regex(source)
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded, match="max_states=2000000 exceeded"):
            thompson(expr)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_limit_is_exact() -> None:
    expr = parse_regex("a{100}")
    assert thompson(expr, max_states=101).n_states == 101
    with pytest.raises(LimitExceeded, match=r"max_states=100 exceeded \(reached 101\)"):
        thompson(expr, max_states=100)
