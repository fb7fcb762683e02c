"""Two recursive state machines at once, made as they are walked.

Both keep return stacks, and the pair has one. Whenever one of the two calls, the pair calls, and its frame holds all return frames that either has
come to have since the last call. When one returns further than that, the pair returns first, with where both stand as the outcome, and the
caller puts the frames that it kept back under them. So this is exact for any two machines. It is finite, and a machine of this kind, where the
calls of the two nest in each other (brackets that both see, or calls that only one of them makes). Where one leaves calls in an order that the other
does not, frames pile up on one side, and ConstraintError says after which text.

Nothing looks ahead here: what comes of it has dead ends, which `Analysis` and `ProductMachine` take away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.rsm_product import Combination
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.errors import ConstraintError

MAX_CROSSED = 8
"""Return frames that one machine may have above those of the other's calls that were made before, unless said otherwise."""
_MAX_LOOKED_AT = 1000
"""Configurations that are looked at to find a text for the error."""


class _Crossed(Exception):
    """A state with more than ``max_crossed`` frames."""


class Side(NamedTuple):
    """Where one machine stands: its state and its return frames since the pair's last call. A state −1 − 2 o: it has returned from there
    with outcome o, and reads nothing until its caller's frames are there; −2 − 2 o: the same at the end of the text."""

    state: int
    frames: tuple[int, ...] = ()


GONE = Side(DEAD)


class Both(NamedTuple):
    """A state of the pair. is_outermost: no call of the pair is open."""

    sides: tuple[Side, Side]
    is_outermost: bool


