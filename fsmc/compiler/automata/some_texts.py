"""How long some text to the end is, from any configuration: an upper bound that is found fast.

A search like that of `ShortestTexts`, which stops at the first state that leads out of its component or to where an earlier search
went through: each state on a way that was found remembers what is left of it. So what is new on the way of a text costs a few steps.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.shortest import Steps
from fsmc.compiler.automata.tables import CALL, RECORDED

MAX_STEPS = 500
"""States that one question may look at."""
NEAR_STEPS, DEEP_STEPS = 16, 64
"""Of those, in one component: so many of the nearest ones, then so many depth first, then the nearest again."""
MAX_DEPTH = 40
"""Calls inside of each other that one question may look at."""

_END = -1
"""In place of an outcome: the text may end in the root's component."""


class _Way(NamedTuple):
    """A way out of a component: how many bytes it has, and the outcome."""

    cost: int
    outcome: int


class Recorded(Protocol):
    """What is known of calls of which it matters what they read (see `LazyRSM`), whatever they have read or will read."""

    def after(self, frame: int, outcome: int) -> tuple[int, int]:
        """The state after the call, and how many bytes more than any of its texts has are enough for one that is not refused."""

    def rest(self, state: int) -> tuple[int, int] | None:
        """(bytes that are enough to leave the component from a state, the outcome); None if nothing is known."""


class SomeTexts:
    """Lengths of texts that lead from configurations of one machine to where the text may end. Safe under threads.

    top, steps: as for `ShortestTexts`. Nothing is known (None) after `MAX_STEPS`, and where the outcome of the way that was found is not
    one with which the caller goes on: ask `ShortestTexts` then. recorded: of a machine with recorded calls; without it nothing is known
    where one returns.

    >>> from fsmc.compiler.automata.dfa import DFA
    >>> from fsmc.compiler.automata.rsm import RSM
    >>> from fsmc.compiler.automata.shortest import ShortestTexts
    >>> ab = RSM.from_dfa(DFA.from_arrays([0] * 97 + [1, 2] + [0] * 157, [[0, 0, 0], [0, 1, 2], [0, 0, 0]], [False, False, True], 1))
    >>> SomeTexts(ab, lambda node: (0, 0), ShortestTexts(ab, lambda node: (0, 0)).steps).cost(ab.start, 0)
    1
    """

    def __init__(
        self,
        machine: RecursiveMachine,
        top: Callable[[int], tuple[int, int]],
        steps: Steps,
        recorded: Recorded | None = None,
    ) -> None:
        self.machine, self.top, self.steps, self.recorded = machine, top, steps, recorded
        self._ways: tuple[dict[int, _Way], dict[int, _Way]] = {}, {}  # inside of calls, and of the root
        self._costs: dict[tuple[int, int], int | None] = {}
        self._active: set[int] = set()
        self._n_steps = 0
        self._lock = threading.Lock()

    def cost(self, state: int, stack: int) -> int | None:
        """How many bytes some ending from a configuration has; None if none was found."""
        if (state, stack) in self._costs:
            return self._costs[state, stack]
        with self._lock:
            self._n_steps = 0
            total: int | None = 0
            trail: list[tuple[tuple[int, int], int]] = []
            while (state, stack) not in self._costs:
                way = self._way(state, is_root=stack == 0)
                if way is not None and stack:
                    here, (stack, frame) = (state, stack), self.top(stack)
                    state, more = self._after(frame, way.outcome)
                    trail.append((here, way.cost + more))
                    if state:
                        continue
                    way = None
                elif way is not None:
                    trail.append(((state, stack), way.cost))
                total = 0 if way is not None else None
                break
            else:
                total = self._costs[state, stack]
            for configuration, cost in reversed(trail):
                total = None if total is None else total + cost
                self._costs[configuration] = total
            return total

    def _after(self, frame: int, outcome: int) -> tuple[int, int]:
        if frame < RECORDED:
            return self.machine.after_outcome(frame, outcome), 0
        return (0, 0) if self.recorded is None else self.recorded.after(frame, outcome)

    def _way(self, start: int, is_root: bool = False) -> _Way | None:
        """A way out of the component from one of its states."""
        known = self._ways[is_root]
        if start in known:
            return known[start]
        if start in self._active or len(self._active) >= MAX_DEPTH:
            return None
        self._active.add(start)
        before: dict[int, tuple[int, int]] = {}  # state → the one before it on the way, and its cost
        heap: list[tuple[int, int, int, int]] = [(0, 0, start, 0)]
        newest: list[tuple[int, int, int, int]] = []
        tick, last = 0, 0
        found: _Way | None = None
        machine = self.machine
        while heap and self._n_steps < MAX_STEPS and found is None:
            # The nearest state, for some steps the newest one: a date has thousands of beginnings, a counted text a long way to its limit.
            goes_deep = newest and NEAR_STEPS <= len(before) < NEAR_STEPS + DEEP_STEPS
            cost, _, state, origin = newest.pop() if goes_deep else heapq.heappop(heap)
            if state in before:
                continue
            before[state] = origin, cost
            if is_root and machine.final(state) >= 0:
                found, last = _Way(cost, _END), state
                break
            rest = None if self.recorded is None else self.recorded.rest(state)
            if rest is not None:
                found, last = _Way(cost + rest[0], rest[1]), state
                break
            self._n_steps += 1
            for text, to, code in self.steps(state):
                there = cost + len(text)
                way: _Way | None = None
                if not to:
                    kind, operand, frame = machine.action(code)
                    if kind == CALL:
                        inner = self._way(operand)
                        if inner is None:
                            continue
                        to, more = self._after(frame, inner.outcome)
                        there += inner.cost + more
                    elif not is_root:
                        way = _Way(there, operand)
                if to in known:
                    way = _Way(there + known[to].cost, known[to].outcome)
                if way is not None:
                    if found is None or way.cost < found.cost:
                        found, last = way, state
                elif to:
                    tick += 1
                    newest.append((there, tick, to, state))
                    heapq.heappush(heap, newest[-1])
        self._active.discard(start)
        state = last if found is not None else 0
        while state and found is not None:
            before_it, cost = before[state]
            known.setdefault(state, _Way(found.cost - cost, found.outcome))
            state = before_it
        return found
