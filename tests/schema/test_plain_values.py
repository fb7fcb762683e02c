"""What plainly has a value has one; and what usual schemas ask is plain."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from fsmc.compiler.errors import FsmcError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formats import KNOWN_FORMATS
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.obvious import Obvious
from fsmc.compiler.schema.text_options import TextOptions
from tests.schema_strategies import SchemaMaker

PLAIN: list[Any] = [
    True,
    {},
    {"type": "integer", "minimum": 3},
    {"type": "integer", "minimum": 3, "maximum": 3},
    {"type": ["string", "null"], "pattern": "^(?!.*)$"},
    {"pattern": "^(?!.*)$", "minimum": 5},
    {"type": "string", "pattern": "^[a-z]+$"},
    {"type": "string", "minLength": 2, "maxLength": 2},
    {"type": "string", "enum": [1, "a"]},
    {"enum": [{"a": 1}]},
    {"const": None},
    {"type": "array", "items": False},
    {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "required": ["a", "b"],
        "$defs": {"a": {"type": "null"}},
    },
    {"properties": {"a": {"anyOf": [False, {"type": "string"}]}}, "required": ["a"], "type": "object"},
    {"type": "object", "additionalProperties": {"type": "string"}, "required": ["x"]},
]
NOT_PLAIN: list[Any] = [
    False,
    {"type": []},
    {"enum": []},
    {"type": "string", "enum": [1]},
    {"type": "integer", "enum": [True]},
    {"type": "integer", "minimum": 3, "maximum": 2},
    {"type": "number", "exclusiveMinimum": 3, "exclusiveMaximum": 3},
    {"type": "integer", "minimum": 0.5, "maximum": 0.6},
    {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "string", "pattern": "a^"},
    {"type": "string", "pattern": "^a$", "minLength": 2},
    {"type": "array", "items": False, "minItems": 1},
    {"type": "array", "items": {"type": "null"}, "minItems": 2, "uniqueItems": True},
    {"type": "array", "minItems": 2, "maxItems": 1},
    {"type": "object", "properties": {"a": False}, "required": ["a"]},
    {"type": "object", "additionalProperties": False, "required": ["a"]},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    {"type": "object", "required": ["a"], "maxProperties": 0},
    {"type": "object", "required": ["ab"], "patternProperties": {"^a": False}},
    {"allOf": [{"type": "string"}, {"type": "null"}]},
    {"anyOf": [False]},
    {"not": {}},
    {"$ref": "#/$defs/a", "type": "string", "$defs": {"a": {"type": "null"}}},
]


@pytest.mark.parametrize("schema", PLAIN, ids=json.dumps)
def test_usual_schemas_plainly_have_a_value(schema: Any) -> None:
    document = SchemaDocument(schema)
    assert Obvious(document).has_value(document.root)


@pytest.mark.parametrize("schema", NOT_PLAIN, ids=json.dumps)
def test_what_has_none_is_not_plain(schema: Any) -> None:
    document = SchemaDocument(schema)
    assert not Obvious(document).has_value(document.root)


def test_every_format_has_a_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Obvious, "has_value", lambda *_: False)
    for name in KNOWN_FORMATS:
        _emptiness_of({"type": "string", "format": name})


@pytest.mark.parametrize("draft", [4, 7, 2020])
def test_what_plainly_has_a_value_has_one(draft: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random schemas, with the quick answer put aside."""
    has_value, n_plain = Obvious.has_value, 0
    monkeypatch.setattr(Obvious, "has_value", lambda *_: False)
    for seed in range(250):
        schema = SchemaMaker(random.Random(seed), draft).root(2)
        try:
            document = SchemaDocument(schema, draft=draft)
        except FsmcError:
            continue
        monkeypatch.setattr(Obvious, "has_value", has_value)
        plain = Obvious(document).has_value(document.root)
        monkeypatch.setattr(Obvious, "has_value", lambda *_: False)
        if plain:
            n_plain += 1
            _emptiness_of(schema, draft)
    assert n_plain > 30


def _emptiness_of(schema: Any, draft: int | None = None) -> Emptiness:
    """Raises EmptyLanguageError if the schema has no value."""
    return SchemaMachine(SchemaDocument(schema, draft=draft), TextOptions()).emptiness
