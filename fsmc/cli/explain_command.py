"""``fsmc explain``: what a constraint does with a text, byte by byte and token by token, and why it stops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsmc.cli.grouped import expand
from fsmc.cli.machine import GrammarSource, IndexSource, Language, RequestSource, SchemaSource
from fsmc.cli.match import LanguageAndText, TextFileOption, as_document, as_text, of_json
from fsmc.cli.output import ExitCode, JsonOption, UsageError, print_json, stages, stdout_console
from fsmc.cli.reading import read_bytes
from fsmc.cli.tokenizer import TokenizerChoice

if TYPE_CHECKING:
    from rich.text import Text

    from fsmc.cli.trace import ByteStep, TokenStep
    from fsmc.compiler.cfg.recipe import GrammarRecipe
    from fsmc.compiler.grammar import CompiledGrammar
    from fsmc.compiler.schema.recipe import SchemaRecipe
    from fsmc.compiler.tags.recipe import TagRecipe

MAX_TRACED_BYTES = 20_000
MAX_SEARCH_SECONDS = 5.0


@expand(TokenizerChoice, "tokens_of")
@expand(Language, "language")
def explain_command(
    language: Language,
    tokens_of: TokenizerChoice,
    arguments: LanguageAndText = None,
    text_file: TextFileOption = None,
    show_bytes: Annotated[
        bool | None, typer.Option("--bytes/--no-bytes", help="Show each byte. Default: only without a tokenizer.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Allowed tokens to show at each token.")] = 6,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Give up compiling after so many seconds, and searching for the keywords of a schema that stand in the way (default of that: 5).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a constraint at work on a text: where the machine stands, what may come, what has to, and why it stops.

    `fsmc explain 'id-[0-9]{3}' 'id-4x' -t smollm2`, `fsmc explain --schema schema.json '{"age": 151}' -t tokenizer.json`
    """
    from fsmc.cli.explain import explain
    from fsmc.cli.step_tables import byte_table, token_table
    from fsmc.cli.trace import byte_steps, token_steps
    from fsmc.compiler.automata.lazy_rsm import LazyRSM

    tokens_of.check()
    given = list(arguments or [])
    pattern = given.pop(0) if given and not language.has_own_source else None
    if len(given) > 1:
        raise typer.BadParameter(f"one text at most, not {len(given)}: quote the pattern and the text")
    source = replace(language, max_seconds=max_seconds).source(pattern)
    data = read_bytes(given[0] if given else None, text_file)
    if len(data) > MAX_TRACED_BYTES:
        raise UsageError(
            f"a text of {len(data):,} bytes: at most {MAX_TRACED_BYTES:,} can be shown step by step; match tells where it fails"
        )
    with stages() as progress:
        progress.start("compiling")
        text_tokenizer = tokens_of.read()
        grammar = (
            None
            if text_tokenizer is None
            else source.compile(text_tokenizer.vocabulary, cache=False)
            if not isinstance(source, IndexSource)
            else source.compile(text_tokenizer.vocabulary)
        )
        machine = source.machine() if grammar is None else grammar.machine
        progress.start("walking the text")
        verdict = explain(machine, data)
        document: dict[str, Any] = as_document(verdict, data)
        if isinstance(machine, LazyRSM) and getattr(machine.builder, "is_json", False) and not verdict.matches:
            document |= of_json(machine, verdict, data)
        bytes_read = byte_steps(machine, data)
        tokens = []
        if grammar is not None and text_tokenizer is not None:
            tokens = token_steps(grammar, text_tokenizer.encode(data), examples)
        recipe = None if verdict.matches else _recipe(source, grammar)
        if recipe is not None:
            progress.start("asking which keyword it is")
            document |= of_schema(
                recipe,
                data,
                verdict.offset,
                str(document.get("pointer", "")),
                MAX_SEARCH_SECONDS if max_seconds is None else max_seconds,
            )
    if as_json:
        print_json(
            document
            | {"steps": [_byte_document(s) for s in bytes_read], "tokens": [_token_document(s) for s in tokens]}
        )
    else:
        console = stdout_console()
        if show_bytes if show_bytes is not None else not tokens:
            console.print(byte_table(bytes_read, console.width))
        if tokens:
            console.print(token_table(tokens, console.width))
        console.print(in_colour(as_text(verdict, data, document), verdict.matches))
        for line in keyword_lines(document):
            console.print(line)
    raise typer.Exit(ExitCode.DONE if verdict.matches else ExitCode.NO_MATCH)


def _recipe(source: Any, grammar: CompiledGrammar | None) -> SchemaRecipe | TagRecipe | GrammarRecipe | None:
    """What a machine with schemas in it is made of; None for other sources. grammar: the source's, if there is one yet."""
    from fsmc.compiler.cfg.recipe import GrammarRecipe
    from fsmc.compiler.schema.recipe import SchemaRecipe
    from fsmc.compiler.tags.recipe import TagRecipe

    if isinstance(source, (SchemaSource, GrammarSource)):
        return source.recipe()
    recipe: Any = None
    if isinstance(source, IndexSource):
        from fsmc.compiler.grammar import read_recipe

        recipe = read_recipe(source.path)
    elif isinstance(source, RequestSource):
        recipe = (grammar or source.without_vocabulary()).recipe
    return recipe if isinstance(recipe, (SchemaRecipe, TagRecipe, GrammarRecipe)) else None


