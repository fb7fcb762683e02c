"""The commands with a JSON Schema in place of a pattern."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import fsmc
from fsmc.cli.json_place import json_place

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
        "id": {"format": "no-such-format"},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture
def schema_file(tmp_path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return path


@pytest.fixture
def index_file(fsmc_command, schema_file, tokenizer_file, tmp_path) -> Path:
    path = tmp_path / "schema.fsmc"
    assert fsmc_command("compile", "--schema", schema_file, "-t", tokenizer_file, "-o", path).code == 0
    return path


def test_compile(fsmc_command, schema_file, tokenizer_file, tmp_path) -> None:
    path = tmp_path / "x.fsmc"
    command = ("compile", "--schema", schema_file, "-t", tokenizer_file, "-o", path, "--draft", "7", "--indent", "2")
    document = fsmc_command(*command, "--json").document
    assert document["subschemas"] == 6 and document["draft"] == 7 and document["layout"]["indent"] == 2
    assert document["states_so_far"] > 1 and document["file_bytes"] == path.stat().st_size
    assert {"schema", "machine", "first mask"} <= document["seconds"].keys()
    assert len(document["notes"]) == 1 and "#/properties/id/format" in document["notes"][0]
    table = fsmc_command(*command).out
    for word in ("6 subschemas, draft 7", "indent 2", "so far", "no-such-format", "first mask"):
        assert word in table
    grammar = fsmc.CompiledGrammar.load(path, fsmc.Vocabulary.from_file(tokenizer_file))
    assert json.loads(grammar.source) == SCHEMA
    assert grammar.machine.matches(json.dumps({"name": "é", "age": 1}, indent=2, ensure_ascii=False).encode())


def test_inspect(fsmc_command, schema_file, index_file) -> None:
    shown = fsmc_command("inspect", index_file)
    assert shown.code == 0 and "json_schema" in shown.out and "no-such-format" in shown.out
    document = fsmc_command("inspect", index_file, "--json").document
    assert json.loads(document["source"]) == SCHEMA and document["layout"]["whitespace"] == "flexible"
    of_schema = fsmc_command("inspect", "--schema", schema_file, "--json").document
    assert of_schema["subschemas"] == document["subschemas"] and "file" not in of_schema
    assert fsmc_command("inspect", index_file, "--dot").out.startswith("digraph")
    assert fsmc_command("inspect", index_file, "--states").code == 0
    assert fsmc_command("inspect", index_file, "--svg").code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "Ann", "age": 3}', "match (25 bytes)"),
        ('{"name": "Ann", "age": 151}', "no match, at byte 25, in /age"),
        ('{"name": "", "age": 3}', "at byte 10, in /name"),
        ('{"name": "Ann"}', 'in /name\n  {"name": "Ann"}\n                ^\n  expected ,"age"'),
        ('{"name": "Ann", "colours"', 'expected "age"'),
        ('{"name": "Ann", "age": 3, "colours": ["red", "grey"]}', 'in /colours/1'),
        ('{"name": "Ann", "age": 3, "colours": ["red", "grey"]}', 'expected "blue" or "green" or "red"'),
        ('{"name": "Ann", "age": 3, "colours": ["red" "', 'expected ,"blue" or ,"green" or ,"red" or ]'),
        ('{"name": "Ann", "age": 3', "the text ends too early, at byte 24, in /age"),
        ('{"name": "Ann", "age": x}', r"expected [\-0-9]"),
    ],
)  # fmt: skip
def test_match(fsmc_command, schema_file, index_file, text: str, said: str) -> None:
    outcome = fsmc_command("match", "--schema", schema_file, text)
    assert said in outcome.out and outcome.code == (0 if said.startswith("match") else 1)
    assert fsmc_command("match", index_file, text) == outcome


def test_match_json(fsmc_command, schema_file) -> None:
    document = fsmc_command("match", "--schema", schema_file, '{"name": "é", "colours": 1}', "--json").document
    assert (document["fails_at_byte"], document["character"], document["pointer"]) == (16, 15, "")
    assert document["token_starts_at_byte"] == 15 and document["expected_tokens"] == ['"age"']
    assert document["matches"] is False and document["expected"] == "a"


def test_layout_options(fsmc_command, schema_file) -> None:
    command = ("match", "--schema", schema_file)
    assert fsmc_command(*command, '{"age":3,"name":"x"}').code == 1
    assert fsmc_command(*command, "--property-order", "any", '{"age":3,"name":"x"}').code == 0
    assert fsmc_command(*command, "--whitespace", "compact", '{"name": "x","age":3}').code == 1
    assert fsmc_command(*command, "--max-whitespace", "2", '{"name":   "x","age":3}').code == 1
    assert fsmc_command(*command, "--whitespace", "json", '{"name": "x", "age": 3}').code == 0


def test_sample(fsmc_command, schema_file, index_file) -> None:
    outcome = fsmc_command("sample", "--schema", schema_file, "-n", "20", "--seed", "3")
    texts = outcome.out.splitlines()
    assert outcome.code == 0 and len(texts) == 20 and len(set(texts)) > 10
    for text in texts:
        jsonschema.validate(json.loads(text), SCHEMA)
        assert '", "' in text
    assert fsmc_command("sample", "--schema", schema_file, "-n", "20", "--seed", "3").out == outcome.out
    of_file = fsmc_command("sample", index_file, "-n", "5", "--json").document["texts"]
    assert len(of_file) == 5 and not any("\n" in text for text in of_file)
    deep = fsmc_command("sample", "--schema", "-", "-n", "30", "--max-depth", "0", "--seed", "1", stdin=b"{}")
    assert all(
        json.loads(text) in ([], {}) or not isinstance(json.loads(text), (list, dict))
        for text in deep.out.split("\n")[:-1]
    )


@pytest.mark.parametrize(
    ("schema", "code", "said"),
    [
        (b'{"properties": {"a/b": {"type": 3}}}', 2, "#/properties/a~1b/type"),
        (b'{"type": "integer", "enum": ["a"]}', 2, "no value"),
        (b'{"$ref": "#/nowhere"}', 2, "#/$ref"),
        (b"{", 2, "not JSON"),
        (b"NaN", 2, "NaN"),
        (b'{"pattern": "("}', 2, "#/pattern"),
        (b"[1]", 2, "an array"),
        (b"", 2, "the text is empty"),
        (b"\xef\xbb\xbf[1]", 2, "an array"),
        (b"\xff\xfe{\0}\0", 2, "bad.json: not UTF-8 text (byte 0xff at 0)"),
        (b'{"properties": {"a": {"multipleOf": 123456789}}}', 4, "#/properties/a: max_remainders"),
    ],
)
def test_bad_schemas(fsmc_command, tokenizer_file, tmp_path, schema: bytes, code: int, said: str) -> None:
    (tmp_path / "bad.json").write_bytes(schema)
    for command in (("match", "{}"), ("sample",), ("inspect",), ("compile", "-t", tokenizer_file, "-o", "x.fsmc")):
        outcome = fsmc_command(*command, "--schema", tmp_path / "bad.json")
        assert outcome.code == code and said in outcome.err and outcome.out == "" and "Traceback" not in outcome.err


def test_limits(fsmc_command, schema_file, tokenizer_file, tmp_path) -> None:
    command = ("compile", "--schema", schema_file, "-t", tokenizer_file, "-o", tmp_path / "x.fsmc")
    (tmp_path / "counted.json").write_text('{"type": "string", "pattern": "^[a-z]{5}$", "minLength": 3}')
    counted = ("compile", "--schema", tmp_path / "counted.json", *command[3:])
    outcome = fsmc_command(*counted, "--max-states", "3")
    assert outcome.code == 4 and "max_states=3" in outcome.err
    assert fsmc_command(*command, "--max-states", "100000", "--max-seconds", "100").code == 0


def test_a_schema_is_a_file(fsmc_command, tmp_path) -> None:
    outcome = fsmc_command("match", "--schema", tmp_path, "{}")
    assert outcome.code == 3 and str(tmp_path) in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sample", "a+", "--schema", "s.json"], "only one of them"),
        (["sample", "--file", "x", "--schema", "s.json"], "only one of them"),
        (["sample", "a+", "--indent", "2"], "--indent go with --schema"),
        (["sample", "a+", "--max-depth", "2"], "--max-depth"),
        (["match", "--schema", "s.json", "-i", "{}"], "-i go with a pattern"),
        (["match", "x.fsmc", "--whitespace", "json", "{}"], "--whitespace go with --schema"),
        (["match", "--schema", "no-such-file", "{}"], "no-such-file"),
        (["compile", "x.fsmc", "-t", "t", "-o", "y.fsmc"], "compiled already"),
    ],
)
def test_options_that_do_not_go_together(fsmc_command, schema_file, monkeypatch, arguments, said: str) -> None:
    monkeypatch.chdir(schema_file.parent)
    schema_file.rename("s.json")
    outcome = fsmc_command(*arguments)
    assert outcome.code == (3 if "no-such-file" in said else 2) and said in outcome.err and outcome.out == ""


def test_generate(fsmc_command, schema_file, tmp_path) -> None:
    pytest.importorskip("torch", reason="generating needs torch")
    pytest.importorskip("transformers", reason="generating needs transformers")
    from fsmc.runtime.toy_model import toy_model

    model, tokenizer, _ = toy_model()
    model.save_pretrained(tmp_path / "toy")
    tokenizer.save_pretrained(tmp_path / "toy")
    command = ("generate", "--model", tmp_path / "toy", "-p", "Who is it? ", "--max-tokens", "200", "--seed", "1")
    schema = {"type": "object", "properties": {"who": {"enum": ["ann", "bob"]}, "ok": {"type": "boolean"}}}
    schema |= {"required": ["who", "ok"], "additionalProperties": False}
    schema_file.write_text(json.dumps(schema))
    outcome = fsmc_command(*command, "--schema", schema_file, "--json").document
    assert outcome["finish_reason"] == "stop" and outcome["jumped_tokens"] > outcome["sampled_tokens"]
    jsonschema.validate(json.loads(outcome["text"]), schema)
    assert '", "ok": ' in outcome["text"]


@pytest.mark.parametrize("value", [{"a/b": [1, {"c~": 'x"y,{'}], "z": {}}, [[], [{"": [0]}]], "a,b"])
def test_the_place_at_every_prefix_is_one_of_the_value(value) -> None:
    text = json.dumps(value)
    pointers = {""}

    def collect(value, pointer: str) -> None:
        pointers.add(pointer)
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, below in inner:
            collect(below, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")

    collect(value, "")
    places = [json_place(text[:n]) for n in range(len(text) + 1)]
    seen = {pointer for pointer, _ in places}
    assert pointers <= seen
    assert {pointer.removesuffix("/0") for pointer in seen - pointers} <= pointers, "an array that is still empty"
    assert all(start <= n for n, (_, start) in enumerate(places))


@pytest.mark.parametrize("option", ["--schema", "--constraint", "--tag"])
def test_a_file_that_is_cut_off_is_named(fsmc_command, tmp_path, option: str) -> None:
    file = tmp_path / "cut.json"
    file.write_text('{"type": "object",\n "properties": {"a": {')
    outcome = fsmc_command("match", option, str(file), "x")
    assert outcome.code == 2 and f"{file}: not JSON" in outcome.err and "line 2 column 23" in outcome.err


def test_a_tag_with_a_fraction_in_its_schema(fsmc_command, tmp_path) -> None:
    file = tmp_path / "tag.json"
    file.write_text('{"type": "json_schema", "json_schema": {"type": "number", "minimum": 0.5}}')
    assert [fsmc_command("match", "--tag", str(file), text).code for text in ("0.5", "0.4")] == [0, 1]
