"""Deterministic finite automata over bytes: two arrays, a set of accepting states and a start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import MachineError
from fsmc.jit import kernel

DEAD = 0


@dataclass(frozen=True, slots=True, eq=False)
class DFA:
    """Total DFA over bytes, trimmed: state 0 is DEAD, every other state is reachable and can reach acceptance.

    byte_class: uint8[256], the column of ``delta`` for each byte (equal columns are merged).
    delta: int32[n_states, n_classes], the next state; row 0 is all 0.
    accepting: bool[n_states]; start: int (0 only if the language is empty).

    The constructor checks shapes, dtypes and ranges and freezes the arrays; that states are trimmed is up to the caller
    (`DFA.from_arrays` does it for arrays from elsewhere).
    """

    byte_class: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.int32]
    accepting: npt.NDArray[np.bool_]
    start: int
