"""``fsmc inspect``: what an index file, or the machine of a pattern, holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

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
)
from fsmc.cli.output import JsonOption, UsageError, print_json, print_table


def inspect_command(
    pattern: Annotated[str | None, typer.Argument(metavar="PATTERN|INDEX.fsmc", help="What to look at.")] = None,
    file: FileOption = None,
    states: Annotated[bool, typer.Option("--states", help="Print the transition table.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print the state diagram in Graphviz's language.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="Print the state diagram as SVG.")] = False,
    flavor: FlavorOption = "python",
    i: IgnoreCase = False,
    s: DotAll = False,
    m: MultiLine = False,
    x: Verbose = False,
    a: Ascii = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is in an index file, or the machine of a pattern.

    `fsmc inspect date.fsmc`, `fsmc inspect 'ab*c' --states`, `fsmc inspect 'ab*c' --dot | dot -Tpng -o machine.png`
    """
    from fsmc.cli.index_file import read_index_file
    from fsmc.compiler.automata.rsm import RSM
    from fsmc.jumpforward.jump_map import JumpForwardMap

    if states + dot + svg + as_json > 1:
        raise UsageError("--states, --dot, --svg and --json are different answers: give one")
    if names_index(pattern):
        path = Path(str(pattern))
        content = read_index_file(path)
        machine, document = content.machine, describe_file(path, content.metadata, content.index, content.file_bytes)
    else:
        source = Source.read(pattern, file, flavor, {"i": i, "s": s, "m": m, "x": x, "a": a})
        machine, document = RSM.from_dfa(source.to_dfa()), {"source": source.pattern}
    if states:
        typer.echo(machine.to_dfa().dump() if machine.is_regular else machine.dump())
    elif dot:
        typer.echo(machine.to_dfa().to_dot() if machine.is_regular else machine.to_dot())
    elif svg:
        if not machine.is_regular:
            raise UsageError("only machines without calls can be drawn as SVG; --dot draws any")
        typer.echo(machine.to_dfa().to_svg())
    else:
        document |= {
            "states": machine.n_states,
            "byte_classes": machine.n_classes,
            "accepting_states": int((machine.final_outcome >= 0).sum()),
            "forced_share": JumpForwardMap(machine).forced_share,
        }
        if as_json:
            print_json(document)
        else:
            print_table(str(pattern or file), as_rows(document))


def describe_file(path: Path, metadata: dict[str, str], index: Any, file_bytes: int) -> dict[str, Any]:
    """What only an index file has: where it comes from, for which vocabulary, its masks."""
    document: dict[str, Any] = {
        "file": str(path),
        "file_bytes": file_bytes,
        "kind": metadata["grammar_kind"],
        "source": metadata["source"],
        "format": int(metadata["format"]),
        "vocabulary": {"size": int(metadata["vocab_size"]), "fingerprint": metadata["vocabulary"]},
        "compiled": json.loads(metadata["stats"]),
    }
    if index is not None:
        document |= {"distinct_masks": index.n_rows, "mask_bytes": index.nbytes}
    return document


def as_rows(document: dict[str, Any]) -> dict[str, str]:
    """The document for people."""
    source = document["source"]
    rows = {"source": source if len(source) <= 200 else f"{source[:199]}… ({len(source):,} characters)"}
    if "file" in document:
        vocabulary = document["vocabulary"]
        rows["kind"] = f"{document['kind']}, format {document['format']}, {document['file_bytes']:,} bytes"
        rows["vocabulary"] = f"{vocabulary['size']:,} tokens, fingerprint {vocabulary['fingerprint'][:16]}…"
    rows["states"] = f"{document['states']:,}, {document['accepting_states']:,} accepting"
    rows["byte classes"] = f"{document['byte_classes']}"
    rows["forced states"] = f"{document['forced_share']:.0%}"
    if "file" in document:
        rows["masks"] = (
            f"{document['distinct_masks']:,} distinct, {document['mask_bytes']:,} bytes"
            if "distinct_masks" in document
            else "none in the file: computed when a state is first met"
        )
    return rows
