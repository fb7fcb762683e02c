"""``fsmc sample``: random texts that match."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from fsmc.cli.grouped import expand
from fsmc.cli.machine import Language
from fsmc.cli.output import JsonOption, UsageError, print_json

if TYPE_CHECKING:
    from fsmc.compiler.automata.lazy_rsm import LazyRSM
    from fsmc.compiler.automata.rsm import RSM

MAX_LENGTH = 32
"""Of a text that matches a pattern, unless another is asked for. Instances of a schema have their own."""


@expand(Language, "language")
def sample_command(
    language: Language,
    pattern: Annotated[str | None, typer.Argument(metavar="PATTERN|INDEX.fsmc", help="What the texts match.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="How many texts.")] = 10,
    max_length: Annotated[
        int | None,
        typer.Option(min=0, help="Length bound, in characters. Of a schema: about where texts begin to end, in bytes."),
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(min=0, help="Objects and arrays inside each other, where the schema leaves a choice.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same texts.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print random texts that match, one a line; of a JSON Schema, random valid instances.

    Of a pattern: a length that occurs, then a text of that length, each equally likely.
    `fsmc sample '[a-f0-9]{2}(:[a-f0-9]{2}){5}' -n 3`, `fsmc sample --schema schema.json`
    """
    from fsmc.compiler.automata.lazy_rsm import LazyRSM
    from fsmc.compiler.automata.rsm import RSM

    machine = language.source(pattern, whitespace="json").machine()
    if isinstance(machine, LazyRSM):
        draw = _instances(machine, max_length, max_depth, seed)
    elif max_depth is not None:
        raise UsageError("--max-depth goes with a schema")
    else:
        assert isinstance(machine, RSM)
        draw = _strings(machine, MAX_LENGTH if max_length is None else max_length, seed)
    texts = (draw() for _ in range(count))
    if as_json:
        print_json({"texts": list(texts)})
    else:
        for text in texts:  # each at once: a reader that has seen enough ends the command
            sys.stdout.buffer.write(f"{text}\n".encode())


def _instances(machine: LazyRSM, max_length: int | None, max_depth: int | None, seed: int | None) -> Callable[[], str]:
    from fsmc.compiler.schema.machine import SchemaMachine
    from fsmc.compiler.schema.sampling import InstanceSampler

    if not isinstance(machine.builder, SchemaMachine):
        raise UsageError("texts can be drawn for patterns, schemas and regular grammars; this machine calls rules")
    bounds = {"max_length": max_length, "max_depth": max_depth}
    return InstanceSampler(machine.builder, seed, **{k: v for k, v in bounds.items() if v is not None}).sample


def _strings(machine: RSM, max_length: int, seed: int | None) -> Callable[[], str]:
    import numpy as np

    from fsmc.compiler.automata.counting import StringCounts

    if not machine.is_regular:
        raise UsageError("this machine calls components, which sampling does not follow")
    strings = StringCounts(machine.to_dfa(), max_length)
    lengths = [length for length, ways in enumerate(strings.counts) if ways]
    if not lengths:
        raise UsageError(f"no matching text has {max_length} characters or fewer: raise --max-length")
    rng = np.random.default_rng(seed)
    return lambda: strings.sample(rng, int(rng.choice(lengths))).decode()
