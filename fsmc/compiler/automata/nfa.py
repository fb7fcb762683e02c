"""From a syntax tree to a nondeterministic automaton over bytes, by Thompson's construction.

K. Thompson, "Regular expression search algorithm" (1968): every node of the tree becomes a fragment with one entry and
one exit, glued with *epsilons*, transitions that read nothing. Here a fragment is a *block of consecutive state
numbers*: it owns the states ``base`` (its entry) to ``base + size - 1``, and its exit is ``base + size``, the entry of
whatever comes next. So concatenation needs no epsilon at all, and a copy of a fragment is the same rows with a number
added: ``\\w{0,1000}`` is built by a few numpy additions, not by a loop over its 1,184,000 edges.

Two rules make the gluing sound: a fragment has no transition out of its exit, and a loop or a bypass gets states of its
own, so that coming back to a fragment's entry always means to start it afresh.

Zero-width conditions (look-around, start and end of the text) are *guarded* epsilons here. `matches` interprets them as
they are defined; `determinize` compiles them away first, see `look`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.kept import kept
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.expr import Alternate, Chars, Concat, Expr, Look, Repeat, TextEnd, TextStart, counted
from fsmc.compiler.syntax.utf8 import FINAL, utf8_automaton

NO_GUARD = -1

MAX_NFA_STATES = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class NFA:
    """Nondeterministic automaton over bytes. States 0..n_states-1; ``start`` is 0, ``final`` the last; arrays read-only.

    edges: int32[n_edges, 4], rows (source, low byte, high byte, target), sorted by source and byte; the ranges of one
    source are disjoint.
    epsilons: int32[n_epsilons, 3], rows (source, target, guard), sorted by source; guard NO_GUARD (-1) is always open,
    guard g is open where the zero-width condition ``guards[g]`` holds.
    """

    edges: npt.NDArray[np.int32]
    epsilons: npt.NDArray[np.int32]
    n_states: int
    guards: tuple[Expr, ...] = field(default=())

    @property
    def start(self) -> int:
        """The state before the first byte."""
        return 0

    @property
    def final(self) -> int:
        """The state in which a match is complete; nothing leads out of it."""
        return self.n_states - 1

    def matches(self, data: bytes) -> bool:
        """Whether the whole of ``data`` is accepted, by running all states at once: the definition, slow and plain.

        Zero-width conditions are decided by running their own automaton over the text before or after the place. They
        see well-formed text only, so ``data`` that is not UTF-8 may be judged wrongly near a look; it never matches.

        >>> from fsmc.compiler.syntax.regex import parse_regex
        >>> [thompson(parse_regex("(?!.*00)[0-9]{2,4}")).matches(text) for text in (b"1203", b"1003")]
        [True, False]
        """
        return len(data) in _Simulation(bytes(data)).ends_after(self, 0)


def thompson(expr: Expr, *, max_states: int = MAX_NFA_STATES) -> NFA:
    """The NFA of a syntax tree; its size is linear in the tree with repeats written out.

    Every state can reach the final one, unless nothing matches at all. Raises LimitExceeded, before anything is built,
    when more than ``max_states`` states were needed.

    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> nfa = thompson(parse_regex("a|é*"))
    >>> for source, low, high, target in nfa.edges:
    ...     print(f"{source} --{low:02X}..{high:02X}--> {target}")
    1 --61..61--> 2
    4 --C3..C3--> 5
    5 --A9..A9--> 6
    >>> nfa.epsilons[:, :2].tolist()
    [[0, 1], [0, 3], [2, 7], [3, 4], [3, 7], [6, 3]]
    """
    builder = _Builder()
    size = builder.measure(expr)
    if size is None:
        return NFA(_frozen(np.empty((0, 4), np.int32)), _frozen(np.empty((0, 3), np.int32)), 2)
    if size.states + 1 > max_states:
        raise LimitExceeded(
            "max_states", max_states, size.states + 1, "the pattern's repeats written out need that many"
        )
    builder.allocate(size)
    builder.emit(expr, 0)
    return NFA(_frozen(builder.edges), _frozen(builder.epsilons), size.states + 1, tuple(builder.guards))


class _Size(NamedTuple):
    """What a fragment takes: states without its exit, rows of edges, rows of epsilons."""

    states: int
    edges: int
    epsilons: int

    def times(self, count: int) -> _Size:
        return _Size(self.states * count, self.edges * count, self.epsilons * count)

    def plus(self, states: int, edges: int, epsilons: int) -> _Size:
        return _Size(self.states + states, self.edges + edges, self.epsilons + epsilons)


_NOTHING = _Size(0, 0, 0)


class _Builder:
    """Sizes first, so that limits hold before memory is used; then every fragment is written at its final place."""

    def __init__(self) -> None:
        self.guards: dict[Expr, int] = {}
        self._sizes: dict[int, _Size | None] = {}  # by id: trees may share nodes, and nodes hash in linear time
        self._n_edges = self._n_epsilons = 0

    def measure(self, expr: Expr) -> _Size | None:
        """Size of the fragment of ``expr``, or None if it matches nothing: such branches are left out.

        Children first, without recursion; a node that the tree holds several times is measured once.
        """
        pending = [expr]
        while pending:
            missing = [child for child, _ in counted(_children(pending[-1])) if id(child) not in self._sizes]
            if missing:
                pending += missing
            else:
                node = pending.pop()
                self._sizes[id(node)] = self._measure(node)
        return self._sizes[id(expr)]

    def _measure(self, expr: Expr) -> _Size | None:
        match expr:
            case Chars(chars):
                if not chars:
                    return None
                if _is_ascii(chars):
                    return _Size(1, len(chars.ranges), 0)
                automaton = utf8_automaton(chars)
                return _Size(automaton.n_states - 1, len(automaton.edges), 0)
            case Concat(parts):
                total = _NOTHING
                for part, n in counted(parts):
                    size = self._sizes[id(part)]
                    if size is None:
                        return None
                    total = total.plus(*size.times(n))
                return total
            case Alternate(branches):
                sizes = [size for branch in branches if (size := self._sizes[id(branch)]) is not None]
                if len(sizes) < 2:
                    return sizes[0] if sizes else None
                total = _Size(len(sizes), 0, 2 * len(sizes) - 1)  # a common entry; an end for each branch but the last
                for size in sizes:
                    total = total.plus(size.states, size.edges, size.epsilons)
                return total
            case Repeat(body, minimum, maximum):
                size = self._sizes[id(body)]
                if size is None:
                    return _NOTHING if minimum == 0 else None
                if size.states == 0:
                    return _NOTHING
                if maximum is None:
                    return size.times(max(minimum, 1)).plus(1 + (minimum == 0), 0, 2 + (minimum == 0))
                return size.times(minimum).plus(*_times_optional(size, maximum - minimum))
            case Look(body, _, negated) if self._sizes[id(body)] is None:
                return _NOTHING if negated else None
            case Look() | TextStart() | TextEnd():
                return _Size(1, 0, 1)
        raise AssertionError(f"unknown node {type(expr).__name__}")

    def allocate(self, size: _Size) -> None:
        self.edges = np.empty((size.edges, 4), np.int32)
        self.epsilons = np.empty((size.epsilons, 3), np.int32)
        # Single rows, the common case for literals, go through memoryviews: numpy takes five times as long for them.
        self._edge_cells = memoryview(self.edges.reshape(-1).data)
        self._epsilon_cells = memoryview(self.epsilons.reshape(-1).data)

    def emit(self, expr: Expr, base: int) -> int:
        """Write the fragment of ``expr`` (which matches something) at state ``base``; returns its exit.

        Rows are written in the order of their sources.
        """
        size = self._sizes[id(expr)]
        assert size is not None
        if size.states == 0:
            return base
        end = base + size.states
        match expr:
            case Chars(chars):
                self._emit_class(chars, base)
            case Concat(parts):
                for part in parts:
                    base = self.emit(part, base)
            case Alternate(branches):
                self._emit_branches([b for b in branches if self._sizes[id(b)] is not None], base, end)
            case Repeat(body, minimum, maximum):
                if maximum is None:
                    base = self._emit_copies(body, base, max(minimum - 1, 0))
                    self._emit_loop(body, base, end, may_skip=minimum == 0)
                else:
                    base = self._emit_copies(body, base, minimum)
                    self._emit_optional_copies(body, base, end, maximum - minimum)
            case _:
                self._emit_epsilon(base, end, self.guards.setdefault(expr, len(self.guards)))
        return end

    def _emit_edge(self, source: int, low: int, high: int, target: int) -> None:
        cells, i = self._edge_cells, 4 * self._n_edges
        cells[i], cells[i + 1], cells[i + 2], cells[i + 3] = source, low, high, target
        self._n_edges += 1

    def _emit_epsilon(self, source: int, target: int, guard: int = NO_GUARD) -> None:
        cells, i = self._epsilon_cells, 3 * self._n_epsilons
        cells[i], cells[i + 1], cells[i + 2] = source, target, guard
        self._n_epsilons += 1

    def _emit_class(self, chars: CharClass, base: int) -> None:
        if _is_ascii(chars):  # most characters of a pattern stand for themselves: spare them numpy's overhead
            for low, high in chars.ranges:
                self._emit_edge(base, low, high, base + 1)
            return
        rows = _class_rows(chars)
        place = self.edges[self._n_edges : self._n_edges + len(rows)]
        np.add(rows, np.array([base, 0, 0, base], np.int32), out=place)
        self._n_edges += len(rows)

    def _emit_branches(self, branches: list[Expr], entry: int, end: int) -> None:
        if len(branches) == 1:
            self.emit(branches[0], entry)
            return
        base = entry + 1
        for branch in branches:
            self._emit_epsilon(entry, base)
            size = self._sizes[id(branch)]
            assert size is not None
            base += size.states + 1
        base = entry + 1
        for branch in branches[:-1]:
            base = self.emit(branch, base)
            self._emit_epsilon(base, end)
            base += 1
        self.emit(branches[-1], base)

    def _emit_loop(self, body: Expr, base: int, end: int, *, may_skip: bool) -> None:
        """``body+``: after the body, a state that starts it again or leaves. ``body*``: the same state before it."""
        if may_skip:
            self._emit_epsilon(base, base + 1)
            self._emit_epsilon(base, end)
            self._emit_epsilon(self.emit(body, base + 1), base)
        else:
            last = self.emit(body, base)
            self._emit_epsilon(last, base)
            self._emit_epsilon(last, end)

    def _emit_copies(self, body: Expr, base: int, count: int) -> int:
        """``body{count}``; returns its exit."""
        if count == 0:
            return base
        first_edge, first_epsilon = self._n_edges, self._n_epsilons
        stride = self.emit(body, base) - base
        self._copy_rows(first_edge, first_epsilon, count - 1, stride, fixed=-1)
        return base + count * stride

    def _emit_optional_copies(self, body: Expr, base: int, end: int, count: int) -> None:
        """``body{0,count}``: before each copy, a state that goes on to the copy or leaves for the end of all copies."""
        if count == 0:
            return
        first_edge, first_epsilon = self._n_edges, self._n_epsilons
        self._emit_epsilon(base, base + 1)
        self._emit_epsilon(base, end)
        stride = self.emit(body, base + 1) - base
        self._copy_rows(first_edge, first_epsilon, count - 1, stride, fixed=end)

    def _copy_rows(self, first_edge: int, first_epsilon: int, count: int, stride: int, fixed: int) -> None:
        """Append ``count`` copies of the rows written since the marks, the k-th with k · stride added to its states.

        Epsilons whose target is ``fixed`` keep it.
        """
        if count == 0:
            return
        shifts = np.arange(1, count + 1, dtype=np.int32)[:, None] * np.int32(stride)
        for table, first, last in (
            (self.edges, first_edge, self._n_edges),
            (self.epsilons, first_epsilon, self._n_epsilons),
        ):
            width, last_column = table.shape[1], 3 if table is self.edges else 1
            template, place = table[first:last], table[last : last + count * (last - first)]
            place = place.reshape(count, last - first, width)
            place[:] = template
            place[:, :, 0] += shifts
            place[:, :, last_column] += shifts * (template[:, last_column] != fixed)
        self._n_edges += count * (self._n_edges - first_edge)
        self._n_epsilons += count * (self._n_epsilons - first_epsilon)


def _children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Concat(parts):
            return parts
        case Alternate(branches):
            return branches
        case Repeat(body) | Look(body):
            return (body,)
    return ()


def _times_optional(size: _Size, count: int) -> tuple[int, int, int]:
    return (size.states + 1) * count, size.edges * count, (size.epsilons + 2) * count


def _is_ascii(chars: CharClass) -> bool:
    return chars.ranges[-1][1] < 0x80


@kept(1 << 25, lambda rows, chars: int(rows.nbytes) + 150 * len(chars.ranges))
def _class_rows(chars: CharClass) -> npt.NDArray[np.int32]:
    """Edges of one character as a fragment at base 0: the automaton's final state, 1, becomes the exit."""
    automaton = utf8_automaton(chars)
    size = automaton.n_states - 1
    number = np.arange(-1, size, dtype=np.int32)  # old states 2, 3, … move down by one, into the gap of the final state
    number[0], number[FINAL] = 0, size
    rows = automaton.edges.copy()
    rows[:, 0] = number[rows[:, 0]]
    rows[:, 3] = number[rows[:, 3]]
    return _frozen(rows)


