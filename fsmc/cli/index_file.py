"""Reading index files without their tokenizer: enough to look inside, match and sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fsmc.cli.output import UsageError

if TYPE_CHECKING:
    from fsmc.compiler.automata.dfa import DFA
    from fsmc.compiler.automata.rsm import RSM
    from fsmc.compiler.tokens.token_index import TokenIndex


@dataclass(frozen=True, slots=True)
class IndexFile:
    """What an index file holds; ``index`` is None if it was saved without masks."""

    machine: RSM
    index: TokenIndex | None
    metadata: dict[str, str]
    file_bytes: int


def read_index_file(path: Path) -> IndexFile:
    """The parts of an index file, checked. Raises IndexFileError."""
    from fsmc.compiler.pipeline import read_parts

    machine, index, metadata = read_parts(path)
    return IndexFile(machine, index, metadata, path.stat().st_size)


def read_index_dfa(path: Path) -> DFA:
    """The machine of an index file as a plain DFA; UsageError if it has calls."""
    machine = read_index_file(path).machine
    if not machine.is_regular:
        raise UsageError(f"{path}: its machine calls components, which this command does not follow")
    return machine.to_dfa()
