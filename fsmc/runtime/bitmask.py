"""Token bitmasks: one bit per token, 32 tokens to an int32 word, least significant bit first, 1 = allowed.

It is the layout that inference engines pass between their grammar backends and their samplers: token ``t`` of row ``i``
is bit ``t % 32`` of ``mask[i, t // 32]``. Applying a mask sets the logits of all other tokens to minus infinity.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fsmc.jit import kernel

BITS_PER_WORD = 32

Array: TypeAlias = npt.NDArray[Any]

_MINUS_INFINITY = {
    "float16": np.int16(-0x0400),
    "bfloat16": np.int16(-0x0080),
    "float32": np.int32(-0x0080_0000),
    "float64": np.int64(-0x0010_0000_0000_0000),
}
"""The bit pattern of -inf by dtype: sign and all exponent bits set. The kernel writes integers, so that one compiled
version serves float16 and bfloat16, of which numpy cannot name the second."""

_NUMPY_FLOATS = {np.dtype(name): _MINUS_INFINITY[name] for name in ("float16", "float32", "float64")}
"""By dtype, not by ``dtype.name``, which takes 5 µs to ask for."""


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> npt.NDArray[np.int32]:
    """A mask that allows everything: int32[batch_size, ceil(vocab_size / 32)], all bits set.

    ``vocab_size`` is the width of the mask in tokens, usually ``vocabulary.size``. Raises ValueError on negative sizes,
    TypeError for what is no integer.

    >>> allocate_token_bitmask(2, 100)
    array([[-1, -1, -1, -1],
           [-1, -1, -1, -1]], dtype=int32)
    """
    for name, size in (("batch_size", batch_size), ("vocab_size", vocab_size)):
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise TypeError(f"{name} must be an integer, not {type(size).__name__} ({size!r})")
    batch_size, vocab_size = operator.index(batch_size), operator.index(vocab_size)
    if batch_size < 0 or vocab_size < 0:
        raise ValueError(f"batch_size={batch_size} and vocab_size={vocab_size} must not be negative")
    return np.full((batch_size, -(-vocab_size // BITS_PER_WORD)), -1, dtype=np.int32)


def pack_token_bitmask(allowed: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Booleans [..., vocab_size] (True = allowed) as mask words int32[..., ceil(vocab_size / 32)]; spare bits are 0.

    >>> pack_token_bitmask([[True, False, True] + [False] * 30])
    array([[5, 0]], dtype=int32)
    """
    flags = np.asarray(allowed, dtype=np.bool_)
    spare = -flags.shape[-1] % BITS_PER_WORD
    padded = np.pad(flags, [(0, 0)] * (flags.ndim - 1) + [(0, spare)])
    return np.packbits(padded, axis=-1, bitorder="little").view("<i4").astype(np.int32, copy=False)


def unpack_token_bitmask(mask: npt.ArrayLike, vocab_size: int) -> npt.NDArray[np.bool_]:
    """Mask words int32[..., n_words] as booleans [..., vocab_size]. Raises ValueError if the words are too few.

    >>> unpack_token_bitmask([[5, 0]], 4)
    array([[ True, False,  True, False]])
    """
    words = np.ascontiguousarray(np.asarray(mask, dtype=np.int32).astype("<i4", copy=False))
    if words.shape[-1] * BITS_PER_WORD < vocab_size:
        raise ValueError(f"{words.shape[-1]} words hold {words.shape[-1] * BITS_PER_WORD} tokens, not {vocab_size}")
    return np.unpackbits(words.view(np.uint8), axis=-1, count=vocab_size, bitorder="little").view(np.bool_)


