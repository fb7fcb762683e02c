"""Grammars of schemas on disk: what is loaded accepts what was saved, exactly, and nothing damaged or foreign is used."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
import referencing
import referencing.jsonschema

import fsmc
from fsmc.compiler.errors import SchemaError
from fsmc.compiler.grammar import read_parts

VOCAB = fsmc.Vocabulary.from_tokens([*(bytes([b]) for b in range(256)), b'{"a', b""], eos_token_ids=[257])
COMPACT = fsmc.GrammarCompiler(VOCAB, cache_dir=None, whitespace="compact")


def reloaded(grammar: fsmc.CompiledGrammar, path) -> fsmc.CompiledGrammar:
    grammar.save(path)
    return fsmc.CompiledGrammar.load(path, VOCAB)


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, ['{"a":1}'], ["{}", '{"a":"x"}']),
        ({"multipleOf": 0.1, "type": "number"}, ["0.3", "7"], ["0.35"]),
        ({"const": Decimal("1.000000000000000000001")}, ["1.000000000000000000001"], ["1", "1.0"]),
        ('{"const": 1.000000000000000000001}', ["1.000000000000000000001"], ["1", "1.0"]),
        ({"maximum": 10**40, "type": "integer"}, [str(10**40)], [str(10**40 + 1)]),
        ({"enum": ["é", 'a"b']}, ['"é"', r'"a\"b"'], ['"e"']),
        (True, ["[]"], ["]"]),
        ({"items": {"$ref": "#"}, "type": "array", "uniqueItems": False}, ["[[],[[]]]"], ["[1]"]),
    ],
)
def test_what_is_loaded_accepts_the_same(tmp_path, schema: Any, yes: list[str], no: list[str]) -> None:
    saved = COMPACT.compile_json_schema(schema)
    loaded = reloaded(saved, tmp_path / "x.fsmc")
    for grammar in (saved, loaded):
        assert [grammar.machine.matches(text.encode()) for text in yes + no] == [True] * len(yes) + [False] * len(no)
    assert loaded.kind == "json_schema" and loaded.source == saved.source
    mask, again = fsmc.allocate_token_bitmask(2, VOCAB.size)
    fsmc.GrammarMatcher(saved).fill_next_token_bitmask(mask)
    fsmc.GrammarMatcher(loaded).fill_next_token_bitmask(again)
    assert (mask == again).all() and mask.any()


@pytest.mark.parametrize(
    ("layout", "texts"),
    [
        ({"whitespace": "compact"}, {'{"a":1,"b":2}': True, '{"b":2,"a":1}': False, '{ "a":1,"b":2}': False}),
        ({"whitespace": "json"}, {'{"a": 1, "b": 2}': True, '{"a":1,"b":2}': False}),
        ({"property_order": "any"}, {'{"b":2,"a":1}': True, '{"a": 1, "b":2}': True}),
        ({"indent": 2}, {'{\n  "a": 1,\n  "b": 2\n}': True, '{"a":1,"b":2}': False}),
        ({"max_whitespace": 1}, {'{ "a":1,"b":2}': True, '{  "a":1,"b":2}': False}),
    ],
)
def test_the_layout_is_kept(tmp_path, layout: dict[str, Any], texts: dict[str, bool]) -> None:
    schema = {"properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a", "b"]}
    grammar = fsmc.GrammarCompiler(VOCAB, cache_dir=None, **layout).compile_json_schema(schema)
    loaded = reloaded(grammar, tmp_path / "x.fsmc")
    assert {text: loaded.machine.matches(text.encode()) for text in texts} == texts


def test_draft_unique_items_and_notes_are_kept(tmp_path) -> None:
    schema = {"items": [{"type": "integer"}], "uniqueItems": True, "properties": {"a": {"format": "no-such-format"}}}
    grammar = COMPACT.compile_json_schema(schema, draft=7, unique_items="ignore")
    loaded = reloaded(grammar, tmp_path / "x.fsmc")
    assert loaded.machine.matches(b"[1,1]") and not loaded.machine.matches(b'["x",1]')
    assert loaded.notes == grammar.notes and len(grammar.notes) == 2


def test_documents_of_a_registry_are_kept_as_used(tmp_path) -> None:
    retrieved: list[str] = []

    def retrieve(uri: str) -> referencing.Resource[Any]:
        retrieved.append(uri)
        return referencing.jsonschema.DRAFT202012.create_resource({"minimum": 3})

    registry = referencing.Registry(retrieve=retrieve).with_resources(
        [
            (
                "https://example.org/names",
                referencing.jsonschema.DRAFT7.create_resource(
                    {
                        "$schema": "http://json-schema.org/draft-07/schema#",
                        "definitions": {"short": {"$id": "#short", "maxLength": 2}},
                    }
                ),
            ),
            ("https://example.org/unused", referencing.jsonschema.DRAFT7.create_resource(True)),
        ]
    )
    schema = {
        "properties": {
            "a": {"$ref": "https://example.org/names#short"},
            "b": {"$ref": "https://example.org/names#/definitions/short"},
            "c": {"$ref": "https://example.org/retrieved"},
            "d": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
            "e": {"$ref": "inner"},
        },
        "$defs": {"inner": {"$id": "inner", "const": 5}},
        "$id": "https://example.org/root",
    }
    grammar = COMPACT.compile_json_schema(schema, registry=registry)
    grammar.save(tmp_path / "x.fsmc")
    assert set(retrieved) == {"https://example.org/retrieved"}
    retrieved.clear()
    loaded = fsmc.CompiledGrammar.load(tmp_path / "x.fsmc", VOCAB)
    for text, valid in {
        '{"a":"xy"}': True, '{"a":"xyz"}': False, '{"b":"xyz"}': False, '{"c":3}': True, '{"c":2}': False,
        '{"d":{"type":"string"}}': True, '{"d":{"type":1}}': False, '{"e":5}': True, '{"e":6}': False,
    }.items():  # fmt: skip
        assert loaded.machine.matches(text.encode()) == grammar.machine.matches(text.encode()) == valid, text
    assert reloaded(loaded, tmp_path / "again.fsmc").machine.matches(b'{"c":3}')
    assert not retrieved, "what is loaded looks nothing up"


def test_reading_without_a_vocabulary(tmp_path) -> None:
    COMPACT.compile_json_schema({"const": "x"}).save(tmp_path / "x.fsmc")
    machine, index, metadata = read_parts(tmp_path / "x.fsmc")
    assert machine.matches(b'"x"') and index is None and json.loads(metadata["source"]) == {"const": "x"}


def test_foreign_and_damaged_files_are_refused(tmp_path) -> None:
    path = tmp_path / "x.fsmc"
    COMPACT.compile_json_schema({"const": "x"}).save(path)
    other = fsmc.Vocabulary.from_tokens([b"x", b""], eos_token_ids=[1])
    with pytest.raises(fsmc.IndexFileError, match="another vocabulary"):
        fsmc.CompiledGrammar.load(path, other)
    content = bytearray(path.read_bytes())
    content[content.index(b'"const"') + 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(fsmc.IndexFileError, match="damaged"):
        fsmc.CompiledGrammar.load(path, VOCAB)
    path.write_bytes(bytes(content[:-1]))
    with pytest.raises(fsmc.IndexFileError):
        read_parts(path)


def test_what_is_not_json_is_refused_when_saved(tmp_path) -> None:
    grammar = COMPACT.compile_json_schema({"const": "x", "default": object()})
    with pytest.raises(SchemaError, match="cannot be stored as JSON"):
        grammar.save(tmp_path / "x.fsmc")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "layout", [{"whitespace": "none"}, {"property_order": "alphabetic"}, {"max_whitespace": -1}, {"indent": -1}]
)
def test_layouts_that_are_none(layout: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(layout))):
        fsmc.GrammarCompiler(VOCAB, cache_dir=None, **layout).compile_json_schema(True)


def test_a_whole_index_takes_a_flat_machine(tmp_path) -> None:
    grammar = COMPACT.compile_json_schema({"type": "array", "items": {"enum": [1, 2]}})
    with pytest.raises(fsmc.MachineError, match="flatten"):
        grammar.build_index()
    flat = COMPACT.compile_fsm(grammar.machine.flatten(2))
    flat.build_index()
    assert reloaded(flat, tmp_path / "x.fsmc").index is not None
    assert flat.machine.matches(b"[1,2]") and not flat.machine.matches(b"[3]")
