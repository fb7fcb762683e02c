"""What a page holds of a machine: the states that a text can get to, found from the start, up to a limit.

A machine with calls is explored component by component. Which outcomes a component can end with, and so where its callers go on,
comes out as it is explored (the summary edges of Alur et al.).

Where texts are compared (items that must differ, keys that must not come twice), the states are those behind texts that all differ:
which texts there were would make endlessly many. The page compares them itself, at the calls listed in ``compared``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.cfg.machine import GrammarMachine
from fsmc.compiler.cfg.rule_names import WITHOUT_NAME, rule_of_outcome, rule_of_state
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.tags.embedded import Called

PLAIN_EDGE, CALL_EDGE, EXIT_EDGE, REDO_EDGE = range(4)

ITEMS_DIFFER, KEYS_DIFFER, ANY_COMPARISON = range(3)
"""What is compared at a call: items or keys of which none may come twice, or texts of which it matters otherwise (``uniqueItems`` in an
alternative, say): what follows two equal ones is then not in the page."""

NOT_EXPLORED = -2
"""In place of the outcome of a state whose row is not in the page."""


@dataclass(frozen=True, slots=True)
class Explored:
    """states: the machine's numbers of the states found; elsewhere a state is its place in this list, the start is 0.

    offsets: the edges of state i are ``offsets[i]:offsets[i + 1]``. kind, target, frame, bytes: of each edge; the target is a state,
    of an exit the outcome; the frame is that of a call, else -1; bytes is an index into ``byte_sets``, each of which is a list of
    ranges [low, high, low, high, …]. final: the outcome with which a text may end, -1, or NOT_EXPLORED. returns: (frame, outcome,
    state). component: of each state; ``components`` says what they are: label, states, entries, and for each entry the outcomes with
    which it can end. compared: frame of a call whose text is compared with those before it → ITEMS_DIFFER, …. return_names: (frame,
    outcome) → what the outcome means, where that is known: the key that was read. is_whole: whether nothing was left out.
    """

    states: list[int]
    offsets: list[int]
    kind: list[int]
    target: list[int]
    frame: list[int]
    bytes: list[int]
    byte_sets: list[list[int]]
    final: list[int]
    returns: list[tuple[int, int, int]]
    component: list[int]
    components: list[dict[str, Any]]
    compared: dict[int, int]
    return_names: dict[tuple[int, int], str]
    is_whole: bool


@dataclass(slots=True)
class _Search:
    machine: RecursiveMachine
    max_states: int
    number: dict[int, int] = field(default_factory=dict)
    rows: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    sets: dict[bytes, int] = field(default_factory=dict)
    within: dict[tuple[int, int], None] = field(default_factory=dict)
    callers: dict[int, dict[tuple[int, int], None]] = field(default_factory=dict)
    exits: dict[int, dict[int, None]] = field(default_factory=dict)
    returns: dict[tuple[int, int], int] = field(default_factory=dict)
    first_bytes: dict[int, tuple[int, int]] = field(default_factory=dict)
    is_whole: bool = True

    def run(self) -> None:
        """Explore, nearest first. A fact is (entry of a component, state reached in it)."""
        machine = self.machine
        todo: deque[tuple[int, int]] = deque()

        def reach(entry: int, state: int) -> None:
            if state != DEAD and (entry, state) not in self.within:
                self.within[entry, state] = None
                self.number.setdefault(state, len(self.number))
                todo.append((entry, state))

        def come_back(entry: int, frame: int, outcome: int) -> None:
            try:
                target = machine.after_outcome(frame, outcome)
                if frame >= RECORDED:
                    target = machine.record(target, None)
            except LimitExceeded:
                self.is_whole = False
                return
            self.returns[frame, outcome] = target
            reach(entry, target)

        def leave(entry: int, outcome: int) -> None:
            if outcome not in self.exits.setdefault(entry, {}):
                self.exits[entry][outcome] = None
                for caller, frame in list(self.callers.get(entry, ())):
                    come_back(caller, frame, outcome)

        reach(machine.start, machine.start)
        while todo:
            entry, state = todo.popleft()
            row = self._row(state)
            if row is None:
                continue
            final = machine.final(state)
            if final >= 0:
                leave(entry, final)
            for kind, target, frame, byte_set in row:
                if kind == PLAIN_EDGE:
                    reach(entry, target)
                elif kind == CALL_EDGE:
                    self.first_bytes.setdefault(target, (byte_set, frame))
                    callers = self.callers.setdefault(target, {})
                    if (entry, frame) not in callers:
                        callers[entry, frame] = None
                        for outcome in list(self.exits.get(target, ())):
                            come_back(entry, frame, outcome)
                    reach(target, target)
                else:
                    leave(entry, target)

    def _row(self, state: int) -> list[tuple[int, int, int, int]] | None:
        """(kind, target or outcome, frame, byte set) of each edge; None beyond the limit."""
        if state in self.rows:
            return self.rows[state]
        if len(self.rows) >= self.max_states:
            self.is_whole = False
            return None
        try:
            codes = self.machine.row(state)
        except LimitExceeded:
            self.is_whole = False
            return None
        row = []
        for code in sorted(set(codes.tolist()) - {DEAD}, key=lambda code: int(np.argmax(codes == code))):
            key = np.packbits(codes == code).tobytes()
            byte_set = self.sets.setdefault(key, len(self.sets))
            if code > DEAD:
                row.append((PLAIN_EDGE, code, -1, byte_set))
            else:
                kind, operand, frame = self.machine.action(code)
                if kind == CALL:
                    row.append((CALL_EDGE, operand, frame, byte_set))
                else:
                    row.append((EXIT_EDGE if kind == EXIT else REDO_EDGE, operand, -1, byte_set))
        self.rows[state] = row
        return row


def explore(machine: RecursiveMachine, max_states: int) -> Explored:
    """The part of the machine that is nearest to the start; at most ``max_states`` states have their edges.

    >>> from fsmc.cli.machine import Source
    >>> found = explore(Source("ab|cd", "python", 0).machine(), 100)
    >>> len(found.states), found.is_whole, found.byte_sets[0]
    (4, True, [97, 97])
    """
    search = _Search(machine, max_states)
    search.run()
    states = list(search.number)
    offsets = [0]
    columns: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
    final = []
    for state in states:
        row = search.rows.get(state)
        for kind, target, frame, byte_set in row or ():
            number = search.number[target] if kind <= CALL_EDGE else target
            for column, value in zip(columns, (kind, number, frame, byte_set), strict=True):
                column.append(value)
        offsets.append(len(columns[0]))
        final.append(NOT_EXPLORED if row is None else machine.final(state))
    component, components = _components(search, states)
    returns = [(f, o, search.number[t]) for (f, o), t in search.returns.items() if t in search.number]
    compared = {frame: _comparison(machine, frame) for frame in sorted(set(columns[2])) if frame >= RECORDED}
    return Explored(
        states, offsets, *columns, [_ranges(key) for key in search.sets], final, returns, component, components,
        compared, _return_names(machine, returns), search.is_whole,
    )  # fmt: skip


def _components(search: _Search, states: list[int]) -> tuple[list[int], list[dict[str, Any]]]:
    """The component of each state, and what the components are. Entries that share a state are of one component."""
    leader: dict[int, int] = {}

    def find(entry: int) -> int:
        while leader.setdefault(entry, entry) != entry:
            leader[entry] = leader[leader[entry]]
            entry = leader[entry]
        return entry

    home: dict[int, int] = {}
    for entry, state in search.within:
        if state in home:
            leader[find(entry)] = find(home[state])
        else:
            home[state] = entry
    order: dict[int, int] = {}
    component = [order.setdefault(find(home[state]), len(order)) for state in states]
    components: list[dict[str, Any]] = [{"entries": [], "states": 0} for _ in order]
    for c in component:
        components[c]["states"] += 1
    for entry in dict.fromkeys(entry for entry, _ in search.within):
        components[order[find(entry)]]["entries"].append(entry)
    for described in components:
        described["label"] = _label(search, described["entries"])
        described["exits"] = [list(search.exits.get(entry, ())) for entry in described["entries"]]
        described["entries"] = [search.number[entry] for entry in described["entries"]]
    return component, components


def _label(search: _Search, entries: list[int]) -> str:
    """What a component reads, as far as it can be told: for people."""
    machine = search.machine
    if machine.start in entries:
        return "the whole text"
    if isinstance(machine, LazyRSM) and isinstance(machine.builder, GrammarMachine):
        builder = machine.builder
        rules = list(dict.fromkeys(rule_of_state(builder, entry) for entry in entries))
        return " | ".join(rules[:4]) + (" …" if len(rules) > 4 else "")
    inside = [_grammar_in_tag(machine, entry) for entry in entries]
    if inside and all(inside):
        return str(inside[0])
    called = [search.first_bytes[entry] for entry in entries if entry in search.first_bytes]
    keys = list(search.sets)
    first = {low for byte_set, _ in called for low in _ranges(keys[byte_set])[::2]}
    if isinstance(machine, LazyRSM) and isinstance(machine.builder, SchemaMachine):
        shape = next((s for entry in entries if (s := _object_shape(machine.state_key(entry)))), None)
        if shape is not None:
            names = list(shape.keys.names)
            return "object" + (f": {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else "")
        if any(_reads_key(machine, frame) for _, frame in called):
            return "key"
        kinds = {ord('"'): "string", ord("{"): "object", ord("["): "array", ord(" "): "white space", 9: "white space"}
        literals = {ord("t"): "true", ord("f"): "false", ord("n"): "null"}
        if first & {*b"-0123456789"}:
            return "number"
        return next((name for byte, name in (kinds | literals).items() if byte in first), "value")
    return "part"


def _grammar_in_tag(machine: RecursiveMachine, state: int) -> str | None:
    """The rule that a state is inside of, where it is of a grammar in a structural tag."""
    key = machine.state_key(state) if isinstance(machine, LazyRSM) else None
    position = getattr(key, "position", key)
    if not isinstance(position, Called):
        return None
    builder = getattr(position.of.machine, "builder", None)
    return rule_of_state(builder, position.state) if isinstance(builder, GrammarMachine) else WITHOUT_NAME


def _return_names(machine: RecursiveMachine, returns: list[tuple[int, int, int]]) -> dict[tuple[int, int], str]:
    """The name that an outcome stands for: of calls that read keys, and of a grammar's rules."""
    if isinstance(machine, LazyRSM) and isinstance(machine.builder, GrammarMachine):
        builder = machine.builder
        return {(frame, outcome): rule_of_outcome(builder, outcome) for frame, outcome, _ in returns}
    if not isinstance(machine, LazyRSM) or not isinstance(machine.builder, SchemaMachine):
        return {}
    names = {}
    for frame, outcome, _ in returns:
        if _reads_key(machine, frame):
            key = machine.frame_key(frame)
            keys = (key if hasattr(key, "shape") else key[0].o).shape.keys
            c = keys.class_after(outcome)
            names[frame, outcome] = keys.names[c] if c < keys.n_names else "other key"
    return names