class PairMachine:
    """Builds the pair; implements the builder protocol of `LazyRSM`. combination: what is accepted, given which of the two accepts.

    Raises ConstraintError for machines in which it matters what a call has read.

    >>> from fsmc.compiler.automata.dfa import DFA
    >>> from fsmc.compiler.automata.rsm import RSM
    >>> from fsmc.compiler.automata.rsm_product import EITHER
    >>> x, any_byte = (DFA.from_arrays(np.zeros(256, int), [[1], to], [False, True], start=0) for to in ([-1], [1]))
    >>> pair = PairMachine(RSM.from_dfa(x), RSM.from_dfa(any_byte), EITHER).rsm
    >>> pair.matches(b"ab"), pair.matches(b"")
    (True, False)
    """

    notes: tuple[str, ...] = ()
    is_json = False

    def __init__(
        self,
        a: RecursiveMachine,
        b: RecursiveMachine,
        combination: Combination,
        *,
        max_crossed: int = MAX_CROSSED,
        **limits: Any,
    ) -> None:
        self.machines, self.combination, self.max_crossed = (a, b), combination, max_crossed
        self.rsm = LazyRSM(self, **limits)
        self._outcomes: list[tuple[Side, Side]] = []
        self._number_of: dict[tuple[Side, Side], int] = {}
        self._is_searching = False
        self.rsm.start = self._state((Side(a.start), Side(b.start)), True)

    # ── states ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _state(self, sides: tuple[Side, Side], is_outermost: bool) -> int:
        """The state of the pair, DEAD where nothing could be accepted whatever follows."""
        if is_outermost:
            a, b = (GONE if side.state < 0 and side.state & 1 else side for side in sides)
            sides = a, b
        if not self._may_be_accepted(sides):
            return DEAD
        if max(len(side.frames) for side in sides) > self.max_crossed:
            if self._is_searching:
                raise _Crossed
            raise ConstraintError(
                f"the two cannot be combined exactly: they leave what they have entered in different orders{self._crossing()}"
            )
        return self.rsm.new_state(Both(sides, is_outermost))

    def _outcome(self, sides: tuple[Side, Side]) -> int:
        known = self._number_of.setdefault(sides, len(self._outcomes))
        if known == len(self._outcomes):
            self._outcomes.append(sides)
        return known

    def _crossing(self) -> str:
        """A shortest text after which too many frames have piled up, for the error; "" where there is no short one."""
        self._is_searching = True
        texts = {self.rsm.initial: b""}
        todo = [self.rsm.initial]
        for here in todo:  # grows as it goes
            for byte in range(256):
                try:
                    after = self.rsm.step(here, byte)
                except _Crossed:
                    return f", as in {(texts[here] + bytes((byte,))).decode(errors='replace')!r}"
                if after is not None and after not in texts and len(todo) < _MAX_LOOKED_AT:
                    texts[after] = texts[here] + bytes((byte,))
                    todo.append(after)
        return ""

    # ── one side ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _step(self, which: int, side: Side, byte: int) -> tuple[Side, bool]:
        """Where a side stands after a byte, or, not having read it, on its way out; and whether it has read it."""
        machine, (state, frames) = self.machines[which], side
        while state > 0:
            code = machine.code(state, byte)
            if code >= 0:
                return (Side(code, frames) if code else GONE), True
            kind, operand, frame = machine.action(code)
            if kind == CALL:
                if frame >= RECORDED:
                    raise ConstraintError(
                        "values that have to differ (uniqueItems, counted keys) cannot be combined: what may follow them "
                        "depends on what was written"
                    )
                return Side(operand, (*frames, frame)), True
            state, frames = self._returned(which, operand, frames)
            if kind == EXIT:
                return (Side(state, frames) if state else GONE), True
        return (Side(state), False) if state & 1 else (GONE, True)

    def _returned(self, which: int, outcome: int, frames: tuple[int, ...]) -> Side:
        """Where a side goes on after an outcome, if the frame is there."""
        return (
            Side(self.machines[which].after_outcome(frames[-1], outcome), frames[:-1])
            if frames
            else Side(-1 - 2 * outcome)
        )

    def _under(self, which: int, side: Side, frames: tuple[int, ...]) -> Side:
        """A side with the frames that its caller kept put under its own."""
        if side.state == DEAD:
            return GONE
        if side.state > 0:
            return Side(side.state, frames + side.frames)
        if not frames:
            return side
        found = self._returned(which, (-1 - side.state) // 2, frames)
        return (found if side.state & 1 else self._ended(which, found)) if found.state else GONE

    def _ended(self, which: int, side: Side) -> Side:
        """A side at the end of the text, on its way out; GONE where the text may not end."""
        state, frames = side
        while state > 0:
            outcome = self.machines[which].final(state)
            if outcome < 0:
                return GONE
            if not frames:
                return Side(-2 - 2 * outcome)
            state, frames = self._returned(which, outcome, frames)
        return Side(state - (state & 1)) if state else GONE

    # ── what LazyRSM asks for ────────────────────────────────────────────────────────────────────────────────────────

    def build_row(self, state: int) -> None:
        """See `LazyRSM`."""
        (a, b), is_outermost = self.rsm.state_key(state)
        rows = [machine.row(max(side.state, 0)).tolist() for machine, side in zip(self.machines, (a, b), strict=True)]
        known: dict[tuple[int, ...], int] = {}
        codes = []
        for byte, both in enumerate(zip(*rows, strict=True)):
            if both not in known or any(self._is_redo(i, code) for i, code in enumerate(both)):
                known[both] = self._code((a, b), is_outermost, byte)
            codes.append(known[both])
        values, classes = np.unique(np.array(codes), return_inverse=True)
        ends = self._ended(0, a), self._ended(1, b)
        may_end = [end.state != DEAD for end in ends]
        final = -1
        if is_outermost:
            final = 0 if self.combination.accepts(*may_end) else -1
        elif self._may_be_accepted(ends):
            final = self._outcome(ends)
        self.rsm.set_row(state, self.rsm.class_map(classes.reshape(-1).astype(np.uint8)), values.tolist(), final)

    def _is_redo(self, which: int, code: int) -> bool:
        """Whether a code has the byte read again, so that it matters which it is."""
        return code < 0 and self.machines[which].action(code)[0] not in (CALL, EXIT)

    def _code(self, sides: tuple[Side, Side], is_outermost: bool, byte: int) -> int:
        """What a byte does."""
        (a, a_read), (b, b_read) = (self._step(i, side, byte) for i, side in enumerate(sides))
        if is_outermost:  # a return from a call that was never made
            (a, a_read), (b, b_read) = (
                (side, True) if read else (GONE, True) for side, read in ((a, a_read), (b, b_read))
            )
        if not a_read or not b_read:
            found = (sides[0] if a_read and a.state else a), (sides[1] if b_read and b.state else b)
            return self.rsm.exit_redo(self._outcome(found)) if self._may_be_accepted(found) else DEAD
        if len(a.frames) <= len(sides[0].frames) and len(b.frames) <= len(sides[1].frames):
            return self._state((a, b), is_outermost)
        target = self._state((Side(a.state), Side(b.state)), False)
        return self.rsm.call(target, self.rsm.new_frame((a.frames, b.frames, is_outermost))) if target else DEAD

    def _may_be_accepted(self, sides: tuple[Side, Side]) -> bool:
        """Whether something could be accepted, as far as one can tell from which of the two have refused the text."""
        a, b = (side.state != DEAD for side in sides)
        return any(self.combination.accepts(x and a, y and b) for x in (False, True) for y in (False, True))

    def build_return(self, frame: int, outcome: int) -> None:
        """See `LazyRSM`."""
        a, b, is_outermost = self.rsm.frame_key(frame)
        sides = self._outcomes[outcome]
        found = self._under(0, sides[0], a), self._under(1, sides[1], b)
        self.rsm.set_return(frame, outcome, self._state(found, is_outermost))

    def behind_space(self, state: int) -> int:
        """See `LazyRSM`."""
        raise AssertionError("white space is not apart here")

    def record(self, state: int, text: bytes | None) -> int:
        """See `LazyRSM`."""
        raise AssertionError("there are no recorded frames")
