"""fsmc inside transformers' own ``generate``: a logits processor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

import torch
from transformers import LogitsProcessor

from fsmc.compiler.errors import FsmcError
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

    grammar: compiled for the model's vocabulary. stop_token_ids: what ends a text (default: the vocabulary's EOS ids).

    Each row is known by its ids alone, not by how often the processor was called: beams may change places, and assisted
    decoding may take tokens back and try others. A row that is not one token longer than a row seen before is a prompt,
    and the constraint begins behind it. So batches, left padding and several prompts after each other work. Use a new
    processor (it costs microseconds) where a prompt may be an earlier one plus one token.

    A row that has ended keeps its EOS ids allowed. A row that breaks the constraint, which only a drafted continuation
    can (it was not chosen under the mask, and will be turned down), is left as it is. No row ever becomes all -inf:
    FsmcError is raised where the vocabulary has no token with which the constraint could go on.
    """

    def __init__(self, grammar: CompiledGrammar, stop_token_ids: Iterable[int] | None = None) -> None:
        self._start = GrammarMatcher(grammar, stop_token_ids)
        self._vocab_size = grammar.vocab.size
        self._matchers: OrderedDict[bytes, GrammarMatcher | None] = OrderedDict()  # None: the row breaks the constraint

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Masked scores, float[batch, vocab_size], for rows of ids, int64[batch, length]; ``scores`` stay as they are."""
        rows = input_ids.cpu().numpy()
        mask = allocate_token_bitmask(len(rows), self._vocab_size)
        constrained = []
        for i, row in enumerate(rows):
            matcher = self._matcher_of(row.tobytes(), int(row[-1]), row.itemsize)
            if matcher is not None:
                matcher.fill_next_token_bitmask(mask, i)
                constrained.append(i)
        if not mask.any(axis=1).all():
            raise FsmcError(
                "the constraint goes on, but no token of the vocabulary does: its tokens cannot spell every text"
            )
        self._forget(max(_MIN_REMEMBERED, _REMEMBERED_PER_ROW * len(rows)))
        scores = scores.clone()
        apply_token_bitmask_inplace(scores, mask, indices=constrained)
        return scores

    def _matcher_of(self, row: bytes, last_token: int, token_size: int) -> GrammarMatcher | None:
        """The matcher behind a row of ids; those in the table are shared and never moved on."""
        key = _digest(row)
        if key not in self._matchers:
            parent_key = _digest(row[:-token_size])
            if parent_key not in self._matchers:
                matcher: GrammarMatcher | None = self._start
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


def _digest(row: bytes) -> bytes:
    return blake2b(row, digest_size=16).digest()
