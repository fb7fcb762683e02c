"""A DFA and a recursive state machine at once: what can still be accepted from where, for a boolean combination of the two.

The DFA's state rides along: through plain steps, into calls, and out of them, where it is part of the outcome. For each pair of states
`Analysis` finds how the component can end from there, the *ways out*, each with the fewest bytes that lead to it (summary edges: Reps,
Horwitz and Sagiv 1995, with lengths: Knuth 1977). Calls are stepped over by the ways out of what is called. The machine that comes of it
is made in product_machine.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.errors import ConstraintError, LimitExceeded
from fsmc.jit import exceeded, working_seconds

MAX_PAIRS = 200_000
MAX_WAYS = 32
"""Ways out of each pair that may be known, on average over ``max_pairs`` of them."""

FAILED = -1
"""The outcome of a machine that has refused the text: the DFA goes on alone."""


class Pair(NamedTuple):
    """A state of the machine and one of the DFA; DEAD for the one that has refused the text."""

    state: int
    dfa: int


class Again(NamedTuple):
    """A pair that reads once more a byte, one of ``bytes``, which what it called has left to it."""

    pair: Pair
    bytes: int


class WayOut(NamedTuple):
    """How a component ends: by an exit that read its byte ("exit"), that leaves the byte, one of ``bytes``, to the caller ("redo"),
    or with the text ("end"; ``dfa`` then tells whether the DFA accepts, and the outcome may be FAILED). Sets of bytes are
    integers of 256 bits."""

    kind: str
    outcome: int
    dfa: int
    bytes: int = 0


class Move(NamedTuple):
    """What some bytes (a set, as in `WayOut`) do in a pair: lead to ``to``, which is entered by a call if there is a ``frame``, or out."""

    bytes: int
    to: Pair | None
    frame: int
    out: WayOut | None


Ways = dict[WayOut, int]
"""Ways out, each with the fewest bytes to it."""


_FAR = 1 << 60
"""The length of no way."""
_Spelling = Iterator["bytes | _Spelling"]  # the pieces of a text, or how to spell one


@dataclass(frozen=True, slots=True)
class Combination:
    """What is accepted, given whether the DFA and the machine accept."""

    accepts: Callable[[bool, bool], bool]

    @property
    def without_machine(self) -> bool:
        """Whether a text may be accepted that the machine has refused."""
        return self.accepts(True, False)

    @property
    def without_dfa(self) -> bool:
        """Whether a text may be accepted that the DFA has refused."""
        return self.accepts(False, True)


BOTH = Combination(lambda dfa, machine: dfa and machine)
EITHER = Combination(lambda dfa, machine: dfa or machine)
DFA_ONLY = Combination(lambda dfa, machine: dfa and not machine)


class Analysis:
    """The ways out of all pairs that can be reached. A machine that grows is grown as far as the DFA lets texts walk.

    check: called again and again, may raise. Raises LimitExceeded for more than ``max_pairs`` or ``max_seconds``, ConstraintError for a machine in which it matters what a call has read.
    """

    def __init__(
        self,
        machine: RecursiveMachine,
        dfa: DFA,
        combination: Combination,
        *,
        max_pairs: int = MAX_PAIRS,
        max_seconds: float = MAX_SECONDS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self.machine, self.dfa, self.combination, self.max_pairs = machine, dfa, combination, max_pairs
        self._next = dfa.delta[:, dfa.byte_class].astype(np.int64)
        self._moves: dict[Pair, list[Move]] = {}
        self._ways: dict[Pair | Again, Ways] = {}
        self._readers: dict[Pair | Again, dict[tuple[Pair | Again, int], int]] = {}
        self._settled: dict[Pair | Again, list[tuple[WayOut, int]]] = {}
        self._met: list[Pair | Again] = []
        self._queue: list[tuple[int, int, Pair | Again, WayOut]] = []
        self._n_again = self._n_ways = self._n_found = self._n_settled = 0
        self._max_seconds, self._deadline = max_seconds, working_seconds() + max_seconds
        self.start = Pair(machine.start, dfa.start)
        self._explore()
        self._readers.clear()
        self._settled.clear()
        self.accepted = frozenset(
            WayOut("end", outcome, accepts)
            for outcome in {way.outcome for way in self.ways(self.start) if way.kind == "end"}
            for accepts in (0, 1)
            if combination.accepts(bool(accepts), outcome != FAILED)
        )

    def alive(self, pair: Pair) -> bool:
        """Whether anything can still be accepted from a pair, as far as one can tell without looking further."""
        if pair.state == DEAD and pair.dfa == DEAD:
            return False
        return (pair.state != DEAD or self.combination.without_machine) and (
            pair.dfa != DEAD or self.combination.without_dfa
        )

    def ways(self, place: Pair | Again) -> Ways:
        """The ways out from a place."""
        return self._ways.get(place, {})

    def shortest(self) -> bytes | None:
        """A shortest text that is accepted; None if there is none."""
        ways = self.ways(self.start)
        ends = [way for way in ways if way in self.accepted]
        if not ends:
            return None
        parts: list[bytes] = []
        spellings = [self._spell(self.start, min(ends, key=lambda way: (ways[way], way)))]
        while spellings:  # no recursion: texts are longer than Python's stack is deep
            piece = next(spellings[-1], None)
            if piece is None:
                spellings.pop()
            elif isinstance(piece, bytes):
                parts.append(piece)
            else:
                spellings.append(piece)
        return b"".join(parts)

    # ── moves ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def moves(self, pair: Pair) -> list[Move]:
        """What each byte does; bytes that do the same are one move, those that lead nowhere are left out."""
        known = self._moves.get(pair)
        if known is None:
            if len(self._moves) >= self.max_pairs:
                raise LimitExceeded("max_pairs", self.max_pairs, len(self._moves) + 1, "the combination is too large")
            known = self._moves[pair] = list(self._find_moves(pair))
        return known

    def _find_moves(self, pair: Pair) -> Iterator[Move]:
        codes = np.zeros(256, np.int64) if pair.state == DEAD else self.machine.row(pair.state).astype(np.int64)
        kinds = np.stack((codes, self._next[pair.dfa]), axis=1)
        for code, q, listed in _grouped(kinds):
            if code >= 0:
                to = Pair(code, q)
                if self.alive(to):
                    yield Move(listed, to, -1, None)
                continue
            kind, operand, frame = self.machine.action(code)
            if kind == CALL:
                if frame >= RECORDED:
                    raise ConstraintError(
                        "values that have to differ (uniqueItems, counted keys) cannot be combined: what may follow them "
                        "depends on what was written"
                    )
                to = Pair(operand, q)
                if self.alive(to):
                    yield Move(listed, to, frame, None)
            elif kind == EXIT:
                yield Move(listed, None, -1, WayOut("exit", operand, q))
        kinds[:, 1] = pair.dfa  # a byte that is left to the caller has not moved the DFA
        for code, q, listed in _grouped(kinds):
            if code < 0 and self.machine.action(code)[0] not in (CALL, EXIT):
                yield Move(listed, None, -1, WayOut("redo", self.machine.action(code)[1], q, listed))

    def end(self, pair: Pair) -> WayOut:
        """The way out if the text ends here."""
        outcome = FAILED if pair.state == DEAD else self.machine.final(pair.state)
        return WayOut("end", outcome, int(self.dfa.accepting[pair.dfa]))

    def after(self, frame: int, way: WayOut) -> Pair:
        """Where the caller goes on after a way out that is not the text's end."""
        return Pair(self.machine.after_outcome(frame, way.outcome), way.dfa)

    def end_after(self, frame: int, way: WayOut) -> WayOut:
        """The caller's way out if the text ended in what it called."""
        if way.outcome == FAILED:
            return way
        state = self.machine.after_outcome(frame, way.outcome)
        return WayOut("end", FAILED if state == DEAD else self.machine.final(state), way.dfa)

    # ── ways out ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _explore(self) -> None:
        """Settle the ways by their lengths: none is shorter than what it is put together from, so each is looked at once."""
        if self.alive(self.start):
            self._meet(self.start)
        queue = self._queue
        while True:
            while self._met:
                self._enter(self._met.pop())  # the last one first, so that a machine without end gets deep at once
            if not queue:
                return
            length, _, place, way = heapq.heappop(queue)
            if self._ways[place][way] < length:
                continue
            if not self._n_settled & 0xFF:
                self._check_time()
            self._n_settled += 1
            self._settled[place].append((way, length))
            for (reader, frame), extra in list(self._readers[place].items()):
                self._pass(reader, frame, way, length + extra)

    def _meet(self, place: Pair | Again) -> None:
        self._n_again += isinstance(place, Again)
        if self._n_again > self.max_pairs:
            raise LimitExceeded("max_pairs", self.max_pairs, self._n_again, "the combination is too large")
        self._ways[place], self._settled[place], self._readers[place] = {}, [], {}
        self._met.append(place)

    def _enter(self, place: Pair | Again) -> None:
        """Look at the moves of a place that was met."""
        self._check_time()
        self._check()
        if isinstance(place, Pair):
            self._found(place, self.end(place), 0)
        for move in self.moves(place) if isinstance(place, Pair) else self.redone(*place):
            if move.out is not None:
                self._found(place, move.out, 0 if move.out.kind == "redo" else 1)
            else:
                assert move.to is not None
                self._listen(move.to, place, move.frame, 1)

    def _listen(self, place: Pair | Again, reader: Pair | Again, frame: int, extra: int) -> None:
        """Let the ways out of a place be those of its reader, ``extra`` bytes longer; if there is a frame, as far as it has called the place."""
        if not self.alive(place.pair if isinstance(place, Again) else place):
            return
        if place not in self._ways:
            self._meet(place)
        readers, key = self._readers[place], (reader, frame)
        if readers.get(key, _FAR) > extra:
            readers[key] = extra
            for way, length in self._settled[place]:
                self._pass(reader, frame, way, length + extra)

    def _pass(self, reader: Pair | Again, frame: int, way: WayOut, length: int) -> None:
        """What the way out of a place means to a reader."""
        if frame < 0:
            self._found(reader, way, length)
        elif way.kind == "end":
            self._found(reader, self.end_after(frame, way), length)
        else:
            to = self.after(frame, way)
            if way.kind == "redo":
                if self.alive(to) and to not in self._ways:
                    self._meet(to)  # what the product's return leads to
                self._listen(Again(to, way.bytes), reader, -1, length)
            else:
                self._listen(to, reader, -1, length)

    def _found(self, place: Pair | Again, way: WayOut, length: int) -> None:
        ways = self._ways[place]
        before = ways.get(way, _FAR)
        if length < before:
            ways[way] = length
            self._n_found += 1
            self._n_ways += before == _FAR
            if self._n_ways > MAX_WAYS * self.max_pairs:
                hint = f"the combination is too large: more than {MAX_WAYS} ways out for each"
                raise LimitExceeded("max_pairs", self.max_pairs, self._n_ways // MAX_WAYS, hint)
            heapq.heappush(self._queue, (length, self._n_found, place, way))

    def _check_time(self) -> None:
        if over := exceeded(self._max_seconds, self._deadline):
            raise LimitExceeded("max_seconds", *over, "the combination takes too long")

    def through(self, move: Move) -> Ways:
        """The ways out that begin with a move."""
        if move.out is not None:
            return {move.out: 0 if move.out.kind == "redo" else 1}
        assert move.to is not None
        inner = self.ways(move.to)
        found: Ways = {}
        if move.frame < 0:
            self._merge(found, inner, 1)
        else:
            for way, length in inner.items():
                self._merge(found, self.beyond(move.frame, way), 1 + length)
        return found

    def beyond(self, frame: int, way: WayOut) -> Ways:
        """The caller's ways out after a way out of what it called."""
        if way.kind == "end":
            return {self.end_after(frame, way): 0}
        to = self.after(frame, way)
        return self.ways(to if way.kind == "exit" else Again(to, way.bytes))

    def redone(self, pair: Pair, among: int) -> Iterator[Move]:
        """The moves of a pair that begin with one of some bytes, each with those of its bytes."""
        for move in self.moves(pair) if self.alive(pair) else ():
            both = move.bytes & among
            if both:
                out = move.out if move.out is None or move.out.kind != "redo" else move.out._replace(bytes=both)
                yield move._replace(bytes=both, out=out)

    @staticmethod
    def _merge(found: Ways, more: Ways, cost: int) -> None:
        for way, length in more.items():
            if length + cost < found.get(way, _FAR):
                found[way] = length + cost

    # ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _spell(self, pair: Pair, wanted: WayOut) -> _Spelling:
        """The bytes of a shortest text that leads from a pair to a way out."""
        if self.end(pair) == wanted:
            return
        length = self.ways(pair)[wanted]
        for move in self.moves(pair):
            if self.through(move).get(wanted) == length:
                yield self._spell_move(move, wanted)
                return
        raise AssertionError("a way out has a move that leads to it")

    def _spell_move(self, move: Move, wanted: WayOut) -> _Spelling:
        length, byte = self.through(move)[wanted], (move.bytes & -move.bytes).bit_length() - 1
        if move.out is not None:
            if move.out.kind != "redo":
                yield bytes((byte,))
            return
        assert move.to is not None
        yield bytes((byte,))
        if move.frame < 0:
            yield self._spell(move.to, wanted)
            return
        for way, inner in self.ways(move.to).items():
            if inner + 1 + self.beyond(move.frame, way).get(wanted, _FAR) == length:
                yield self._spell(move.to, way)
                if way.kind == "exit":
                    yield self._spell(self.after(move.frame, way), wanted)
                elif way.kind == "redo":
                    moves = self.redone(self.after(move.frame, way), way.bytes)
                    best = length - inner - 1
                    yield self._spell_move(next(m for m in moves if self.through(m).get(wanted) == best), wanted)
                return


def _grouped(kinds: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """The distinct rows of int64[256, 2], numbers of 32 bits, each with the set of bytes that have it; by their first bytes."""
    keys, first, inverse = np.unique(kinds[:, 0] << 32 | kinds[:, 1], return_index=True, return_inverse=True)
    for number in np.argsort(first).tolist():
        listed = np.packbits(inverse == number, bitorder="little").tobytes()
        key = int(keys[number])
        yield key >> 32, key & 0xFFFFFFFF, int.from_bytes(listed, "little")
