"""``fsmc … | head -1``: whoever read the output has gone, and every command ends quietly, with the code of a program that SIGPIPE ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMANDS = ["compile", "inspect", "match", "explain", "view", "plot", "sample", "generate", "cache", "warmup"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["--version"], ["cache", "list", "--help"], *([name, "--help"] for name in COMMANDS)],
    ids=" ".join,
)
def test_help_for_nobody(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "fsmc", *arguments]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [["nonsense"], ["match", "((", "x"], ["match", "x", "y"]], ids=" ".join)
def test_errors_for_nobody(arguments: list[str]) -> None:
    """As ``2>&1 | head -1``: no second error about the first."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "fsmc", *arguments]
    ended = subprocess.run(command, stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert ended.returncode == 141
