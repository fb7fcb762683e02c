"""Sets of small numbers as integers: bit i says whether i is in the set.

The numbers are classes of keys, or *cases*: the texts of a list, the names of an object, the ways in which machines can end
at once. A formula is judged of all cases at once by operations on such integers (`Formulas.cases`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import LimitExceeded

MAX_OUTCOME_BITS = 1 << 26
"""Outcomes times formulas watched."""

_FEW = 64  # a mask of so many bits is made faster one by one
_CHUNK = 64  # bytes: a mask of a hundred thousand bits is read in pieces, since each operation on it costs its length


def bits(mask: int) -> Iterator[int]:
    """The numbers in a set, smallest first.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    data = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    for start in range(0, len(data), _CHUNK):
        chunk = int.from_bytes(data[start : start + _CHUNK], "little")
        while chunk:
            low = chunk & -chunk
            yield 8 * start + low.bit_length() - 1
            chunk ^= low


def as_mask(cases: Iterable[int], n: int) -> int:
    """The set of these cases, of ``n``.

    >>> bin(as_mask([0, 3], 5))
    '0b1001'
    """
    chosen = list(cases)
    if n <= _FEW:
        mask = 0
        for case in chosen:
            mask |= 1 << case
        return mask
    held = np.zeros(n, np.bool_)
    held[chosen] = True
    return int.from_bytes(np.packbits(held, bitorder="little").tobytes(), "little")


def as_bools(mask: int, n: int) -> npt.NDArray[np.bool_]:
    """bool[n]: whether each case is in the set.

    >>> as_bools(0b110, 4).tolist()
    [False, True, True, False]
    """
    data = np.frombuffer(mask.to_bytes((n + 7) // 8, "little"), np.uint8)
    return np.unpackbits(data, count=n, bitorder="little").astype(np.bool_)


def told_apart(good: int, watched: Sequence[int], n: int) -> tuple[npt.NDArray[np.int32], tuple[tuple[bool, ...], ...]]:
    """The cases in ``good`` by which of the sets ``watched`` they are in.

    Returns (int32[n], for each case the index of its vector, -1 for those not in ``good``; the vectors). Raises LimitExceeded
    where the vectors take more than ``MAX_OUTCOME_BITS``.

    >>> which, vectors = told_apart(0b1101, [0b0101, 0b0001], 4)
    >>> which.tolist(), vectors
    ([0, -1, 1, 2], ((True, True), (True, False), (False, False)))
    """
    held = as_bools(good, n)
    if not watched:
        return np.where(held, 0, -1).astype(np.int32), ((),) if held.any() else ()
    if n * len(watched) > MAX_OUTCOME_BITS:
        hint = "too many alternatives are told apart at once"
        raise LimitExceeded("max_outcome_bits", MAX_OUTCOME_BITS, n * len(watched), hint)
    truth = np.stack([as_bools(mask, n) for mask in watched], axis=1)
    packed = np.packbits(truth, axis=1)
    number: dict[bytes, int] = {}
    which = np.full(n, -1, np.int32)
    vectors: list[tuple[bool, ...]] = []
    for case in np.flatnonzero(held).tolist():
        index = which[case] = number.setdefault(packed[case].tobytes(), len(number))
        if index == len(vectors):
            vectors.append(tuple(truth[case].tolist()))
    return which, tuple(vectors)
