"""Accepted if and only if valid: random schemas of every keyword against jsonschema.

Seeds are fixed, so that a failure stays; the message holds the schema and the instance made small.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from schema_strategies import InstanceMaker, SchemaMaker, accepts_in_some_order, sample, shrunk, shuffled, validator

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.errors import EmptyLanguageError, LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

SEEDS_PER_DRAFT = {2020: 150, 2019: 30, 7: 60, 6: 20, 4: 30}
INSTANCES = 12
SAMPLES = 3


def machine(schema: Any, draft: int, order: str) -> LazyRSM | None:
    """The machine, None if the schema allows nothing."""
    options = TextOptions(whitespace="json", property_order=order)
    try:
        return SchemaMachine(SchemaDocument(schema, draft=draft), options).rsm
    except EmptyLanguageError:
        return None


def accepted(rsm: LazyRSM | None, order: str, instance: Any) -> bool:
    """Whether the instance is accepted, in schema order with its members in whatever order that is."""
    if rsm is None:
        return False
    if order == "any":
        return rsm.matches(json.dumps(instance, ensure_ascii=False).encode())
    return accepts_in_some_order(rsm, instance)


def disagreement(schema: Any, draft: int, order: str, instance: Any) -> bool:
    """Whether the two differ about an instance; for shrinking."""
    try:
        return accepted(machine(schema, draft, order), order, instance) != validator(schema, draft)(instance)
    except Exception:  # while a schema is taken to pieces, it need not be one
        return False


def made_small(schema: Any, draft: int, order: str, instance: Any) -> str:
    """The smallest disagreement that is found, as text."""
    schema = shrunk(schema, lambda s: disagreement(s, draft, order, instance))
    instance = shrunk(instance, lambda v: disagreement(schema, draft, order, v))
    return f"draft {draft}, {order} order: {json.dumps(schema)} on {json.dumps(instance)}"


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("draft", SEEDS_PER_DRAFT)
def test_accepted_if_and_only_if_valid(draft: int, order: str) -> None:
    refused = valid_instances = 0
    for seed in range(SEEDS_PER_DRAFT[draft]):
        rng = random.Random(f"{draft} {seed}")
        schema = SchemaMaker(rng, draft).root(rng.choice([1, 2, 2, 3]))
        valid, maker = validator(schema, draft), InstanceMaker(rng, schema)
        try:
            rsm = machine(schema, draft, order)
            texts = [] if rsm is None else [sample(rsm, rng) for _ in range(SAMPLES)]
            instances = [
                json.loads(t)
                for t in texts
                if t is not None and json.dumps(json.loads(t), ensure_ascii=False).encode() == t
            ]
            instances += [maker.mutated(instance) for instance in instances]
            instances += [maker.instance() for _ in range(INSTANCES)]
            instances += [maker.mutated(instance) for instance in instances[-INSTANCES // 2 :]]
            for instance in instances:
                instance = shuffled(rng, instance)
                expected = valid(instance)
                valid_instances += expected
                if accepted(rsm, order, instance) != expected:
                    pytest.fail(made_small(schema, draft, order, instance))
        except (UnsupportedSchemaError, LimitExceeded):
            refused += 1
    assert refused <= SEEDS_PER_DRAFT[draft] // 10
    assert valid_instances > 3 * SEEDS_PER_DRAFT[draft]


def test_an_oracle_that_is_wrong_would_be_noticed() -> None:
    """The comparison itself: a schema judged by the rules of another is told, and made small."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
    rsm = machine(schema, 2020, "any")
    valid = validator({**schema, "required": ["a", "b"]}, 2020)
    assert accepted(rsm, "any", {"a": 1}) and not valid({"a": 1})
    small = shrunk({"x": [1, {"a": 1}], "y": 2}, lambda v: "a" in json.dumps(v))
    assert small == {"a": True}
