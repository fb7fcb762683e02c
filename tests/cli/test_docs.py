"""What the documentation shows is what the commands print."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def sessions(program: str) -> Iterator[tuple[str, str]]:
    """(arguments, shown output) of each indented ``$ program …``, up to the next command or the end of the block."""
    for page in PAGES:
        for block in re.findall(r"(?:^ {4}.*\n)+", page.read_text(encoding="utf-8"), flags=re.M):
            lines = [line[4:] for line in block.splitlines()]
            starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
            for start, end in itertools.pairwise([*starts, len(lines)]):
                name, _, arguments = lines[start][2:].partition(" ")
                if name == program:
                    yield arguments, "\n".join(lines[start + 1 : end])


SESSIONS = list(sessions("fsmc"))
FILES = dict(sessions("cat"))


@pytest.mark.parametrize(("arguments", "shown"), SESSIONS, ids=[arguments[:40] for arguments, _ in SESSIONS])
def test_session(fsmc_command, tmp_path, monkeypatch, arguments: str, shown: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FSMC_QUIET", "1")  # what is said while kernels compile is no part of a session
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    outcome = fsmc_command(*shlex.split(arguments))
    assert (outcome.out + outcome.err).rstrip() == shown.rstrip()
