"""fsmc inside transformers' own ``generate``: a logits processor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import torch
from transformers import LogitsProcessor

from fsmc.compiler.errors import BudgetExceeded, FsmcError
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.runtime.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from fsmc.runtime.matcher import GrammarMatcher

_MIN_REMEMBERED = 1024
_REMEMBERED_PER_ROW = 64
"""How many prefixes are remembered: assisted decoding goes back by a few tokens, beams by one."""


class FsmcLogitsProcessor(LogitsProcessor):
    """Allows only tokens with which the generated text can still match the grammar.

    >>> import fsmc
    >>> from fsmc.runtime.toy_model import toy_model
    >>> model, tokenizer, vocab = toy_model()
    >>> processor = FsmcLogitsProcessor(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("[a-c]{3}"))
    >>> ids = model.generate(**tokenizer("x", return_tensors="pt"), logits_processor=[processor], max_new_tokens=9)
    >>> set(tokenizer.decode(ids[0, 1:], skip_special_tokens=True)) <= set("abc")
    True

    grammar: compiled for the model's vocabulary; or a list, one for each prompt of the batch (None: that one is free). Rows of a prompt
    stand together, as beams and ``num_return_sequences`` do. stop_token_ids: what ends a text (default: the vocabulary's EOS ids).
    max_new_tokens: what ``generate`` is told; then only tokens are allowed after which the text can be completed in time (BudgetExceeded
    if there is not enough to begin with).

    Each row is known by its ids alone, not by how often the processor was called: beams may change places, and assisted
    decoding may take tokens back and try others. A row that is not one token longer than a row seen before is a prompt,
    and the constraint begins behind it. So batches, left padding and several prompts after each other work. Use a new
    processor (it costs microseconds) where a prompt may be an earlier one plus one token.

    A row that has ended keeps its EOS ids allowed. A row that breaks the constraint, which only a drafted continuation
    can (it was not chosen under the mask, and will be turned down), is left as it is. No row ever becomes all -inf:
    FsmcError is raised where the vocabulary has no token with which the constraint could go on.
    """

    supports_continuous_batching = False  # it would be told the last token of each row: `fsmc.hf.ConstrainedBatching`

    def __init__(
        self,
        grammar: CompiledGrammar | Sequence[CompiledGrammar | None],
        stop_token_ids: Iterable[int] | None = None,
        max_new_tokens: int | None = None,
    ) -> None:
        grammars = [grammar] if isinstance(grammar, CompiledGrammar) else list(grammar)
        sizes = {one.vocab.size for one in grammars if one is not None}
        if len(sizes) != 1:
            raise ValueError(f"the grammars of a batch need one vocabulary, these have {sorted(sizes)} tokens")
        stops = None if stop_token_ids is None else list(stop_token_ids)
        self._starts = [None if one is None else GrammarMatcher(one, stops) for one in grammars]
        (self._vocab_size,) = sizes
        self._max_new_tokens = max_new_tokens
        self._matchers: OrderedDict[bytes, GrammarMatcher | None] = OrderedDict()  # None: the row breaks the constraint

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Masked scores, float[batch, vocab_size], for rows of ids, int64[batch, length]; ``scores`` stay as they are."""
        rows = input_ids.cpu().numpy()
        n_prompts = len(self._starts)
        if len(rows) % n_prompts:
            raise ValueError(f"{len(rows)} rows cannot be shared out to the {n_prompts} grammars of the batch")
        mask = allocate_token_bitmask(len(rows), self._vocab_size)
        constrained = []
        for i, row in enumerate(rows):
            prompt = i * n_prompts // len(rows)
            matcher = self._matcher_of(prompt, row.tobytes(), int(row[-1]), row.itemsize)
            if matcher is not None and self._fill(matcher, mask, i):
                constrained.append(i)
        if not mask.any(axis=1).all():
            raise FsmcError(
                "the constraint goes on, but no token of the vocabulary does: its tokens cannot spell every text"
            )
        self._forget(max(_MIN_REMEMBERED, _REMEMBERED_PER_ROW * len(rows)))
        scores = scores.clone()
        apply_token_bitmask_inplace(scores, mask, indices=constrained)
        return scores

    def _fill(self, matcher: GrammarMatcher, mask: npt.NDArray[np.int32], row: int) -> bool:
        """Whether the row is constrained: not where a drafted continuation has used up what the text may have."""
        left = None
        if self._max_new_tokens is not None and not matcher.is_terminated():
            left = self._max_new_tokens - matcher.n_entries
        try:
            matcher.fill_next_token_bitmask(mask, row, left)
        except BudgetExceeded:
            if not matcher.n_entries:
                raise
            return False
        return True

    def _matcher_of(self, prompt: int, row: bytes, last_token: int, token_size: int) -> GrammarMatcher | None:
        """The matcher behind a row of ids; those in the table are shared and never moved on."""
        key = _digest(prompt, row)
        if key not in self._matchers:
            parent_key = _digest(prompt, row[:-token_size])
            if parent_key not in self._matchers:
                matcher = self._starts[prompt]
            else:
                self._matchers.move_to_end(parent_key)
                matcher = _after(self._matchers[parent_key], last_token)
            self._matchers[key] = matcher
        self._matchers.move_to_end(key)
        return self._matchers[key]

    def _forget(self, n_kept: int) -> None:
        while len(self._matchers) > n_kept:
            self._matchers.popitem(last=False)


def _after(parent: GrammarMatcher | None, token: int) -> GrammarMatcher | None:
    """The matcher one token further; whatever is appended to a row that has ended is padding."""
    if parent is None or parent.is_terminated():
        return parent
    matcher = parent.fork()
    return matcher if matcher.accept_token(token) else None


def _digest(prompt: int, row: bytes) -> bytes:
    return blake2b(row, digest_size=16, key=prompt.to_bytes(8, "little")).digest()
