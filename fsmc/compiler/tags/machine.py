"""The machine of a structural tag: the DFA of all that is regular in it, with JSON Schemas called from its states.

A text is in a *place*: a set of states of that DFA. Nearly always it is one state. Where two schemas may begin with the
same byte, the component that reads the value watches which of them hold, and then the text is in the states after these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import referencing.jsonschema

from fsmc.compiler.automata.byte_groups import loop_groups
from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.automata.tables import FOREVER
from fsmc.compiler.errors import ConstraintError, LimitExceeded, SchemaError
from fsmc.compiler.schema.atoms import ARRAY, NUMBER, OBJECT, STRING
from fsmc.compiler.schema.contradiction import contradiction
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.outcomes import Truth
from fsmc.compiler.schema.positions import Edges, Position, Return
from fsmc.compiler.schema.references import SPECIFICATIONS
from fsmc.compiler.schema.resources import declared_draft
from fsmc.compiler.schema.source import parse_json
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.tags.calls import TagLanguage, calls_in
from fsmc.compiler.tags.clock import TagClock
from fsmc.compiler.tags.embedded import AfterCalled, Called, Embedded, Inside, doubt, inside_edges
from fsmc.compiler.tags.free_text import CALL
from fsmc.compiler.tags.tree import Schema

MAX_PLACES = 10_000
MAX_LOOK_AHEAD, MAX_LOOK_AHEAD_DEPTH = 300, 4
"""Configurations of grammars that are met when the machine is made, and the calls that may be open in them."""

_NUMBER_BYTES = b"0123456789.eE+-"
_URI = "urn:fsmc:schema:"

State = int
"""Of the language's DFA; the states of the machine are ints as well."""


