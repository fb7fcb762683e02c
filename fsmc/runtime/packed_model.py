"""Many sequences in one forward pass, packed instead of padded, each with keys and values of its own length.

The new tokens of all rows stand one after the other in one sequence ``[1, ΣN]``, with their positions; every layer but
attention treats tokens one by one and cannot tell. A registered attention function gives each row its own past. So a row
that jumps over thirty forced tokens and nine rows that sample one token each are 39 tokens of work, where padding would
make 300 of them. Cropping a row is setting its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from fsmc.compiler.errors import FsmcError, LimitExceeded

ATTENTION = "fsmc_packed"
"""The name under which transformers knows `_attend`; a model that has it still works outside the engine, as with "sdpa"."""

_LAYERS_THAT_CAN_BE_CROPPED = {"full_attention", "sliding_attention"}


class KeyValueRow:
    """The keys and values of one sequence. ``length`` tokens count; what lies behind them will be written over.

    >>> row = KeyValueRow()
    >>> new = torch.ones(2, 3, 4)  # 2 heads, 3 tokens, 4 numbers each
    >>> [tuple(part.shape) for part in row.put(0, new, new)], row.length
    ([(2, 3, 4), (2, 3, 4)], 0)
    """

    __slots__ = ("_layers", "length")

    def __init__(self) -> None:
        self.length = 0
        self._layers: list[torch.Tensor] = []  # of each, [keys and values, heads, capacity, numbers of a head]

    @property
    def bytes_per_token(self) -> int:
        return sum(held.nbytes // held.shape[2] for held in self._layers)

    def put(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write those of new tokens, [heads, n, numbers], behind ``length`` (which the model sets when all layers are
        done), and return all, [heads, length + n, numbers]; ``layer`` counts up from 0."""
        end = self.length + keys.shape[1]
        if layer == len(self._layers):
            self._layers.append(keys.new_empty(2, keys.shape[0], max(64, end), keys.shape[2]))
        held = self._layers[layer]
        if held.shape[2] < end:
            grown = held.new_empty(2, held.shape[1], max(end, held.shape[2] * 2), held.shape[3])
            grown[:, :, : self.length] = held[:, :, : self.length]
            held = self._layers[layer] = grown
        held[0, :, self.length : end] = keys
        held[1, :, self.length : end] = values
        return held[0, :, :end], held[1, :, :end]

    def copy(self, begin: int, end: int) -> list[torch.Tensor]:
        """The keys and values of some tokens, by layer: [2, heads, end - begin, numbers]."""
        return [held[:, :, begin:end].clone() for held in self._layers]

    @torch.inference_mode()  # as the tensors that a pass has made may only be changed there
    def extend(self, layers: Sequence[torch.Tensor]) -> None:
        """Append what `copy` gave."""
        for layer, part in enumerate(layers):
            self.put(layer, part[0], part[1])
        self.length += layers[0].shape[2]


class Part(NamedTuple):
    """What one row brings to a pass: its past, the ids to append, and behind how many of the last the logits are wanted."""

    row: KeyValueRow
    ids: Sequence[int]
    n_logits: int


