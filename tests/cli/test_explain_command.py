"""`fsmc explain`: every byte, every token, and the keyword that stands in the way."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import fsmc
from fsmc.cli.trace import byte_steps, token_steps


def test_bytes_of_a_pattern(fsmc_command) -> None:
    outcome = fsmc_command("explain", "é[0-9]", "é7", "--json")
    assert outcome.code == 0
    steps = outcome.document["steps"]
    assert [step["byte"] for step in steps] == [0xC3, 0xA9, ord("7"), None]
    assert [step["forced"] for step in steps] == ["é", "\\xa9", "", ""]
    assert [step["allowed_bytes"] for step in steps] == [1, 1, 10, 0]
    assert steps[-1]["may_end"]


def test_tokens(fsmc_command, tokenizer_file) -> None:
    outcome = fsmc_command("explain", "202[0-9]-yes", "2024-no", "-t", tokenizer_file, "--json")
    assert outcome.code == 1
    tokens = outcome.document["tokens"]
    assert [(t["token"], t["is_allowed"]) for t in tokens] == [("202", True), ("4", True), ("-", True), ("no", False)]
    assert tokens[0]["allowed_tokens"] == 3  # 2, 20, 202
    assert tokens[3]["forced"] == "yes"
    assert set(tokens[3]["examples"]) == {"y", "ye", "yes"}
    assert outcome.document["fails_at_byte"] == 5


def test_tables_for_people(fsmc_command, tokenizer_file) -> None:
    said = fsmc_command("explain", "202[0-9]-yes", "2024-no", "-t", tokenizer_file, "--bytes").out
    assert "no match, at byte 5" in said
    assert "may come" in said and "for example" in said


@pytest.mark.parametrize("width", [50, 60, 80, 100, 200])
@pytest.mark.parametrize("what", ["--bytes", "--no-bytes"])
def test_tables_fit_and_what_counts_is_never_cut(fsmc_command, tokenizer_file, monkeypatch, width, what) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    pattern, text = "(202|yes|no|[a-z ]){30,}(\\.yes no yes no yes no yes no)?", "yes no 202" * 4 + ".yes"
    given = ("explain", pattern, text, "-t", tokenizer_file, what)
    steps = fsmc_command(*given, "--json").document["tokens" if what == "--no-bytes" else "steps"]
    lines = fsmc_command(*given).out.split("\n")
    shown = [line for line in lines if "─" not in line]
    header = next(i for i, line in enumerate(shown) if "allowed" in line)
    assert all(len(line) <= width for line in lines[: len(steps) + 3])
    names = [name for name in ("id", "at", "state", "open", "allowed") if name != "id" or "id" in steps[0]]
    assert shown[header].split()[1 : 1 + len(names)] == names
    for step, line in zip(steps, shown[header + 1 :], strict=False):
        allowed = step.get("allowed_tokens", step.get("allowed_bytes"))
        wanted = [*([step["id"]] if "id" in step else []), step["at"], step["state"], step["open_calls"], allowed]
        rest = line.split()[1:] if line.strip() else []
        assert rest[: len(wanted) - (step.get("id", 0) is None)] == [
            f"{n:,}" if n is allowed else str(n) for n in wanted if n is not None
        ]
    if width > 80:
        assert "…" not in "".join(shown[header : header + 8])


def test_an_end_that_is_allowed_is_named(fsmc_command, tokenizer_file) -> None:
    outcome = fsmc_command("explain", "(yes)+", "yes", "-t", tokenizer_file, "--json")
    end = outcome.document["tokens"][-1]
    assert end["may_end"] and "" not in end["examples"]
    assert "(the end)  ye  yes" in fsmc_command("explain", "(yes)+", "yes", "-t", tokenizer_file).out


BOUND = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 5}, "b": {"maxLength": 2}}}
REQUESTS = {
    "response_format": ({"type": "json_schema", "json_schema": {"name": "x", "schema": BOUND}}, ""),
    "structured_outputs": ({"structured_outputs": {"json": BOUND}}, ""),
    "a tag": ({"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": BOUND}, "end": "</a>"}}, "/format/content/json_schema"),
    "structures": ({"type": "structural_tag", "structures": [{"begin": "<b>", "schema": {"const": 1}, "end": "</b>"}, {"begin": "<a>", "schema": BOUND, "end": "</a>"}], "triggers": ["<a", "<b"]}, "/structures/1/schema"),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_keywords_of_schemas_in_requests_and_tags(fsmc_command, tmp_path, tokenizer_file, name) -> None:
    request, place = REQUESTS[name]
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request))
    before, after = ("<a>", "</a>") if place else ("", "")
    for value, keyword in (('{"a": 7}', {"pointer": f"{place}/properties/a/maximum", "value": "5"}),
                           ('{"b": "abc"}', {"pointer": f"{place}/properties/b/maxLength", "value": "2"})):  # fmt: skip
        for option in ["--constraint", *(["--tag"] if place else [])]:
            outcome = fsmc_command("explain", option, path, before + value + after, "--json")
            assert outcome.code == 1
            assert outcome.document["keywords"] == [keyword]
    if place:  # nothing that a schema asks
        assert fsmc_command("explain", "--tag", path, "<a>{}</b>", "--json").document["keywords"] == []
    assert f"{place}/properties/a/maximum  5" in fsmc_command("explain", "--constraint", path, before + '{"a": 7}').out


def test_schema_keyword_by_pointer(fsmc_command, tmp_path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"maximum": 5}}}))
    outcome = fsmc_command("explain", "--schema", path, '{"n": 7}', "--json")
    assert outcome.code == 1
    assert outcome.document["keywords"] == [{"pointer": "/$defs/n/maximum", "value": "5"}]
    assert outcome.document["subschemas"] == ["/properties/n", "/$defs/n"]
    assert "/$defs/n/maximum  5" in fsmc_command("explain", "--schema", path, '{"n": 7}').out


def test_schema_in_an_index_file(fsmc_command, tmp_path, tokenizer_file) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"enum": [1, 2]}')
    assert fsmc_command("compile", "--schema", path, "-t", tokenizer_file, "-o", tmp_path / "s.fsmc").code == 0
    outcome = fsmc_command("explain", tmp_path / "s.fsmc", "3", "--json", "-t", tokenizer_file)
    assert outcome.document["keywords"] == [{"pointer": "/enum", "value": "[1, 2]"}]


def test_bad_input(fsmc_command, tokenizer_file, tmp_path) -> None:
    assert fsmc_command("explain", "a(", "a").code == 2
    assert fsmc_command("explain", "a", "a", "b").code == 2
    assert fsmc_command("explain", "a+", "a" * 20_001).code == 2
    assert "spell" in fsmc_command("explain", ".*", "漢", "-t", tokenizer_file).err
    assert fsmc_command("explain", "a", "a", "-t", tmp_path / "none.json").code == 3
    bad, empty = tmp_path / "bad.txt", tmp_path / "empty.json"
    bad.write_bytes(b"a\xff")
    empty.write_bytes(b"")
    for option in ("--file", "--grammar", "--schema", "--tag", "--constraint"):
        assert f"{bad}: not UTF-8 text (byte 0xff at 1)" in fsmc_command("explain", option, bad, "a").err
    for option in ("--schema", "--tag", "--constraint"):
        assert f"{empty}: not JSON" in fsmc_command("explain", option, empty, "a").err
    said = fsmc_command("explain").err
    assert all(f"--{option}" in said for option in ("file", "schema", "grammar", "choice", "tag", "constraint"))
    assert "fsmc view" in fsmc_command("inspect", "--svg", "a{500}").err


def test_steps_agree_with_the_machine() -> None:
    vocab = fsmc.Vocabulary.from_tokens([b"a", b"ab", b"b", b"ba", b""], eos_token_ids=[4])
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("(ab|ba){1,3}")
    dfa, data = grammar.dfa, b"abbaab"
    steps = byte_steps(grammar.machine, data)
    state = dfa.start
    for step, byte in zip(steps, data, strict=False):
        row = dfa.delta[state][dfa.byte_class]
        assert (step.state, step.allowed) == (state, int((row != 0).sum()))
        state = row[byte]
    matcher, mask = fsmc.GrammarMatcher(grammar), fsmc.allocate_token_bitmask(1, vocab.size)
    for step in token_steps(grammar, [1, 3, 1]):
        matcher.fill_next_token_bitmask(mask)
        assert step.allowed == int(np.bitwise_count(mask.view(np.uint32)).sum())
        if step.token_id is not None:
            assert matcher.accept_token(step.token_id)


@pytest.mark.parametrize("arguments", [["explain", ".*", "x" * 9000], ["explain", "--json", ".*", "x" * 9000]])
def test_a_reader_that_has_seen_enough(arguments: list[str]) -> None:
    """As ``| head -1``: quiet, and with the code of a program that SIGPIPE ends, which is no verdict."""
    command = [sys.executable, "-m", "fsmc", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


def test_tables_that_are_piped_are_as_wide_as_they_have_to_be(monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    said = subprocess.run(
        [sys.executable, "-m", "fsmc", "explain", "[a-z][0-9A-Zäöü]{2}|.{7}", "1234567"], capture_output=True, text=True
    ).stdout
    assert "byte   at   state   open   allowed   may come" in said


def test_keywords_of_schemas_in_grammars_in_tags(fsmc_command, tmp_path) -> None:
    grammar = 'start: "-"* value\nvalue: %json {"type": "object", "maxProperties": 1}'
    path = tmp_path / "tag.json"
    tags = [
        {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": {"maximum": 5}}, "end": "</a>"},
        {"type": "tag", "begin": "<b>", "content": {"type": "grammar", "grammar": grammar, "syntax": "lark"}, "end": "</b>"},
    ]  # fmt: skip
    path.write_text(json.dumps({"type": "or", "elements": tags}))
    document = fsmc_command("explain", "--tag", path, '<b>--{"x": 1, "y"', "--json").document
    assert document["keywords"] == [{"pointer": "/maxProperties", "value": "1"}]
    assert (document["schema_line"], document["grammar"]) == (2, "/elements/1/content/grammar")
    said = fsmc_command("explain", "--tag", path, '<b>--{"x": 1, "y"').out
    assert "in line 2 of the grammar at /elements/1/content/grammar" in said
    document = fsmc_command("explain", "--tag", path, "<a>7", "--json").document
    assert document["keywords"] == [{"pointer": "/elements/0/content/json_schema/maximum", "value": "5"}]
    assert document["grammar"] is None
    assert fsmc_command("explain", "--tag", path, "<b>-x", "--json").document["keywords"] == []


@pytest.mark.parametrize("name", ["--grammar", "--constraint", "index"])
def test_keywords_of_schemas_in_grammars(fsmc_command, tmp_path, tokenizer_file, name) -> None:
    grammar = 'start: "<" value ">"\nvalue: %json {"properties": {"a": {"type": "integer", "maximum": 5}}}'
    source, request, index = tmp_path / "g.lark", tmp_path / "request.json", tmp_path / "g.fsmc"
    source.write_text(grammar)
    request.write_text(json.dumps({"structured_outputs": {"grammar": grammar}}))
    if name == "index":
        assert fsmc_command("compile", "--grammar", source, "-t", tokenizer_file, "-o", index).code == 0
    what = {"--grammar": [name, source], "--constraint": [name, request], "index": [index]}[name]
    document = fsmc_command("explain", *what, '<{"a": 7}>', "--json").document
    assert document["keywords"] == [{"pointer": "/properties/a/maximum", "value": "5"}]
    assert document["schema_line"] == 2
    said = fsmc_command("explain", *what, '<{"a": 7}>').out
    assert "in the schema that begins in line 2 of the grammar" in said and "/properties/a/maximum  5" in said
