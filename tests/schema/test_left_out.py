"""Items that differ from many before them: every text of a small language, until none is left."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from schema_strategies import Walk

from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

CASES: list[tuple[Any, list[Any]]] = [
    ({"type": "integer", "minimum": -3, "maximum": 5}, list(range(-3, 6))),
    (
        {"type": "integer", "minimum": 95, "maximum": 105, "not": {"multipleOf": 4}},
        [95, 97, 98, 99, 101, 102, 103, 105],
    ),
    (
        {"type": "string", "pattern": '^[a"\\\\é]{1,2}$'},
        ["".join(c) for n in (1, 2) for c in itertools.product('a"\\é', repeat=n)],
    ),
    (
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 5}, {"enum": ["a", "ab", "b"]}]},
        [1, 2, 3, 4, 5, "a", "ab", "b"],
    ),
]


@pytest.mark.parametrize(("items", "values"), CASES, ids=str)
def test_each_value_once(items: Any, values: list[Any]) -> None:
    schema = {"type": "array", "items": items, "uniqueItems": True}
    rsm = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="compact")).rsm
    for seed in range(3):
        order = random.Random(seed).sample(values, len(values))
        walk = Walk(rsm).feed(b"[")
        for i, value in enumerate(order):
            assert walk is not None
            if i:
                assert walk.complete is False and walk.feed(b"]") is not None
                walk = walk.feed(b",")
                assert walk is not None
            for other in values:
                text = json.dumps(other, ensure_ascii=False).encode()
                ended = walk.feed(text + b"]")
                assert (ended is not None and ended.complete) == (other in order[i:]), (order[:i], other)
                for n in range(1, len(text)):  # nothing is begun that has no end
                    begun = any(json.dumps(v, ensure_ascii=False).encode().startswith(text[:n]) for v in order[i:])
                    begun = begun or (text[:n] == b"-" and 0 in order[i:])
                    if not begun:
                        assert walk.feed(text[:n]) is None, (order[:i], text[:n])
            walk = walk.feed(json.dumps(value, ensure_ascii=False).encode())
        assert walk is not None and walk.feed(b",") is None
        assert walk.feed(b"]") is not None


def test_zero_is_written_once() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    rsm = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="compact")).rsm
    assert rsm.matches(b"[1,2,3,4,5,0,6,10]") and rsm.matches(b"[1,2,3,4,5,-0]")
    assert not rsm.matches(b"[0,1,2,3,4,5,-0]") and not rsm.matches(b"[-0,1,2,3,4,5,0]")


def test_items_share_their_machine() -> None:
    rsm = SchemaMachine(
        SchemaDocument({"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        TextOptions(whitespace="compact"),
    ).rsm
    assert rsm.matches(json.dumps([f"item {i}" for i in range(100)], separators=(",", ":")).encode())
    assert rsm.n_states < 4000
