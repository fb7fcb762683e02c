"""``fsmc match``: does a text match, and if not, at which byte does it fail and what was expected there?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsmc.cli.grouped import expand
from fsmc.cli.machine import Language
from fsmc.cli.output import ExitCode, JsonOption, print_json, stdout_console
from fsmc.cli.reading import read_bytes

if TYPE_CHECKING:
    from fsmc.cli.explain import Verdict
    from fsmc.compiler.automata.lazy_rsm import LazyRSM

CONTEXT = 60
"""Characters of the line that are shown on either side of the place."""


LanguageAndText = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATTERN|INDEX.fsmc [TEXT]",
        help="With --file, --schema, --grammar, --choice, --tag or --constraint only the text. '-' is standard input.",
    ),
]
TextFileOption = Annotated[Path | None, typer.Option(help="Read the text from this file, byte for byte.")]


@expand(Language, "language")
def match_command(
    language: Language,
    arguments: LanguageAndText = None,
    text_file: TextFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Match a text against a pattern, a JSON Schema or an index file. Exit code 0: it matches, 1: it does not.

    `fsmc match '[0-9]{4}-[0-9]{2}' 2024-7`, `fsmc match --schema schema.json '{"a": 1}'`
    """
    from fsmc.cli.explain import explain
    from fsmc.compiler.automata.lazy_rsm import LazyRSM

    given = list(arguments or [])
    pattern = given.pop(0) if given and not language.has_own_source else None
    if len(given) > 1:
        raise typer.BadParameter(f"one text at most, not {len(given)}: quote the pattern and the text")
    machine = language.source(pattern).machine()
    data = read_bytes(given[0] if given else None, text_file)
    verdict = explain(machine, data)
    document = as_document(verdict, data)
    if isinstance(machine, LazyRSM) and getattr(machine.builder, "is_json", False) and not verdict.matches:
        document |= of_json(machine, verdict, data)
    if as_json:
        print_json(document)
    else:
        stdout_console().print(as_text(verdict, data, document), markup=False)
    raise typer.Exit(ExitCode.DONE if verdict.matches else ExitCode.NO_MATCH)


def of_json(machine: LazyRSM, verdict: Verdict, data: bytes) -> dict[str, object]:
    """Of a JSON text also: the pointer of the value that is wrong, where its token begins, and what could stand there."""
    from fsmc.cli.explain import next_texts, read
    from fsmc.cli.json_place import json_place

    before = data[: verdict.character_start].decode("utf-8", "replace")
    pointer, start = json_place(before)
    token_start = len(before[:start].encode())
    return {
        "pointer": pointer,
        "token_starts_at_byte": token_start,
        "expected_tokens": next_texts(machine, read(machine, data[:token_start])[1]),
    }


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


def as_text(verdict: Verdict, data: bytes, document: dict[str, Any]) -> str:
    """The verdict for people: the line with a caret under the place, and what was expected there."""

    from fsmc.cli.explain import describe
    from fsmc.compiler.syntax.charclass import CharClass

    if verdict.matches:
        return f"match ({len(data)} bytes)"
    before = data[: verdict.character_start].decode("utf-8", "replace")
    after = data[verdict.character_start :].decode("utf-8", "replace").split("\n", 1)
    line_number = before.count("\n") + 1
    line_start = before.rpartition("\n")[2]
    left = line_start if len(line_start) <= CONTEXT else "…" + line_start[-CONTEXT + 1 :]
    right = after[0] if len(after[0]) <= CONTEXT else after[0][: CONTEXT - 1] + "…"
    left, right = (part.replace("\t", " ").replace("\r", " ") for part in (left, right))
    expected = verdict.expected
    if "pointer" in document:  # white space may stand nearly anywhere in a JSON text, and is not what is missing
        expected = expected - CharClass.of(" \t\n\r") or expected
    texts = document.get("expected_tokens") or ([describe(expected)] if expected else [])
    wanted = " or ".join([*texts, *(["the end of the text"] if verdict.may_end else [])])
    what = "the text ends too early" if verdict.offset == len(data) else "no match"
    place = f"at byte {verdict.offset}" + (f" (line {line_number})" if line_number > 1 else "")
    place += f", in {document['pointer']}" if document.get("pointer") else ""
    return f"{what}, {place}\n  {left}{right}\n  {' ' * width(left)}^\n  expected {wanted}"


def width(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    from rich.cells import cell_len

    return cell_len(text)
