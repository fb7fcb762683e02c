"""`fsmc compile`, `inspect`, `sample` and `cache`."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import fsmc

PATTERN = "(19|20)[0-9]{2}-(0[1-9]|1[0-2])"


@pytest.fixture
def index_file(fsmc_command, tokenizer_file, tmp_path):
    path = tmp_path / "date.fsmc"
    assert fsmc_command("compile", PATTERN, "-t", tokenizer_file, "-o", path).code == 0
    return path


def test_compile_writes_what_load_reads(index_file, tokenizer_file) -> None:
    vocabulary = fsmc.Vocabulary.from_file(tokenizer_file)
    grammar = fsmc.CompiledGrammar.load(index_file, vocabulary)
    assert grammar.source == PATTERN and grammar.index is not None
    matcher = fsmc.GrammarMatcher(grammar)
    mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(mask)
    allowed = {i for i in range(vocabulary.size) if mask.view("uint32")[0, i // 32] >> (i % 32) & 1}
    assert allowed == {i for i, token in enumerate(vocabulary.tokens) if token in (b"1", b"2", b"20", b"202")}


def test_compile_figures(fsmc_command, tokenizer_file, tmp_path) -> None:
    path = tmp_path / "x.fsmc"
    command = ("compile", PATTERN, "-t", tokenizer_file, "-o", path)
    outcome = fsmc_command(*command, "--json")
    figures = outcome.document
    assert outcome.code == 0 and figures["from_cache"] is False
    assert figures["states"] <= figures["states_before_minimizing"]
    assert figures["file_bytes"] == path.stat().st_size
    assert {"parse", "nfa", "determinize", "minimize", "masks"} <= figures["seconds"].keys()
    assert 0 < figures["forced_share"] < 1
    again = fsmc_command(*command, "--json").document
    assert again["from_cache"] is True and again["states"] == figures["states"]
    assert fsmc_command(*command, "--json", "--no-cache").document["from_cache"] is False
    table = fsmc_command(*command).out
    for word in ("states", "byte classes", "distinct masks", "forced states", "bytes", "seconds"):
        assert word in table


def test_pattern_from_a_file_with_flags(fsmc_command, tokenizer_file, tmp_path) -> None:
    (tmp_path / "pattern").write_text("yes # not no\n| no\n")
    path = tmp_path / "x.fsmc"
    assert fsmc_command("compile", "-f", tmp_path / "pattern", "-x", "-i", "-t", tokenizer_file, "-o", path).code == 0
    assert fsmc_command("match", path, "NO").code == 0
    assert fsmc_command("match", path, "yes # not no").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["a{5,2}", "-o", "x.fsmc"], 2, "^^^^^"),
        (["a", "-o", "x.bin"], 2, ".fsmc"),
        (["-o", "x.fsmc"], 2, "give a pattern, --file, --schema"),
        (["(a|b)*a(a|b){14}", "-o", "x.fsmc", "--max-states", "100"], 4, "max_states=100"),
        (["a", "-o", "no/such/folder/x.fsmc"], 3, "error: no/such/folder: "),
    ],
)
def test_compile_errors(fsmc_command, tokenizer_file, tmp_path, monkeypatch, arguments, code, said) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = fsmc_command("compile", "-t", tokenizer_file, *arguments)
    assert outcome.code == code and said in outcome.err and outcome.out == ""
    assert not list(tmp_path.glob("*.fsmc"))


def test_tokenizer_that_is_missing_or_none(fsmc_command, tmp_path) -> None:
    command = ("compile", "a", "-o", tmp_path / "x.fsmc", "-t")
    outcome = fsmc_command(*command, tmp_path / "tokenizer.json")
    assert outcome.code == 3 and "tokenizer.json" in outcome.err
    (tmp_path / "tokenizer.json").write_text("{")
    outcome = fsmc_command(*command, tmp_path / "tokenizer.json")
    assert outcome.code == 3 and "tokenizer.json" in outcome.err


def test_inspect(fsmc_command, index_file) -> None:
    shown = fsmc_command("inspect", index_file)
    assert shown.code == 0 and PATTERN in shown.out and "distinct" in shown.out
    document = fsmc_command("inspect", index_file, "--json").document
    assert document["source"] == PATTERN and document["distinct_masks"] > 1
    assert fsmc_command("inspect", index_file, "--dot").out.startswith("digraph")
    assert "<svg" in fsmc_command("inspect", index_file, "--svg").out
    of_pattern = fsmc_command("inspect", PATTERN, "--states").out
    assert of_pattern and of_pattern == fsmc_command("inspect", index_file, "--states").out
    assert fsmc_command("inspect", index_file, "--dot", "--json").code == 2


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign"])
def test_damaged_index_file(fsmc_command, index_file, damage: str) -> None:
    content = bytearray(index_file.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    kept = {"truncate": content[: len(content) // 2], "flip": content, "empty": b"", "foreign": b"PK\x03\x04" + content}
    index_file.write_bytes(bytes(kept[damage]))
    for command in (("inspect", index_file), ("match", index_file, "2024-07"), ("sample", index_file)):
        outcome = fsmc_command(*command)
        assert outcome.code == 3 and index_file.name in outcome.err and "Traceback" not in outcome.err


def test_sample(fsmc_command, index_file) -> None:
    outcome = fsmc_command("sample", PATTERN, "-n", "20", "--seed", "3")
    texts = outcome.out.splitlines()
    assert outcome.code == 0 and len(texts) == 20
    assert all(re.fullmatch(PATTERN, text) for text in texts) and len(set(texts)) > 10
    assert fsmc_command("sample", index_file, "-n", "20", "--seed", "3").out == outcome.out
    assert fsmc_command("sample", PATTERN, "-n", "20", "--seed", "4").out != outcome.out
    assert fsmc_command("sample", "é{2}|a", "-n", "3", "--json").document["texts"]


def test_sample_draws_lengths_evenly(fsmc_command) -> None:
    texts = fsmc_command("sample", "[a-z]{0,3}", "-n", "400", "--seed", "0", "--json").document["texts"]
    counts = [sum(len(text) == length for text in texts) for length in range(4)]
    assert min(counts) > 60  # 100 expected; by text instead of by length, 379 would have three letters


def test_sample_without_a_short_text(fsmc_command) -> None:
    outcome = fsmc_command("sample", "a{50}", "--max-length", "10")
    assert outcome.code == 2 and "--max-length" in outcome.err
    assert fsmc_command("sample", "a{50}", "--max-length", "50", "-n", "1").out == "a" * 50 + "\n"


def test_cache(fsmc_command, index_file, tmp_path) -> None:
    assert fsmc_command("cache", "path").out.strip() == str(tmp_path / "cache")
    listed = fsmc_command("cache", "list", "--json").document
    assert len(listed["entries"]) == 1 and listed["bytes"] > 0
    assert "1 grammars" in fsmc_command("cache", "list").out
    assert fsmc_command("cache", "clear", "--json").document["removed"] == 1
    assert fsmc_command("cache", "list", "--json").document["entries"] == []


def test_version_and_help(fsmc_command) -> None:
    assert fsmc_command("--version").out == f"fsmc {fsmc.__version__}\n"
    shown = fsmc_command("--help").out
    for command in ("compile", "inspect", "match", "sample", "generate", "cache"):
        assert command in shown
    assert fsmc_command("no-such-command").code == 2


def test_module_runs_in_a_process_of_its_own(tmp_path) -> None:
    """The real thing once: exit code, clean JSON on standard output, nothing else there."""
    command = [sys.executable, "-c", "from fsmc.cli import main; main()", "match", "a+b", "aac", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and json.loads(done.stdout)["fails_at_byte"] == 2
    command[3:] = ["--debug", "match", "a{5,2}", "a"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "Traceback" in done.stderr and "PatternSyntaxError" in done.stderr


def test_patterns_are_shown_as_they_are(fsmc_command, tokenizer_file, tmp_path, monkeypatch) -> None:
    pattern = "[a-z ,]{2,3}x[/b]?"
    assert fsmc_command("inspect", pattern).out.count(pattern) == 2
    path = tmp_path / "[bold]x.fsmc"
    assert "[bold]x.fsmc" in fsmc_command("compile", pattern, "-t", tokenizer_file, "-o", path).out
    assert pattern in fsmc_command("cache", "list").out
    monkeypatch.setenv("COLUMNS", "80")
    assert fsmc_command("compile", f"{pattern}{'y' * 200}", "-t", tokenizer_file, "-o", path).code == 0
    listed = fsmc_command("cache", "list", "--json").document["entries"]
    table = fsmc_command("cache", "list").out.rpartition("\n2 grammars")[0]
    assert all(len(line) <= 80 for line in table.splitlines()) and "yy…" in table
    for entry in listed:
        assert f"{entry['bytes']:,}" in table and entry["key"][:12] in table and " s " in table


def test_a_tokenizer_that_names_no_end(fsmc_command, tokenizer_file, tmp_path) -> None:
    alone, path = tmp_path / "tokenizer.json", tmp_path / "x.fsmc"
    alone.write_bytes(tokenizer_file.read_bytes())
    outcome = fsmc_command("compile", "a", "-t", alone, "-o", path)
    assert outcome.code == 0 and "--eos" in outcome.err
    eos = json.loads(alone.read_text())["added_tokens"][0]["id"]
    outcome = fsmc_command("compile", "a", "-t", alone, "-o", path, "--eos", eos, "--eos", "0")
    assert outcome.code == 0 and outcome.err == ""
    fsmc.CompiledGrammar.load(path, fsmc.Vocabulary.from_file(alone, eos_token_ids=[0, eos]))
    same = ("-t", alone, "--eos", eos, "--eos", "0")
    assert fsmc_command("explain", path, "a", *same).code == 0
    assert fsmc_command("view", path, "-o", tmp_path / "x.html", *same).code == 0
    assert "another vocabulary" in fsmc_command("explain", path, "a", "-t", alone).err
    wide = ("-t", alone, "--vocab-size", 5000)
    assert fsmc_command("compile", "a", "-o", path, *wide).code == 0
    assert fsmc_command("explain", path, "a", *wide).code == 0
    for command in (("explain", "a", "a", "--eos", "0"), ("view", "a", "-o", tmp_path / "x.html", "--vocab-size", 9)):
        outcome = fsmc_command(*command)
        assert outcome.code == 2 and "go with a tokenizer" in outcome.err
    assert fsmc_command("compile", "a", "-t", tokenizer_file, "-o", path).err == ""


def test_choices(fsmc_command, tokenizer_file, tmp_path) -> None:
    path = tmp_path / "answer.fsmc"
    chosen = ("--choice", "yes", "--choice", "no.")
    outcome = fsmc_command("compile", *chosen, "-t", tokenizer_file, "-o", path, "--json")
    assert outcome.code == 0 and outcome.document["source"] == '["yes", "no."]'
    for source in ([path], chosen):
        assert fsmc_command("match", *source, "no.").code == 0
        assert fsmc_command("match", *source, "nox").code == 1
    assert fsmc_command("inspect", *chosen, "--json").document["accepting_states"] == 1
    assert set(fsmc_command("sample", *chosen, "-n", "20").out.split()) == {"yes", "no."}
    assert fsmc_command("match", "-i", *chosen, "no.").code == 2
    assert "only one of them" in fsmc_command("inspect", *chosen, "--schema", path).err


def test_structural_tags_and_requests(fsmc_command, tokenizer_file, tmp_path) -> None:
    content = {"type": "json_schema", "json_schema": {"enum": [1, 2]}}
    tag = {
        "type": "triggered_tags",
        "triggers": ["<a"],
        "tags": [{"type": "tag", "begin": "<a>", "content": content, "end": ";"}],
    }
    (tmp_path / "tag.json").write_text(json.dumps(tag))
    (tmp_path / "request.json").write_text(json.dumps({"response_format": {"type": "json_object"}}))
    path = tmp_path / "tag.fsmc"
    assert fsmc_command("compile", "--tag", tmp_path / "tag.json", "-t", tokenizer_file, "-o", path).code == 0
    for source in ([path], ["--tag", tmp_path / "tag.json"], ["--constraint", tmp_path / "tag.json"]):
        assert fsmc_command("match", *source, "x<a>2;").code == 0
        outcome = fsmc_command("match", *source, "x<a>3;")
        assert outcome.code == 1 and "at byte 4" in outcome.out and "expected [12]" in outcome.out
        assert fsmc_command("inspect", *source, "--json").document["subschemas"] > 0
    assert fsmc_command("match", "--constraint", tmp_path / "request.json", "{}").code == 0
    assert fsmc_command("match", "--constraint", tmp_path / "request.json", "[]").code == 1
    (tmp_path / "tag.json").write_text('{"type": "tag"}')
    assert "format.begin: is missing" in fsmc_command("match", "--tag", tmp_path / "tag.json", "x").err


LARGE = "(a|b)*a(a|b){10}"


@pytest.mark.parametrize(
    "command",
    [
        ("match", LARGE, "aaaaaaaaaaaaa"),
        ("explain", LARGE, "aaaaaaaaaaaaa"),
        ("explain", LARGE, "aaaaaaaaaaaaa", "-t", "TOKENIZER"),
        ("inspect", LARGE),
        ("sample", LARGE, "-n", "1"),
        ("view", LARGE, "-o", "x.html"),
        ("plot", LARGE, "aaaaaaaaaaaaa", "-t", "TOKENIZER", "-o", "x.svg"),
        ("compile", LARGE, "-t", "TOKENIZER", "-o", "x.fsmc", "--no-cache"),
    ],
    ids=lambda command: command[0],
)
def test_a_limit_that_is_reached_can_be_set(fsmc_command, tokenizer_file, tmp_path, monkeypatch, command) -> None:
    if command[0] == "plot":
        pytest.importorskip("matplotlib", reason="no matplotlib: pip install 'fsmc[plot]'")
    monkeypatch.chdir(tmp_path)
    command = [tokenizer_file if word == "TOKENIZER" else word for word in command]
    limits = {"max-states": ("50", "100000"), "max-bytes": ("1000", "100000000"), "max-seconds": ("0", "100")}
    if command[0] == "view":
        del limits["max-states"]  # of the page
    for name, (low, high) in limits.items():
        outcome = fsmc_command(*command, f"--{name}", low)
        assert outcome.code == 4 and f"(--{name} sets it)" in outcome.err, outcome.err
        assert fsmc_command(*command, f"--{name}", high).code == 0


def test_limits_hold_for_every_source(fsmc_command, tokenizer_file, tmp_path) -> None:
    schema, grammar, tag, index = (tmp_path / name for name in ("schema.json", "g.lark", "tag.json", "schema.fsmc"))
    schema.write_text('{"properties": {"name": {"type": "string"}}}')
    grammar.write_text('start: "(" start ")" | "x"')
    tag.write_text('{"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}')
    assert fsmc_command("compile", "--schema", schema, "-t", tokenizer_file, "-o", index).code == 0
    texts = {"--schema": (schema, '{"name": "x"}'), "--grammar": (grammar, "((x))"), "--tag": (tag, "<a>y</a>")}
    for option, (path, text) in texts.items():
        assert fsmc_command("match", option, path, text).code == 0
        assert fsmc_command("match", option, path, text, "--max-states", "2").code == 4, option
    assert fsmc_command("match", "--choice", "abcd", "abcd", "--max-states", "2", "--max-seconds", "9").code == 4
    assert fsmc_command("match", index, '{"name": "x"}', "--max-states", "2").code == 4
    assert fsmc_command("match", index, '{"name": "x"}').code == 0
    explained = ("explain", index, '{"name": "x"}', "-t", tokenizer_file)
    assert fsmc_command(*explained, "--max-states", "2").code == 4 and fsmc_command(*explained).code == 0


def test_a_page_of_more_states_than_machines_have_by_default(fsmc_command, tmp_path, monkeypatch) -> None:
    from fsmc.compiler.automata import determinize

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(determinize, "MAX_STATES", 100)
    assert fsmc_command("view", "a{150}", "-o", "x.html").code == 4
    assert fsmc_command("view", "a{150}", "-o", "x.html", "--max-states", "300").code == 0