def apply_token_bitmask_inplace(logits: Any, mask: Any, indices: Sequence[int] | Any | None = None) -> None:
    """Set to -inf, in place, every logit whose bit in ``mask`` is 0.

    logits: float[batch, width] or float[width]; a numpy array (float16, float32, float64) or a torch tensor (float16,
    bfloat16, float32, float64) on the CPU or on a CUDA device. Rows may lie apart from each other (a slice of a wider
    array); within a row the logits must be adjacent.
    mask: int32[mask batch, n_words] or int32[n_words], a numpy array or a torch tensor; for logits on a CUDA device it
    may be on the CPU, and is copied there.
    indices: the rows to touch; row i of ``logits`` gets row i of ``mask`` for every i in ``indices``, all others stay as
    they are, and the two batch sizes may differ. Without it the batch sizes must be equal and every row is masked.

    A mask narrower than the logits forbids the columns past its end (they are padding of the model's output layer); one
    that is wider is cut. Raises TypeError for a dtype, device or kind of array that is not served, ValueError for
    shapes that do not fit or memory that cannot be written, IndexError for an index outside either batch; always
    before anything is written. Only ``indices`` that are themselves on a CUDA device are not checked, as that would
    wait for the device: rows out of range are skipped.

    >>> logits = np.zeros((2, 5), dtype=np.float32)
    >>> apply_token_bitmask_inplace(logits, pack_token_bitmask([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0]]), indices=[0])
    >>> logits
    array([[  0., -inf,   0., -inf, -inf],
           [  0.,   0.,   0.,   0.,   0.]], dtype=float32)
    """
    device = _device(logits, "logits")
    if device == "cuda":
        from fsmc.runtime.bitmask_triton import apply_token_bitmask_triton

        return apply_token_bitmask_triton(*_on_device(logits, mask, indices))
    if device != "cpu":
        raise TypeError(f"logits are on {logits.device}; only the CPU and CUDA devices are served")
    if _device(mask, "mask") != "cpu":
        raise TypeError(f"logits are on the CPU but the mask is on {mask.device}: move it with mask.cpu()")
    bits, minus_infinity = _as_integers(logits)
    words = _mask_words(mask)
    rows = _checked_rows(indices, bits.shape[0], words.shape[0])
    flat_bits, bits_stride = _flat(bits, "logits")
    flat_words, words_stride = _flat(words, "mask")
    _apply(flat_bits, bits_stride, bits.shape[1], flat_words, words_stride, words.shape[1], rows, minus_infinity)


