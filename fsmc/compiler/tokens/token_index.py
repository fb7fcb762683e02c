"""The whole index: which tokens each state of a DFA allows, every state's row computed now, equal rows stored once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.byte_groups import loop_groups
from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.minimize import partition_history
from fsmc.compiler.errors import IndexFileError, LimitExceeded
from fsmc.compiler.tokens.difference import (
    CURSOR_SIZE,
    N_ROWS,
    N_STORED,
    NEXT,
    PREVIOUS_ROW,
    index_rows,
    order_along_splits,
    ranks_to_ids,
)
from fsmc.compiler.tokens.lazy_masks import Row
from fsmc.compiler.tokens.mask_rows import ALLOWED, BITS, FORBIDDEN, copy_row, max_packed_ids, n_mask_words
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.jit import addresses_of

_DTYPES = {
    "row_of_state": np.int32,
    "row_kind": np.uint8,
    "row_start": np.int64,
    "packed": np.int32,
    "all_tokens": np.int32,
}
MIN_BLOCKS_PER_THREAD = 512
"""A thread begins its first row from nothing, and equal rows of two threads are compared once more: not worth it for fewer."""
_REPORT_SECONDS = 0.1
_STATES_PER_CALL = 1024  # between two reports of progress (and two chances to interrupt): at worst a second or so


@dataclass(frozen=True, slots=True, eq=False)
class TokenIndex:
    """The allowed tokens of every state of a DFA over a vocabulary; no row holds EOS, special tokens or padding.

    row_of_state: int32[n_states]. row_kind: uint8[n_rows], `mask_rows.ALLOWED`, `FORBIDDEN` or `BITS`; row_start: int64[n_rows + 1], where each
    row's int32 ids or mask words lie in ``packed``. all_tokens: int32[ceil(vocab_size / 32)], every token with bytes, as
    a mask row: what rows of forbidden tokens are taken from.
    """

    row_of_state: npt.NDArray[np.int32]
    row_kind: npt.NDArray[np.uint8]
    row_start: npt.NDArray[np.int64]
    packed: npt.NDArray[np.int32]
    all_tokens: npt.NDArray[np.int32]
    _rows: dict[int, Row] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, array in self.arrays().items():
            array = np.require(array, requirements=("C", "A"))
            array.setflags(write=False)  # always, since a kernel compiles anew for writable arrays
            object.__setattr__(self, name, array)

    @property
    def n_states(self) -> int:
        return len(self.row_of_state)

    @property
    def n_rows(self) -> int:
        """Distinct rows."""
        return len(self.row_kind)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def copy_row(self, state: int, stack: int, out: npt.NDArray[np.int32]) -> None:
        """Write the mask row of ``state`` into ``out`` (int32, at least ceil(vocab_size / 32) words; more become 0).

        ``stack`` is there for the same signature as `LazyMasks.copy_row`: a DFA has no return stack.
        """
        copy_row(self.row_of_state, self.row_kind, self.row_start, self.packed, self.all_tokens, state, out)

    def row(self, state: int, stack: int = 0) -> Row:
        """The row of ``state`` in the form in which `LazyMasks` keeps them; its arrays lie in this index."""
        number = int(self.row_of_state[state])
        row = self._rows.get(number)
        if row is None:
            kind, packed = self.row_kind[number], self.packed[self.row_start[number] : self.row_start[number + 1]]
            base = {BITS: packed, FORBIDDEN: self.all_tokens, ALLOWED: packed[:0]}[int(kind)]
            ids = packed[:0] if kind == BITS else packed
            row = self._rows.setdefault(number, Row(addresses_of(base, ids), may_end=True, held=(base, ids)))
        return row

    def allowed_token_ids(self, state: int) -> npt.NDArray[np.int32]:
        """The ids of the tokens that ``state`` allows, ascending (int32)."""
        out = np.empty(len(self.all_tokens), np.int32)
        self.copy_row(state, 0, out)
        return np.flatnonzero(np.unpackbits(out.view(np.uint8), bitorder="little")).astype(np.int32)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The named arrays of an index file; `from_arrays` is the way back."""
        return {name: getattr(self, name) for name in _DTYPES}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[np.generic]], *, n_states: int, vocab_size: int
    ) -> TokenIndex:
        """An index from the arrays of a file, checked so that no kernel can read or write outside of them.

        Raises `IndexFileError` for an array that is missing or has another dtype or shape, and for numbers out of range.
        """
        for name, dtype in _DTYPES.items():
            if name not in arrays:
                raise IndexFileError(f"the index has no array {name!r}: compile it again")
            if arrays[name].dtype != dtype or arrays[name].ndim != 1:
                found = f"{arrays[name].dtype} of {arrays[name].ndim} dimensions"
                raise IndexFileError(
                    f"array {name!r} is {found}, not one-dimensional {np.dtype(dtype)}: compile the index again"
                )
        index = cls(**{name: arrays[name] for name in _DTYPES})  # type: ignore[arg-type]
        problem = index._problem(n_states, vocab_size)
        if problem:
            raise IndexFileError(f"the index's token masks are damaged ({problem}): compile it again")
        return index

    def _problem(self, n_states: int, vocab_size: int) -> str:
        """What is wrong with the arrays, or "". All checks are over whole arrays: some milliseconds for a large index."""
        n_words = n_mask_words(vocab_size)
        if self.n_states != n_states:
            return f"row_of_state has {self.n_states} states, the machine {n_states}"
        if len(self.all_tokens) != n_words:
            return f"a mask row has {len(self.all_tokens)} words, the vocabulary of {vocab_size} tokens needs {n_words}"
        if vocab_size % 32 and int(self.all_tokens[-1]) & 0xFFFFFFFF & (-1 << vocab_size % 32):
            return "all_tokens has tokens past the vocabulary's size"
        if self.n_states and not 0 <= self.row_of_state.min() <= self.row_of_state.max() < self.n_rows:
            return "row_of_state names a row that is not there"
        sizes = np.diff(self.row_start)
        if len(self.row_start) != self.n_rows + 1 or self.row_start[0] != 0 or self.row_start[-1] != len(self.packed):
            return "row_start does not span the packed rows"
        if self.n_rows and sizes.min() < 0:
            return "row_start is not ascending"
        if not np.isin(self.row_kind, (ALLOWED, FORBIDDEN, BITS)).all():
            return "a row is of unknown kind"
        if (sizes[self.row_kind == BITS] != n_words).any():
            return "a row of bits has the wrong length"
        is_words = np.repeat(self.row_kind == BITS, sizes)
        ids, words = self.packed[~is_words], self.packed[is_words].reshape(-1, n_words)
        if len(ids) and (ids.min() < 0 or ids.max() >= vocab_size):
            return "a token id is past the vocabulary's size"
        if (self.all_tokens[ids >> 5] >> (ids & 31) & 1 == 0).any() or (words & ~self.all_tokens).any():
            return "a row allows a token without bytes"
        return ""


