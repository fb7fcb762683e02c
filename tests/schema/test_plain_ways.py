"""Objects that only ask of their members are laid out at once: that changes nothing but the time."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import fsmc
from fsmc.compiler.automata.tables import CALL
from fsmc.compiler.schema import any_order, plain_objects
from fsmc.compiler.schema.late_keys import LateKeys
from fsmc.compiler.schema.shapes import Shapes

INNER = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"enum": ["p", 'q"r', True]}}}
SCHEMAS: list[dict[str, Any]] = [
    {"properties": {"a": {"type": "null"}, "ab": {}, "b": {"type": "boolean"}}, "required": ["ab"]},
    {"type": "object", "properties": {"a": INNER, "b": INNER}, "additionalProperties": False},
    {"type": "object", "properties": {"a": False, "b": {"$ref": "#"}}, "additionalProperties": {"type": "integer"}},
    {"type": "object", "required": ["b", "a"], "properties": {"c": INNER}, "additionalProperties": INNER},
    {"type": ["object", "null"], "properties": {}, "required": ["é", 'q"'], "additionalProperties": {"type": "null"}},
    {"$ref": "#/$defs/n", "$defs": {"n": {**INNER, "required": ["y"], "additionalProperties": False}}},
    {"type": "object", "properties": {f"n{i}": {"type": "null"} for i in range(70)}, "required": ["n3"]},
]
LAYOUTS = ("flexible", "compact", "json")


def compiled(schema: Any, order: Any, layout: Any) -> fsmc.CompiledGrammar:
    tokens = [bytes([b]) for b in range(256)] + [b'{"', b'": ', b'", "', b"}}", b'"a', b'b":', b", ", b"null", b""]
    vocab = fsmc.Vocabulary.from_tokens(tokens, eos_token_ids=[len(tokens) - 1])
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None, property_order=order, whitespace=layout, max_whitespace=3)
    return compiler.compile_json_schema(schema)


def texts(rng: random.Random, schema: dict[str, Any], layout: str) -> list[bytes]:
    """Objects with members declared and not, in any order, some of them twice, some valid."""
    names = [*schema.get("properties", {}), *schema.get("required", []), "x", "y", "y", "ab", "zz", "é"]
    values = ["null", "1", "true", '"p"', '{"x":1}', '{"y":true,"x":2}', '{"y": "q\\"r"}', "{}"]
    found = []
    for _ in range(200):
        due = schema.get("required", []) if rng.random() < 0.7 else []
        extra = [rng.choice(names) for _ in range(rng.randrange(3))]
        members = [(n, rng.choice(values)) for n in (*due, *extra)]
        colon, comma = {"flexible": (" : ", " ,"), "compact": (":", ","), "json": (": ", ", ")}[layout]
        body = comma.join(f"{json.dumps(n, ensure_ascii=False)}{colon}{v}" for n, v in members)
        found.append(f"{{{body}}}".encode())
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_both_ways_accept_the_same_and_have_the_same_masks(
    number: int, order: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = SCHEMAS[number]
    fast = compiled(schema, order, layout)
    fast.machine.matches(b"{}")
    monkeypatch.setattr(any_order, "MAX_CLASSES", 0)
    monkeypatch.setattr(plain_objects, "MAX_CLASSES", 0)
    monkeypatch.setattr(Shapes, "of_members", lambda *_, **__: None)
    slow = compiled(schema, order, layout)
    n_valid = 0
    for text in texts(random.Random(number), schema, layout):
        monkeypatch.undo()
        quick, mask = fsmc.GrammarMatcher(fast), fsmc.allocate_token_bitmask(2, fast.vocab.size)
        seen = []
        for byte in text:
            quick.fill_next_token_bitmask(mask, 0)
            seen.append(mask[0].copy())
            if not quick.accept_token(byte):
                break
        monkeypatch.setattr(any_order, "MAX_CLASSES", 0)
        monkeypatch.setattr(plain_objects, "MAX_CLASSES", 0)
        monkeypatch.setattr(Shapes, "of_members", lambda *_, **__: None)
        plodding = fsmc.GrammarMatcher(slow)
        for row, byte in zip(seen, text, strict=False):
            plodding.fill_next_token_bitmask(mask, 1)
            assert np.array_equal(row, mask[1])
            plodding.accept_token(byte)
        assert quick.is_completed() == plodding.is_completed() == slow.machine.matches(text)
        n_valid += quick.is_completed()
    assert n_valid


def test_a_member_comes_once_in_any_order_and_required_ones_come() -> None:
    machine = compiled(SCHEMAS[0], "any", "compact").machine
    assert machine.matches(b'{"b":true,"ab":1,"zz":[],"zz":2,"a":null}')
    for refused in (b'{"ab":1,"ab":2}', b'{"a":null}', b"{}", b'{"ab":1,}', b'{"b":1,"ab":2}', b'{,"ab":1}'):
        assert not machine.matches(refused)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_rows_of_keys_are_made_when_a_text_gets_there_and_none_is_empty(number: int, order: str) -> None:
    grammar = compiled(SCHEMAS[number], order, "flexible")
    machine: Any = grammar.machine
    matcher, mask = fsmc.GrammarMatcher(grammar), fsmc.allocate_token_bitmask(1, grammar.vocab.size)
    matcher.accept_bytes(b"{")
    before = late(machine)
    assert not any(machine.is_built(state) for state in before)
    matcher.fill_next_token_bitmask(mask)
    assert mask[0, ord('"') // 32] >> ord('"') % 32 & 1
    for text in texts(random.Random(number), SCHEMAS[number], "compact"):
        machine.matches(text)
    reached = {target for code in range(1, len(machine.tables.actions)) for target in [call_target(machine, -code)]}
    for state in set(late(machine)) & reached:
        assert machine.row(state).any(), "a key may come, so it has a first byte"


def late(machine: Any) -> list[int]:
    return [s for s in range(1, machine.n_states) if isinstance(machine.state_key(s), LateKeys)]


def call_target(machine: Any, code: int) -> int:
    kind, target, _ = machine.action(code)
    return target if kind == CALL else 0
