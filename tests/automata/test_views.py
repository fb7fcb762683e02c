"""Tables and drawings: what they show must be the machine, all of it, and nothing else."""

from __future__ import annotations

import re
from math import comb
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_machines import PlainMachine, plain_machines
from rsm_examples import EXAMPLES, balanced_brackets, parity

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.automata.rsm import CALL, EXIT, RSM
from fsmc.compiler.automata.svg import to_svg
from fsmc.compiler.automata.views import byte_ranges, dump, edges_of, to_dot
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.syntax.regex import parse_regex


def compiled(pattern: str) -> DFA:
    return minimize(determinize(thompson(parse_regex(pattern))))


def bytes_in(label: str) -> set[int]:
    """Read a label back."""
    name = r"""'\\?.'|"."|[0-9A-F]{2}(?= |-|$)|."""
    values: set[int] = set()
    for low, high in re.findall(rf"({name})(?:-({name}))?(?: |$)", label):
        ends = [int(end, 16) if len(end) == 2 else ord(end[-2:-1] or end) for end in (low, high or low)]
        values |= set(range(ends[0], ends[1] + 1))
    return values


@given(st.sets(st.integers(0, 255)))
@settings(max_examples=300, deadline=None)
def test_labels_can_be_read_back(values: set[int]) -> None:
    assert bytes_in(byte_ranges(sorted(values))) == values


@given(plain_machines())
@settings(max_examples=50, deadline=None)
def test_the_edges_are_the_table(machine: PlainMachine) -> None:
    dfa = machine.to_dfa()
    full = np.zeros((dfa.n_states, 256), np.int32)
    for edge in edges_of(dfa):
        assert edge.target and edge.action == "" and edge.frame is None
        full[edge.source, list(bytes_in(edge.label))] = edge.target
    assert np.array_equal(full, dfa.delta[:, dfa.byte_class])


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_edges_of_an_rsm_are_its_table(name: str) -> None:
    machine = EXAMPLES[name].machine
    full = np.zeros((machine.n_states, 256), np.int32)
    actions = machine.actions.tolist()
    for edge in edges_of(machine):
        if edge.target is not None and edge.frame is None:
            entry = edge.target
        elif edge.target is not None:
            assert edge.action == f"call, frame {edge.frame}"
            entry = -1 - actions.index([CALL, edge.target, edge.frame])
        else:
            outcome, redo = re.fullmatch(r"exit (\d)(, same byte again)?", edge.action).groups()
            entry = -1 - actions.index([EXIT + bool(redo), int(outcome), 0])
        full[edge.source, list(bytes_in(edge.label))] = entry
    assert np.array_equal(full, machine.delta[:, machine.byte_class])


def test_dump_of_a_dfa() -> None:
    assert compiled("(é| -?)+").dump().splitlines() == [
        "DFA with 5 states (0 is DEAD) and 5 byte classes; > start, * accepting",
        "  >  1  ' '  → 2",
        "        C3   → 3",
        "   * 2  ' '  → 2",
        "        '-'  → 4",
        "        C3   → 3",
        "     3  A9   → 4",
        "   * 4  ' '  → 2",
        "        C3   → 3",
    ]


def test_dump_of_an_rsm() -> None:
    assert balanced_brackets().dump().splitlines() == [
        "RSM with 4 states (0 is DEAD) and 3 byte classes; > start, *k may end with outcome k",
        "  >   1  [  call, frame 0 → 2",
        "      2  [  call, frame 1 → 2",
        "         ]  exit 0",
        "   *0 3",
        "  frame 0 returns on outcome 0: 3",
        "  frame 1 returns on outcome 0: 2",
    ]
    assert "frame 1 returns on outcome 0: 10, outcome 1: DEAD" in parity().dump()


def test_a_long_dump_says_what_it_leaves_out() -> None:
    lines = dump(compiled("a{1000}"), max_states=10).splitlines()
    assert len(lines) == 1 + 10 + 1 and lines[-1] == "  … and 991 more states"
    assert "more states" not in dump(compiled("a{10}"), max_states=11)


def test_dump_of_nothing() -> None:
    nothing = all_text() - all_text()
    assert dump(nothing) == "DFA with 1 states (0 is DEAD) and 1 byte classes; > start, * accepting"
    assert "->" not in to_dot(nothing)
    ElementTree.fromstring(to_svg(nothing))


def test_dot_shows_every_edge() -> None:
    dfa = compiled(r'("|\\|é)+x')
    drawn = re.findall(r'^  (\d+) -> (\d+) \[label="(.*)"\];$', dfa.to_dot(), re.M)
    unescaped = [(int(p), int(q), re.sub(r"\\(.)", r"\1", label)) for p, q, label in drawn]
    assert unescaped == [(edge.source, edge.target, edge.label) for edge in edges_of(dfa)]
    doubles = {int(q) for q in re.findall(r"(\d+) \[shape=doublecircle\]", dfa.to_dot())}
    assert doubles == set(np.flatnonzero(dfa.accepting).tolist())


