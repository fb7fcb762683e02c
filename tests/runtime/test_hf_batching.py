"""Continuous batching of transformers: each request its own grammar, waiting, put off, split, and ending with its own error."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from form_requests import PROMPTS, SCHEMAS

torch = pytest.importorskip("torch", reason="the adapter needs torch")
pytest.importorskip("transformers", reason="the adapter needs transformers")
jsonschema = pytest.importorskip("jsonschema")

from transformers import ContinuousBatchingConfig  # noqa: E402
from transformers.generation.continuous_batching.requests import RequestState  # noqa: E402

import fsmc  # noqa: E402
import fsmc.hf  # noqa: E402
from fsmc.runtime.toy_model import toy_model  # noqa: E402


@pytest.fixture(scope="module")
def toy() -> Any:
    return toy_model(n_layers=2, hidden_size=64)


def room(**options: Any) -> ContinuousBatchingConfig:
    """A cache of 2,048 tokens, and not most of the machine's memory."""
    return ContinuousBatchingConfig(**{"num_blocks": 128, "page_size": 16, "max_batch_tokens": 128, **options})


def write(loaded: Any, prompts: Any, **options: Any) -> Any:
    options.setdefault("continuous_batching_config", room())
    return fsmc.hf.generate_batch(loaded.model, loaded.tokenizer, prompts, **options)


def check(texts: list[str], schemas: list[Any]) -> None:
    assert len(texts) == len(schemas)
    for text, schema in zip(texts, schemas, strict=True):
        jsonschema.validate(json.loads(text), schema)


def test_eight_schemas_as_generate_writes_them(loaded: Any) -> None:
    texts = write(loaded, PROMPTS, json_schema=SCHEMAS, max_new_tokens=40)
    check(texts, SCHEMAS)
    for i in (0, 1, 5):
        alone = fsmc.hf.generate(loaded.model, loaded.tokenizer, PROMPTS[i], json_schema=SCHEMAS[i], max_new_tokens=40)
        assert texts[i] == alone


def test_two_at_a_time(toy: Any) -> None:
    """Requests wait for each other, and prompts are read in pieces."""
    few = room(max_requests_per_batch=2, max_batch_tokens=8)
    check(write(toy, PROMPTS, json_schema=SCHEMAS, max_new_tokens=40, continuous_batching_config=few), SCHEMAS)


def test_sampling_and_several_texts_of_a_prompt(toy: Any) -> None:
    torch.manual_seed(3)
    options = {"do_sample": True, "temperature": 1.5, "top_k": 20, "num_return_sequences": 3}
    texts = write(toy, PROMPTS[:4], json_schema=SCHEMAS[:4], max_new_tokens=40, **options)
    check(texts, [schema for schema in SCHEMAS[:4] for _ in range(3)])
    assert len(set(texts)) > 4


def test_requests_that_are_put_off(toy: Any, monkeypatch: Any) -> None:
    """The cache holds few of the texts: requests are taken out of it, and go on from what they had written."""
    grammar = fsmc.GrammarCompiler(toy.vocab, cache_dir=None).compile_regex("([0-9]{4},){30}[a-z]{2}")
    small = room(num_blocks=24, page_size=16, max_batch_tokens=64, allow_block_sharing=False)
    put_off = []
    whole = RequestState.create_equivalent_initial_request

    def counted(state: Any) -> Any:
        put_off.append(state.request_id)
        return whole(state)

    monkeypatch.setattr(RequestState, "create_equivalent_initial_request", counted)
    with fsmc.hf.ConstrainedBatching(toy.model, continuous_batching_config=small) as manager:
        for i in range(6):
            manager.add_request(toy.tokenizer.encode(f"{i}: "), f"r{i}", 200, grammar=grammar)
        outputs: list[Any] = [manager.get_result(timeout=60) for _ in range(6)]
    for output in outputs:
        assert output.error is None
        assert re.fullmatch(
            "([0-9]{4},){30}[a-z]{2}", toy.tokenizer.decode(output.generated_tokens, skip_special_tokens=True)
        )
    assert put_off, "the cache was too large for this test"


def test_engine_and_batching_take_turns_at_one_model() -> None:
    """Each gives the model an attention of its own."""
    model, tokenizer, vocab = toy_model(n_layers=2, hidden_size=64)
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("[a-f]{4}-[0-9]{3}")
    engine = fsmc.Engine(model, tokenizer, vocab)
    texts = []
    for _ in range(2):
        (response,) = engine.run([fsmc.Request(PROMPTS[0], grammar)])
        assert response.error is None
        options = {"grammar": [grammar], "max_new_tokens": 12, "continuous_batching_config": room()}
        texts += [response.text, *fsmc.hf.generate_batch(model, tokenizer, PROMPTS[:1], **options)]
    assert len(set(texts)) == 1 and re.fullmatch("[a-f]{4}-[0-9]{3}", texts[0])


