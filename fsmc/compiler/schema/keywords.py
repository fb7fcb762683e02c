"""A table from keyword to formula: what each keyword asks of a value of each JSON type.

`Keywords.expand(formula, type)` rewrites a formula over values into one over the atoms of a single type: a keyword that
says nothing about that type becomes TRUE, ``type``, ``enum`` and ``const`` become constants or enumerations, references
and allOf, anyOf, oneOf, not, if/then/else are replaced by what they contain.

Sources: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12, "Core" and "Validation".
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.atoms import (
    ARRAY,
    FALSE_LITERAL,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE_LITERAL,
    TYPES,
    All,
    AtLeast,
    Const,
    Count,
    El,
    Format,
    Integer,
    Length,
    MinItems,
    MinProps,
    MultipleOf,
    NumEnum,
    Pattern,
    Schema,
    StrEnum,
    Unique,
)
from fsmc.compiler.schema.checks import DRAFTS
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.formats import KNOWN_FORMATS, MAX_LENGTH
from fsmc.compiler.schema.formula import ATOM, FALSE, TRUE, Formulas

MAX_CONDITIONAL_CONTAINS = 6
"""unevaluatedItems is split by the truth of each conditional ``contains`` it may see: 2**n cases."""

MAX_NESTING = 40
"""Subschemas applied in place inside each other that are expanded by recursion; deeper ones are expanded from the inside out."""

_TYPE_NAMES = {
    "null": (NULL,),
    "boolean": (TRUE_LITERAL, FALSE_LITERAL),
    "number": (NUMBER,),
    "integer": (NUMBER,),
    "string": (STRING,),
    "array": (ARRAY,),
    "object": (OBJECT,),
}


def canonical(value: Any) -> str:
    """Canonical text of a JSON value: equal values (1 and 1.0; members in any order) have equal texts.

    >>> canonical({"b": [1.0, True], "a": "é"})
    '{"a":"é","b":[1,true]}'
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float, Decimal)):
        return number_text(to_decimal(value))
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    members = sorted((json.dumps(key, ensure_ascii=False), canonical(v)) for key, v in value.items())
    return "{" + ",".join(f"{key}:{text}" for key, text in members) + "}"


def to_decimal(number: int | float | Decimal) -> Decimal:
    """The exact decimal number that JSON text shows for a Python number."""
    return (
        number if isinstance(number, Decimal) else Decimal(number) if isinstance(number, int) else Decimal(repr(number))
    )


def number_text(number: Decimal) -> str:
    """Plain notation, without trailing zeros in a fraction."""
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


