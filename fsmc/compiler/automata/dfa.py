"""Deterministic finite automata over bytes: two arrays, a set of accepting states and a start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import MachineError
from fsmc.jit import kernel

DEAD = 0

Array: TypeAlias = npt.NDArray[Any]
"""Arguments of kernels, whose docstrings give the dtypes."""


@dataclass(frozen=True, slots=True, eq=False)
class DFA:
    """Total DFA over bytes, trimmed: state 0 is DEAD, every other state is reachable and can reach acceptance.

    byte_class: uint8[256], the column of ``delta`` for each byte (equal columns are merged).
    delta: int32[n_states, n_classes], the next state; row 0 is all 0.
    accepting: bool[n_states]; start: int (0 only if the language is empty).

    The constructor checks shapes, dtypes and ranges (MachineError) and keeps read-only views of the arrays; that states
    are trimmed is up to the caller. `DFA.from_arrays` takes arrays from elsewhere and trims them.

    A machine is its arrays; the whole of matching is three lines of numpy:

    >>> dfa = DFA.from_arrays(np.arange(256) == ord("a"), [[0, 1], [0, 2], [0, 1]], [False, True, False], start=2)
    >>> state = dfa.start
    >>> for byte in b"aaa":
    ...     state = dfa.delta[state, dfa.byte_class[byte]]
    >>> bool(dfa.accepting[state]), dfa.matches(b"aaa"), dfa.matches(b"aa")
    (True, True, False)

    ``==`` is identity, as for any object that holds arrays; `equivalent` compares languages. The operators ``|``, ``&``,
    ``-``, ``+`` (concatenation) and ``~`` (complement within well-formed UTF-8 text) are those of
    `fsmc.compiler.automata.algebra`, where the limits are arguments.
    """

    byte_class: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.int32]
    accepting: npt.NDArray[np.bool_]
    start: int

    def __post_init__(self) -> None:
        byte_class = frozen_array("byte_class", self.byte_class, np.uint8, (256,))
        delta = frozen_array("delta", self.delta, np.int32, (None, None))
        accepting = frozen_array("accepting", self.accepting, np.bool_, (delta.shape[0],))
        n_states, n_classes = delta.shape
        if not n_states or not n_classes:
            raise MachineError(f"delta has shape {delta.shape}; a DFA has at least the DEAD state and one byte class")
        if byte_class.max() >= n_classes:
            raise MachineError(f"byte_class names column {byte_class.max()}, but delta has {n_classes} columns")
        if delta.view(np.uint32).max() >= n_states:  # one pass for both ends: as unsigned, -1 is larger than any state
            state, column = (int(i) for i in np.argwhere((delta < 0) | (delta >= n_states))[0])
            raise MachineError(f"delta[{state}, {column}] is {delta[state, column]}, outside 0..{n_states - 1}")
        if delta[DEAD].any() or accepting[DEAD]:
            raise MachineError(
                "state 0 is DEAD: its row must be all 0 and it must not accept (DFA.from_arrays renumbers)"
            )
        if not 0 <= self.start < n_states:
            raise MachineError(f"start is {self.start}, outside 0..{n_states - 1}")
        for name, value in (("byte_class", byte_class), ("delta", delta), ("accepting", accepting)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "start", int(self.start))

    @classmethod
    def from_arrays(cls, byte_class: npt.ArrayLike, delta: npt.ArrayLike, accepting: npt.ArrayLike, start: int) -> DFA:
        """A DFA from arrays of any origin: checked, trimmed, renumbered, equal byte columns merged.

        ``byte_class`` (256 columns), ``delta`` (states × columns, a negative target is no transition) and ``accepting``
        may be of any integer or bool dtype; state 0 is a state like any other. Raises MachineError.

        >>> DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0).matches(b"x")
        True
        """
        columns, table, final = np.asarray(byte_class), np.asarray(delta), np.asarray(accepting)
        for name, array in (("byte_class", columns), ("delta", table), ("accepting", final)):
            if array.dtype.kind not in "biu":
                raise MachineError(f"{name} has dtype {array.dtype}; integers are needed")
        if columns.shape != (256,) or table.ndim != 2 or final.shape != table.shape[:1]:
            raise MachineError(
                f"shapes {columns.shape}, {table.shape}, {final.shape} are not (256,), (states, columns), (states,)"
            )
        n_states, n_columns = table.shape
        if not 0 <= start < n_states:
            raise MachineError(f"start is {start}, but there are {n_states} states")
        if table.max(initial=-1) >= n_states:
            state, column = (int(i) for i in np.argwhere(table >= n_states)[0])
            raise MachineError(f"delta[{state}, {column}] is {table[state, column]}, but there are {n_states} states")
        if columns.min() < 0 or columns.max() >= n_columns:
            raise MachineError(f"byte_class holds {columns.min()}..{columns.max()}, but delta has {n_columns} columns")
        table = np.maximum(table, -1) if table.dtype.kind == "i" else table
        return trim(columns.astype(np.uint8), table.astype(np.int32), final.astype(np.bool_), start)

    @property
    def n_states(self) -> int:
        """Number of states, DEAD included."""
        return int(self.delta.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of byte classes: columns of ``delta``."""
        return int(self.delta.shape[1])

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is accepted."""
        return self.start == DEAD

    def run(self, data: bytes, state: int | None = None) -> int:
        """The state after ``data``, from ``state`` (default: the start).

        >>> DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0).run(b"xy") == DEAD
        True
        """
        origin = self.start if state is None else state
        if not 0 <= origin < self.n_states:
            raise MachineError(f"state {origin} does not exist; there are {self.n_states} states")
        return int(_run(self.delta, self.byte_class, origin, np.frombuffer(bytes(data), np.uint8)))

    def matches(self, data: bytes) -> bool:
        """Whether the whole of ``data`` is accepted."""
        return bool(self.accepting[self.run(data)])

    def equivalent(self, other: DFA) -> bool:
        """Whether both accept the same byte strings (`equivalence.difference_witness` shows one that tells them apart)."""
        from fsmc.compiler.automata.equivalence import equivalent

        return equivalent(self, other)

    def dump(self) -> str:
        """The transition table as readable text, see `views.dump`."""
        from fsmc.compiler.automata.views import dump

        return dump(self)

    def to_dot(self) -> str:
        """The state diagram in Graphviz's language, see `views.to_dot`."""
        from fsmc.compiler.automata.views import to_dot

        return to_dot(self)

    def to_svg(self) -> str:
        """The state diagram as a picture, see `svg.to_svg`."""
        from fsmc.compiler.automata.svg import to_svg

        return to_svg(self)

    def __or__(self, other: DFA) -> DFA:
        from fsmc.compiler.automata.algebra import union

        return union(self, other)

    def __and__(self, other: DFA) -> DFA:
        from fsmc.compiler.automata.algebra import intersection

        return intersection(self, other)

    def __sub__(self, other: DFA) -> DFA:
        from fsmc.compiler.automata.algebra import difference

        return difference(self, other)

    def __add__(self, other: DFA) -> DFA:
        from fsmc.compiler.automata.algebra import concatenate

        return concatenate(self, other)

    def __invert__(self) -> DFA:
        from fsmc.compiler.automata.algebra import complement

        return complement(self)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.delta.nbytes + self.accepting.nbytes + self.byte_class.nbytes)

    def __repr__(self) -> str:
        return f"<DFA: {self.n_states} states, {self.n_classes} byte classes>"


