"""From a schema to its recursive state machine, built as it is walked.

A value's component depends on what must hold of the value and on what the caller watches. Those of scalars are small
DFAs, built whole; those of objects and arrays consist of the positions in positions.py, whose rows are made when the
machine first gets there. Components are shared wherever the formulas are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.byte_groups import loop_groups
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.errors import EmptyLanguageError
from fsmc.compiler.schema.arrays import ArrayShape
from fsmc.compiler.schema.atoms import ARRAY, FALSE_LITERAL, NULL, NUMBER, OBJECT, STRING, TRUE_LITERAL, TYPES
from fsmc.compiler.schema.contradiction import contradiction
from fsmc.compiler.schema.counted import BLOCK, CountedString
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.json_text import escape_json
from fsmc.compiler.schema.key_machine import key_machine
from fsmc.compiler.schema.key_space import KeySpace
from fsmc.compiler.schema.keywords import Keywords
from fsmc.compiler.schema.member_order import MemberOrder
from fsmc.compiler.schema.numbers import number_component
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.positions import (
    AfterItem,
    AfterKey,
    AfterSpace,
    ArrayStart,
    ArrayState,
    Closing,
    CountedBlock,
    Edges,
    End,
    Fixed,
    ObjectStart,
    ObjectState,
    Position,
    Reading,
    Return,
    Root,
    Spaced,
    Truth,
    read,
)
from fsmc.compiler.schema.strings import split_length, string_component

_STRUCTURAL = b' \t\n\r"{}[]:,-0123456789tfn'
_LITERALS = {NULL: b"null", TRUE_LITERAL: b"true", FALSE_LITERAL: b"false"}
_NUMBER_ENDS = b" \t\n\r,]}"


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How the JSON text is laid out.

    whitespace: "flexible" (up to ``max_whitespace`` characters wherever JSON allows white space), "compact" (none), or
    "json" (one space after a comma or colon, as ``json.dumps`` writes). indent: spaces per level, each member and item
    on a line of its own, as ``json.dumps(indent=…)``; overrides whitespace. property_order: "schema" (declared members in
    the order of `member_order`, others after them) or "any".
    """

    whitespace: Literal["flexible", "compact", "json"] = "flexible"
    max_whitespace: int = 40
    indent: int | None = None
    property_order: Literal["schema", "any"] = "schema"

    def __post_init__(self) -> None:
        for name, value, values in (
            ("whitespace", self.whitespace, ("flexible", "compact", "json")),
            ("property_order", self.property_order, ("schema", "any")),
        ):
            if value not in values:
                raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, values))}")
        for name, number, least in (("max_whitespace", self.max_whitespace, 1), ("indent", self.indent, 0)):
            if number is not None and number < least:
                raise ValueError(f"{name}={number} must be at least {least}")


