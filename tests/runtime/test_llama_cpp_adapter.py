"""The adapter for llama-cpp-python on a stand-in with its documented interface: there are no wheels of the real one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the stand-in computes with the toy model")
pytest.importorskip("transformers", reason="the stand-in computes with the toy model")

import fsmc  # noqa: E402
from fsmc.runtime.adapters import llama_cpp as adapter  # noqa: E402
from fsmc.runtime.toy_model import toy_model  # noqa: E402

PATTERN = r'\{"name": "[A-Z][a-z]{1,4}", "tall": (true|false)\}'


class StandIn:
    """What the adapter uses of ``llama_cpp.Llama``: evaluation from ``n_tokens`` on, with a row of scores for each token."""

    def __init__(self) -> None:
        self.model, self.tokenizer, _ = toy_model(n_layers=2, hidden_size=32)
        self.n_tokens, self.n_evaluated = 0, 0
        self._ids: list[int] = []
        self.scores = np.zeros((self.n_ctx(), self.n_vocab()), np.float32)

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
        self.scores[self.n_tokens : len(self._ids)] = logits[self.n_tokens :].numpy()
        self.n_tokens = len(self._ids)
        self.n_evaluated += 1


@pytest.fixture(scope="module")
def llama() -> StandIn:
    return StandIn()


@pytest.fixture(scope="module")
def grammar(llama: StandIn) -> fsmc.CompiledGrammar:
    vocab = adapter.vocabulary_of(llama)
    assert vocab.fingerprint == fsmc.Vocabulary.from_huggingface(llama.tokenizer).fingerprint
    return fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex(PATTERN)


def test_jumping_takes_fewer_evaluations(llama: StandIn, grammar: Any) -> None:
    counts = []
    for jump in (False, True):
        llama.reset()
        before = llama.n_evaluated
        text = adapter.generate(llama, "Fill in: ", grammar, jump=jump)
        assert re.fullmatch(PATTERN, text)
        counts.append(llama.n_evaluated - before)
    assert counts[1] < counts[0] / 2


def test_the_processor_in_a_loop_as_llama_cpp_runs_it(llama: StandIn, grammar: Any) -> None:
    processor = adapter.LlamaLogitsProcessor(grammar)
    for prompt in ("One: ", "One more: ", "One: "):
        ids = llama.tokenize(prompt.encode())
        length = len(ids)
        llama.reset()
        llama.eval(ids)
        while True:
            scores = processor(np.array(ids), llama.scores[llama.n_tokens - 1])
            token = int(scores.argmax())
            if token == llama.token_eos():
                break
            ids.append(token)
            llama.eval([token])
        assert re.fullmatch(PATTERN, llama.tokenizer.decode(ids[length:]))


def test_what_goes_wrong_is_said(llama: StandIn, grammar: Any) -> None:
    processor = adapter.LlamaLogitsProcessor(grammar)
    processor(np.array([1]), llama.scores[0])
    with pytest.raises(fsmc.FsmcError, match="not allowed"):
        processor(np.array([1, *llama.tokenize(b"x")]), llama.scores[0])
    with pytest.raises(fsmc.LimitExceeded, match="n_ctx"):
        adapter.generate(llama, [1] * 256, grammar)
