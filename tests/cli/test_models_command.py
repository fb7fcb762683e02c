"""`fsmc generate` and `compile -t` with models: names that are none, the model's own vocabulary."""

from __future__ import annotations

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
