"""Machines made as they are walked: equal to those known as a whole, whatever the order, the limits and the threads."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from lazy_examples import Copying, DifferentItems, is_different_items, lazy_copy
from rsm_examples import EXAMPLES, balanced_brackets, sums

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.automata.tables import UNKNOWN, Tables, find_return, put_return, return_table
from fsmc.compiler.errors import LimitExceeded, MachineError

LENGTH = {"balanced_brackets": 8, "sums": 5, "parity": 4}


def chain(n: int) -> RSM:
    """Exactly ``n`` times any byte."""
    delta = np.zeros((n + 2, 1), np.int32)
    delta[1 : n + 1, 0] = np.arange(2, n + 2)
    return RSM.from_dfa(DFA(np.zeros(256, np.uint8), delta, np.arange(n + 2) == n + 1, 1))


@pytest.mark.parametrize("name", EXAMPLES)
def test_accepts_what_the_original_accepts(name: str) -> None:
    example = EXAMPLES[name]
    machine = lazy_copy(example.machine)
    for length in range(LENGTH[name] + 1):
        for symbols in product(example.alphabet, repeat=length):
            assert machine.matches(bytes(symbols)) == example.accepts(bytes(symbols))
    assert all(machine.matches(text) for text in example.accepted)


def test_only_what_is_met_is_built_and_only_once() -> None:
    copying = Copying(sums())
    assert not copying.machine.matches(b"[[1")
    once = list(copying.built)
    assert len(once) == len(set(once)) < sums().n_states
    assert not copying.machine.matches(b"[[1") and copying.built == once
    assert copying.machine.matches(b"[[1+2],[]]") and len(copying.built) == len(set(copying.built)) > len(once)


def test_equal_keys_are_one() -> None:
    machine = lazy_copy(balanced_brackets())
    assert machine.new_state("x") == machine.new_state("x") != machine.new_state("y")
    plain, recorded = machine.new_frame("x"), machine.new_frame("y", records=True)
    assert machine.new_frame("x") == plain and machine.frame_key(recorded) == "y"
    assert machine.call(1, plain) == machine.call(1, plain) != machine.call(1, recorded)
    assert len({machine.exit(0), machine.exit(1), machine.exit_redo(0), machine.call(0, 0)}) == 4
    assert machine.action(machine.exit_redo(3)) == (2, 3, 0)


def assert_all_inside(tables: Tables) -> None:
    """Whatever a kernel could read by following what is visible lies inside the arrays of this snapshot."""
    for start, base, _, _ in tables.states.tolist():
        if start == UNKNOWN:
            continue
        row = tables.edges[start + tables.class_maps[base : base + 256].astype(np.int64)]
        assert (
            len(tables.class_maps) >= base + 256
            and row.max() < len(tables.states)
            and -row.min() <= len(tables.actions)
        )
        for code in row[row < 0]:
            kind, operand, _ = tables.actions[-1 - code].tolist()
            assert kind or operand < len(tables.states)
    assert (tables.returns[:, 1] < len(tables.states)).all()


@pytest.mark.parametrize("original", [chain(3000), sums()])
def test_old_tables_never_show_what_lies_beyond_their_end(original: RSM) -> None:
    machine = lazy_copy(original)
    snapshots = [machine.tables]
    here = machine.initial
    for byte in b"[[1,2]]" if original.n_frames else b"x" * 3000:
        here = machine.step(here, byte)
        snapshots.append(machine.tables)
    for frame in range(300):
        machine.set_return(1000 + frame, 0, machine.new_state(("returned", frame)))
        snapshots.append(machine.tables)
    snapshots = list({id(tables): tables for tables in snapshots}.values())
    assert len(snapshots) > 4
    for tables in snapshots:
        assert_all_inside(tables)
        assert all(not array.flags.writeable for array in tables)


def test_limits_leave_the_machine_as_it_was() -> None:
    for limit in ({"max_states": 500}, {"max_bytes": 40_000}):
        machine = lazy_copy(chain(3000), **limit)
        (name,) = limit
        with pytest.raises(LimitExceeded, match=name):
            machine.matches(b"x" * 3000)
        states, size = machine.n_states, machine.nbytes
        for _ in range(2):
            with pytest.raises(LimitExceeded, match=name):
                machine.matches(b"x" * 3000)
        assert (machine.n_states, machine.nbytes) == (states, size)
        assert machine.run(b"x" * 100) == lazy_copy(chain(3000)).run(b"x" * 100)
        assert size <= limit.get("max_bytes", size)


def test_threads_share_a_machine() -> None:
    machine = lazy_copy(sums())
    rng = random.Random(0)
    texts = [bytes(rng.choices(b"[[]],,+01", k=rng.randrange(1, 9))) for _ in range(400)]
    expected = [EXAMPLES["sums"].accepts(text) for text in texts]
    with ThreadPoolExecutor(32) as pool:
        orders = [rng.sample(range(len(texts)), len(texts)) for _ in range(32)]
        for verdicts in pool.map(lambda order: [(i, machine.matches(texts[i])) for i in order], orders):
            assert all(verdict == expected[i] for i, verdict in verdicts)


def test_recorded_calls_depend_on_what_they_read() -> None:
    machine = DifferentItems().machine
    n_accepted = 0
    for length in range(8):
        for symbols in product(b"ab,", repeat=length):
            text = b"(" + bytes(symbols) + b")"
            assert machine.matches(text) == is_different_items(text), text
            n_accepted += machine.matches(text)
    assert n_accepted > 100
    inside = machine.run(b"(a,bc")
    assert inside is not None
    with pytest.raises(MachineError, match="not known here"):
        machine.run(b",", inside)
    assert machine.run(b"c", inside) == inside


def test_return_tables() -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 1 << 62, 3000))
    targets = rng.integers(0, 1 << 30, len(keys))
    table = return_table(keys[:2500], targets[:2500])
    for key, target in zip(keys[2500:].tolist(), targets[2500:].tolist(), strict=True):
        put_return(memoryview(table.reshape(-1)), key, target)
    assert [find_return(table, k >> 32, k & 0xFFFFFFFF) for k in keys.tolist()] == targets.tolist()
    assert find_return(table, 1, 2) == UNKNOWN


# ── flatten ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def depth_of(machine: RSM, text: bytes) -> int:
    """The most calls that are open at any time while ``text`` is read."""
    here, deepest = machine.initial, 0
    for byte in text:
        here = machine.step(here, byte)
        deepest = max(deepest, len(here.stack))
    return deepest


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_flatten_forbids_what_is_deeper(name: str, depth: int) -> None:
    example = EXAMPLES[name]
    dfa = example.machine.flatten(depth)
    for length in range(LENGTH[name] + 1):
        for symbols in product(example.alphabet, repeat=length):
            text = bytes(symbols)
            allowed = example.accepts(text) and depth_of(example.machine, text) <= depth
            assert dfa.matches(text) == allowed, text
    assert lazy_copy(example.machine).flatten(depth).equivalent(dfa)


def test_flatten_has_limits() -> None:
    assert balanced_brackets().flatten(50).matches(b"[" * 50 + b"]" * 50)
    assert balanced_brackets().flatten(0).is_empty
    with pytest.raises(LimitExceeded, match="max_states=20"):
        balanced_brackets().flatten(50, max_states=20)
    with pytest.raises(ValueError, match="negative"):
        balanced_brackets().flatten(-1)
    with pytest.raises(MachineError, match="keeps track of texts"):
        DifferentItems().machine.flatten(3)


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_views_show_what_is_built_and_build_nothing() -> None:
    copying = Copying(balanced_brackets())
    machine = copying.machine
    assert ">? 1" in machine.dump() and not copying.built
    assert machine.matches(b"[[]]")
    built = list(copying.built)
    table, drawing = machine.dump(), machine.to_dot()
    assert copying.built == built
    assert (
        table.startswith(f"LazyRSM with {machine.n_states} states (0 is DEAD) so far") and "?" in table.splitlines()[0]
    )
    assert "call, frame 1" in table and "exit 0" in table and "frame 1 returns on outcome 0: " in table
    assert "style=dashed" in drawing and "doublecircle" in drawing and 'label="outcome 0"' in drawing
    assert "call, frame 0, recorded" in recorded_dump()


def recorded_dump() -> str:
    machine = DifferentItems().machine
    assert machine.run(b"(a") is not None
    return machine.dump()


def test_configurations_are_those_of_the_original() -> None:
    original = sums()
    machine = lazy_copy(original)
    for text in (b"[1+20", b"[[1", b"[]", b"[1,[2+"):
        there, here = original.run(text), machine.run(text)
        assert there is not None and here is not None
        names = machine.state_key(here.state), tuple(machine.frame_key(frame) for frame in here.stack)
        assert Configuration(*names) == there
