"""From a schema to its recursive state machine, built as it is walked.

A value's component depends on what must hold of the value and on what the caller watches. Those of scalars are small
DFAs, built whole (scalar_blocks.py); those of objects and arrays consist of the positions in positions.py, whose rows are
made when the machine first gets there. Components are shared wherever the formulas are equal.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import TypeAlias

from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.automata.determinize import MAX_STATES as MAX_STATES_AT_ONCE
from fsmc.compiler.automata.lazy_rsm import MAX_BYTES, MAX_STATES, LazyRSM
from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.errors import EmptyLanguageError, LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema.any_order import PlainPlace
from fsmc.compiler.schema.atoms import ARRAY, OBJECT
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.clock import Clock
from fsmc.compiler.schema.components import Parts, component, parts_of
from fsmc.compiler.schema.contradiction import contradiction
from fsmc.compiler.schema.counted_blocks import CountedBlock
from fsmc.compiler.schema.counts import Counts
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.early import refuse_early
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import TRUE, Formulas
from fsmc.compiler.schema.key_space import KeySpace
from fsmc.compiler.schema.key_trie import KeyNode
from fsmc.compiler.schema.keyword_general import TYPE_NAMES
from fsmc.compiler.schema.keywords import Keywords
from fsmc.compiler.schema.late_keys import LateKeys
from fsmc.compiler.schema.left_out import WithoutTexts
from fsmc.compiler.schema.member_order import MemberOrder
from fsmc.compiler.schema.object_state import ObjectState
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.outcomes import Outcomes, Reading, Truth, read
from fsmc.compiler.schema.plain_objects import PlainObject, PlainStates
from fsmc.compiler.schema.positions import (
    AfterKey,
    AfterSpace,
    Closing,
    Edges,
    End,
    Fixed,
    Position,
    Return,
    Root,
    Spaced,
)
from fsmc.compiler.schema.resident import resident
from fsmc.compiler.schema.scalar_blocks import STRUCTURAL, WHITE_SPACE, ScalarBlocks
from fsmc.compiler.schema.shapes import Shapes
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.schema.value_rows import ValueStarts, value_starts

_PartsKey: TypeAlias = "tuple[int, tuple[int, ...], int, bool]"
_ANYTHING = SchemaDocument({"$defs": {name: {"type": name} for name in TYPE_NAMES}})


@lru_cache(maxsize=8)
def _any_value(options: TextOptions) -> SchemaMachine:
    """The components of values of which nothing is asked, complete: every machine begins with these."""
    m = SchemaMachine.__new__(SchemaMachine)
    m._prepare(Keywords(_ANYTHING, Formulas()), options, MAX_STATES, MAX_BYTES)
    m.starts[TRUE] = value_starts(m, TRUE)
    m.any_start = {type_: component(m, type_, TRUE, (), (TRUE,), 0) for type_ in (OBJECT, ARRAY)}
    m.starts_of_type = {name: value_starts(m, m.keywords.below(_ANYTHING.root, "$defs", name)) for name in TYPE_NAMES}
    text = b'{"a": 1, "b": [null, {}]}, [], {"c": []}, ""'
    if options.whitespace != "json":
        text = text.replace(b" ", b" " if options.whitespace == "flexible" else b"")
    if options.whitespace == "flexible":
        text = text.replace(b",", b" ,").replace(b"]", b" ]").replace(b"}", b" }").replace(b":", b" :")
    assert m.rsm.run(text, Configuration(m.any_start[ARRAY][ord("[")]))
    m._parts = {
        key: parts for key, parts in m._parts.items() if key[0] == TRUE
    }  # other formulas mean something only here
    return m


def any_value(options: TextOptions) -> LazyRSM:
    """What every machine with this layout begins with; not to be walked, but forked."""
    return _any_value(options).rsm if options.indent is None else resident(0).rsm


class SchemaMachine:
    """Builds the machine of one schema; implements the builder protocol of `LazyRSM`.

    rsm: the machine. ignore_unique_items: see `Keywords`. max_seconds: for finding out whether the schema allows anything, and
    for each row after that. max_states, max_bytes: of the machine as it grows, and of each that is made on the way. Raises
    EmptyLanguageError if no value is valid, UnsupportedSchemaError and LimitExceeded with the JSON pointer; the latter also
    when a text gets to what is too large.

    >>> document = SchemaDocument({"type": "array", "items": {"enum": [1, None]}, "minItems": 2})
    >>> machine = SchemaMachine(document, TextOptions(whitespace="compact"))
    >>> at_first = machine.rsm.n_states
    >>> machine.rsm.matches(b"[1,null,1]"), machine.rsm.matches(b"[1]")
    (True, False)
    >>> machine.rsm.n_states > at_first  # the rest is made when a text gets there
    True
    """

    is_json = True
    """Whether the texts are JSON as a whole."""

    def __init__(
        self,
        document: SchemaDocument,
        options: TextOptions,
        *,
        ignore_unique_items: bool = False,
        max_seconds: float = MAX_SECONDS,
        max_states: int = MAX_STATES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        clock = Clock(max_seconds, min(max_states, MAX_STATES_AT_ONCE), max_bytes)
        keywords = Keywords(document, Formulas(clock), ignore_unique_items=ignore_unique_items)
        self._prepare(keywords, options, max_states, max_bytes)
        self.rsm.start = self._begin(document)
        refuse_early(self)

    def _prepare(self, keywords: Keywords, options: TextOptions, max_states: int, max_bytes: int) -> None:
        """All but the root."""
        self.options, self.keywords, self.table = options, keywords, keywords.formulas
        self.emptiness = Emptiness(self.keywords)
        self.emptiness.count_at_least = Counts(weakref.proxy(self.emptiness)).at_least
        self.shapes = Shapes(self.keywords, self.emptiness)
        self.order = MemberOrder(self.keywords)
        self._plain: dict[tuple[ObjectShape, int | None], int] = {}
        self._outcomes = Outcomes()
        flexible = options.whitespace == "flexible" and options.indent is None
        common = resident(options.max_whitespace if flexible else 0)
        before = _any_value(options) if options.indent is None and keywords.document is not _ANYTHING else None
        ready, blocks = (common.rsm, common.blocks) if before is None else (before.rsm, before.scalars)
        rsm = ready.fork(self, max_states=max_states, max_bytes=max_bytes)
        self._rsm = weakref.ref(rsm)
        self._own_rsm: LazyRSM | None = rsm
        self.space = common.space
        rsm.space = (WHITE_SPACE, options.max_whitespace, STRUCTURAL) if common.space else None
        self.scalars: ScalarBlocks = blocks.fork(weakref.proxy(rsm), self.table, self._outcomes)
        self.starts: dict[int, ValueStarts] = {} if before is None else before.starts.copy()
        self.starts_of_type: dict[str | None, ValueStarts] = {} if before is None else before.starts_of_type
        self._parts: dict[_PartsKey, Parts] = {} if before is None else before._parts.copy()
        self._maps: dict[bytes, int] = {} if before is None else before._maps.copy()
        self.any_start: dict[str, dict[int, int]] = {} if before is None else before.any_start

    def _begin(self, document: SchemaDocument) -> int:
        """The state before the text."""
        root = self.keywords.schema(document.root)
        if not self.emptiness.satisfiable(root):
            why = contradiction(self.emptiness, document.root)
            raise EmptyLanguageError(f"the schema allows no value at all: {why}")
        return self.gap(Root(root), inside=False)

    @property
    def rsm(self) -> LazyRSM:
        """The machine."""
        rsm = self._rsm()
        assert rsm is not None, "whoever runs the machine holds it"
        return rsm

    def handed_over(self) -> LazyRSM:
        """The machine, which from now on holds this builder without being held by it: both are gone when nobody runs it."""
        rsm, self._own_rsm = self.rsm, None
        return rsm

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the schema: formats that nothing checks, and the like, by JSON pointer."""
        return tuple(self.keywords.unchecked())

    # ── what LazyRSM asks for ────────────────────────────────────────────────────────────────────────────────────────

    def build_row(self, state: int) -> None:
        """Make the row of a state that was met for the first time."""
        self.table.clock.restart()
        position: Position | PlainStates | LateKeys | CountedBlock | KeyNode | WithoutTexts = self.rsm.state_key(state)
        if isinstance(position, PlainStates):
            position.build(self, state)
            return
        if isinstance(position, LateKeys):
            position.build(self)
            return
        if isinstance(position, WithoutTexts):
            position.build(state)
            return
        if isinstance(position, KeyNode):
            self.scalars.build_key(state, position)
            return
        if isinstance(position, CountedBlock):
            position.build(state)
            return
        self._build(state, position)

    def set_spaced(self, state: int, edges: Edges, frame: int) -> None:
        """Give ``state + 1`` its edges, and to ``state`` those before the white space that may, or has to, stand before it.
        frame: what is pushed when white space begins; it returns to ``state + 1``."""
        self._set_row(state + 1, edges, -1)
        if edges and self.space:
            edges = {**edges, **dict.fromkeys(WHITE_SPACE, self.rsm.call(self.space, frame))}
        elif self.options.whitespace == "json":
            edges = {ord(" "): state + 1}
        self._set_row(state, edges, -1)

    def set_one_space(self, state: int) -> None:
        """Let ``state`` lead to ``state + 1`` by a space, and nothing else."""
        self._set_row(state, {ord(" "): state + 1}, -1)

    def _build(self, state: int, position: Position) -> None:
        """Make the row of a position; where white space may come first, that of the position behind it as well."""
        if isinstance(position, Spaced):
            inner = self.state(position.position)
            edges = position.position.edges(self)
            final = 0 if isinstance(position.position, End) else -1
            if not self.rsm.is_built(inner):
                self._set_row(inner, edges, final)
            if edges or final == 0 or position.position.waits:
                frame = self._frame(AfterSpace(position.position), ())
                code = self.rsm.call(self.space, frame)
                edges = {**edges, 32: code, 9: code, 10: code, 13: code}
                self.rsm.set_return(frame, 0, inner)
            self._set_row(state, edges, final)
        else:
            self._set_row(state, position.edges(self), 0 if isinstance(position, End) else -1)

    def _set_row(self, state: int, edges: Edges, final: int) -> None:
        """Give a state its edges: each of their bytes is a class of its own, all others are one."""
        listed = bytes(edges)
        class_map = self._maps.get(listed)
        if class_map is None:
            byte_class = bytearray(256)
            for number, byte in enumerate(listed, 1):
                byte_class[byte] = number
            class_map = self._maps[listed] = self.rsm.class_map(byte_class)
        self.rsm.set_row(state, class_map, [0, *edges.values()], final)

    def build_return(self, frame: int, outcome: int) -> None:
        """Find where a caller goes on after an outcome that was met for the first time."""
        self.table.clock.restart()
        key = self.rsm.frame_key(frame)
        if isinstance(key, PlainStates):
            target = key.after_value(self, frame)
        elif isinstance(key[0], AfterKey):
            target = key[0].resume_class(self, outcome)
        else:
            back, reading = key
            target = back.resume(self, read(reading, self._outcomes.truth(outcome)))
        self.rsm.set_return(frame, outcome, target)

    def behind_space(self, state: int) -> int:
        """See `RecursiveMachine.behind_space`."""
        position = self.rsm.state_key(state)
        if isinstance(position, PlainStates):
            return position.behind_space(state)
        return self.state(position.position) if isinstance(position, Spaced) else 0

    def record(self, state: int, text: bytes | None) -> int:
        """The state once it is known which text a recorded call has read, see `LazyRSM`."""
        self.table.clock.restart()
        if state == 0:
            return 0
        return self.state(self.rsm.state_key(state).recorded(self, text))

    # ── pieces that positions are made of ────────────────────────────────────────────────────────────────────────────

    def state(self, position: Position) -> int:
        """The state of a position."""
        return self.rsm.new_state(position)

    def exit(self, truth: Truth) -> int:
        """The code of an edge that ends a component with this outcome."""
        return self.rsm.exit(self._outcomes.number(truth))

    def gap(
        self,
        position: Position,
        *,
        inside: bool = True,
        before_key: bool = False,
        before_value: bool = False,
        depth: int = 0,
        now: bool = False,
    ) -> int:
        """The state of a position at which the layout may, or has to, put white space first. now: make its row at once, since
        whoever gets to it goes on from there, in the same token or the next."""
        options = self.options
        if options.indent is not None:
            text = b"\n" + b" " * (options.indent * depth) if before_key else b" " if before_value else b""
        elif options.whitespace == "flexible":
            text = b""
            position = Spaced(position)
        else:
            text = b" " if options.whitespace == "json" and (before_key or before_value) else b""
        if text and inside:
            position = Fixed(position, text)
        state = self.state(position)
        if now and not self.rsm.is_built(state):
            self._build(state, position)
        return state

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

    def is_whitespace(self, target: int) -> bool:
        """Whether a call of ``target`` reads white space."""
        return target == self.space

    def _frame(self, back: Return, reading: Reading) -> int:
        return self.rsm.new_frame((back, reading), back.records)

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def value_edges(
        self, must: int, watches: tuple[int, ...], back: Return, depth: int = 0, *, plentiful: bool = False
    ) -> Edges:
        """Edges of a value's first byte: a call of the component of each type that the value may have.

        plentiful: only types of which each beginning can be completed in endlessly many ways.
        """
        edges: Edges = {}
        for reading, first_bytes in self.value_parts(must, watches, depth, plentiful):
            frame = self._frame(back, reading)
            for target, listed in first_bytes.items():
                edges.update(dict.fromkeys(listed, self.rsm.call(target, frame)))
        return edges

    def value_parts(self, must: int, watches: tuple[int, ...], depth: int = 0, plentiful: bool = False) -> Parts:
        """For each type that the value may have: how the caller reads the outcome, and target → first bytes."""
        key = (must, watches, depth if self.options.indent is not None else 0, plentiful)
        parts = self._parts.get(key)
        if parts is None:
            try:
                parts = self._parts[key] = parts_of(self, *key)
            except (LimitExceeded, UnsupportedSchemaError) as error:
                self.keywords.locate(error, must, *watches)
                raise
        return parts

    # ── objects and arrays ───────────────────────────────────────────────────────────────────────────────────────────

    def plain_start(self, shape: ObjectShape, seen: int | None) -> int:
        """The state of a plain object after ``{``, or after a member, in any order, once the names ``seen`` have come."""
        known = self._plain.get((shape, seen))
        if known is None:
            if shape.any_order:
                states: PlainStates = PlainPlace(self, shape, seen or 0, is_first=seen is None)
            else:
                states = PlainObject(self, shape)
            known = self._plain[shape, seen] = states.start
        return known

    def key_code(self, o: ObjectState) -> int | None:
        """The code of a key's opening quote, None if no member may come."""
        if o.key_code != 0:
            return o.key_code
        allowed = self.allowed_keys(o)
        code = None
        if allowed:
            code = self.rsm.call(self.key_start(o.shape.keys, allowed, o.seen), self._frame(AfterKey(o), ()))
        o.key_code = code
        return code

    def end_numbers_at(self, more: bytes) -> None:
        """Let numbers be followed by these bytes too."""
        self.scalars.end_numbers_at(more)
        self._parts.clear()
        self.starts.clear()
        self.starts_of_type = {}

    def key_start(self, keys: KeySpace, allowed: int, seen: frozenset[str] = frozenset()) -> int:
        """The state after the opening quote of a key of one of the ``allowed`` classes."""
        return self.scalars.key(keys, allowed, seen)

    def allowed_keys(self, o: ObjectState) -> int:
        """The classes of keys that may come next, as a mask."""
        keys, allowed = o.shape.keys, o.shape.allowed(o.residual, o.place)
        if o.pending and keys.others is not None:
            allowed &= o.shape.declared_mask  # of few keys the pending one may have been the last
        if o.seen:
            for c in bits(allowed & keys.others_mask):
                if o.left_in(c) == 0:
                    allowed &= ~(1 << c)
        if o.shape.tracks and allowed & keys.others_mask and not o.enough_keys():
            allowed &= o.shape.declared_mask
        return allowed

    def object_possible(self, o: ObjectState) -> bool:
        """Whether an object can go on or end here: never false but where a finite class of keys is used up."""
        return not o.seen or o.may_end or self.key_code(o) is not None
