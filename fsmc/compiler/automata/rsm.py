"""Recursive state machines (Alur et al., "Analysis of Recursive State Machines", 2005): the one table that runs.

A DFA is an RSM without calls. A *call edge* consumes its byte, pushes a return frame and enters a component; an *exit*
pops the frame, and the frame and the exit's *outcome* together say where the caller goes on.

What a machine does with a text is defined in recursion.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.byte_groups import loop_groups
from fsmc.compiler.automata.dfa import DEAD, DFA, frozen_array
from fsmc.compiler.automata.recursion import Configuration, RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, EXIT_REDO, FOREVER, Tables, return_table
from fsmc.compiler.errors import MachineError

__all__ = ["CALL", "EXIT", "EXIT_REDO", "RSM", "Configuration"]


@dataclass(frozen=True, slots=True, eq=False)
class RSM(RecursiveMachine):
    """Deterministic recursive state machine over bytes. State 0 is DEAD.

    byte_class: uint8[256]. delta: int32[n_states, n_classes]: e > 0 a state, 0 DEAD, e < 0 row ``-1 - e`` of actions.
    actions: int32[n_actions, 3], rows (kind, target, frame) for CALL and (kind, outcome, 0) for exits.
    returns: int32[n_frames, n_outcomes], the caller's next state, 0 where that outcome is a dead end.
    final_outcome: int32[n_states], the outcome with which the text may end here, or -1. A configuration (state, return
    stack) is complete when this pops the whole stack and the last state has an outcome as well.

    The constructor checks shapes, dtypes and ranges (MachineError) and keeps read-only views of the arrays. An exit with
    no call open is dead.

    >>> from fsmc.compiler.automata.dfa import DFA
    >>> machine = RSM.from_dfa(DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0))
    >>> machine.is_regular, machine.matches(b"x"), machine.step(Configuration(machine.start), ord("x"))
    (True, True, Configuration(state=2, stack=()))
    """

    byte_class: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.int32]
    actions: npt.NDArray[np.int32]
    returns: npt.NDArray[np.int32]
    final_outcome: npt.NDArray[np.int32]
    start: int
    _tables: Tables | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        byte_class = frozen_array("byte_class", self.byte_class, np.uint8, (256,))
        delta = frozen_array("delta", self.delta, np.int32, (None, None))
        actions = frozen_array("actions", self.actions, np.int32, (None, 3))
        returns = frozen_array("returns", self.returns, np.int32, (None, None))
        final_outcome = frozen_array("final_outcome", self.final_outcome, np.int32, (delta.shape[0],))
        n_states, n_classes = delta.shape
        n_frames, n_outcomes = returns.shape
        if not n_states or not n_classes:
            raise MachineError(f"delta has shape {delta.shape}; an RSM has at least the DEAD state and one byte class")
        _check_range("byte_class", byte_class, 0, n_classes)
        _check_range("delta", delta, -len(actions), n_states)
        _check_range("returns", returns, 0, n_states)
        _check_range("final_outcome", final_outcome, -1, max(n_outcomes, 1))
        _check_range("kind of an action", actions[:, 0], CALL, EXIT_REDO + 1)
        calls, exits = actions[actions[:, 0] == CALL], actions[actions[:, 0] != CALL]
        _check_range("target of a call", calls[:, 1], DEAD + 1, n_states)
        _check_range("frame of a call", calls[:, 2], 0, n_frames)
        _check_range("outcome of an exit", exits[:, 1], 0, n_outcomes)
        if delta[DEAD].any() or final_outcome[DEAD] != -1:
            raise MachineError("state 0 is DEAD: its row must be all 0 and its final outcome -1")
        if not 0 <= self.start < n_states:
            raise MachineError(f"start is {self.start}, outside 0..{n_states - 1}")
        for name, value in zip(
            ("byte_class", "delta", "actions", "returns", "final_outcome", "start"),
            (byte_class, delta, actions, returns, final_outcome, int(self.start)),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_dfa(cls, dfa: DFA) -> RSM:
        """The same machine as an RSM with one component and no calls; the tables are shared, not copied."""
        return cls(
            dfa.byte_class,
            dfa.delta,
            actions=np.zeros((0, 3), np.int32),
            returns=np.zeros((0, 1), np.int32),
            final_outcome=np.where(dfa.accepting, 0, -1).astype(np.int32),
            start=dfa.start,
        )

    def to_dfa(self) -> DFA:
        """The same machine as a DFA, the tables shared: the inverse of `from_dfa`. MachineError if it has calls."""
        if not self.is_regular:
            raise MachineError(f"this machine has {len(self.actions)} calls and exits, which no DFA can make")
        return DFA(self.byte_class, self.delta, self.final_outcome >= 0, self.start)

    @property
    def n_states(self) -> int:
        """Number of states of all components, DEAD included."""
        return int(self.delta.shape[0])

    @property
    def n_frames(self) -> int:
        """Number of return frames."""
        return len(self.returns)

    @property
    def n_classes(self) -> int:
        """Number of byte classes: columns of ``delta``."""
        return int(self.delta.shape[1])

    @property
    def is_regular(self) -> bool:
        """Whether there are no calls and no exits: a DFA."""
        return len(self.actions) == 0

    @property
    def tables(self) -> Tables:
        """The arrays that kernels read, made on first use; those of ``delta`` are shared, not copied."""
        if self._tables is None:
            frames, outcomes = np.indices(self.returns.shape, np.int64)
            states = np.zeros((self.n_states, 4), np.int32)
            states[:, 0] = self.n_classes * np.arange(self.n_states)
            states[:, 2] = self.final_outcome
            states[:, 3] = FOREVER
            tables = Tables.of(
                edges=self.delta.reshape(-1),
                states=states,
                class_maps=self.byte_class,
                actions=self.actions,
                returns=return_table((frames << 32 | outcomes).ravel(), self.returns.ravel().astype(np.int64)),
                loops=loop_groups(self.delta, self.byte_class),
            )
            object.__setattr__(self, "_tables", tables)  # by several threads at once: equal tables, the last ones stay
            return tables
        return self._tables

    def row(self, state: int) -> npt.NDArray[np.int32]:
        """What each byte does in a state, see `RecursiveMachine.row`."""
        row: npt.NDArray[np.int32] = self.delta[state, self.byte_class]
        return row

    def code(self, state: int, byte: int) -> int:
        """One entry of `row`."""
        return int(self.delta[state, self.byte_class[byte]])

    def action(self, code: int) -> tuple[int, int, int]:
        """What a negative code stands for."""
        kind, operand, frame = self.actions[-1 - code].tolist()
        return kind, operand, frame

    def final(self, state: int) -> int:
        """The outcome with which the text may end in a state, or -1."""
        return int(self.final_outcome[state])

    def after_outcome(self, frame: int, outcome: int) -> int:
        """The caller's next state after an outcome of what it called with ``frame``."""
        return int(self.returns[frame, outcome])

    def __repr__(self) -> str:
        return f"<RSM: {self.n_states} states, {len(self.returns)} return frames, {self.n_classes} byte classes>"


def _check_range(name: str, array: npt.NDArray[np.generic], low: int, high: int) -> None:
    """Raise MachineError unless low <= array < high everywhere."""
    if array.size and (array.min() < low or array.max() >= high):
        raise MachineError(f"{name}: {array.min()}..{array.max()} where only {low}..{high - 1} exist")
