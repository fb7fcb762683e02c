"""What requests ask for, as OpenAI's API, vLLM and SGLang write it: one constraint, or an error that names the place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

import fsmc
from fsmc.compiler.inputs import read_constraint

VOCAB = fsmc.Vocabulary.from_tokens([*(bytes([b]) for b in range(256)), b""], eos_token_ids=[256])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TAG = {
    "type": "triggered_tags",
    "triggers": ["<a"],
    "tags": [{"type": "tag", "begin": "<a>", "content": {"type": "regex", "pattern": "x"}, "end": "</a>"}],
}


class Model(pydantic.BaseModel):
    a: int


@dataclass
class StructuredOutputsParams:
    """As vLLM has it."""

    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    disable_any_whitespace: bool = False
    _backend: str | None = None


STRUCTURES = {
    "type": "structural_tag",
    "structures": [{"begin": "<a>", "schema": SCHEMA, "end": "</a>"}],
    "triggers": ["<a>"],
}

CASES = [
    # OpenAI
    ({"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}, '{"a": 1}', "{}"),
    ({"type": "json_schema", "name": "x", "schema": SCHEMA}, '{"a": 1}', "{}"),
    ({"type": "json_object"}, '{"b": []}', "[]"),
    ({"type": "text"}, "anything", None),
    ({"response_format": {"type": "json_object"}, "model": "m"}, "{}", "1"),
    ({"type": "json_object", "schema": SCHEMA}, '{"a": 1}', "{}"),
    ({"type": "structural_tag", "format": TAG}, "hi <a>x</a>", "<a>y"),
    # OpenAI's Responses API
    (
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}}},
        '{"a": 1}',
        "{}",
    ),
    ({"type": "json_schema", "name": "x", "description": "y", "schema": SCHEMA, "strict": True}, '{"a": 1}', "{}"),
    ({"model": "m", "input": "x", "text": {"format": {"type": "json_object"}, "verbosity": "low"}}, "{}", "1"),
    ({"text": {"format": {"type": "text"}}}, "anything", None),
    ({"text": "a prompt", "sampling_params": {"regex": "a+"}}, "aa", "b"),
    ({"text": {"verbosity": "low"}, "response_format": {"type": "json_object"}}, "{}", "1"),
    ({"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}, "aa", "b"),
    # vLLM
    ({"structured_outputs": {"json": SCHEMA}}, '{"a":1}', "{}"),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, '{"a":1}', "{}"),
    ({"json": SCHEMA, "disable_any_whitespace": True}, '{"a":1}', '{"a": 1}'),
    (
        {"structural_tag": json.dumps(STRUCTURES), "disable_any_whitespace": True, "json": None},
        '<a>{"a":1}</a>',
        '<a>{"a": 1}</a>',
    ),
    ({"json": SCHEMA, "whitespace_pattern": ""}, '{"a":1}', '{"a": 1}'),
    ({"json": SCHEMA, "whitespace_pattern": r"[\n\t ]*"}, '{"a":\n1}', "{}"),
    ({"json": SCHEMA, "disable_additional_properties": True}, '{"a": 1}', '{"a": 1, "b": 2}'),
    ({"json_object": True}, "{}", "[]"),
    ({"choice": ["a", "b|c"]}, "b|c", "c"),
    ({"structured_outputs": {"regex": "[0-9]+", "choice": None}}, "12", "x"),
    ({"structured_outputs": {"structural_tag": json.dumps(STRUCTURES)}}, '<a>{"a":1}</a>', "<a>{}"),
    (StructuredOutputsParams(choice=["x"]), "x", "y"),
    (StructuredOutputsParams(json=SCHEMA, disable_any_whitespace=True), '{"a":1}', '{"a": 1}'),
    ({"json": Model}, '{"a": 1}', "{}"),
    # SGLang
    ({"json_schema": json.dumps(SCHEMA), "temperature": 0.0}, '{"a":1}', "{}"),
    ({"json_schema": "$$ANY$$"}, "[1]", "x"),
    ({"sampling_params": {"regex": "a|b", "max_new_tokens": 8}}, "a", "c"),
    ({"regex": "(yes|no)", "json_schema": None}, "no", "maybe"),
    ({"structural_tag": json.dumps(STRUCTURES)}, "hi", "<a>{}"),
    ({"ebnf": 'root ::= "(" root ")" | "x"'}, "((x))", "((x)"),
    ({"structured_outputs": {"grammar": 'start: "a" start "b" | "c"'}}, "aacbb", "acbb"),
    # what is meant all the same
    (SCHEMA, '{"a":1}', "{}"),
    ({"enum": [1, 2]}, "2", "3"),
    (Model, '{"a":1}', "{}"),
    (["a", "b"], "a", "c"),
    (STRUCTURES, "hi", "<a>{}"),
    (TAG, "<a>x</a>", "<a>"),
]


@pytest.mark.parametrize(("request_", "good", "bad"), CASES, ids=[repr(case[0])[:70] for case in CASES])
def test_what_is_asked_for(request_: Any, good: str, bad: str | None) -> None:
    machine = COMPILER.compile_constraint(request_).machine
    assert machine.matches(good.encode())
    assert bad is None or not machine.matches(bad.encode())


def test_the_compilers_own_layout_stays() -> None:
    assert COMPILER.compile_constraint({"json": SCHEMA, "disable_any_whitespace": True}).machine.matches(b'{"a":1}')
    assert COMPILER.compile_constraint({"json": SCHEMA}).machine.matches(b'{"a":  1}')


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("{}", "a constraint is a dict, not a str"),
        (None, "a constraint is a dict"),
        ({}, r"nothing is asked for: exactly one constraint must be set, .* compile_json_schema\(\{\}\)"),
        ({"temperature": 1}, "one of json_schema, regex, ebnf, structural_tag must be set, and none is"),
        ({"structured_outputs": {}}, "structured_outputs: one of json, regex, choice, .* must be set, and none is"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs: only one of .* not json and regex"),
        (
            {"regex": "a", "ebnf": "b"},
            "only one of json_schema, regex, ebnf, structural_tag can be set, not regex and ebnf",
        ),
        ({"json": {}, "json_schema": "{}"}, "only one"),
        ({"response_format": {"type": "text"}, "structured_outputs": {"regex": "a"}}, "only one of response_format"),
        (
            {"response_format": {"type": "text"}, "text": {"format": {"type": "text"}}},
            "not response_format and text.format",
        ),
        ({"text": {"format": {"type": "text"}}, "regex": "a"}, "not text.format and regex"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.json_schema: is missing"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type: 'yaml' is none of"),
        ({"text": {"format": "json"}}, "text.format: must be an object, not a str"),
        ({"structured_outputs": {"jsn": {}}}, "structured_outputs.jsn: is not known here"),
        ({"structured_outputs": {1: 2}}, "structured_outputs.1: is not known here"),
        ({"structured_outputs": {"json_object": 1}}, "json_object: must be true"),
        ({"structured_outputs": {"choice": []}}, "choice: the list is empty"),
        ({"structured_outputs": {"grammar": " "}}, "structured_outputs.grammar: is empty"),
        ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex: must be a text"),
        (
            {"structured_outputs": {"regex": "a", "disable_any_whitespace": True}},
            "goes with json, json_object, structural_tag",
        ),
        ({"structured_outputs": {"json": {}, "whitespace_pattern": "x"}}, "whitespace_pattern: 'x' is not supported"),
        (
            {"response_format": {"type": "text"}, "regex": "a"},
            "exactly one constraint must be set, not response_format and regex",
        ),
        ({"guided_json": {}}, "guided_json: is an older name of vLLM's: write {'structured_outputs': {'json': ...}}"),
        ({"minimum": 1}, "must be set, and none is; a JSON Schema by itself goes to compile_json_schema"),
        (
            {"type": "grammar", "grammar": {"definition": "x", "syntax": "y"}},
            "grammar.syntax: 'y' is none of lark, ebnf",
        ),
        ({"structured_outputs": []}, "structured_outputs: must be an object"),
        ({"type": "json_schema"}, "response_format.json_schema: is missing"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "response_format.json_schema.schema: is missing"),
        ({"type": "xml"}, "response_format.type: 'xml' is none of text, json_object, json_schema"),
        ({"response_format": {"type": None}}, "response_format.type: must be one of"),
        ({"response_format": {"type": ["text"]}}, "response_format.type: must be one of"),
    ],
)
def test_errors_name_the_place(request_: Any, message: str) -> None:
    with pytest.raises(fsmc.ConstraintError, match=message):
        COMPILER.compile_constraint(request_)


SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


@pytest.mark.parametrize(
    ("request_", "first", "second"),
    [
        ({**STRUCTURES, "format": TAG}, "format", "structures"),
        ({"type": "json_object", "json_schema": {"schema": SCHEMA}}, "json_object", "json_schema"),
        ({"type": "json_object", "properties": {"a": False}}, "json_object", "properties"),
        ({"type": "text", "pattern": "a"}, "text", "pattern"),
        ({"type": "regex", "pattern": "a", "regex": "b"}, "regex", "pattern"),
        ({"type": "regex", "pattern": "a", "excludes": ["b"]}, "pattern", "excludes"),
        ({"response_format": {**SCHEMA_FORMAT, "regex": "a"}}, "json_schema", "regex"),
        ({"response_format": {**SCHEMA_FORMAT, "schema": {}}}, "json_schema", "schema"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "schema_": True}}, "schema", "schema_"),
        ({"type": "grammar", "grammar": "root ::= 'a'", "definition": "start: 'b'"}, "grammar", "definition"),
        ({"type": "structural_tag", "format": TAG, "guided_json": SCHEMA}, "format", "guided_json"),
        ({"regex": "a", "guided_json": SCHEMA}, "regex", "guided_json"),
        ({"guided_regex": "a", "guided_json": SCHEMA}, "guided_json", "guided_regex"),
        ({"structured_outputs": {"regex": "a"}, "guided_json": SCHEMA}, "structured_outputs", "guided_json"),
        ({"structured_outputs": {"regex": "a"}, "type": "text"}, "structured_outputs", "type"),
        ({"structured_outputs": {"regex": "a"}, **STRUCTURES, "type": None}, "structured_outputs", "structures"),
        ({"sampling_params": {"regex": "a", "json": {}}}, "regex", "json"),
        ({"type": "integer", "regex": "a"}, "a JSON Schema's type", "regex"),
        ({"enum": [1], "choice": ["a"]}, "a JSON Schema's enum", "choice"),
    ],
    ids=repr,
)
def test_a_second_constraint_is_refused_not_dropped(request_: Any, first: str, second: str) -> None:
    with pytest.raises(fsmc.ConstraintError, match=f"exactly one constraint must be set, not {first} and {second}$"):
        COMPILER.compile_constraint(request_)


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "regex", "pattern": "a", "regex": None, "excludes": [], "name": "x"},
        {"regex": "a", "guided_json": None, "temperature": 0, "guided_decoding_backend": "x"},
        {"response_format": {"type": "regex", "pattern": "a", "format": None}, "model": "x", "type": "completion"},
    ],
)
def test_what_gives_no_constraint_may_stand_beside_one(request_: Any) -> None:
    assert COMPILER.compile_constraint(request_).source == "a"


@pytest.mark.parametrize("option", ["disable_any_whitespace", "disable_additional_properties", "disable_fallback"])
@pytest.mark.parametrize("said", ["no", 0, 1, []])
def test_flags_are_true_or_false(option: str, said: Any) -> None:
    with pytest.raises(fsmc.ConstraintError, match=f"structured_outputs.{option}: must be true or false, not"):
        COMPILER.compile_constraint({"json": SCHEMA, option: said})


def test_layouts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(fsmc.ConstraintError, match="whitespace_pattern: allows white space"):
        COMPILER.compile_constraint({"json": {}, "whitespace_pattern": r"\s*", "disable_any_whitespace": True})


def test_grammars_keep_their_syntax() -> None:
    assert read_constraint({"ebnf": "root ::= 'a'"}).syntax == "ebnf"
    assert read_constraint({"grammar": "start: 'a'"}).syntax is None
    lark = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}
    assert read_constraint(lark) == read_constraint({"response_format": lark})
    assert read_constraint(lark).syntax == "lark"


def in_itself() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    schema["not"] = schema
    return schema


@pytest.mark.parametrize(
    ("request_", "place"),
    [
        ({"json": in_itself(), "disable_additional_properties": True}, "structured_outputs.json: nests too deeply"),
        ({"json": {}, "whitespace_pattern": 0}, "whitespace_pattern: must be a text, not an int"),
        ({"json": {}, "whitespace_pattern": []}, "whitespace_pattern: must be a text, not a list"),
        ({"type": "any_text", "excludes": 0}, "excludes: must be a list"),
        ({"type": "any_text", "excludes": ""}, "excludes: must be a list"),
        ({"type": "regex", "pattern": "a", "excludes": False}, "excludes"),
        ({"type": "const_string", "value": "a", "\ud800": 1}, "format.\ufffd: is not known here"),
        ({"structured_outputs": {"x" * 100_000: 1}}, "^structured_outputs.x{50,300}…x+: is not known here"),
        ({"type": "y" * 100_000}, "none of"),
    ],
)
def test_odd_values_are_refused_with_a_message_that_can_be_printed(request_: Any, place: str) -> None:
    with pytest.raises(fsmc.ConstraintError, match=place) as caught:
        COMPILER.compile_constraint(request_)
    assert len(str(caught.value).encode()) < 1500
