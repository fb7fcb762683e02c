"""uniqueItems: what was written is excluded, an array never gets where it cannot end, and what is unclear is refused."""

from __future__ import annotations

import itertools
import json
import random
from decimal import Decimal
from typing import Any

import pytest
from schema_strategies import sample, validator

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.errors import EmptyLanguageError, UnsupportedSchemaError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

VALUES = [None, True, 1, 2, "a", "b", [], [1], {"a": 1}]

CLEAR: list[dict[str, Any]] = [
    {},
    {"items": {"type": "string"}},
    {"items": {"type": ["null", "boolean"]}},
    {"items": {"enum": ["a", "b", 1]}, "minItems": 3},
    {"items": {"enum": ["a", "b", 1]}, "contains": {"const": "a"}},
    {"items": {"type": "integer", "minimum": 1, "maximum": 2}},
    {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
    {"contains": {"type": "string"}, "minContains": 2},
    {"contains": {"type": "integer"}, "maxContains": 1},
    {"maxItems": 2, "contains": {"const": None}},
]
EMPTY: list[dict[str, Any]] = [
    {"items": {"enum": ["a", "b"]}, "minItems": 3},
    {"items": {"type": ["null", "boolean"]}, "minItems": 4},
    {"contains": {"type": "null"}, "minContains": 2},
    {"contains": {"const": 1}, "minContains": 2, "items": {"type": "integer"}},
    {"items": {"type": "string", "pattern": "^a*$", "maxLength": 3}, "minItems": 5},
    {"items": {"type": "integer", "minimum": 10**30, "maximum": 10**30 + 1}, "minItems": 3},
]
REFUSED: list[dict[str, Any]] = [
    {"prefixItems": [{"type": "boolean"}, {"type": "boolean"}], "items": {"type": "integer"}, "minItems": 3},
    {"contains": {"enum": [1, 2]}, "minContains": 2, "prefixItems": [{"const": 1}, {"const": 1}]},
]
NEGATED: list[dict[str, Any]] = [
    {},
    {"items": {"type": "integer"}},
    {"items": {"enum": [1, 2]}, "maxItems": 2},
    {"contains": {"const": 1}},
]


def machine(schema: dict[str, Any]) -> LazyRSM:
    return SchemaMachine(SchemaDocument({"type": "array", **schema}), TextOptions(whitespace="json")).rsm


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("rest", [*CLEAR, *NEGATED], ids=json.dumps)
def test_every_short_array(rest: dict[str, Any], unique: bool) -> None:
    if not unique and rest not in NEGATED:
        pytest.skip("refused or not about negation")
    schema = {**rest, "uniqueItems": True} if unique else {**rest, "not": {"uniqueItems": True}}
    rsm, valid = machine(schema), validator({"type": "array", **schema}, 2020)
    for n in range(4):
        for items in itertools.product(VALUES, repeat=n):
            assert rsm.matches(json.dumps(items).encode()) == valid(list(items)), (schema, items)


@pytest.mark.parametrize("rest", CLEAR, ids=json.dumps)
def test_no_array_gets_where_it_cannot_end(rest: dict[str, Any]) -> None:
    rsm, valid = machine({**rest, "uniqueItems": True}), validator({**rest, "uniqueItems": True}, 2020)
    texts = [sample(rsm, random.Random(seed), longest=25) for seed in range(6)]
    assert sum(text is not None for text in texts) >= 3
    for text in texts:
        assert text is None or valid(json.loads(text, parse_float=Decimal)), text


@pytest.mark.parametrize("rest", EMPTY, ids=json.dumps)
def test_too_few_values(rest: dict[str, Any]) -> None:
    with pytest.raises(EmptyLanguageError):
        machine({**rest, "uniqueItems": True})


@pytest.mark.parametrize("rest", REFUSED, ids=json.dumps)
def test_what_is_unclear_is_refused(rest: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSchemaError, match="uniqueItems"):
        machine({**rest, "uniqueItems": True})


@pytest.mark.parametrize(
    ("inner", "refused"),
    [
        ({"items": {"type": "boolean"}}, True),
        ({"items": {"enum": [1, 2, 3, 4, 5]}, "minItems": 1}, True),
        ({"items": {"enum": [1, 2, 3, 4, 5]}, "maxItems": 3}, False),
        ({"items": {"type": "boolean"}, "maxItems": 0}, False),
        ({"items": {"type": "string"}}, False),
        ({}, False),
    ],
    ids=json.dumps,
)
def test_distinct_arrays_of_few_distinct_items_are_refused_at_once(inner: dict[str, Any], refused: bool) -> None:
    """Not when a text gets there, also where it need not."""
    items = {"items": {"type": "array", "uniqueItems": True, **inner}, "uniqueItems": True}
    schema = {"prefixItems": [{"type": "array", **items}]}
    if refused:
        with pytest.raises(UnsupportedSchemaError, match="#/prefixItems/0/items: uniqueItems"):
            machine(schema)
    else:
        assert machine(schema).matches(b"[[[]]]") == ("minItems" not in inner)


def test_not_unique_is_refused_where_items_are_of_different_kinds() -> None:
    with pytest.raises(UnsupportedSchemaError, match="uniqueItems"):
        machine({"prefixItems": [{"const": 1}, {"const": 2}], "items": False, "not": {"uniqueItems": True}})


def test_huge_exponents_are_not_written_out() -> None:
    """An item 1e999999999 would have to be compared in plain notation."""
    rsm = machine({"uniqueItems": True})
    assert rsm.matches(b"[1e3, 1]")
    assert not rsm.matches(b"[1e3, 1000]")
    assert not rsm.matches(b"[1e999999999]")
