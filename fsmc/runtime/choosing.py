"""A token for every row of a pass: masked, sampled, taken; as long as drafts hold, several of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fsmc.compiler.errors import FsmcError
from fsmc.runtime.bitmask import apply_token_bitmask_inplace
from fsmc.runtime.engine_row import Row
from fsmc.runtime.sampling import Sampled, SamplingBatch


def choose_tokens(
    rows: Sequence[Row],
    logits: torch.Tensor | None,
    mask: Any,
    sampling_of: Callable[[Sequence[Row]], SamplingBatch],
    guarded: Callable[..., Any],
) -> float:
    """A token for every row; where it is the drafted one, the next as well, and so on. The seconds for applying masks.

    logits: float[n, vocab_size] of the pass, in which each row knows its places (None: no row wants any); mask: int32[n, n_words]
    likewise. sampling_of: the options of some rows. guarded: calls a function for one row; what that raises ends the row, and
    None comes back.
    """
    going_on = [row for row in rows if row.n_logits and row.finish_reason is None]
    place, seconds = 0, 0.0
    try:
        while going_on:
            assert logits is not None
            chosen: Sequence[Sampled | FsmcError | None]
            try:
                chosen, apply_seconds = _sample(going_on, logits, mask, sampling_of(going_on), place)
            except Exception:  # at one of them: who fails alone ends, the others get what they get in any batch
                alone = [guarded(row, _sample, [row], logits, mask, sampling_of([row]), place) for row in going_on]
                chosen = [None if one is None else one[0][0] for one in alone]
                apply_seconds = sum(one[1] for one in alone if one is not None)
            going_on = [
                row
                for row, sampled in zip(going_on, chosen, strict=True)
                if sampled is not None and guarded(row, row.take, sampled, place)
            ]
            place += 1
            seconds += apply_seconds
    finally:  # also when one row's function ends the program: who goes on stepping has the others as they were
        for row in rows:
            row.settle()
    return seconds


def _sample(
    rows: Sequence[Row], logits: torch.Tensor, mask: Any, batch: SamplingBatch, place: int
) -> tuple[list[Sampled | FsmcError], float]:
    """What is chosen for each row from its logits at ``place``, and the seconds for applying masks."""
    at = [row.first_logit + place for row in rows]
    constrain = _Constrain(mask, at, [i for i, row in enumerate(rows) if row.matcher is not None])
    histories = [row.history for row in rows] if batch.needs_histories else None
    return batch.sample(logits[at], constrain, histories), constrain.seconds


class _Constrain:
    """Applies the masks of some rows, and says how long it took."""

    def __init__(self, mask: Any, at: list[int], masked: list[int]) -> None:
        self._mask, self._at, self._masked = mask, at, masked
        self.seconds = 0.0

    def __call__(self, logits: torch.Tensor) -> None:
        if self._masked:
            began = time.thread_time()
            first, last = self._at[0], self._at[-1] + 1
            rows = slice(first, last) if last - first == len(self._at) else self._at  # they ascend; a slice is no copy
            apply_token_bitmask_inplace(logits, self._mask[rows], self._masked)
            self.seconds += time.thread_time() - began
