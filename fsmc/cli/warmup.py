"""``fsmc warmup``: have every kernel compiled before anybody waits for one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fsmc.cli.output import JsonOption, print_json, stages


def warmup_command(
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", "-t", help="Also read this tokenizer, and say what it and its token trie take."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compile all kernels, once on this machine, on two cores; where they are on disk this takes a second."""
    from fsmc.kernels import compile_kernels, listed_kernels

    began = time.perf_counter()
    lines = listed_kernels()
    with stages() as shown:
        shown.start("compiling kernels")
        for done, line in enumerate(lines):
            shown.advance(done, len(lines))
            compile_kernels([line])
        shown.advance(len(lines), len(lines))
        seconds = {"kernels": time.perf_counter() - began}
        if tokenizer is not None:
            import fsmc
            from fsmc.compiler.tokens.trie import TokenTrie

            shown.start("reading the tokenizer")
            began = time.perf_counter()
            vocab = fsmc.Vocabulary.from_file(Path(tokenizer))
            seconds["tokenizer"] = time.perf_counter() - began
            began = time.perf_counter()
            TokenTrie.build(vocab)
            seconds["trie"] = time.perf_counter() - began
    if as_json:
        print_json({"kernels": len(lines), "seconds": seconds})
    else:
        took = ", ".join(f"{name} {second:.1f} s" for name, second in seconds.items())
        typer.echo(f"{len(lines)} kernels are on disk ({took})")
