"""The shortest way to an end: how a text that was begun is completed with few bytes.

Dijkstra's algorithm over the states of the machine, where a call is an edge as long as the shortest way through what it
calls (Knuth, "A Generalization of Dijkstra's Algorithm", 1977). A component is searched once, from when it is first
called, however many callers wait for its outcomes: the search visits pairs of component and state, not stacks.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.object_state import ObjectState
from fsmc.compiler.schema.walk import Move, Walk, Walker

UNKNOWN_REST = -1
"""The outcome of a component in which a recorded call returned: what follows depends on the text, so the way ends there."""

DETOUR = 128
"""How many bytes shorter than a way to the end such a way has to be to be taken, for the rest of it is not known; and so
many again for each call that it leaves open, or an array of distinct items would rather grow than end."""


class _Node(NamedTuple):
    """A state, or with an outcome the end of a component. ``entry``: the state in which the component was entered, or for
    the calls that were open from the beginning, -1 minus how many."""

    entry: int
    state: int
    outcome: int | None = None


class _Step(NamedTuple):
    """How a node was reached: from ``before`` by ``move``; if that is a call, through the component up to ``end``."""

    before: _Node
    move: Move
    end: _Node | None = None


@dataclass(slots=True)
class _Component:
    """What is known of a component: the cost of getting there first, who waits for its outcomes, and these."""

    offset: int
    callers: list[tuple[_Node, Move, int]] = field(default_factory=list)
    ends: list[_Node] = field(default_factory=list)


def useful_keys(walker: Walker, o: ObjectState) -> list[int]:
    """The classes of keys, ascending, of which a short way through an object needs one next."""
    allowed = list(bits(walker.machine.allowed_keys(o)))
    missing = o.shape.missing(o.place)
    required = (missing & -missing).bit_length() - 1
    if required in allowed:
        return [required]
    if o.may_end and not o.watches:
        return allowed[:1]  # no member is needed; one is, where a comma was written before the search began
    formulas = (o.residual, *o.watches)
    useful = [c for c in allowed if any(o.shape.derivative(f, o.place, c) != f for f in formulas)]
    return useful or allowed


class ShortEnding:
    """A search for moves that close the calls of ``walk`` down to ``depth`` open ones (0: that complete the text), with few bytes.

    Where names are required, the first of them is written next, which spares trying every order. The moves may end
    earlier, after a recorded call has returned (see `LazyRSM`): make them, and search again.
    """

    def __init__(self, walker: Walker, walk: Walk, depth: int) -> None:
        self.walker, self.walk, self.depth = walker, walk, depth
        self.rsm = walker.rsm
        self.queue: list[tuple[int, int, int, _Node, _Step | None]] = []
        self.costs: dict[_Node, int] = {}
        self.steps: dict[_Node, _Step | None] = {}
        self.components: dict[int, _Component] = {}
        self.useful: dict[ObjectState, list[int]] = {}

    @property
    def n_steps(self) -> int:
        """States looked at so far."""
        return len(self.costs)

    def run(self, max_steps: int) -> list[Move]:
        """The moves. Raises LimitExceeded after ``max_steps`` states."""
        self.push(_Node(-1 - len(self.walk.stack), self.walk.state), 0, None)
        while len(self.costs) < max_steps:
            assert self.queue, f"the machine has a dead end after {bytes(self.walk.text)!r}"
            _, _, cost, node, step = heapq.heappop(self.queue)
            if node in self.costs:
                continue
            self.costs[node], self.steps[node] = cost, step
            if self.is_goal(node):
                return self.way(node)
            if node.outcome is None:
                self.expand(node)
            else:
                component = self.components[node.entry]
                component.ends.append(node)
                for caller in component.callers:
                    self.go_on(*caller, node)
        raise LimitExceeded("max_steps", max_steps, len(self.costs), "no short way to the end was found")

    def is_goal(self, node: _Node) -> bool:
        if node.entry >= 0:
            return False
        if node.outcome is not None:
            return True
        return node.entry == -1 - self.depth and (self.depth > 0 or self.rsm.final(node.state) >= 0)

    def way(self, node: _Node) -> list[Move]:
        """All moves from the beginning of a node's component to it."""
        parts: list[list[Move]] = []
        step = self.steps[node]
        while step is not None:
            parts.append([step.move, *(self.way(step.end) if step.end else [])])
            step = self.steps[step.before]
        return [move for part in reversed(parts) for move in part]

    def push(self, node: _Node, cost: int, step: _Step | None) -> None:
        """Queue a node; the cost is counted from where its component was entered."""
        if node not in self.costs:
            offset = self.components[node.entry].offset if node.entry >= 0 else 0
            heapq.heappush(self.queue, (offset + cost, len(self.queue), cost, node, step))

    def expand(self, node: _Node) -> None:
        """Queue what can be reached from a state."""
        cost = self.costs[node]
        for code, group in self.walker.groups(node.state):
            move = Move(group[:1], code)
            if code > 0:
                self.push(_Node(node.entry, code), cost + 1, _Step(node, move))
                continue
            kind, operand, frame = self.rsm.action(code)
            if kind == CALL:
                if self.write_name(node, frame):
                    self.call(node, move, operand, frame)
            else:
                self.leave(node, move if kind == EXIT else Move(b"", code), operand)

    def leave(self, node: _Node, move: Move, outcome: int) -> None:
        """Return from the component of a node."""
        cost = self.costs[node] + len(move.text)
        if node.entry >= 0:
            self.push(_Node(node.entry, 0, outcome), cost, _Step(node, move))
        elif node.entry < -1:
            frame = self.walk.stack[-2 - node.entry]
            state = self.rsm.after_outcome(frame, outcome)
            if state and frame >= RECORDED:
                self.push(_Node(node.entry, 0, UNKNOWN_REST), cost, _Step(node, move))
            elif state:
                self.push(_Node(node.entry + 1, state), cost, _Step(node, move))

    def write_name(self, node: _Node, frame: int) -> bool:
        """If a call with this frame reads keys, queue the declared ones; whether the call itself is wanted as well."""
        o = self.walker.object_of(frame, node.state)
        if o is None:
            return True
        allowed = self.useful.get(o)
        if allowed is None:
            allowed = self.useful[o] = useful_keys(self.walker, o)
        for c in allowed:
            if c < o.shape.keys.n_names:
                move = self.walker.name(o, frame, c)
                state = self.rsm.after_outcome(frame, c)
                self.push(_Node(node.entry, state), self.costs[node] + len(move.text), _Step(node, move))
        return allowed[-1] >= o.shape.keys.n_names

    def call(self, node: _Node, move: Move, target: int, frame: int) -> None:
        """Go through a component that begins in ``target``, or wait for who already does."""
        component = self.components.get(target)
        if component is None:
            offset = self.components[node.entry].offset if node.entry >= 0 else 0
            component = self.components[target] = _Component(offset + self.costs[node] + 1)
            self.push(_Node(target, target), 0, None)
        component.callers.append((node, move, frame))
        for end in component.ends:
            self.go_on(node, move, frame, end)

    def go_on(self, node: _Node, move: Move, frame: int, end: _Node) -> None:
        """Queue where a caller goes on after an end of what it called."""
        assert end.outcome is not None
        cost, step = self.costs[node] + 1 + self.costs[end], _Step(node, move, end)
        n_open = max(0, -1 - node.entry)
        if end.outcome == UNKNOWN_REST:
            self.push(_Node(node.entry, 0, UNKNOWN_REST), cost + DETOUR * n_open, step)
            return
        o = self.walker.object_of(frame, node.state)
        if o is not None:
            c = o.shape.keys.class_after(end.outcome)
            if c < o.shape.keys.n_names or c not in self.useful[o]:
                return  # a declared name, see `write_name`, or a key that brings the end no nearer
        state = self.rsm.after_outcome(frame, end.outcome)
        if state and frame >= RECORDED:
            self.push(_Node(node.entry, 0, UNKNOWN_REST), cost + DETOUR * (1 + n_open), step)
        elif state:
            self.push(_Node(node.entry, state), cost, step)
