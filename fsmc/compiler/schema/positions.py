"""The states of a schema's machine by name, and what may follow in each: JSON's grammar, with a residual in every place.

A *position* is what the machine remembers at one state; its ``edges`` say for each byte which code stands there. A
*return* is what a caller remembers while a value, a key or white space is being read by another component, and says
where to go on when its outcome is known. Both are built when first met.

The life of ``{"a": 1}`` under ``{"properties": {"a": {"type": "integer"}}}``, white space apart:

    Root            {   calls the component of objects and pushes AfterRoot
    ObjectStart     "   calls a key machine and pushes AfterKey; } would exit
                    a"  is read there, exits with the class of the key
    AfterKey            goes on with
    Colon           :
    MemberValue     1   calls the component of integers (what the residual asks of this member) and pushes AfterMember;
                        the component watches the formulas on which the residual depends
                    }   is no digit: the number exits with their truth, and the byte is read again by the caller
    AfterMember         derives the residual, goes on with
    ObjectNext      }   exits with the truth of what is watched of the object
    AfterRoot           goes on with
    End                 nothing may follow, and the text may end

Arrays go the same way: ArrayStart, Item, AfterItem, ItemNext.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from fsmc.compiler.schema.arrays import ArrayShape
from fsmc.compiler.schema.object_state import ObjectState
from fsmc.compiler.schema.outcomes import Truth

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine

Edges = dict[int, int]
"""Byte → code of the edge (see `LazyRSM`)."""


class Position(ABC):
    """What the machine remembers at one state. Equal positions are the same state."""

    __slots__ = ()

    @abstractmethod
    def edges(self, m: SchemaMachine) -> Edges:
        """What each byte does here; a byte that is absent cannot be part of any accepted text."""

    def recorded(self, m: SchemaMachine, text: bytes | None) -> Position:
        """The position once it is known that the recorded call which led here has read ``text``, see `Builder.record`."""
        return self

    @property
    def waits(self) -> bool:
        """Whether more may follow than ``edges`` tell, once it is known what a recorded call has read.

        A mask's walk gets to such a position inside a token, behind a text it does not know: it goes on only with what is
        possible whatever that text was. So a mask may leave out a token that ends one of these texts and begins the next,
        and never allows one that is refused.
        """
        return False


class Return(ABC):
    """What a caller remembers during a call."""

    __slots__ = ()

    @abstractmethod
    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        """The state to go on in, given the truth of what was watched; 0 if nothing may follow."""

    @property
    def records(self) -> bool:
        """Whether it matters which text is read (see `LazyRSM` on recorded frames)."""
        return False


# ── the whole text ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Root(Position):
    """Before the text's value."""

    must: int

    def edges(self, m: SchemaMachine) -> Edges:
        return m.value_edges(self.must, (), AfterRoot())


@dataclass(frozen=True, slots=True)
class AfterRoot(Return):
    """Return of the root's value."""

    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        return m.gap(End(), inside=False)


@dataclass(frozen=True, slots=True)
class End(Position):
    """The text is complete."""

    def edges(self, m: SchemaMachine) -> Edges:
        return {}


# ── white space ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Spaced(Position):
    """At ``position``, with white space allowed before it."""

    position: Position

    def edges(self, m: SchemaMachine) -> Edges:
        raise AssertionError("`SchemaMachine` makes this row, together with that of ``position``")

    def recorded(self, m: SchemaMachine, text: bytes | None) -> Position:
        return Spaced(self.position.recorded(m, text))


@dataclass(frozen=True, slots=True)
class AfterSpace(Return):
    """Return of white space."""

    position: Position

    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        return m.state(self.position)


@dataclass(frozen=True, slots=True)
class Fixed(Position):
    """Before ``position``, with the first ``left`` bytes of ``text`` still to come (a separator's, an indent's)."""

    position: Position
    text: bytes

    def edges(self, m: SchemaMachine) -> Edges:
        rest = self.text[1:]
        return {self.text[0]: m.state(Fixed(self.position, rest) if rest else self.position)}


@dataclass(frozen=True, slots=True)
class Closing(Position):
    """Before the bracket that ends an object or array, on a line of its own."""

    bracket: int
    code: int

    def edges(self, m: SchemaMachine) -> Edges:
        return {self.bracket: self.code}


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ObjectStart(Position):
    """After ``{``."""

    o: ObjectState

    def edges(self, m: SchemaMachine) -> Edges:
        edges: Edges = {}
        if self.o.may_end:
            edges[ord("}")] = m.exit(self.o.outcome)
        first = m.key_code(self.o)
        if first is not None:
            if m.options.indent is None:
                edges[ord('"')] = first
            else:
                edges |= m.indented(ObjectKey(self.o), self.o.depth + 1)
        return edges


@dataclass(frozen=True, slots=True)
class ObjectKey(Position):
    """Before a key, after a comma."""

    o: ObjectState

    def edges(self, m: SchemaMachine) -> Edges:
        code = m.key_code(self.o)
        return {} if code is None else {ord('"'): code}


@dataclass(frozen=True, slots=True)
class AfterKey(Return):
    """Return of a key: its outcome tells the class of the key."""

    o: ObjectState

    @property
    def records(self) -> bool:
        """Where no undeclared key may come twice."""
        return self.o.shape.tracks

    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        raise AssertionError("a key has a class, not a truth")

    def resume_class(self, m: SchemaMachine, outcome: int) -> int:
        """The state to go on in after a key (see `KeySpace.outcome`)."""
        c = self.o.shape.keys.class_after(outcome)
        if not self.o.shape.tracks or c < self.o.shape.keys.n_names:
            return m.gap(Colon(self.o, c), now=True)
        return 0 if self.o.pending else m.gap(Colon(self.o.with_key(self.o.seen, True), c), now=True)


