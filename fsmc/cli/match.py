"""``fsmc match``: does a text match, and if not, at which byte does it fail and what was expected there?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsmc.cli.machine import (
    Ascii,
    DotAll,
    FileOption,
    FlavorOption,
    IgnoreCase,
    MultiLine,
    Source,
    Verbose,
    names_index,
    read_bytes,
)
from fsmc.cli.output import ExitCode, JsonOption, print_json, stdout_console

if TYPE_CHECKING:
    from fsmc.cli.explain import Verdict

CONTEXT = 60
"""Characters of the line that are shown on either side of the place."""


def match_command(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATTERN|INDEX.fsmc [TEXT]", help="With --file only the text. '-' is standard input."),
    ] = None,
    file: FileOption = None,
    text_file: Annotated[Path | None, typer.Option(help="Read the text from this file, byte for byte.")] = None,
    flavor: FlavorOption = "python",
    i: IgnoreCase = False,
    s: DotAll = False,
    m: MultiLine = False,
    x: Verbose = False,
    a: Ascii = False,
    as_json: JsonOption = False,
) -> None:
    """Match a text against a pattern or an index file. Exit code 0: it matches, 1: it does not.

    `fsmc match '[0-9]{4}-[0-9]{2}' 2024-7`
    """
    from fsmc.cli.explain import explain
    from fsmc.cli.index_file import read_index_dfa

    given = list(arguments or [])
    pattern = given.pop(0) if given and file is None else None
    if len(given) > 1:
        raise typer.BadParameter(f"one text at most, not {len(given)}: quote the pattern and the text")
    if names_index(pattern):
        dfa = read_index_dfa(Path(str(pattern)))
    else:
        dfa = Source.read(pattern, file, flavor, {"i": i, "s": s, "m": m, "x": x, "a": a}).to_dfa()
    data = read_bytes(given[0] if given else None, text_file)
    verdict = explain(dfa, data)
    if as_json:
        print_json(as_document(verdict, data))
    else:
        stdout_console().print(as_text(verdict, data), markup=False)
    raise typer.Exit(ExitCode.DONE if verdict.matches else ExitCode.NO_MATCH)


def as_document(verdict: Verdict, data: bytes) -> dict[str, object]:
    """The verdict for machines: places in bytes and characters, expected characters as ranges of code points."""
    from fsmc.cli.explain import describe

    document: dict[str, object] = {"matches": verdict.matches, "bytes": len(data)}
    if not verdict.matches:
        document |= {
            "fails_at_byte": verdict.offset,
            "character": len(data[: verdict.character_start].decode("utf-8", "replace")),
            "ends_too_early": verdict.offset == len(data),
            "expected": describe(verdict.expected),
            "expected_ranges": [list(pair) for pair in verdict.expected.ranges],
            "could_end_here": verdict.may_end,
        }
    return document


def as_text(verdict: Verdict, data: bytes) -> str:
    """The verdict for people: the line with a caret under the place, and what was expected there."""
    from fsmc.cli.explain import describe

    if verdict.matches:
        return f"match ({len(data)} bytes)"
    before = data[: verdict.character_start].decode("utf-8", "replace")
    after = data[verdict.character_start :].decode("utf-8", "replace").split("\n", 1)
    line_number = before.count("\n") + 1
    line_start = before.rpartition("\n")[2]
    left = line_start if len(line_start) <= CONTEXT else "…" + line_start[-CONTEXT + 1 :]
    right = after[0] if len(after[0]) <= CONTEXT else after[0][: CONTEXT - 1] + "…"
    left, right = (part.replace("\t", " ").replace("\r", " ") for part in (left, right))
    expected = describe(verdict.expected) if verdict.expected else ""
    wanted = " or ".join(filter(None, [expected, "the end of the text" if verdict.may_end else ""]))
    what = "the text ends too early" if verdict.offset == len(data) else "no match"
    place = f"at byte {verdict.offset}" + (f" (line {line_number})" if line_number > 1 else "")
    return f"{what}, {place}\n  {left}{right}\n  {' ' * width(left)}^\n  expected {wanted}"


def width(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    from rich.cells import cell_len

    return cell_len(text)
