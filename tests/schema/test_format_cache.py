"""Machines of formats on disk: read back the same, rebuilt where the file cannot be believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema import format_cache
from fsmc.compiler.schema.format_cache import kept_on_disk
from fsmc.compiler.schema.format_machine import machine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FSMC_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache"


def built() -> DFA:
    return machine("[a-z]+@é{1,300}")  # more states than a byte numbers


def never() -> DFA:
    raise AssertionError("the file should have been read")


def same(left: DFA, right: DFA) -> bool:
    return left.start == right.start and all(
        (getattr(left, name) == getattr(right, name)).all() for name in ("byte_class", "delta", "accepting")
    )


def test_written_once_then_read(folder: Path) -> None:
    first = kept_on_disk("x", built)
    assert same(first, built()) and same(kept_on_disk("x", never), first)
    assert len(list(folder.iterdir())) == 1  # no temporary file is left


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "of another format"])
def test_damaged_file_is_replaced(folder: Path, damage: str) -> None:
    kept_on_disk("x", built)
    (path,) = folder.iterdir()
    data = path.read_bytes()
    if damage == "of another format":
        kept_on_disk("y", lambda: machine("y"))
        (other,) = set(folder.iterdir()) - {path}
        other.replace(path)
    else:
        flipped = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        path.write_bytes({"truncated": data[:-1], "empty": b"", "flipped": flipped}[damage])
    assert same(kept_on_disk("x", built), built())
    assert same(kept_on_disk("x", never), built())


def test_other_sources_do_not_believe_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_on_disk("x", lambda: machine("old"))
    monkeypatch.setattr(format_cache, "digest_of_sources", lambda *_: b"edited")
    assert kept_on_disk("x", lambda: machine("new")).matches(b"new")
    assert kept_on_disk("x", never).matches(b"new")


def test_folder_that_cannot_be_written(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    assert same(kept_on_disk("x", built), built())


def test_without_sources_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_cache, "digest_of_sources", lambda *_: None)
    assert same(kept_on_disk("x", built), built())
    assert not folder.exists()
