"""Sums of probabilities kept as logarithms: long texts have probabilities below the smallest float. -inf is zero."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def log_of(probabilities: npt.ArrayLike) -> Floats:
    """The natural logarithm, -inf for 0.

    >>> log_of([1.0, 0.0])
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(np.asarray(probabilities, np.float64))
    return logs


def log_sum(values: Floats, axis: int = -1) -> Floats:
    """log(sum(exp(values))) along an axis."""
    largest = np.max(values, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    sums: Floats = log_of(np.exp(values - shift).sum(axis)) + shift.squeeze(axis)
    return sums


def log_sums_by(keys: npt.NDArray[np.integer], values: Floats, n: int) -> Floats:
    """For each key 0..n-1 the `log_sum` of the rows of ``values`` that have it: float64[n, ...].

    >>> np.exp(log_sums_by(np.array([0, 2, 2]), log_of([0.5, 0.25, 0.25]), 3))
    array([0.5, 0. , 0.5])
    """
    largest = np.full((n, *values.shape[1:]), -np.inf)
    np.maximum.at(largest, keys, values)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    sums: Floats = np.zeros_like(shift)
    np.add.at(sums, keys, np.exp(values - shift[keys]))
    sums = log_of(sums) + shift
    return sums
