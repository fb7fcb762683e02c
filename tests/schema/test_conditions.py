"""Alternatives told apart by tags, implications, and choices: every text over a few keys and values, prefix by prefix."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from schema_strategies import Walk, validator

from fsmc.compiler.errors import EmptyLanguageError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

KEYS = ("a", "b", "k")
VALUES = (None, 1, 2, "x")
OBJECTS = [
    dict(items)
    for n in range(len(KEYS) + 1)
    for keys in itertools.permutations(KEYS, n)
    for items in itertools.product(*([(key, value) for value in VALUES] for key in keys))
]


def text_of(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


TEXTS = [text_of(value) for value in OBJECTS]
PREFIXES = sorted({text[:n] for text in TEXTS for n in range(1, len(text) + 1)}, key=len)


def value_schema(rng: random.Random) -> Any:
    choices: list[Any] = [{"const": v} for v in VALUES] + [{"enum": rng.sample(VALUES, 2)} for _ in range(3)]
    return rng.choice([*choices, {"type": "integer"}, {"minimum": 2}, {"not": {"const": 1}}, False, True])


def leaf(rng: random.Random) -> dict[str, Any]:
    keywords: dict[str, Any] = {
        "properties": {key: value_schema(rng) for key in rng.sample(KEYS, rng.choice([1, 2]))},
        "required": rng.sample(KEYS, rng.choice([1, 1, 2])),
        "dependentRequired": {key: rng.sample(KEYS, 1) for key in rng.sample(KEYS, 2)},
        "additionalProperties": rng.choice([False, value_schema(rng)]),
        "minProperties": rng.choice([1, 2]),
        "maxProperties": rng.choice([1, 2]),
    }
    wanted = rng.sample(["properties", "properties", "required", *keywords], rng.choice([1, 2, 2, 3]))
    return {keyword: keywords[keyword] for keyword in dict.fromkeys(wanted)}


def tagged(rng: random.Random, depth: int) -> dict[str, Any]:
    """An alternative with a tag, most times."""
    tag = rng.choice(["k", "k", "k", "a"])
    properties = {tag: rng.choice([{"const": v} for v in VALUES] + [{"enum": rng.sample(VALUES, 2)}])}
    required = [tag] if rng.random() < 0.8 else []
    return {"properties": properties, "required": required, "allOf": [condition(rng, depth - 1)]}


def condition(rng: random.Random, depth: int) -> dict[str, Any]:
    if depth <= 0:
        return leaf(rng)
    n = rng.choice([2, 3, 4])
    kind = rng.choice(["one", "one", "any", "choice", "choice", "not", "dependent"])
    if kind in ("one", "any"):
        return {f"{kind}Of": [tagged(rng, depth) if rng.random() < 0.8 else leaf(rng) for _ in range(n)]}
    if kind == "choice":
        rules = [{"if": tagged(rng, 1), "then": condition(rng, depth - 1)} for _ in range(n)]
        for rule in rules:
            rule["if"].pop("allOf")
            if rng.random() < 0.3:
                rule["else"] = leaf(rng)
        return {"allOf": rules}
    if kind == "not":
        return {"not": condition(rng, depth - 1)}
    return {"dependentSchemas": {key: condition(rng, depth - 1) for key in rng.sample(KEYS, 2)}}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("block", range(4))
def test_no_text_is_begun_that_cannot_be_ended(block: int, order: str) -> None:
    for seed in range(16 * block, 16 * (block + 1)):
        rng = random.Random(seed)
        parts = [condition(rng, rng.choice([1, 1, 2])) for _ in range(rng.choice([1, 1, 2]))]
        schema = {
            "type": "object",
            "properties": {key: {"enum": list(VALUES)} for key in KEYS},
            "additionalProperties": False,
            "required": rng.sample(KEYS, rng.choice([0, 0, 1])),
            "allOf": parts,
        }
        valid = validator(schema, 2020)
        right = {text for text, value in zip(TEXTS, OBJECTS, strict=True) if valid(value)}
        try:
            rsm = SchemaMachine(
                SchemaDocument(schema),
                TextOptions(whitespace="compact", property_order=order),  # type: ignore[arg-type]
            ).rsm
        except EmptyLanguageError:
            assert not right, schema
            continue
        walks: dict[bytes, Walk | None] = {b"": Walk(rsm)}
        for prefix in PREFIXES:
            before = walks[prefix[:-1]]
            walks[prefix] = before and before.feed(prefix[-1:])
        accepted = {text for text in TEXTS if (walk := walks[text]) is not None and walk.complete}
        assert accepted <= right, (schema, accepted - right)
        if order == "any":
            assert accepted == right, (schema, right - accepted)
        else:  # each object in one order
            assert {frozenset(json.loads(t).items()) for t in accepted} == {
                frozenset(json.loads(t).items()) for t in right
            }, schema
        possible = {text[:n] for text in accepted for n in range(len(text) + 1)}
        for prefix in PREFIXES:
            assert (walks[prefix] is not None) == (prefix in possible), (schema, prefix)
