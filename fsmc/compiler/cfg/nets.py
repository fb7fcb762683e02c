"""A rule as a deterministic automaton whose letters are bytes and the names of other rules: a *net*.

Together the nets are a recursive transition network (Woods, 1970). Being deterministic and minimal over these letters, a net has one
place for all positions in a rule after which the same may follow, however the rule was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import exceeded, working_seconds

SYMBOL = 256
"""Letters from here on are symbols: letter − SYMBOL is the number of a rule or terminal."""

_SET_BYTES = 64
"""Of each member of a set, about."""
_PLACE_BYTES = 1500
"""Of each place, about, with the sets and the net that are made of it."""


class Limits(NamedTuple):
    """Bounds on what is made of a grammar. deadline: of `working_seconds`."""

    max_states: int
    max_bytes: int
    max_seconds: float
    deadline: float

    @classmethod
    def new(cls, max_states: int, max_bytes: int, max_seconds: float) -> Limits:
        """Limits whose time begins now."""
        return cls(max_states, max_bytes, max_seconds, working_seconds() + max_seconds)

    def check_places(self, n: int) -> None:
        """The same for places of a draft, with the memory that they will take."""
        self.check(n)
        if n * _PLACE_BYTES > self.max_bytes:
            raise LimitExceeded("max_bytes", self.max_bytes, n * _PLACE_BYTES, "places in the rules of the grammar")

    def check(self, n_states: int) -> None:
        """Raise LimitExceeded for too many states, or when the time is over."""
        if n_states > self.max_states:
            raise LimitExceeded("max_states", self.max_states, n_states, "places in the rules of the grammar")
        if over := exceeded(self.max_seconds, self.deadline):
            raise LimitExceeded("max_seconds", *over, "in analysing the grammar")


@dataclass(frozen=True, slots=True, eq=False)
class Net:
    """rows: letter → next place, for each place; the first place is the start. final: whether the rule may end in a place."""

    rows: list[dict[int, int]]
    final: list[bool]

    def is_end(self, place: int) -> bool:
        """Whether nothing but the end can follow."""
        return self.final[place] and not self.rows[place]

    def symbols(self) -> set[int]:
        """The numbers of the symbols among its letters."""
        return {letter - SYMBOL for row in self.rows for letter in row if letter >= SYMBOL}


@dataclass(slots=True)
class Draft:
    """A net in the making: nondeterministic, with steps that read nothing."""

    limits: Limits
    edges: list[list[tuple[int, int]]] = field(default_factory=list)
    skips: list[list[int]] = field(default_factory=list)
    final: set[int] = field(default_factory=set)
    n_held: int = 0

    def place(self) -> int:
        """A new place."""
        self.edges.append([])
        self.skips.append([])
        if not len(self.edges) & 0xFFF:
            self.limits.check_places(len(self.edges))
        return len(self.edges) - 1

    def word(self, start: int, letters: Iterable[int], end: int) -> None:
        """A path of letters."""
        place, pending = start, list(letters)
        for i, letter in enumerate(pending):
            target = end if i == len(pending) - 1 else self.place()
            self.edges[place].append((letter, target))
            place = target
        if not pending:
            self.skips[start].append(end)

    def copy(self, net: Net) -> int:
        """A copy of a net without its ends; its first place."""
        first = len(self.edges)
        for row in net.rows:
            place = self.place()
            self.edges[place] = [(letter, first + target) for letter, target in row.items()]
        return first

    def to_net(self, start: int = 0) -> Net:
        """The minimal net, without places from which no end can be reached."""
        net = trim(self.determinize(start))
        return minimize(net, lambda: self.limits.check(len(net.rows)))

    def determinize(self, start: int) -> Net:
        """The subset construction."""
        closures: dict[int, frozenset[int]] = {}
        first = self._closure([start], closures)
        numbers: dict[frozenset[int], int] = {first: 0}
        pending = [first]
        rows: list[dict[int, int]] = []
        final: list[bool] = []
        for places in pending:  # grows as it goes
            moves: dict[int, list[int]] = {}
            for place in places:
                for letter, target in self.edges[place]:
                    moves.setdefault(letter, []).append(target)
            row = {}
            for letter, targets in moves.items():
                closed = self._closure(targets, closures)
                number = numbers.get(closed)
                if number is None:
                    number = numbers[closed] = len(pending)
                    pending.append(closed)
                    self.hold(closed)
                row[letter] = number
            rows.append(row)
            final.append(not self.final.isdisjoint(places))
            if not len(rows) & 0xFF or len(places) > 1000:
                self.limits.check(len(rows))
        return Net(rows, final)

    def _closure(self, places: list[int], known: dict[int, frozenset[int]]) -> frozenset[int]:
        if len(places) == 1 and places[0] in known:
            return known[places[0]]
        found, pending = set(places), list(places)
        while pending:
            for target in self.skips[pending.pop()]:
                if target not in found:
                    found.add(target)
                    pending.append(target)
        if len(found) > 256:
            self.limits.check(len(self.edges))
        closed = frozenset(found)
        if len(places) == 1:
            known[places[0]] = closed
            self.hold(closed)
        return closed

    def hold(self, places: frozenset[int]) -> None:
        """Count the memory of a set that is kept."""
        self.n_held += len(places)
        if self.n_held * _SET_BYTES > self.limits.max_bytes:
            reached = self.n_held * _SET_BYTES
            raise LimitExceeded(
                "max_bytes", self.limits.max_bytes, reached, "sets of places in the rules of the grammar"
            )


def trim(net: Net) -> Net:
    """Without places that reach no end, and places that are not reached."""
    sources: list[list[int]] = [[] for _ in net.rows]
    for place, row in enumerate(net.rows):
        for target in row.values():
            sources[target].append(place)
    live = {place for place, is_final in enumerate(net.final) if is_final}
    pending = list(live)
    while pending:
        for source in sources[pending.pop()]:
            if source not in live:
                live.add(source)
                pending.append(source)
    return _renumbered(net, {place: place for place in range(len(net.rows))}, live)


def minimize(net: Net, check: Callable[[], None] = lambda: None) -> Net:
    """The smallest net of the same language over letters: a block that splits keeps its largest part, and only what leads to the others
    is looked at again (after Hopcroft, 1971), so that long rules cost little more than short ones. check: called again and again, may raise."""
    sources: list[list[int]] = [[] for _ in net.rows]
    for place, row in enumerate(net.rows):
        for target in row.values():
            sources[target].append(place)
    blocks = [int(is_final) for is_final in net.final]
    members = [{place for place, block in enumerate(blocks) if block == number} for number in (0, 1)]
    unsure = {number: set(places) for number, places in enumerate(members) if places}
    while unsure:
        if not len(members) & 0xFF:
            check()
        block, places = unsure.popitem()
        groups: dict[frozenset[tuple[int, int]], list[int]] = {}
        for place in places:
            key = frozenset((letter, blocks[target]) for letter, target in net.rows[place].items())
            groups.setdefault(key, []).append(place)
        parts = sorted(groups.values(), key=len)
        n_others = len(members[block]) - len(places)  # whose rows still agree
        if n_others < len(parts[-1]):
            parts[-1:] = [list(members[block] - places)] if n_others else []
        for part in parts:
            members[block].difference_update(part)
            for place in part:
                blocks[place] = len(members)
            members.append(set(part))
        for part in parts:
            for place in part:
                for source in sources[place]:
                    unsure.setdefault(blocks[source], set()).add(source)
    representative: dict[int, int] = {}
    for place, block in enumerate(blocks):
        representative.setdefault(block, place)
    return _renumbered(net, {place: representative[block] for place, block in enumerate(blocks)}, None)


def _renumbered(net: Net, place_of: dict[int, int], live: set[int] | None) -> Net:
    """The places that are reached from the start, in the order in which they are; ``place_of``: which stands for which."""
    start = place_of[0]
    if live is not None and start not in live:
        return Net([{}], [False])
    numbers, order = {start: 0}, [start]
    rows: list[dict[int, int]] = []
    for place in order:  # grows as it goes
        row = {}
        for letter, target in net.rows[place].items():
            target = place_of[target]
            if live is not None and target not in live:
                continue
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
            row[letter] = numbers[target]
        rows.append(row)
    return Net(rows, [net.final[place] for place in order])


def components(graph: Mapping[int, Iterable[int]]) -> Iterator[list[int]]:
    """The strongly connected components, those that are referred to first (Tarjan, 1972, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in graph:
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    found = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        found.append(member)
                        if member == node:
                            break
                    yield found