@kernel
def _apply(
    bits: Array,
    bits_stride: int,
    n_columns: int,
    words: Array,
    words_stride: int,
    n_words: int,
    rows: Array,
    minus_infinity: np.signedinteger[Any],
) -> None:
    """The loop of `apply_token_bitmask_inplace` over flat arrays; row r starts at r * stride.

    128,000 float32 logits on one core: 10 µs with one token allowed (the speed of memory), 3 µs with all allowed, 15 µs
    with 1 in 100 forbidden, 45 µs with every other one.
    """
    for r in rows:
        row = bits[r * bits_stride : r * bits_stride + n_columns]
        begin = r * words_stride
        row_words = words[begin : begin + min(n_words, (n_columns + 31) // 32)]
        done = 0  # columns before this one are dealt with; forbidden words behind it wait to be filled in one run
        for w in range(row_words.size):
            word = row_words[w]
            if word == 0:
                continue
            if done < 32 * w:
                row[done : 32 * w] = minus_infinity
            done = 32 * w + 32
            if word == -1:
                continue
            part = row[32 * w : min(done, n_columns)]
            # Both loops say the same; these are the forms that LLVM turns into vector code for 2 and for 4 or 8 bytes
            # (28 instead of 460 µs for the case of every other token).
            if part.itemsize == 2:
                for i in range(part.size):
                    x = np.int32(part[i])
                    part[i] = x if (word >> np.int32(i)) & np.int32(1) else np.int32(minus_infinity)
            else:
                for i in range(part.size):
                    part[i] = part[i] if (word >> np.int32(i)) & np.int32(1) else minus_infinity
        if done < n_columns:
            row[done:] = minus_infinity


def _torch_of(array: Any) -> Any:
    """The torch module if ``array`` is a tensor, else None. Who holds a tensor has imported torch; fsmc need not."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None


def _device(array: Any, name: str) -> str:
    if isinstance(array, np.ndarray):
        return "cpu"
    if _torch_of(array) is None:
        raise TypeError(f"{name} must be a numpy array or a torch tensor, not {type(array).__name__}")
    return "cpu" if array.is_cpu else str(array.device.type)


@lru_cache(maxsize=1)
def _torch_float_views(torch: Any) -> dict[Any, tuple[Any, np.signedinteger[Any]]]:
    """For each torch float dtype, the integer dtype of the same size and the integer that stands for -inf."""
    return {
        torch.float16: (torch.int16, _MINUS_INFINITY["float16"]),
        torch.bfloat16: (torch.int16, _MINUS_INFINITY["bfloat16"]),
        torch.float32: (torch.int32, _MINUS_INFINITY["float32"]),
        torch.float64: (torch.int64, _MINUS_INFINITY["float64"]),
    }


def _as_integers(logits: Any) -> tuple[Array, np.signedinteger[Any]]:
    """The same memory as an integer array [batch, width], and the integer that stands for -inf."""
    if (torch := _torch_of(logits)) is not None:
        if logits.dtype not in _torch_float_views(torch):
            raise TypeError(f"logits must be float16, bfloat16, float32 or float64, not {logits.dtype}")
        integer, minus_infinity = _torch_float_views(torch)[logits.dtype]
        # Between two passes of a model nothing of this is in the caches, and each call into torch takes 10 to 30 µs.
        plain = logits.detach() if logits.requires_grad else logits
        bits = (
            plain.view(integer).numpy() if logits.dtype is torch.bfloat16 else plain.numpy().view(minus_infinity.dtype)
        )
    else:
        if logits.dtype not in _NUMPY_FLOATS:
            raise TypeError(f"logits must be float16, float32 or float64 in native byte order, not {logits.dtype}")
        if not logits.flags.writeable:
            raise ValueError("logits are read-only, so they cannot be masked in place")
        minus_infinity = _NUMPY_FLOATS[logits.dtype]
        bits = logits.view(minus_infinity.dtype)
    return _two_dimensional(bits, "logits"), minus_infinity


def _mask_words(mask: Any) -> Array:
    words: Array = mask if isinstance(mask, np.ndarray) else mask.numpy()
    if words.dtype != np.int32:
        raise TypeError(f"the mask must be int32, not {words.dtype}")
    if not words.flags.writeable:
        words = words.copy()  # read-only arrays are another type to numba: the kernel would be compiled twice
    two_dimensional: Array = _two_dimensional(words, "mask")
    return two_dimensional


def _two_dimensional(array: Any, name: str) -> Any:
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions (batch, width), not shape {tuple(array.shape)}")
    return array if array.ndim == 2 else array[None]


def _flat(array: Array, name: str) -> tuple[Array, int]:
    """Everything from the first to the last element as one flat view, and the distance between rows in elements."""
    if array.flags.c_contiguous:
        return array.reshape(-1), array.shape[1]
    (n_rows, n_columns), (row_step, step), size = array.shape, array.strides, array.itemsize
    if (n_columns > 1 and step != size) or (n_rows > 1 and (row_step < n_columns * size or row_step % size)):
        raise ValueError(
            f"{name} must have adjacent elements within each row and rows one after the other (shape {array.shape}, "
            f"strides {array.strides} bytes): mask a contiguous copy instead"
        )
    length = (n_rows - 1) * (row_step // size) + n_columns
    return np.lib.stride_tricks.as_strided(array, (length,), (size,)), row_step // size


def _checked_rows(indices: Any, n_logit_rows: int, n_mask_rows: int) -> npt.NDArray[np.int64]:
    """The rows to mask, int64[n]; every one is a row of both batches."""
    if indices is None:
        if n_logit_rows != n_mask_rows:
            raise ValueError(
                f"{n_logit_rows} rows of logits and {n_mask_rows} of the mask: give indices to mask some rows only"
            )
        return np.arange(n_logit_rows, dtype=np.int64)
    limit = min(n_logit_rows, n_mask_rows)
    if type(indices) is list and set(map(type, indices)) == {int} and min(indices) >= 0 and max(indices) < limit:
        return np.array(indices, np.int64)
    rows = np.asarray(indices.cpu() if _torch_of(indices) is not None else indices)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError(f"indices must be a list of row numbers, not {rows.dtype} of shape {rows.shape}")
    if rows.size and (rows.min() < 0 or rows.max() >= limit):
        bad = rows[(rows < 0) | (rows >= limit)][0]
        raise IndexError(f"index {bad} is out of range: {n_logit_rows} rows of logits, {n_mask_rows} of the mask")
    return np.ascontiguousarray(rows, dtype=np.int64)


def _on_device(logits: Any, mask: Any, indices: Any) -> tuple[Any, Any, Any]:
    """Check what goes to the Triton kernel, and bring mask and indices to the logits' device."""
    torch = _torch_of(logits)
    if logits.dtype not in _torch_float_views(torch):
        raise TypeError(f"logits must be float16, bfloat16, float32 or float64, not {logits.dtype}")
    _device(mask, "mask")
    words = torch.from_numpy(_mask_words(mask)) if isinstance(mask, np.ndarray) else mask
    if words.dtype != torch.int32:
        raise TypeError(f"the mask must be int32, not {words.dtype}")
    logits, words = _two_dimensional(logits.detach(), "logits"), _two_dimensional(words, "mask")
    for array, name in ((logits, "logits"), (words, "mask")):
        if array.shape[1] > 1 and array.stride(1) != 1:
            raise ValueError(f"{name} must have adjacent elements within each row (strides {array.stride()})")
    if indices is None:
        _checked_rows(None, logits.shape[0], words.shape[0])
        rows = None
    elif _torch_of(indices) is not None and indices.device == logits.device:
        rows = indices
    else:
        checked = _checked_rows(indices, logits.shape[0], words.shape[0])
        rows = torch.from_numpy(checked).to(logits.device, non_blocking=True)
    return logits, words.to(logits.device, non_blocking=True), rows