class SchemaMachine:
    """Builds the machine of one schema; implements the builder protocol of `LazyRSM`."""

    def __init__(
        self, document: SchemaDocument, options: TextOptions, *, ignore_unique_items: bool = False, **limits: Any
    ) -> None:
        self.options = options
        self.table = Formulas()
        self.keywords = Keywords(document, self.table, ignore_unique_items=ignore_unique_items)
        self.emptiness = Emptiness(self.keywords)
        self.emptiness.of_object = self._some_object
        self.emptiness.of_array = self._some_array
        self.order = MemberOrder(self.keywords)
        self.rsm = LazyRSM(self, **limits)
        self._shapes: dict[tuple[Any, ...], Any] = {}
        self._starts: dict[tuple[Any, ...], Any] = {}
        self._keys: dict[ObjectState, int | None] = {}
        self._outcomes: dict[Truth, int] = {(): 0}
        self._vectors: list[Truth] = [()]
        self._class_of = np.zeros(256, np.uint8)
        self._class_of[list(_STRUCTURAL)] = np.arange(1, len(_STRUCTURAL) + 1)
        self._map = self.rsm.class_map(self._class_of)

        root = self.keywords.schema(document.root)
        if not self.emptiness.satisfiable(root):
            why = contradiction(self.emptiness, document.root)
            raise EmptyLanguageError(f"the schema allows no value at all: {why}")
        self._space = self._whitespace() if self.options.whitespace == "flexible" and self.options.indent is None else 0
        self.rsm.start = self.gap(Root(root), inside=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the schema: formats that nothing checks, and the like, by JSON pointer."""
        return tuple(self.keywords.unchecked())

    # ── what LazyRSM asks for ────────────────────────────────────────────────────────────────────────────────────────

    def build_row(self, state: int) -> None:
        """Make the row of a state that was met for the first time."""
        position: Position | CountedBlock = self.rsm.state_key(state)
        if isinstance(position, CountedBlock):
            position.build(self)
            return
        codes = np.zeros(len(_STRUCTURAL) + 1, np.int32)
        for byte, code in position.edges(self).items():
            codes[self._class_of[byte]] = code
        inner = position.position if isinstance(position, Spaced) else position
        self.rsm.set_row(state, self._map, codes, 0 if isinstance(inner, End) else -1)

    def build_return(self, frame: int, outcome: int) -> None:
        """Find where a caller goes on after an outcome that was met for the first time."""
        back, reading = self.rsm.frame_key(frame)
        if isinstance(back, AfterKey):
            target = back.resume_class(self, outcome)
        else:
            target = back.resume(self, read(reading, self._vectors[outcome]))
        self.rsm.set_return(frame, outcome, target)

    def record(self, state: int, text: bytes) -> int:
        """The state once it is known which text a recorded call has read."""
        if state == 0:
            return 0
        return self.state(self.rsm.state_key(state).recorded(self, text))

    # ── pieces that positions are made of ────────────────────────────────────────────────────────────────────────────

    def state(self, position: Position) -> int:
        """The state of a position."""
        return self.rsm.new_state(position)

    def exit(self, truth: Truth) -> int:
        """The code of an edge that ends a component with this outcome."""
        return self.rsm.exit(self.outcome(truth))

    def outcome(self, truth: Truth) -> int:
        """The number of an outcome vector; that of the empty one is 0."""
        known = self._outcomes.get(truth)
        if known is None:
            known = self._outcomes[truth] = len(self._vectors)
            self._vectors.append(truth)
        return known

    def gap(
        self,
        position: Position,
        *,
        inside: bool = True,
        before_key: bool = False,
        before_value: bool = False,
        depth: int = 0,
    ) -> int:
        """The state of a position at which the layout may, or has to, put white space first."""
        options = self.options
        if options.indent is not None:
            text = b"\n" + b" " * (options.indent * depth) if before_key else b" " if before_value else b""
        elif options.whitespace == "flexible":
            return self.state(Spaced(position))
        else:
            text = b" " if options.whitespace == "json" and (before_key or before_value) else b""
        return self.state(Fixed(position, text) if text and inside else position)

    def indented(self, position: Position, depth: int) -> Edges:
        """Edges of a line break and the indent before ``position``."""
        assert self.options.indent is not None
        indent = b" " * (self.options.indent * depth)
        return {ord("\n"): self.state(Fixed(position, indent) if indent else position)}

    def closing(self, bracket: int, code: int, depth: int) -> Edges:
        """Edges that end an object or array which has members or items."""
        if self.options.indent is None:
            return {bracket: code}
        return self.indented(Closing(bracket, code), depth)

    def whitespace_call(self, position: Position) -> int:
        """The code of the first white space character before ``position``."""
        return self.rsm.call(self._space, self._frame(AfterSpace(position), ()))

    def _frame(self, back: Return, reading: Reading) -> int:
        records = (isinstance(back, AfterItem) and back.a.shape.tracks) or (
            isinstance(back, AfterKey) and back.o.shape.tracks
        )
        return self.rsm.new_frame((back, reading), records)

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def value_edges(self, must: int, watches: tuple[int, ...], back: Return, depth: int = 0) -> Edges:
        """Edges of a value's first byte: a call of the component of each type that the value may have."""
        depth = depth if self.options.indent is not None else 0
        edges: Edges = {}
        table = self.table
        for type_ in TYPES:
            wanted = self.keywords.expand(must, type_)
            if wanted == FALSE or not self.emptiness.typed(wanted, type_):
                continue
            distinct: dict[int, int] = {}
            reading: list[bool | tuple[int, bool]] = []
            certain = set(table.conjuncts(wanted))
            for watch in watches:
                asked = self.keywords.expand(watch, type_)
                opposite = table.negate(asked)
                if asked == TRUE or asked in certain:
                    reading.append(True)
                elif asked == FALSE or opposite in certain:
                    reading.append(False)
                else:
                    base = min(asked, opposite)
                    reading.append((distinct.setdefault(base, len(distinct)), asked == base))
            frame = self._frame(back, tuple(reading))
            for byte, target in self._component(type_, wanted, tuple(distinct), (must, *watches), depth).items():
                edges[byte] = self.rsm.call(target, frame)
        return edges

    def _component(
        self, type_: str, must: int, watches: tuple[int, ...], of: tuple[int, ...], depth: int
    ) -> dict[int, int]:
        """First byte → state after it, of the component for one type."""
        if type_ == OBJECT:
            any_order = self.options.property_order == "any"
            shape = self._object_shape(must, watches, self.order.of(of), any_order)
            start = ObjectStart(ObjectState(shape, shape.normal(shape.residual, 0), self._at_start(shape), 0, depth))
            return {ord("{"): self.gap(start)}
        if type_ == ARRAY:
            array = self._array_shape(must, watches)
            state = ArrayState(array, array.normal(array.residual, 0), self._array_start(array), 0, depth)
            return {ord("["): self.gap(ArrayStart(state))}
        key = (type_, must, watches)
        known: dict[int, int] | None = self._starts.get(key)
        if known is None:
            if type_ == STRING:
                known = {ord('"'): self._string_start(must, watches)}
            elif type_ == NUMBER:
                known = self._add_number(number_component(must, watches, self.table))
            else:
                known = self._add_literal(_LITERALS[type_])
            self._starts[key] = known
        return known

    @staticmethod
    def _at_start(shape: ObjectShape) -> tuple[int, ...]:
        return tuple(shape.normal(w, 0) for w in shape.watches)

    @staticmethod
    def _array_start(shape: ArrayShape) -> tuple[int, ...]:
        return tuple(shape.normal(w, 0) for w in shape.watches)

    def _string_start(self, must: int, watches: tuple[int, ...]) -> int:
        """The state after the opening quote of a string."""
        rest, low, high = split_length(must, self.table)
        if (low, high) == (0, None):
            dfa = escape_json(string_component(must, watches, self.table))
            return self._add_string(dfa, [self.outcome(v) for v in dfa.vectors])
        content = string_component(rest, watches, self.table)
        return CountedComponent(self, CountedString(content, low, high)).start(self)

    def _add_string(self, dfa: OutcomeDFA, outcomes: list[int]) -> int:
        """Add a machine over a string's JSON text; its closing quote exits with ``outcomes[outcome of the state]``."""
        byte_class, delta = _own_class(dfa, b'"')
        quote = byte_class[ord('"')]
        codes = np.array([self.rsm.exit(o) for o in outcomes], np.int32)
        ends = dfa.outcome >= 0
        delta[ends, quote] = codes[dfa.outcome[ends]]
        return self.rsm.add_block(byte_class, delta, np.full(len(delta), -1, np.int32)) + dfa.start

    def _add_number(self, dfa: OutcomeDFA) -> dict[int, int]:
        """Add a machine over a number's text, which ends only where something else begins."""
        byte_class, delta = _own_class(dfa, _NUMBER_ENDS)
        outcomes = np.array([self.outcome(v) for v in dfa.vectors], np.int32)
        codes = np.array([self.rsm.exit_redo(int(o)) for o in outcomes], np.int32)
        ends = dfa.outcome >= 0
        for byte in _NUMBER_ENDS:
            delta[ends, byte_class[byte]] = codes[dfa.outcome[ends]]
        final = np.full(len(delta), -1, np.int32)
        final[ends] = outcomes[dfa.outcome[ends]]
        offset = self.rsm.add_block(byte_class, delta, final)
        first = dfa.delta[dfa.start]
        return {b: int(first[dfa.byte_class[b]]) + offset for b in b"-0123456789" if first[dfa.byte_class[b]] > 0}

    def _add_literal(self, text: bytes) -> dict[int, int]:
        byte_class = np.zeros(256, np.uint8)
        letters = sorted(set(text[1:]))
        byte_class[letters] = np.arange(1, len(letters) + 1)
        delta = np.zeros((len(text), len(letters) + 1), np.int32)
        for i, byte in enumerate(text[1:], 1):
            delta[i, byte_class[byte]] = i + 1 if i + 1 < len(text) else self.rsm.exit(0)
        return {text[0]: self.rsm.add_block(byte_class, delta, np.full(len(delta), -1, np.int32)) + 1}

    def _whitespace(self) -> int:
        """The component of white space, entered by its first character: ends where anything else follows."""
        byte_class, delta, final = _whitespace_tables(self.options.max_whitespace, self.rsm.exit_redo(0))
        return self.rsm.add_block(byte_class, delta, final) + 1

    # ── objects and arrays ───────────────────────────────────────────────────────────────────────────────────────────

    def _object_shape(
        self, must: int, watches: tuple[int, ...], order: tuple[str, ...], any_order: bool
    ) -> ObjectShape:
        key = (OBJECT, must, watches, order, any_order)
        shape: ObjectShape | None = self._shapes.get(key)
        if shape is None:
            shape = ObjectShape(must, watches, order, any_order, self.table, self.emptiness)
            self._shapes[key] = shape
        return shape

    def _array_shape(self, must: int, watches: tuple[int, ...]) -> ArrayShape:
        key = (ARRAY, must, watches)
        shape: ArrayShape | None = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = ArrayShape(must, watches, self.table, self.emptiness)
        return shape

    def _some_object(self, formula: int) -> bool:
        shape = self._object_shape(formula, (), (), True)
        return shape.feasible(shape.normal(shape.residual, 0), 0)

    def _some_array(self, formula: int) -> bool:
        shape = self._array_shape(formula, ())
        return shape.feasible(shape.normal(shape.residual, 0), 0)

    def object_may_end(self, o: ObjectState) -> bool:
        """Whether ``}`` may stand here."""
        return not o.shape.missing(o.place) and o.shape.closed(o.residual)

    def key_code(self, o: ObjectState) -> int | None:
        """The code of a key's opening quote, None if no member may come."""
        if o in self._keys:
            return self._keys[o]
        shape = o.shape
        allowed = 0
        for c in shape.choices(o.place):
            if self._room_in(o, c) and self.emptiness.satisfiable(shape.asked_of(o.residual, o.place, c)):
                allowed |= 1 << c
        code = None
        if allowed:
            code = self.rsm.call(self._key_start(shape.keys, allowed, o.seen), self._frame(AfterKey(o), ()))
        self._keys[o] = code
        return code

    @staticmethod
    def _room_in(o: ObjectState, c: int) -> bool:
        """Whether a class of keys has one that was not written yet, as far as written ones are tracked."""
        n = o.shape.keys.n_names
        size = None if c < n else o.shape.keys.sizes[c - n]
        return size is None or not o.seen or sum(o.shape.keys.class_of(key) == c for key in o.seen) < size

    def object_possible(self, o: ObjectState) -> bool:
        """Whether an object can go on or end here: never false but where a finite class of keys is used up."""
        return not o.seen or self.object_may_end(o) or self.key_code(o) is not None

    def _key_start(self, keys: KeySpace, allowed: int, seen: frozenset[str]) -> int:
        key = (keys, allowed, seen)
        known: int | None = self._starts.get(key)
        if known is None:
            dfa = key_machine(keys, allowed, seen)
            known = self._starts[key] = self._add_string(dfa, list(range(keys.n_classes)))
        return known

    def array_may_end(self, a: ArrayState) -> bool:
        """Whether ``]`` may stand here."""
        return a.shape.may_end(a.place) and a.shape.closed(a.residual, a.place)

    def array_outcome(self, a: ArrayState) -> Truth:
        """The truth of what is watched if the array ends here."""
        return tuple(a.shape.closed(w, a.place) for w in a.watches)

    def item_possible(self, a: ArrayState) -> bool:
        """Whether one more item may come."""
        return self.emptiness.satisfiable(a.shape.asked_of(a.residual, a.place, a.seen))


class CountedComponent:
    """The states of a `CountedString` in the machine: blocks of counts, made as texts get there."""

    def __init__(self, m: SchemaMachine, counted: CountedString) -> None:
        self.counted = counted
        self.byte_class, _ = _own_class(counted.dfa, b'"')
        self.outcomes = [m.rsm.exit(m.outcome(v)) for v in counted.dfa.vectors]
        self.map = m.rsm.class_map(self.byte_class)
        self.loops = np.where(counted.whole, loop_groups(counted.dfa.delta, counted.dfa.byte_class), 0)
        self.blocks: dict[int, int] = {}

    def start(self, m: SchemaMachine) -> int:
        """The state after the opening quote."""
        return self.state(m, 0) + self.counted.dfa.start

    def state(self, m: SchemaMachine, count: int) -> int:
        """What to add to a state of the uncounted machine, after ``count`` characters."""
        n = self.counted.dfa.n_states
        block, place = divmod(count, BLOCK)
        if block not in self.blocks:
            self.blocks[block] = m.rsm.reserve(BLOCK * n, CountedBlock(self, block * BLOCK))
        return self.blocks[block] + place * n

    def build(self, m: SchemaMachine, first: int) -> None:
        """Make the rows of a block."""
        counted, dfa = self.counted, self.counted.dfa
        quote = self.byte_class[ord('"')]
        exits = np.array([*self.outcomes, 0], np.int32)[dfa.outcome]
        ends = dfa.outcome >= 0
        rows = []
        for count in range(first, first + BLOCK):
            edges = counted.rows(count, self.state(m, count), self.state(m, counted.next_count(count)))
            row = np.concatenate((edges, edges[:, dfa.byte_class[ord('"')], None]), axis=1)
            if counted.may_end(count):
                row[ends, quote] = exits[ends]
            rows.append(row)
        codes = np.concatenate(rows).astype(np.int32)
        room = np.concatenate([counted.room(count) for count in range(first, first + BLOCK)])
        m.rsm.set_rows(self.blocks[first // BLOCK], self.map, codes, loops=np.tile(self.loops, BLOCK), room=room)


@lru_cache(maxsize=16)
def _whitespace_tables(n: int, end: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    byte_class = np.zeros(256, np.uint8)
    byte_class[list(b" \t\n\r")] = 1
    byte_class[list(b'"{}[]:,-0123456789tfn')] = 2
    delta = np.zeros((n + 1, 3), np.int32)
    delta[1:n, 1] = np.arange(2, n + 1)
    delta[1:, 2] = end
    final = np.zeros(n + 1, np.int32)
    final[0] = -1
    return byte_class, delta, final


def _own_class(dfa: OutcomeDFA, alone: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The tables of a machine with a class of its own for each byte of ``alone``; the arrays are new and writable."""
    byte_class = dfa.byte_class.copy()
    columns = [dfa.delta]
    n = dfa.delta.shape[1]
    for byte in alone:
        columns.append(dfa.delta[:, byte_class[byte], None])
        byte_class[byte] = n
        n += 1
    return byte_class, np.concatenate(columns, axis=1)
