"""A schema as a document: drafts, identifiers, references, and the check that each keyword has a value of its type.

A *node* is a subschema at a place, as an integer: equal nodes are the same subschema read in the same `Context`. What
references name is found in references.py, and all is checked in checker.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import referencing

from fsmc.compiler.errors import SchemaError
from fsmc.compiler.schema.checker import Checker, DynamicReference, applies_in_place
from fsmc.compiler.schema.checks import DRAFTS, DYNAMIC, IN_PLACE, KEYWORDS, NAMED, REFERENCE, SCHEMA, SCHEMAS
from fsmc.compiler.schema.references import References
from fsmc.compiler.schema.resources import Context, Trail, declares_draft, pointer_text
from fsmc.compiler.schema.source import MAX_DEPTH, parse_json

MAX_NODES = 1_000_000


class SchemaDocument:
    """The nodes of one schema, all of which have been checked.

    schema: a dict, a bool, or JSON text. draft: 4, 6, 7, 2019 or 2020 where ``$schema`` does not say. Where nobody says, it is
    2020-12, or 2019-09 if ``items`` is an array somewhere; draft 4's flags ``exclusiveMinimum`` and ``exclusiveMaximum`` are
    then understood too, keyword by keyword.
    registry: a ``referencing.Registry`` of documents that references may name, besides the official meta-schemas.

    Raises SchemaError (message, JSON pointer, keyword), also for references that lead nowhere or only back to themselves;
    LimitExceeded for more than ``max_nodes`` subschemas or nesting deeper than ``max_depth``.

    >>> document = SchemaDocument({"properties": {"a/b": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"minimum": 1}}})
    >>> a = document.child(document.root, "properties", "a/b")
    >>> document.pointer(a), document.value(document.resolve(a, "#/$defs/n"))
    ('/properties/a~1b', {'minimum': 1})
    """

    def __init__(
        self,
        schema: dict[str, Any] | bool | str,
        *,
        draft: int | None = None,
        registry: referencing.Registry[Any] | None = None,
        max_depth: int = MAX_DEPTH,
        max_nodes: int = MAX_NODES,
    ) -> None:
        if isinstance(schema, str):
            schema = parse_json(schema, max_depth)
        if draft is not None and draft not in DRAFTS:
            raise SchemaError(f"draft {draft} is not one of {', '.join(map(str, DRAFTS))}", "", "$schema")
        if registry is not None and not isinstance(registry, referencing.Registry):
            raise TypeError(f"registry must be a referencing.Registry, not {type(registry).__name__}")
        self.max_depth, self.max_nodes = max_depth, max_nodes
        self._given_registry = registry
        self._schema = schema
        self._declared = draft is not None or declares_draft(schema)
        first_error: SchemaError | None = None
        drafts = (draft or 2020,) if self._declared else (2020, 2019)
        for self._draft in drafts:
            if first_error is not None and first_error.keyword not in KEYWORDS[self._draft]:
                continue  # that draft would only ignore what is wrong
            try:
                self._read()
                return
            except SchemaError as error:
                first_error = first_error or error
        assert first_error is not None
        raise first_error

    def _read(self) -> None:
        """Check the whole document under one draft."""
        try:
            self._start(dynamic=False)
        except DynamicReference:
            self._start(dynamic=True)
        self.root = self._enter(self._schema, self._references.first, "")
        self._check_cycles()

    def _start(self, dynamic: bool) -> None:
        """Begin afresh. Dynamic anchors are looked for, and scopes kept apart, only where a reference needs them."""
        self._references = References(
            self._schema, self._draft, self._given_registry, dynamic=dynamic, declared=self._declared
        )
        self._checker = Checker(self._references, dynamic=dynamic, max_depth=self.max_depth, max_nodes=self.max_nodes)
        self._checker.check(self._schema)
        self._values: list[Any] = []
        self._contexts: list[Context] = []
        self._trails: list[Trail] = []
        self._children: dict[tuple[int, tuple[str | int, ...]], int] = {}

    @property
    def n_subschemas(self) -> int:
        """Those that were checked, booleans apart; one that is read in several contexts counts in each."""
        return len(self._checker.checked) + self._checker.n_passed

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def value(self, node: int) -> Any:
        """The subschema itself: a dict or a bool."""
        return self._values[node]

    def draft(self, node: int) -> int:
        """4, 6, 7, 2019 or 2020."""
        return self._contexts[node].draft

    def pointer(self, node: int) -> str:
        """Where the subschema stands: a JSON pointer (RFC 6901), after a URI if in another document."""
        return pointer_text(self._trails[node])

    def keyword(self, node: int, name: str, default: Any = None) -> Any:
        """The value of a keyword, if the subschema has it and its draft knows it there (see `in_place` about references)."""
        schema, context = self._values[node], self._contexts[node]
        if isinstance(schema, bool) or name not in context.keywords:
            return default
        if context.draft <= 7 and "$ref" in schema and name != "$ref":
            return default
        return schema.get(name, default)

    def child(self, node: int, *path: str | int) -> int:
        """The subschema at ``path`` below a node."""
        key = (node, path)
        known = self._children.get(key)
        if known is None:
            value = self._values[node]
            for step in path:
                value = value[step]
            known = self._children[key] = self._enter(value, self._contexts[node], (self._trails[node], *path))
        return known

    def resolve(self, node: int, reference: str) -> int:
        """The subschema that a reference in ``node`` names."""
        return self._enter(*self._references.target(reference, self._contexts[node], (self._trails[node], "$ref")))

    def resolve_dynamic(self, node: int) -> int:
        """The subschema that the ``$dynamicRef`` or ``$recursiveRef`` of ``node`` names, given how we got here."""
        return self._enter(
            *self._references.dynamic_target(self._values[node], self._contexts[node], self._trails[node])
        )

    def in_place(self, node: int) -> list[int]:
        """The subschemas that a subschema applies to the same value, whether they have to hold or are only asked."""
        schema = self._values[node]
        if isinstance(schema, bool):
            return []
        draft = self._contexts[node].draft
        if draft <= 7 and "$ref" in schema:
            return [self.resolve(node, schema["$ref"])]
        found: list[int] = []
        for keyword, below in IN_PLACE[draft]:
            if keyword in schema:
                if below == SCHEMAS:
                    found += [self.child(node, keyword, i) for i in range(len(schema[keyword]))]
                elif below == SCHEMA:
                    found.append(self.child(node, keyword))
                elif below == REFERENCE:
                    found.append(self.resolve(node, schema[keyword]))
                elif below == DYNAMIC:
                    found.append(self.resolve_dynamic(node))
                else:
                    applied = schema[keyword].items()
                    found += [
                        self.child(node, keyword, k) for k, v in applied if below == NAMED or not isinstance(v, list)
                    ]
        return found

    def _enter(self, value: Any, context: Context, trail: Trail) -> int:
        """The node of a value met on the way."""
        if isinstance(value, dict) and ("$id" in value or "id" in value or "$schema" in value):
            context = self._references.context_of(value, context, trail)
        known = context.nodes.get(id(value))
        if known is None:
            known = context.nodes[id(value)] = len(self._values)
            self._values.append(value)
            self._contexts.append(context)
            self._trails.append(trail)
        return known

    def noted(self) -> Iterator[tuple[str, str, Any]]:
        """(pointer of the subschema, keyword, value) of each keyword that is `checks.Keyword.noted`, and of patterns that may grow large."""
        return ((pointer_text(place[2]), name, value) for place, name, value in self._checker.noted)

    def noted_values(self) -> list[tuple[str, Any]]:
        """(keyword, value) of `noted`."""
        return [(name, value) for _, name, value in self._checker.noted]

    def values_with(self, wanted: Callable[[str, Any], bool]) -> Iterator[int]:
        """The nodes that apply to a value of their own (the root's, a member's, an item's) and, themselves or by what they apply
        in place, have one of the noted keywords, with a value of which ``wanted(keyword, value)`` is true."""
        reached = {self._enter(*place) for place, name, value in self._checker.noted if wanted(name, value)}
        if not reached:
            return
        outer: dict[int, list[int]] = {}
        for place in self._checker.checked:
            if applies_in_place(place):
                node = self._enter(*place)
                for inner in self.in_place(node):
                    outer.setdefault(inner, []).append(node)
        waiting = list(reached)
        while waiting:
            new = set(outer.get(waiting.pop(), ())) - reached
            reached |= new
            waiting += new
        values = {id(self._values[node]) for node in reached}
        for place in self._checker.checked:
            if id(place[0]) in values and (node := self._enter(*place)) in reached:
                reached.discard(node)
                trail = place[2]
                keyword = KEYWORDS[self.draft(node)].get(trail[1]) if isinstance(trail, tuple) else None
                if node == self.root or (keyword is not None and keyword.below and not keyword.in_place):
                    yield node

    def foreign_documents(self) -> dict[str, tuple[int, Any]]:
        """URI → (draft, contents) of what references named in the given registry: with it the schema stands alone."""
        return self._references.foreign_documents()

    def _check_cycles(self) -> None:
        """Raise if a reference leads back to itself with nothing in between, so that it says nothing."""
        finished: set[int] = set()
        for place in self._checker.targets:
            if not applies_in_place(place) or (start := self._enter(*place)) in finished:
                continue
            open_ = {start: iter(self.in_place(start))}
            while open_:
                node, below = next(reversed(open_.items()))
                for inner in below:
                    if inner in open_:
                        raise SchemaError(
                            "the references lead back here with nothing in between, so that they say nothing",
                            self.pointer(inner),
                            "$ref",
                        )
                    if inner not in finished:
                        open_[inner] = iter(self.in_place(inner))
                        break
                else:
                    finished.add(node)
                    del open_[node]
        self._checker.targets.clear()
