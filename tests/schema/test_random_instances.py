"""Random instances: every one valid by jsonschema and in the layout, whatever the schema; and all of them ended."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import jsonschema
import pytest

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.sampling import InstanceSampler
from fsmc.compiler.schema.text_options import TextOptions

LEAF = {"type": "object", "properties": {"leaf": {"const": 1}}, "required": ["leaf"], "additionalProperties": False}
SCHEMAS: dict[str, Any] = {
    "anything": True,
    "record": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 2},
            "price": {"type": "number", "multipleOf": 0.05},
        },
        "required": ["name", "tags"],
        "additionalProperties": False,
    },
    # Each tree has two more: a walk that only tosses coins need not end, nor one that opens whatever comes first.
    "tree": {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {name: {"anyOf": [{"$ref": "#/$defs/tree"}, LEAF]} for name in ("left", "mid", "right")},
                "required": ["left", "mid", "right"],
                "additionalProperties": False,
            }
        },
    },
    "contains": {"type": "array", "contains": {"const": "xyzzy"}, "minContains": 2, "items": {"type": "string"}},
    "long string": {"type": "string", "minLength": 1500, "pattern": "^[a-c]*$"},
    "long array": {"type": "array", "minItems": 200, "items": {"type": "integer", "multipleOf": 7}},
    "many members": {"type": "object", "minProperties": 9, "additionalProperties": {"type": "boolean"}},
    "short names": {
        "type": "object",
        "propertyNames": {"pattern": "^[ab]{2}$"},
        "minProperties": 4,
        "additionalProperties": {"type": "null"},
    },
    "exactly one": {"oneOf": [{"type": "integer", "multipleOf": 6}, {"type": "integer", "multipleOf": 4}]},
    "all required": {
        "type": "object",
        "properties": {f"k{i}": {"type": "boolean"} for i in range(14)},
        "required": [f"k{i}" for i in range(14)],
    },
    "distinct": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 5},
    "distinct inside": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2},
        "minItems": 2,
        "maxItems": 2,
    },
    "dependent": {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}},
        "dependentRequired": {"a": ["c"]},
        "if": {"required": ["b"]},
        "then": {"minProperties": 3},
        "unevaluatedProperties": False,
    },
    "not": {"type": ["string", "array"], "not": {"anyOf": [{"maxLength": 3, "type": "string"}, {"maxItems": 1}]}},
}
LAYOUTS = {
    "json": TextOptions(whitespace="json"),
    "any order": TextOptions(property_order="any"),
    "indent": TextOptions(indent=2),
}


def read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_samples_are_valid(name: str, layout: str) -> None:
    recipe = SchemaRecipe(SCHEMAS[name], LAYOUTS[layout])
    machine = recipe.build()
    sampler = InstanceSampler(machine, seed=7, max_length=120, max_depth=3)
    validator = jsonschema.Draft202012Validator(read(json.dumps(SCHEMAS[name])))
    for _ in range(6):
        text = sampler.sample()
        validator.validate(read(text))
        assert machine.rsm.matches(text.encode()), "canonical, and laid out as asked"


def test_the_same_seed_gives_the_same_instances() -> None:
    def texts(seed: int) -> list[str]:
        sampler = InstanceSampler(SchemaRecipe(SCHEMAS["record"]).build(), seed)
        return [sampler.sample() for _ in range(20)]

    assert texts(1) == texts(1) != texts(2)
    assert len(set(texts(1))) > 10


def test_samples_vary() -> None:
    """Every alternative, every declared name, and some of the names nobody declared come up."""
    sampler = InstanceSampler(SchemaRecipe({"properties": {"a": True, "b": True}}).build(), seed=0, max_length=60)
    values = [read(sampler.sample()) for _ in range(200)]
    assert {type(value).__name__ for value in values} >= {"dict", "list", "str", "int", "bool", "NoneType"}
    names = {name for value in values if isinstance(value, dict) for name in value}
    assert {"a", "b"} < names


def test_bounds_on_length_and_depth_hold_where_the_schema_leaves_a_choice() -> None:
    sampler = InstanceSampler(SchemaRecipe(True).build(), seed=3, max_length=100, max_depth=2)

    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    texts = [sampler.sample() for _ in range(200)]
    assert max(map(len, texts)) < 120
    assert max(depth(read(text)) for text in texts) == 2


def test_the_search_for_an_end_is_bounded() -> None:
    sampler = InstanceSampler(SchemaRecipe(SCHEMAS["long array"]).build(), seed=0, max_length=10, max_steps=50)
    with pytest.raises(LimitExceeded, match="max_steps=50"):
        sampler.sample()


def test_integers_are_not_minus_zero() -> None:
    sampler = InstanceSampler(SchemaRecipe({"type": "array", "items": {"type": "integer"}}).build(), seed=0)
    texts = [sampler.sample() for _ in range(100)]
    negative = [item for text in texts for item in text[1:-1].split(",") if item.startswith("-")]
    assert len(negative) > 10 and negative.count("-0") <= len(negative) // 50  # evenly, it would be one in ten