def frozen_array(
    name: str, array: npt.NDArray[Any], dtype: type[np.generic], shape: tuple[int | None, ...]
) -> npt.NDArray[Any]:
    """A read-only C-contiguous view of ``array``, so that every kernel is compiled for one array type only.

    Raises MachineError unless dtype and shape (None: any length) are as stated.
    """
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        raise MachineError(f"{name} must be an array of {np.dtype(dtype)}, not {getattr(array, 'dtype', type(array))}")
    given = array.shape
    if len(given) != len(shape) or any(w is not None and w != n for w, n in zip(shape, given, strict=True)):
        raise MachineError(
            f"{name} has shape {array.shape}, expected {tuple('any' if n is None else n for n in shape)}"
        )
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def trim(
    byte_class: npt.NDArray[np.uint8], delta: npt.NDArray[np.int32], accepting: npt.NDArray[np.bool_], start: int
) -> DFA:
    """The DFA of a raw transition table: only states that are reachable and can reach acceptance, numbered canonically.

    byte_class: uint8[256]; delta: int32[n, n_columns], -1 where there is no transition (state 0 is not special);
    accepting: bool[n]; start: a state. The caller vouches for the ranges (`DFA.from_arrays` checks them).

    States are numbered breadth first from the start, bytes in order, and byte classes by their first byte: tables that
    differ only in numbering give the same arrays. Time and memory are linear in the table.

    >>> trim(np.zeros(256, np.uint8), np.array([[1], [2], [2]], np.int32), np.array([False, True, False]), 0).delta
    array([[0],
           [2],
           [0]], dtype=int32)
    """
    byte_class = frozen_array("byte_class", byte_class, np.uint8, (256,))
    delta = frozen_array("delta", delta, np.int32, (None, None))
    accepting = frozen_array("accepting", accepting, np.bool_, (delta.shape[0],))
    live = find_live(delta, accepting, np.array([start]))
    if not live[start]:
        return DFA(np.zeros(256, np.uint8), np.zeros((1, 1), np.int32), np.zeros(1, np.bool_), DEAD)
    used, first_byte = np.unique(byte_class, return_index=True)
    columns = used[np.argsort(first_byte)].astype(np.int64)
    number = np.zeros(len(live) + 1, np.int32)  # one longer, so that a negative target finds 0 in its last element
    states = np.zeros(len(live) + 1, np.int32)
    row, same_as = np.zeros(len(columns), np.int32), np.zeros(len(columns), np.int64)
    states = states[: _number(delta, live, start, columns, number, states, row, same_as)]
    kept = np.flatnonzero(same_as == np.arange(len(columns)))
    table = number[delta[np.ix_(states, columns[kept])]]
    table[DEAD] = DEAD
    merged = np.zeros(delta.shape[1], np.uint8)
    merged[columns] = np.searchsorted(kept, same_as)
    final = accepting[states]
    final[DEAD] = False
    return DFA(merged[byte_class], table, final, 1)


