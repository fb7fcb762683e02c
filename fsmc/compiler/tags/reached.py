"""Where strings lead in an NFA: what they begin with in common is read once, so a thousand tags cost little more than their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fsmc.compiler.tags.clock import TagClock

_EDGES_A_LOOK = 20_000
"""Edges that are read between two looks at the clock."""


@dataclass(slots=True, eq=False)
class _Node:
    """The states after the beginning of a string; ``exact`` and ``spans``: their edges of one byte by that byte, and the others."""

    states: frozenset[int]
    exact: dict[int, list[int]] | None = None
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    below: dict[int, _Node] = field(default_factory=dict)


class Reached:
    """The NFA of ``edges`` (source, low byte, high byte, target) and ``epsilons`` (source, target) as they are now.

    Raises LimitExceeded when the clock's ``max_seconds`` are over.

    >>> reached = Reached([(0, 97, 97, 1), (1, 97, 122, 2), (1, 98, 98, 3)], [(2, 0)], TagClock(60.0))
    >>> sorted(reached.after((0,), b"ab")), sorted(reached.after((0,), b"ac"))
    ([0, 2, 3], [0, 2])
    """

    def __init__(
        self, edges: Iterable[tuple[int, int, int, int]], epsilons: Iterable[tuple[int, int]], clock: TagClock
    ) -> None:
        self._edges: dict[int, list[tuple[int, int, int]]] = {}
        for n_read, (source, low, high, target) in enumerate(edges):
            if n_read % _EDGES_A_LOOK == 0:
                clock.check()
            self._edges.setdefault(source, []).append((low, high, target))
        self._links: dict[int, list[int]] = {}
        clock.check()
        for source, target in epsilons:
            self._links.setdefault(source, []).append(target)
        self._roots: dict[tuple[int, ...], _Node] = {}
        self._clock = clock
        self._n_read = 0

    def after(self, starts: tuple[int, ...], string: bytes) -> frozenset[int]:
        """The states in which the string, read from the starts, may be."""
        node = self._roots.get(starts)
        if node is None:
            node = self._roots[starts] = _Node(self._closure(starts))
        for byte in string:
            below = node.below.get(byte)
            if below is None:
                below = node.below[byte] = _Node(self._closure(self._step(node, byte)))
            node = below
        return node.states

    def _step(self, node: _Node, byte: int) -> list[int]:
        if node.exact is None:
            node.exact = {}
            for state in node.states:
                for low, high, target in self._edges.get(state, ()):
                    if low == high:
                        node.exact.setdefault(low, []).append(target)
                    else:
                        node.spans.append((low, high, target))
            self._look(len(node.states))
        self._look(len(node.spans) + 1)
        return [*node.exact.get(byte, ()), *(t for low, high, t in node.spans if low <= byte <= high)]

    def _closure(self, states: Iterable[int]) -> frozenset[int]:
        closed: set[int] = set()
        todo = list(states)
        while todo:
            state = todo.pop()
            if state not in closed:
                closed.add(state)
                todo += self._links.get(state, ())
        self._look(len(closed))
        return frozenset(closed)

    def _look(self, n_read: int) -> None:
        self._n_read += n_read
        if self._n_read > _EDGES_A_LOOK:
            self._n_read = 0
            self._clock.check()
