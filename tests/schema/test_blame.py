"""Which keyword stands in a text's way."""

from __future__ import annotations

import json
import random

import pytest
from schema_strategies import SchemaMaker

from fsmc.compiler.errors import FsmcError
from fsmc.compiler.schema.blame import applicable, blame, can_go_on
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.text_options import TextOptions

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "age": {"type": "integer", "maximum": 150},
        "kids": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def of(schema, text: str, **options):
    recipe = SchemaRecipe(schema, TextOptions(**{"property_order": "any", **options}))
    machine = recipe.build().handed_over()
    data = text.encode()
    offset = next((n for n in range(len(data)) if machine.run(data[: n + 1]) is None), len(data))
    return blame(recipe, data, offset)


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        ('{"name": "Joan"', ["/properties/name/maxLength"]),
        ('{"age": 151}', ["/properties/age/maximum"]),
        ('{"age": 1.', ["/properties/age/type"]),
        ("{}", ["/required"]),
        ('{"x', ["/additionalProperties"]),
        ('{"name": "J", "kids": [{"name": "Joan"', ["/properties/name/maxLength"]),
        ('{"name": "J", "kids": [{}', ["/required"]),
        ('{"kids": [{"name": ""}, {"name": ""}, ', ["/properties/kids/maxItems"]),
        ("[", ["/type"]),
    ],
)
def test_keyword(text: str, pointers: list[str]) -> None:
    assert [keyword.pointer for keyword in of(PERSON, text).keywords] == pointers


def test_two_that_say_the_same_are_found_together() -> None:
    found = of({"allOf": [{"maximum": 5}, {"maximum": 7}], "type": "integer", "minimum": 0}, "9")
    assert found.together
    assert [keyword.pointer for keyword in found.keywords] == ["/allOf/0/maximum", "/allOf/1/maximum"]


def test_branches() -> None:
    found = of({"anyOf": [{"const": "ab"}, {"type": "integer"}]}, '"ac')
    assert [keyword.pointer for keyword in found.keywords] == ["/anyOf/0/const", "/anyOf/1/type"]
    assert not found.together


def test_syntax_and_layout() -> None:
    assert of(PERSON, '{"name": "J",,').is_syntax
    assert of(PERSON, '{"name": "J"').is_syntax  # it may not end: no object may
    assert of(True, '{"a":  1}', whitespace="json").option == "whitespace"
    found = of(PERSON, '{"age": 1, "name"', property_order="schema")
    assert found.option == "property_order"


def test_false_schemas() -> None:
    assert [k.pointer for k in of({"properties": {"a": False}, "required": []}, '{"a"').keywords] == ["/properties/a"]


def test_references_are_followed_to_the_place() -> None:
    schema = {"$defs": {"a~/b": {"maximum": 3}}, "prefixItems": [{"$ref": "#/$defs/a~0~1b"}]}
    assert applicable(schema, "/0") == ["/prefixItems/0", "/$defs/a~0~1b"]
    assert applicable(schema, "/7/x") == []


def test_time_is_bounded() -> None:
    recipe = SchemaRecipe({"anyOf": [{"const": f"x{i}"} for i in range(300)]})
    assert not blame(recipe, b'"y', 1, max_seconds=0.0).complete


@pytest.mark.parametrize("seed", range(40))
def test_without_what_is_named_the_text_goes_on(seed: int) -> None:
    """The claim itself, on any schema: take the named keywords away by hand, and try."""
    schema = SchemaMaker(random.Random(seed)).root()
    options = TextOptions(whitespace="compact")
    try:
        recipe = SchemaRecipe(schema, options)
        machine = recipe.build().handed_over()
    except FsmcError:
        return
    for data in (b'{"a":1', b"[1,2", b'"x', b"7", b"null", b"-0.5"):
        offset = next((n for n in range(len(data)) if machine.run(data[: n + 1]) is None), len(data))
        if offset == len(data):
            continue
        found = blame(recipe, data, offset, max_seconds=2.0)
        for names in [[k.pointer for k in found.keywords]] if found.together else [[k.pointer] for k in found.keywords]:
            changed = json.loads(json.dumps(schema))
            for pointer in sorted(names, reverse=True):
                *path, last = [s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")[1:]] or [""]
                here = changed
                for step in path:
                    here = here[int(step)] if isinstance(here, list) else here[step]
                if pointer:
                    del here[last]
                else:
                    changed = True
            assert can_go_on(SchemaRecipe(changed, options).build().handed_over(), data, offset)
