"""Random machines over a few characters as plain tables, which decide membership without any code under test."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.edges import text_nfa
from fsmc.compiler.syntax.charclass import CharClass

CHARACTERS = "aé☃"
"""One, two and three bytes long: the symbols of the machines of text."""

Word = tuple[int, ...]


@dataclass(frozen=True)
class PlainMachine:
    """A partial DFA: ``table[state][symbol]`` is the next state or -1; the start is 0."""

    table: tuple[tuple[int, ...], ...]
    accepting: tuple[bool, ...]

    def run(self, word: Word, state: int = 0) -> int:
        for symbol in word:
            if state >= 0:
                state = self.table[state][symbol]
        return state

    def accepts(self, word: Word) -> bool:
        state = self.run(word)
        return state >= 0 and self.accepting[state]

    def words(self, max_length: int) -> set[Word]:
        """All accepted words up to ``max_length``."""
        return {word for word in all_words(max_length) if self.accepts(word)}

    def to_dfa(self) -> DFA:
        """The same over text: symbol i is character i."""
        steps = [
            (state, CharClass.of(CHARACTERS[symbol]), target)
            for state, row in enumerate(self.table)
            for symbol, target in enumerate(row)
            if target >= 0
        ]
        accepting = [state for state, final in enumerate(self.accepting) if final]
        return determinize(text_nfa(steps, len(self.table), start=0, accepting=accepting))

    def to_byte_dfa(self) -> DFA:
        """The same over single bytes: symbol i is byte ``b"a\\x80\\xff"[i]``."""
        byte_class = np.full(256, len(CHARACTERS))
        byte_class[list(b"a\x80\xff")] = range(len(CHARACTERS))
        delta = [[*row, -1] for row in self.table]
        return DFA.from_arrays(byte_class, delta, np.array(self.accepting), start=0)


def all_words(max_length: int) -> list[Word]:
    return [word for n in range(max_length + 1) for word in product(range(len(CHARACTERS)), repeat=n)]


def text(word: Word) -> bytes:
    """The word as UTF-8."""
    return "".join(CHARACTERS[symbol] for symbol in word).encode()


@st.composite
def plain_machines(draw: st.DrawFn, max_states: int = 5) -> PlainMachine:
    n = draw(st.integers(1, max_states))
    target = st.integers(-1, n - 1)
    table = tuple(tuple(draw(target) for _ in CHARACTERS) for _ in range(n))
    return PlainMachine(table, tuple(draw(st.booleans()) for _ in range(n)))
