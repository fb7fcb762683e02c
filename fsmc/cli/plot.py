"""``fsmc plot``: figures of a constraint along a text, or of compile time against size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fsmc.cli.grouped import expand
from fsmc.cli.machine import IndexSource, Language, Source
from fsmc.cli.output import ExitCode, JsonOption, MissingError, UsageError, print_json, stages
from fsmc.cli.reading import read_bytes
from fsmc.cli.tokenizer import TokenizerChoice

FORMATS = (".svg", ".png", ".pdf")


@expand(TokenizerChoice, "tokens_of")
@expand(Language, "language")
def plot_command(
    language: Language,
    tokens_of: TokenizerChoice,
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure to write: .svg, .png or .pdf.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATTERN|INDEX.fsmc [TEXT]", help="With --schema and the like only the text."),
    ] = None,
    text_file: Annotated[Path | None, typer.Option(help="Read the text from this file, byte for byte.")] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Plot compile time instead: of the pattern with each of these numbers (1,2,4) where it has {N}."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plot allowed tokens, states and forced text along a text; with --sizes, compile time against size.

    `fsmc plot --schema schema.json '{"a": 1}' -t tokenizer.json -o along.svg`, `fsmc plot '[ab]*a[ab]{N}' --sizes 2,4,8 -o growth.svg`
    """
    if output.suffix not in FORMATS:
        raise UsageError(f"the figure's name must end in {', '.join(FORMATS)}: {output}")
    if not output.parent.is_dir():
        raise MissingError(f"{output.parent}: there is no such folder")
    try:
        import matplotlib
    except ImportError as error:
        raise MissingError("figures need matplotlib: pip install 'fsmc[plot]'") from error
    matplotlib.rcParams["svg.hashsalt"] = "fsmc"  # the same figure is the same file
    from fsmc.plot import compile_times, plot_compile_times, plot_trace, trace

    tokens_of.check()
    given = list(arguments or [])
    pattern = given.pop(0) if given and not language.has_own_source else None
    if len(given) > 1:
        raise typer.BadParameter(f"one text at most, not {len(given)}: quote the pattern and the text")
    source = language.source(pattern, whitespace="json")
    if sizes is not None:
        if not isinstance(source, Source) or "{N}" not in source.pattern or given:
            raise UsageError("--sizes goes with a pattern that has {N} somewhere, and without a text")
        template = source
        with stages() as progress:
            progress.start("compiling")
            times = compile_times(
                lambda n: replace(template, pattern=template.pattern.replace("{N}", f"{{{n}}}")).machine(),
                _numbers(sizes),
            )
        figure, refused = plot_compile_times(times, template.pattern), None
    else:
        if tokens_of.tokenizer is None:
            raise UsageError("give the tokenizer (-t) whose tokens are to be counted")
        data = read_bytes(given[0] if given else None, text_file)
        if not data:
            raise UsageError("the text is empty: there is nothing to plot along it")
        with stages() as progress:
            progress.start("compiling")
            text_tokenizer = tokens_of.read()
            assert text_tokenizer is not None
            vocabulary = text_tokenizer.vocabulary
            grammar = (
                source.compile(vocabulary)
                if isinstance(source, IndexSource)
                else source.compile(vocabulary, cache=False)
            )
            progress.start("walking the text")
            walked = trace(grammar, text_tokenizer.encode(data))
        refused = next((step.at for step in walked.bytes if step.byte is not None and not step.read), None)
        title = " ".join(grammar.source.split())
        figure = plot_trace(walked, title if len(title) <= 60 else title[:59] + "…")
    figure.savefig(output)
    if as_json:
        print_json({"file": str(output), "file_bytes": output.stat().st_size, "fails_at_byte": refused})
    else:
        typer.echo(f"{output}")
        if refused is not None:
            typer.echo(f"no match, at byte {refused}: the figure ends there; fsmc explain says why", err=True)
    raise typer.Exit(ExitCode.DONE if refused is None else ExitCode.NO_MATCH)


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise UsageError(f"--sizes takes numbers with commas between them, not {text!r}")
    return found
