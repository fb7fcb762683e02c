"""``fsmc compile``: a pattern and a tokenizer in, an index file with the mask of every state out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsmc.cli.machine import (
    INDEX_SUFFIX,
    Ascii,
    DotAll,
    FileOption,
    FlavorOption,
    IgnoreCase,
    MaxSeconds,
    MaxStates,
    MultiLine,
    Source,
    Verbose,
)
from fsmc.cli.output import JsonOption, Stages, UsageError, print_json, print_table, stages

if TYPE_CHECKING:
    from fsmc.compiler.pipeline import CompiledGrammar


def compile_command(
    tokenizer: Annotated[
        Path,
        typer.Option(
            "--tokenizer", "-t", help="tokenizer.json, tekken.json, tiktoken ranks, a SentencePiece model, or a folder."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help=f"The index file to write (*{INDEX_SUFFIX}).")],
    pattern: Annotated[str | None, typer.Argument(help="A regular expression.")] = None,
    file: FileOption = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=1, help="Width of the model's logits, where they are padded.")
    ] = None,
    flavor: FlavorOption = "python",
    i: IgnoreCase = False,
    s: DotAll = False,
    m: MultiLine = False,
    x: Verbose = False,
    a: Ascii = False,
    max_states: MaxStates = None,
    max_seconds: MaxSeconds = None,
    use_cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Use the disk cache.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Compile a pattern for a tokenizer into an index file: the machine and the mask of every state.

    `fsmc compile '[0-9]{4}-[0-9]{2}-[0-9]{2}' -t tokenizer.json -o date.fsmc`
    """
    if output.suffix != INDEX_SUFFIX:
        raise UsageError(f"the index file's name must end in {INDEX_SUFFIX}, so that other commands know it: {output}")
    source = Source.read(pattern, file, flavor, {"i": i, "s": s, "m": m, "x": x, "a": a})
    limits = {"max_states": max_states, "max_seconds": max_seconds}
    with stages() as progress:
        grammar, seconds = _compile(source, tokenizer, vocab_size, limits, use_cache, progress)
        progress.start("writing")
        grammar.save(output)
    document = summary(grammar, output, seconds)
    if as_json:
        print_json(document)
    else:
        print_table(f"{output}", as_rows(document))


def _compile(
    source: Source,
    tokenizer: Path,
    vocab_size: int | None,
    limits: dict[str, Any],
    use_cache: bool,
    progress: Stages,
) -> tuple[CompiledGrammar, dict[str, float]]:
    """The grammar with its whole index, and the seconds of each stage."""
    began: dict[str, float] = {}

    def stage(name: str, title: str) -> None:
        began[name] = time.perf_counter()
        progress.start(title)

    stage("load", "loading")
    from fsmc.compiler.pipeline import GrammarCompiler
    from fsmc.compiler.tokens.trie import trie_of
    from fsmc.compiler.tokens.vocabulary import Vocabulary

    stage("vocabulary", "reading the tokenizer")
    vocabulary = Vocabulary.from_file(tokenizer, vocab_size=vocab_size)
    stage("trie", "token trie")
    trie_of(vocabulary)
    stage("compile", "pattern to machine")
    given = {name: value for name, value in limits.items() if value is not None}
    compiler = GrammarCompiler(vocabulary, cache_dir="user" if use_cache else None, **given)
    grammar = compiler.compile_regex(source.pattern, flavor=source.flavor, flags=source.flags)
    stage("masks", "masks")
    grammar.build_index(progress.advance)
    stage("end", "done")
    seconds = {
        name: after - before for (name, before), after in zip(began.items(), [*began.values()][1:], strict=False)
    }
    compile_seconds, mask_seconds = seconds.pop("compile"), seconds.pop("masks")
    if grammar.stats.from_cache:
        return grammar, {**seconds, "from cache": compile_seconds}
    return grammar, {**seconds, **grammar.stats.seconds, "masks": mask_seconds}


def summary(grammar: CompiledGrammar, output: Path, seconds: dict[str, float]) -> dict[str, Any]:
    """What was made, in numbers."""
    index, stats = grammar.build_index(), grammar.stats
    return {
        "file": str(output),
        "file_bytes": output.stat().st_size,
        "source": grammar.source,
        "vocabulary": {"size": grammar.vocab.size, "fingerprint": grammar.vocab.fingerprint},
        "nfa_states": stats.nfa_states,
        "states_before_minimizing": stats.raw_states,
        "states": stats.states,
        "byte_classes": stats.byte_classes,
        "distinct_masks": index.n_rows,
        "mask_bytes": index.nbytes,
        "forced_share": grammar.jump_map.forced_share,
        "from_cache": stats.from_cache,
        "seconds": seconds,
    }


def as_rows(document: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    return {
        "states": f"{document['states']:,} ({document['states_before_minimizing']:,} before minimizing, "
        f"{document['nfa_states']:,} in the NFA)",
        "byte classes": f"{document['byte_classes']}",
        "distinct masks": f"{document['distinct_masks']:,} over {document['vocabulary']['size']:,} tokens",
        "forced states": f"{document['forced_share']:.0%}",
        "bytes": f"{document['mask_bytes']:,} of masks, {document['file_bytes']:,} in the file",
        "seconds": ", ".join(f"{name} {value:.3f}" for name, value in document["seconds"].items())
        + f"; together {sum(document['seconds'].values()):.3f}",
    }