@dataclass(frozen=True, slots=True)
class Colon(Position):
    """After a key of class ``c``."""

    o: ObjectState
    c: int

    def edges(self, m: SchemaMachine) -> Edges:
        return {ord(":"): m.gap(MemberValue(self.o, self.c), before_value=True)}

    def recorded(self, m: SchemaMachine, text: bytes | None) -> Position:
        if not self.o.pending:
            return self
        seen = self.o.seen if text is None else self.o.seen | {json.loads(text)}
        return Colon(self.o.with_key(seen, False), self.c)


@dataclass(frozen=True, slots=True)
class MemberValue(Position):
    """Before a member's value."""

    o: ObjectState
    c: int

    def edges(self, m: SchemaMachine) -> Edges:
        o, shape = self.o, self.o.shape
        watched = shape.watched_values(o.derivatives(self.c))
        return m.value_edges(
            shape.asked_of(o.residual, o.place, self.c), watched, AfterMember(o, self.c, watched), o.depth + 1
        )


@dataclass(frozen=True, slots=True)
class AfterMember(Return):
    """Return of a member's value."""

    o: ObjectState
    c: int
    watched: tuple[int, ...]

    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        after = self.o.after_member(self.c, self.watched, truth)
        return m.gap(ObjectNext(after), now=True) if after is not None and m.object_possible(after) else 0


@dataclass(frozen=True, slots=True)
class ObjectNext(Position):
    """After a member."""

    o: ObjectState

    def edges(self, m: SchemaMachine) -> Edges:
        edges: Edges = {}
        if m.key_code(self.o) is not None:
            edges[ord(",")] = m.gap(ObjectKey(self.o), before_key=True, depth=self.o.depth + 1, now=True)
        if self.o.may_end:
            end = m.exit(self.o.outcome)
            edges |= m.closing(ord("}"), end, self.o.depth)
        return edges


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ArrayState:
    """What an array has to remember, as `ObjectState`. ``seen``: value formulas "equal to an item written", where items must differ."""

    shape: ArrayShape
    residual: int
    watches: tuple[int, ...]
    place: int
    depth: int
    seen: frozenset[int] = frozenset()
    pending: bool = False

    @property
    def may_end(self) -> bool:
        """Whether ``]`` may stand here."""
        return self.shape.may_end(self.place) and self.shape.closed(self.residual, self.place)

    @property
    def outcome(self) -> Truth:
        """The truth of what is watched if the array ends here."""
        return tuple(self.shape.closed(watch, self.place) for watch in self.watches)

    @property
    def item_possible(self) -> bool:
        """Whether one more item may come."""
        return self.shape.possible(self.residual, self.place, self.seen)

    @property
    def another_item_possible(self) -> bool:
        """Whether one more item may come whatever the pending one was."""
        return self.shape.possible(self.residual, self.place, self.seen, 2)


@dataclass(frozen=True, slots=True)
class ArrayStart(Position):
    """After ``[``."""

    a: ArrayState

    def edges(self, m: SchemaMachine) -> Edges:
        edges: Edges = {}
        if m.options.indent is None:
            edges = Item(self.a).edges(m)
        elif self.a.item_possible:
            edges = m.indented(Item(self.a), self.a.depth + 1)
        if self.a.may_end:
            edges = {**edges, ord("]"): m.exit(self.a.outcome)}
        return edges


@dataclass(frozen=True, slots=True)
class Item(Position):
    """Before an item."""

    a: ArrayState

    def edges(self, m: SchemaMachine) -> Edges:
        a, shape = self.a, self.a.shape
        watched = shape.watched_values(self.derivatives())
        asked = shape.asked_of(a.residual, a.place, a.seen)
        return m.value_edges(asked, watched, AfterItem(a, watched), a.depth + 1, plentiful=a.pending)

    @property
    def waits(self) -> bool:
        return self.a.pending

    def derivatives(self) -> tuple[int, ...]:
        """Of the residual and of what is watched, in terms of this item's value and of the rest."""
        a, shape = self.a, self.a.shape
        after = shape.after(a.place)
        return tuple(shape.normal(shape.derivative(f, a.place, a.seen), after) for f in (a.residual, *a.watches))


@dataclass(frozen=True, slots=True)
class AfterItem(Return):
    """Return of an item's value."""

    a: ArrayState
    watched: tuple[int, ...]

    @property
    def records(self) -> bool:
        """Where the items have to differ."""
        return self.a.shape.tracks

    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        a, shape = self.a, self.a.shape
        if a.pending:
            return 0
        place = shape.after(a.place)
        known = dict(zip(self.watched, truth, strict=True))
        residual, *watches = (shape.after_value(d, known, place) for d in Item(a).derivatives())
        if not shape.feasible(residual, place):
            return 0
        after = replace(a, residual=residual, watches=tuple(watches), place=place, pending=shape.tracks)
        return m.gap(ItemNext(after), now=True)


@dataclass(frozen=True, slots=True)
class ItemNext(Position):
    """After an item."""

    a: ArrayState

    def edges(self, m: SchemaMachine) -> Edges:
        edges: Edges = {}
        if self.a.another_item_possible if self.a.pending else self.a.item_possible:
            edges[ord(",")] = m.gap(Item(self.a), before_key=True, depth=self.a.depth + 1)
        if self.a.may_end:
            edges |= m.closing(ord("]"), m.exit(self.a.outcome), self.a.depth)
        return edges

    def recorded(self, m: SchemaMachine, text: bytes | None) -> Position:
        value = () if text is None else (m.keywords.const(json.loads(text, parse_float=Decimal)),)
        return ItemNext(replace(self.a, seen=self.a.seen.union(value), pending=False))