def of_schema(
    recipe: SchemaRecipe | TagRecipe | GrammarRecipe, data: bytes, offset: int, place: str, max_seconds: float
) -> dict[str, Any]:
    """The keywords that stand in the way, and the subschemas that apply at the place; by JSON pointer, into the schema, the tag, or one schema of the grammar."""
    from fsmc.compiler.cfg.blame import blame as blame_in_grammar
    from fsmc.compiler.cfg.recipe import GrammarRecipe
    from fsmc.compiler.schema.blame import applicable, blame
    from fsmc.compiler.schema.recipe import SchemaRecipe, exact_json
    from fsmc.compiler.schema.source import parse_json
    from fsmc.compiler.tags.blame import blame as blame_in_tag

    if isinstance(recipe, SchemaRecipe):
        found = blame(recipe, data, offset, place, max_seconds=max_seconds)
        subschemas = applicable(parse_json(recipe.schema) if isinstance(recipe.schema, str) else recipe.schema, place)
    elif isinstance(recipe, GrammarRecipe):
        found, subschemas = blame_in_grammar(recipe, data, offset, max_seconds=max_seconds), []
    else:
        found, subschemas = blame_in_tag(recipe, data, offset, max_seconds=max_seconds), []
    return {
        "keywords": [{"pointer": k.pointer, "value": exact_json(k.value)} for k in found.keywords],
        "keywords_together": found.together,
        "layout_option": found.option,
        "not_json": found.is_syntax,
        "search_complete": found.complete,
        "schema_line": found.line,
        "grammar": found.grammar,
        "subschemas": subschemas,
    }


def keyword_lines(document: dict[str, Any]) -> list[Text]:
    """What `of_schema` found, for people."""
    from rich.text import Text

    if "keywords" not in document:
        return []
    lines = []
    if document["not_json"]:
        lines.append(Text("  it is JSON that asks for this (or its canonical form), whatever the schema says"))
    if document["layout_option"] == "property_order":
        lines.append(Text("  members come in the schema's order: --property-order any would allow it"))
    elif document["layout_option"]:
        lines.append(Text(f"  the layout asks for this: --{document['layout_option']}"))
    known = document["keywords"]
    if document["schema_line"] is not None:
        where = f" at {document['grammar']}" if document["grammar"] else ""
        lines.append(Text(f"  in the schema that begins in line {document['schema_line']} of the grammar{where}"))
    if known and document["keywords_together"]:
        lines.append(Text("  without these keywords, all of them, it could go on:"))
    elif known:
        lines.append(Text("  responsible:" if len(known) == 1 else "  without any one of these it could go on:"))
    for keyword in known[:8]:
        value = keyword["value"]
        short = value if len(value) <= 60 else value[:59] + "…"
        lines.append(
            Text.assemble("    ", (keyword["pointer"] or "the whole schema", "bold yellow"), "  ", (short, "dim"))
        )
    if len(known) > 8:
        lines.append(Text(f"    … and {len(known) - 8} more (--json has all)"))
    if not document["search_complete"]:
        lines.append(Text("  (the search reached --max-seconds)", style="dim"))
    return lines


def in_colour(text: str, good: bool) -> Text:
    """The verdict: its first line and the caret in green or red."""
    from rich.text import Text

    colour = "bold green" if good else "bold red"
    shown = Text(text)
    shown.stylize(colour, 0, len(text.partition("\n")[0]))
    for start in [i for i, line in _lines(text) if line.strip() == "^"]:
        shown.stylize(colour, start, start + len(text[start:].partition("\n")[0]))
    return shown


def _lines(text: str) -> list[tuple[int, str]]:
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append((start, line))
        start += len(line) + 1
    return lines


def _byte_document(step: ByteStep) -> dict[str, Any]:
    return {
        "at": step.at,
        "byte": step.byte,
        "state": step.state,
        "open_calls": step.depth,
        "allowed_bytes": step.allowed,
        "expected": step.expected,
        "may_end": step.may_end,
        "forced": step.forced.decode("utf-8", "backslashreplace"),
        "read": step.read,
    }


def _token_document(step: TokenStep) -> dict[str, Any]:
    return {
        "at": step.at,
        "id": step.token_id,
        "token": step.token.decode("utf-8", "backslashreplace"),
        "state": step.state,
        "open_calls": step.depth,
        "allowed_tokens": step.allowed,
        "examples": step.examples,
        "may_end": step.may_end,
        "forced": step.forced.decode("utf-8", "backslashreplace"),
        "is_allowed": step.is_allowed,
        "bytes_read": step.read,
    }
