"""A table from keyword to formula: what each keyword asks of a value of each JSON type.

`Keywords.expand(formula, type)` rewrites a formula over values into one over the atoms of a single type: a keyword that
says nothing about that type becomes TRUE, ``type``, ``enum`` and ``const`` become constants or enumerations, references
and allOf, anyOf, oneOf, not, if/then/else are replaced by what they contain. The rules themselves stand in the
keyword_*.py files and in unevaluated.py.

Sources: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12, "Core" and "Validation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fsmc.compiler.errors import LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema import keyword_arrays as arrays
from fsmc.compiler.schema import keyword_general as general
from fsmc.compiler.schema import keyword_objects as objects
from fsmc.compiler.schema import keyword_scalars as scalars
from fsmc.compiler.schema import unevaluated
from fsmc.compiler.schema.atoms import ARRAY, NUMBER, OBJECT, STRING, TYPES, Const, Schema
from fsmc.compiler.schema.checks import DRAFTS
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.formats import KNOWN_FORMATS
from fsmc.compiler.schema.formula import AND, ATOM, FALSE, TRUE, Formulas
from fsmc.compiler.schema.resources import declares_draft
from fsmc.compiler.schema.source import quoted
from fsmc.compiler.schema.values import canonical

MAX_NESTING = 40
"""Subschemas applied in place inside each other that are expanded by recursion; deeper ones are expanded from the inside out."""


class Keywords:
    """Formulas of the subschemas of one document.

    document: the schema. formulas: the table that the formulas are put into. ignore_unique_items: take ``uniqueItems``
    as an annotation (`unchecked` tells).

    >>> document = SchemaDocument({"anyOf": [{"type": "string", "maxLength": 3}, {"const": 5}]})
    >>> keywords = Keywords(document, Formulas())
    >>> root = keywords.schema(document.root)
    >>> keywords.formulas.show(root)
    'Schema(node=0)'
    >>> for type_ in (STRING, NUMBER, ARRAY):
    ...     print(keywords.formulas.show(keywords.expand(root, type_)))
    Length(minimum=0, maximum=3)
    NumEnum(values=frozenset({Decimal('5')}))
    false
    """

    def __init__(self, document: SchemaDocument, formulas: Formulas, *, ignore_unique_items: bool = False) -> None:
        self.document, self.formulas, self.ignore_unique_items = document, formulas, ignore_unique_items
        self.constants: dict[str, Any] = {}
        """Canonical text → the value as first written."""
        self._expanded: dict[tuple[int, str], int] = {}
        self._nodes: dict[tuple[int, str], int] = {}
        self._of_type: dict[str, int] = {}
        self._nesting = 0

    def unchecked(self) -> Iterator[str]:
        """What a user should know: each place in the schema whose keyword asserts nothing here."""
        document = self.document
        root = document.value(document.root)
        if isinstance(root, dict) and "$schema" in root and not declares_draft(root):
            draft = document.draft(document.root)
            yield f"#/$schema: {quoted(root['$schema'])} is not a draft that is known: read as one of {draft}"
        for pointer, keyword, value in document.noted():
            if keyword == "format" and value not in KNOWN_FORMATS:
                yield f"#{pointer}/format: {value!r} is not a format that is known, and is not checked"
            if keyword == "uniqueItems" and value and self.ignore_unique_items:
                yield f"#{pointer}/uniqueItems: ignored, as asked"

    def locate(self, error: LimitExceeded | UnsupportedSchemaError, *formulas: int) -> None:
        """Give an error that names no place the pointer of a subschema that the value formulas speak of."""
        payloads = [self.formulas.payload(atom) for formula in formulas for atom in self.formulas.atoms(formula)]
        nodes = [payload.node for payload in payloads if isinstance(payload, Schema)]
        if nodes:
            error.locate(self.document.pointer(min(nodes)))

    def schema(self, node: int) -> int:
        """The formula over values "valid under this subschema"."""
        value = self.document.value(node)
        known = self._plain(value)
        return self._atom(node, value) if known is None else known

    def below(self, node: int, *path: str | int) -> int:
        """`schema` of the subschema at ``path`` below a node."""
        value = self.document.value(node)
        for step in path:
            value = value[step]
        known = self._plain(value)
        return self._atom(self.document.child(node, *path), value) if known is None else known

    def below_each(self, node: int, keyword: str, schemas: dict[str, Any]) -> list[tuple[str, int]]:
        """(name, `schema`) of each of the subschemas that stand below a keyword, by name."""
        plain, found = self._plain, []
        for name, value in schemas.items():
            known = plain(value)
            if known is None:
                known = self._atom(self.document.child(node, keyword, name), value)
            found.append((name, known))
        return found

    def _atom(self, node: int, value: dict[str, Any]) -> int:
        """The formula of a subschema that is not `_plain`; from then on those that ask for the same type are."""
        known = self.formulas.atom(Schema(node))
        if value.keys().isdisjoint(ASKING) and value["type"] != []:
            self._of_type[value["type"] if isinstance(value["type"], str) else str(value["type"])] = known
        return known

    def _plain(self, value: Any) -> int | None:
        """The formula of a subschema that is a constant or, like most, asks for a type that has been asked for before."""
        if isinstance(value, bool):
            return TRUE if value else FALSE
        if not value.keys().isdisjoint(ASKING):
            return None
        name = value.get("type")
        return TRUE if name is None else self._of_type.get(name if isinstance(name, str) else str(name))

    def const(self, value: Any) -> int:
        """The formula over values "equal to this JSON value"."""
        text = canonical(value)
        self.constants.setdefault(text, value)
        return self.formulas.atom(Const(text))

    def types_of(self, formula: int) -> tuple[str, ...]:
        """Types among which are all that a value of which the formula holds may have, in the order of `TYPES`: fewer than all
        where a subschema's ``type`` says so."""
        table = self.formulas
        found: tuple[str, ...] = TYPES
        for part in table.conjuncts(formula):
            payload = table.payload(part) if table.kind(part) == ATOM else None
            if isinstance(payload, Schema):
                name = self.document.keyword(self.referred(payload.node), "type")
                if isinstance(name, str) and len(general.TYPE_NAMES[name]) < len(found):
                    found = general.TYPE_NAMES[name]
        return found

    def type_alone(self, formula: int) -> str | None:
        """The name of the type that is all that a formula asks of a value; None if it asks for more, or says it in another way."""
        payload = self.formulas.payload(formula) if self.formulas.kind(formula) == ATOM else None
        if not isinstance(payload, Schema):
            return None
        schema = self.document.value(self.referred(payload.node))
        name = schema.get("type") if isinstance(schema, dict) and schema.keys().isdisjoint(ASKING) else None
        return name if isinstance(name, str) else None

    def referred(self, node: int) -> int:
        """The subschema that a subschema comes to which only refers to another one; else itself."""
        document = self.document
        while True:
            schema = document.value(node)
            if isinstance(schema, bool) or "$ref" not in schema:
                return node
            if document.draft(node) > 7 and ("type" in schema or len(ASKING & schema.keys()) > 1):
                return node
            node = document.resolve(node, schema["$ref"])

    # ── formulas over one type's atoms ───────────────────────────────────────────────────────────────────────────────

    def expand(self, formula: int, type_: str) -> int:
        """The formula over values, as one over the atoms of one type."""
        key = (formula, type_)
        known = self._expanded.get(key)
        if known is None:
            self._nesting = 0
            if self.formulas.kind(formula) == ATOM:
                known = self._expand_atom(formula, type_)
            elif self.formulas.kind(formula) == AND:
                known = self._expand_parts(formula, type_)
            else:
                known = self.formulas.substitute(formula, lambda atom: self._expand_atom(atom, type_))
            self._expanded[key] = known
        return known

    def _expand_parts(self, formula: int, type_: str) -> int:
        """`expand` of a conjunction, part by part: a list of excluded values grows by one with each item of an array."""
        parts = []
        for part in self.formulas.arguments(formula):
            parts.append(self.expand(part, type_))
            if parts[-1] == FALSE:
                return FALSE
        return self.formulas.conj(parts)

    def _expand_atom(self, atom: int, type_: str) -> int:
        payload = self.formulas.payload(atom)
        if isinstance(payload, Const):
            return general.equal_to(self, self.constants[payload.text], type_)
        assert isinstance(payload, Schema)
        return self.expand_node(payload.node, type_)

    def expand_node(self, node: int, type_: str) -> int:
        """What the subschema asks of a value of this type."""
        key = (node, type_)
        known = self._nodes.get(key)
        if known is not None:
            return known
        schema = self.document.value(node)
        if isinstance(schema, bool):
            return TRUE if schema else FALSE
        nesting = self._nesting
        if nesting > MAX_NESTING:
            self._expand_inner_first(node, type_)
        self._nesting = nesting + 1
        draft = self.document.draft(node)
        names = schema.get("type")
        if draft <= 7 and "$ref" in schema:  # before 2019-09 everything beside a reference is ignored
            result = general.reference(self, node, schema["$ref"], type_)
        elif isinstance(names, str) and type_ not in general.TYPE_NAMES[names]:
            result = FALSE  # true of most schemas for six of the seven types: nothing else needs a look
        else:
            rules = _RULES[draft, type_]
            result = self.formulas.conj(
                [rule(self, node, value, type_) for name, value in schema.items() if (rule := rules.get(name))]
            )
        self._nesting = nesting
        self._nodes[key] = result
        return result

    def keyword(self, node: int, keyword: str, type_: str) -> int:
        """What one keyword of a subschema asks of a value of this type."""
        rule = _RULES[self.document.draft(node), type_].get(keyword)
        return TRUE if rule is None else rule(self, node, self.document.value(node)[keyword], type_)

    def _expand_inner_first(self, node: int, type_: str) -> None:
        """Expand all that a subschema applies in place, innermost first, so that no step goes deep (there are no cycles)."""
        waiting = [node]
        while waiting:
            below = [n for n in self.document.in_place(waiting[-1]) if (n, type_) not in self._nodes]
            below = [n for n in below if isinstance(self.document.value(n), dict)]
            if below:
                waiting += below
            else:
                self._nesting = 0
                inner = waiting.pop()
                if waiting:
                    self.expand_node(inner, type_)


