"""``fsmc sample``: random texts that match."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

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
from fsmc.cli.output import JsonOption, UsageError, print_json


def sample_command(
    pattern: Annotated[str | None, typer.Argument(metavar="PATTERN|INDEX.fsmc", help="What the texts match.")] = None,
    file: FileOption = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="How many texts.")] = 10,
    max_length: Annotated[int, typer.Option(min=0, help="Length bound, in characters.")] = 32,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same texts.")] = None,
    flavor: FlavorOption = "python",
    i: IgnoreCase = False,
    s: DotAll = False,
    m: MultiLine = False,
    x: Verbose = False,
    a: Ascii = False,
    as_json: JsonOption = False,
) -> None:
    """Print random texts that match, one a line: a length that occurs, then a text of that length, each equally likely.

    `fsmc sample '[a-f0-9]{2}(:[a-f0-9]{2}){5}' -n 3`
    """
    import numpy as np

    from fsmc.cli.index_file import read_index_dfa
    from fsmc.compiler.automata.counting import StringCounts

    if names_index(pattern):
        dfa = read_index_dfa(Path(str(pattern)))
    else:
        dfa = Source.read(pattern, file, flavor, {"i": i, "s": s, "m": m, "x": x, "a": a}).to_dfa()
    strings = StringCounts(dfa, max_length)
    lengths = [length for length, ways in enumerate(strings.counts) if ways]
    if count and not lengths:
        raise UsageError(f"no matching text has {max_length} characters or fewer: raise --max-length")
    rng = np.random.default_rng(seed)
    texts = (strings.sample(rng, int(rng.choice(lengths))) for _ in range(count))
    if as_json:
        print_json({"texts": [text.decode() for text in texts]})
    else:
        for text in texts:  # each at once: a reader that has seen enough ends the command
            sys.stdout.buffer.write(text + b"\n")
