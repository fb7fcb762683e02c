"""A grammar inside a structural tag: the states of its machine as positions of the tag's.

The grammar's outermost part is not called but walked in place, with what follows it as part of the state: a text may go on inside or, where
the grammar may end, with what follows. What it calls is called as before; there, where the text of the grammar may end, bytes that only
what follows can read return to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.errors import ConstraintError
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.outcomes import Truth
from fsmc.compiler.schema.positions import Edges, Position, Return

if TYPE_CHECKING:
    from fsmc.compiler.tags.machine import TagMachine


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """A machine, and where it stands in the tag."""

    machine: RecursiveMachine
    place: str

    def row(self, state: int) -> dict[int, int]:
        """Byte → code, of those that lead on."""
        return {byte: code for byte, code in enumerate(self.machine.row(state).tolist()) if code}


@dataclass(frozen=True, slots=True)
class Inside(Position):
    """In a state of the outermost part; ``after``: the states of the tag's language behind the grammar."""

    of: Embedded
    state: int
    after: frozenset[int]

    def edges(self, m: SchemaMachine) -> Edges:
        return _tag(m).inside_edges(self.of, self.state, self.after)

    def final(self, m: TagMachine) -> int:
        """The outcome with which the text may end."""
        return 0 if self.of.machine.final(self.state) >= 0 and m.may_end(self.after) else -1


@dataclass(frozen=True, slots=True)
class Called(Position):
    """In a state of what the grammar calls; ``follows``: the bytes with which what is behind the grammar may begin."""

    of: Embedded
    state: int
    follows: frozenset[int]

    def edges(self, m: SchemaMachine) -> Edges:
        machine, edges = self.of.machine, {}
        row = self.of.row(self.state)
        for byte, code in row.items():
            if code > 0:
                edges[byte] = m.state(Called(self.of, code, self.follows))
                continue
            kind, operand, frame = machine.action(code)
            if kind == CALL:
                back = AfterCalled(self.of, _plain(self.of, frame), None, self.follows)
                target = m.state(Called(self.of, operand, self.follows))
                edges[byte] = m.rsm.call(target, m.rsm.new_frame((back, ())))
            else:
                edges[byte] = m.rsm.exit(operand) if kind == EXIT else m.rsm.exit_redo(operand)
        outcome = machine.final(self.state)
        if outcome >= 0:
            for byte in self.follows & row.keys():
                if row[byte] > 0 or machine.action(row[byte])[0] == CALL:
                    raise doubt(self.of, byte)
            edges |= dict.fromkeys(self.follows - row.keys(), m.rsm.exit_redo(outcome))
        return edges

    def final(self, m: TagMachine) -> int:
        """The outcome with which the text may end."""
        return self.of.machine.final(self.state)


@dataclass(frozen=True, slots=True)
class AfterCalled(Return):
    """Return of what the grammar calls: to its outermost part (after: see `Inside`), or to what was called itself."""

    of: Embedded
    frame: int
    after: frozenset[int] | None
    follows: frozenset[int]

    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        raise AssertionError("a grammar's outcomes are numbers")

    def resume_outcome(self, m: SchemaMachine, outcome: int) -> int:
        """The state to go on in, 0 for none."""
        state = self.of.machine.after_outcome(self.frame, outcome)
        if state == DEAD:
            return 0
        position = Called(self.of, state, self.follows) if self.after is None else Inside(self.of, state, self.after)
        return m.state(position)


def inside_edges(m: TagMachine, of: Embedded, state: int, after: frozenset[int], follows: frozenset[int]) -> Edges:
    """What each byte does in the outermost part, as long as the grammar goes on."""
    edges: Edges = {}
    for byte, code in of.row(state).items():
        if code > 0:
            edges[byte] = m.state(Inside(of, code, after))
            continue
        kind, operand, frame = of.machine.action(code)
        if kind == CALL:  # an exit has no call to return from
            back = AfterCalled(of, _plain(of, frame), after, follows)
            edges[byte] = m.rsm.call(m.state(Called(of, operand, follows)), m.rsm.new_frame((back, ())))
    return edges


def doubt(of: Embedded, byte: int) -> ConstraintError:
    """What is wrong where the grammar may end, and a byte could be its own or behind it."""
    return ConstraintError(
        f"the grammar may end or go on with {chr(byte)!r}, and what follows it too: put another text between", of.place
    )


def _plain(of: Embedded, frame: int) -> int:
    if frame >= RECORDED:
        raise ConstraintError("a grammar in which it matters what was written cannot be part of a tag", of.place)
    return frame


def _tag(m: SchemaMachine) -> TagMachine:
    from fsmc.compiler.tags.machine import TagMachine

    assert isinstance(m, TagMachine)
    return m
