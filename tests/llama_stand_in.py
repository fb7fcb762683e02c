"""What the adapter for llama-cpp-python uses of it, computed by the toy model."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import fsmc
from fsmc.runtime.toy_model import toy_model


class StandIn:
    """What the adapter uses of ``llama_cpp.Llama``: evaluation from ``n_tokens`` on, and the logits behind the last token."""

    def __init__(self) -> None:
        self.model, self.tokenizer, _ = toy_model(n_layers=2, hidden_size=32)
        self.n_tokens, self.n_evaluated = 0, 0
        self._ids: list[int] = []
        self.logits = np.zeros(self.n_vocab(), np.float32)
        pointer = ctypes.POINTER(ctypes.c_float)
        self._ctx = SimpleNamespace(get_logits_ith=lambda i: self.logits.ctypes.data_as(pointer) if i == -1 else None)

    def n_ctx(self) -> int:
        return 256

    def n_vocab(self) -> int:
        return len(self.tokenizer)

    def token_eos(self) -> int:
        return int(self.tokenizer.eos_token_id)

    token_bos = token_eos

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        return list(self.tokenizer.encode(text.decode()))

    def detokenize(self, tokens: list[int], prev_tokens: list[int] | None = None, special: bool = False) -> bytes:
        vocab = fsmc.Vocabulary.from_huggingface(self.tokenizer)
        return b"".join(vocab.token(token) for token in tokens)

    def reset(self) -> None:
        self.n_tokens = 0

    def eval(self, tokens: list[int]) -> None:
        assert tokens and self.n_tokens + len(tokens) <= self.n_ctx()
        self._ids[self.n_tokens :] = tokens
        with torch.inference_mode():
            logits = self.model(torch.tensor([self._ids])).logits[0]
        self.logits[:] = logits[-1].numpy()
        self.n_tokens = len(self._ids)
        self.n_evaluated += 1

    def create_completion(
        self,
        prompt: str,
        logits_processor: Sequence[Callable[[np.ndarray, np.ndarray], np.ndarray]] = (),
        max_tokens: int = 24,
    ) -> dict[str, Any]:
        """As llama-cpp-python runs processors: the ids so far, and the last row of scores, greedily."""
        ids = self.tokenize(prompt.encode())
        length = len(ids)
        self.reset()
        self.eval(ids)
        while len(ids) < length + max_tokens:
            scores = self.logits
            for processor in logits_processor:
                scores = processor(np.array(ids), scores)
            token = int(scores.argmax())
            if token == self.token_eos():
                break
            ids.append(token)
            self.eval([token])
        return {"choices": [{"text": self.tokenizer.decode(ids[length:])}]}
