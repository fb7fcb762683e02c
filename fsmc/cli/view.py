"""``fsmc view``: a machine as one HTML page, to look at and to walk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsmc.cli.grouped import expand
from fsmc.cli.machine import Language
from fsmc.cli.output import JsonOption, MissingError, UsageError, print_json, stages
from fsmc.cli.tokenizer import TokenizerChoice

if TYPE_CHECKING:
    from fsmc.compiler.automata.recursion import RecursiveMachine


@expand(TokenizerChoice, "tokens_of")
@expand(Language, "language")
def view_command(
    language: Language,
    tokens_of: TokenizerChoice,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write (*.html).")],
    pattern: Annotated[str | None, typer.Argument(metavar="PATTERN|INDEX.fsmc", help="What to look at.")] = None,
    text: Annotated[str, typer.Option(help="What stands in the text field at first.")] = "",
    max_states: Annotated[
        int | None,
        typer.Option(min=1, help="States in the page. Default: 60,000; of a JSON Schema or grammar, 5,000."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a page that draws a machine and walks it live: open it in a browser, no network is needed.

    `fsmc view '[0-9]{4}-(0[1-9]|1[0-2])' -o month.html`, `fsmc view --schema schema.json -t tokenizer.json -o schema.html`
    """
    from fsmc.compiler.automata.determinize import MAX_STATES as MACHINE_STATES
    from fsmc.compiler.automata.rsm import RSM
    from fsmc.view.page import MAX_STATES, MAX_WALKED_STATES, page

    tokens_of.check()
    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"the page's name must end in .html: {output}")
    if not output.parent.is_dir():
        raise MissingError(f"{output.parent}: there is no such folder")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("--text is not UTF-8, and the page's text field holds only text") from None
    if max_states is not None and max_states > MACHINE_STATES:  # a page of more states than machines have by default
        language = replace(language, max_states=max_states)
    source = language.source(pattern, whitespace="json")
    with stages() as progress:
        progress.start("compiling")
        read = tokens_of.read()
        machine: RecursiveMachine = source.machine() if read is None else source.compile(read.vocabulary).machine
        progress.start("exploring the machine")
        known = MAX_STATES if isinstance(machine, RSM) else MAX_WALKED_STATES
        html = page(
            machine,
            title=_title(source),
            kind=_kind(language, pattern),
            text=text,
            vocabulary=None if read is None else read.vocabulary,
            tokenizer_document=None if read is None else read.document,
            max_states=known if max_states is None else max_states,
        )
        output.write_text(html, encoding="utf-8", errors="backslashreplace")  # of a file's name that is not UTF-8
    if as_json:
        print_json({"file": str(output), "file_bytes": output.stat().st_size})
    else:
        typer.echo(f"{output}: {output.stat().st_size:,} bytes")


def _title(source: Any) -> str:
    title = getattr(source, "pattern", None) or getattr(source, "text", None) or getattr(source, "path", None)
    return str(title)


def _kind(language: Language, pattern: str | None) -> str:
    names = {"schema": "JSON Schema", "grammar": "grammar", "choice": "choice", "tag": "structural tag"}
    known = next((name for option, name in names.items() if getattr(language, option)), None)
    return known or ("constraint" if language.constraint else "pattern")
