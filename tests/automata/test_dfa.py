"""The DFA type: what its constructors refuse, trimming, running."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_machines import PlainMachine, all_words, plain_machines

from fsmc.compiler.automata.dfa import DEAD, DFA, find_live, trim
from fsmc.compiler.errors import MachineError


def parts(**changes: object) -> dict[str, object]:
    """Arguments of a small valid machine (a+), with some changed."""
    valid: dict[str, object] = {
        "byte_class": (np.arange(256) == ord("a")).astype(np.uint8),
        "delta": np.array([[0, 0], [0, 2], [0, 2]], np.int32),
        "accepting": np.array([False, False, True]),
        "start": 1,
    }
    return {**valid, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"byte_class": np.zeros(255, np.uint8)}, r"byte_class has shape \(255,\), expected \(256,\)"),
        ({"byte_class": np.zeros(256, np.int32)}, "byte_class must be an array of uint8, not int32"),
        ({"byte_class": np.full(256, 2, np.uint8)}, "byte_class names column 2, but delta has 2 columns"),
        ({"delta": np.array([[0, 0], [0, 3], [0, 2]], np.int32)}, r"delta\[1, 1\] is 3, outside 0..2"),
        ({"delta": np.array([[0, 0], [0, 2], [-1, 2]], np.int32)}, r"delta\[2, 0\] is -1, outside 0..2"),
        ({"delta": np.array([[0, 1], [0, 2], [0, 2]], np.int32)}, "state 0 is DEAD"),
        ({"delta": [[0, 0], [0, 2], [0, 2]]}, "delta must be an array of int32"),
        ({"delta": np.zeros((0, 0), np.int32), "accepting": np.zeros(0, bool)}, "at least the DEAD state"),
        ({"accepting": np.array([True, False, True])}, "state 0 is DEAD"),
        ({"accepting": np.array([False, True])}, "accepting has shape"),
        ({"start": 3}, "start is 3, outside 0..2"),
        ({"start": -1}, "start is -1"),
    ],
)
def test_constructor_refuses(changes: dict[str, object], message: str) -> None:
    assert DFA(**parts()).matches(b"aa")  # type: ignore[arg-type]
    with pytest.raises(MachineError, match=message):
        DFA(**parts(**changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": [[0, 0], [0, 3], [0, 2]]}, r"delta\[1, 1\] is 3, but there are 3 states"),
        ({"delta": [[0.0, 0], [0, 1], [0, 2]]}, "delta has dtype float64"),
        ({"delta": [0, 1, 2]}, "shapes"),
        ({"accepting": [True, False]}, "shapes"),
        ({"byte_class": np.full(256, 2)}, "byte_class holds 2..2"),
        ({"byte_class": np.full(256, -1)}, "byte_class holds -1..-1"),
        ({"start": 3}, "start is 3, but there are 3 states"),
        ({"delta": np.zeros((0, 2), int), "accepting": np.zeros(0, int), "start": 0}, "start is 0, but there are 0"),
    ],
)
def test_from_arrays_refuses(changes: dict[str, object], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        DFA.from_arrays(**parts(**changes))  # type: ignore[arg-type]


def test_arrays_are_read_only_and_the_callers_stay_writable() -> None:
    arguments = parts()
    dfa = DFA(**arguments)  # type: ignore[arg-type]
    for array in (dfa.byte_class, dfa.delta, dfa.accepting):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    arguments["delta"][1, 0] = 0  # type: ignore[index]
    with pytest.raises(AttributeError):
        dfa.start = 2  # type: ignore[misc]


def test_equality_is_identity_and_dfas_are_hashable() -> None:
    one, other = DFA(**parts()), DFA(**parts())  # type: ignore[arg-type]
    assert one != other and one.equivalent(other)
    assert len({one, other, one}) == 2


@given(plain_machines(max_states=7))
@settings(max_examples=200, deadline=None)
def test_trimming_keeps_the_language(machine: PlainMachine) -> None:
    dfa = machine.to_byte_dfa()
    for word in all_words(5):
        assert dfa.matches(bytes(b"a\x80\xff"[symbol] for symbol in word)) == machine.accepts(word)
    assert not dfa.matches(b"z")


@given(plain_machines(max_states=7))
@settings(max_examples=200, deadline=None)
def test_trimmed_states_are_reachable_and_live_and_numbered_breadth_first(machine: PlainMachine) -> None:
    dfa = machine.to_byte_dfa()
    order = [dfa.start]
    for state in order:
        for byte in range(256):
            target = int(dfa.delta[state, dfa.byte_class[byte]])
            if target != DEAD and target not in order:
                order.append(target)
    if dfa.is_empty:
        assert dfa.n_states == dfa.n_classes == 1
        return
    assert order == list(range(1, dfa.n_states))
    live = set(np.flatnonzero(dfa.accepting).tolist())
    for _ in range(dfa.n_states):
        live |= {state for state in order if live & set(dfa.delta[state].tolist())}
    assert live == set(order)


@given(plain_machines(max_states=6), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_numbering_of_states_and_columns_does_not_matter(machine: PlainMachine, random: object) -> None:
    """Shuffled states, shuffled and duplicated columns: the trimmed arrays are the same."""
    n = len(machine.table)
    order = list(range(n))
    random.shuffle(order)  # type: ignore[attr-defined]
    place = {state: i for i, state in enumerate(order)}
    columns = [0, 1, 2, 3, 0, 1, 2, 3]
    random.shuffle(columns)  # type: ignore[attr-defined]
    delta = [[place[t] if (t := (*machine.table[q], -1)[c]) >= 0 else -1 for c in columns] for q in order]
    byte_class = np.empty(256, int)
    for byte in range(256):
        symbol = b"a\x80\xff".find(byte) if byte in b"a\x80\xff" else 3
        byte_class[byte] = random.choice([i for i, c in enumerate(columns) if c == symbol])  # type: ignore[attr-defined]
    shuffled = DFA.from_arrays(byte_class, delta, [machine.accepting[q] for q in order], place[0])
    plain = machine.to_byte_dfa()
    assert np.array_equal(shuffled.byte_class, plain.byte_class)
    assert np.array_equal(shuffled.delta, plain.delta)
    assert np.array_equal(shuffled.accepting, plain.accepting)


def test_columns_that_differ_late_are_kept_apart() -> None:
    """Equal in 300 rows and different in the last: merging by the first rows, or by a weak hash, would be wrong."""
    n = 300
    delta = np.minimum(np.arange(n)[:, None] + 1, n - 1).repeat(3, axis=1)
    delta[n - 2, 2] = -1
    dfa = DFA.from_arrays(np.arange(256) % 3, delta, np.arange(n) == n - 1, start=0)
    assert dfa.n_classes == 2
    prefix = bytes([0]) * (n - 2)
    assert [dfa.matches(prefix + bytes([byte])) for byte in (0, 1, 2)] == [True, True, False]


def test_long_chains_and_cycles_need_no_recursion() -> None:
    n = 100_000
    chain = np.minimum(np.arange(n, dtype=np.int32) + 1, n - 1)[:, None]
    accepting = np.zeros(n, np.bool_)
    accepting[n - 1] = True
    dfa = trim(np.zeros(256, np.uint8), chain, accepting, 0)
    assert dfa.n_states == n + 1 and dfa.matches(b"x" * (n - 1)) and not dfa.matches(b"x" * (n - 2))
    ring = ((np.arange(n, dtype=np.int32) + 1) % n)[:, None]
    assert trim(np.zeros(256, np.uint8), ring, accepting, 5).n_states == n + 1


def test_find_live_from_several_starts() -> None:
    delta = np.array([[1], [0], [3], [-1], [3]], np.int32)  # 0 ⇄ 1 dead; 2 → 3 accepting; 4 → 3
    accepting = np.array([False, False, False, True, False])
    assert find_live(delta, accepting, np.array([0, 2])).tolist() == [False, False, True, True, False]
    assert find_live(delta, accepting, np.array([3, 4, 4])).tolist() == [False, False, False, True, True]
    assert not find_live(delta, accepting, np.array([], np.int64)).any()


def test_run_goes_on_from_a_state() -> None:
    dfa = DFA(**parts())  # type: ignore[arg-type]
    assert dfa.run(b"") == dfa.start
    assert dfa.run(b"a", dfa.run(b"a")) == dfa.run(b"aa") == 2
    assert dfa.run(b"ab") == DEAD == dfa.run(b"a", DEAD)
    assert dfa.run(bytearray(b"aa")) == 2
    with pytest.raises(MachineError, match="state 9 does not exist"):
        dfa.run(b"", 9)
    with pytest.raises(TypeError):
        dfa.run("a")  # type: ignore[arg-type]
