"""Strings of bounded length: a machine over content, run with a counter, without their product.

A state is (state of the machine, characters so far). Rows are made for a block of counts at a time, when a text gets
there; a bound of 100,000 costs what is walked. An edge exists only if from its target some accepted text has a length
that keeps the whole within the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.byte_groups import loop_groups
from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.tables import FOREVER
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.json_text import escape_json
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.jit import kernel

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
        found = np.any(self.reach[:, max(low, 0) : high + 1], axis=1)
        return np.logical_or(found, self.always) if high >= known else found


def ends_character(dfa: OutcomeDFA, n_content: int) -> npt.NDArray[np.bool_]:
    """bool[n_states]: the states of `escape_json`'s machine in which a character has just ended (or none begun).

    n_content: states of the machine over content it was made from; those after them stand inside an escape. Inside a UTF-8
    sequence only continuation bytes lead on.
    """
    live = dfa.delta[:, dfa.byte_class] != 0
    begins = np.concatenate((live[:, :0x80], live[:, 0xC0:]), axis=1)
    whole: npt.NDArray[np.bool_] = np.logical_or(np.any(begins, axis=1), dfa.outcome >= 0)
    whole[n_content:] = False
    return whole


def pairs_of(dfa: OutcomeDFA) -> npt.NDArray[np.int64]:
    """int64, sorted: ``source * n_states + target`` of each pair of states that an edge joins, once."""
    source, column = np.nonzero(dfa.delta)
    pairs: npt.NDArray[np.int64] = np.unique(source * dfa.n_states + dfa.delta[source, column])
    return pairs


def longest_rests(
    dfa: OutcomeDFA, whole: npt.NDArray[np.bool_], pairs: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """float64[n_states]: the most characters that an accepted rest has, inf where there is no bound, -inf for DEAD."""
    source, target = pairs // dfa.n_states, pairs % dfa.n_states
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


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What counting the characters of strings asks about the machine over them, whatever the bounds are.

    dfa: over their JSON text. whole: see `ends_character`. pairs: see `pairs_of`. enough, longest: see `_all_lengths_from`,
    `longest_rests`. loops: groups of single characters that lead back to a state (see `loop_groups`).
    """

    dfa: OutcomeDFA
    whole: npt.NDArray[np.bool_]
    pairs: npt.NDArray[np.int64]
    enough: npt.NDArray[np.float64]
    longest: npt.NDArray[np.float64]
    loops: npt.NDArray[np.int64]
    _lengths: dict[int, Lengths] = field(default_factory=dict)

    def lengths(self, maximum: int) -> Lengths:
        """The lengths of accepted rests, as far as they matter for texts of at most ``maximum`` characters.

        From a state that one character leads back to itself, every length from its shortest rest on is possible; so it is, from
        some length on, for whatever reaches such a state. Only shorter rests, and those of other states, are counted out.
        """
        n = self.dfa.n_states
        known = np.minimum(self.enough, self.longest)  # inf: neither a bound nor such a loop
        known[0] = 0
        n_known = int(min(known.max() + 1, maximum + 1))
        if n_known * n > MAX_LENGTH_BITS:
            raise LimitExceeded("max_length_bits", MAX_LENGTH_BITS, n_known * n, "pattern and length bound together")
        lengths = self._lengths.get(n_known)
        if lengths is None:
            by_length = np.zeros((n_known, n), np.bool_)
            ends = self.whole[self.pairs % n]
            _reach_lengths(self.pairs[ends], self.pairs[~ends], self.dfa.outcome, by_length)
            lengths = self._lengths[n_known] = Lengths(np.ascontiguousarray(by_length.T), self.enough <= n_known)
        return lengths


@lru_cache(maxsize=32)
def content_of(content: OutcomeDFA) -> Content:
    """`Content` of a machine over the characters themselves; remembered for the machines that many schemas share."""
    dfa = escape_json(content)
    whole, pairs = ends_character(dfa, content.n_states), pairs_of(dfa)
    loops = loop_groups(dfa.delta, dfa.byte_class, spread=False)  # `CountedString.room` is for loops
    enough, longest = _all_lengths_from(pairs, whole, dfa.outcome), longest_rests(dfa, whole, pairs)
    return Content(dfa, whole, pairs, enough, longest, np.where(whole, loops, 0))


def _all_lengths_from(
    pairs: npt.NDArray[np.int64], whole: npt.NDArray[np.bool_], outcome: npt.NDArray[np.int32]
) -> npt.NDArray[np.float64]:
    """float64[n]: a length from which on rests of every length exist, inf where no state with a one-character loop is reached."""
    n = len(whole)
    source, target = pairs // n, pairs % n
    shortest = np.where(outcome >= 0, 0.0, np.inf)
    _relax(shortest, source, target, whole)
    loops = whole & np.isin(np.arange(n), _one_character_loops(source, target, whole))
    enough = np.where(loops, shortest, np.inf)
    _relax(enough, source, target, whole)
    return enough


def _relax(
    length: npt.NDArray[np.float64],
    source: npt.NDArray[np.int64],
    target: npt.NDArray[np.int64],
    whole: npt.NDArray[np.bool_],
) -> None:
    """Shortest ways, in characters, to where ``length`` is finite."""
    while True:
        better = length.copy()
        np.minimum.at(better, source, length[target] + whole[target])
        if (better == length).all():
            return
        length[:] = better