def _frozen(array: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    view = array[:]
    view.flags.writeable = False
    return view


class _Simulation:
    """Runs NFAs over one text; remembers where zero-width conditions hold."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._nfas: dict[Expr, NFA] = {}
        self._known: dict[tuple[Expr, int], bool] = {}

    def ends_after(self, nfa: NFA, position: int) -> set[int]:
        """Positions at which a match of ``nfa`` that starts at ``position`` ends."""
        edges: dict[int, list[tuple[int, int, int]]] = {}
        epsilons: dict[int, list[tuple[int, int]]] = {}
        for source, low, high, target in nfa.edges.tolist():
            edges.setdefault(source, []).append((low, high, target))
        for source, target, guard in nfa.epsilons.tolist():
            epsilons.setdefault(source, []).append((target, guard))
        ends: set[int] = set()
        states = {nfa.start}
        while states:
            pending = list(states)
            while pending:
                for target, guard in epsilons.get(pending.pop(), ()):
                    if target not in states and (guard == NO_GUARD or self.holds(nfa.guards[guard], position)):
                        states.add(target)
                        pending.append(target)
            if nfa.final in states:
                ends.add(position)
            if position == len(self.data):
                break
            byte = self.data[position]
            position += 1
            states = {t for s in states for low, high, t in edges.get(s, ()) if low <= byte <= high}
        return ends

    def holds(self, guard: Expr, position: int) -> bool:
        """Whether the zero-width condition holds at ``position``."""
        match guard:
            case TextStart():
                return position == 0
            case TextEnd():
                return position == len(self.data)
            case Look(body, ahead, negated):
                key = guard, position
                if key not in self._known:
                    nfa = self._nfas.setdefault(body, thompson(body))
                    if ahead:
                        found = bool(self.ends_after(nfa, position))
                    else:
                        found = any(position in self.ends_after(nfa, start) for start in range(position + 1))
                    self._known[key] = found is not negated
                return self._known[key]
        raise AssertionError(f"unknown guard {type(guard).__name__}")
