"""A machine as matrices: how many bytes lead from one state to another, by byte class or in all.

``sparse=True`` gives scipy.sparse CSR arrays (``pip install 'fsmc[research]'``), which is what machines of more than a few thousand states
need: a dense matrix has a number for each pair of states, the machine an edge for a handful.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT
from fsmc.compiler.errors import LimitExceeded

MAX_DENSE_BYTES = 1 << 30


def transition_matrix(dfa: DFA, *, sparse: bool = False, max_bytes: int = MAX_DENSE_BYTES) -> Any:
    """int64[n_states, n_states]: entry (q, r) is the number of bytes that lead from q to r. Row and column 0 (DEAD) are 0.

    Its n-th power counts texts: with ``s`` the start and ``f`` the accepting states as vectors, ``s @ M**n @ f`` of them have n bytes.
    Raises LimitExceeded for a dense matrix of more than ``max_bytes``, ImportError for a sparse one without scipy.

    >>> dfa = DFA.from_arrays(np.arange(256) < 128, [[-1, 1], [1, -1]], [False, True], start=0)
    >>> transition_matrix(dfa)
    array([[  0,   0,   0],
           [  0,   0, 128],
           [  0,   0, 128]])
    """
    check_dfa(dfa)
    widths = np.bincount(dfa.byte_class, minlength=dfa.n_classes)
    source, column = np.nonzero(dfa.delta)
    return assemble(source, dfa.delta[source, column], widths[column], dfa.n_states, sparse, max_bytes)


def class_matrices(dfa: DFA, *, sparse: bool = False, max_bytes: int = MAX_DENSE_BYTES) -> list[Any]:
    """For each byte class c, int64[n_states, n_states] with 1 at (q, r) where the bytes of class c lead from q to r.

    So that the text ``b`` is accepted exactly if ``s @ A[class of b[0]] @ A[class of b[1]] … @ f`` is 1. Raises as `transition_matrix`.

    >>> dfa = DFA.from_arrays(np.arange(256) < 128, [[-1, 1], [1, -1]], [False, True], start=0)
    >>> vector = np.eye(dfa.n_states, dtype=int)[dfa.start]
    >>> for byte in b"\\x80a":
    ...     vector = vector @ class_matrices(dfa)[dfa.byte_class[byte]]
    >>> vector @ dfa.accepting
    np.int64(0)
    """
    check_dfa(dfa)
    if not sparse:
        check_dense(dfa.n_classes * dfa.n_states**2, max_bytes)
    matrices = []
    for column in range(dfa.n_classes):
        source = np.flatnonzero(dfa.delta[:, column])
        ones = np.ones(len(source), np.int64)
        matrices.append(assemble(source, dfa.delta[source, column], ones, dfa.n_states, sparse, max_bytes))
    return matrices


@dataclass(frozen=True, slots=True, eq=False)
class RecursiveMatrices:
    """A recursive machine, as far as its rows are built, in coordinates: all there is to know to run it.

    inside: int64[k, 3], rows (byte, source, target) of the edges within components.
    calls: int64[k, 4], rows (byte, source, frame, target): the frame is pushed, and the target is the entry of what is called.
    exits: int64[k, 4], rows (byte, source, outcome, redo): the frame is popped; redo is 1 if the caller reads the byte again.
    returns: int64[k, 3], rows (frame, outcome, target): where a caller goes on; a frame and outcome that is not here is a dead end.
    final: int64[n_states], the outcome with which the text may end in a state, or -1. start and n_states as in the machine.
    """

    inside: npt.NDArray[np.int64]
    calls: npt.NDArray[np.int64]
    exits: npt.NDArray[np.int64]
    returns: npt.NDArray[np.int64]
    final: npt.NDArray[np.int64]
    start: int

    @property
    def n_states(self) -> int:
        """Number of states, DEAD included."""
        return len(self.final)

    def inside_matrix(self, *, sparse: bool = False, max_bytes: int = MAX_DENSE_BYTES) -> Any:
        """int64[n_states, n_states]: bytes that lead from one state to another within a component."""
        ones = np.ones(len(self.inside), np.int64)
        return assemble(self.inside[:, 1], self.inside[:, 2], ones, self.n_states, sparse, max_bytes)

    def call_matrix(self, *, sparse: bool = False, max_bytes: int = MAX_DENSE_BYTES) -> Any:
        """int64[n_states, n_states]: bytes that lead from a state to the entry of a component that it calls."""
        ones = np.ones(len(self.calls), np.int64)
        return assemble(self.calls[:, 1], self.calls[:, 3], ones, self.n_states, sparse, max_bytes)


def recursive_matrices(machine: RecursiveMachine) -> RecursiveMatrices:
    """The edges, calls, exits and returns of an `RSM`, or of what is built so far of a machine that is made as it is walked.

    >>> from fsmc.compiler.automata.rsm import RSM
    >>> machine = RSM.from_dfa(DFA.from_arrays(np.arange(256) == 97, [[-1, 1], [-1, -1]], [False, True], start=0))
    >>> matrices = recursive_matrices(machine)
    >>> matrices.inside.tolist(), matrices.final.tolist()
    ([[97, 1, 2]], [-1, -1, 0])
    """
    if not isinstance(machine, RecursiveMachine):
        raise TypeError(
            f"a recursive machine is wanted, not a {type(machine).__name__}: RSM.from_dfa makes one of a DFA"
        )
    inside: list[tuple[int, ...]] = []
    calls: list[tuple[int, ...]] = []
    exits: list[tuple[int, ...]] = []
    final = np.full(machine.n_states, -1, np.int64)
    for state in range(1, len(final)):
        if not machine.is_built(state):
            continue
        final[state] = machine.final(state)
        codes = machine.row(state)
        for byte in np.flatnonzero(codes).tolist():
            code = int(codes[byte])
            if code > DEAD:
                inside.append((byte, state, code))
                continue
            kind, operand, frame = machine.action(code)
            if kind == CALL:
                calls.append((byte, state, frame, operand))
            else:
                exits.append((byte, state, operand, int(kind != EXIT)))
    returns: list[tuple[int, ...]] = [known for known in machine.known_returns() if known[2] != DEAD]
    return RecursiveMatrices(
        inside=_coordinates(inside, 3),
        calls=_coordinates(calls, 4),
        exits=_coordinates(exits, 4),
        returns=_coordinates(returns, 3),
        final=final,
        start=machine.start,
    )


def _coordinates(rows: list[tuple[int, ...]], width: int) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, width)


def assemble(
    rows: npt.NDArray[Any], columns: npt.NDArray[Any], values: npt.NDArray[Any], n: int, sparse: bool, max_bytes: int
) -> Any:
    """A square matrix from entries, those of one place added up."""
    if sparse:
        from scipy.sparse import csr_array

        return csr_array((values, (rows, columns)), shape=(n, n))
    check_dense(n * n, max_bytes)
    matrix = np.zeros((n, n), values.dtype)
    np.add.at(matrix, (rows, columns), values)
    return matrix


def check_dfa(dfa: object) -> None:
    """Raise TypeError for what is no DFA, and say how one is made of it."""
    if not isinstance(dfa, DFA):
        raise TypeError(
            f"a DFA is wanted, not a {type(dfa).__name__}: take grammar.dfa of a pattern, or machine.flatten(max_depth) of a recursive "
            "machine (whose matrices are recursive_matrices)"
        )


def check_dense(n_numbers: int, max_bytes: int) -> None:
    """Raise LimitExceeded if so many numbers of eight bytes are more than ``max_bytes``."""
    if 8 * n_numbers > max_bytes:
        raise LimitExceeded("max_bytes", max_bytes, 8 * n_numbers, "ask for sparse matrices or raise the limit")
