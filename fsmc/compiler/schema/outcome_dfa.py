"""DFAs that tell more than yes or no: the state in which a text ends has an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.counting import count_strings, is_finite
from fsmc.compiler.automata.dfa import DFA, frozen_array
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.product import explore, joint_classes
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas

MAX_JOINT_STATES = 400_000


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeDFA:
    """A DFA over bytes whose accepting states are told apart. State 0 is DEAD; every other state reaches an outcome.

    byte_class: uint8[256]; delta: int32[n_states, n_classes], 0 where the text cannot go on; outcome: int32[n_states], an index
    into ``vectors``, or -1 where the text may not end; vectors: for each outcome, what is true of the texts that end so.
    """

    byte_class: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.int32]
    outcome: npt.NDArray[np.int32]
    start: int
    vectors: tuple[tuple[bool, ...], ...]

    def __post_init__(self) -> None:
        for name, dtype, shape in (
            ("byte_class", np.uint8, (256,)),
            ("delta", np.int32, (None, None)),
            ("outcome", np.int32, (len(self.delta),)),
        ):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), dtype, shape))

    @classmethod
    def of(cls, dfa: DFA) -> OutcomeDFA:
        """The texts of a plain DFA, with one outcome of which there is nothing to say."""
        return cls(dfa.byte_class, dfa.delta, np.where(dfa.accepting, 0, -1).astype(np.int32), dfa.start, ((),))

    @property
    def n_states(self) -> int:
        """Number of states, DEAD included."""
        return int(self.delta.shape[0])

    def run(self, data: bytes) -> tuple[bool, ...] | None:
        """The vector of the outcome of a text, None if it is not accepted."""
        state = self.start
        for byte in data:
            state = int(self.delta[state, self.byte_class[byte]])
        return self.vectors[self.outcome[state]] if self.outcome[state] >= 0 else None

    def only(self, outcome: int | None = None) -> DFA:
        """The plain DFA of the texts with this outcome (None: with any)."""
        accepting = self.outcome >= 0 if outcome is None else self.outcome == outcome
        return DFA.from_arrays(self.byte_class, self.delta, accepting, self.start)

    def size(self, outcome: int, at_most: int = 1000) -> int | None:
        """How many texts have this outcome, counted up to ``at_most`` states; None if infinitely many, or too many to count."""
        dfa = self.only(outcome)
        if not is_finite(dfa) or dfa.n_states > at_most:
            return None
        return sum(count_strings(dfa, dfa.n_states, unit="bytes"))


def joint_component(
    universe: DFA,
    machine_of: Callable[[int], DFA],
    must: int,
    watches: Sequence[int],
    table: Formulas,
    *,
    max_states: int = MAX_JOINT_STATES,
) -> OutcomeDFA:
    """The texts of ``universe`` of which ``must`` holds; their outcomes tell which of ``watches`` hold.

    ``machine_of`` gives the DFA of each atom of the formulas. All run at once, as a product. Raises LimitExceeded if that
    has more than ``max_states`` states.

    Words over a and b that hold an a, told apart by whether they hold a b:

    >>> from fsmc.compiler.schema.format_machine import machine
    >>> table = Formulas()
    >>> a, b = table.atom(".*a.*"), table.atom(".*b.*")
    >>> words = joint_component(machine("[ab]*"), lambda atom: machine(table.payload(atom)), a, [b], table)
    >>> words.run(b"aa"), words.run(b"ab"), words.run(b"b")
    ((False,), (True,), None)
    """
    joint = _Joint.of(universe, machine_of, (must, *watches), table, max_states)
    outcome_of = np.full(len(joint.combinations), -1, np.int32)
    vectors: dict[tuple[bool, ...], int] = {}
    for i, known in enumerate(joint.combinations):
        if _holds(must, known, table):
            vector = tuple(_holds(watch, known, table) for watch in watches)
            outcome_of[i] = vectors.setdefault(vector, len(vectors))
    outcome = np.where(joint.complete, outcome_of[joint.combination], -1).astype(np.int32)
    return trimmed(joint.byte_class, joint.delta, outcome, joint.start, tuple(vectors))


def joint_satisfiable(universe: DFA, machine_of: Callable[[int], DFA], formula: int, table: Formulas) -> bool:
    """Whether some text of ``universe`` satisfies the formula: as `joint_component`, which it does not build."""
    joint = _Joint.of(universe, machine_of, (formula,), table, MAX_JOINT_STATES)
    seen = np.unique(joint.combination[joint.complete])
    return any(_holds(formula, joint.combinations[i], table) for i in seen)


@dataclass(frozen=True, slots=True, eq=False)
class _Joint:
    """All machines at once: each state knows which combination of atoms holds of the texts that end there."""

    byte_class: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.int32]
    complete: npt.NDArray[np.bool_]
    start: int
    combination: npt.NDArray[np.int64]
    combinations: list[dict[int, bool]]

    @classmethod
    def of(
        cls,
        universe: DFA,
        machine_of: Callable[[int], DFA],
        formulas: Sequence[int],
        table: Formulas,
        max_states: int,
    ) -> _Joint:
        machines: dict[int, DFA] = {}
        for atom in set().union(*map(table.atoms, formulas)):
            table.clock.check()
            machines[atom] = machine_of(atom)
        order = sorted(machines, key=lambda a: machines[a].n_states)
        byte_class, delta, start = universe.byte_class, universe.delta, universe.start
        complete = universe.accepting
        combination = np.zeros(universe.n_states, np.int64)
        rows: list[tuple[bool, ...]] = [()]
        for atom in order:
            table.clock.check()
            dfa = machines[atom]
            left = DFA(byte_class, delta, complete, start)
            byte_class, columns = joint_classes(left, dfa)
            pairs, raw = explore(
                left,
                dfa,
                columns,
                np.array([[start, dfa.start]]),
                True,
                False,
                max_states=max_states,
                max_seconds=table.clock.remaining,
            )
            delta = np.zeros((len(raw) + 1, raw.shape[1]), np.int32)
            delta[1:] = raw + 1
            start = 1
            complete = np.concatenate(([False], complete[pairs[:, 0]]))
            both = 2 * combination[pairs[:, 0]] + dfa.accepting[pairs[:, 1]]
            values, which = np.unique(both, return_inverse=True)
            rows = [(*rows[v // 2], bool(v % 2)) for v in values.tolist()]
            combination = np.concatenate(([0], which))
        known = [dict(zip(order, row, strict=True)) for row in rows]
        return cls(byte_class, delta, complete, start, combination, known)


def _holds(formula: int, known: dict[int, bool], table: Formulas) -> bool:
    return table.substitute(formula, lambda atom: TRUE if known[atom] else FALSE) == TRUE


def trimmed(
    byte_class: np.ndarray, delta: np.ndarray, outcome: np.ndarray, start: int, vectors: tuple[tuple[bool, ...], ...]
) -> OutcomeDFA:
    """The machine without states that reach no outcome, and without outcomes that no state has; minimal."""
    accepting = outcome >= 0
    if len(vectors) == 1:  # a plain DFA: minimize it as one
        dfa = minimize(DFA.from_arrays(byte_class, delta, accepting, start))
        final = np.where(dfa.accepting, 0, -1).astype(np.int32)
        return OutcomeDFA(dfa.byte_class, dfa.delta, final, dfa.start, vectors)
    source, column = np.nonzero(delta)
    target = delta[source, column]
    live = accepting.copy()
    while True:
        grown = live.copy()
        grown[source[live[target]]] = True
        if (grown == live).all():
            break
        live = grown
    delta = np.where(live[delta], delta, 0).astype(np.int32)
    reachable = np.zeros(len(delta), np.bool_)
    frontier = np.array([start]) if live[start] else np.array([], np.int64)
    while len(frontier):
        reachable[frontier] = True
        frontier = np.unique(delta[frontier])
        frontier = frontier[~reachable[frontier] & (frontier != 0)]
    kept = np.flatnonzero(reachable)
    number = np.zeros(len(delta), np.int32)
    number[kept] = np.arange(1, len(kept) + 1)
    table = np.zeros((len(kept) + 1, delta.shape[1]), np.int32)
    table[1:] = number[delta[kept]]
    final = np.full(len(kept) + 1, -1, np.int32)
    final[1:] = outcome[kept]
    used = sorted(set(final[final >= 0].tolist()))
    rename = np.full(len(vectors) + 1, -1, np.int32)
    rename[used] = np.arange(len(used))
    return OutcomeDFA(byte_class, table, rename[final], int(number[start]), tuple(vectors[i] for i in used))