def build_index(
    dfa: DFA,
    trie: TokenTrie,
    *,
    progress: Callable[[int, int], None] | None = None,
    max_bytes: int = 1 << 30,
    max_threads: int | None = None,
) -> TokenIndex:
    """The rows of all states of ``dfa`` over the vocabulary of ``trie``.

    States that agree on all words up to the longest token have equal rows: one of each such block is walked, in the
    order of the tree by which the blocks were split, so that each differs as little as can be from the one before
    (`difference`). Where there are thousands, as many threads as there
    are processors (at most max_threads) make a piece of this order each. ``progress(done, total)`` is called now and then with numbers of
    blocks. Raises `LimitExceeded` when the working memory for rows and blocks would pass ``max_bytes``.
    """
    n_words = len(trie.all_tokens)
    history = _history(dfa, trie, max_bytes)
    last = history[-1]
    n_blocks = int(last.max()) + 1
    states = np.zeros(n_blocks, np.int32)
    states[last[::-1]] = np.arange(dfa.n_states - 1, -1, -1, dtype=np.int32)  # the first state of each block
    order = np.empty(n_blocks, np.int32)
    order_along_splits(history, states, order, np.empty_like(order), np.empty(n_blocks + 1, np.int32))

    threads = min(_n_threads() if max_threads is None else max_threads, n_blocks // MIN_BLOCKS_PER_THREAD)
    loops = loop_groups(dfa.delta, dfa.byte_class)
    row_of = np.zeros(dfa.n_states, np.int32)
    bounds = [n_blocks * i // max(threads, 1) for i in range(max(threads, 1) + 1)]
    parts = [
        _Part(dfa, trie, history, loops, order[low:high], row_of, max_bytes, len(bounds) - 1)
        for low, high in itertools.pairwise(bounds)
    ]
    _run(parts, n_blocks, progress)
    row_kind, row_start, packed = _merged(parts, row_of)
    ranks_to_ids(row_kind, row_start, packed, trie.token_ids, trie.all_tokens, np.empty(n_words, np.int32))
    return TokenIndex(row_of[states][last], row_kind, row_start, packed, trie.all_tokens)


class _Part:
    """The rows of some adjacent states of the order, made by one thread. Rows are numbered in each part from 0 on."""

    def __init__(
        self,
        dfa: DFA,
        trie: TokenTrie,
        history: npt.NDArray[np.int32],
        loops: npt.NDArray[np.int64],
        order: npt.NDArray[np.int32],
        row_of: npt.NDArray[np.int32],
        max_bytes: int,
        n_parts: int,
    ) -> None:
        n = len(order)
        n_words = len(trie.all_tokens)
        self.order, self.row_of, self.n_words, self.max_bytes, self.n_parts = order, row_of, n_words, max_bytes, n_parts
        self.history_bytes = history.nbytes
        self.machine = (dfa.delta, dfa.byte_class, loops, history)
        self.trie = (trie.byte, trie.depth, trie.end, trie.token_start, trie.first, trie.groups, trie.level)
        self.n_tokens = trie.n_tokens
        self.row = np.zeros((trie.n_tokens + 31) // 32, np.int32)
        self.digest, self.path = np.zeros(3, np.int64), np.zeros((trie.height + 1, 3), np.int32)
        self.table = np.full(2 << n.bit_length(), -1, np.int32)
        self.row_hash, self.row_kind = np.empty(n, np.int64), np.empty(n, np.uint8)
        self.row_start = np.zeros(n + 1, np.int64)
        self.stored = np.empty(16 * n_words, np.int32)
        self.cursor = np.zeros(CURSOR_SIZE, np.int64)
        self.cursor[PREVIOUS_ROW] = -1
        self.is_cancelled = False

    @property
    def done(self) -> int:
        """States whose rows are there."""
        return int(self.cursor[NEXT])

    def step(self) -> bool:
        """Make some more rows; whether any are left to make."""
        index_rows(
            *self.machine, *self.trie, self.order, self.n_tokens, self.n_words, max_packed_ids(self.n_words), self.row,
            self.digest, self.path, self.table, self.row_hash, self.row_kind, self.row_start, self.stored, self.row_of,
            self.cursor, _STATES_PER_CALL,
        )  # fmt: skip
        if self.done == len(self.order):
            return False
        if self.cursor[N_STORED] + self.n_words > len(self.stored):
            _check_memory(self.history_bytes + 2 * self.n_parts * self.stored.nbytes, self.max_bytes)
            self.stored = np.concatenate([self.stored, np.empty_like(self.stored)])
        return not self.is_cancelled

    def run(self) -> None:
        """Make all rows."""
        while self.step():
            pass

    def rows(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The rows that were made: kinds, starts, and what is stored (without room for more)."""
        n_rows, n_stored = int(self.cursor[N_ROWS]), int(self.cursor[N_STORED])
        return self.row_kind[:n_rows].copy(), self.row_start[: n_rows + 1].copy(), self.stored[:n_stored].copy()


def _run(parts: list[_Part], n_blocks: int, progress: Callable[[int, int], None] | None) -> None:
    """Make the rows of all parts, each in a thread; the kernel holds no lock of Python's. ``progress`` is called by this one."""

    def report() -> None:
        if progress is not None:
            progress(sum(part.done for part in parts), n_blocks)

    if len(parts) == 1:
        while parts[0].step():
            report()
        report()
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        waiting = {pool.submit(part.run) for part in parts}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=_REPORT_SECONDS, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                report()
        except BaseException:
            for part in parts:
                part.is_cancelled = True
            raise


def _merged(
    parts: list[_Part], row_of: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The rows of all parts, equal ones once; ``row_of`` gets their numbers."""
    if len(parts) == 1:
        return parts[0].rows()
    number: dict[tuple[int, bytes], int] = {}
    for part in parts:
        kinds, starts, stored = part.rows()
        data, ends = stored.tobytes(), (4 * starts).tolist()
        own = [
            number.setdefault((kind, data[low:high]), len(number))
            for kind, (low, high) in zip(kinds.tolist(), itertools.pairwise(ends), strict=True)
        ]
        row_of[part.order] = np.array(own, np.int32)[row_of[part.order]]
    row_start = np.zeros(len(number) + 1, np.int64)
    np.cumsum([len(data) // 4 for _, data in number], out=row_start[1:])
    packed = np.frombuffer(bytearray().join(data for _, data in number), np.int32)
    return np.array([kind for kind, _ in number], np.uint8), row_start, packed


def _n_threads() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _history(dfa: DFA, trie: TokenTrie, max_bytes: int) -> npt.NDArray[np.int32]:
    """Blocks of states alive after the same words, for words up to each length in ``trie.rounds``: int32[n_levels, n_states]."""
    _check_memory(4 * len(trie.rounds) * dfa.n_states, max_bytes)
    alive = np.ones(dfa.n_states, np.int32)
    alive[DEAD] = 0
    return partition_history(dfa.delta, alive, trie.rounds.tolist())


def _check_memory(needed: int, max_bytes: int) -> None:
    if needed > max_bytes:
        raise LimitExceeded(
            "max_bytes", max_bytes, needed, "raise the limit, simplify the pattern, or use masks computed when met"
        )
