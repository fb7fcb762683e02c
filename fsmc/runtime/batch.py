"""Masks of a whole batch in one call: one kernel copies all rows, shared out to threads where that pays.

Rows that nobody asked for before are computed first, one after the other: building what is missing of a machine is Python
code, so that two threads take as long as one (measured on 166 misses of 32 schemas).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.errors import BudgetExceeded
from fsmc.compiler.tokens.lazy_masks import Row
from fsmc.jit import copy_bytes, ints_at, kernel
from fsmc.runtime.arguments import integer
from fsmc.runtime.mask_arrays import mask_rows
from fsmc.runtime.matcher import GrammarMatcher
from fsmc.runtime.reasoning import ReasoningGate

ROWS_PER_THREAD = 256
"""Waking a thread and waiting for it takes about 80 µs, in which one thread copies 256 rows of 128,000 tokens: two threads
take longer for 256 rows (150 µs to 137) and half the time for 2,000."""

_NOTHING, _EVERYTHING = np.array([0, 0, 0, 0]), np.array([0, -1, 0, 0])
"""In place of the addresses and sizes of a row's arrays: clear all bits, set all bits."""
_NO_BITS, _ALL_BITS = np.int32(0), np.int32(-1)


def fill_bitmask_batch(
    matchers: Sequence[GrammarMatcher | ReasoningGate | None],
    mask: Any,
    rows: Sequence[int] | None = None,
    *,
    max_tokens: Sequence[int | None] | None = None,
    max_threads: int | None = None,
) -> None:
    """Write the tokens that each matcher allows next into a row of ``mask``: the same as one call of
    `GrammarMatcher.fill_next_token_bitmask` for each, in less time.

    matchers: of any grammars, also of different vocabularies; None stands for a request without a constraint, whose row
    allows everything. One matcher must not be used by another thread meanwhile.
    mask: int32[batch, n_words] as from `allocate_token_bitmask`, a numpy array or a torch tensor on the CPU.
    rows: the row of each matcher, all different (default: 0, 1, 2 …). No other row is touched.
    max_tokens: how many tokens each text may still have, None for those without a bound; see `fill_next_token_bitmask`.
    max_threads: how many threads may copy (default: the processors that this process may use, at most 8). Small batches
    are copied by the calling thread alone.

    Raises TypeError for another dtype, device or kind of array, or for something that is no matcher, ValueError for too
    few words, as many rows or budgets as not, or a row named twice, IndexError for a row that does not exist,
    BudgetExceeded for a budget that is not enough; always before anything is written.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b"ab", b""], eos_token_ids=[3])
    >>> compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    >>> matchers = [fsmc.GrammarMatcher(compiler.compile_regex(pattern)) for pattern in ("a*", "(ab)+")]
    >>> mask = fsmc.allocate_token_bitmask(3, vocab.size)
    >>> fill_bitmask_batch([*matchers, None], mask)
    >>> [f"{word & 15:04b}" for word in mask[:, 0]]
    ['1001', '0101', '1111']
    """
    if max_tokens is not None and len(max_tokens) != len(matchers):
        raise ValueError(f"{len(matchers)} matchers need as many budgets, not {len(max_tokens)}")
    if len(matchers) == 1 and isinstance(matchers[0], GrammarMatcher) and (rows is None or len(rows) == 1):
        return matchers[0].fill_next_token_bitmask(
            mask, 0 if rows is None else integer("rows[0]", rows[0]), max_tokens[0] if max_tokens else None
        )
    found: list[Row] = []  # held here until they are copied: another thread may drop them from its cache
    places: list[Any] = []
    edits: list[tuple[int, int, np.int32, np.int32]] = []  # matcher, word, bits to keep, bits to set
    alone: list[tuple[int, GrammarMatcher | ReasoningGate, int | None]] = []  # filled afterwards, one by one
    vocab_size = 0
    for i, matcher in enumerate(matchers):
        left = None if max_tokens is None or max_tokens[i] is None else integer(f"max_tokens[{i}]", max_tokens[i])
        if isinstance(matcher, ReasoningGate):
            if matcher.matcher is None:
                if left is not None and (needed := matcher.num_tokens_to_complete()) > left:
                    raise BudgetExceeded(left, needed)
                vocab_size = max(vocab_size, matcher.vocab_size)
                alone.append((i, matcher, left))
                places.append(_NOTHING)
                continue
            matcher = matcher.matcher
        if matcher is None:
            places.append(_EVERYTHING)
            continue
        if not isinstance(matcher, GrammarMatcher):
            raise TypeError(f"matcher {i} is a {type(matcher).__name__}, not a GrammarMatcher, ReasoningGate or None")
        if matcher._size > vocab_size:
            vocab_size = matcher._size
        if left is not None and not matcher.is_far_from(left):
            matcher.plan_to_complete(left)  # it raises before anything is written
            alone.append((i, matcher, left))
            places.append(_NOTHING)
            continue
        if matcher._terminated:
            places.append(_NOTHING)
        else:
            row = matcher._masks.row(matcher._state, matcher._stack)
            found.append(row)
            places.append(row[0])
            for word, other_bits in matcher._stop_texts:
                edits.append((i, word, other_bits, _NO_BITS))
            if not row[1] or not matcher.is_completed():
                continue
        for word, bit in matcher._stop_bits:
            edits.append((i, word, _ALL_BITS, bit))
    array = mask_rows(mask, -(-vocab_size // 32))
    numbers = _row_numbers(rows, len(places), len(array))
    _copy(b"".join(places), numbers, array, max_threads)
    for i, word, kept, bits in edits:
        array[numbers[i], word] = array[numbers[i], word] & kept | bits
    for i, one, left in alone:
        one.fill_next_token_bitmask(array, int(numbers[i]), left)


def _row_numbers(rows: Sequence[int] | None, n: int, n_rows: int) -> npt.NDArray[np.int64]:
    """The rows of n matchers, int64[n]; they exist and are different."""
    if rows is None:
        if n > n_rows:
            raise IndexError(f"row {n_rows} does not exist; {n} matchers for a mask of {n_rows} rows")
        return np.arange(n, dtype=np.int64)
    numbers = np.array(rows.tolist() if hasattr(rows, "tolist") else rows)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise TypeError(f"rows must be a list of row numbers, not {numbers.dtype} of shape {numbers.shape}")
    numbers = numbers.astype(np.int64)
    if numbers.shape != (n,):
        raise ValueError(f"{n} matchers need as many rows, not {numbers.size}")
    if n and not 0 <= numbers.min() <= numbers.max() < n_rows:
        bad = numbers[(numbers < 0) | (numbers >= n_rows)][0]
        raise IndexError(f"row {bad} does not exist; the mask has {n_rows} rows")
    if len(set(numbers.tolist())) != n:
        raise ValueError("a row is named twice")
    return numbers


def _copy(places: bytes, numbers: Array, array: Array, max_threads: int | None) -> None:
    """Write the rows at ``places`` into the rows ``numbers`` of ``array``, in as many threads as that is worth."""
    if array.flags.c_contiguous:
        flat, stride = array.reshape(-1), array.shape[1]
    else:
        stride = array.strides[0] // 4
        flat = np.lib.stride_tricks.as_strided(array, ((len(array) - 1) * stride + array.shape[1],), (4,))
    arguments = (np.frombuffer(places, np.int64), numbers, flat, stride, array.shape[1])
    n = len(numbers)
    n_threads = n // ROWS_PER_THREAD
    if n_threads >= 2:
        n_threads = min(n_threads, _n_processors() if max_threads is None else max_threads)
    if n_threads < 2:
        _copy_rows(*arguments, 0, n)
    else:
        _helpers.share(_copy_rows, arguments, n, n_threads)


def _n_processors() -> int:
    """Those that this process may use, at most 8: more do not copy faster."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@kernel
def _copy_rows(places: Array, numbers: Array, flat: Array, stride: int, n_words: int, first: int, last: int) -> None:
    """Write the rows of matchers ``first`` to ``last - 1``."""
    for i in range(first, last):
        start = numbers[i] * stride
        out = flat[start : start + n_words]
        n_base = places[4 * i + 1]
        if n_base < 0:
            out[:] = -1
            continue
        copy_bytes(flat.ctypes.data + 4 * start, places[4 * i], 4 * n_base)
        out[n_base:] = 0
        ids = ints_at(places, 2 * i + 1)
        for j in range(len(ids)):
            out[ids[j] >> 5] ^= np.int32(1) << np.int32(ids[j] & 31)


class _Helpers:
    """Threads that wait for a share of a batch; started when first needed, anew in a forked process."""

    def __init__(self) -> None:
        self._n = 0
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Any] = SimpleQueue()

    def share(self, function: Callable[..., None], arguments: tuple[Any, ...], n: int, n_threads: int) -> None:
        """Call ``function(*arguments, first, last)`` for all of range(n), in so many threads; return when all are done."""
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        with self._lock:
            while self._n < n_threads - 1:
                threading.Thread(target=self._work, args=(self._jobs,), daemon=True, name="fsmc-batch").start()
                self._n += 1
        for k in range(1, n_threads):
            self._jobs.put((function, arguments, n * k // n_threads, n * (k + 1) // n_threads, done))
        errors: list[BaseException] = []
        try:
            function(*arguments, 0, n // n_threads)
        finally:  # nobody may still write when this returns
            errors += [error for _ in range(1, n_threads) if (error := done.get())]
        if errors:
            raise errors[0]

    @staticmethod
    def _work(jobs: SimpleQueue[Any]) -> None:
        while True:
            function, arguments, first, last, done = jobs.get()
            try:
                function(*arguments, first, last)
                done.put(None)
            except BaseException as error:
                done.put(error)


def _new_helpers() -> None:
    global _helpers
    _helpers = _Helpers()


_helpers = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_helpers)
