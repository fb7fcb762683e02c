"""Recursive state machines (Alur et al., "Analysis of Recursive State Machines", 2005): the one table that runs.

A DFA is an RSM without calls. A *call edge* consumes its byte, pushes a return frame and enters a component; an *exit*
pops the frame, and the frame and the exit's *outcome* together say where the caller goes on.

The methods here are the definition of what a machine accepts, in plain Python, one byte at a time; the kernels that run
machines over whole vocabularies are tested against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA, frozen_array
from fsmc.compiler.errors import MachineError

CALL, EXIT, EXIT_REDO = 0, 1, 2
"""Kinds of action. CALL: consume the byte, push the frame, go to the target state. EXIT: consume the byte, pop the
frame, go to ``returns[frame, outcome]``. EXIT_REDO: pop the frame, then process the same byte at
``returns[frame, outcome]`` (a number ends only where something else begins)."""


class Configuration(NamedTuple):
    """Where a run stands: the state, and the return frames of the open calls, the innermost last."""

    state: int
    stack: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RSM:
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
    def n_classes(self) -> int:
        """Number of byte classes: columns of ``delta``."""
        return int(self.delta.shape[1])

    @property
    def is_regular(self) -> bool:
        """Whether there are no calls and no exits: a DFA."""
        return len(self.actions) == 0

    @property
    def initial(self) -> Configuration:
        """The configuration before any text."""
        return Configuration(self.start)

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """The configuration after one more byte, None where the byte is not allowed."""
        state, stack = configuration
        column = self.byte_class[byte]
        while True:  # again only after EXIT_REDO, which makes the stack shorter
            entry = int(self.delta[state, column])
            if entry == DEAD:
                return None
            if entry > DEAD:
                return Configuration(entry, stack)
            kind, operand, frame = (int(x) for x in self.actions[-1 - entry])
            if kind == CALL:
                return Configuration(operand, (*stack, frame))
            if not stack:
                return None
            state, stack = int(self.returns[stack[-1], operand]), stack[:-1]
            if state == DEAD:
                return None
            if kind == EXIT:
                return Configuration(state, stack)

    def run(self, data: bytes, configuration: Configuration | None = None) -> Configuration | None:
        """The configuration after ``data`` (from the initial one, or the one given), None where some byte is not allowed."""
        here: Configuration | None = self.initial if configuration is None else configuration
        for byte in data:
            if here is None:
                return None
            here = self.step(here, byte)
        return here

    def final(self, state: int) -> int:
        """The outcome with which the text may end in a state, or -1."""
        return int(self.final_outcome[state])

    def after_outcome(self, frame: int, outcome: int) -> int:
        """The caller's next state after an outcome of what it called with ``frame``."""
        return int(self.returns[frame, outcome])

    def is_complete(self, configuration: Configuration) -> bool:
        """Whether the text may end here: every open call ends with an outcome that its caller takes, up to the root."""
        state, stack = configuration
        while stack:
            outcome = self.final_outcome[state]
            if outcome < 0:
                return False
            state, stack = int(self.returns[stack[-1], outcome]), stack[:-1]
        return bool(self.final_outcome[state] >= 0)

    def matches(self, data: bytes) -> bool:
        """Whether the whole of ``data`` is accepted."""
        end = self.run(data)
        return end is not None and self.is_complete(end)

    def dump(self) -> str:
        """The transition table as readable text, see `views.dump`."""
        from fsmc.compiler.automata.views import dump

        return dump(self)

    def to_dot(self) -> str:
        """The state diagram in Graphviz's language, see `views.to_dot`."""
        from fsmc.compiler.automata.views import to_dot

        return to_dot(self)

    def __repr__(self) -> str:
        return f"<RSM: {self.n_states} states, {len(self.returns)} return frames, {self.n_classes} byte classes>"


def _check_range(name: str, array: npt.NDArray[np.generic], low: int, high: int) -> None:
    """Raise MachineError unless low <= array < high everywhere."""
    if array.size and (array.min() < low or array.max() >= high):
        raise MachineError(f"{name}: {array.min()}..{array.max()} where only {low}..{high - 1} exist")
