"""The reference semantics of recursive state machines, on machines built by hand and oracles that know no machines."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from rsm_examples import EXAMPLES, balanced_brackets, parity, sums

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.rsm import CALL, EXIT, RSM, Configuration
from fsmc.compiler.errors import MachineError

LENGTH = {"balanced_brackets": 9, "sums": 5, "parity": 4}


@pytest.mark.parametrize("name", EXAMPLES)
def test_accepts_exactly_the_language(name: str) -> None:
    example = EXAMPLES[name]
    n_accepted = 0
    for length in range(LENGTH[name] + 1):
        for symbols in product(example.alphabet, repeat=length):
            text = bytes(symbols)
            assert example.machine.matches(text) == example.accepts(text), text
            n_accepted += example.accepts(text)
    assert n_accepted > 5
    for text in example.accepted:
        assert example.accepts(text) and example.machine.matches(text), text


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_reachable_configuration_has_a_completion(name: str) -> None:
    """What the other stages rely on: a byte is allowed only if some text goes on from there."""
    example = EXAMPLES[name]
    layer = {example.machine.initial}
    for _ in range(6):
        steps = (example.machine.step(here, byte) for here in layer for byte in range(256))
        layer = {there for there in steps if there is not None}
        for here in layer:
            frontier = {here}
            for _ in range(20):
                if any(example.machine.is_complete(there) for there in frontier):
                    break
                reached = (example.machine.step(there, byte) for there in frontier for byte in example.alphabet)
                frontier = {there for there in reached if there is not None and len(there.stack) <= len(here.stack) + 1}
            else:
                pytest.fail(f"{here} leads nowhere")


def test_one_byte_may_close_several_components() -> None:
    machine = sums()
    inside = machine.run(b"[1+20")
    after = machine.run(b",", inside)
    assert inside is not None and after is not None
    assert (len(inside.stack), len(after.stack)) == (3, 1)  # number, sum and list open; then only the list


def test_outcomes_choose_the_return() -> None:
    machine = parity()
    even, odd = machine.run(b"{(2;}"), machine.run(b"{(3;}")
    assert even is not None and odd is not None and even != odd
    assert machine.run(b"<3") is not None and machine.run(b"<3;") is None  # a dead return refuses the exit's byte
    assert not machine.is_complete(machine.run(b"=3"))  # and the end of the text
    assert machine.is_complete(machine.run(b"=32"))


def test_an_exit_without_an_open_call_is_dead() -> None:
    machine = balanced_brackets()
    inside = machine.run(b"[")
    assert machine.step(Configuration(inside.state), ord("]")) is None


def test_a_dfa_is_an_rsm_without_calls() -> None:
    dfa = DFA.from_arrays(np.arange(256) == ord("a"), [[0, 1], [0, 2], [0, 1]], [False, True, False], start=2)
    machine = RSM.from_dfa(dfa)
    assert machine.is_regular and not balanced_brackets().is_regular
    assert machine.delta is dfa.delta or np.shares_memory(machine.delta, dfa.delta)
    for length in range(6):
        for symbols in product(b"ab", repeat=length):
            assert machine.matches(bytes(symbols)) == dfa.matches(bytes(symbols))
    assert machine.to_dfa().equivalent(dfa)
    with pytest.raises(MachineError, match="calls and exits"):
        balanced_brackets().to_dfa()
    assert RSM.from_dfa(DFA.from_arrays(np.zeros(256, int), [[0]], [False], 0)).matches(b"") is False


def parts(**changes: object) -> dict[str, object]:
    """The constructor's arguments of a small valid machine, with some changed."""
    valid: dict[str, object] = {
        "byte_class": np.zeros(256, np.uint8),
        "delta": np.array([[0], [-1], [-2]], np.int32),
        "actions": np.array([[CALL, 2, 0], [EXIT, 0, 0]], np.int32),
        "returns": np.array([[1]], np.int32),
        "final_outcome": np.array([-1, 0, -1], np.int32),
        "start": 1,
    }
    return {**valid, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": np.array([[0], [-3], [-2]], np.int32)}, "delta: -3"),
        ({"delta": np.array([[0], [3], [-2]], np.int32)}, "delta: -2..3"),
        ({"delta": np.array([[1], [-1], [-2]], np.int32)}, "state 0 is DEAD"),
        ({"delta": np.array([[0], [-1], [-2]], np.int64)}, "delta must be an array of int32, not int64"),
        ({"byte_class": np.ones(256, np.uint8)}, "byte_class"),
        ({"actions": np.array([[CALL, 0, 0], [EXIT, 0, 0]], np.int32)}, "target of a call"),
        ({"actions": np.array([[CALL, 2, 1], [EXIT, 0, 0]], np.int32)}, "frame of a call"),
        ({"actions": np.array([[CALL, 2, 0], [EXIT, 1, 0]], np.int32)}, "outcome of an exit"),
        ({"actions": np.array([[CALL, 2, 0], [7, 0, 0]], np.int32)}, "kind of an action"),
        ({"actions": np.array([[CALL, 2], [EXIT, 0]], np.int32)}, "actions has shape"),
        ({"returns": np.array([[5]], np.int32)}, "returns"),
        ({"final_outcome": np.array([-1, 1, -1], np.int32)}, "final_outcome"),
        ({"final_outcome": np.array([0, 0, -1], np.int32)}, "state 0 is DEAD"),
        ({"start": 3}, "start is 3"),
    ],
)
def test_arrays_that_are_no_machine_are_refused(changes: dict[str, object], message: str) -> None:
    RSM(**parts())  # type: ignore[arg-type]
    with pytest.raises(MachineError, match=message):
        RSM(**parts(**changes))  # type: ignore[arg-type]


def test_arrays_are_read_only() -> None:
    machine = RSM(**parts())  # type: ignore[arg-type]
    for array in (machine.delta, machine.actions, machine.returns, machine.final_outcome, machine.byte_class):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