class TagMachine(SchemaMachine):
    """Builds the machine; implements the builder protocol of `LazyRSM`, see `SchemaMachine`.

    Raises ConstraintError where a byte could belong to a schema's value and to what stands beside or behind it.
    """

    is_json = False

    def __init__(
        self, language: TagLanguage, options: TextOptions, *, clock: TagClock | None = None, **limits: Any
    ) -> None:
        self._clock = TagClock(limits.get("max_seconds", MAX_SECONDS)) if clock is None else clock
        self._schemas = tuple(called for called in language.calls if isinstance(called, Schema))
        self._embedded = {i: called for i, called in enumerate(language.calls) if isinstance(called, Embedded)}
        self.parts = tuple(called.machine for called in self._embedded.values())
        self._read(language)
        try:
            super().__init__(self._document(), options, **limits)
            self.table.clock.release()
        except (SchemaError, LimitExceeded) as error:
            self._locate(error)
            raise

    def _read(self, language: TagLanguage) -> None:
        self._language = language
        dfa = language.dfa
        self._rows = dfa.delta[:, dfa.byte_class]
        self._calls: dict[State, list[tuple[int, State]]] = {}
        for state, number, after in calls_in(dfa):
            self._calls.setdefault(state, []).append((number, after))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know: also which parts have no text, so that no text goes there."""
        return (*self._language.notes, *super().notes)

    # ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _document(self) -> SchemaDocument:
        """One document that refers to all of them, each a document of its own."""
        registry: Any = referencing.jsonschema.EMPTY_REGISTRY
        own_uris: dict[str, Any] = {}
        for number, schema in enumerate(self._schemas):
            self._clock.check()
            value = parse_json(schema.schema) if isinstance(schema.schema, str) else schema.schema
            draft = declared_draft(value, 2020, "") if isinstance(value, dict) else 2020
            resource = SPECIFICATIONS[draft].create_resource(value)
            registry = registry.with_resource(f"{_URI}{number}", resource)
            uri = value.get("$id") if isinstance(value, dict) else None
            if isinstance(uri, str) and not uri.startswith("#") and own_uris.setdefault(uri, value) == value:
                registry = registry.with_resource(uri, resource)
        if not self._schemas:
            return SchemaDocument(True)
        return SchemaDocument(
            {"anyOf": [{"$ref": f"{_URI}{number}"} for number in range(len(self._schemas))]}, registry=registry
        )

    def _locate(self, error: SchemaError | LimitExceeded) -> None:
        """Name the place in the tag in place of the document that was made of its schemas."""
        pointer = error.pointer
        if pointer is not None and pointer.startswith(_URI):
            number, _, inside = pointer[len(_URI) :].partition("#")
            error.pointer = f"{self._schemas[int(number)].place}#{inside}"

    def _begin(self, document: SchemaDocument) -> int:
        """Find out what each schema asks for, and make the states."""
        self.table.clock.hold(self._clock.started)
        formulas, nothing = [], {}
        numbers = [i for i in range(len(self._language.calls)) if i not in self._embedded]
        for number, schema in enumerate(self._schemas):
            self._clock.check()
            node = document.resolve(document.root, f"{_URI}{number}")
            formula = self.keywords.schema(node)
            if not self.emptiness.satisfiable(formula):
                why = contradiction(self.emptiness, node).replace(f"{_URI}{number}", "")
                nothing[numbers[number]] = f"{schema.place}: the schema allows no value at all: {why}"
            formulas.append(formula)
        self._formulas = dict(zip(numbers, formulas, strict=True))
        if nothing:
            self._read(self._language.without(nothing))
        self._refuse_doubt()
        start = self._make_states()
        if self._embedded:
            self._look_ahead()
        return start

    # ── states ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _make_states(self) -> int:
        """All states of the DFA: those that call nothing with their rows, the others to be built when met."""
        dfa = self._language.dfa
        n = dfa.n_states
        calling = np.zeros(n, np.bool_)
        calling[list(self._calls)] = True
        plain = np.flatnonzero(~calling)[1:]  # DEAD is no state of its own
        first = self.rsm.reserve(len(plain), None) if len(plain) else 0
        number = np.zeros(n, np.int32)
        number[plain] = first + np.arange(len(plain))
        self._number_of: dict[frozenset[State], int] = {}
        for state in self._calls:
            number[state] = self.rsm.new_state(_Place(frozenset((state,))))
        self._number = number
        if len(plain):
            loops = loop_groups(dfa.delta, dfa.byte_class)[plain]
            final = np.where(dfa.accepting, 0, -1).astype(np.int32)[plain]
            class_map = self.rsm.class_map(dfa.byte_class)
            self.rsm.set_rows(first, class_map, number[dfa.delta[plain]], final, loops, FOREVER)
        return int(number[dfa.start])

    def state_of(self, states: frozenset[State]) -> int:
        """The machine's state for a place; 0 for none."""
        if len(states) == 1:
            return int(self._number[next(iter(states))])
        return self.rsm.new_state(_Place(states)) if states else 0

    def place_edges(self, states: frozenset[State]) -> Edges:
        """What each byte does in a place."""
        states = self._closed(states)
        edges: Edges = {}
        for byte in range(256):
            targets = frozenset(t for state in states if (t := int(self._rows[state, byte]))) if byte != CALL else None
            if targets:
                edges[byte] = self.state_of(targets)
        for grammar, behind in self._grammars_from(states):
            inner = inside_edges(self, grammar, grammar.machine.start, behind, frozenset(self._begins(behind)))
            assert not inner.keys() & edges.keys(), "refused when the machine was made"
            edges |= inner
        calls = self._calls_from(states)
        if calls:
            watches = tuple(calls)
            back = _AfterValue(tuple(frozenset(calls[formula]) for formula in watches))
            must = self.table.disj(list(watches))
            values = self.value_edges(must, watches if len(watches) > 1 else (), back)
            assert not values.keys() & edges.keys(), "refused when the machine was made"
            edges |= values
        return edges

    def inside_edges(self, grammar: Embedded, state: int, after: frozenset[State]) -> Edges:
        """What each byte does in the outermost part of a grammar: goes on in it, or where it may end, behind it."""
        edges = inside_edges(self, grammar, state, after, frozenset(self._begins(after)))
        if grammar.machine.final(state) >= 0:
            behind = self.place_edges(after)
            both = sorted(behind.keys() & edges.keys())
            if both:
                raise doubt(grammar, both[0])
            edges |= behind
        return edges

    def _look_ahead(self) -> None:
        """Walk the short texts of grammars, so that most of what cannot be told apart is refused at once."""
        todo = [
            Configuration(int(self._number[state]))
            for state, calls in self._calls.items()
            if any(number in self._embedded for number, _ in calls)
        ]
        seen = set(todo)
        while todo and len(seen) < MAX_LOOK_AHEAD:
            self._clock.check()
            here = todo.pop(0)
            _, first = np.unique(self.rsm.row(here.state), return_index=True)
            for byte in first.tolist():
                after = self.rsm.step(here, byte)
                if after is not None and after not in seen and len(after.stack) <= MAX_LOOK_AHEAD_DEPTH:
                    seen.add(after)
                    todo.append(after)

    def may_end(self, states: frozenset[State]) -> bool:
        """Whether the text may end in a place."""
        return bool(self._language.dfa.accepting[list(self._closed(states))].any())

    def _closed(self, states: frozenset[State]) -> frozenset[State]:
        """The place with the states behind grammars that may be empty: a text that is in it may be there as well."""
        todo, found = list(states), set(states)
        while todo:
            for number, after in self._calls.get(todo.pop(), ()):
                grammar = self._embedded.get(number)
                if grammar is not None and after not in found and grammar.machine.final(grammar.machine.start) >= 0:
                    found.add(after)
                    todo.append(after)
        return frozenset(found) if len(found) > len(states) else states

    def _set_row(self, state: int, edges: Edges, final: int) -> None:
        position = self.rsm.state_key(state)
        if isinstance(position, _Place):
            final = 0 if self.may_end(position.states) else -1
        elif isinstance(position, (Inside, Called)):
            final = position.final(self)
        super()._set_row(state, edges, final)

    def build_return(self, frame: int, outcome: int) -> None:
        """See `SchemaMachine`."""
        back, _ = self.rsm.frame_key(frame)
        if isinstance(back, AfterCalled):
            self.rsm.set_return(frame, outcome, back.resume_outcome(self, outcome))
        else:
            super().build_return(frame, outcome)

    def _grammars_from(self, states: Iterable[State]) -> list[tuple[Embedded, frozenset[State]]]:
        """The grammars that may begin in a place, each with the states after it."""
        found: dict[int, set[State]] = {}
        for state in states:
            for number, after in self._calls.get(state, ()):
                if number in self._embedded:
                    found.setdefault(number, set()).add(after)
        return [(self._embedded[number], frozenset(after)) for number, after in found.items()]

    def _begins(self, states: frozenset[State]) -> set[int]:
        """The bytes that may come in a place, about."""
        states = self._closed(states)
        found = {byte for state in states for byte in np.flatnonzero(self._rows[state]).tolist()} - {CALL}
        found |= {byte for formula in self._calls_from(states) for byte in self._first_bytes(formula)}
        return found.union(*[grammar.row(grammar.machine.start) for grammar, _ in self._grammars_from(states)])

    def _calls_from(self, states: Iterable[State]) -> dict[int, set[State]]:
        """Formula of what may be called → the states after it."""
        calls: dict[int, set[State]] = {}
        for state in states:
            for number, after in self._calls.get(state, ()):
                if number in self._embedded:
                    continue
                calls.setdefault(self._formulas[number], set()).add(after)
        return calls

    # ── what cannot be told apart ────────────────────────────────────────────────────────────────────────────────────

    def _refuse_doubt(self) -> None:
        """Raise ConstraintError where the same byte could begin a value and something else, or go on with a number and end it."""
        for states in map(self._closed, self._places()):
            self._clock.check()
            calls = self._calls_from(states)
            here = {byte for state in states for byte in np.flatnonzero(self._rows[state]).tolist()} - {CALL}
            first = {byte for formula in calls for byte in self._first_bytes(formula)}
            both = here & first
            for grammar, _ in self._grammars_from(states):
                own = grammar.row(grammar.machine.start).keys()
                both |= (here | first) & own
                first |= own
            if both:
                what = f"text that begins with {chr(min(both))!r} could be JSON (or of a grammar), or what stands beside it"
                self._doubt(states, what)
            for formula, after in calls.items():
                if NUMBER in self._types(formula):
                    self._end_number(states, frozenset(after))

    def _end_number(self, states: frozenset[State], after: frozenset[State]) -> None:
        """Let numbers be followed by what follows here, unless it could be part of them."""
        follows = self._begins(after)
        both = sorted(follows & set(_NUMBER_BYTES))
        if both:
            self._doubt(states, f"a number may be followed by {chr(both[0])!r}, which could be part of it")
        self.end_numbers_at(bytes(follows))

    def _doubt(self, states: frozenset[State], what: str) -> None:
        numbers = sorted(number for state in states for number, _ in self._calls.get(state, ()))
        raise ConstraintError(f"{what}: put a text between", self._language.calls[numbers[0]].place)

    def _places(self) -> Iterator[frozenset[State]]:
        """All single states, and the largest sets of states that a text may be in."""
        seen: set[frozenset[State]] = set()
        todo = [frozenset((state,)) for state in self._calls]
        while todo:
            states = todo.pop()
            if states in seen:
                continue
            seen.add(states)
            if len(seen) > MAX_PLACES:
                raise LimitExceeded("max_places", MAX_PLACES, len(seen), "too many schemas begin at the same place")
            yield states
            states = self._closed(states)
            found = [frozenset(state for targets in self._calls_from(states).values() for state in targets)]
            found += [behind for _, behind in self._grammars_from(states)]
            if len(states) > 1:
                found += [frozenset(t for s in states if (t := int(self._rows[s, b]))) for b in range(256) if b != CALL]
            todo += [reached for reached in found if len(reached) > 1]

    def _first_bytes(self, formula: int) -> set[int]:
        """The bytes with which a value may begin, about: those of its types."""
        kinds: dict[str, bytes] = {OBJECT: b"{", ARRAY: b"[", STRING: b'"', NUMBER: b"-0123456789"}
        return {byte for type_ in self._types(formula) for byte in kinds.get(type_, b"tfn")}

    def _types(self, formula: int) -> list[str]:
        """The types that a value may have of which the formula holds."""
        return [
            type_
            for type_ in self.keywords.types_of(formula)
            if self.emptiness.typed(self.keywords.expand(formula, type_), type_)
        ]


@dataclass(frozen=True, slots=True)
class _Place(Position):
    """In one of these states of the language's DFA, or in several."""

    states: frozenset[State]

    def edges(self, m: SchemaMachine) -> Edges:
        assert isinstance(m, TagMachine)
        return m.place_edges(self.states)


@dataclass(frozen=True, slots=True)
class _AfterValue(Return):
    """Return of a value: ``places[i]`` are the states after it if the i-th thing watched holds."""

    places: tuple[frozenset[State], ...]

    def resume(self, m: SchemaMachine, truth: Truth) -> int:
        assert isinstance(m, TagMachine)
        if len(self.places) == 1:
            return m.state_of(self.places[0])
        holds = [place for place, held in zip(self.places, truth, strict=True) if held]
        return m.state_of(frozenset().union(*holds))
