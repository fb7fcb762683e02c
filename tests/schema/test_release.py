"""A dropped grammar is gone at once: whatever only the cyclic collector frees makes it run for as long as many masks take."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import fsmc
from fsmc.compiler.automata.lazy_rsm import LazyRSM

SCHEMAS: dict[str, Any] = {
    "members": {"properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}}, "required": ["b"]},
    "no others": {"properties": {"a": {"minLength": 2}}, "required": ["a"], "additionalProperties": False},
    "alternatives": {
        "anyOf": [
            {"properties": {"kind": {"const": k}, "a": {"type": "integer"}}, "required": ["kind", "a"]} for k in "xyz"
        ]
    },
    "one of": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "minProperties": 1},
    "key patterns": {"patternProperties": {"^a": {"maximum": 3}, "b$": {"type": "integer"}}, "minProperties": 2},
    "recursion": {"properties": {"a": {"$ref": "#"}, "b": {"items": {"$ref": "#"}}}, "not": {"required": ["a", "b"]}},
    "items": {"items": {"type": "integer"}, "contains": {"minimum": 5}, "minItems": 2, "maxItems": 4},
    "distinct": {"items": {"enum": [1, 2, 3]}, "uniqueItems": True},
    "strings": {"items": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 30}},
    "dependencies": {
        "dependentSchemas": {"a": {"required": ["b"]}},
        "if": {"required": ["c"]},
        "then": {"maxProperties": 2},
    },
    "unevaluated": {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": {"type": "integer"}},
    "counted": {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 2, "prefixItems": [{"minimum": 3}]},
}
VALUES = [
    {"kind": "x", "a": 1},
    {"a": 3, "b": 2},
    {"b": 1, "zz": 5},
    {"a": "xy"},
    [5, 6],
    [3, 1],
    ["ab", "c"],
    {"a": {}},
]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_dropped_grammar_is_gone_at_once(name: str, order: Any, no_collector: None) -> None:
    vocab = fsmc.Vocabulary.from_tokens([*(bytes([b]) for b in range(32, 127)), b'": ', b'{"', b""], eos_token_ids=[97])
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None, property_order=order)
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    grammar = compiler.compile_json_schema(SCHEMAS[name])
    for value in VALUES:
        matcher = fsmc.GrammarMatcher(grammar)
        for token in json.dumps(value).encode():
            matcher.fill_next_token_bitmask(mask)
            if not matcher.accept_token(token - 32):
                break
    machine = grammar.machine
    assert isinstance(machine, LazyRSM)
    builder: Any = machine.builder
    shapes = [builder.shapes, *builder.shapes._objects.values(), *builder.shapes._arrays.values()]
    parts = [grammar, machine, builder, matcher, grammar.masks, builder.table, builder.keywords, builder.emptiness]
    gone = [weakref.ref(part) for part in (*parts, builder.keywords.document, *shapes)]
    del grammar, machine, builder, matcher, parts, shapes
    assert [ref() for ref in gone] == [None] * len(gone)


def test_the_machine_lives_on_without_its_grammar(no_collector: None) -> None:
    vocab = fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
    machine = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_json_schema(SCHEMAS["recursion"]).machine
    assert machine.matches(b'{"a": {"b": [{}, {}]}}') and not machine.matches(b'{"a": {"a": 1, "b": 2}}')