def test_free_requests_stay_free(toy: Any) -> None:
    compiler = fsmc.hf.compiler_for(toy.model, toy.tokenizer)
    grammars = [None, compiler.compile_regex("[0-9]{2}"), None]
    prompts = [PROMPTS[0], PROMPTS[0], PROMPTS[1]]
    texts = write(toy, prompts, grammar=grammars, max_new_tokens=6)
    assert re.fullmatch("[0-9]{2}", texts[1])
    for i in (0, 2):
        assert texts[i] == fsmc.hf.generate(toy.model, toy.tokenizer, prompts[i], grammar=[None], max_new_tokens=6)


def test_nothing_is_cut_off(toy: Any) -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    for n in (3, 12):
        check(write(toy, PROMPTS[:3], json_schema=schema, max_new_tokens=n), [schema] * 3)
    with pytest.raises(fsmc.BudgetExceeded):
        write(toy, PROMPTS[:3], json_schema=schema, max_new_tokens=1)


def test_a_request_that_cannot_go_on_ends_alone(toy: Any) -> None:
    """No token has an "é", or a byte of it: its request ends with that error, and the other goes on."""
    tokens = [toy.vocab.token(i) for i in range(toy.vocab.size)]
    gaps = [b"" if max(token, default=0) > 127 else token for token in tokens]
    eos = toy.vocab.eos_token_ids
    special = [i for i, token in enumerate(gaps) if not token]
    compiler = fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens(gaps, eos, special), cache_dir=None)
    with fsmc.hf.ConstrainedBatching(toy.model, continuous_batching_config=room()) as manager:
        with pytest.raises(fsmc.VocabularyError):
            manager.add_request([1, 2], max_new_tokens=9, grammar=compiler.compile_regex("[0-9]{2}(é|ü)"))
        for letter in "bcdfghjk":  # some of these letters the model likes better than what can be ended
            grammar = compiler.compile_regex(f"{letter}é|a")
            manager.add_request([1, 2], letter, grammar=grammar)  # within a number of tokens it would be seen
        outputs: list[Any] = [manager.get_result(timeout=30) for _ in range(8)]
    texts = {output.request_id: toy.tokenizer.decode(output.generated_tokens[:-1]) for output in outputs}
    assert {output.error is None for output in outputs} == {True, False}
    for output in outputs:
        name = output.request_id
        assert texts[name] == ("a" if output.error is None else name)
        assert output.error is None or "cannot spell" in output.error


def test_end_tokens_of_a_request(toy: Any) -> None:
    (stop,) = toy.tokenizer.encode("z")
    grammar = fsmc.hf.compiler_for(toy.model, toy.tokenizer).compile_regex("[a-z]{3}")
    with fsmc.hf.ConstrainedBatching(toy.model, continuous_batching_config=room()) as manager:
        manager.add_request(toy.tokenizer.encode("x"), "a", 9, eos_token_id=stop, grammar=grammar)
        manager.add_request(toy.tokenizer.encode("x"), "b", 9, eos_token_id=[stop], grammar=grammar, streaming=True)
        outputs: list[Any] = []
        while sum(output.is_finished() for output in outputs) < 2:
            outputs.append(manager.get_result(timeout=30))
    for output in (one for one in outputs if one.is_finished()):
        assert output.generated_tokens[-1] == stop
        assert re.fullmatch("[a-y]{3}", toy.tokenizer.decode(output.generated_tokens[:-1]))


def test_wrong_arguments(toy: Any) -> None:
    for asked in ({"use_async_batching": True}, {"use_cuda_graph": True}, {"use_cuda_graph": (False, True)}):
        with pytest.raises(ValueError, match="do not go with constraints"):
            fsmc.hf.ConstrainedBatching(toy.model, continuous_batching_config=room(**asked))
    with pytest.raises(ValueError, match="beam"):
        write(toy, PROMPTS[:1], regex="a", beam=4)
    with pytest.raises(fsmc.ConstraintError, match="2 prompts need"):
        write(toy, PROMPTS[:2], regex=["a", "b", "c"])
    assert write(toy, [], regex="a") == []
    wide = fsmc.Vocabulary.from_tokens([b"a"] + [b""] * 60_000, eos_token_ids=[1])
    other = fsmc.GrammarCompiler(wide, cache_dir=None).compile_regex("a")
    with fsmc.hf.ConstrainedBatching(toy.model, continuous_batching_config=room()) as manager:
        with pytest.raises(ValueError, match="another's"):
            manager.add_request([1], grammar=other)
        with pytest.raises(TypeError, match="CompiledGrammar"):
            manager.add_request([1], grammar="[a-z]")  # type: ignore[arg-type]
