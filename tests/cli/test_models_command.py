"""`fsmc generate` and `compile -t` with models: names that are none, the model's own vocabulary."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("name", ["nosuch", "./nosuch", "a/b/c", "missing.gguf"])
def test_a_name_that_is_no_model(fsmc_command, tmp_path, monkeypatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    if not name.endswith(".gguf"):
        monkeypatch.setitem(sys.modules, "fsmc.runtime.models", None)  # told before torch is imported
    else:
        pytest.importorskip("transformers")
    outcome = fsmc_command("generate", "abc", "--model", name, "-p", "x")
    assert outcome.code == 3 and name in outcome.err
    assert name.endswith(".gguf") or "owner/name" in outcome.err


def test_a_name_on_the_hub_is_left_to_transformers(fsmc_command, monkeypatch) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    def fail(name: Any, **options: Any) -> None:
        raise OSError(f"cannot reach the hub for {name}")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
    outcome = fsmc_command("generate", "abc", "--model", "owner/name", "-p", "x")
    assert outcome.code == 3 and "cannot reach the hub for owner/name" in outcome.err


@pytest.fixture
def toy_folder(tmp_path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from fsmc.runtime.toy_model import toy_model

    toy = toy_model(n_layers=1, hidden_size=32)
    toy.model.save_pretrained(tmp_path / "toy")
    toy.tokenizer.save_pretrained(tmp_path / "toy")
    return tmp_path / "toy"


def test_generate(fsmc_command, toy_folder) -> None:
    outcome = fsmc_command("generate", "(yes|no)!", "--model", toy_folder, "-p", "x")
    assert outcome.code == 0 and outcome.out in ("yes!\n", "no!\n")


def test_an_index_for_another_vocabulary(fsmc_command, toy_folder, tokenizer_file, tmp_path, monkeypatch) -> None:
    from fsmc.runtime import models

    path = tmp_path / "x.fsmc"
    assert fsmc_command("compile", "(yes|no)", "-t", tokenizer_file, "-o", path).code == 0
    monkeypatch.setattr(models, "load_model", None)  # not called
    outcome = fsmc_command("generate", path, "--model", toy_folder, "-p", "x")
    assert outcome.code == 3 and "another vocabulary" in outcome.err


def test_compile_for_the_model_of_a_package(fsmc_command, toy_folder, tmp_path, monkeypatch) -> None:
    from fsmc.runtime import models

    monkeypatch.setattr(models, "find_model", lambda source, gguf_file=None: toy_folder)
    monkeypatch.setattr("fsmc.runtime.model_files.find_model", lambda source: toy_folder)
    path = tmp_path / "x.fsmc"
    assert fsmc_command("compile", "(yes|no)!", "-t", "smollm2", "-o", path).code == 0
    assert fsmc_command("generate", path, "--model", "smollm2", "-p", "x").code == 0
    assert fsmc_command("compile", "a", "-t", "smollm2", "-o", path, "--eos", "3").code == 2


@pytest.mark.parametrize("option", ["--top-p", "--temperature"])
def test_options_that_make_no_sense(fsmc_command, toy_folder, option) -> None:
    value = {"--top-p": "0", "--temperature": "nan"}[option]
    outcome = fsmc_command("generate", "a+", "--model", toy_folder, "-p", "x", option, value)
    assert outcome.code == 2 and outcome.err


def test_many_requests(fsmc_command, toy_folder, tmp_path) -> None:
    """Each line has its answer or its own error, and the exit status says that there were errors."""
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    lines: list[Any] = [
        {"id": "a", "prompt": "x", "schema": schema},
        {"prompt": "x", "regex": "(yes|no)!", "temperature": 1.0, "seed": 3, "jump": "exact"},
        {"messages": [{"role": "user", "content": "x"}], "choice": ["red", "blue"]},
        {"prompt": "x", "max_tokens": 3},
        {"id": 5, "prompt": "x", "schema": {"type": "no such type"}},
        {"prompt": "x", "regex": "a(", "max_tokens": 3},
        {"prompt": "x", "regex": "a", "choice": ["a"]},
        {"prompt": "x", "shema": {}},
        {"prompt": "x", "temperature": "hot"},
        {"regex": "a"},
        [1],
        {
            "prompt": "x",
            "constraint": {"structured_outputs": {"regex": "[ab]{3}"}},
            "never_cut_off": True,
            "max_tokens": 3,
        },
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\nno json\n")
    outcome = fsmc_command("generate", "--requests", path, "--model", toy_folder)
    assert outcome.code == 1 and "8 of the requests failed" in outcome.err
    answers = {record["line"]: record for record in map(json.loads, outcome.out.splitlines())}
    assert sorted(answers) == [*range(1, 13), 14]
    assert json.loads(answers[1]["text"])["ok"] in (True, False) and answers[1]["id"] == "a"
    assert answers[2]["text"] in ("yes!", "no!") and answers[3]["text"] in ("red", "blue")
    assert answers[4]["tokens"] == 3 and answers[4]["finish_reason"] == "length"
    assert len(answers[12]["text"]) == 3 and answers[12]["finish_reason"] == "stop"
    whys = {
        5: "no such type",
        6: "no closing",
        7: "two constraints",
        8: "'shema'",
        9: "temperature",
        10: "prompt",
        11: "object",
        14: "",
    }
    assert all(why in answers[line]["error"] for line, why in whys.items())
    assert answers[5]["id"] == 5 and answers[5]["finish_reason"] == "error"
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"enum": ["yes", "no"]}}}
    path.write_text(json.dumps({"prompt": "x", "response_format": asked}))
    outcome = fsmc_command("generate", "--requests", path, "--model", toy_folder, "--batch-size", "1")
    assert outcome.code == 0 and json.loads(outcome.out)["line"] == 1
    assert json.loads(json.loads(outcome.out)["text"]) in ("yes", "no")
    path.write_text(json.dumps({"prompt": "x", "regex": "(a|b)*a(a|b){10}", "max_tokens": 2}))
    outcome = fsmc_command("generate", "--requests", path, "--model", toy_folder, "--max-states", "50")
    assert outcome.code == 1 and "max_states=50 exceeded" in outcome.out
    outcome = fsmc_command("generate", "abc", "--requests", path, "--model", toy_folder)
    assert outcome.code == 2 and "--requests" in outcome.err


def test_no_line_keeps_the_others_from_their_answers(fsmc_command, toy_folder, tmp_path) -> None:
    good = b'{"prompt": "x", "regex": "(yes|no)!"}'
    bad = {
        b'{"prompt": "x", "regex": "a", "logit_bias": {"1180591620717411303424": 1}}': "logit_bias",
        b'{"prompt": "x", "regex": "a", "logit_bias": {"400": 1}}': "token id 400 is outside the vocabulary",
        b'{"prompt": "x", "stop": 5}': "stop must be a list of strings, not int (5)",
        b'{"prompt": "x", "temperature": 1' + b"0" * 400 + b"}": "temperature=1000",
        b'{"prompt": "x", "max_tokens": true}': "max_tokens must be an integer, not bool",
        b'{"prompt": "x", "never_cut_off": "no"}': "never_cut_off must be True or False",
        b'{"prompt": "\\ud800", "id": "\\ud800"}': "surrogate",
        b'{"prompt": "\xff"}': "utf-8",
        b"[" * 100_000: "recursion",
        b'{"messages": []}': "messages must be a list of at least one message",
    }
    path = tmp_path / "requests.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join([good, *bad, good]))
    outcome = fsmc_command("generate", "--requests", path, "--model", toy_folder)
    assert outcome.code == 1 and f"{len(bad)} of the requests failed" in outcome.err
    answers = sorted(map(json.loads, outcome.out.splitlines()), key=lambda record: record["line"])
    assert answers[0]["text"] == answers[-1]["text"] and answers[0]["text"] in ("yes!", "no!")
    for answer, why in zip(answers[1:-1], bad.values(), strict=True):
        assert why in answer["error"], answer
    assert answers[7]["id"] == "\ud800"
