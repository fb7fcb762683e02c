"""The arrays that kernels read: the same for a machine that is known as a whole and for one that is made as it is walked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.jit import addresses_of

CALL, EXIT, EXIT_REDO = 0, 1, 2
"""Kinds of action. CALL: consume the byte, push the frame, go to the target state. EXIT: consume the byte, pop the
frame, go to where the caller goes on after the outcome. EXIT_REDO: pop the frame, then process the same byte where the
caller goes on (a number ends only where something else begins)."""

RECORDED = 1 << 30
"""Return frames from here on are recorded, see `LazyRSM`."""

UNKNOWN = -1

FOREVER = (1 << 31) - 1
"""The room of a state that leads back to itself."""


class Tables(NamedTuple):
    """A machine as kernels see it; all arrays are read-only.

    ``e = edges[states[q, 0] + class_maps[states[q, 1] + byte]]`` is a state (> 0), 0 for none, or row ``-1 - e`` of
    ``actions``.

    edges: int32. states: int32[states, 4], rows (where the state's edges begin, UNKNOWN until they are there; where its byte
    classes begin in class_maps; the outcome with which the text may end in it, or -1; its *room*). class_maps: uint8[256
    per map]. actions: int32[actions, 3], rows (CALL, target, frame) and (EXIT or EXIT_REDO, outcome, 0). returns: where
    callers go on, see `return_table`. loops: int64[states], the byte groups (see `byte_groups`) of which any text of at
    most ``room`` characters can be read from the state on: FOREVER where it stays in the state, fewer where it is counted.
    addresses: `addresses_of` these six.
    """

    edges: npt.NDArray[np.int32]
    states: npt.NDArray[np.int32]
    class_maps: npt.NDArray[np.uint8]
    actions: npt.NDArray[np.int32]
    returns: npt.NDArray[np.int64]
    loops: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.int64]

    def __reduce__(self) -> tuple[Any, ...]:
        return Tables.of, self[:6]  # copies have addresses of their own

    @classmethod
    def of(
        cls,
        edges: npt.NDArray[np.int32],
        states: npt.NDArray[np.int32],
        class_maps: npt.NDArray[np.uint8],
        actions: npt.NDArray[np.int32],
        returns: npt.NDArray[np.int64],
        loops: npt.NDArray[np.int64],
    ) -> Tables:
        """Read-only views of the arrays, with their addresses."""
        arrays = edges, states, class_maps, actions, returns, loops
        return cls(*[read_only(array) for array in arrays], addresses=addresses_of(*arrays))  # type: ignore[misc]  # six of them


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be written: numba compiles a kernel anew for arrays that can."""
    view: npt.NDArray[Any] = array.view()
    view.setflags(write=False)
    return view


def return_table(
    keys: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], min_size: int = 128
) -> npt.NDArray[np.int64]:
    """A hash table int64[2**k, 2], at most half full, of rows (``frame << 32 | outcome`` or -1, caller's next state or -1).

    Open addressing: a key lies in the first place from its own (`_place`, as kernels compute it too) on that was free.

    >>> table = return_table(np.array([7 << 32 | 1, 8 << 32]), np.array([5, 0]))
    >>> find_return(table, 7, 1), find_return(table, 8, 0), find_return(table, 8, 1)
    (5, 0, -1)
    """
    size = min_size
    while size < 2 * len(keys):
        size *= 2
    table = np.full((size, 2), UNKNOWN, np.int64)
    slots = ((keys.astype(np.uint64) * np.uint64(_MULTIPLIER)) >> np.uint64(33)).astype(np.int64) & (size - 1)
    left = np.arange(len(keys))
    while len(left):  # all keys at once: of those that meet at a free slot one is put there, the others go on
        at_free = left[table[slots[left], 0] == UNKNOWN]
        _, first = np.unique(slots[at_free], return_index=True)
        put = at_free[first]
        table[slots[put], 0], table[slots[put], 1] = keys[put], targets[put]
        left = np.setdiff1d(left, put)
        slots[left] = (slots[left] + 1) & (size - 1)
    return table


def put_return(table: memoryview, key: int, target: int) -> None:
    """Add a key to a table (all its numbers in one row) with room for it. The target is written first, for whoever reads at
    the same time."""
    size = len(table) // 2
    slot = _place(key, size)
    while table[2 * slot] not in (UNKNOWN, key):
        slot = (slot + 1) & (size - 1)
    table[2 * slot + 1] = target
    table[2 * slot] = key


def look_up_return(table: memoryview, key: int) -> int:
    """Where the caller goes on by a table with all its numbers in one row; UNKNOWN if it does not say."""
    size = len(table) // 2
    slot = _place(key, size)
    while (found := table[2 * slot]) != UNKNOWN:
        if found == key:
            return int(table[2 * slot + 1])
        slot = (slot + 1) & (size - 1)
    return UNKNOWN


def find_return(table: npt.NDArray[np.int64], frame: int, outcome: int) -> int:
    """Where the caller that pushed the frame goes on after the outcome; UNKNOWN if the table does not say."""
    key = frame << 32 | outcome
    slot = _place(key, len(table))
    while table[slot, 0] != UNKNOWN:
        if table[slot, 0] == key:
            return int(table[slot, 1])
        slot = (slot + 1) & (len(table) - 1)
    return UNKNOWN


_MULTIPLIER = 0x1E3779B97F4A7C15


def _place(key: int, size: int) -> int:
    return ((key * _MULTIPLIER) & 0xFFFFFFFFFFFFFFFF) >> 33 & (size - 1)
