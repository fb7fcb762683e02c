"""The arrays that masks are written to: numpy's or torch's, checked once, seen as rows of 32-bit words."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.runtime.arguments import integer


def mask_row(mask: Any, index: int, n_words: int) -> npt.NDArray[np.int32]:
    """Row ``index`` of a mask as a writable view of at least ``n_words`` words; IndexError if there is none, see `mask_rows`."""
    rows = mask_rows(mask, n_words)
    index = integer("index", index)
    if not 0 <= index < rows.shape[0]:
        raise IndexError(f"row {index} does not exist; the mask has {rows.shape[0]} rows")
    row: npt.NDArray[np.int32] = rows[index]
    return row


def mask_rows(mask: Any, n_words: int) -> npt.NDArray[np.int32]:
    """A mask as a writable view int32[batch, at least n_words]; the words of each row are adjacent.

    Raises TypeError for another dtype, device or kind of array, ValueError for another shape or memory layout.
    """
    torch = sys.modules.get("torch")
    array = mask
    if torch is not None and isinstance(mask, torch.Tensor):
        if mask.device.type != "cpu":
            raise TypeError(f"the mask is on {mask.device}: fill one on the CPU, and move that")
        array = mask.numpy()
    if not isinstance(array, np.ndarray):
        raise TypeError(f"the mask must be a numpy array or a torch tensor, not {type(mask).__name__}")
    if array.dtype != np.int32:
        raise TypeError(f"the mask must be int32, not {array.dtype}: make it with allocate_token_bitmask")
    if array.ndim not in (1, 2) or array.shape[-1] < n_words:
        raise ValueError(f"the mask has shape {array.shape}; this vocabulary needs (batch, {n_words}), or more words")
    rows = array if array.ndim == 2 else array[None]
    if not rows.flags.writeable or (rows.shape[1] > 1 and rows.strides[1] != 4):
        raise ValueError("the mask must be writable, and the words of a row adjacent")
    if len(rows) > 1 and (rows.strides[0] % 4 or rows.strides[0] < 4 * rows.shape[1]):
        raise ValueError("the rows of the mask must follow each other in memory, each at whole words")
    return rows
