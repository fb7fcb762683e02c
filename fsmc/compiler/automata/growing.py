"""The arrays of a machine that is made as it is walked, to be written: how they begin, how they are forked, how they grow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.tables import UNKNOWN, return_table
from fsmc.jit import kernel

_LARGE = 1 << 15
"""Arrays of fewer entries grow to double their size, others by half."""


class Arrays(NamedTuple):
    """The arrays of `Tables`, with room at their ends.

    >>> arrays = Arrays.new()
    >>> arrays.with_room("edges", 5000).edges.shape, arrays.copied().edges.shape
    ((5000,), (1024,))
    """

    edges: npt.NDArray[np.int32]
    states: npt.NDArray[np.int32]
    class_maps: npt.NDArray[np.uint8]
    actions: npt.NDArray[np.int32]
    returns: npt.NDArray[np.int64]
    loops: npt.NDArray[np.int64]

    @classmethod
    def new(cls) -> Arrays:
        """Those of a machine in which there is DEAD: nothing leads on from it."""
        arrays = cls(
            edges=np.zeros(1024, np.int32),
            states=_unbuilt(64),
            class_maps=np.zeros(256, np.uint8),
            actions=np.zeros((64, 3), np.int32),
            returns=return_table(np.empty(0, np.int64), np.empty(0, np.int64)),
            loops=np.zeros(64, np.int64),
        )
        arrays.states[0, 0] = 0  # the row of the one class of the first map
        return arrays

    def copied(self) -> Arrays:
        """The same in memory of their own."""
        return Arrays(*[array.copy() for array in self])

    def with_room(self, name: str, n: int) -> Arrays:
        """The arrays, the named one replaced by a larger one that has room for so many entries, and for more."""
        old = getattr(self, name)
        capacity = max(n, len(old) * 2 if len(old) < _LARGE else len(old) * 3 // 2)
        larger = _unbuilt(capacity) if name == "states" else np.zeros((capacity, *old.shape[1:]), old.dtype)
        larger[: len(old)] = old
        if name != "states":
            return self._replace(**{name: larger})
        loops = np.zeros(capacity, np.int64)
        loops[: len(old)] = self.loops
        return self._replace(states=larger, loops=loops)

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum([array.nbytes for array in self])


class Views(NamedTuple):
    """The same memory as some arrays, as one row each: single numbers are written in half the time."""

    edges: memoryview
    states: memoryview
    class_maps: memoryview
    actions: memoryview
    returns: memoryview

    @classmethod
    def of(cls, arrays: Arrays) -> Views:
        """Those of these arrays."""
        return cls(
            arrays.edges.data,
            arrays.states.data.cast("B").cast("i"),
            arrays.class_maps.data,
            arrays.actions.data.cast("B").cast("i"),
            arrays.returns.data.cast("B").cast("q"),
        )


@kernel
def write_rows(
    states: Array, first: int, n: int, class_map: int, final_outcome: int, room: int, start: int, n_classes: int
) -> None:
    """Rows of adjacent states."""
    for i in range(n):
        states[first + i, 1], states[first + i, 2], states[first + i, 3] = class_map, final_outcome, room
    for i in range(n):
        states[first + i, 0] = start + n_classes * i


@kernel
def rehash(old: Array, returns: Array) -> None:
    """Put all returns of a table into a larger one, see `tables.put_return`."""
    for i in range(len(old)):
        key = old[i, 0]
        if key != UNKNOWN:
            slot = np.int64((np.uint64(key) * np.uint64(0x1E3779B97F4A7C15)) >> np.uint64(33)) & (len(returns) - 1)
            while returns[slot, 0] != UNKNOWN:
                slot = (slot + 1) & (len(returns) - 1)
            returns[slot, 0], returns[slot, 1] = key, old[i, 1]


def _unbuilt(n: int) -> npt.NDArray[Any]:
    """The rows of ``Tables.states`` for n states that are not built."""
    return np.tile(np.array([UNKNOWN, 0, -1, 0], np.int32), (n, 1))
