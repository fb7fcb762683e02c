"""What no text could get through is refused when the schema is compiled, with the place; limits reach all parts."""

from __future__ import annotations

import pytest

import fsmc
from fsmc.compiler.errors import FsmcError, LimitExceeded, UnsupportedSchemaError

VOCAB = fsmc.Vocabulary.from_tokens([bytes([i]) for i in range(256)] + [b""], eos_token_ids=[256])

LARGE_MULTIPLE = {"multipleOf": 123456789}
TWO_MULTIPLES = {"allOf": [{"multipleOf": 4999}, {"multipleOf": 4993}]}
LARGE_PATTERN = {"type": "string", "pattern": "(a|b)*a(a|b){18}c"}
FEW_VALUES = {
    "type": "array",
    "uniqueItems": True,
    "minItems": 3,
    "prefixItems": [{"type": "boolean"}, {"type": "boolean"}],
    "items": {"type": "integer"},
}
OVERLAPPING = {"patternProperties": {c: {"minimum": i} for i, c in enumerate("abcdefghijklmnopqrst")}}
CONDITIONS = {"unevaluatedItems": False, "anyOf": [{"prefixItems": [{"const": i}] * (i + 1)} for i in range(8)]}


def compiled(schema, **options):
    return fsmc.GrammarCompiler(VOCAB, cache_dir=None, **options).compile_json_schema(schema)


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (LARGE_MULTIPLE, LimitExceeded),
        (TWO_MULTIPLES, LimitExceeded),
        (FEW_VALUES, UnsupportedSchemaError),
        (OVERLAPPING, LimitExceeded),
        (CONDITIONS, LimitExceeded),
    ],
    ids=["multiple", "multiples", "unique", "keys", "unevaluated"],
)
@pytest.mark.parametrize("around", ["member", "item", "reference", "alternative", "condition"])
def test_optional_parts_are_refused_at_once(part, error, around):
    schema, value, itself = {
        "member": ({"properties": {"a/b": part}}, "/properties/a~1b", ""),
        "item": ({"items": {"items": part}}, "/items/items", ""),
        "reference": ({"items": {"$ref": "#/$defs/x"}, "$defs": {"x": part}}, "/items", "/$defs/x"),
        "alternative": ({"items": {"anyOf": [{"type": "null"}, part]}}, "/items", "/items/anyOf/1"),
        "condition": ({"items": {"if": {"type": "null"}, "else": part}}, "/items", "/items/else"),
    }[around]
    with pytest.raises(error) as caught:
        compiled(schema)
    assert caught.value.pointer in (value, itself)  # some keywords know where they stand
    assert f"#{caught.value.pointer}: " in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "accepted", "refused"),
    [
        (
            {"properties": {"a": {"allOf": [LARGE_MULTIPLE, {"enum": [0, 123456789, 7]}]}}},
            b'{"a":123456789}',
            b'{"a":7}',
        ),
        ({"properties": {"a": {**LARGE_MULTIPLE, "minimum": 0, "maximum": 10**10}}}, b'{"a":246913578}', b'{"a":7}'),
        ({"properties": {"a": {"allOf": [FEW_VALUES, {"type": "string"}]}}}, b"{}", b'{"a":""}'),
        ({"$defs": {"unused": LARGE_MULTIPLE}}, b"1", b"x"),
        ({"properties": {"a": {"type": "string", **LARGE_MULTIPLE}}}, b'{"a":"x"}', b'{"a":1}'),
        ({"items": {"multipleOf": 0.01}, "contains": {"multipleOf": 7}}, b"[7,0.01]", b"[0.01]"),
    ],
    ids=["enum", "bounds", "type", "unused", "other type", "small"],
)
def test_what_only_looks_difficult_compiles(schema, accepted, refused):
    machine = compiled(schema).machine
    assert machine.matches(accepted) and not machine.matches(refused)


def test_nothing_is_refused_that_was_asked_to_be_ignored():
    compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None)
    grammar = compiler.compile_json_schema({"properties": {"a": FEW_VALUES}}, unique_items="ignore")
    assert grammar.machine.matches(b'{"a":[true,true,1]}')


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limits", "name"), [({"max_states": 1000}, "max_states=1000"), ({"max_seconds": 0.05}, "max_seconds=0.05")]
)
def test_patterns_keep_to_the_limits_of_the_compiler(limits, name):
    pattern = f"(a|b)*a(a|b){{18}}{name[4:7]}"  # of its own: machines of patterns are kept
    with pytest.raises(LimitExceeded, match=f"#/properties/x: {name} exceeded"):
        compiled({"properties": {"x": {"type": "string", "pattern": pattern}}}, **limits)


def test_the_growing_machine_keeps_to_the_limits_of_the_compiler():
    schema = {"type": "array", "items": {"type": "object"}, "uniqueItems": True}
    text = b"[" + b",".join(b'{"%d":[]}' % i for i in range(100)) + b"]"
    assert compiled(schema).machine.matches(text)
    for name in ("max_states", "max_bytes"):
        grammar = compiled(schema, **{name: 20_000 if name == "max_bytes" else 100})
        with pytest.raises(LimitExceeded, match=name):
            grammar.machine.matches(text)
    for limits in ({"max_states": -1}, {"max_seconds": float("nan")}):
        with pytest.raises(ValueError, match="at least 0"):
            fsmc.GrammarCompiler(VOCAB, cache_dir=None, **limits)


def test_a_limit_that_a_text_runs_into_has_a_place():
    """Two alternatives of an object watch one member's value; neither alone asks for too much."""
    member = [{"properties": {"x": {"multipleOf": n}}, "required": [str(n)]} for n in (199, 211, 223)]
    with pytest.raises(FsmcError) as caught:
        matcher = fsmc.GrammarMatcher(compiled({"items": {"properties": {"x": {"type": "number"}}, "oneOf": member}}))
        matcher.accept_bytes(b'[{"x":1')
    assert isinstance(caught.value, LimitExceeded) and "/properties/x" in str(caught.value)
