"""What is still owed to look-aheads: states of their machines, alone and in sets.

A look-ahead that was passed on the way is a promise about the rest of the text. While the text goes on, the promise is a
state of the look-ahead's own minimal DFA, an *obligation*: a language to which the rest must belong. Two obligations are
constants: FALSE, which no rest fulfils, and TRUE, which every rest does. Each has its complement, for negative looks.

A *set* of obligations is a conjunction. Sets are interned (0 is the empty set, BROKEN is no set: it cannot be fulfilled)
and kept small: constants vanish, an obligation and its complement break the set, and one that another of the same look
implies is dropped, without which ``(?:a(?=.{0,10}b)|b|c)*`` would hold every subset of ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.subsets import Limits

FALSE, TRUE = 0, 1
EMPTY, BROKEN = 0, -1
UNKNOWN = -2
"""Entry of a table of sets that has not been asked for yet."""

_ROWS_AHEAD = 100


class Obligations:
    """All obligations of one construction, over symbols 0..n_symbols-1, and the sets of them that have occurred.

    steps: int32[capacity, n_symbols], the set after a symbol, rows of UNKNOWN until `build_steps`; unions: int32[capacity,
    n_alternatives], UNKNOWN until `build_union`. Both are for kernels, and are replaced by larger ones as sets are met.
    """

    def __init__(self, n_symbols: int) -> None:
        self.n_symbols = n_symbols
        self._next = np.repeat(np.array([[FALSE], [TRUE]], np.int32), n_symbols, axis=1)  # obligation × symbol
        self._fulfilled = [False, True]  # by an empty rest
        self._complement = [TRUE, FALSE]
        self._look = [-1, -1]  # number of the look that an obligation stems from
        self._n_looks = 0
        self._implied: dict[tuple[int, int], bool] = {}
        self._sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): EMPTY}
        self._n_built = 1
        self._conjunction = lru_cache(maxsize=None)(lambda *obligations: self.intern(obligations))
        self.alternatives: list[int] = []
        self._alternative_numbers: dict[int, int] = {}
        self.steps = np.full((64, n_symbols), UNKNOWN, np.int32)
        self.steps[EMPTY] = EMPTY
        self.unions = np.empty((64, 0), np.int32)

    @property
    def n_sets(self) -> int:
        """Number of sets interned so far."""
        return len(self._sets)

    @property
    def nbytes(self) -> int:
        """Bytes in the tables."""
        return self.steps.nbytes + self.unions.nbytes + self._next.nbytes

    def add_machine(self, delta: npt.NDArray[np.int32], accepting: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """Take over a minimal total machine, int32[n, n_symbols] and bool[n]; returns its states' obligations, int32[n].

        A state that accepts nothing becomes FALSE, one that accepts everything TRUE.
        """
        n_states = len(delta)
        stays = (delta == np.arange(n_states)[:, None]).all(axis=1)
        first = len(self._complement)
        proper = np.flatnonzero(~stays)
        positive = np.where(accepting, TRUE, FALSE).astype(np.int32)
        negative = np.where(accepting, FALSE, TRUE).astype(np.int32)
        positive[proper] = first + 2 * np.arange(len(proper))
        negative[proper] = positive[proper] + 1
        rows = np.empty((2 * len(proper), self.n_symbols), np.int32)
        rows[0::2] = positive[delta[proper]]
        rows[1::2] = negative[delta[proper]]
        self._next = np.concatenate([self._next, rows])
        for state, obligation in zip(proper.tolist(), positive[proper].tolist(), strict=True):
            self._fulfilled += [bool(accepting[state]), not accepting[state]]
            self._complement += [obligation + 1, obligation]
            self._look += [self._n_looks, self._n_looks]
        self._n_looks += 1
        return positive

    def complement(self, obligation: int) -> int:
        """The obligation that holds exactly where ``obligation`` does not."""
        return self._complement[obligation]

    def intern(self, obligations: Iterable[int]) -> int:
        """Number of the smallest set that says the same as the conjunction of ``obligations``, or BROKEN."""
        kept: list[int] = []
        for one in sorted(set(obligations)):
            if one == FALSE or self._complement[one] in kept:
                return BROKEN
            if one == TRUE or any(self._implies(other, one) for other in kept):
                continue
            kept = [other for other in kept if not self._implies(one, other)]
            kept.append(one)
        key = tuple(kept)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sets)
            self._sets.append(key)
            if number == len(self.steps):
                self.steps = _doubled(self.steps)
                self.unions = _doubled(self.unions)
        return number

    def members(self, number: int) -> tuple[int, ...]:
        """The obligations in a set."""
        return self._sets[number]

    def union(self, a: int, b: int) -> int:
        """Number of the set of all that is in either set, or BROKEN."""
        return self.intern(self._sets[a] + self._sets[b])

    def is_fulfilled(self, number: int) -> bool:
        """Whether the text may end here."""
        return all(self._fulfilled[one] for one in self._sets[number])

    def negate(self, sets: Iterable[int]) -> list[int]:
        """Alternatives that hold exactly where none of the alternatives ``sets`` does."""
        alternatives = [EMPTY]
        for number in sets:
            alternatives = self.weakest(
                self.intern((*self._sets[partial], self._complement[one]))
                for partial in alternatives
                for one in self._sets[number]
            )
        return alternatives

    def weakest(self, sets: Iterable[int]) -> list[int]:
        """The alternatives without those that demand more than another does, in a canonical order."""
        distinct = sorted(set(sets) - {BROKEN})
        members = {number: set(self._sets[number]) for number in distinct}
        return [a for a in distinct if not any(members[b] < members[a] for b in distinct)]

    def build_steps(self, number: int, limits: Limits) -> None:
        """Fill the row of ``steps`` of a set, of those before it, and of some that will be asked for next."""
        for one in range(self._n_built, max(number + 1, min(self.n_sets, self._n_built + _ROWS_AHEAD))):
            if one % _ROWS_AHEAD == 0:  # each row may meet many new sets
                limits.check(self.n_sets, self.nbytes)
            columns = self._next[list(self._sets[one])]
            changes = np.flatnonzero((columns[:, 1:] != columns[:, :-1]).any(axis=0)) + 1
            starts = [0, *changes.tolist()]
            targets = [self._conjunction(*column) for column in columns[:, starts].T.tolist()]
            self.steps[one] = np.repeat(np.array(targets, np.int32), np.diff([*starts, self.n_symbols]))
            self._n_built = one + 1

    def number_alternative(self, number: int) -> int:
        """Column of ``unions`` for a set that guards may add."""
        if number not in self._alternative_numbers:
            self._alternative_numbers[number] = len(self.alternatives)
            self.alternatives.append(number)
            column = np.full((len(self.unions), 1), UNKNOWN, np.int32)
            self.unions = np.ascontiguousarray(np.concatenate([self.unions, column], axis=1))
        return self._alternative_numbers[number]

    def build_union(self, number: int, alternative: int) -> None:
        """Fill one entry of ``unions``."""
        result = self.union(number, self.alternatives[alternative])
        self.unions[number, alternative] = result

    def _implies(self, strong: int, weak: int) -> bool:
        """Whether every rest that fulfils ``strong`` fulfils ``weak``; asked only within one look, else False."""
        if self._look[strong] != self._look[weak]:
            return False
        key = strong, weak
        if key not in self._implied:
            self._implied[key] = self._search_implication(strong, weak)
        return self._implied[key]

    def _search_implication(self, strong: int, weak: int) -> bool:
        seen = {(strong, weak)}
        pending = [(strong, weak)]
        while pending:
            a, b = pending.pop()
            if b == FALSE or a == TRUE or (self._fulfilled[a] and not self._fulfilled[b]):
                return False  # a proper obligation is fulfilled by some rest and not by every rest
            for pair in set(zip(self._next[a].tolist(), self._next[b].tolist(), strict=True)) - seen:
                if pair[0] != FALSE and pair[1] != TRUE and pair[0] != pair[1]:
                    seen.add(pair)
                    pending.append(pair)
        return True


def _doubled(table: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return np.concatenate([table, np.full_like(table, UNKNOWN)])
