"""What the machines of all schemas begin with, made once per process: white space, literals, free strings, numbers and keys.

Most values of most schemas are nothing else, and building these took as long as all the rest of an ordinary schema.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.schema.atoms import FALSE_LITERAL, NULL, NUMBER, STRING, TRUE_LITERAL, Integer
from fsmc.compiler.schema.formula import TRUE, Formulas
from fsmc.compiler.schema.outcomes import Outcomes
from fsmc.compiler.schema.scalar_blocks import ScalarBlocks

N_NAMES = 64
"""The codes of the ends of so many declared names are made ahead."""


class Resident(NamedTuple):
    """rsm, blocks: to be forked. space: the state after the first white space character, or 0."""

    rsm: LazyRSM
    blocks: ScalarBlocks
    space: int


@lru_cache(maxsize=8)
def resident(max_whitespace: int) -> Resident:
    """The beginning of every machine, with this much white space; 0: none."""
    rsm = LazyRSM(_Nothing())
    table = Formulas()
    blocks = ScalarBlocks(rsm, table, Outcomes())
    space = blocks.white_space(max_whitespace) if max_whitespace else 0
    for type_, must in (
        (STRING, TRUE),
        (NUMBER, TRUE),
        (NUMBER, table.atom(Integer())),
        (NULL, TRUE),
        (TRUE_LITERAL, TRUE),
        (FALSE_LITERAL, TRUE),
    ):
        blocks.value(type_, must, ())
    blocks.free_keys()
    blocks.name_exits(N_NAMES)
    rsm.make_room(states=384, edges=6144, actions=256, class_maps=256 * 32, returns=100)
    return Resident(rsm, blocks, space)


class _Nothing:
    """The builder of a machine in which there is nothing left to build."""

    notes = ()

    def build_row(self, state: int) -> None:
        raise AssertionError("all states have been built")

    def build_return(self, frame: int, outcome: int) -> None:
        raise AssertionError("there are no frames")

    def behind_space(self, state: int) -> int:
        return 0

    def record(self, state: int, text: bytes | None) -> int:
        raise AssertionError("there are no frames")
