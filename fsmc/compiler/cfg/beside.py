"""A grammar beside a DFA, as a grammar: what both allow, and a shortest text of both (Bar-Hillel, Perles and Shamir, 1961).

A symbol becomes one for each pair of DFA states between which it can lead, with the places of its net beside the DFA's states. This is finite
for every grammar, also for one that is read in ever more ways, whose machine has no end. Lengths: Knuth 1977.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from fsmc.compiler.automata import algebra as regular
from fsmc.compiler.automata.determinize import MAX_BYTES, MAX_SECONDS, MAX_STATES
from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.cfg.nets import SYMBOL, Net, minimize, trim
from fsmc.compiler.cfg.rules import Network
from fsmc.compiler.cfg.terminals import Terminal
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import exceeded, working_seconds

MAX_PLACES = 200_000
_START = -1
"""The start of a symbol before it has read anything, which is no end: the empty text is told apart, and nets that call pass by it themselves."""


class Entry(NamedTuple):
    """A symbol, and the state of the DFA in which its text begins."""

    symbol: int
    dfa: int


class Spot(NamedTuple):
    """A place of an entry's net (of a terminal: a state of its DFA), and the state of the DFA there."""

    place: int
    dfa: int


class Step(NamedTuple):
    """How a spot is reached by the fewest bytes: from where, and by a byte or by what is called."""

    source: Spot
    byte: int
    called: Entry | None
    end: Spot


_Waiting = list[tuple[int, int, Entry, Spot, "Step | None"]]
"""A heap of what was reached: length, a number that makes it unique, entry, spot, and how."""