class PackedModel:
    """A causal language model of transformers that reads many sequences at once. ``n_forward`` and ``n_tokens``: passes and
    tokens so far.

    Raises FsmcError for a model whose past cannot be cropped (recurrent layers), or that takes no attention function.

    >>> from fsmc.runtime.toy_model import toy_model
    >>> packed, first, second = PackedModel(toy_model().model), KeyValueRow(), KeyValueRow()
    >>> packed.forward([Part(first, [5, 6, 7], 1), Part(second, [5, 6], 2)]).shape, first.length, second.length
    (torch.Size([3, 400]), 3, 2)
    >>> first.length = 2  # forget the last token
    >>> packed.forward([Part(first, [8], 1)]).shape, packed.n_forward, packed.n_tokens
    (torch.Size([1, 400]), 2, 6)
    """

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        foreign = set(getattr(config, "layer_types", None) or ()) - _LAYERS_THAT_CAN_BE_CROPPED
        if foreign or not getattr(model, "_supports_attention_backend", False):
            what = f"layers of kind {', '.join(sorted(foreign))}" if foreign else "an attention of its own"
            raise FsmcError(
                f"{type(model).__name__} has {what}, which the engine cannot run: use fsmc.generate instead"
            )
        AttentionInterface.register(ATTENTION, _attend)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        self.model = model
        self._take_attention()
        self.n_forward = self.n_tokens = 0
        length = getattr(config, "max_position_embeddings", None)
        self.max_length = int(length) if length else None
        """The longest sequence that the model was made for, where its config says so."""
        self.n_ids = n_ids_of(model)
        # A mask of four dimensions is passed on to the attention as it is: without it every pass would build one.
        self._no_mask = torch.zeros(1, 1, 1, 1, device=model.device)

    def _take_attention(self) -> None:
        """The model may have served continuous batching since, which gives it another attention."""
        if self.model.config.get_text_config()._attn_implementation != ATTENTION:
            self.model.set_attn_implementation(ATTENTION)

    def forward(self, parts: Sequence[Part]) -> torch.Tensor:
        """One pass over all parts: the logits wanted, float[sum of n_logits, vocab_size], in the order of the parts.

        Raises LimitExceeded, before anything is computed, for a row longer than the model's context.
        """
        ids: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        for row, new, n_logits in parts:
            end = row.length + len(new)
            if self.max_length is not None and end > self.max_length:
                raise LimitExceeded("max_position_embeddings", self.max_length, end, "use a shorter prompt")
            ids += new
            positions += range(row.length, end)
            wanted += range(len(ids) - n_logits, len(ids))
        device = self.model.device
        self._take_attention()
        with torch.inference_mode():
            logits: torch.Tensor = self.model(
                input_ids=torch.tensor([ids], device=device),
                position_ids=torch.tensor([positions], device=device),
                attention_mask=self._no_mask,
                logits_to_keep=torch.tensor(wanted, dtype=torch.long, device=device),
                use_cache=False,
                fsmc_parts=parts,
            ).logits
        for row, new, _ in parts:
            row.length += len(new)
        self.n_forward += 1
        self.n_tokens += len(ids)
        return logits[0]


def n_ids_of(model: Any) -> int | None:
    """How many token ids a model can read, the rows of its embedding; None where it does not say."""
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    return getattr(embedding, "num_embeddings", None)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    fsmc_parts: Sequence[Part] | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of each row's new tokens to its own past and to themselves. query, key, value: [1, heads, ΣN, numbers]."""
    if fsmc_parts is None:
        others |= {"scaling": scaling, "sliding_window": sliding_window, "softcap": softcap}
        theirs: tuple[torch.Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **others)
        return theirs
    if softcap is not None:
        raise FsmcError("this model caps its attention scores, which the engine does not do: use fsmc.generate instead")
    output = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])
    begin = 0
    for row, ids, _ in fsmc_parts:
        n = len(ids)
        end = begin + n
        keys, values = row.put(module.layer_idx, key[0, :, begin:end], value[0, :, begin:end])
        n_heads, length = keys.shape[0], keys.shape[1]
        # The query heads that share a key head are further queries of it: no key is copied.
        queries = query[0, :, begin:end].reshape(n_heads, -1, query.shape[3])
        mask = None
        if n > 1 or (sliding_window is not None and length > sliding_window):
            mask = _causal_mask(n, length, sliding_window, query.device).repeat(queries.shape[1] // n, 1)
        # Given four dimensions torch takes its fused kernel: half the time.
        attended = scaled_dot_product_attention(queries[None], keys[None], values[None], attn_mask=mask, scale=scaling)
        output[0, begin:end] = attended.reshape(-1, n, value.shape[3]).transpose(0, 1)
        begin = end
    return output, None


def _causal_mask(n: int, length: int, window: int | None, device: torch.device) -> torch.Tensor:
    """Which of ``length`` tokens the last n may look at: bool[n, length]; with a window the newest of them only."""
    allowed = torch.ones(n, length, dtype=torch.bool, device=device).tril(length - n)
    return allowed if window is None else allowed.triu(length - n - window + 1)
