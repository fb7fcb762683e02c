"""What is answered, or there, without building anything: and is what building it would have given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fsmc.compiler.schema.atoms import ARRAY, OBJECT
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine, _any_value
from fsmc.compiler.schema.shapes import Shapes
from fsmc.compiler.schema.string_machines import pattern_dfa, pattern_expr
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.syntax.expr import surely_matches

SCHEMAS: list[dict[str, Any]] = [
    {},
    {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
    {"properties": {"a": False}, "required": ["a"]},
    {"properties": {"a": {"type": "string", "enum": [1]}}, "required": ["a"]},
    {"properties": {"a": {}}, "additionalProperties": False, "required": ["b"]},
    {"properties": {"a": {}}, "additionalProperties": {"type": "null"}, "required": ["a", "b"]},
    {"allOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"a": {"type": "string"}}}], "required": ["a"]},
    {"required": ["a"], "not": {"required": ["a"]}},
    {"required": ["a"], "maxProperties": 0},
    {"patternProperties": {"^a": False}, "required": ["ab"]},
    {"minItems": 2, "maxItems": 1},
    {"items": False},
    {"items": False, "minItems": 1},
    {"contains": {"type": "null"}, "maxContains": 0, "minContains": 0},
    {"minItems": 2, "uniqueItems": True, "items": {"type": "null"}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_obvious_answers_are_the_shapes(schema: dict[str, Any]) -> None:
    machine = SchemaMachine(SchemaDocument({"anyOf": [{"type": "null"}, schema]}), TextOptions())
    node = machine.keywords.document.child(machine.keywords.document.root, "anyOf", 1)
    for type_, ask in ((OBJECT, machine.shapes._some_object), (ARRAY, machine.shapes._some_array)):
        formula = machine.keywords.expand_node(node, type_)
        assert machine.emptiness.typed(formula, type_) == ask(formula)


def test_objects_of_mere_names_need_no_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise AssertionError("a shape was asked for")

    monkeypatch.setattr(Shapes, "_some_object", refuse)
    monkeypatch.setattr(Shapes, "_some_array", refuse)
    inner = {"type": "object", "properties": {"b": {"enum": [1]}}, "required": ["b"]}
    schema = {"properties": {"a": inner, "c": {"type": "array"}}, "required": ["a", "c"]}
    assert SchemaMachine(SchemaDocument(schema), TextOptions()).rsm.matches(b'{"a": {"b": 1}, "c": []}')


PATTERNS = [
    "",
    "a",
    "^a$",
    "^(a|b)*$",
    "a{2}^",
    "$a",
    "^[^\\s\\S]$",
    "(^a|b$)",
    "x*^y",
    "a$b*",
    "(?=a)b",
    "\\ba",
    "[]",
    "^^$$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_surely_matches_has_a_text(pattern: str) -> None:
    assert not surely_matches(pattern_expr(pattern)) or not pattern_dfa(pattern).is_empty


def test_usual_patterns_surely_match() -> None:
    for pattern in ("^[a-z]+$", "[0-9]", "^(a|b){2,3}$", "a|^b", "^$"):
        assert surely_matches(pattern_expr(pattern)), pattern


def test_members_of_a_mere_type_are_one_formula() -> None:
    names = [f"name{i}" for i in range(300)]
    schema = {"properties": {name: {"type": "string", "description": name} for name in names}, "required": names}
    machine = SchemaMachine(SchemaDocument(schema), TextOptions())
    assert machine.keywords.document.n_subschemas == 301
    assert len(machine.keywords.document._values) < 5
    assert machine.rsm.matches(json.dumps(dict.fromkeys(names, "x")).encode())


def test_machines_begin_alike_and_grow_apart() -> None:
    common = _any_value(TextOptions()).rsm
    states, frames = common.n_states, common.n_frames
    for value, other in (("string", b"1"), ("number", b'"a"')):
        rsm = SchemaMachine(SchemaDocument({"type": value}), TextOptions()).rsm
        assert rsm.matches(b'"a"' if value == "string" else b"1") and not rsm.matches(other)
        assert rsm.n_states < states + 10
    assert (common.n_states, common.n_frames) == (states, frames)