def _one_character_loops(
    source: npt.NDArray[np.int64], target: npt.NDArray[np.int64], whole: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """States with an edge to themselves. (A loop on characters of several bytes alone is not looked for.)"""
    return np.unique(source[(source == target) & whole[target]])


@kernel
def _reach_lengths(ending: Array, inside: Array, outcome: Array, by_length: Array) -> None:
    """Fill ``by_length`` row by row: which states have a rest of so many characters. Pairs of states: ``ending`` where the edge ends a
    character, ``inside`` where it does not; in the middle of a character a state has the lengths of where that ends: repeat until stable.
    """
    known, n = by_length.shape
    for k in range(known):
        now = by_length[k]
        if k == 0:
            for q in range(n):
                now[q] = outcome[q] >= 0
        else:
            before = by_length[k - 1]
            for pair in ending:
                if before[pair % n]:
                    now[pair // n] = True
        changed = True
        while changed:
            changed = False
            for i in range(
                len(inside) - 1, -1, -1
            ):  # states are numbered as they are met: the ends of characters come last
                q, t = inside[i] // n, inside[i] % n
                if now[t] and not now[q]:
                    now[q] = changed = True


@kernel
def _one_row(
    targets: Array, whole: Array, reach: Array, always: Array, longest: Array,
    low: int, high: int, here: int, there: int, row: Array,
) -> None:  # fmt: skip
    """`CountedString.row`: a rest from here has ``low`` to ``high`` characters. longest: of no state where there is a maximum."""
    known = reach.shape[1]
    for c in range(len(targets)):
        t = targets[c]
        row[c] = 0
        if t == 0:
            continue
        n = 1 if whole[t] else 0
        least, most = max(low - n, 0), high - n
        if len(longest) > 0:
            fits = longest[t] >= least
        else:
            fits = always[t] and most >= known
            for k in range(least, min(most + 1, known)):
                if reach[t, k]:
                    fits = True
                    break
        if fits:
            row[c] = t + (there if n else here)


class CountedString:
    """The strings whose content ``content`` accepts and that have ``minimum`` to ``maximum`` characters (None: any more).

    ``dfa`` is the machine over their JSON text, without the count. Raises LimitExceeded where content and bound together
    ask for too large a table of lengths.

    Pairs of letters never make three characters, but four: between pairs, the count has to be even.

    >>> from fsmc.compiler.schema.format_machine import machine
    >>> pairs = OutcomeDFA.of(machine("(?:[a-z]{2})*"))
    >>> CountedString(pairs, 3, 3).satisfiable
    False
    >>> four = CountedString(pairs, 4, 4)
    >>> [bool(four.fits(count)[four.dfa.start]) for count in range(6)]
    [True, False, True, False, True, False]
    """

    def __init__(self, content: OutcomeDFA, minimum: int, maximum: int | None) -> None:
        self.content, self.minimum, self.maximum = content_of(content), minimum, maximum
        self.dfa, self.whole = self.content.dfa, self.content.whole
        self.lengths = None if maximum is None else self.content.lengths(maximum)
        self.longest = self.content.longest if maximum is None else None
        self.shortest: npt.NDArray[np.int64] | None = None
        nothing, never = np.zeros((self.dfa.n_states, 0), np.bool_), np.zeros(self.dfa.n_states, np.bool_)
        reach, always = (nothing, never) if self.lengths is None else (self.lengths.reach, self.lengths.always)
        self._limits = self.whole, reach, always, np.zeros(0) if self.longest is None else self.longest
        self.longest_short_rest = 0  # characters that bring any state to an end
        if self.lengths is not None and maximum is not None:
            reach = self.lengths.reach
            self.shortest = np.where(reach.any(axis=1), reach.argmax(axis=1), maximum + 1)
            self.longest_short_rest = int(self.shortest[1:].max(initial=0))

    @property
    def satisfiable(self) -> bool:
        """Whether there is such a string."""
        return bool(self.fits(0)[self.dfa.start])

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

    def rows(self, counts: Sequence[int], here: Array, there: Array) -> npt.NDArray[np.int32]:
        """int32[n_counts, n_states, n_classes]: the edges at some counts; at ``counts[i]`` state q is ``here[i] + q`` (int64),
        with the next count ``there[i] + q``."""
        n = self.dfa.n_states
        known = {count: self.fits(count) for count in {*counts, *map(self.next_count, counts)}}
        now = np.stack([known[count] for count in counts])
        after = np.stack([known[self.next_count(count)] for count in counts])
        target = np.where(self.whole, there[:, None], here[:, None]) + np.arange(n)
        target = np.where(np.where(self.whole, after, now), target, 0).astype(np.int32)
        target[:, 0] = 0
        rows: npt.NDArray[np.int32] = target[:, self.dfa.delta]
        return rows

    def row(self, state: int, count: int, here: int, there: int) -> npt.NDArray[np.int32]:
        """int32[n_classes]: the edges of one state at one count, as in `rows`."""
        row = np.empty(self.dfa.delta.shape[1], np.int32)
        low, high = self.minimum - count, -1 if self.maximum is None else self.maximum - count
        _one_row(self.dfa.delta[state], *self._limits, low, high, here, there, row)
        return row

    def room(self, counts: Sequence[int]) -> npt.NDArray[np.int32]:
        """int32[n_counts, n_states]: from a state with a loop on single characters, how many of them may follow (see `Tables`).

        From there on rests of all lengths are possible from the shortest on: that has to fit in what remains.
        """
        if self.shortest is None or self.maximum is None:
            return np.full((len(counts), self.dfa.n_states), FOREVER, np.int32)
        return (self.maximum - np.array(counts)[:, None] - self.shortest).astype(np.int32)

    def room_of(self, state: int, count: int) -> int:
        """`room` of one state."""
        if self.shortest is None or self.maximum is None:
            return FOREVER
        return self.maximum - count - int(self.shortest[state])

    def may_end(self, count: int) -> bool:
        """Whether a text of so many characters is long enough."""
        return count >= self.minimum