def find_live(
    delta: npt.NDArray[np.int32], accepting: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """bool[n]: the states that are reachable from one of ``starts`` and reach acceptance. Negative targets are none.

    Tarjan's strongly connected components (1972): a component is live if it holds an accepting state or leads to a live
    component. It needs one pass over the table and O(n) memory; searching backwards would need the reversed edges,
    as many as the table has entries.
    """
    n = len(accepting)
    live = np.zeros(n, np.bool_)
    index, low, cursor, path, pending = np.zeros((5, n), np.int32)
    delta = frozen_array("delta", delta, np.int32, (n, None))
    accepting = frozen_array("accepting", accepting, np.bool_, (n,))
    _find_live(delta, accepting, starts, live, index, low, cursor, path, pending)
    return live


@kernel
def _run(delta: Array, byte_class: Array, q: int, data: Array) -> int:
    """State after ``data`` from ``q``."""
    for b in data:
        q = delta[q, byte_class[b]]
    return q


@kernel
def _find_live(
    delta: Array,
    accepting: Array,
    starts: Array,
    live: Array,
    index: Array,
    low: Array,
    cursor: Array,
    path: Array,
    pending: Array,
) -> None:
    """Set ``live`` (bool[n]) by depth-first search; all arrays but the first three start as zeros, the others are int32[n].

    index: order of discovery from 1, 0 for not seen yet; low: the smallest index known to be reachable inside the
    component, n + 1 once it is closed; cursor: the next column to look at; path: the states being searched;
    pending: the states whose component is still open.
    """
    n, n_columns = delta.shape
    n_seen = n_path = n_pending = n_started = 0
    while True:
        if n_path == 0:
            while n_started < len(starts) and index[starts[n_started]] != 0:
                n_started += 1
            if n_started == len(starts):
                return
            child = starts[n_started]
        else:
            q = path[n_path - 1]
            is_live = live[q] or accepting[q]
            low_q = low[q]
            child = previous = -1
            c = cursor[q]
            while c < n_columns and child < 0:
                t = delta[q, c]
                c += 1
                if t >= 0 and t != previous:
                    previous = t
                    if index[t] == 0:
                        child = t
                    else:
                        is_live |= live[t]
                        low_q = min(low_q, low[t])
            live[q] = is_live
            low[q] = low_q
            cursor[q] = c
        if child >= 0:
            n_seen += 1
            index[child] = low[child] = n_seen
            path[n_path] = pending[n_pending] = child
            n_path += 1
            n_pending += 1
            continue
        n_path -= 1
        if n_path:
            parent = path[n_path - 1]
            live[parent] |= is_live
            low[parent] = min(low[parent], low_q)
        if low_q == index[q]:  # q is the root of its component, and all of it has been searched: close it
            member = -1
            while member != q:
                n_pending -= 1
                member = pending[n_pending]
                live[member] = is_live
                low[member] = n + 1


@kernel
def _number(
    delta: Array, live: Array, start: int, columns: Array, number: Array, states: Array, row: Array, same_as: Array
) -> int:
    """Number the live states breadth first and find equal columns; returns one more than the highest number.

    number: int32[n + 1], the new number of each old state, 0 for none; states: int32[n + 1], the old state of each new one;
    row: int32[n_columns], a scratch; same_as: int64[n_columns], the first column that each one equals. All start as zeros:
    the columns as one group, which is split at each row in which its members differ, at most 255 times.
    """
    n_columns = len(columns)
    states[1] = start
    number[start] = 1
    n_found = 2
    q = 1
    while q < n_found:
        old = states[q]
        split = False
        for c in range(n_columns):
            t = delta[old, columns[c]]
            if t >= 0 and live[t] and number[t] == 0:
                number[t] = n_found
                states[n_found] = t
                n_found += 1
            row[c] = number[t]
            split |= row[c] != row[same_as[c]]
        if split:
            for c in range(n_columns - 1, -1, -1):  # downwards: the groups of smaller columns are still the old ones
                first = same_as[c]
                for other in range(first, c + 1):
                    if same_as[other] == first and row[other] == row[c]:
                        same_as[c] = other
                        break
        q += 1
    return n_found
