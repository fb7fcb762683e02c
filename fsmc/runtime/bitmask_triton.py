"""The mask kernel for CUDA devices, in Triton. Import it only where torch and triton are installed.

`fsmc.apply_token_bitmask_inplace` checks its arguments and calls it for logits on a CUDA device.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]

BLOCK = 4096
"""Columns for one program: 128 mask words. A row of 128,000 logits is 32 programs."""


def apply_token_bitmask_triton(logits: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor | None = None) -> None:
    """Set logits[r, t] to -inf where bit t of mask[r] is 0 or past its end, for each r in ``rows`` (None: every row).

    logits: float[batch, width]; mask: int32[mask batch, n_words]; rows: integers [n]; all on one device, elements of a
    row adjacent. Rows outside either batch are skipped. Nothing is read from ``logits``, and nothing waits for the
    device.
    """
    n_rows, n_columns = (logits.shape[0] if rows is None else rows.shape[0]), logits.shape[1]
    if n_rows == 0 or n_columns == 0:
        return
    # Triton launches on the current device, which need not be the one that holds the logits.
    with torch.cuda.device(logits.device) if logits.is_cuda else contextlib.nullcontext():
        _apply[(n_rows, triton.cdiv(n_columns, BLOCK))](
            logits,
            logits.stride(0),
            n_columns,
            mask,
            mask.stride(0),
            mask.shape[1],
            mask if rows is None else rows,
            min(logits.shape[0], mask.shape[0]),
            ALL_ROWS=rows is None,
            BLOCK=BLOCK,
        )


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _apply(
    logits: Any,
    logits_stride: Any,
    n_columns: Any,
    mask: Any,
    mask_stride: Any,
    n_words: Any,
    rows: Any,
    row_limit: Any,
    ALL_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Program (i, j) deals with block j of the i-th row. Only stores: where a bit is 1 no memory is touched.

    The 32 neighbouring columns of a word load the same address, which the hardware serves as one access.
    """
    row = tl.program_id(0).to(tl.int64) if ALL_ROWS else tl.load(rows + tl.program_id(0)).to(tl.int64)
    width = tl.where((row >= 0) & (row < row_limit), n_columns, 0)  # a row out of range has no columns
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    word = column // 32
    bits = tl.load(mask + row * mask_stride + word, mask=(column < width) & (word < n_words), other=0)
    forbidden = ((bits >> (column % 32)) & 1) == 0
    tl.store(logits + row * logits_stride + column, float("-inf"), mask=forbidden & (column < width))