Rule = Callable[[Keywords, int, Any, str], int]
"""(keywords, node, the keyword's value in it, type) → formula over the atoms of the type."""


class _Entry(NamedTuple):
    keyword: str
    rule: Rule
    types: tuple[str, ...]
    """Of which it speaks; of others it is TRUE."""
    first: int
    last: int
    """The drafts that know it."""


_TABLE = (
    _Entry("$ref", general.reference, TYPES, 4, 2020),
    _Entry("$dynamicRef", general.dynamic_reference, TYPES, 2020, 2020),
    _Entry("$recursiveRef", general.dynamic_reference, TYPES, 2019, 2019),
    _Entry("type", general.types, TYPES, 4, 2020),
    _Entry("enum", general.enum, TYPES, 4, 2020),
    _Entry("const", general.const, TYPES, 6, 2020),
    _Entry("allOf", general.all_of, TYPES, 4, 2020),
    _Entry("anyOf", general.any_of, TYPES, 4, 2020),
    _Entry("oneOf", general.one_of, TYPES, 4, 2020),
    _Entry("not", general.not_, TYPES, 4, 2020),
    _Entry("if", general.if_, TYPES, 7, 2020),
    _Entry("minLength", scalars.min_length, (STRING,), 4, 2020),
    _Entry("maxLength", scalars.max_length, (STRING,), 4, 2020),
    _Entry("pattern", scalars.pattern, (STRING,), 4, 2020),
    _Entry("format", scalars.format_, (STRING,), 4, 2020),
    _Entry("minimum", scalars.minimum, (NUMBER,), 4, 2020),
    _Entry("maximum", scalars.maximum, (NUMBER,), 4, 2020),
    _Entry("exclusiveMinimum", scalars.exclusive_minimum, (NUMBER,), 6, 2020),
    _Entry("exclusiveMaximum", scalars.exclusive_maximum, (NUMBER,), 6, 2020),
    _Entry("multipleOf", scalars.multiple_of, (NUMBER,), 4, 2020),
    _Entry("properties", objects.properties, (OBJECT,), 4, 2020),
    _Entry("patternProperties", objects.pattern_properties, (OBJECT,), 4, 2020),
    _Entry("additionalProperties", objects.additional_properties, (OBJECT,), 4, 2020),
    _Entry("propertyNames", objects.property_names, (OBJECT,), 6, 2020),
    _Entry("required", objects.required, (OBJECT,), 4, 2020),
    _Entry("minProperties", objects.min_properties, (OBJECT,), 4, 2020),
    _Entry("maxProperties", objects.max_properties, (OBJECT,), 4, 2020),
    _Entry("dependentRequired", objects.dependent_required, (OBJECT,), 2019, 2020),
    _Entry("dependentSchemas", objects.dependent_schemas, (OBJECT,), 2019, 2020),
    _Entry("dependencies", objects.dependencies, (OBJECT,), 4, 2020),
    _Entry("unevaluatedProperties", unevaluated.unevaluated_properties, (OBJECT,), 2019, 2020),
    _Entry("prefixItems", arrays.prefix_items, (ARRAY,), 2020, 2020),
    _Entry("items", arrays.items, (ARRAY,), 4, 2020),
    _Entry("additionalItems", arrays.additional_items, (ARRAY,), 4, 2019),
    _Entry("minItems", arrays.min_items, (ARRAY,), 4, 2020),
    _Entry("maxItems", arrays.max_items, (ARRAY,), 4, 2020),
    _Entry("contains", arrays.contains, (ARRAY,), 6, 2020),
    _Entry("uniqueItems", arrays.unique_items, (ARRAY,), 4, 2020),
    _Entry("unevaluatedItems", unevaluated.unevaluated_items, (ARRAY,), 2019, 2020),
)
ASKING = frozenset(e.keyword for e in _TABLE) - {"type"}
"""Keywords that ask for more than a type, in any draft."""

SPEAKING: dict[str | None, frozenset[str]] = {
    name: frozenset(e.keyword for e in _TABLE if e.types != TYPES and not set(kinds).isdisjoint(e.types))
    for name, kinds in general.TYPE_NAMES.items()
}
SPEAKING[None] = frozenset(e.keyword for e in _TABLE if e.types == TYPES) - {"type"}
"""A name that ``type`` may give → those of them that speak of its values alone; None → those that speak of all."""

_RULES: dict[tuple[int, str], dict[str, Rule]] = {
    (draft, type_): {e.keyword: e.rule for e in _TABLE if e.first <= draft <= e.last and type_ in e.types}
    for draft in DRAFTS
    for type_ in TYPES
}
