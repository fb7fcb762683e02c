"""``fsmc inspect``: what an index file, or the machine of a pattern or schema, holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsmc.cli.grouped import expand
from fsmc.cli.machine import IndexSource, Language, Source
from fsmc.cli.output import JsonOption, UsageError, print_json, print_table

if TYPE_CHECKING:
    from fsmc.compiler.automata.lazy_rsm import LazyRSM
    from fsmc.compiler.automata.rsm import RSM


@expand(Language, "language")
def inspect_command(
    language: Language,
    pattern: Annotated[str | None, typer.Argument(metavar="PATTERN|INDEX.fsmc", help="What to look at.")] = None,
    states: Annotated[bool, typer.Option("--states", help="Print the transition table.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print the state diagram in Graphviz's language.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="Print the state diagram as SVG.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is in an index file, or the machine of a pattern or JSON Schema (of that, what is made at the start).

    `fsmc inspect date.fsmc`, `fsmc inspect 'ab*c' --states`, `fsmc inspect 'ab*c' --dot | dot -Tpng -o machine.png`
    """
    from fsmc.compiler.automata.lazy_rsm import LazyRSM
    from fsmc.compiler.automata.svg import MAX_DRAWN_STATES
    from fsmc.compiler.errors import LimitExceeded

    if states + dot + svg + as_json > 1:
        raise UsageError("--states, --dot, --svg and --json are different answers: give one")
    source = language.source(pattern)
    if isinstance(source, IndexSource):
        machine, document = read_index(source)
    else:
        machine = source.machine()
        document = {"source": source.pattern if isinstance(source, Source) else source.text}
    flat = None if isinstance(machine, LazyRSM) or not machine.is_regular else machine.to_dfa()
    if states:
        typer.echo((flat or machine).dump())
    elif dot:
        typer.echo((flat or machine).to_dot())
    elif svg:
        if flat is None:
            raise UsageError("only machines without calls can be drawn as SVG; --dot draws any")
        if flat.n_states - 1 > MAX_DRAWN_STATES:
            advice = "fsmc view draws machines of any size, --states lists the first states"
            raise LimitExceeded("states in one picture", MAX_DRAWN_STATES, flat.n_states - 1, advice)
        typer.echo(flat.to_svg())
    else:
        document |= of_schema(machine) if isinstance(machine, LazyRSM) else of_machine(machine)
        if as_json:
            print_json(document)
        else:
            print_table(
                str(
                    pattern
                    or language.file
                    or language.schema
                    or language.grammar
                    or language.tag
                    or language.constraint
                    or "choice"
                ),
                as_rows(document),
            )


def of_machine(machine: RSM) -> dict[str, Any]:
    """The size of a machine."""
    from fsmc.jumpforward.jump_map import JumpForwardMap

    return {
        "states": machine.n_states,
        "byte_classes": machine.n_classes,
        "accepting_states": int((machine.final_outcome >= 0).sum()),
        "forced_share": JumpForwardMap(machine).forced_share,
    }


def of_schema(machine: LazyRSM) -> dict[str, Any]:
    """What is known of a machine that has not been walked: of a schema its size and layout, and what is not checked."""
    from dataclasses import asdict

    from fsmc.compiler.schema.machine import SchemaMachine

    grown = {"states_so_far": machine.n_states, "notes": list(machine.builder.notes)}
    if not isinstance(machine.builder, SchemaMachine):
        return grown
    builder, document = machine.builder, machine.builder.keywords.document
    return {
        "draft": document.draft(document.root),
        "subschemas": document.n_subschemas,
        "layout": asdict(builder.options),
        **grown,
    }


def read_index(source: IndexSource) -> tuple[RSM | LazyRSM, dict[str, Any]]:
    """The machine of an index file, and what only such a file has: where it comes from, its vocabulary, its masks."""
    from fsmc.compiler.grammar import read_parts

    machine, index, metadata = read_parts(source.path, source.limits)
    document: dict[str, Any] = {
        "file": str(source.path),
        "file_bytes": source.path.stat().st_size,
        "kind": metadata["grammar_kind"],
        "source": metadata["source"],
        "format": int(metadata["format"]),
        "vocabulary": {"size": int(metadata["vocab_size"]), "fingerprint": metadata["vocabulary"]},
        "compiled": json.loads(metadata["stats"]),
    }
    if index is not None:
        document |= {"distinct_masks": index.n_rows, "mask_bytes": index.nbytes}
    return machine, document


def as_rows(document: dict[str, Any]) -> dict[str, str]:
    """The document for people."""
    source = document["source"] if "layout" not in document else " ".join(document["source"].split())
    rows = {"source": source if len(source) <= 200 else f"{source[:199]}… ({len(source):,} characters)"}
    if "file" in document:
        vocabulary = document["vocabulary"]
        rows["kind"] = f"{document['kind']}, format {document['format']}, {document['file_bytes']:,} bytes"
        rows["vocabulary"] = f"{vocabulary['size']:,} tokens, fingerprint {vocabulary['fingerprint'][:16]}…"
    if "states_so_far" in document:
        return rows | schema_rows(document)
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


def schema_rows(document: dict[str, Any]) -> dict[str, str]:
    """What `of_schema` found, for people."""
    rows = {}
    if "layout" in document:
        rows["schema"] = f"{document['subschemas']:,} subschemas, draft {document['draft']}"
        layout = (f"{name} {value}" for name, value in document["layout"].items() if value is not None)
        rows["layout"] = ", ".join(layout)
    rows["states"] = f"{document['states_so_far']:,} so far; the others are made when a text gets there"
    return rows | {f"note {i}": note for i, note in enumerate(document["notes"], 1)}
