"""``fsmc compile``: a pattern and a tokenizer in, an index file with the mask of every state out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsmc.cli.generate import model_vocabulary
from fsmc.cli.grouped import expand
from fsmc.cli.inspect import of_schema, schema_rows
from fsmc.cli.machine import (
    INDEX_SUFFIX,
    ChoiceSource,
    GrammarSource,
    IndexSource,
    Language,
    RequestSource,
    SchemaSource,
    Source,
)
from fsmc.cli.output import JsonOption, MissingError, Stages, UsageError, print_json, print_table, stages
from fsmc.cli.tokenizer import EosIds, VocabSize, refuse_for_models

if TYPE_CHECKING:
    from fsmc.compiler.grammar import CompiledGrammar
    from fsmc.compiler.tokens.vocabulary import Vocabulary


@expand(Language, "language")
def compile_command(
    language: Language,
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer",
            "-t",
            help="tokenizer.json, tekken.json, tiktoken ranks, a SentencePiece model, a folder; or the model that generate "
            "will be given: a .gguf file, or 'smollm2' (converted and kept in the cache folder).",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help=f"The index file to write (*{INDEX_SUFFIX}), or the folder for many.")
    ],
    pattern: Annotated[
        str | None, typer.Argument(help="A regular expression; or a folder, whose files are all compiled.")
    ] = None,
    vocab_size: VocabSize = None,
    eos: EosIds = None,
    use_cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Use the disk cache.")] = True,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", "-p", min=1, help="Of a folder: in so many processes (default: half of the processors)."
        ),
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Of a folder: as tasks of a Ray cluster.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compile a pattern for a tokenizer into an index file: the machine and the mask of every state.

    Of a JSON Schema the file holds the schema, checked, and its layout: the machine is made as texts walk through it.
    `fsmc compile '[0-9]{4}-[0-9]{2}-[0-9]{2}' -t tokenizer.json -o date.fsmc`,
    `fsmc compile --schema schema.json -t tokenizer.json -o schema.fsmc`

    Of a folder every .json (a schema), .regex, .ebnf, .gbnf, .lark, .tag.json and .choice.json is compiled, in several processes,
    into a folder of index files with a manifest; run again, it goes on where it was stopped.
    `fsmc compile schemas/ -t tokenizer.json -o indexes/`
    """
    from fsmc.compiler.automata.rsm import RSM

    if pattern is not None and output.suffix != INDEX_SUFFIX and Path(pattern).is_dir():
        from fsmc.cli.compile_folder import compile_folder

        options, vocab = language.folder_layout(), _vocabulary(tokenizer, vocab_size, eos)
        compile_folder(Path(pattern), output, vocab, options, n_processes=processes, ray=ray, as_json=as_json)
        return
    if processes is not None or ray:
        raise UsageError("--processes and --ray go with a folder of files, and a folder to write to (-o)")
    if output.suffix != INDEX_SUFFIX:
        raise UsageError(f"the index file's name must end in {INDEX_SUFFIX}, so that other commands know it: {output}")
    if not output.parent.is_dir():
        raise MissingError(f"{output.parent}: there is no such folder")
    source = language.source(pattern)
    if isinstance(source, IndexSource):
        raise UsageError(f"{pattern} is an index file: it is compiled already")
    with stages() as progress:
        grammar, seconds = _compile(source, lambda: _vocabulary(tokenizer, vocab_size, eos), use_cache, progress)
        progress.start("writing")
        grammar.save(output)
    if not grammar.vocab.eos_token_ids:
        sys.stderr.write(
            f"warning: no token is known to end a text: {tokenizer} names none, nor does a file beside it; name it by its id "
            "with --eos\n"
        )
    document = summary(grammar, output, seconds)
    if isinstance(grammar.machine, RSM):
        document |= of_pattern(grammar)
        rows = pattern_rows(document)
    else:
        document |= of_schema(grammar.machine)
        rows = schema_rows(document) | {"bytes": f"{document['file_bytes']:,} in the file"}
    if as_json:
        print_json(document)
    else:
        print_table(f"{output}", rows | {"seconds": shown_seconds(document)})


