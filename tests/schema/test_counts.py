"""How many values there are, against counting them: items that have to differ need as many."""

from __future__ import annotations

import random
from typing import Any

import pytest
from dense_schemas import ARRAYS, KEYS, OBJECTS, array_schema, mixed, object_schema
from schema_strategies import validator

from fsmc.compiler.errors import EmptyLanguageError, UnsupportedSchemaError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

CLOSED_OBJECT = {
    "type": "object",
    "properties": {key: {"enum": [None, 1, 2]} for key in KEYS},
    "additionalProperties": False,
}
SHORT_ARRAY = {"type": "array", "items": {"enum": [None, 1, 2]}, "maxItems": 4}


def machine(schema: Any) -> SchemaMachine:
    return SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="compact"))


def at_least(schema: Any, count: int) -> bool:
    """Whether the schema has so many values."""
    try:
        built = machine(schema)
    except EmptyLanguageError:
        return count == 0
    return built.emptiness.count_at_least(built.keywords.schema(0), count)


@pytest.mark.parametrize("seed", range(60))
def test_objects_and_arrays_are_counted(seed: int) -> None:
    rng = random.Random(seed)
    for closed, leaf, values in ((CLOSED_OBJECT, object_schema, OBJECTS), (SHORT_ARRAY, array_schema, ARRAYS)):
        schema = {**closed, "allOf": [mixed(rng, rng.choice([0, 1, 1, 2]), leaf)]}
        number = sum(map(validator(schema, 2020), values))
        assert at_least(schema, number) and not at_least(schema, number + 1), (schema, number)


COUNTED: list[tuple[Any, int]] = [
    ({"enum": [[1], [2], {"a": 1}, "x"]}, 4),
    ({"type": "number", "minimum": 1, "maximum": 1}, 1),
    ({"type": "number", "exclusiveMinimum": 1, "maximum": 3, "multipleOf": 0.5}, 4),
    ({"type": "integer", "minimum": 1, "maximum": 9, "not": {"multipleOf": 3}}, 6),
    ({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 3}, {"enum": [2, 7, 1.5]}]}, 5),
    ({"type": "string", "pattern": "^a*$", "maxLength": 100, "minLength": 99}, 2),
    ({"type": "string", "pattern": "^[ab]*$", "maxLength": 2}, 7),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, 7),
    ({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}, 5),
    ({"type": "object", "propertyNames": {"pattern": "^[xy]$"}, "additionalProperties": {"type": "boolean"}}, 9),
    ({"type": ["boolean", "null"]}, 3),
]
MANY: list[Any] = [
    {"type": "number", "minimum": 1, "maximum": 1.5},
    {"type": "integer", "not": {"multipleOf": 2}},
    {"type": "array", "items": {"const": 1}},
    {"type": "object", "additionalProperties": {"const": 1}},
    {
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"anyOf": [{"const": 0}, {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}]}},
    },
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2, "maxItems": 2},
]


@pytest.mark.parametrize(("schema", "number"), COUNTED, ids=str)
def test_as_many_items_can_differ(schema: Any, number: int) -> None:
    distinct = {"type": "array", "items": schema, "uniqueItems": True}
    assert at_least(schema, number) and not at_least(schema, number + 1)
    if "uniqueItems" in schema:  # counted, but which of them were written is not found out
        with pytest.raises(UnsupportedSchemaError, match="have few values"):
            machine({**distinct, "minItems": number})
        return
    machine({**distinct, "minItems": number})
    with pytest.raises(EmptyLanguageError):
        machine({**distinct, "minItems": number + 1})


@pytest.mark.parametrize("schema", MANY, ids=str)
def test_endlessly_many(schema: Any) -> None:
    assert at_least(schema, 500)


def test_what_cannot_be_counted_is_refused() -> None:
    pairs = {"type": "array", "items": {"enum": [[1], [2]]}, "uniqueItems": True}
    with pytest.raises(UnsupportedSchemaError):
        machine({"type": "array", "items": pairs, "uniqueItems": True, "minItems": 4})