def _comparison(machine: RecursiveMachine, frame: int) -> int:
    """What is compared at a recorded call, see ITEMS_DIFFER."""
    from fsmc.compiler.schema.positions import AfterItem, AfterKey

    key = machine.frame_key(frame) if isinstance(machine, LazyRSM) else None
    back = key[0] if isinstance(key, tuple) else None
    if isinstance(back, AfterKey):
        return KEYS_DIFFER
    return ITEMS_DIFFER if isinstance(back, AfterItem) and not back.a.shape.compares else ANY_COMPARISON


def _object_shape(key: Any) -> Any:
    """The shape of the object whose beginning a state is."""
    for name in ("position", "o"):
        key = getattr(key, name, key)
    return getattr(key, "shape", None) if hasattr(getattr(key, "shape", None), "keys") else None


def _reads_key(machine: LazyRSM, frame: int) -> bool:
    from fsmc.compiler.schema.plain_objects import PlainStates
    from fsmc.compiler.schema.positions import AfterKey

    key = machine.frame_key(frame)
    if isinstance(key, PlainStates):
        return key.reads_keys(frame)
    return isinstance(key, tuple) and isinstance(key[0], AfterKey)


def _ranges(key: bytes) -> list[int]:
    """A packed set of bytes as [low, high, low, high, …]."""
    values = np.flatnonzero(np.unpackbits(np.frombuffer(key, np.uint8))).tolist()
    ranges: list[int] = []
    for value in values:
        if ranges and ranges[-1] == value - 1:
            ranges[-1] = value
        else:
            ranges += [value, value]
    return ranges
