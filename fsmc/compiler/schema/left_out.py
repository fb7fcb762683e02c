"""Components without some of their texts: items that have to differ from those written before.

Multiplied out, each item's machine would be made anew and be as large as all texts left out. So a state is one of the component's own
with what is left of those texts there; behind any other text it *is* the component's own, which all items share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fsmc.compiler.automata.counting import count_strings, is_finite
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.schema.atoms import NumEnum, StrEnum
from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA


def split_left_out(formula: int, table: Formulas) -> tuple[int, frozenset[object]]:
    """A string or number formula as (what else it says, the values that it leaves out).

    >>> table = Formulas()
    >>> other, out = table.atom("other"), table.atom(StrEnum(frozenset({"a"})))
    >>> split_left_out(table.conj([other, table.negate(out)]), table) == (other, {"a"})
    True
    """
    out: set[object] = set()
    rest = []
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if literal and not literal[1] and isinstance(payload, (StrEnum, NumEnum)):
            out |= payload.values
        else:
            rest.append(part)
    return table.conj(rest), frozenset(out)


class MoreTexts:
    """Whether the texts from a state of a machine are more than some given ones.

    >>> from fsmc.compiler.schema.word_machine import word_machine
    >>> more = MoreTexts(word_machine({b"a": 0, b"b": 0}, ((),)))
    >>> start = more.dfa.start
    >>> more.than(start, frozenset([b"a", b"c"])), more.than(start, frozenset([b"a", b"b"]))
    (True, False)
    """

    def __init__(self, dfa: OutcomeDFA) -> None:
        self.dfa = dfa
        self._number: dict[int, int | None] = {}

    def step(self, state: int, byte: int) -> int:
        """The state after one more byte; 0 if no text goes on so."""
        return int(self.dfa.delta[state, self.dfa.byte_class[byte]])

    def than(self, state: int, texts: frozenset[bytes]) -> bool:
        """Whether some text goes on from the state otherwise than by one of ``texts``."""
        if not state or not texts:
            return bool(state)
        if state not in self._number:
            edges = np.where(self.dfa.delta > 0, self.dfa.delta, -1)
            dfa = DFA.from_arrays(self.dfa.byte_class, edges, self.dfa.outcome >= 0, state)
            self._number[state] = sum(count_strings(dfa, dfa.n_states, unit="bytes")) if is_finite(dfa) else None
        number = self._number[state]
        return number is None or number > sum(self._accepts(state, text) for text in texts)

    def _accepts(self, state: int, text: bytes) -> bool:
        for byte in text:
            state = self.step(state, byte)
        return bool(self.dfa.outcome[state] >= 0)


def by_first_byte(texts: Iterable[bytes]) -> dict[int, list[bytes]]:
    """First byte → what is left of the texts that begin with it; the empty text is left out."""
    found: dict[int, list[bytes]] = {}
    for text in texts:
        if text:
            found.setdefault(text[0], []).append(text[1:])
    return found


@dataclass(frozen=True, slots=True)
class WithoutTexts:
    """The key of a state: of a component, with what is left of the texts that must not come."""

    component: SharedComponent
    state: int
    texts: frozenset[bytes]

    def build(self, number: int) -> None:
        """Make the row."""
        self.component.build(number, self)


class SharedComponent:
    """A component in the machine, ``offset`` after the states of ``dfa``, from which texts can be left out."""

    def __init__(self, rsm: LazyRSM, dfa: OutcomeDFA, offset: int) -> None:
        self.rsm, self.dfa, self.offset = rsm, dfa, offset
        self._more = MoreTexts(dfa)

    def without(self, state: int, texts: Iterable[bytes]) -> int:
        """The number of a state with these texts left out; 0 if nothing else may come."""
        out = frozenset(texts)
        if not self._more.than(state, out):
            return 0
        return self.rsm.new_state(WithoutTexts(self, state, out)) if out else self.offset + state

    def build(self, number: int, key: WithoutTexts) -> None:
        """Make the row of a state."""
        row, final = self.rsm.row(self.offset + key.state).copy(), self.rsm.final(self.offset + key.state)
        if b"" in key.texts:
            row[row < 0], final = 0, -1  # exits
        for byte, rest in by_first_byte(key.texts).items():
            row[byte] = self.without(self._more.step(key.state, byte), rest)
        codes, byte_class = np.unique(row, return_inverse=True)
        self.rsm.set_row(number, self.rsm.class_map(byte_class.astype(np.uint8)), codes, final)
