"""No dead ends: random generations under real schemas with a real vocabulary end in valid instances."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from schema_walks import Policy, hints_in, judge, schemas, walk

import fsmc

SHARED = Path(__file__).resolve().parents[3] / "shared"
TOKENIZER = SHARED / "tokenizers" / "llama3" / "tokenizer.json"
MASKBENCH = SHARED / "data" / "maskbench_dev.jsonl.gz"

WORDS = [
    b'{"',
    b'":',
    b'": ',
    b'", "',
    b'"}',
    b"}}",
    b"]}",
    b"true",
    b"false",
    b"null",
    b"name",
    b"12",
    b", ",
    b"[{",
    b'":"',
]
SCHEMAS = {
    "recursive": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                },
                "required": ["name", "next"],
                "additionalProperties": False,
            }
        },
    },
    "exactly one": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}, "d": {"const": 12}},
        "additionalProperties": False,
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "minProperties": 2,
    },
    "distinct": {"type": "array", "items": {"enum": ["a", "b", 12, None]}, "uniqueItems": True, "minItems": 3},
    "counted": {"type": "array", "contains": {"const": True}, "minContains": 2, "maxContains": 2, "maxItems": 4},
    "keys": {"type": "object", "propertyNames": {"pattern": "^[a-c]$"}, "minProperties": 3},
    "strings": {
        "type": "array",
        "items": {"type": "string", "pattern": "^(na|me)+$", "minLength": 5, "maxLength": 8},
        "minItems": 1,
    },
    "numbers": {"type": "number", "minimum": -1.5, "exclusiveMaximum": 12, "multipleOf": 0.25},
    "condition": {
        "type": "object",
        "properties": {"kind": {"enum": ["x", "y"]}, "size": {"type": "integer"}},
        "additionalProperties": False,
        "if": {"properties": {"kind": {"const": "x"}}},
        "then": {"required": ["kind", "size"]},
        "else": {"required": ["kind"], "maxProperties": 1},
    },
}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_walks_over_bytes_and_words_end_in_valid_instances(name: str, order: str) -> None:
    """The vocabulary: all bytes, words that run across the borders of strings, keys and values."""
    tokens = [bytes([b]) for b in range(256)] + WORDS
    vocabulary = fsmc.Vocabulary.from_tokens([*tokens, b""], eos_token_ids=[len(tokens)])
    compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json", property_order=order)
    grammar = compiler.compile_json_schema(SCHEMAS[name])
    valid, policy, hints = judge(SCHEMAS[name]), Policy(vocabulary), hints_in(SCHEMAS[name])
    rng = random.Random(name)
    for longest in (5, 20, 60) * 4:
        text = walk(grammar, policy, rng, hints=hints, longest=longest)
        assert text is not None and valid(text), text


@pytest.mark.skipif(
    not (TOKENIZER.exists() and MASKBENCH.exists()), reason="the shared tokenizer and schemas are not here"
)
def test_walks_over_a_real_vocabulary_end_in_valid_instances() -> None:
    vocabulary = fsmc.Vocabulary.from_file(TOKENIZER)
    compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json")
    policy, ended = Policy(vocabulary), 0
    for name, schema in schemas(str(MASKBENCH), 15):
        rng = random.Random(name)
        grammar = compiler.compile_json_schema(schema)
        valid = judge(schema)
        for longest in (5, 40):
            text = walk(grammar, policy, rng, hints=hints_in(schema), longest=longest)
            ended += text is not None
            assert text is None or valid(text), (name, text)
    assert ended >= 28
