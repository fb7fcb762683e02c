"""The adapter for llama-cpp-python on a stand-in: the real one is built from source (tests/engines/test_llama_cpp.py)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the stand-in computes with the toy model")
pytest.importorskip("transformers", reason="the stand-in computes with the toy model")

from llama_stand_in import StandIn

import fsmc
from fsmc.runtime.adapters import llama_cpp as adapter

PATTERN = r'\{"name": "[A-Z][a-z]{1,4}", "tall": (true|false)\}'


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
            scores = processor(np.array(ids), llama.logits)
            token = int(scores.argmax())
            if token == llama.token_eos():
                break
            ids.append(token)
            llama.eval([token])
        assert re.fullmatch(PATTERN, llama.tokenizer.decode(ids[length:]))


def test_what_goes_wrong_is_said(llama: StandIn, grammar: Any) -> None:
    processor = adapter.LlamaLogitsProcessor(grammar)
    processor(np.array([1]), llama.logits)
    with pytest.raises(fsmc.FsmcError, match="not allowed"):
        processor(np.array([1, *llama.tokenize(b"x")]), llama.logits)
    with pytest.raises(fsmc.LimitExceeded, match="n_ctx"):
        adapter.generate(llama, [1] * 256, grammar)
