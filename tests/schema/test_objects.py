"""Objects whose conditions interact: every small object, in schema order and in any, against jsonschema."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from dense_schemas import OBJECTS, mixed, object_schema
from schema_strategies import accepts_in_some_order, sample, shuffled, validator

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import Configuration, Like
from fsmc.compiler.errors import EmptyLanguageError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions


def machine(schema: Any, order: str) -> LazyRSM | None:
    """The machine, None if nothing is allowed."""
    try:
        return SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="json", property_order=order)).rsm
    except EmptyLanguageError:
        return None


def accepted(rsm: LazyRSM | None, order: str, value: Any) -> bool:
    if rsm is None:
        return False
    return rsm.matches(json.dumps(value).encode()) if order == "any" else accepts_in_some_order(rsm, value)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("block", range(4))
def test_small_objects(block: int, order: str) -> None:
    for seed in range(20 * block, 20 * (block + 1)):
        rng = random.Random(seed)
        schema = {**mixed(rng, rng.choice([0, 1, 2, 2, 3]), object_schema), "type": "object"}
        rsm, valid = machine(schema, order), validator(schema, 2020)
        for value in rng.sample(OBJECTS, 30):
            assert accepted(rsm, order, shuffled(rng, value)) == valid(value), (schema, value)
        if rsm is not None and (text := sample(rsm, rng, longest=20)) is not None:
            assert valid(json.loads(text)), (schema, text)


CASES: list[tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = [
    (  # a finite class of undeclared keys, to be used up without repetition
        {"propertyNames": {"pattern": "^[xyz]$"}, "minProperties": 3},
        [{"x": 1, "y": 1, "z": 1}, {"z": 1, "x": 1, "y": 1}],
        [{"x": 1, "y": 1}, {"x": 1, "y": 1, "w": 1}],
    ),
    (  # some member must not be an integer, but which is not said
        {"not": {"additionalProperties": {"type": "integer"}}},
        [{"x": "s"}, {"x": 1, "y": None}],
        [{}, {"x": 1}],
    ),
    (  # a declared name that a pattern speaks of too
        {"properties": {"ab": {"minimum": 1}}, "patternProperties": {"^a": {"maximum": 2}, "b$": {"type": "integer"}}},
        [{"ab": 1}, {"a": 1.5}, {"xb": 7}],
        [{"ab": 0}, {"ab": 3}, {"ab": 1.5}, {"a": 3}, {"xb": 0.5}],
    ),
    (
        {"dependentSchemas": {"card": {"required": ["address"], "properties": {"address": {"type": "string"}}}}},
        [{}, {"address": 1}, {"card": 1, "address": "x"}],
        [{"card": 1}, {"card": 1, "address": 1}],
    ),
]


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: json.dumps(case[0]))
def test_cases(case: tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]], order: str) -> None:
    schema, good, bad = case
    rsm = machine({"type": "object", **schema}, order)
    assert all(accepted(rsm, order, value) for value in good)
    assert not any(accepted(rsm, order, value) for value in bad)


@pytest.mark.parametrize("order", ["schema", "any"])
def test_a_key_that_counts_never_comes_twice(order: str) -> None:
    rsm = machine({"type": "object", "minProperties": 2}, order)
    assert rsm is not None
    assert not rsm.matches(b'{"x": 1, "x": 1}') and rsm.matches(b'{"x": 1, "xx": 1}')
    assert not rsm.matches('{"é": 1, "é": 2, "y": 1}'.encode())


def test_an_object_without_an_end_is_empty() -> None:
    for schema in (
        {
            "$ref": "#/$defs/list",
            "$defs": {
                "list": {"type": "object", "properties": {"tail": {"$ref": "#/$defs/list"}}, "required": ["tail"]}
            },
        },
        {"type": "object", "propertyNames": {"enum": ["x", "y"]}, "minProperties": 3},
        {"type": "object", "required": ["x"], "additionalProperties": False},
        {"type": "object", "required": ["x"], "not": {"required": ["x"]}},
        {"type": "object", "minProperties": 2, "maxProperties": 1},
    ):
        assert machine(schema, "any") is None


@pytest.mark.parametrize("order", ["schema", "any"])
def test_names_that_are_escaped(order: str) -> None:
    names = ['q"', "q", "\\", "q\n", "é", "ê", "q\x01"]
    schema = {"type": "object", "properties": {name: {"type": "null"} for name in names}, "required": names}
    for closed in (False, True):
        rsm = machine({**schema, "additionalProperties": not closed}, order)
        assert rsm is not None
        assert rsm.matches(json.dumps(dict.fromkeys(names), ensure_ascii=False).encode())
        assert not rsm.matches(b'{"q\\"": null}') and not rsm.matches(b'{"q\\"": 1')


def test_a_class_is_asked_for_when_a_key_of_it_may_come() -> None:
    names = [f"name{i}" for i in range(50)]
    members = {name: {"type": "array", "items": {"minimum": i}} for i, name in enumerate(names)}
    schema = {"type": "object", "properties": members, "required": names[:2]}
    built = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="json"))
    root = built.keywords.schema(built.keywords.document.root)
    shape = built.shapes.object(built.keywords.expand(root, "object"), (), tuple(names), False)
    assert shape.allowed(shape.residual, 0) == shape.judged == 0b1
    assert shape.allowed(shape.residual, 1) == 0b10
    assert shape.judged == 0b11
    assert shape.allowed(shape.residual, 2).bit_count() == 49
    assert shape.judged == shape.known_live == (1 << 51) - 1


def test_keys_of_objects_that_declare_none_share_their_states() -> None:
    built = SchemaMachine(SchemaDocument({"additionalProperties": {"type": "object"}}), TextOptions(whitespace="json"))
    assert built.rsm.matches(b'{"a": {"b": 1}, "c": {}}')
    assert not any(isinstance(built.rsm.state_key(q), Like) for q in range(1, built.rsm.n_states))


@pytest.mark.parametrize("order", ["schema", "any"])
def test_undeclared_keys_of_which_there_are_few_do_not_use_up_the_last_way(order: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {}, "d": {}},
        "patternProperties": {"^[f-g]$": {}},
        "additionalProperties": False,
        "minProperties": 3,
    }
    machine = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="compact", property_order=order)).rsm
    alive = {
        text: bool(machine.run(text, Configuration(machine.start))) for text in (b'{"f"', b'{"d":1,"f"', b'{"a":1,"f"')
    }
    in_order = order == "schema"
    assert alive == {b'{"f"': not in_order, b'{"d":1,"f"': True, b'{"a":1,"f"': True}
    assert machine.matches(b'{"a":1,"f":2,"g":3}') and not machine.matches(b'{"a":1,"f":2}')