class Beside:
    """What of a network's texts leads the DFA where. Embedded schemas are not taken.

    Raises LimitExceeded for more than ``max_places`` or ``max_seconds``.
    """

    def __init__(
        self, network: Network, dfa: DFA, *, max_places: int = MAX_PLACES, max_seconds: float = MAX_SECONDS
    ) -> None:
        assert not network.schemas
        self.network, self.dfa = network, dfa
        self.max_places, self.max_seconds = max_places, max_seconds
        self._deadline = working_seconds() + max_seconds
        self._next: list[list[int]] = dfa.delta[:, dfa.byte_class].tolist()
        self._rows: dict[int, list[dict[int, int]]] = {}
        self._final: dict[int, list[bool]] = {}
        self._n_places = self._n_pushed = 0
        self.lengths: dict[Entry, dict[Spot, int]] = {}
        self.steps: dict[Entry, dict[Spot, Step | None]] = {}
        self.ends: dict[Entry, dict[int, Spot]] = {}  # by the DFA's state: where the symbol ends by the fewest bytes
        self.root = Entry(network.root, dfa.start)
        self._explore()
        accepts = dfa.accepting.tolist()
        self.is_nullable = network.root_nullable and bool(accepts[dfa.start])
        self.accepting = [q for q in self.ends[self.root] if accepts[q]]

    def shortest(self) -> bytes | None:
        """A shortest text of both; None if there is none."""
        if self.is_nullable:
            return b""
        lengths = self.lengths[self.root]
        ends = [self.ends[self.root][q] for q in self.accepting]
        if not ends:
            return None
        text = bytearray()
        pending = [(self.root, min(ends, key=lambda spot: (lengths[spot], spot)))]
        while pending:  # from the last byte to the first one
            entry, spot = pending.pop()
            step = self.steps[entry][spot]
            if step is None:
                continue
            pending.append((entry, step.source))
            if step.called is None:
                text.append(step.byte)
            else:
                pending.append((step.called, step.end))
            if not len(text) & 0xFFF:
                self._check()
        return bytes(reversed(text))

    def intersection(self) -> Network | None:
        """The network of what both allow; None if that is nothing."""
        if not self.accepting and not self.is_nullable:
            return None
        found = Network()
        found.text, found.notes = self.network.text, list(self.network.notes)
        found.names = [self.network.names[self.network.root]]
        found.root_nullable = self.is_nullable
        numbers: dict[tuple[Entry, int], int] = {}
        found.nets[0] = self._net(self.root, self.accepting, found, numbers)
        made = 0
        while made < len(numbers):
            for (entry, q), symbol in list(numbers.items())[made:]:
                made += 1
                self._check()
                if entry.symbol in self.network.nets:
                    found.nets[symbol] = self._net(entry, [q], found, numbers)
                else:
                    found.terminals[symbol] = self._terminal(entry, q)
        return found

    # ── lengths ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _explore(self) -> None:
        """Settle the spots in the order of their lengths: what calls something is longer than what it calls."""
        waiting: _Waiting = []
        readers: dict[Entry, list[tuple[Entry, Spot, int]]] = {}
        self._enter(self.root, waiting)
        while waiting:
            length, _, entry, spot, step = heapq.heappop(waiting)
            lengths = self.lengths[entry]
            if spot in lengths:
                continue
            self._count()
            lengths[spot], self.steps[entry][spot] = length, step
            if self._final[entry.symbol][spot.place] and length and spot.dfa not in self.ends[entry]:
                self.ends[entry][spot.dfa] = spot
                for reader, source, target in readers.get(entry, ()):
                    to = Spot(target, spot.dfa)
                    if to not in self.lengths[reader]:
                        far = self.lengths[reader][source] + length
                        self._push(waiting, far, reader, to, Step(source, -1, entry, spot))
            after, met = self._next[spot.dfa], set()
            for letter, target in self._rows[entry.symbol][spot.place].items():
                if letter < SYMBOL:
                    to = Spot(target, after[letter])
                    if to.dfa != DEAD and to not in lengths and to not in met:
                        met.add(to)
                        self._push(waiting, length + 1, entry, to, Step(spot, letter, None, to))
                    continue
                called = Entry(letter - SYMBOL, spot.dfa)
                readers.setdefault(called, []).append((entry, spot, target))
                if called not in self.lengths:
                    self._enter(called, waiting)
                for q, end in self.ends[called].items():
                    to = Spot(target, q)
                    if to not in lengths:
                        self._push(waiting, length + self.lengths[called][end], entry, to, Step(spot, -1, called, end))

    def _push(self, waiting: _Waiting, length: int, entry: Entry, spot: Spot, step: Step | None) -> None:
        self._n_pushed += 1
        if not self._n_pushed & 0xFFF:
            self._check()
        heapq.heappush(waiting, (length, self._n_pushed, entry, spot, step))

    def _enter(self, entry: Entry, waiting: _Waiting) -> None:
        if entry.symbol in self.network.nets:
            net = self.network.nets[entry.symbol]
            self._rows[entry.symbol] = [*net.rows, net.rows[0]]
            self._final[entry.symbol] = [*net.final, False]
        else:
            dfa = self.network.terminals[entry.symbol].dfa
            if entry.symbol not in self._rows:
                classes = dfa.byte_class.tolist()
                self._rows[entry.symbol] = [
                    {byte: row[c] for byte, c in enumerate(classes) if row[c] != DEAD} for row in dfa.delta.tolist()
                ]
                self._rows[entry.symbol].append(self._rows[entry.symbol][dfa.start])
                self._final[entry.symbol] = [*dfa.accepting.tolist(), False]
        self.lengths[entry], self.steps[entry], self.ends[entry] = {}, {}, {}
        self._push(waiting, 0, entry, Spot(_START, entry.dfa), None)

    def _count(self) -> None:
        self._n_places += 1
        if self._n_places > self.max_places:
            raise LimitExceeded("max_pairs", self.max_places, self._n_places, "the combination is too large")
        if not self._n_places & 0xFF:
            self._check()

    def _check(self) -> None:
        if over := exceeded(self.max_seconds, self._deadline):
            raise LimitExceeded("max_seconds", *over, "the combination takes too long")

    # ── the network ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _net(self, entry: Entry, ends: list[int], found: Network, numbers: dict[tuple[Entry, int], int]) -> Net:
        """The net of an entry that ends in these states of the DFA. numbers: of the symbols so far, which grow."""
        spots = list(self.lengths[entry])  # the start first: it has length 0
        place_of = {spot: place for place, spot in enumerate(spots)}
        listed: list[tuple[Entry, int]] = []  # local letters, so that only those that are needed become symbols
        local: dict[tuple[Entry, int], int] = {}
        rows = []
        for spot in spots:
            self._count_step()
            row: dict[int, int] = {}
            after = self._next[spot.dfa]
            for letter, target in self._rows[entry.symbol][spot.place].items():
                if letter < SYMBOL:
                    if after[letter] != DEAD:
                        row[letter] = place_of[Spot(target, after[letter])]
                    continue
                called = Entry(letter - SYMBOL, spot.dfa)
                for q in self.ends[called]:
                    number = local.setdefault((called, q), len(listed))
                    if number == len(listed):
                        listed.append((called, q))
                    row[SYMBOL + number] = place_of[Spot(target, q)]
            rows.append(row)
        final = self._final[entry.symbol]
        net = minimize(trim(Net(rows, [final[spot.place] and spot.dfa in ends for spot in spots])), self._check)
        for row in net.rows:
            for letter in [letter for letter in row if letter >= SYMBOL]:
                key = listed[letter - SYMBOL]
                if key not in numbers:
                    numbers[key] = len(found.names)
                    found.names.append(self.network.names[key[0].symbol])
        return Net([_renamed(row, listed, numbers) for row in net.rows], net.final)

    def _count_step(self) -> None:
        self._n_places += 1
        if not self._n_places & 0xFF:
            self._check()

    def _terminal(self, entry: Entry, q: int) -> Terminal:
        """The texts of a terminal that lead from one state of the DFA to another."""
        accepting = np.zeros(self.dfa.n_states, bool)
        accepting[q] = True
        between = DFA.from_arrays(
            self.dfa.byte_class, np.where(self.dfa.delta == DEAD, -1, self.dfa.delta), accepting, entry.dfa
        )
        left = max(self._deadline - working_seconds(), 0.0)
        dfa = regular.intersection(self.network.terminals[entry.symbol].dfa, between, max_seconds=left)
        return Terminal((MAX_STATES, MAX_BYTES, self.max_seconds), dfa=dfa)


def _renamed(
    row: dict[int, int], listed: list[tuple[Entry, int]], numbers: dict[tuple[Entry, int], int]
) -> dict[int, int]:
    return {
        letter if letter < SYMBOL else SYMBOL + numbers[listed[letter - SYMBOL]]: target
        for letter, target in row.items()
    }
