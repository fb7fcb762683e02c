"""A machine as named arrays, for files: the transition table as runs (one of 309,000 states held only 190,000)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.errors import MachineError


def pack(machine: RSM) -> dict[str, npt.NDArray[Any]]:
    """The machine's arrays by name; its ``delta`` as runs: where in the flat table each begins (int64) and its value (int32)."""
    flat = machine.delta.reshape(-1)
    starts = np.flatnonzero(np.concatenate(([True], flat[1:] != flat[:-1]))).astype(np.int64)
    return {
        "byte_class": machine.byte_class,
        "shape": np.array([*machine.delta.shape, machine.start], np.int64),
        "run_start": starts,
        "run_value": flat[starts],
        "actions": machine.actions,
        "returns": machine.returns,
        "final_outcome": machine.final_outcome,
    }


def unpack(arrays: dict[str, npt.NDArray[Any]]) -> RSM:
    """The machine of arrays that `pack` made, or that claim to be such.

    Raises KeyError if one is missing, MachineError if they describe no machine.

    >>> from fsmc.compiler.automata.dfa import DFA
    >>> dfa = DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0)
    >>> unpack(pack(RSM.from_dfa(dfa))).matches(b"x")
    True
    """
    n_states, n_classes, start = (int(x) for x in arrays["shape"])
    lengths = np.diff(arrays["run_start"], append=n_states * n_classes)
    if n_states < 1 or n_classes < 1 or (lengths < 1).any() or int(lengths.sum()) != n_states * n_classes:
        raise MachineError("runs of the transition table do not fill it")
    delta = np.repeat(arrays["run_value"], lengths).reshape(n_states, n_classes)
    rest = {name: arrays[name] for name in ("byte_class", "actions", "returns", "final_outcome")}
    return RSM(delta=delta, start=start, **rest)