def _compile(
    source: Source | SchemaSource | ChoiceSource | RequestSource | GrammarSource,
    read_vocabulary: Callable[[], Vocabulary],
    use_cache: bool,
    progress: Stages,
) -> tuple[CompiledGrammar, dict[str, float]]:
    """The grammar, of a pattern with its whole index, and the seconds of each stage."""
    began: dict[str, float] = {}

    def stage(name: str, title: str) -> None:
        began[name] = time.perf_counter()
        progress.start(title)

    stage("load", "loading")
    from fsmc.compiler.tokens.trie import trie_of

    stage("vocabulary", "reading the tokenizer")
    vocabulary = read_vocabulary()
    stage("trie", "token trie")
    trie_of(vocabulary)
    stage("compile", "pattern to machine")
    grammar = source.compile(vocabulary, cache=use_cache)
    stage("masks", "masks")
    if grammar.dfa is not None:
        grammar.build_index(progress.advance)
    else:
        fill_first_mask(grammar)
    stage("end", "done")
    seconds = {
        name: after - before for (name, before), after in zip(began.items(), [*began.values()][1:], strict=False)
    }
    compile_seconds, mask_seconds = seconds.pop("compile"), seconds.pop("masks")
    if grammar.stats.from_cache:
        return grammar, {**seconds, "from cache": compile_seconds}
    masks = "masks" if grammar.dfa is not None else "first mask"
    return grammar, {**seconds, **grammar.stats.seconds, masks: mask_seconds}


def _vocabulary(tokenizer: str, vocab_size: int | None, eos: list[int] | None) -> Vocabulary:
    """Of a tokenizer's file or folder, or of a model."""
    from fsmc.compiler.tokens.vocabulary import Vocabulary
    from fsmc.runtime.model_files import SMOLLM2

    if tokenizer != SMOLLM2 and not tokenizer.endswith(".gguf"):
        return Vocabulary.from_file(tokenizer, vocab_size=vocab_size, eos_token_ids=eos or None)
    refuse_for_models(tokenizer, vocab_size, eos)
    return model_vocabulary(tokenizer)


def fill_first_mask(grammar: CompiledGrammar) -> None:
    """Do what a generation has to wait for before its first token."""
    from fsmc.runtime.bitmask import allocate_token_bitmask
    from fsmc.runtime.matcher import GrammarMatcher

    GrammarMatcher(grammar).fill_next_token_bitmask(allocate_token_bitmask(1, grammar.vocab.size))


def summary(grammar: CompiledGrammar, output: Path, seconds: dict[str, float]) -> dict[str, Any]:
    """What was made."""
    return {
        "file": str(output),
        "file_bytes": output.stat().st_size,
        "source": grammar.source,
        "vocabulary": {"size": grammar.vocab.size, "fingerprint": grammar.vocab.fingerprint},
        "from_cache": grammar.stats.from_cache,
        "seconds": seconds,
    }


def of_pattern(grammar: CompiledGrammar) -> dict[str, Any]:
    """The figures of a machine with its whole index."""
    index, stats = grammar.build_index(), grammar.stats
    return {
        "nfa_states": stats.nfa_states,
        "states_before_minimizing": stats.raw_states,
        "states": stats.states,
        "byte_classes": stats.byte_classes,
        "distinct_masks": index.n_rows,
        "mask_bytes": index.nbytes,
        "forced_share": grammar.jump_map.forced_share,
    }


def pattern_rows(document: dict[str, Any]) -> dict[str, str]:
    """The same for people."""
    return {
        "states": f"{document['states']:,} ({document['states_before_minimizing']:,} before minimizing, "
        f"{document['nfa_states']:,} in the NFA)",
        "byte classes": f"{document['byte_classes']}",
        "distinct masks": f"{document['distinct_masks']:,} over {document['vocabulary']['size']:,} tokens",
        "forced states": f"{document['forced_share']:.0%}",
        "bytes": f"{document['mask_bytes']:,} of masks, {document['file_bytes']:,} in the file",
    }


def shown_seconds(document: dict[str, Any]) -> str:
    """How long each stage took."""
    stages = ", ".join(f"{name} {value:.3f}" for name, value in document["seconds"].items())
    return f"{stages}; together {sum(document['seconds'].values()):.3f}"
