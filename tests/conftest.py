"""A small tokenizer on disk, and a way to run the command line inside the test's process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fsmc.cli import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def fsmc_command(capsys, monkeypatch, tmp_path) -> Callable[..., Outcome]:
    """``fsmc_command("match", "a+", "aa")`` → exit code, standard output, standard error. The cache is the test's own."""
    monkeypatch.setenv("FSMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FSMC_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path, stdin: bytes | None = None) -> Outcome:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", _Stdin(stdin))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(int(stopped.value.code or 0), out, err)

    return run


class _Stdin:
    """Standard input that is a pipe with these bytes."""

    def __init__(self, data: bytes) -> None:
        import io

        self.buffer = io.BytesIO(data)

    def isatty(self) -> bool:
        return False


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory) -> Path:
    """A byte-level BPE tokenizer.json with the printable ASCII characters, the bytes of é, some words, and an EOS."""
    letters = [chr(code) for code in range(33, 127)]
    words = {"Ġ": 0, "Ã": 0, "©": 0, "Ċ": 0}
    merges = [("2", "0"), ("20", "2"), ("-", "0"), ("y", "e"), ("ye", "s"), ("n", "o")]
    vocabulary = {token: i for i, token in enumerate([*letters, *words, *(a + b for a, b in merges)])}
    eos = len(vocabulary)
    special = {"id": eos, "content": "<eos>", "special": True}
    special |= {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [special],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [list(pair) for pair in merges]},
    }
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<eos>"}), encoding="utf-8")
    return folder / "tokenizer.json"
