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
