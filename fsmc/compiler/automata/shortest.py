"""The shortest way to the end of a text, from any configuration of a recursive state machine.

Dijkstra's algorithm over the states of a component, where a call is an edge as long as the shortest way through what it
calls (Knuth, "A Generalization of Dijkstra's Algorithm", 1977). The ways out of a component from one of its states do not
depend on who called: they are found once for each state, in ascending length and no further than somebody asks, and
serve every configuration after that.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.errors import LimitExceeded

MAX_STEPS = 50_000

SLACK = 3
"""How many bytes longer than the shortest way out of a component one with another outcome may be, to be looked for. The rest of
the text may be shorter after it, but to make sure of that all of the component would have to be searched: over 290 schemas of
MaskBench 3 bytes find the same endings as 32, two more within the limit, and in half the time."""

_NEVER = 1 << 60


class Step(NamedTuple):
    """One thing to do in a state: write ``text`` and go to ``state``, or, where that is 0, do what the negative ``code`` says."""

    text: bytes
    state: int
    code: int = 0


Steps: TypeAlias = "Callable[[int], list[Step]]"
"""The things to do in a state that a way to the end need look at."""


class Way(NamedTuple):
    """A way out of a component: its length in bytes, the outcome, whether a recorded call returned on it (see `LazyRSM`), and
    whether the text ends there, inside the component. The text is in ``parts``: (bytes or a way through a callee, the parts before)."""

    cost: int
    outcome: int
    used: bool
    ends: bool
    parts: Any

    @property
    def text(self) -> bytes:
        """What is written on the way."""
        found: list[bytes] = []
        stack = [self.parts]
        while stack:
            parts = stack.pop()
            if parts is None:
                continue
            last, before = parts
            if isinstance(last, bytes):
                found.append(last)
                stack.append(before)
            else:  # the last first: all is put together backwards
                stack.append(before)
                stack.append(last.parts)
        return b"".join(reversed(found))


class _Ways:
    """The ways out of a component from one of its states, found as far as asked for."""

    __slots__ = ("active", "calls", "done", "found", "heap", "owner", "seen_outcomes", "tick")

    def __init__(self, owner: ShortestTexts, state: int) -> None:
        self.owner = owner
        self.found: list[Way] = []
        self.heap: list[tuple[int, int, Any]] = [(0, 0, (state, False, None))]
        self.done: set[tuple[int, bool]] = set()
        self.seen_outcomes: set[tuple[int, bool, bool]] = set()
        self.tick = 1
        self.active = False

    @property
    def bound(self) -> int:
        """No way that is not found yet is shorter."""
        return self.heap[0][0] if self.heap else _NEVER

    def get(self, i: int, limit: int) -> Way | None:
        """Way number ``i``; None if there is none shorter than ``limit``."""
        while len(self.found) <= i and self.bound < min(limit, self.farthest):
            self.step()
        return self.found[i] if len(self.found) > i and self.found[i].cost < limit else None

    @property
    def farthest(self) -> int:
        """Ways from this length on are not looked for."""
        return self.found[0].cost + SLACK if self.found else _NEVER

    def push(self, cost: int, item: Any) -> None:
        heapq.heappush(self.heap, (cost, self.tick, item))
        self.tick += 1

    def step(self) -> None:
        """Look at the nearest place that was not looked at."""
        self.owner.count()
        cost, _, item = heapq.heappop(self.heap)
        if isinstance(item, Way):
            key = (item.outcome, item.used, item.ends)
            if key not in self.seen_outcomes:
                self.seen_outcomes.add(key)
                self.found.append(item)
            return
        self.active = True
        try:
            if len(item) == 3:
                state, used, parts = item
                if (state, used) not in self.done:
                    if used or not self.borrow(cost, state, parts):
                        self.expand(cost, state, used, parts)
                    self.done.add((state, used))
            elif len(item) == 4:
                self.expand(cost - item[3], *item[:3])
            else:
                self.go_through(cost, *item)
        except LimitExceeded:
            heapq.heappush(self.heap, (cost, -self.tick, item))  # so that whoever asks again goes on from here
            raise
        finally:
            self.active = False

    def borrow(self, cost: int, state: int, parts: Any) -> bool:
        """Take the ways that were found from a state before, and look at it again only where others would be shorter."""
        other = self.owner.known_ways(state)
        if other is None or other is self or not other.found:
            return False
        for way in other.found:
            self.push(cost + way.cost, Way(cost + way.cost, way.outcome, way.used, way.ends, (way, parts)))
        if other.bound < _NEVER:
            self.push(cost + other.bound, (state, False, parts, other.bound))
        return True

    def expand(self, cost: int, state: int, used: bool, parts: Any) -> None:
        machine = self.owner.machine
        final = machine.final(state)
        if final >= 0:
            self.push(cost, Way(cost, final, used, True, parts))
        for text, to, code in self.owner.steps(state):
            there = cost + len(text), (text, parts) if text else parts
            if to:
                self.push(there[0], (to, used, there[1]))
                continue
            kind, operand, frame = machine.action(code)
            if kind == CALL:
                self.push(there[0], (operand, frame, 0, there[0], used, there[1]))
            else:
                self.push(there[0], Way(there[0], operand, used, False, there[1]))

    def go_through(self, cost: int, target: int, frame: int, i: int, start: int, used: bool, parts: Any) -> None:
        """Take way number ``i`` out of the component entered in ``target``, as soon as it is known to be the next one."""
        callee = self.owner.ways(target)
        if len(callee.found) <= i:
            if not callee.active and callee.bound < callee.farthest and start + callee.bound <= cost:
                callee.step()
            if len(callee.found) <= i:
                bound = callee.bound
                if bound < callee.farthest or callee.active:
                    at = start + bound if bound < _NEVER else cost + 1
                    self.push(max(at, cost + callee.active), (target, frame, i, start, used, parts))
                return
        way = callee.found[i]
        self.push(max(start + way.cost, cost), (target, frame, i + 1, start, used, parts))
        after = self.owner.machine.after_outcome(frame, way.outcome)
        if not after or (way.used and used):
            return
        used, there, parts = used or way.used, start + way.cost, (way, parts)
        if way.ends:
            final = self.owner.machine.final(after)
            if final >= 0:
                self.push(there, Way(there, final, used, True, parts))
        elif frame < RECORDED:
            self.push(there, (after, used, parts))
        elif not used:
            self.push(there, (after, True, parts))


class Ending(NamedTuple):
    """The shortest way found from a configuration to the end: its length in bytes, and the ways out of each open component."""

    cost: int
    way: Way | None = None
    rest: Ending | None = None

    @property
    def text(self) -> bytes:
        here: Ending | None = self
        parts: list[bytes] = []
        while here is not None and here.way is not None:
            parts.append(here.way.text)
            here = here.rest
        return b"".join(parts)


NO_ENDING = Ending(_NEVER)


class ShortestTexts:
    """Short texts that lead from configurations of one machine to where the text may end. Safe under threads.

    top: from a stack node other than 0 to (the one below, its frame), as `ReturnStacks.top`. steps: what to look at in a state
    (default: each different code of its row, with the first byte that has it). max_steps: states that one question may look at; more
    raise LimitExceeded, and asking again goes on from there.

    Shortest but for `SLACK`. At most one recorded call returns on a way: what follows a second one depends on the texts that were read. An exit that reads
    its byte again may be followed by bytes for which it is not: whoever needs to be sure runs the text.
    """

    def __init__(
        self,
        machine: RecursiveMachine,
        top: Callable[[int], tuple[int, int]],
        steps: Steps | None = None,
        *,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self.machine, self.top, self.max_steps = machine, top, max_steps
        self._steps_of = steps or self.all_steps
        self._steps: dict[int, list[Step]] = {}
        self._ways: dict[int, _Ways] = {}
        self._endings: dict[tuple[int, int, bool], Ending] = {}
        self._n_steps = 0
        self._lock = threading.RLock()

    def ending(self, state: int, stack: int, used: bool = False) -> Ending:
        """The shortest ending from a configuration; `NO_ENDING` if there is none. used: a recorded call has returned."""
        known = self._endings.get((state, stack, used))
        if known is not None:
            return known
        with self._lock:
            self._n_steps = 0
            # One generator per open call instead of recursion: texts nest deeper than Python's stack.
            waiting = [self._search(state, stack, used)]
            answer: Ending | None = None
            while waiting:
                try:
                    asked = waiting[-1].send(answer)
                    known = self._endings.get(asked)
                    answer = known
                    if known is None:
                        waiting.append(self._search(*asked))
                except StopIteration as stop:
                    waiting.pop()
                    answer = stop.value
            assert answer is not None
            return answer

    def _search(self, state: int, stack: int, used: bool) -> Generator[tuple[int, int, bool], Ending | None, Ending]:
        ways, best, i = self.ways(state), NO_ENDING, 0
        while (way := ways.get(i, best.cost)) is not None:
            i += 1
            if way.used and used:
                continue
            if way.ends:
                if self._may_end(stack, way.outcome):
                    best = Ending(way.cost, way)
                continue
            if stack == 0:
                continue
            below, frame = self.top(stack)
            after = self.machine.after_outcome(frame, way.outcome)
            if not after or (frame >= RECORDED and (used or way.used)):
                continue
            rest = yield after, below, used or way.used or frame >= RECORDED
            assert rest is not None
            if way.cost + rest.cost < best.cost:
                best = Ending(way.cost + rest.cost, way, rest)
        self._endings[state, stack, used] = best
        return best

    def may_end(self, state: int, stack: int) -> bool:
        """Whether the text may end in a configuration."""
        return self._may_end(stack, self.machine.final(state))

    def _may_end(self, stack: int, outcome: int) -> bool:
        while stack and outcome >= 0:
            stack, frame = self.top(stack)
            outcome = self.machine.final(self.machine.after_outcome(frame, outcome))
        return outcome >= 0

    def ways(self, state: int) -> _Ways:
        """The ways out of its component from a state."""
        known = self._ways.get(state)
        if known is None:
            known = self._ways[state] = _Ways(self, state)
        return known

    def known_ways(self, state: int) -> _Ways | None:
        """The same if somebody asked for them."""
        return self._ways.get(state)

    def steps(self, state: int) -> list[Step]:
        """What to look at in a state."""
        known = self._steps.get(state)
        if known is None:
            known = self._steps[state] = self._steps_of(state)
        return known

    def all_steps(self, state: int) -> list[Step]:
        """Each different code of the state's row, with the first byte that has it."""
        codes, first = np.unique(self.machine.row(state), return_index=True)
        steps = []
        for code, byte in zip(codes.tolist(), first.tolist(), strict=True):
            if code > 0:
                steps.append(Step(bytes([byte]), code))
            elif code < 0:
                kind, _, _ = self.machine.action(code)
                steps.append(Step(bytes([byte]) if kind in (CALL, EXIT) else b"", 0, code))
        return steps

    def count(self) -> None:
        """One more state was looked at."""
        self._n_steps += 1
        if self._n_steps > self.max_steps:
            raise LimitExceeded(
                "max_steps", self.max_steps, self._n_steps, "no short way to the end of the text was found"
            )
