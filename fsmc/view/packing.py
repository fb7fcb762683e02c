"""Numbers and bytes as text that a script reads at once."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np


def packed_ints(values: Sequence[int]) -> str:
    """Base64 of little-endian int32.

    >>> packed_ints([1, -1])
    'AQAAAP////8='
    """
    return packed_bytes(np.asarray(values, "<i4").tobytes())


def packed_bytes(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode("ascii")
