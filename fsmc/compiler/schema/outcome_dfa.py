"""DFAs that tell more than yes or no: the state in which a text ends has an outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA, Array, find_live, frozen_array
from fsmc.compiler.automata.minimize import minimize, refine
from fsmc.compiler.automata.range_table import to_range_table
from fsmc.jit import kernel

MAX_COUNT = float(1 << 53)
"""Up to here floats count exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeDFA:
    """A DFA over bytes whose accepting states are told apart. State 0 is DEAD; every other state reaches an outcome.

    byte_class: uint8[256]; delta: int32[n_states, n_classes], 0 where the text cannot go on; outcome: int32[n_states], an index
    into ``vectors``, or -1 where the text may not end; vectors: for each outcome, what is true of the texts that end so.
    """

    byte_class: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.int32]
    outcome: npt.NDArray[np.int32]
    start: int
    vectors: tuple[tuple[bool, ...], ...]

    def __post_init__(self) -> None:
        for name, dtype, shape in (
            ("byte_class", np.uint8, (256,)),
            ("delta", np.int32, (None, None)),
            ("outcome", np.int32, (len(self.delta),)),
        ):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), dtype, shape))

    @classmethod
    def of(cls, dfa: DFA) -> OutcomeDFA:
        """The texts of a plain DFA, with one outcome of which there is nothing to say."""
        return cls(dfa.byte_class, dfa.delta, np.where(dfa.accepting, 0, -1).astype(np.int32), dfa.start, ((),))

    @property
    def n_states(self) -> int:
        """Number of states, DEAD included."""
        return int(self.delta.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.delta.nbytes + self.outcome.nbytes + self.byte_class.nbytes)

    def run(self, data: bytes) -> tuple[bool, ...] | None:
        """The vector of the outcome of a text, None if it is not accepted."""
        state = self.start
        for byte in data:
            state = int(self.delta[state, self.byte_class[byte]])
        return self.vectors[self.outcome[state]] if self.outcome[state] >= 0 else None

    def only(self, outcome: int | None = None) -> DFA:
        """The plain DFA of the texts with this outcome (None: with any)."""
        accepting = self.outcome >= 0 if outcome is None else self.outcome == outcome
        return DFA.from_arrays(self.byte_class, self.delta, accepting, self.start)

    def sizes(self) -> list[int | None]:
        """For each outcome how many texts have it; None where they are infinitely many, or too many to count."""
        n = self.n_states
        ways = np.zeros(n)
        width = np.bincount(self.byte_class, minlength=self.delta.shape[1])
        _count_ways(self.delta, width, self.start, np.zeros(n, np.int64), np.empty(n, np.int32), ways)
        total = np.zeros(len(self.vectors))
        ends = self.outcome >= 0
        np.add.at(total, self.outcome[ends], ways[ends])
        return [int(count) if count < MAX_COUNT else None for count in total.tolist()]


def own_class(dfa: OutcomeDFA, alone: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The tables of a machine with a class of its own for each byte of ``alone``; the arrays are new and writable."""
    byte_class = dfa.byte_class.copy()
    columns = [dfa.delta, *(dfa.delta[:, byte_class[byte], None] for byte in alone)]
    byte_class[list(alone)] = dfa.delta.shape[1] + np.arange(len(alone))
    return byte_class, np.concatenate(columns, axis=1)


def trimmed(
    byte_class: npt.NDArray[np.uint8],
    delta: npt.NDArray[np.int32],
    outcome: npt.NDArray[np.int32],
    start: int,
    vectors: tuple[tuple[bool, ...], ...],
) -> OutcomeDFA:
    """The minimal machine: without states that reach no outcome, and without outcomes that no state has."""
    if len(vectors) == 1:  # a plain DFA: minimize it as one
        dfa = minimize(DFA.from_arrays(byte_class, delta, outcome >= 0, start))
        final = np.where(dfa.accepting, 0, -1).astype(np.int32)
        return OutcomeDFA(dfa.byte_class, dfa.delta, final, dfa.start, vectors)
    live = find_live(delta, outcome >= 0, np.array([start]))
    live[0] = False
    number = np.zeros(len(delta), np.int32)
    number[live] = np.arange(1, np.count_nonzero(live) + 1)
    table = np.concatenate((np.zeros((1, delta.shape[1]), np.int32), number[delta[live]]))
    final = np.concatenate((np.full(1, -1, np.int32), outcome[live]))
    used, kind = np.unique(final, return_inverse=True)  # -1, that of DEAD, comes first
    ranges = to_range_table(DFA(byte_class, table, final >= 0, int(number[start])))
    blocks = refine(ranges, kind.reshape(-1).astype(np.int32))
    _, member, inverse = np.unique(blocks, return_index=True, return_inverse=True)
    order = np.argsort(member)  # by first member: DEAD stays 0
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    block, member = rank[inverse.reshape(-1)], member[order]
    names = np.concatenate((np.full(1, -1, np.int32), np.arange(len(used) - 1, dtype=np.int32)))
    return OutcomeDFA(
        byte_class,
        block[table[member]],
        names[kind.reshape(-1)[member]],
        int(block[number[start]]),
        tuple(vectors[i] for i in used[1:].tolist()),
    )


@kernel
def _count_ways(delta: Array, width: Array, start: int, waits: Array, queue: Array, ways: Array) -> None:
    """Add up in ``ways`` (float64[n]) how many texts lead to each state; inf for those on a cycle or behind one.

    Kahn's topological order (1962). width: int64[n_classes], bytes in each class. ``ways`` and ``waits`` (int64[n]) start as
    zeros; ``queue`` (int32[n]) is a scratch.
    """
    n, n_classes = delta.shape
    for q in range(1, n):
        for c in range(n_classes):
            waits[delta[q, c]] += 1
    n_ready = 0
    if waits[start] == 0:
        ways[start] = 1
        queue[0] = start
        n_ready = 1
    i = 0
    while i < n_ready:
        q = queue[i]
        i += 1
        for c in range(n_classes):
            t = delta[q, c]
            if t > 0:
                ways[t] += ways[q] * width[c]
                waits[t] -= 1
                if waits[t] == 0:
                    queue[n_ready] = t
                    n_ready += 1
    for q in range(n):
        if waits[q] > 0:
            ways[q] = np.inf
