"""The commands that README, changelog, the pages under docs/ and the command line's own help show, in the order in which they stand."""

from __future__ import annotations

import inspect
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from fsmc.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = ("fsmc", "make", "pip", "python", "bash", "curl", "vllm")
SHELLS = ("sh", "bash", "console", "shell")

_PLACES = re.compile(
    r"^```(?P<language>\w*)\n(?P<fenced>.*?)^```"
    r"|(?P<indented>(?:^ {4}[^\n]*\n)+)"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?P<inline>(?:(?!\n\n).)+?)(?<!`)(?P=ticks)(?!`)",
    flags=re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(rf"(\w+=\S+ )*({'|'.join(PROGRAMS)}) ")
_ALTERNATIVES = re.compile(r"[\w.]+(\|[\w.]+)+")


class Command(NamedTuple):
    """What is shown: the line, and, behind a prompt (``$``), what it printed."""

    line: str
    output: str | None = None


def commands_of(text: str) -> Iterator[Command]:
    """Those in blocks (fenced as a shell's, or indented) and in the running text."""
    for place in _PLACES.finditer(text):
        if place["inline"]:
            line = " ".join(place["inline"].split())
            if _COMMAND.match(line):
                yield Command(line)
        elif place["indented"] or place["language"] in SHELLS:
            yield from _in_block(
                re.sub(r"^ {4}", "", place["indented"] or place["fenced"], flags=re.M), not place["indented"]
            )


def _in_block(block: str, is_shell: bool) -> Iterator[Command]:
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    prompts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in itertools.pairwise([*prompts, len(lines)]):
        yield Command(lines[start][2:], "\n".join(lines[start + 1 : end]))
    for line in lines if not prompts else []:
        if _COMMAND.match(line) or (is_shell and re.match(r"[^#\s]", line)):
            yield Command(line)


def help_page() -> str:
    """What the commands say of themselves."""
    group = typer.main.get_group(app)
    return "\n\n".join(inspect.cleandoc(command.help or "") for command in group.commands.values())


def shown_commands() -> dict[str, list[Command]]:
    """By page, without pages that show none."""
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    texts["fsmc --help"] = help_page()
    return {name: found for name, text in texts.items() if (found := list(commands_of(text)))}


def variants(line: str) -> list[list[str]]:
    """The words of each command that a line stands for: without the remark behind it, with each of ``A|B``, what is in
    brackets taken.

    >>> variants("fsmc match   PATTERN|FILE.fsmc [TEXT]   does it match?")
    [['fsmc', 'match', 'PATTERN', 'TEXT'], ['fsmc', 'match', 'FILE.fsmc', 'TEXT']]
    >>> variants("fsmc match 'a|b' '# a'  # a remark")
    [['fsmc', 'match', 'a|b', '# a']]
    """
    line = re.split(r" {2,}", re.sub(r"^(fsmc \w+) +", r"\1 ", line))[0]
    line = re.sub(r" \[([^\]']+)\]$", r" \1", line)
    found: list[list[str]] = [[]]
    for word in itertools.takewhile(lambda word: word[0] != "#", shlex.split(line, posix=False)):
        choices = word.split("|") if _ALTERNATIVES.fullmatch(word) else shlex.split(word)
        found = [[*words, choice] for words in found for choice in choices]
    return found