class Keywords:
    """Formulas of the subschemas of one document."""

    def __init__(self, document: SchemaDocument, formulas: Formulas, *, ignore_unique_items: bool = False) -> None:
        self.document, self.formulas, self.ignore_unique_items = document, formulas, ignore_unique_items
        self._expanded: dict[tuple[int, str], int] = {}
        self._nodes: dict[tuple[int, str], int] = {}
        self._nesting = 0
        self.constants: dict[str, Any] = {}  # canonical text → the value as first written

    def unchecked(self) -> Iterator[str]:
        """What a user should know: each place in the schema whose keyword asserts nothing here."""
        for node in self.document.nodes():
            schema = self.document.value(node)
            if isinstance(schema, dict):
                pointer, name = self.document.pointer(node), schema.get("format")
                if isinstance(name, str) and name not in KNOWN_FORMATS:
                    yield f"#{pointer}/format: {name!r} is not a format that is known, and is not checked"
                if schema.get("uniqueItems") and self.ignore_unique_items:
                    yield f"#{pointer}/uniqueItems: ignored, as asked"

    def schema(self, node: int) -> int:
        """The formula over values "valid under this subschema"."""
        value = self.document.value(node)
        if isinstance(value, bool):
            return TRUE if value else FALSE
        return TRUE if not value else self.formulas.atom(Schema(node))

    def const(self, value: Any) -> int:
        """The formula over values "equal to this JSON value"."""
        text = canonical(value)
        self.constants.setdefault(text, value)
        return self.formulas.atom(Const(text))

    def expand(self, formula: int, type_: str) -> int:
        """The formula over values, as one over the atoms of one type."""
        key = (formula, type_)
        known = self._expanded.get(key)
        if known is None:
            self._nesting = 0
            if self.formulas.kind(formula) == ATOM:
                known = self._expand_atom(formula, type_)
            else:
                known = self.formulas.substitute(formula, lambda atom: self._expand_atom(atom, type_))
            self._expanded[key] = known
        return known

    def _expand_atom(self, atom: int, type_: str) -> int:
        payload = self.formulas.payload(atom)
        if isinstance(payload, Const):
            return self._const(self.constants[payload.text], type_)
        assert isinstance(payload, Schema)
        return self.expand_node(payload.node, type_)

    def expand_node(self, node: int, type_: str) -> int:
        """What the subschema asks of a value of this type."""
        key = (node, type_)
        known = self._nodes.get(key)
        if known is not None:
            return known
        value = self.document.value(node)
        if isinstance(value, bool):
            return TRUE if value else FALSE
        nesting = self._nesting
        if nesting > MAX_NESTING:
            self._expand_inner_first(node, type_)
        self._nesting = nesting + 1
        draft = self.document.draft(node)
        names = value.get("type")
        if draft <= 7 and "$ref" in value:  # before 2019-09 everything beside a reference is ignored
            result = self._reference(node, value, type_)
        elif isinstance(names, str) and type_ not in _TYPE_NAMES[names]:
            result = FALSE  # true of most schemas for six of the seven types: nothing else needs a look
        else:
            rules = _RULES[draft, type_]
            parts = [rule(self, node, value, type_) for keyword in value if (rule := rules.get(keyword)) is not None]
            result = self.formulas.conj(parts)
        self._nesting = nesting
        self._nodes[key] = result
        return result

    def keyword(self, node: int, keyword: str, type_: str) -> int:
        """What one keyword of a subschema asks of a value of this type."""
        rule = _RULES[self.document.draft(node), type_].get(keyword)
        return TRUE if rule is None else rule(self, node, self.document.value(node), type_)

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

    # ── any type ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reference(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.expand_node(self.document.resolve(node, schema["$ref"]), type_)

    def _dynamic_reference(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.expand_node(self.document.resolve_dynamic(node), type_)

    def _type(self, node: int, schema: dict[str, Any], type_: str) -> int:
        names = schema["type"]
        if isinstance(names, str):
            names = (names,)
        if type_ == NUMBER and "number" not in names:
            return self.formulas.atom(Integer()) if "integer" in names else FALSE
        for name in names:
            if type_ in _TYPE_NAMES[name]:
                return TRUE
        return FALSE

    def _enum(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self._one_of_values(schema["enum"], type_)

    def _const_keyword(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self._one_of_values([schema["const"]], type_)

    def _one_of_values(self, values: list[Any], type_: str) -> int:
        if type_ == STRING:
            strings = frozenset(v for v in values if isinstance(v, str))
            return self.formulas.atom(StrEnum(strings)) if strings else FALSE
        if type_ == NUMBER:
            numbers = frozenset(
                to_decimal(v).normalize()
                for v in values
                if isinstance(v, (int, float, Decimal)) and not isinstance(v, bool)
            )
            return self.formulas.atom(NumEnum(numbers)) if numbers else FALSE
        return self.formulas.disj(self._const(value, type_) for value in values)

    def _const(self, value: Any, type_: str) -> int:
        """ "Equal to ``value``", for a value of the given type."""
        formulas = self.formulas
        if value is None or isinstance(value, bool):
            return TRUE if type_ == {None: NULL, True: TRUE_LITERAL, False: FALSE_LITERAL}[value] else FALSE
        if isinstance(value, (str, int, float, Decimal)):
            return self._one_of_values([value], type_) if type_ in (STRING, NUMBER) else FALSE
        if isinstance(value, list):
            if type_ != ARRAY:
                return FALSE
            n = len(value)
            parts = [formulas.atom(El(i, i + 1, self.const(item))) for i, item in enumerate(value)]
            return formulas.conj([*parts, self._min_items(n), formulas.negate(self._min_items(n + 1))])
        if type_ != OBJECT:
            return FALSE
        parts = [self._all(self._names([key]), self.const(item)) for key, item in value.items()]
        parts += [self._present(key) for key in value]
        return formulas.conj([*parts, self._all(formulas.negate(self._names(value)), FALSE)])

    def _all_of(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.conj(self._branches(node, "allOf", type_))

    def _any_of(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.disj(self._branches(node, "anyOf", type_))

    def _one_of(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.exactly_one(self._branches(node, "oneOf", type_))

    def _branches(self, node: int, keyword: str, type_: str) -> list[int]:
        n = len(self.document.value(node)[keyword])
        return [self.expand_node(self.document.child(node, keyword, i), type_) for i in range(n)]

    def _not(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.negate(self.expand_node(self.document.child(node, "not"), type_))

    def _if(self, node: int, schema: dict[str, Any], type_: str) -> int:
        formulas = self.formulas
        condition = self.expand_node(self.document.child(node, "if"), type_)
        then, otherwise = (
            self.expand_node(self.document.child(node, k), type_) if k in schema else TRUE for k in ("then", "else")
        )
        return formulas.conj([formulas.disj([formulas.negate(condition), then]), formulas.disj([condition, otherwise])])

    # ── strings ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _min_length(self, node: int, schema: dict[str, Any], type_: str) -> int:
        n = int(schema["minLength"])
        return self.formulas.atom(Length(n, None)) if n > 0 else TRUE

    def _max_length(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.atom(Length(0, int(schema["maxLength"])))

    def _pattern(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.atom(Pattern(schema["pattern"]))

    def _format(self, node: int, schema: dict[str, Any], type_: str) -> int:
        name = schema["format"]
        if name not in KNOWN_FORMATS:
            return TRUE  # an annotation; `unchecked` tells
        parts = [self.formulas.atom(Format(name))]
        if name in MAX_LENGTH:
            parts.append(self.formulas.atom(Length(0, MAX_LENGTH[name])))
        return self.formulas.conj(parts)

    # ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _minimum(self, node: int, schema: dict[str, Any], type_: str) -> int:
        exclusive = schema.get("exclusiveMinimum") is True  # draft 4: a flag beside the bound
        return self.formulas.atom(AtLeast(to_decimal(schema["minimum"]), exclusive))

    def _maximum(self, node: int, schema: dict[str, Any], type_: str) -> int:
        exclusive = schema.get("exclusiveMaximum") is True
        return self.formulas.negate(self.formulas.atom(AtLeast(to_decimal(schema["maximum"]), not exclusive)))

    def _exclusive_minimum(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.atom(AtLeast(to_decimal(schema["exclusiveMinimum"]), True))

    def _exclusive_maximum(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.negate(self.formulas.atom(AtLeast(to_decimal(schema["exclusiveMaximum"]), False)))

    def _multiple_of(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.atom(MultipleOf(to_decimal(schema["multipleOf"])))

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _names(self, names: Iterable[str]) -> int:
        values = frozenset(names)
        return self.formulas.atom(StrEnum(values)) if values else FALSE

    def _all(self, keys: int, value: int) -> int:
        return TRUE if keys == FALSE or value == TRUE else self.formulas.atom(All(keys, value))

    def _present(self, name: str) -> int:
        return self.formulas.negate(self._all(self._names([name]), FALSE))

    def _min_props(self, count: int) -> int:
        return self.formulas.atom(MinProps(count)) if count > 0 else TRUE

    def _properties(self, node: int, schema: dict[str, Any], type_: str) -> int:
        child = self.document.child
        return self.formulas.conj(
            self._all(self._names([name]), self.schema(child(node, "properties", name)))
            for name in schema["properties"]
        )

    def _pattern_properties(self, node: int, schema: dict[str, Any], type_: str) -> int:
        formulas, child = self.formulas, self.document.child
        return formulas.conj(
            self._all(formulas.atom(Pattern(p)), self.schema(child(node, "patternProperties", p)))
            for p in schema["patternProperties"]
        )

    def _others(self, schema: dict[str, Any]) -> int:
        """The keys that neither properties nor patternProperties of this schema speak of."""
        formulas = self.formulas
        patterns = [formulas.atom(Pattern(p)) for p in schema.get("patternProperties", ())]
        return formulas.negate(formulas.disj([self._names(schema.get("properties", ())), *patterns]))

    def _additional_properties(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self._all(self._others(schema), self.schema(self.document.child(node, "additionalProperties")))

    def _property_names(self, node: int, schema: dict[str, Any], type_: str) -> int:
        allowed = self.expand_node(self.document.child(node, "propertyNames"), STRING)
        return self._all(self.formulas.negate(allowed), FALSE)

    def _required(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.conj(map(self._present, schema["required"]))

    def _min_properties(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self._min_props(int(schema["minProperties"]))

    def _max_properties(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.negate(self._min_props(int(schema["maxProperties"]) + 1))

    def _dependent_required(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.conj(
            self._if_present(name, self.formulas.conj(map(self._present, names)))
            for name, names in schema["dependentRequired"].items()
        )

    def _dependent_schemas(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.conj(
            self._if_present(name, self.expand_node(self.document.child(node, "dependentSchemas", name), type_))
            for name in schema["dependentSchemas"]
        )

    def _dependencies(self, node: int, schema: dict[str, Any], type_: str) -> int:
        parts = []
        for name, dependency in schema["dependencies"].items():
            if isinstance(dependency, list):
                consequence = self.formulas.conj(map(self._present, dependency))
            else:
                consequence = self.expand_node(self.document.child(node, "dependencies", name), type_)
            parts.append(self._if_present(name, consequence))
        return self.formulas.conj(parts)

    def _if_present(self, name: str, consequence: int) -> int:
        return self.formulas.disj([self.formulas.negate(self._present(name)), consequence])

    # ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _el(self, low: int, high: int | None, value: int) -> int:
        return TRUE if value == TRUE or low == high else self.formulas.atom(El(low, high, value))

    def _min_items(self, count: int) -> int:
        return self.formulas.atom(MinItems(count)) if count > 0 else TRUE

    def _prefix_items(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self._positional(node, "prefixItems", len(schema["prefixItems"]))

    def _positional(self, node: int, keyword: str, n: int) -> int:
        child = self.document.child
        return self.formulas.conj(self._el(i, i + 1, self.schema(child(node, keyword, i))) for i in range(n))

    def _items(self, node: int, schema: dict[str, Any], type_: str) -> int:
        if isinstance(schema["items"], list):
            return self._positional(node, "items", len(schema["items"]))
        start = len(self.document.keyword(node, "prefixItems", ()))
        return self._el(start, None, self.schema(self.document.child(node, "items")))

    def _additional_items(self, node: int, schema: dict[str, Any], type_: str) -> int:
        if not isinstance(schema.get("items"), list):
            return TRUE
        return self._el(len(schema["items"]), None, self.schema(self.document.child(node, "additionalItems")))

    def _min_items_keyword(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self._min_items(int(schema["minItems"]))

    def _max_items(self, node: int, schema: dict[str, Any], type_: str) -> int:
        return self.formulas.negate(self._min_items(int(schema["maxItems"]) + 1))

    def _count(self, value: int, count: int) -> int:
        if count <= 0:
            return TRUE
        if value == TRUE:
            return self._min_items(count)
        return FALSE if value == FALSE else self.formulas.atom(Count(value, count))

    def _contains(self, node: int, schema: dict[str, Any], type_: str) -> int:
        value = self.schema(self.document.child(node, "contains"))
        if self.document.draft(node) < 2019:
            return self._count(value, 1)
        low = self._count(value, int(schema.get("minContains", 1)))
        if "maxContains" not in schema:
            return low
        return self.formulas.conj([low, self.formulas.negate(self._count(value, int(schema["maxContains"]) + 1))])

    def _unique_items(self, node: int, schema: dict[str, Any], type_: str) -> int:
        if not schema["uniqueItems"] or self.ignore_unique_items:
            return TRUE
        return self.formulas.atom(Unique(self.document.pointer(node)))

    # ── unevaluated*: what the subschemas in place have not looked at ────────────────────────────────────────────────

    def _in_place(self, node: int, type_: str) -> Iterable[tuple[int, int]]:
        """(condition, node) of each subschema applied to the same value; it has a say where the condition holds."""
        formulas, document, keyword = self.formulas, self.document, self.document.keyword
        if keyword(node, "$ref") is not None:
            yield TRUE, document.resolve(node, keyword(node, "$ref"))
        if keyword(node, "$dynamicRef") is not None or keyword(node, "$recursiveRef") is not None:
            yield TRUE, document.resolve_dynamic(node)
        for i in range(len(keyword(node, "allOf", ()))):
            yield TRUE, document.child(node, "allOf", i)
        for name in ("anyOf", "oneOf"):
            for i in range(len(keyword(node, name, ()))):
                branch = document.child(node, name, i)
                yield self.expand_node(branch, type_), branch
        if keyword(node, "if") is not None:
            condition = self.expand_node(document.child(node, "if"), type_)
            yield condition, document.child(node, "if")
            if keyword(node, "then") is not None:
                yield condition, document.child(node, "then")
            if keyword(node, "else") is not None:
                yield formulas.negate(condition), document.child(node, "else")
        if type_ == OBJECT:
            for name in keyword(node, "dependentSchemas", ()):
                yield self._present(name), document.child(node, "dependentSchemas", name)
            for name, dependency in keyword(node, "dependencies", {}).items():
                if not isinstance(dependency, list):
                    yield self._present(name), document.child(node, "dependencies", name)

    def _evaluated_keys(self, node: int, condition: int, own: bool) -> Iterable[tuple[int, int]]:
        """(condition, keys): where the condition holds, these keys have been evaluated."""
        keyword = self.document.keyword
        yield condition, self._names(keyword(node, "properties", ()))
        for pattern in keyword(node, "patternProperties", ()):
            yield condition, self.formulas.atom(Pattern(pattern))
        if keyword(node, "additionalProperties") is not None:
            yield condition, TRUE
        if not own and keyword(node, "unevaluatedProperties") is not None:
            yield condition, TRUE
        for inner, applied in self._in_place(node, OBJECT):
            yield from self._evaluated_keys(applied, self.formulas.conj([condition, inner]), own=False)

    def _unevaluated_properties(self, node: int, schema: dict[str, Any], type_: str) -> int:
        formulas = self.formulas
        value = self.schema(self.document.child(node, "unevaluatedProperties"))
        if value == TRUE:
            return TRUE
        by_condition: dict[int, int] = {}
        for condition, keys in self._evaluated_keys(node, TRUE, own=True):
            by_condition[condition] = formulas.disj([by_condition.get(condition, FALSE), keys])
        always = by_condition.pop(TRUE, FALSE)
        by_condition.pop(FALSE, None)
        conditional = list(by_condition.items())
        # Each cell of the keys by which conditions cover them; few exist, since names are cells of their own.
        cells: dict[frozenset[int], int] = {frozenset(): formulas.negate(always)}
        for condition, keys in conditional:
            refined: dict[frozenset[int], int] = {}
            for covered, cell in cells.items():
                for more, part in ((covered | {condition}, keys), (covered, formulas.negate(keys))):
                    cut = self.simplify_keys(formulas.conj([cell, part]))
                    if cut != FALSE:
                        refined[more] = formulas.disj([refined.get(more, FALSE), cut])
            cells = refined
            if len(cells) > 4096:
                raise LimitExceeded(
                    "key classes of unevaluatedProperties", 4096, len(cells), "simplify the alternatives"
                )
        return formulas.conj(formulas.disj([*covered, self._all(cell, value)]) for covered, cell in cells.items())

    def simplify_keys(self, keys: int) -> int:
        """Conjunctions of key sets with their enumerations multiplied out: FALSE if no key is left."""
        formulas = self.formulas
        included: frozenset[str] | None = None
        excluded: set[str] = set()
        rest = []
        for part in formulas.conjuncts(keys):
            literal = formulas.literal(part)
            payload = formulas.payload(literal[0]) if literal else None
            if literal and isinstance(payload, StrEnum):
                if literal[1]:
                    included = payload.values if included is None else included & payload.values
                else:
                    excluded |= payload.values
            else:
                rest.append(part)
        if included is not None:
            return formulas.conj([self._names(included - excluded), *rest])
        return formulas.conj([formulas.negate(self._names(excluded)), *rest])

    def _evaluated_items(self, node: int, condition: int, own: bool) -> Iterable[tuple[int, int | None, int]]:
        """(condition, n, value): the first n items (None: all), or each item that satisfies value, are evaluated."""
        keyword = self.document.keyword
        prefix, items = keyword(node, "prefixItems"), keyword(node, "items")
        if prefix is not None:
            yield condition, len(prefix), FALSE
        if isinstance(items, list):
            yield condition, len(items), FALSE
        everything = (
            (items is not None) if not isinstance(items, list) else keyword(node, "additionalItems") is not None
        )
        if everything or (not own and keyword(node, "unevaluatedItems") is not None):
            yield condition, None, FALSE
        if keyword(node, "contains") is not None and self.document.draft(node) >= 2020:
            yield condition, 0, self.schema(self.document.child(node, "contains"))
        for inner, applied in self._in_place(node, ARRAY):
            yield from self._evaluated_items(applied, self.formulas.conj([condition, inner]), own=False)

    def _unevaluated_items(self, node: int, schema: dict[str, Any], type_: str) -> int:
        formulas = self.formulas
        value = self.schema(self.document.child(node, "unevaluatedItems"))
        if value == TRUE:
            return TRUE
        found = [e for e in self._evaluated_items(node, TRUE, own=True) if e[0] != FALSE]
        conditions = sorted({condition for condition, _, _ in found} - {TRUE})
        if len(conditions) > MAX_CONDITIONAL_CONTAINS:
            raise LimitExceeded(
                "alternatives seen by unevaluatedItems",
                MAX_CONDITIONAL_CONTAINS,
                len(conditions),
                "simplify the alternatives",
            )
        cases = []
        for truth in itertools.product((True, False), repeat=len(conditions)):
            holds = {TRUE, *(c for c, t in zip(conditions, truth, strict=True) if t)}
            guard = formulas.conj(c if t else formulas.negate(c) for c, t in zip(conditions, truth, strict=True))
            seen = [(n, v) for c, n, v in found if c in holds]
            if any(n is None for n, _ in seen):
                cases.append(guard)
                continue
            start = max((n for n, _ in seen if n is not None), default=0)
            cases.append(formulas.conj([guard, self._el(start, None, formulas.disj([value, *(v for _, v in seen)]))]))
        return formulas.disj(cases)


_Rule = Callable[[Keywords, int, dict[str, Any], str], int]
_K = Keywords
_TABLE: tuple[
    tuple[str, _Rule, tuple[str, ...], int, int], ...
] = (  # keyword, its formula, the types it speaks of, first and last draft
    ("$ref", _K._reference, TYPES, 4, 2020),
    ("$dynamicRef", _K._dynamic_reference, TYPES, 2020, 2020),
    ("$recursiveRef", _K._dynamic_reference, TYPES, 2019, 2019),
    ("type", _K._type, TYPES, 4, 2020),
    ("enum", _K._enum, TYPES, 4, 2020),
    ("const", _K._const_keyword, TYPES, 6, 2020),
    ("allOf", _K._all_of, TYPES, 4, 2020),
    ("anyOf", _K._any_of, TYPES, 4, 2020),
    ("oneOf", _K._one_of, TYPES, 4, 2020),
    ("not", _K._not, TYPES, 4, 2020),
    ("if", _K._if, TYPES, 7, 2020),
    ("minLength", _K._min_length, (STRING,), 4, 2020),
    ("maxLength", _K._max_length, (STRING,), 4, 2020),
    ("pattern", _K._pattern, (STRING,), 4, 2020),
    ("format", _K._format, (STRING,), 4, 2020),
    ("minimum", _K._minimum, (NUMBER,), 4, 2020),
    ("maximum", _K._maximum, (NUMBER,), 4, 2020),
    ("exclusiveMinimum", _K._exclusive_minimum, (NUMBER,), 6, 2020),
    ("exclusiveMaximum", _K._exclusive_maximum, (NUMBER,), 6, 2020),
    ("multipleOf", _K._multiple_of, (NUMBER,), 4, 2020),
    ("properties", _K._properties, (OBJECT,), 4, 2020),
    ("patternProperties", _K._pattern_properties, (OBJECT,), 4, 2020),
    ("additionalProperties", _K._additional_properties, (OBJECT,), 4, 2020),
    ("propertyNames", _K._property_names, (OBJECT,), 6, 2020),
    ("required", _K._required, (OBJECT,), 4, 2020),
    ("minProperties", _K._min_properties, (OBJECT,), 4, 2020),
    ("maxProperties", _K._max_properties, (OBJECT,), 4, 2020),
    ("dependentRequired", _K._dependent_required, (OBJECT,), 2019, 2020),
    ("dependentSchemas", _K._dependent_schemas, (OBJECT,), 2019, 2020),
    ("dependencies", _K._dependencies, (OBJECT,), 4, 2020),
    ("unevaluatedProperties", _K._unevaluated_properties, (OBJECT,), 2019, 2020),
    ("prefixItems", _K._prefix_items, (ARRAY,), 2020, 2020),
    ("items", _K._items, (ARRAY,), 4, 2020),
    ("additionalItems", _K._additional_items, (ARRAY,), 4, 2019),
    ("minItems", _K._min_items_keyword, (ARRAY,), 4, 2020),
    ("maxItems", _K._max_items, (ARRAY,), 4, 2020),
    ("contains", _K._contains, (ARRAY,), 6, 2020),
    ("uniqueItems", _K._unique_items, (ARRAY,), 4, 2020),
    ("unevaluatedItems", _K._unevaluated_items, (ARRAY,), 2019, 2020),
)
_RULES: dict[tuple[int, str], dict[str, _Rule]] = {
    (draft, type_): {
        name: rule for name, rule, types, first, last in _TABLE if first <= draft <= last and type_ in types
    }
    for draft in DRAFTS
    for type_ in TYPES
}
