"""What a recursive state machine does with a text: the definition, in plain Python, one byte at a time.

The kernels that run machines over whole vocabularies are tested against it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED, UNKNOWN, Tables
from fsmc.compiler.errors import MachineError


class Configuration(NamedTuple):
    """Where a run stands: the state, and the return frames of the open calls, the innermost last."""

    state: int
    stack: tuple[int, ...] = ()


class Reading(NamedTuple):
    """Where a run stands that keeps account of what recorded calls read: ``starts`` says for each of them that is open, the innermost
    last, where in the text it begins."""

    here: Configuration
    starts: tuple[int, ...] = ()


class Block(NamedTuple):
    """A component that calls nothing and was added as a whole: its first state, and its name.

    Blocks with the same name, in whichever machine, have the same states in the same order and the same outcomes; None says
    nothing. is_large: whether it is worth to know masks inside the block apart from the first on (else where many tokens are found).
    """

    first: int
    name: Hashable
    is_large: bool


class Counted(NamedTuple):
    """A state in a string of which between ``low`` and ``high`` more characters have to come, and any may.

    like: the state of a string of any length, of the block called ``name``; state k of that block is ``offset + k``. whole: bool, for each
    k whether a character has just ended there.
    """

    like: int
    low: int
    high: int
    name: Hashable
    offset: int
    whole: npt.NDArray[np.bool_]


class Alike(ABC):
    """What is known of states that read almost the same as others, which are in a block."""

    __slots__ = ()

    @abstractmethod
    def like(self, state: int) -> tuple[int, int]:
        """(a state of a block, ``room``): what can be read here can be read there, and all of at most ``room`` bytes alike; longer
        texts may be refused here, or end with another outcome. State 0: there is none like it."""

    def counted(self, state: int) -> Counted | None:
        """What is known of a state besides, if it is in a string of bounded length."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Like(Alike):
    """Adjacent states from ``first`` on, each like ``states[i]``."""

    first: int
    states: npt.NDArray[np.int32]

    def like(self, state: int) -> tuple[int, int]:
        """See `Alike`."""
        return int(self.states[state - self.first]), 0


