"""Regular parts of a grammar: terminals, each a DFA that is made when it is first needed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.determinize import determinize_ranges
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize_ranges
from fsmc.compiler.automata.nfa import NFA, NO_GUARD, thompson
from fsmc.compiler.automata.subsets import Limits
from fsmc.compiler.cfg.nets import SYMBOL, Net
from fsmc.compiler.kept import kept
from fsmc.compiler.syntax.expr import Alternate, Chars, Concat, Expr, Repeat

Bounds = tuple[int, int, float]
"""max_states, max_bytes, max_seconds of each DFA; its time begins when it is made."""


_BYTES_PER_RANGE = 4 * 16
"""Of working memory: a row of four numbers, put together with others, sorted, and copied in order."""


class Terminal:
    """A regular language that is not empty. expr: its tree, or None where only the machine is known."""

    def __init__(self, limits: Bounds, *, expr: Expr | None = None, dfa: DFA | None = None) -> None:
        self.expr, self._limits, self._dfa = expr, limits, dfa

    @property
    def dfa(self) -> DFA:
        """The minimal DFA."""
        if self._dfa is None:
            assert self.expr is not None
            self._dfa = dfa_of(self.expr, self._limits)
        return self._dfa

    @property
    def is_nullable(self) -> bool:
        """Whether the empty text is in it."""
        known = nullable(self.expr) if self.expr is not None else None
        return bool(self.dfa.accepting[self.dfa.start]) if known is None else known


@kept(1 << 27, lambda dfa, *_: 2 * int(dfa.nbytes))
def dfa_of(expr: Expr, limits: Bounds) -> DFA:
    """The minimal DFA of a tree."""
    return minimize_ranges(determinize_ranges(thompson(expr, max_states=limits[0]), Limits(*limits))).to_dfa()


def nullable(expr: Expr) -> bool | None:
    """Whether the empty text matches; None where only the machine can tell."""
    if isinstance(expr, Chars):
        return False
    if isinstance(expr, Concat):
        return _all(map(nullable, expr.parts))
    if isinstance(expr, Alternate):
        found = _all(None if known is None else not known for known in map(nullable, expr.branches))
        return None if found is None else not found
    if isinstance(expr, Repeat):
        return True if expr.minimum == 0 else nullable(expr.body)
    return None


def _all(values: Iterable[bool | None]) -> bool | None:
    answer: bool | None = True
    for value in values:
        if value is False:
            return False
        if value is None:
            answer = None
    return answer


def net_to_dfa(net: Net, terminals: dict[int, Terminal], limits: Bounds) -> DFA:
    """The minimal DFA of a net whose letters are bytes and terminals only. Raises LimitExceeded, also for what is written out on the way."""
    within = Limits(*limits)
    edges: list[npt.NDArray[np.int32]] = []
    ranges_of: dict[int, npt.NDArray[np.int32]] = {}
    n_ranges = 0
    epsilons: list[tuple[int, int]] = []
    n = len(net.rows)
    rows: list[tuple[int, int, int, int]] = []
    for place, row in enumerate(net.rows):
        for letter, target in row.items():
            if letter < SYMBOL:
                rows.append((place, letter, letter, target))
                continue
            dfa = terminals[letter - SYMBOL].dfa
            if letter not in ranges_of:
                ranges_of[letter] = _ranges(dfa)
            ranges = ranges_of[letter]
            n_ranges += len(ranges)
            within.check(n + dfa.n_states, n_ranges * _BYTES_PER_RANGE)
            edges.append(ranges + np.array([n, 0, 0, n], np.int32))
            epsilons.append((place, n + dfa.start))
            epsilons += [(n + int(state), target) for state in np.flatnonzero(dfa.accepting)]
            n += dfa.n_states
    epsilons += [(place, n) for place, is_final in enumerate(net.final) if is_final]
    edges.append(np.array(rows, np.int32).reshape(-1, 4))
    table = np.concatenate(edges)
    table = np.ascontiguousarray(table[np.lexsort((table[:, 1], table[:, 0]))])
    skips = np.array([(*pair, NO_GUARD) for pair in sorted(epsilons)], np.int32).reshape(-1, 3)
    table.setflags(write=False)
    skips.setflags(write=False)
    return minimize_ranges(determinize_ranges(NFA(table, skips, n + 1), within)).to_dfa()


def _ranges(dfa: DFA) -> npt.NDArray[np.int32]:
    """The transitions as rows (source, low byte, high byte, target)."""
    rows = dfa.delta[:, dfa.byte_class]
    starts = np.ones(rows.shape, bool)
    starts[:, 1:] = rows[:, 1:] != rows[:, :-1]
    source, low = np.nonzero(starts)
    high = np.append(low[1:], 256) - 1
    high = np.where(np.append(source[1:] != source[:-1], True), 255, high)
    target = rows[source, low]
    table: npt.NDArray[np.int32] = np.stack([source, low, high, target], axis=1).astype(np.int32)[target != 0]
    return table
