"""Strings of bounded length: a machine over content, run with a counter, without their product.

A state is (state of the machine, characters so far). Rows are made for a block of counts at a time, when a text gets
there; a bound of 100,000 costs what is walked. An edge exists only if from its target some accepted text has a length
that keeps the whole within the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.json_text import escape_json
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA

BLOCK = 32
MAX_LENGTH_BITS = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """For each state, how many characters an accepted rest can have.

    ``reach`` bool[n_states, known]: whether a rest of so many characters exists. ``always`` bool[n_states]: whether every
    length >= ``known`` exists; where it is False, none does (or the bound is below).
    """

    reach: npt.NDArray[np.bool_]
    always: npt.NDArray[np.bool_]

    def possible(self, low: int, high: int) -> npt.NDArray[np.bool_]:
        """bool[n_states]: whether some rest has between ``low`` and ``high`` characters."""
        known = self.reach.shape[1]
        if high < 0:
            return np.zeros(len(self.reach), np.bool_)
        found = self.reach[:, max(low, 0) : high + 1].any(axis=1)
        return found | self.always if high >= known else found


def ends_character(dfa: OutcomeDFA, n_content: int) -> npt.NDArray[np.bool_]:
    """bool[n_states]: the states of `escape_json`'s machine in which a character has just ended (or none begun).

    n_content: states of the machine over content it was made from; those after them stand inside an escape. Inside a UTF-8
    sequence only continuation bytes lead on.
    """
    live = dfa.delta[:, dfa.byte_class] != 0
    whole = live[:, :0x80].any(axis=1) | live[:, 0xC0:].any(axis=1) | (dfa.outcome >= 0)
    whole[n_content:] = False
    return whole


def longest_rests(dfa: OutcomeDFA, whole: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """float64[n_states]: the most characters that an accepted rest has, inf where there is no bound, -inf for DEAD."""
    source, column = np.nonzero(dfa.delta)
    target = dfa.delta[source, column]
    longest = np.where(dfa.outcome >= 0, 0.0, -np.inf)
    endless = np.ones(dfa.n_states, np.bool_)  # until peeled off: a state with an endless successor, or on a cycle
    while True:
        after = np.zeros(dfa.n_states, np.bool_)
        after[source[endless[target]]] = True
        if (after == endless).all():
            break
        endless = after
    longest[endless] = np.inf
    while True:
        better = longest.copy()
        np.maximum.at(better, source, longest[target] + whole[target])
        if (better == longest).all():
            return longest
        longest = better


def lengths_of(dfa: OutcomeDFA, whole: npt.NDArray[np.bool_], maximum: int) -> Lengths:
    """The lengths of accepted rests, as far as they matter for texts of at most ``maximum`` characters.

    Length by length: a rest of k + 1 characters begins with one character that leads to a state with a rest of k. When the
    last half of what was computed holds every length for a state, so does what follows (its loop is one character long).
    """
    n = dfa.n_states
    source, column = np.nonzero(dfa.delta)
    target = dfa.delta[source, column]
    known = min(4 * int(whole.sum()) + 64, maximum + 1)
    while True:
        reach = np.zeros((n, known), np.bool_)
        reach[:, 0] = dfa.outcome >= 0
        _within(reach, 0, source, target, whole)
        for k in range(1, known):
            step = whole[target] & reach[target, k - 1]
            reach[source[step], k] = True
            _within(reach, k, source, target, whole)
        always = reach[:, known // 2 :].all(axis=1)
        settled = always | ~reach[:, known // 2 :].any(axis=1)
        if settled.all() or known == maximum + 1:
            return Lengths(reach, always)
        if known * n > MAX_LENGTH_BITS:
            raise LimitExceeded("max_length_bits", MAX_LENGTH_BITS, known * n, "pattern and length bound together")
        known = min(4 * known, maximum + 1)


def _within(
    reach: npt.NDArray[np.bool_],
    k: int,
    source: npt.NDArray[np.int64],
    target: npt.NDArray[np.int32],
    whole: npt.NDArray[np.bool_],
) -> None:
    """States inside a character have the lengths of where it ends; a few bytes at most lie between."""
    inner = ~whole[target]
    while True:
        new = inner & reach[target, k] & ~reach[source, k]
        if not new.any():
            return
        reach[source[new], k] = True


class CountedString:
    """The strings whose content ``content`` accepts and that have ``minimum`` to ``maximum`` characters (None: any more).

    ``dfa`` is the machine over their JSON text, without the count.
    """

    def __init__(self, content: OutcomeDFA, minimum: int, maximum: int | None) -> None:
        self.dfa, self.minimum, self.maximum = escape_json(content), minimum, maximum
        self.whole = ends_character(self.dfa, content.n_states)
        self.lengths = None if maximum is None else lengths_of(self.dfa, self.whole, maximum)
        self.longest = longest_rests(self.dfa, self.whole) if maximum is None else None

    @property
    def satisfiable(self) -> bool:
        """Whether there is such a string."""
        return self.fits(0)[self.dfa.start].item()

    def fits(self, count: int) -> npt.NDArray[np.bool_]:
        """bool[n_states]: whether a text with ``count`` characters so far can be completed from each state."""
        if self.lengths is None or self.maximum is None:
            assert self.longest is not None
            fits: npt.NDArray[np.bool_] = self.longest >= max(self.minimum - count, 0)
            return fits
        return self.lengths.possible(self.minimum - count, self.maximum - count)

    def next_count(self, count: int) -> int:
        """The count after one more character: without a maximum, all counts from the minimum on are one."""
        return count + 1 if self.maximum is not None else min(count + 1, self.minimum)

    def rows(self, count: int, here: int, there: int) -> npt.NDArray[np.int32]:
        """int32[n_states, n_classes]: the edges at one count; state q is ``here + q``, with the next count ``there + q``."""
        delta = self.dfa.delta
        after = self.fits(self.next_count(count))
        now = self.fits(count)
        target = np.where(self.whole, np.arange(len(delta)) + there, np.arange(len(delta)) + here)
        target = np.where(np.where(self.whole, after, now), target, 0).astype(np.int32)
        target[0] = 0
        return target[delta]

    def may_end(self, count: int) -> bool:
        """Whether a text of so many characters is long enough."""
        return count >= self.minimum
