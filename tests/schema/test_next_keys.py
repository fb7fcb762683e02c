"""Which keys may come next: what is answered for many keys at once is what each of them by itself would get."""

from __future__ import annotations

import random
from typing import Any

import pytest
from test_conditions import condition

from fsmc.compiler.errors import EmptyLanguageError
from fsmc.compiler.schema.atoms import OBJECT
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.next_keys import NextKeys
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.text_options import TextOptions


def shape_of(schema: Any, order: tuple[str, ...], *, any_order: bool = False) -> ObjectShape:
    """Raises EmptyLanguageError if there is no such object."""
    machine = SchemaMachine(SchemaDocument({**schema, "type": "object"}), TextOptions())
    keywords = machine.keywords
    must = keywords.expand_node(keywords.document.root, OBJECT)
    return ObjectShape(must, (), order, any_order, machine.table, machine.emptiness)


def one_by_one(shape: ObjectShape, residual: int, place: int) -> int:
    """`ObjectShape.allowed`, from the definition."""
    found = 0
    for c in bits(shape.available(place)):
        after = shape.after(place, c)
        passed = shape.missing(place) & ~shape.available(after) & ~(1 << c)
        derivative = shape.normal(shape.derivative(residual, place, c), after)
        if not passed and shape.emptiness.satisfiable(shape.strongest(derivative, shape.static[c], after)):
            found |= 1 << c
    return found


@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_allowed_is_what_each_key_by_itself_would_get(block: int, any_order: bool) -> None:
    for seed in range(40 * block, 40 * (block + 1)):
        rng = random.Random(seed)
        try:
            shape = shape_of(condition(rng, 3), ("a", "b", "k"), any_order=any_order)
        except EmptyLanguageError:
            continue
        residual, place = shape.at_start()[0], 0
        for _ in range(4):
            allowed = shape.allowed(residual, place)
            assert allowed == one_by_one(shape, residual, place), seed
            if not allowed:
                break
            c = rng.choice(list(bits(allowed)))
            derivative, after = shape.derivative(residual, place, c), shape.after(place, c)
            truths = [{v: rng.random() < 0.5 for v in shape.watched_values((derivative,))} for _ in range(4)]
            left = {shape.after_value(derivative, truth, after) for truth in truths}
            left = {f for f in left if shape.feasible(f, after)}
            if not left:
                break
            residual, place = rng.choice(sorted(left)), after


def test_a_name_cannot_be_left_out_for_a_required_one_that_does_not_help() -> None:
    """Behind "r" nothing is known of its value, which cannot be what the other alternative asks for."""
    values = {"a": {}, "b": {}, "r": {"type": "string"}}
    other = {"properties": {"r": {"type": "number"}}}
    shape = shape_of({"properties": values, "required": ["r"], "anyOf": [{"required": ["a"]}, other]}, ("a", "b", "r"))
    assert shape.allowed(shape.at_start()[0], 0) == one_by_one(shape, shape.at_start()[0], 0) == 1


def test_keys_of_closed_alternatives_are_not_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    comes = NextKeys._comes
    monkeypatch.setattr(NextKeys, "_comes", lambda self, r, p, c: asked.append(c) or comes(self, r, p, c))
    names = tuple(f"k{i}" for i in range(50))
    large = {"properties": {name: {"type": "integer"} for name in names}, "required": ["k9"]}
    small = {"properties": {"k3": {"type": "null"}}}
    shape = shape_of(
        {"anyOf": [{**alternative, "additionalProperties": False} for alternative in (large, small)]}, names
    )
    residual = shape.at_start()[0]
    assert list(bits(shape.allowed(residual, 0))) == list(range(10))
    assert set(asked) <= {3, 50}  # the key of which the two ask for different things, and undeclared ones


def test_patterns_that_list_texts_are_tags() -> None:
    def steps(n: int) -> int:
        alternatives = [
            {
                "properties": {"kind": {"type": "string", "pattern": f"^kind{i}$"}, f"k{i}": {}},
                "required": ["kind"],
                "additionalProperties": False,
            }
            for i in range(n)
        ]
        machine = SchemaMachine(SchemaDocument({"oneOf": alternatives}), TextOptions(whitespace="compact"))
        assert machine.rsm.matches(b'{"kind":"kind7","k7":1}')
        assert not machine.rsm.matches(b'{"kind":"kind7","k8":1}')
        return machine.table.n_steps

    assert steps(80) <= 1.3 * 4 * steps(20)
