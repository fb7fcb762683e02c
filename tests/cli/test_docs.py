"""What the documentation shows is what the commands print."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def sessions() -> Iterator[tuple[str, str]]:
    """(command line, shown output) of each indented ``$ fsmc …``, up to the next command or the end of the block."""
    for page in PAGES:
        for block in re.findall(r"(?:^ {4}.*\n)+", page.read_text(encoding="utf-8"), flags=re.M):
            lines = [line[4:] for line in block.splitlines()]
            starts = [i for i, line in enumerate(lines) if line.startswith("$ fsmc ")]
            for start, end in itertools.pairwise([*starts, len(lines)]):
                yield lines[start][2:], "\n".join(lines[start + 1 : end])


SESSIONS = list(sessions())


@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[command[:40] for command, _ in SESSIONS])
def test_session(fsmc_command, command: str, shown: str) -> None:
    outcome = fsmc_command(*shlex.split(command)[1:])
    assert (outcome.out + outcome.err).rstrip() == shown.rstrip()


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
