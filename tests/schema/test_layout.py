"""White space, indent and the order of members, against json.dumps."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": ["integer", "object"]}},
        "b": {"type": "object", "properties": {"c": {"type": "null"}}},
        "d": {"type": "string"},
    },
}
VALUES: list[Any] = [
    {},
    {"a": []},
    {"a": [1, {}, {"x": 2}], "b": {}},
    {"a": [{"x": {"y": [[]]}}], "b": {"c": None, "e": [1, 2]}, "d": " : , ", "z": {"q": []}},
]


def machine(schema: Any, **options: Any) -> LazyRSM:
    return SchemaMachine(SchemaDocument(schema), TextOptions(**options)).rsm


@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
def test_each_layout_is_that_of_json_dumps(value: Any) -> None:
    texts = {
        "compact": json.dumps(value, separators=(",", ":")),
        "json": json.dumps(value),
        0: json.dumps(value, indent=0),
        2: json.dumps(value, indent=2),
        4: json.dumps(value, indent=4),
    }
    for layout, text in texts.items():
        options = {"whitespace": layout} if isinstance(layout, str) else {"indent": layout}
        rsm = machine(SCHEMA, **options)
        for other in set(texts.values()):
            assert rsm.matches(other.encode()) == (other == text), (layout, other)
        assert machine(SCHEMA).matches(text.encode())


def test_flexible_white_space_is_bounded_everywhere() -> None:
    rsm = machine(SCHEMA, max_whitespace=2)
    gaps = '{0}{{{1}"a"{2}:{3}[{4}1{5},{6}2{7}]{8}}}{9}'
    n = 10
    for place, space in itertools.product(range(n), (" ", "\t\n", "\r ", "   ", "\n\n\n")):
        text = gaps.format(*(space if i == place else "" for i in range(n)))
        assert rsm.matches(text.encode()) == (len(space) <= 2), (place, space)
    assert not rsm.matches('{"a":\u00a0[]}'.encode())
    assert not rsm.matches(b'{"a": [- 1]}') and not rsm.matches(b'{"b": {"c": n ull}}')


def test_flexible_white_space_allows_a_deep_indent() -> None:
    value: Any = 1
    for _ in range(9):
        value = {"next": [value]}
    assert machine({}).matches(json.dumps(value, indent=2).encode())


@pytest.mark.parametrize("order", ["schema", "any"])
def test_orders_of_members(order: str) -> None:
    rsm = machine(SCHEMA, whitespace="json", property_order=order)
    members = {"a": [], "b": {}, "d": "", "z": 1}
    for names in itertools.permutations(members):
        text = json.dumps({name: members[name] for name in names})
        assert rsm.matches(text.encode()) == (order == "any" or names == ("a", "b", "d", "z")), names
    for twice in ('{"a": [], "a": []}', '{"b": {}, "a": [], "b": {}}', r'{"\u0061": []}'):
        assert not rsm.matches(twice.encode())


def test_lists_of_properties_are_merged() -> None:
    schema = {
        "allOf": [{"properties": {"kind": {}, "size": {}}}, {"properties": {"id": {}, "size": {}, "note": {}}}],
        "required": ["kind", "id", "size", "note", "extra"],
    }
    rsm = machine(schema, whitespace="json")
    accepted = [
        names
        for names in itertools.permutations(("kind", "id", "size", "note", "extra"))
        if rsm.matches(json.dumps(dict.fromkeys(names, 0)).encode())
    ]
    assert accepted == [("kind", "id", "size", "note", "extra")]


def test_strings_are_escaped_in_one_way() -> None:
    rsm = machine({"type": "string"})
    for character in [*map(chr, range(0x80)), "é", "\u2028", "\ud7ff", "\ue000", "😀"]:
        assert rsm.matches(json.dumps(character, ensure_ascii=False).encode()), character
        if character.isalpha():
            assert not rsm.matches(f'"\\u{ord(character):04x}"'.encode())
    for text in (b'"\\/"', b'"\\u000A"', b'"\\u001F"', b'"\n"', b'"\\x41"', b'"\xff"', b'"\xed\xa0\x80"', b"'a'"):
        assert not rsm.matches(text), text


def test_options_that_make_no_sense() -> None:
    for options in ({"whitespace": "none"}, {"property_order": "random"}, {"max_whitespace": 0}, {"indent": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            TextOptions(**options)
