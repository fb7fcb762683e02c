"""The machine of a DFA beside a recursive state machine, made as it is walked.

Whether a configuration of both can still be completed depends on the calls that are open. So a component is entered with the ways out
that its caller can go on from (rsm_product.py), and in it a byte is allowed only if one of them can still be reached: masks have no dead ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.rsm_product import Analysis, Move, Pair, WayOut
from fsmc.compiler.errors import ConstraintError


def _listed(among: int) -> list[int]:
    """The members of a set of bytes."""
    return [byte for byte in range(256) if among >> byte & 1]


@dataclass(frozen=True, slots=True)
class Allowed:
    """The ways out that may be taken; of those that leave a byte, by outcome and DFA state, which bytes."""

    ways: frozenset[WayOut]
    redo: tuple[tuple[int, int, int], ...] = ()

    def bytes_of(self, way: WayOut) -> int:
        """Of a way out that leaves a byte: which of its bytes may be left."""
        return next((way.bytes & b for outcome, q, b in self.redo if (outcome, q) == (way.outcome, way.dfa)), 0)

    def takes(self, ways: Iterable[WayOut]) -> bool:
        """Whether one of the ways may be taken."""
        return any(bool(self.bytes_of(way)) if way.kind == "redo" else way in self.ways for way in ways)


class ProductMachine:
    """The machine of an `Analysis`; implements the builder protocol of `LazyRSM`.

    Keys of states: (pair, the ways out that may be taken), or (way out,) where the text has ended. Raises ConstraintError where
    the machine would return without a call, while the DFA could go on alone.

    >>> from fsmc.compiler.automata.algebra import all_text
    >>> from fsmc.compiler.automata.dfa import DFA
    >>> from fsmc.compiler.automata.rsm import RSM
    >>> from fsmc.compiler.automata.rsm_product import DFA_ONLY
    >>> dfa = DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0)
    >>> machine = ProductMachine(Analysis(RSM.from_dfa(dfa), all_text(), DFA_ONLY)).rsm
    >>> machine.matches(b"x"), machine.matches(b"xx"), machine.matches(b"")
    (False, True, True)
    """

    notes: tuple[str, ...] = ()
    is_json = False

    def __init__(self, analysis: Analysis, **limits: Any) -> None:
        self.analysis = analysis
        self.rsm = LazyRSM(self, **limits)
        self._outcomes: list[WayOut] = []
        self._number_of: dict[WayOut, int] = {}
        self._insides: dict[tuple[Pair, int, Allowed], Allowed] = {}
        self._interned: dict[Allowed, Allowed] = {}
        self._root = Allowed(analysis.accepted)
        self.rsm.start = self._state(analysis.start, self._root)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is accepted."""
        return self.rsm.start == DEAD

    def _state(self, pair: Pair, allowed: Allowed) -> int:
        """The state of a pair, DEAD if none of the ways can be reached."""
        if not self.analysis.alive(pair) or not allowed.takes(self.analysis.ways(pair)):
            return DEAD
        return self.rsm.new_state((pair, allowed))

    def _number(self, way: WayOut) -> int:
        """The outcome's number. What a caller does after a way out does not depend on who reads the byte."""
        way = WayOut("exit", way.outcome, way.dfa) if way.kind == "redo" else way
        known = self._number_of.setdefault(way, len(self._outcomes))
        if known == len(self._outcomes):
            self._outcomes.append(way)
        return known

    def build_row(self, state: int) -> None:
        """See `LazyRSM`."""
        codes = np.zeros(256, np.int64)
        key = self.rsm.state_key(state)
        if len(key) == 1:
            final = self._number(key[0])
        else:
            pair, allowed = key
            for move in self.analysis.moves(pair):
                listed, code = self._code(move, allowed)
                codes[_listed(listed)] = code
            end = self.analysis.end(pair)
            final = self._number(end) if end in allowed.ways else -1
        values, classes = np.unique(codes, return_inverse=True)
        class_map = self.rsm.class_map(classes.reshape(-1).astype(np.uint8))
        self.rsm.set_row(state, class_map, values.tolist(), final)

    def _code(self, move: Move, allowed: Allowed) -> tuple[int, int]:
        """Bytes of a move, and their code."""
        analysis = self.analysis
        if move.out is not None:
            if allowed is self._root and analysis.combination.without_machine:
                raise ConstraintError("the machine returns from a call that was never made: it cannot be combined")
            if not allowed.takes([move.out]):
                return move.bytes, DEAD
            number = self._number(move.out)
            if move.out.kind == "redo":
                return allowed.bytes_of(move.out), self.rsm.exit_redo(number)
            return move.bytes, self.rsm.exit(number)
        assert move.to is not None
        if move.frame < 0:
            return move.bytes, self._state(move.to, allowed)
        target = self._state(move.to, self._inside(move.to, move.frame, allowed))
        return move.bytes, self.rsm.call(target, self.rsm.new_frame((move.frame, allowed))) if target else DEAD

    def _inside(self, entry: Pair, frame: int, allowed: Allowed) -> Allowed:
        """The ways out of what is called that the caller can go on from."""
        key = (entry, frame, allowed)
        known = self._insides.get(key)
        if known is None:
            analysis = self.analysis
            redo: dict[tuple[int, int], int] = {}
            ways = []
            for way in analysis.ways(entry):
                if way.kind != "redo":
                    if allowed.takes(analysis.beyond(frame, way)):
                        ways.append(way)
                    continue
                for move in analysis.redone(analysis.after(frame, way), way.bytes):
                    if allowed.takes(analysis.through(move)):
                        taken = allowed.bytes_of(move.out) if move.out and move.out.kind == "redo" else move.bytes
                        redo[way.outcome, way.dfa] = redo.get((way.outcome, way.dfa), 0) | taken
            listed = tuple(sorted((*key, among) for key, among in redo.items()))
            known = self._insides[key] = self._interned.setdefault(found := Allowed(frozenset(ways), listed), found)
        return known

    def build_return(self, frame: int, outcome: int) -> None:
        """See `LazyRSM`."""
        inner, allowed = self.rsm.frame_key(frame)
        way = self._outcomes[outcome]
        if way.kind == "end":
            end = self.analysis.end_after(inner, way)
            target = self.rsm.new_state((end,)) if end in allowed.ways else DEAD
        else:
            target = self._state(self.analysis.after(inner, way), allowed)
        self.rsm.set_return(frame, outcome, target)

    def behind_space(self, state: int) -> int:
        """See `LazyRSM`."""
        raise AssertionError("white space is not apart here")

    def record(self, state: int, text: bytes | None) -> int:
        """See `LazyRSM`."""
        raise AssertionError("there are no recorded frames")
