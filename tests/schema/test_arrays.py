"""Arrays whose conditions interact: every small array against jsonschema."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from dense_schemas import ARRAYS, array_schema, mixed
from schema_strategies import sample, validator

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.errors import EmptyLanguageError, LimitExceeded
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions


def machine(schema: Any) -> LazyRSM | None:
    """The machine, None if nothing is allowed."""
    try:
        return SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="json")).rsm
    except EmptyLanguageError:
        return None


@pytest.mark.parametrize("block", range(5))
def test_small_arrays(block: int) -> None:
    refused = 0
    for seed in range(20 * block, 20 * (block + 1)):
        rng = random.Random(seed)
        schema = {**mixed(rng, rng.choice([0, 1, 2, 2, 3]), array_schema), "type": "array"}
        valid = validator(schema, 2020)
        try:
            rsm = machine(schema)
            for value in rng.sample(ARRAYS, 40):
                got = rsm is not None and rsm.matches(json.dumps(value).encode())
                assert got == valid(value), (schema, value)
            if rsm is not None and (text := sample(rsm, rng, longest=20)) is not None:
                assert valid(json.loads(text)), (schema, text)
        except LimitExceeded:
            refused += 1
    assert refused <= 1


def test_empty_arrays_of_conditions() -> None:
    for schema in (
        {"type": "array", "contains": False},
        {"type": "array", "minItems": 3, "maxItems": 2},
        {"type": "array", "contains": {"const": 1}, "minContains": 2, "maxItems": 1},
        {"type": "array", "items": {"type": "string"}, "contains": {"type": "integer"}},
        {"type": "array", "prefixItems": [{"const": 1}], "minItems": 1, "contains": {"const": 1}, "maxContains": 0},
        {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "minItems": 1}}},
    ):
        assert machine(schema) is None, schema


def test_counts_far_apart() -> None:
    rsm = machine({"type": "array", "items": {"type": "integer"}, "minItems": 150, "maxItems": 151})
    assert rsm is not None
    for n in (0, 149, 150, 151, 152):
        assert rsm.matches(json.dumps([7] * n).encode()) == (150 <= n <= 151)


def test_positions_and_counts_together() -> None:
    """Two of the three must be strings, the second must not be one: so the others are."""
    rsm = machine(
        {
            "type": "array",
            "prefixItems": [True, {"type": "null"}],
            "maxItems": 3,
            "contains": {"type": "string"},
            "minContains": 2,
        }
    )
    assert rsm is not None
    assert rsm.matches(b'["a", null, "b"]')
    for dead in (b"[1", b"[[", b'["a", "', b'["a", null, 1', b'["a", null]'):
        assert not rsm.matches(dead) and (rsm.run(dead) is None)
