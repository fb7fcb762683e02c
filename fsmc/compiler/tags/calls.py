"""The language of a structural tag: a DFA in which schemas and grammars are called by letters (see language.py), which machine.py replaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.errors import EmptyLanguageError
from fsmc.compiler.tags.embedded import Embedded
from fsmc.compiler.tags.free_text import CALL
from fsmc.compiler.tags.tree import Schema


@dataclass(frozen=True, slots=True)
class TagLanguage:
    """dfa: with letters for special tokens and calls; calls: what these call. nothing: of parts that have no text, why; no text goes there."""

    dfa: DFA
    calls: tuple[Schema | Embedded, ...]
    nothing: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Which parts have no text, and why, each in a line."""
        return tuple(why.splitlines()[0] for why in self.nothing)

    def without(self, reasons: Mapping[int, str]) -> TagLanguage:
        """The language without the calls of these numbers, which have no text. Raises EmptyLanguageError if nothing is left."""
        if not reasons:
            return self
        rows = self.dfa.delta[:, self.dfa.byte_class]
        rows[rows == DEAD] = -1
        for state in np.flatnonzero(rows[:, CALL] > 0).tolist():
            first = int(rows[state, CALL])
            for number in reasons:
                second = int(rows[first, number >> 7])
                if second > 0:
                    rows[second, number & 127] = -1
        dfa = minimize(DFA.from_arrays(np.arange(256), rows, self.dfa.accepting, self.dfa.start))
        return TagLanguage(dfa, self.calls, (*self.nothing, *reasons.values())).checked()

    def checked(self) -> TagLanguage:
        """Itself. Raises EmptyLanguageError if it has no text."""
        if self.dfa.is_empty:
            raise EmptyLanguageError(self.nothing[0] if self.nothing else "the structural tag allows no text at all")
        return self


def calls_in(dfa: DFA) -> Iterator[tuple[int, int, int]]:
    """(state, number of a schema, state after it) for each call in the language's DFA."""
    column = dfa.delta[:, dfa.byte_class]
    for state in np.flatnonzero(column[:, CALL]).tolist():
        first = column[column[state, CALL]]
        for high in np.flatnonzero(first).tolist():
            second = column[first[high]]
            for low in np.flatnonzero(second).tolist():
                yield state, high << 7 | low, int(second[low])