class RecursiveMachine(ABC):
    """The semantics shared by `RSM`, which is known as a whole, and `LazyRSM`, which is made as it is walked."""

    __slots__ = ()

    start: int
    space: tuple[bytes, int, bytes] | None = None
    """White space, if there are states before which it may stand: its bytes, how many at most, and the bytes one of which follows it."""

    @property
    @abstractmethod
    def n_states(self) -> int:
        """Number of states so far, DEAD included."""

    @property
    @abstractmethod
    def n_frames(self) -> int:
        """Number of return frames so far."""

    @property
    @abstractmethod
    def is_regular(self) -> bool:
        """Whether there are no calls and no exits: a DFA."""

    @property
    @abstractmethod
    def tables(self) -> Tables:
        """The arrays that kernels read."""

    @abstractmethod
    def row(self, state: int) -> npt.NDArray[np.int32]:
        """What each byte does in a state: int32[256], e > 0 a state, 0 DEAD, e < 0 the `action` of code e."""

    @abstractmethod
    def code(self, state: int, byte: int) -> int:
        """One entry of `row`."""

    @abstractmethod
    def action(self, code: int) -> tuple[int, int, int]:
        """What a negative code stands for: (CALL, target, frame), or (EXIT or EXIT_REDO, outcome, 0)."""

    @abstractmethod
    def final(self, state: int) -> int:
        """The outcome with which the text may end in a state, or -1."""

    @abstractmethod
    def after_outcome(self, frame: int, outcome: int) -> int:
        """The caller's next state after an outcome of what it called with ``frame``; 0 where that is a dead end."""

    def is_built(self, state: int) -> bool:
        """Whether the state's row is there."""
        return True

    def block_of(self, state: int) -> Block | Alike | None:
        """What is known of the states around this one, if what may be read there does not depend on the caller until it exits."""
        return None

    def behind_space(self, state: int) -> int:
        """For a state at which white space may begin, and at which all else may be read that can be read behind it: the
        state behind it. 0 for others."""
        return 0

    def build(self, frame: int, number: int) -> None:
        """Make what a kernel missed: the row of state ``number`` (frame < 0), or the return after outcome ``number``."""
        raise AssertionError("only a machine that is made as it is walked misses anything")

    def record(self, state: int, text: bytes | None) -> int:
        """The state to go on in after a recorded call that read ``text`` returned to ``state``."""
        raise AssertionError("only a machine that is made as it is walked has recorded frames")

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def initial(self) -> Configuration:
        """The configuration before any text."""
        return Configuration(self.start)

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """The configuration after one more byte, None where the byte is not allowed.

        Where the byte ends a recorded call, the state is the one that stands for any text.
        """
        here, consumed = configuration, False
        while not consumed:  # again only after EXIT_REDO, which makes the stack shorter
            here, consumed = self._move(here, byte)
            if here.state == DEAD:
                return None
        return here

    def run(self, data: bytes, configuration: Configuration | None = None) -> Configuration | None:
        """The configuration after ``data`` (from the initial one, or the one given), None where some byte is not allowed.

        What recorded calls read is kept account of; MachineError where one returns that was open from the beginning.
        """
        reading = Reading(self.initial if configuration is None else configuration)
        for i in range(len(data)):
            after = self.read(reading, data, i)
            if after is None:
                return None
            reading = after
        return reading.here

    def read(self, reading: Reading, text: bytes | bytearray, i: int) -> Reading | None:
        """What byte ``i`` of a text leads to, of which all before was read; None where it is not allowed. Raises as `run`."""
        (here, starts), consumed = reading, False
        while not consumed:  # again only after EXIT_REDO, which makes the stack shorter
            before = here.stack
            here, consumed = self._move(here, text[i])
            if len(here.stack) > len(before) and here.stack[-1] >= RECORDED:
                starts = (*starts, i)
            elif len(here.stack) < len(before) and before[-1] >= RECORDED and here.state != DEAD:
                if not starts:
                    raise MachineError("a recorded call returns, but the text it read is not known here")
                here = Configuration(self.record(here.state, bytes(text[starts[-1] : i + consumed])), here.stack)
                starts = starts[:-1]
            if here.state == DEAD:
                return None
        return Reading(here, starts)

    def _move(self, configuration: Configuration, byte: int) -> tuple[Configuration, bool]:
        """Do what the byte's code says, once; and whether the byte was consumed by that."""
        state, stack = configuration
        code = self.code(state, byte)
        if code >= DEAD:
            return Configuration(code, stack), True
        kind, operand, frame = self.action(code)
        if kind == CALL:
            return Configuration(operand, (*stack, frame)), True
        if not stack:
            return Configuration(DEAD), True
        return Configuration(self.after_outcome(stack[-1], operand), stack[:-1]), kind == EXIT

    def is_complete(self, configuration: Configuration) -> bool:
        """Whether the text may end here: every open call ends with an outcome that its caller takes, up to the root."""
        state, stack = configuration
        outcome = self.final(state)
        while stack and outcome >= 0:
            state, stack = self.after_outcome(stack[-1], outcome), stack[:-1]
            outcome = self.final(state)
        return outcome >= 0

    def matches(self, data: bytes) -> bool:
        """Whether the whole of ``data`` is accepted."""
        end = self.run(data)
        return end is not None and self.is_complete(end)

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def flatten(self, max_depth: int, *, max_states: int | None = None) -> DFA:
        """The plain DFA of all texts during which at most ``max_depth`` calls are open, see `flatten.flatten`."""
        from fsmc.compiler.automata.flatten import MAX_STATES, flatten

        return flatten(self, max_depth, max_states=MAX_STATES if max_states is None else max_states)

    def known_returns(self) -> list[tuple[int, int, int]]:
        """Where callers go on, as far as it was asked for: (frame, outcome, state or 0), sorted."""
        known = self.tables.returns[self.tables.returns[:, 0] != UNKNOWN]
        return sorted((key >> 32, key & 0xFFFFFFFF, target) for key, target in known.tolist())

    def dump(self) -> str:
        """The transition table as readable text, see `views.dump`."""
        from fsmc.compiler.automata.views import dump

        return dump(self)

    def to_dot(self) -> str:
        """The state diagram in Graphviz's language, see `views.to_dot`."""
        from fsmc.compiler.automata.views import to_dot

        return to_dot(self)
