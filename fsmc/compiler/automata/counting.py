"""How many strings, which ones, and one at random: counting by length, ranking, sampling, enumeration in order.

All rest on one table: for each length n and state q, the number of strings of length n that are accepted from q. It is
exact (Python's integers), so that sampling is exactly uniform. Length counts characters, or bytes with ``unit="bytes"``;
characters need a machine that accepts well-formed UTF-8 only (MachineError otherwise).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.edges import byte_edges, character_edges

Unit = Literal["characters", "bytes"]


class StringCounts:
    """Counts of the accepted strings up to ``max_length``, for counting, ranking and sampling again and again.

    ``counts`` holds the number of accepted strings of each length 0..max_length. Memory: one integer for each length and
    state that has edges.

    >>> from fsmc.compiler.automata.determinize import determinize
    >>> from fsmc.compiler.automata.nfa import thompson
    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> strings = StringCounts(determinize(thompson(parse_regex("[éa]{1,3}|z"))), max_length=4)
    >>> strings.counts
    [0, 3, 4, 8, 0]
    >>> [strings.string_at(1, rank).decode() for rank in range(3)]
    ['a', 'z', 'é']
    >>> strings.sample(np.random.default_rng(0), length=3).decode()
    'ééé'
    """

    def __init__(self, dfa: DFA, max_length: int, unit: Unit = "characters") -> None:
        if max_length < 0:
            raise ValueError(f"max_length is {max_length}; it must not be negative")
        self.unit = unit
        edges = _edges(dfa, unit)
        # States inside characters have no edges here: number those that have anew, from 0.
        states, renumbered = np.unique(np.append(edges[:, [0, 3]].ravel(), dfa.start), return_inverse=True)
        renumbered = renumbered.reshape(-1)
        self._start = int(renumbered[-1])
        self._edges = edges.astype(np.int64)
        self._edges[:, [0, 3]] = renumbered[:-1].reshape(-1, 2)
        self._offsets = np.searchsorted(self._edges[:, 0], np.arange(len(states) + 1))
        # One letter of \w has 734 ranges that all lead to one state: count with one edge for each pair of states.
        pairs, pair_of_edge = np.unique(self._edges[:, [0, 3]], axis=0, return_inverse=True)
        widths = np.bincount(pair_of_edge.reshape(-1), self._edges[:, 2] - self._edges[:, 1] + 1)
        multiplicity = widths.astype(np.int64).astype(object)
        sources, first_pair = np.unique(pairs[:, 0], return_index=True)
        self._ways = [dfa.accepting[states].astype(np.int64).astype(object)]
        for _ in range(max_length):
            longer = np.zeros(len(states), object)
            if len(sources):
                longer[sources] = np.add.reduceat(multiplicity * self._ways[-1][pairs[:, 1]], first_pair)
            self._ways.append(longer)
        self.counts: list[int] = [int(ways[self._start]) for ways in self._ways]

    def string_at(self, length: int, rank: int) -> bytes:
        """The accepted string number ``rank`` (from 0) among those of this length, in byte order.

        Raises IndexError outside 0..counts[length] - 1, and for a length beyond ``max_length``.
        """
        if not 0 <= length < len(self.counts) or not 0 <= rank < self.counts[length]:
            raise IndexError(f"there is no string number {rank} of length {length}")
        symbols, state = [], self._start
        for rest in range(length - 1, -1, -1):
            ways = self._ways[rest]
            for _, low, high, target in self._edges[self._offsets[state] : self._offsets[state + 1]].tolist():
                below = ways[target] * (high - low + 1)
                if rank < below:
                    index, rank = divmod(rank, ways[target])
                    symbols.append(low + index)
                    state = target
                    break
                rank -= below
        return _encode(symbols, self.unit)

    def sample(self, rng: np.random.Generator, length: int | None = None) -> bytes:
        """A string drawn uniformly from all accepted ones of this length, or of all lengths up to ``max_length``.

        Raises ValueError if there is none.
        """
        if length is not None and not 0 <= length < len(self.counts):
            raise ValueError(f"length is {length}, outside 0..{len(self.counts) - 1}")
        lengths = range(len(self.counts)) if length is None else [length]
        total = sum(self.counts[n] for n in lengths)
        if total == 0:
            raise ValueError(f"no string of length {lengths[0]}..{lengths[-1]} ({self.unit}) is accepted")
        rank = _random_below(rng, total)
        for n in lengths:
            if rank < self.counts[n]:
                break
            rank -= self.counts[n]
        return self.string_at(n, rank)


def count_strings(dfa: DFA, max_length: int, unit: Unit = "characters") -> list[int]:
    """Exact number of accepted strings of each length 0..max_length."""
    return StringCounts(dfa, max_length, unit).counts


def sample_string(
    dfa: DFA,
    rng: np.random.Generator,
    *,
    length: int | None = None,
    max_length: int | None = None,
    unit: Unit = "characters",
) -> bytes:
    """A string drawn uniformly from the accepted ones of ``length``, or from all up to ``max_length`` (give one of them).

    Raises ValueError if there is none. For many draws keep a `StringCounts`, which counts once.
    """
    if length is not None and max_length is None:
        return StringCounts(dfa, length, unit).sample(rng, length)
    if max_length is not None and length is None:
        return StringCounts(dfa, max_length, unit).sample(rng)
    raise ValueError("give either length or max_length")


def enumerate_strings(dfa: DFA, unit: Unit = "characters") -> Iterator[bytes]:
    """All accepted strings in shortlex order: shorter ones first, those of one length in byte order. Lazy; may be endless.

    >>> from itertools import islice
    >>> dfa = DFA.from_arrays(np.arange(256) == ord("a"), [[-1, 0]], [True], start=0)
    >>> list(islice(enumerate_strings(dfa), 4))
    [b'', b'a', b'aa', b'aaa']
    """
    edges = _edges(dfa, unit)
    offsets = np.searchsorted(edges[:, 0], np.arange(dfa.n_states + 1))
    completes = [dfa.accepting]  # by length n: the states from which some string of length n is accepted
    while completes[-1].any():
        if completes[-1][dfa.start]:
            yield from _strings_of_length(edges, offsets, completes, dfa.start, unit)
        longer = np.zeros(dfa.n_states, np.bool_)
        longer[edges[completes[-1][edges[:, 3]], 0]] = True
        completes.append(longer)


def is_finite(dfa: DFA) -> bool:
    """Whether only finitely many strings are accepted: the trimmed machine has no cycle.

    Kahn's topological order (1962), layer by layer: what cannot be ordered lies on a cycle or behind one.
    """
    n_incoming = np.bincount(dfa.delta[1:].ravel(), minlength=dfa.n_states)
    frontier = np.array([dfa.start]) if n_incoming[dfa.start] == 0 else np.array([], np.int64)
    n_ordered = 0
    while len(frontier):
        n_ordered += len(frontier)
        targets, n_edges = np.unique(dfa.delta[frontier], return_counts=True)
        n_incoming[targets] -= n_edges
        frontier = targets[(n_incoming[targets] == 0) & (targets != DEAD)]
    return dfa.is_empty or n_ordered == dfa.n_states - 1


def _edges(dfa: DFA, unit: Unit) -> npt.NDArray[np.int32]:
    if unit not in ("characters", "bytes"):
        raise ValueError(f"unit is {unit!r}; it must be 'characters' or 'bytes'")
    return character_edges(dfa) if unit == "characters" else byte_edges(dfa)


def _encode(symbols: list[int], unit: Unit) -> bytes:
    return "".join(map(chr, symbols)).encode() if unit == "characters" else bytes(symbols)


def _strings_of_length(
    edges: npt.NDArray[np.int32], offsets: npt.NDArray[Any], completes: list[Any], start: int, unit: Unit
) -> Iterator[bytes]:
    """Depth first, into states that can be completed to the length only, so that no step is in vain."""
    length = len(completes) - 1
    symbols: list[int] = []

    def steps_from(state: int, rest: int) -> Iterator[tuple[int, int]]:
        for _, low, high, target in edges[offsets[state] : offsets[state + 1]].tolist():
            if completes[rest][target]:
                for symbol in range(low, high + 1):
                    yield symbol, target

    if length == 0:
        yield b""
        return
    open_steps = [steps_from(start, length - 1)]
    while open_steps:
        for symbol, target in open_steps[-1]:
            symbols.append(symbol)
            if len(symbols) == length:
                yield _encode(symbols, unit)
                symbols.pop()
            else:
                open_steps.append(steps_from(target, length - 1 - len(symbols)))
                break
        else:
            open_steps.pop()
            if symbols:
                symbols.pop()


def _random_below(rng: np.random.Generator, bound: int) -> int:
    """A uniform integer in 0..bound-1 of any size: bits drawn until they fall below the bound (two draws at most, on average)."""
    n_bits = (bound - 1).bit_length()
    while True:
        drawn = int.from_bytes(rng.bytes((n_bits + 7) // 8), "little") & ((1 << n_bits) - 1)
        if drawn < bound:
            return drawn
