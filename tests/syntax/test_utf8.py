"""utf8_automaton against str.encode, character by character and as a whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsmc.compiler.syntax.charclass import ANY, EMPTY, CharClass
from fsmc.compiler.syntax.utf8 import ENTRY, FINAL, utf8_automaton

EDGES_OF_FORMS = [
    0x0,
    0x7F,
    0x80,
    0x7FF,
    0x800,
    0xFFF,
    0x1000,
    0xD7FF,
    0xE000,
    0xFFFF,
    0x10000,
    0x3FFFF,
    0x40000,
    0x10FFFF,
]

near_an_edge = st.builds(
    lambda edge, offset: min(max(edge + offset, 0), 0x10FFFF), st.sampled_from(EDGES_OF_FORMS), st.integers(-70, 70)
)
code_points = near_an_edge | st.integers(0, 0x10FFFF)
char_classes = st.lists(st.tuples(code_points, code_points).map(lambda pair: (min(pair), max(pair))), max_size=6).map(
    CharClass.from_ranges
)


def accepts(automaton, data):
    state = ENTRY
    for byte in data:
        targets = [t for s, low, high, t in automaton.edges.tolist() if s == state and low <= byte <= high]
        if not targets:
            return False
        (state,) = targets
    return state == FINAL


def words(automaton):
    """Every accepted byte string, as how many there are and in how many bytes."""
    outgoing = {}
    for source, low, high, target in automaton.edges.tolist():
        outgoing.setdefault(source, []).append((high - low + 1, target))
    count = {}

    def by_length(state):
        if state not in count:
            total = np.zeros(5, dtype=np.int64)
            total[0] = state == FINAL
            for n_bytes, target in outgoing.get(state, []):
                total[1:] += n_bytes * by_length(target)[:-1]
            count[state] = total
        return count[state]

    return by_length(ENTRY).tolist()


def encoded_lengths(chars):
    bounds = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF)]
    return [0] + [len(chars & CharClass.from_ranges([form])) for form in bounds]


@given(char_classes, st.lists(code_points, max_size=20))
@settings(max_examples=200, deadline=None)
def test_exactly_the_encodings_of_the_class(chars, probes):
    automaton = utf8_automaton(chars)
    bounds = [cp for r in chars.ranges for end in r for cp in (end - 1, end, end + 1)]
    for cp in probes + bounds + EDGES_OF_FORMS:
        if 0 <= cp <= 0x10FFFF and not 0xD800 <= cp <= 0xDFFF:
            assert accepts(automaton, chr(cp).encode()) == chars.contains(cp), hex(cp)
    assert words(automaton) == encoded_lengths(chars)  # and so nothing else is accepted


@given(char_classes)
@settings(max_examples=100, deadline=None)
def test_minimal_and_in_the_promised_form(chars):
    automaton = utf8_automaton(chars)
    rows = [tuple(row) for row in automaton.edges.tolist()]
    assert rows == sorted(rows)
    outgoing = {state: [] for state in range(automaton.n_states)}
    for source, low, high, target in rows:
        if outgoing[source]:
            _, previous_high, previous_target = outgoing[source][-1]
            assert previous_high < low
            assert (previous_high + 1, previous_target) != (low, target), "edges that touch are one edge"
        outgoing[source].append((low, high, target))
    assert not outgoing[FINAL]
    inner = [tuple(outgoing[state]) for state in range(2, automaton.n_states)]
    assert all(inner) and len(set(inner)) == len(inner)  # acyclic, no two nodes alike: minimal


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
        b"\xc3",
        b"\xf0\x9f\x98",
        b"aa",
        b"\xc3\xa9\xa9",
    ],
)
def test_ill_formed_utf8_is_refused(data):
    assert not accepts(utf8_automaton(ANY), data)


def test_any_character_is_the_table_of_well_formed_utf8():
    # Unicode standard, table 3-7: the rows for the first byte are C2..DF, E0, E1..EC, ED, EE..EF, F0, F1..F3, F4
    first_bytes = [(low, high) for source, low, high, _ in utf8_automaton(ANY).edges.tolist() if source == ENTRY]
    expected = [(0, 0x7F), (0xC2, 0xDF), (0xE0, 0xE0), (0xE1, 0xEC), (0xED, 0xED), (0xEE, 0xEF)]
    assert first_bytes == [*expected, (0xF0, 0xF0), (0xF1, 0xF3), (0xF4, 0xF4)]
    assert words(utf8_automaton(ANY)) == [0, 128, 1920, 61440, 1048576]


def test_empty_class():
    automaton = utf8_automaton(EMPTY)
    assert automaton.edges.shape == (0, 4) and automaton.n_states == 2


def test_cached_and_read_only():
    automaton = utf8_automaton(CharClass.of("äß"))
    assert utf8_automaton(CharClass.of("ßä")) is automaton
    with pytest.raises(ValueError):
        automaton.edges[0, 0] = 5
