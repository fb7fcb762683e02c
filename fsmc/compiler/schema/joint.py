"""Many conditions on one text, all at once: a machine whose end tells which of them hold.

A *sorter* is a DFA whose states carry labels, a label being the set of atoms that hold of the texts that end there. All
enumerations are one sorter (`enumeration_sorter`), and each other atom's machine is one; their product is made two by
two, the smallest first, so that a thousand conditions of which few hold at once cost n log n.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.product import explore, joint_classes
from fsmc.compiler.schema.bits import as_bools, as_mask, told_apart
from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA, trimmed

MAX_JOINT_STATES = 400_000

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class Sorter:
    """label: int32[n_states] of ``dfa``, 0 at DEAD (its ``accepting`` says nothing); holds: for each label the atoms that
    hold, none of them for label 0."""

    dfa: DFA
    label: npt.NDArray[np.int32]
    holds: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, atom: int, dfa: DFA) -> Sorter:
        """The sorter of one condition."""
        return cls(dfa, dfa.accepting.astype(np.int32), ((), (atom,)))

    @classmethod
    def of_outcomes(cls, machine: OutcomeDFA, holds: tuple[tuple[int, ...], ...]) -> Sorter:
        """From a machine whose outcome i says that the atoms ``holds[i]`` hold."""
        labelled = machine.outcome >= 0
        label = np.where(labelled, machine.outcome + 1, 0).astype(np.int32)
        return cls(DFA(machine.byte_class, machine.delta, labelled, machine.start), label, ((), *holds))

    def times(self, other: Sorter, needs_self: bool, table: Formulas, max_states: int) -> Sorter:
        """Both at once. needs_self: only texts that this one has not given up on."""
        byte_class, columns = joint_classes(self.dfa, other.dfa)
        pairs, raw = explore(
            self.dfa,
            other.dfa,
            columns,
            np.array([[self.dfa.start, other.dfa.start]]),
            needs_self,
            False,
            max_states=max_states,
            max_seconds=table.clock.remaining,
        )
        delta = np.zeros((len(raw) + 1, raw.shape[1]), np.int32)
        delta[1:] = raw + 1
        n = len(other.holds)
        both = np.zeros(len(delta), np.int64)
        both[1:] = self.label[pairs[:, 0]].astype(np.int64) * n + other.label[pairs[:, 1]]
        values, label = np.unique(both, return_inverse=True)
        holds = tuple(self.holds[v // n] + other.holds[v % n] for v in values.tolist())
        dfa = DFA(byte_class, delta, label > 0, 1)
        return Sorter(dfa, label.reshape(-1).astype(np.int32), holds)


Sorters = Callable[[Iterable[int]], list[Sorter]]
"""Given atoms, sorters that tell them apart; each atom is told by one of them."""


def values_by_atoms(enumerations: Iterable[tuple[int, Iterable[Value]]]) -> dict[Value, tuple[int, ...]]:
    """Value → the atoms that list it, from (atom, values)."""
    found: dict[Value, tuple[int, ...]] = {}
    for atom, values in enumerations:
        for value in values:
            found[value] = (*found.get(value, ()), atom)
    return found


def joint_component(
    universe: DFA,
    sorters: Sorters,
    must: int,
    watches: Sequence[int],
    table: Formulas,
    *,
    max_states: int = MAX_JOINT_STATES,
) -> OutcomeDFA:
    """The texts of ``universe`` of which ``must`` holds; their outcomes tell which of ``watches`` hold.

    Raises LimitExceeded if the product of the atoms' machines has more than ``max_states`` states.

    Words over a and b that hold an a, told apart by whether they hold a b:

    >>> from fsmc.compiler.schema.format_machine import machine
    >>> table = Formulas()
    >>> a, b = table.atom(".*a.*"), table.atom(".*b.*")
    >>> sorters = lambda atoms: [Sorter.of(atom, machine(table.payload(atom))) for atom in atoms]
    >>> words = joint_component(machine("[ab]*"), sorters, a, [b], table)
    >>> words.run(b"aa"), words.run(b"ab"), words.run(b"b")
    ((False,), (True,), None)
    """
    joint, complete = _product(universe, sorters, (must, *watches), table, max_states)
    good, *watched = _cases(joint, (must, *watches), table)
    which, vectors = told_apart(good, watched, len(joint.holds))
    outcome = np.where(complete, which[joint.label], -1).astype(np.int32)
    return trimmed(joint.dfa.byte_class, joint.dfa.delta, outcome, joint.dfa.start, vectors)


def joint_satisfiable(universe: DFA, sorters: Sorters, formula: int, table: Formulas) -> bool:
    """Whether some text of ``universe`` satisfies the formula: as `joint_component`, which it does not build."""
    joint, complete = _product(universe, sorters, (formula,), table, MAX_JOINT_STATES)
    held = as_bools(_cases(joint, (formula,), table)[0], len(joint.holds))
    return bool(held[joint.label[complete]].any())


def _product(
    universe: DFA, sorters: Sorters, formulas: Sequence[int], table: Formulas, max_states: int
) -> tuple[Sorter, npt.NDArray[np.bool_]]:
    """(the sorter of all atoms of the formulas on the texts of ``universe``, bool[n_states] where such a text is complete)."""
    max_states = min(max_states, table.clock.max_states)
    every = sorters(sorted(frozenset().union(*map(table.atoms, formulas))))
    queue = [(sorter.dfa.n_states, i, sorter) for i, sorter in enumerate(every)]
    heapq.heapify(queue)
    made = len(queue)
    while len(queue) > 1:
        table.clock.check()
        left, right = heapq.heappop(queue)[2], heapq.heappop(queue)[2]
        both = left.times(right, False, table, max_states)
        made += 1
        heapq.heappush(queue, (both.dfa.n_states, made, both))
    inside = Sorter.of(-1, universe)
    if queue:
        inside = inside.times(queue[0][2], True, table, max_states)
    # the universe is one more condition, -1: apart from what the formulas speak of
    complete = np.array([-1 in holds for holds in inside.holds], np.bool_)[inside.label]
    return inside, complete


def _cases(joint: Sorter, formulas: Sequence[int], table: Formulas) -> list[int]:
    """For each formula the labels of which it holds."""
    n = len(joint.holds)
    having: dict[int, list[int]] = {}
    for label, atoms in enumerate(joint.holds):
        for atom in atoms:
            having.setdefault(atom, []).append(label)
    memo: dict[int, int] = {}
    everything = (1 << n) - 1
    return [table.cases(f, lambda atom: as_mask(having.get(atom, ()), n), everything, memo) for f in formulas]