def test_dot_of_an_rsm_shows_calls_exits_and_returns() -> None:
    dot = parity().to_dot()
    assert '1 -> 2 [label="( / call, frame 0", style=dashed];' in dot
    assert '3 -> "3 exit 0" [label=";"];' in dot
    assert '1 -> 8 [label="outcome 0", style=dotted];' in dot and '1 -> 9 [label="outcome 1", style=dotted];' in dot
    assert "-> 0" not in dot  # the dead return
    regular = RSM.from_dfa(compiled("ab"))
    assert regular.to_dot() == compiled("ab").to_dot()


def test_svg_draws_every_state_and_edge() -> None:
    dfa = compiled("(a|é)*<&(bb|c[0-9a-zA-Z_ -]x)")
    root = ElementTree.fromstring(dfa.to_svg())
    svg = "{http://www.w3.org/2000/svg}"
    edges = edges_of(dfa)
    assert len(root.findall(f"{svg}path")) == len(edges)
    assert sorted(title.text for title in root.iter(f"{svg}title")) == sorted(edge.label for edge in edges)
    circles = [(c.get("cx"), c.get("cy")) for c in root.findall(f"{svg}circle")]
    assert len(set(circles)) == dfa.n_states - 1  # no two states in one place
    assert len(circles) == dfa.n_states - 1 + dfa.accepting.sum()
    left, top, width, height = map(float, root.get("viewBox").split())
    assert all(left < float(x) < left + width and top < float(y) < top + height for x, y in circles)


@pytest.mark.parametrize(
    "pattern", ["a-b-", "[0-9]{4}-(0[1-9]|1[0-2])", r"[a-z0-9._]+@[a-z0-9]+(\.[a-z]{2,4})+", "(a-b)*"]
)
def test_svg_labels_are_beside_their_own_edge(pattern) -> None:
    """Level edges leave their label free, so that a dash can be read; the label is nearer to its own edge than to any other."""
    root = ElementTree.fromstring(compiled(pattern).to_svg())
    svg = "{http://www.w3.org/2000/svg}"
    curves = []
    for path in root.findall(f"{svg}path"):
        points = np.array([float(number) for number in re.findall(r"-?[\d.]+", path.get("d"))]).reshape(-1, 2)
        t = np.linspace(0, 1, 200)[:, None]
        n = len(points) - 1
        curves.append(sum(comb(n, i) * (1 - t) ** (n - i) * t**i * points[i] for i in range(n + 1)))
    texts = [text for text in root.findall(f"{svg}text") if text.find(f"{svg}title") is not None]
    assert len(texts) == len(curves)
    boxes = []
    for i, text in enumerate(texts):
        middle = np.array([float(text.get("x")), float(text.get("y"))])
        away = [np.hypot(*(curve - middle).T).min() for curve in curves]
        assert away[i] == min(away)
        if np.ptp(curves[i][:, 1]) < 1:
            assert away[i] > 8
        boxes.append((*middle, 7.4 * len(text.find(f"{svg}title").tail), 13))
    for i, (x, y, width, height) in enumerate(boxes):
        for x2, y2, width2, height2 in boxes[:i]:
            assert abs(x - x2) > (width + width2) / 2 or abs(y - y2) > (height + height2) / 2


@pytest.mark.parametrize("pattern", [r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", "x|(a|b)*abb[c-f]"])
def test_svg_edges_go_around_other_states(pattern) -> None:
    """And around their loops, which are the curves that end in the state where they begin."""
    dfa = compiled(pattern)
    root = ElementTree.fromstring(dfa.to_svg())
    svg = "{http://www.w3.org/2000/svg}"
    numbers = [text for text in root.findall(f"{svg}text") if text.find(f"{svg}title") is None]
    places = {int(text.text): np.array([float(text.get("x")), float(text.get("y"))]) for text in numbers}
    assert len(places) == dfa.n_states - 1
    loops = {edge.source for edge in edges_of(dfa) if edge.source == edge.target}
    curves = {}
    for edge, path in zip(edges_of(dfa), root.findall(f"{svg}path"), strict=True):
        points = np.array([float(number) for number in re.findall(r"-?[\d.]+", path.get("d"))]).reshape(-1, 2)
        t, n = np.linspace(0, 1, 200)[:, None], len(points) - 1
        curves[edge.source, edge.target] = sum(comb(n, i) * (1 - t) ** (n - i) * t**i * points[i] for i in range(n + 1))
    for (source, target), curve in curves.items():
        for state in places.keys() - {source, target}:
            assert np.hypot(*(curve - places[state]).T).min() > 18, (source, target, state)
            if state in loops:
                loop = curves[state, state]
                assert np.hypot(*(curve[:, None] - loop).T).min() > 3, (source, target, state)


def test_svg_of_a_large_machine_is_refused() -> None:
    with pytest.raises(LimitExceeded, match=r"max_states=100 exceeded \(reached 501\).*dump"):
        compiled("a{500}").to_svg()
    assert to_svg(compiled("a{500}"), max_states=501).count("<circle") == 502
