"""A causal language model together with the key-value cache of the one sequence that it is reading."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from fsmc.compiler.errors import LimitExceeded


class CachedModel:
    """Gives the logits behind any sequence, computing only what differs from the sequence before.

    model: a transformers causal language model whose cache can be cropped (attention of any kind; not a recurrent one).
    Invariant: the cache holds the keys and values of exactly ``ids``. ``n_forward``: forward passes so far.

    >>> from fsmc.runtime.toy_model import toy_model
    >>> cached = CachedModel(toy_model().model)
    >>> cached.logits([5, 6, 7, 8]).shape, cached.logits([5, 6, 9], n=2).shape, cached.n_forward
    (torch.Size([1, 400]), torch.Size([2, 400]), 2)
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.ids: list[int] = []
        self.n_forward = 0
        # Without the model's config every layer keeps all positions, those with a sliding window too: the cache can
        # then be cropped anywhere. The model's own attention mask hides what lies outside the window.
        self._cache = DynamicCache()
        accepted = inspect.signature(model.forward).parameters
        self._cache_argument = (
            "cache" if "cache" in accepted else "past_key_values"
        )  # its name before transformers 5.24

    @property
    def max_length(self) -> int | None:
        """The longest sequence that the model was made for, where its config says so."""
        length = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return int(length) if length else None

    def logits(self, sequence: Sequence[int], n: int = 1) -> torch.Tensor:
        """The logits behind each of the last ``n`` tokens of ``sequence``: float[n, vocab_size], on the model's device.

        One forward pass over what follows the common prefix with the sequence before; the cache is cropped to that.
        Raises LimitExceeded for a sequence longer than the model's context.
        """
        if self.max_length is not None and len(sequence) > self.max_length:
            raise LimitExceeded("max_position_embeddings", self.max_length, len(sequence), "use a shorter prompt")
        kept = min(self._common_prefix_length(sequence), len(sequence) - n)
        if kept < len(self.ids):
            self._cache.crop(kept - len(self.ids))
        new = torch.tensor([sequence[kept:]], device=self.model.device)
        with torch.inference_mode():
            output = self.model(input_ids=new, use_cache=True, logits_to_keep=n, **{self._cache_argument: self._cache})
        self.ids = list(sequence)
        self.n_forward += 1
        logits: torch.Tensor = output.logits[0, -n:]
        return logits

    def _common_prefix_length(self, sequence: Sequence[int]) -> int:
        if sequence[: len(self.ids)] == self.ids:  # the rule, and a comparison in C
            return len(self.ids)
        return next((n for n, (a, b) in enumerate(zip(self.ids, sequence, strict=False)) if a != b), len(sequence))
