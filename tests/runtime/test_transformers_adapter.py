"""The logits processor in transformers' generate: batches, beams, sampling, assisted decoding; against our own loop."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the adapter needs torch")
pytest.importorskip("transformers", reason="the adapter needs transformers")

import fsmc  # noqa: E402
from fsmc.compiler.errors import FsmcError  # noqa: E402
from fsmc.runtime.adapters.transformers import FsmcLogitsProcessor  # noqa: E402
from fsmc.runtime.generation import generate  # noqa: E402
from fsmc.runtime.toy_model import toy_model  # noqa: E402

PATTERN = r'\{"name": "[A-Z][a-z]{1,6}", "occupation": "(librarian|gardener)", "tall": (true|false)\}'
PROMPTS = ["Please fill in the form: ", "The answer: ", "A character of the fox and the librarian: "]


@pytest.fixture(scope="module")
def toy() -> Any:
    return toy_model(n_layers=2, hidden_size=64)


@pytest.fixture(scope="module")
def grammar(toy: Any) -> fsmc.CompiledGrammar:
    return fsmc.GrammarCompiler(toy.vocab, cache_dir=None).compile_regex(PATTERN)


def texts(toy: Any, prompts: list[str], processor: Any, **options: Any) -> list[str]:
    inputs = toy.tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    options = {"max_new_tokens": 80, "do_sample": False, **options}
    rows = toy.model.generate(
        input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], logits_processor=[processor], **options
    )
    return toy.tokenizer.batch_decode(rows[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def ours(toy: Any, grammar: Any, prompt: str) -> str:
    return generate(toy.model, toy.tokenizer, prompt, grammar, jump="off").text


def test_a_batch_with_left_padding_and_rows_that_end_early(toy: Any, grammar: Any) -> None:
    results = texts(toy, PROMPTS, FsmcLogitsProcessor(grammar))
    assert all(re.fullmatch(PATTERN, text) for text in results)
    assert results == [ours(toy, grammar, prompt) for prompt in PROMPTS]


def test_one_processor_for_prompts_one_after_the_other(toy: Any, grammar: Any) -> None:
    """Among them one that begins with all of another's prompt and answer, as in a conversation."""
    processor = FsmcLogitsProcessor(grammar)
    prompts = [*PROMPTS, PROMPTS[0]]
    answers = []
    for prompt in prompts:
        answers += texts(toy, [prompt], processor)
    answers += texts(toy, [PROMPTS[0] + answers[0] + "\nAnd another: "], processor)
    assert all(re.fullmatch(PATTERN, answer) for answer in answers)
    assert answers[0] == answers[len(PROMPTS)]


def test_beams(toy: Any, grammar: Any) -> None:
    results = texts(toy, PROMPTS[:2], FsmcLogitsProcessor(grammar), num_beams=3, num_return_sequences=3)
    assert len(set(results)) > 2
    assert all(re.fullmatch(PATTERN, text) for text in results)


def test_sampling(toy: Any, grammar: Any) -> None:
    torch.manual_seed(1)
    results = texts(
        toy, PROMPTS[:1], FsmcLogitsProcessor(grammar), do_sample=True, temperature=2.0, num_return_sequences=6
    )
    assert len(set(results)) > 2
    assert all(re.fullmatch(PATTERN, text) for text in results)


def test_assisted_decoding_takes_tokens_back(toy: Any, grammar: Any) -> None:
    """The assistant, too, runs under the processor, on prefixes that may then be turned down."""
    assistant = toy_model(seed=1, n_layers=1, hidden_size=64).model
    assert texts(toy, PROMPTS[:1], FsmcLogitsProcessor(grammar), assistant_model=assistant) == [
        ours(toy, grammar, PROMPTS[0])
    ]


def test_prompt_lookup_drafts_what_the_grammar_forbids(toy: Any, grammar: Any) -> None:
    prompt = PROMPTS[0] + '{"name": "Fox", "name": "Fox", "name" no no no {"name'
    assert texts(toy, [prompt], FsmcLogitsProcessor(grammar), prompt_lookup_num_tokens=4) == [
        ours(toy, grammar, prompt)
    ]


def test_rows_one_by_one(toy: Any, grammar: Any) -> None:
    """A prompt, a continuation, a broken row, a row that has ended, padding behind it, and back to the second."""
    processor = FsmcLogitsProcessor(grammar)
    eos = toy.tokenizer.eos_token_id

    def allowed(row: list[int]) -> set[int]:
        scores = torch.zeros(1, toy.vocab.size)
        masked = processor(torch.tensor([row]), scores)
        assert (scores == 0).all(), "the scores that came in are not ours to change"
        return set(torch.isfinite(masked[0]).nonzero().flatten().tolist())

    def expected(text: str) -> set[int]:
        matcher = fsmc.GrammarMatcher(grammar)
        assert matcher.accept_bytes(text.encode())
        return {i for i in range(toy.vocab.size) if matcher.fork().accept_token(i)}

    everything = set(range(toy.vocab.size))
    prompt = toy.tokenizer.encode("x")
    answer = toy.tokenizer.encode('{"name": "Abc", "occupation": "gardener", "tall": true}')
    assert allowed(prompt) == expected("")
    for n in range(1, len(answer) + 1):
        assert allowed(prompt + answer[:n]) == expected(toy.tokenizer.decode(answer[:n]))
    assert allowed([*prompt, *answer, eos]) == {eos}
    assert allowed([*prompt, *answer, eos, eos]) == {eos}
    broken = [*prompt, answer[0], *toy.tokenizer.encode("!")]
    assert allowed(broken) == everything
    assert allowed([*broken, answer[1]]) == everything
    assert allowed(prompt + answer[:2]) == expected(toy.tokenizer.decode(answer[:2]))


def test_old_rows_are_forgotten_but_not_the_recent_ones(toy: Any, grammar: Any) -> None:
    processor = FsmcLogitsProcessor(grammar)
    scores = torch.zeros(1, toy.vocab.size)
    for token in range(3000):
        processor(torch.tensor([[token, 1]]), scores)
    assert len(processor._matchers) <= 1024


def test_a_vocabulary_that_cannot_go_on_is_an_error() -> None:
    vocab = fsmc.Vocabulary.from_tokens(["a", "b", ""], eos_token_ids=[2])
    processor = FsmcLogitsProcessor(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ac"))
    processor(torch.tensor([[1]]), torch.zeros(1, 3))
    with pytest.raises(FsmcError, match="no token of the vocabulary"):
        processor(torch.tensor([[1, 0]]), torch.zeros(1, 3))
