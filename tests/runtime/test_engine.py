"""The engine: against the loop for one sequence, what it computes and shares, and every way for a request to end."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import re
import subprocess
import sys
import threading
import time
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the engine needs torch")
pytest.importorskip("transformers", reason="the engine needs transformers")

import fsmc  # noqa: E402
from fsmc.compiler.errors import FsmcError, LimitExceeded  # noqa: E402
from fsmc.runtime.engine import Engine  # noqa: E402
from fsmc.runtime.generation import generate  # noqa: E402
from fsmc.runtime.packed_model import KeyValueRow, PackedModel, Part  # noqa: E402
from fsmc.runtime.request import Request  # noqa: E402
from fsmc.runtime.sampling_params import SamplingParams  # noqa: E402
from fsmc.runtime.toy_model import toy_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPT = "Please fill in the form: "
FORM = (
    r'\{"name": "[A-Z][a-z]{1,8}", "occupation": "(librarian|gardener)", "can swim": (true|false), "age": [1-9][0-9]?\}'
)
PATTERNS = [
    FORM,
    r"(?:白天|白头|日本)です, (?:né|nä|\U0001f389)\.",
    r"[a-c]{5}",
    "only this",
    r"name: [A-Z][a-z]{2,5}\nage: \d{2}\n\n",
]
MODES = ("off", "canonical", "exact")


@pytest.fixture(scope="module")
def grammars(compiler: Any) -> dict[str, fsmc.CompiledGrammar]:
    return {pattern: compiler.compile_regex(pattern) for pattern in PATTERNS}


def engine_of(toy: Any, **options: Any) -> Engine:
    return Engine(toy.model, toy.tokenizer, toy.vocab, **options)


# -------------------------------------------------------------------------------------------------- the packed model


def test_packed_rows_give_the_logits_of_each_row_alone(toy: Any) -> None:
    """Rows of any lengths come, grow, are cropped anywhere and go on, in passes together."""
    random.seed(1)
    plain = toy_model(n_layers=2, hidden_size=64).model
    packed = PackedModel(toy.model)
    rows: list[tuple[KeyValueRow, list[int]]] = [(KeyValueRow(), []) for _ in range(4)]
    for _ in range(12):
        parts, expected = [], []
        for past, ids in random.sample(rows, random.randint(1, 4)):
            past.length = random.randint(max(0, past.length - 5), past.length)
            del ids[past.length :]
            new = [random.randrange(300) for _ in range(random.choice((1, 1, 2, 7, 90)))]
            ids += new
            n_logits = random.randint(0, len(new))
            parts.append(Part(past, new, n_logits))
            with torch.inference_mode():
                expected.append(plain(torch.tensor([ids])).logits[0, len(ids) - n_logits :])
        assert torch.allclose(packed.forward(parts), torch.cat(expected), atol=2e-3)


def test_a_row_that_was_read_takes_more_from_another(toy: Any) -> None:
    """Outside a pass, too: torch would refuse to change there what a pass has made."""
    packed = PackedModel(toy.model)
    ids = list(range(20, 50))
    whole, row = KeyValueRow(), KeyValueRow()
    expected = packed.forward([Part(whole, ids, 1)])
    packed.forward([Part(row, ids[:7], 1)])
    row.extend(whole.copy(7, 29))
    assert torch.allclose(packed.forward([Part(row, ids[29:], 1)]), expected, atol=1e-3)


def test_requests_that_follow_each_other_share_what_jumps_bring(toy: Any, compiler: Any) -> None:
    """The second is one pass behind the first, whose whole text it finds in the cache at its last jump."""
    pattern = "x{3}(a|b)" + "the name of the character is long(c|d)[ef]" * 2
    engine = engine_of(toy)
    prompt = toy.tokenizer.encode(PROMPT * 12)
    responses = engine.run([Request(prompt, compiler.compile_regex(pattern), jump="canonical") for _ in range(3)])
    assert len({response.text for response in responses}) == 1 and responses[0].error is None
    assert re.fullmatch(pattern, responses[0].text)


def test_a_model_of_the_engine_still_works_outside(toy: Any) -> None:
    plain = toy_model(n_layers=2, hidden_size=64)
    PackedModel(toy.model)
    ids = plain.tokenizer([PROMPT, "the name"], return_tensors="pt", padding=True, padding_side="left")
    theirs, ours = (m.generate(**ids, max_new_tokens=12, do_sample=False) for m in (plain.model, toy.model))
    assert torch.equal(theirs, ours)


def test_a_window_of_attention_is_kept() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(
        vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=5, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MistralForCausalLM(config).eval()
    ids = torch.randint(0, 300, (23,), generator=torch.Generator().manual_seed(2)).tolist()
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0]
    packed, past = PackedModel(model), KeyValueRow()
    got = [packed.forward([Part(past, ids[a:b], b - a)]) for a, b in ((0, 9), (9, 10), (10, 23))]
    assert torch.allclose(torch.cat(got), expected, atol=1e-3)


def test_a_recurrent_model_is_refused() -> None:
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: SimpleNamespace(layer_types=["mamba"])))
    with pytest.raises(FsmcError, match="layers of kind mamba"):
        PackedModel(model)


# -------------------------------------------------------------------------------------- the same texts as one by one


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 1}])
def test_a_mixed_batch_writes_what_each_request_writes_alone(toy: Any, grammars: Any, options: dict[str, Any]) -> None:
    """All patterns, all kinds of jumps, and requests without a constraint, fewer places than requests."""
    cases = [(pattern, jump) for pattern in [*PATTERNS, None] for jump in MODES]
    requests = [
        Request(PROMPT, grammars.get(pattern), SamplingParams(**options), jump, max_new_tokens=60)
        for pattern, jump in cases
    ]
    responses = engine_of(toy, max_batch_size=5).run(requests)
    for (pattern, jump), response in zip(cases, responses, strict=True):
        alone = generate(
            toy.model,
            toy.tokenizer,
            PROMPT,
            grammars.get(pattern),
            vocab=toy.vocab,
            jump=jump,
            max_new_tokens=60,
            **options,
        )
        assert (response.text, response.token_ids, response.finish_reason) == (
            alone.text, alone.token_ids, alone.finish_reason,
        ), (pattern, jump)  # fmt: skip
        if jump != "exact":  # whose drafts grow and shrink here
            assert response.sampled_tokens == alone.sampled_tokens and response.jumped_tokens == alone.jumped_tokens
        assert response.retokenized_tokens == alone.retokenized_tokens and response.error is None


def test_exact_jumps_give_the_tokens_of_no_jumps(toy: Any, grammars: Any) -> None:
    for options in ({}, {"temperature": 1.5, "seed": 3, "frequency_penalty": 0.2, "top_k": 50, "min_new_tokens": 3}):
        requests = [
            Request(PROMPT, grammars[p], SamplingParams(**options), jump) for p in PATTERNS for jump in ("off", "exact")
        ]
        responses = engine_of(toy).run(requests)
        for off, exact in zip(responses[::2], responses[1::2], strict=True):
            assert exact.token_ids == off.token_ids and exact.forward_passes <= off.forward_passes


def test_any_limit_on_the_tokens_and_any_size_of_pass(toy: Any, grammars: Any) -> None:
    whole = engine_of(toy).run([Request(PROMPT, grammars[FORM], jump=jump) for jump in MODES])
    for per_pass in (3, 7):
        responses = engine_of(toy, max_batch_size=3, max_tokens_per_pass=per_pass).run(
            [Request(PROMPT, grammars[FORM], jump=jump) for jump in MODES]
        )
        assert [r.text for r in responses] == [r.text for r in whole], "a prompt read in pieces"
    limits = range(0, 40, 3)
    for jump, full in zip(MODES, whole, strict=True):
        for limit, r in zip(
            limits,
            engine_of(toy).run([Request(PROMPT, grammars[FORM], jump=jump, max_new_tokens=n) for n in limits]),
            strict=True,
        ):
            assert len(r.token_ids) <= limit or r.finish_reason == "stop"
            assert fsmc.GrammarMatcher(grammars[FORM]).accept_bytes(r.text.encode())
            assert (r.finish_reason == "stop") == (r.text == full.text) or len(full.token_ids) <= limit


def test_a_grammar_for_other_tokens_is_refused(toy: Any, grammars: Any) -> None:
    tokens = list(toy.vocab.tokens)
    tokens[3], tokens[4] = tokens[4], tokens[3]
    other = fsmc.Vocabulary.from_tokens(tokens, toy.vocab.eos_token_ids, toy.vocab.special_token_ids)
    grammar = fsmc.GrammarCompiler(other, cache_dir=None).compile_regex("a{3}")
    engine = engine_of(toy)
    refused, fine = engine.run([Request(PROMPT, grammar), Request(PROMPT, grammars["only this"])])
    assert "a grammar for other tokens" in str(refused.error) and fine.text == "only this"
    same = fsmc.Vocabulary.from_tokens(toy.vocab.tokens, (), toy.vocab.special_token_ids)
    (fine,) = engine.run([Request(PROMPT, fsmc.GrammarCompiler(same, cache_dir=None).compile_regex("a{3}"))])
    assert fine.text == "aaa"


def test_never_cut_off(toy: Any, grammars: Any, compiler: Any) -> None:
    schema = compiler.compile_json_schema({"type": "array", "items": {"type": "string"}, "minItems": 2})
    for grammar in (grammars[FORM], schema):
        least = fsmc.GrammarMatcher(grammar).num_tokens_to_complete() - 1
        requests = [
            Request(PROMPT, grammar, SamplingParams(temperature=1.2, seed=n), jump, least + n, never_cut_off=True)
            for n in range(0, 14, 2)
            for jump in MODES
        ]
        for request, response in zip(requests, engine_of(toy).run(requests), strict=True):
            assert response.error is None and response.finish_reason == "stop"
            assert grammar.machine.matches(response.text.encode())
            assert len(response.token_ids) <= request.max_new_tokens
        (refused,) = engine_of(toy).run([Request(PROMPT, grammar, max_new_tokens=least - 1, never_cut_off=True)])
        assert isinstance(refused.error, FsmcError) and refused.text == ""
        said = f"max_new_tokens={least - 1} is not enough to complete the text: {least} are"
        assert str(refused.error) == said
    (refused,) = engine_of(toy).run([Request(PROMPT, never_cut_off=True)])
    assert "needs a grammar" in str(refused.error)


def test_never_cut_off_behind_the_end_of_thinking(toy: Any, compiler: Any) -> None:
    grammar = compiler.compile_regex("name: (?:yes|no), it is .")
    least = fsmc.ReasoningGate(fsmc.GrammarMatcher(grammar), "<end>").num_tokens_to_complete()
    for jump in MODES:
        requests = [
            Request(
                PROMPT, grammar, SamplingParams(temperature=1.5, seed=n), jump, least - 1 + 3 * n,
                thinking_end="<end>", never_cut_off=True,
            )
            for n in range(6)
        ]  # fmt: skip
        for response in engine_of(toy).run(requests):
            assert response.finish_reason == "stop", response.error
            assert grammar.machine.matches(response.text.partition("<end>")[2].encode())


def test_thinking_comes_first(toy: Any, grammars: Any) -> None:
    """The marker is banned until a few tokens were thought, then forced by a bias."""

    def think(output: Any, logits: Any) -> Any:
        spelled = b"".join(map(toy.vocab.token, output))
        if b"<end>" not in spelled:
            logits[:] = -100.0
            rest = b"....<end>"[len(spelled) :]
            logits[next(i for i in range(toy.vocab.size) if toy.vocab.token(i) == rest[:1])] = 0.0
        return logits

    for jump in MODES:
        request = Request(PROMPT, grammars[FORM], SamplingParams(processors=[think]), jump, thinking_end="<end>")
        (response,) = engine_of(toy).run([request])
        assert response.text.startswith("....<end>") and re.fullmatch(FORM, response.text[9:])


def test_what_ends_the_text_is_not_written_by_a_jump(toy: Any, compiler: Any) -> None:
    """A stop id may be an ordinary token, and one that the tokenizer would spell forced text with."""
    grammar = compiler.compile_regex("[a-c]{2}occupation[a-c]")
    (stop,) = toy.tokenizer.encode("occupation")
    for jump in MODES:
        (response,) = engine_of(toy).run([Request(PROMPT, grammar, jump=jump, stop_token_ids=[stop])])
        assert response.finish_reason == "stop" and stop not in response.token_ids
        assert grammar.machine.matches(response.text.encode())


def test_streams_stop_strings_and_logprobs(toy: Any, grammars: Any) -> None:
    for jump in MODES:
        pieces: list[str] = []
        request = Request(
            PROMPT, grammars[FORM], SamplingParams(logprobs=2), jump, stop=['", "occ'],
            on_text=lambda piece, forced, pieces=pieces: pieces.append(piece),
        )  # fmt: skip
        (response,) = engine_of(toy).run([request])
        assert response.finish_reason == "stop" and "".join(pieces) == response.text
        assert re.fullmatch(r'\{"name": "[A-Z][a-z]{1,8}', response.text)
        places = [place for place, _ in response.logprobs]
        assert places == sorted(set(places)) and all(place < len(response.token_ids) for place in places)
        assert all(len(logprobs.top) == 2 for _, logprobs in response.logprobs)
        if jump == "off":
            assert len(places) == len(response.token_ids)


# ---------------------------------------------------------------------------------------- what is computed, and shared


def test_a_common_prompt_is_read_once(toy: Any, grammars: Any) -> None:
    engine = engine_of(toy)
    prompt = toy.tokenizer.encode(PROMPT * 8)
    responses = engine.run([Request(prompt, grammars["[a-c]{5}"], jump="off") for _ in range(8)])
    sampled = sum(response.forward_passes - 1 for response in responses)
    assert len({response.text for response in responses}) == 1
    assert sum(r.computed_tokens for r in responses) == engine.model.n_tokens == len(prompt) + 7 + sampled
    assert sum(r.shared_tokens for r in responses) == 7 * (len(prompt) - 1)
    again = engine.run([Request([*prompt, 5, 6, 7], max_new_tokens=1)])[0]
    assert (again.shared_tokens, again.computed_tokens) == (len(prompt), 3) or again.shared_tokens > len(prompt)


def test_a_step_tells_how_many_masks_it_took(toy: Any, grammars: Any) -> None:
    """One a constrained row, and those of the drafted tokens up to the first that will not be chosen."""
    for jump, drafted in (("off", False), ("exact", True)):
        steps: list[Any] = []
        engine = engine_of(toy, on_step=steps.append)
        engine.run([Request(PROMPT, grammars[FORM], jump=jump), Request(PROMPT, max_new_tokens=3)])
        assert all(step.n_masks >= 1 for step in steps[:-1])
        assert any(step.n_masks > 1 for step in steps) == drafted
        assert all(step.n_masks <= step.n_tokens for step in steps)


def test_different_prompts_do_not_wait_for_each_other(toy: Any) -> None:
    engine = engine_of(toy)
    engine.run([Request([i, 50, 51, 52, 53, 54], max_new_tokens=1) for i in range(60, 68)])
    assert engine.model.n_forward == 1


def test_a_jump_computes_only_past_the_common_prefix(toy: Any, grammars: Any) -> None:
    """What a request makes the model read: its prompt, and of every pass what is new; a token that a jump replaced counts
    again, the last one is never read."""
    for pattern in (FORM, PATTERNS[4]):
        engine = engine_of(toy)
        (response,) = engine.run([Request(PROMPT, grammars[pattern])])
        read = response.computed_tokens + response.shared_tokens
        whole = response.prompt_tokens + len(response.token_ids)
        assert whole - 1 - response.jumped_tokens <= read <= whole + response.retokenized_tokens
        assert (
            engine.model.n_tokens == response.computed_tokens
            and response.retokenized_tokens < len(response.token_ids) / 2
        )


def test_the_prefix_cache_is_bounded(toy: Any) -> None:
    engine = engine_of(toy, prefix_cache_bytes=30_000)
    for i in range(12):
        engine.run([Request(list(range(i, i + 20)), max_new_tokens=4)])
        assert engine.prefixes.n_bytes <= 30_000
    assert engine.prefixes.n_bytes > 0
    engine = engine_of(toy, prefix_cache_bytes=0)
    (response,) = engine.run([Request([1, 2, 3], max_new_tokens=4)])
    assert engine.prefixes.n_bytes == 0 and response.error is None


def test_prefixes_against_a_plain_dictionary() -> None:
    """Random insertions and look-ups; each number of the keys is the hash of the tokens up to it."""
    from fsmc.runtime.prefix_cache import PrefixCache

    def row_of(ids: list[int]) -> KeyValueRow:
        row = KeyValueRow()
        numbers = torch.tensor([hash(tuple(ids[: i + 1])) % 10_007 for i in range(len(ids))], dtype=torch.float32)
        for layer in range(2):
            row.put(layer, (numbers + layer).view(1, -1, 1), (numbers - layer).view(1, -1, 1))
        row.length = len(ids)
        return row

    rng = random.Random(0)
    for max_bytes in (10**6, 600):
        cache, known = PrefixCache(max_bytes), set()
        for _ in range(400):
            ids = [rng.randrange(2) for _ in range(rng.randint(1, 9))]
            longest = max((n for n in range(len(ids) + 1) if tuple(ids[:n]) in known), default=0)
            n = cache.match_length(ids)
            assert n == longest if max_bytes > 1000 else n <= longest
            have = rng.randint(0, len(ids) - 1)
            row = row_of(ids[:have])
            assert cache.extend(row, ids) == max(min(n, len(ids) - 1) - have, 0)
            expected = row_of(ids[: row.length])
            assert all(map(torch.equal, row.copy(0, row.length), expected.copy(0, row.length)))
            cache.insert(ids, row_of(ids))
            known |= {tuple(ids[:n]) for n in range(len(ids) + 1)}
            assert cache.n_bytes <= max_bytes
            assert cache.n_bytes == sum(node.n_bytes for node in cache._by_use)


# --------------------------------------------------------------------------------------------------------- when it fails


class Pending:
    """A grammar that is ready after some polls."""

    def __init__(self, outcome: Any, polls: int) -> None:
        self.outcome, self.polls, self.cancelled = outcome, polls, False

    def poll(self) -> Any:
        self.polls -= 1
        return self.outcome if self.polls < 0 else None

    def cancel(self) -> None:
        self.cancelled = True


def test_what_is_not_ready_does_not_hold_up_others(toy: Any, grammars: Any) -> None:
    engine = engine_of(toy, max_batch_size=1)
    order: list[int] = []
    grammars_then = [
        Pending(grammars["only this"], 10),
        Pending(SimpleNamespace(message="bad schema"), 3),
        grammars[FORM],
    ]
    responses = engine.run([Request(PROMPT, g) for g in grammars_then], on_done=lambda i, _: order.append(i))
    assert [str(r.error) for r in responses] == ["None", "bad schema", "None"]
    assert order[-1] == 0 or responses[0].text == "only this"
    assert order.index(1) < order.index(0)


def test_each_failure_stays_with_its_request(toy: Any, grammars: Any) -> None:
    def oops(*_: Any) -> Any:
        raise RuntimeError("oops")

    class Broken(fsmc.CompiledGrammar):
        masks = property(oops)

    broken = object.__new__(Broken)
    broken.__dict__.update(grammars[FORM].__dict__)
    requests = [
        Request(PROMPT, grammars[FORM]),
        Request(PROMPT, grammars[FORM], on_text=oops),
        Request(PROMPT, grammars[FORM], SamplingParams(processors=[oops])),
        Request([], grammars[FORM]),
        Request(PROMPT * 2000),
        Request(PROMPT, grammars[FORM], SamplingParams(logit_bias=dict.fromkeys(range(400), float("-inf"))), "off"),
        Request(PROMPT, broken),
        Request(PROMPT, grammars["[a-c]{5}"]),
    ]
    responses = engine_of(toy, max_batch_size=3).run(requests)
    errors = [str(response.error) for response in responses]
    assert errors[0] == errors[7] == "None" and re.fullmatch(FORM, responses[0].text)
    assert "oops" in errors[1] and "oops" in errors[2] and "oops" in errors[6]
    assert "no tokens" in errors[3] and "max_position_embeddings=4096" in errors[4] and "no token is left" in errors[5]
    assert [r.finish_reason for r in responses] == ["stop"] + ["error"] * 6 + ["stop"]


def test_a_pass_that_fails_ends_whom_it_fails_for_alone(toy: Any, grammars: Any) -> None:
    """From its third token on one request makes every pass fail (its keys find no room, say); then the model fails for all."""
    engine = engine_of(toy)
    real = engine.model.forward
    fails_for_all = False
    marked: list[Any] = []

    def failing(parts: Any) -> Any:
        marked.extend(part.row for part in parts if part.ids[0] == 6 and not part.row.length)
        if fails_for_all or any(part.row in marked and part.row.length > 4 for part in parts):
            raise MemoryError("no room")
        return real(parts)

    requests = [Request([i, 7, 8], grammars[FORM], jump=jump) for i, jump in ((5, "off"), (6, "off"), (9, "exact"))]
    expected = [engine_of(toy).run([request])[0].text for request in requests]
    engine.model.forward = failing  # type: ignore[method-assign]
    first, second, third = engine.run(requests)
    assert isinstance(second.error, MemoryError) and second.token_ids and expected[1].startswith(second.text)
    assert [first.text, third.text] == [expected[0], expected[2]]
    fails_for_all = True
    assert all(isinstance(response.error, MemoryError) for response in engine.run(requests))
    fails_for_all = False
    assert engine.run(requests[:1])[0].text == expected[0]


def test_a_machine_that_may_not_grow_further_ends_whom_it_is_too_small_for(toy: Any, grammars: Any) -> None:
    """What was built before stays usable, for others of the same grammar too."""
    names = {f"member{n}": {"enum": [f"text {n}", n]} for n in range(40)}
    schema = {"type": "object", "properties": names, "required": list(names), "additionalProperties": False}
    compiler = fsmc.GrammarCompiler(toy.vocab, cache_dir=None, whitespace="json", property_order="any")
    needed = compiler.compile_json_schema(schema).machine
    small = fsmc.GrammarCompiler(
        toy.vocab, cache_dir=None, whitespace="json", property_order="any", max_states=needed.n_states + 200
    )
    engine, tight = engine_of(toy), small.compile_json_schema(schema)
    requests = [
        Request(PROMPT, grammar, jump=jump, max_new_tokens=200)
        for grammar, jump in ((tight, "canonical"), (grammars["only this"], "off"), (tight, "off"), (None, "off"))
    ]
    first, other, second, free = engine.run(requests)
    assert isinstance(first.error, LimitExceeded) and isinstance(second.error, LimitExceeded)
    assert first.error.name == "max_states" and other.text == "only this" and free.error is None
    (short,) = engine.run([Request(PROMPT, tight, jump="off", max_new_tokens=1)])
    assert short.finish_reason == "length" and short.text.startswith("{")


def test_abort(toy: Any, grammars: Any) -> None:
    engine = engine_of(toy, max_batch_size=2)
    pending = Pending(None, 10**9)
    tickets = [engine.submit(Request(PROMPT, g, max_new_tokens=2000)) for g in (None, grammars[FORM], None, pending)]
    for _ in range(3):
        engine.step()
    for ticket in (tickets[0], tickets[2], tickets[3]):
        ticket.abort()
    while engine.step():
        pass
    reasons = [ticket.result(0).finish_reason for ticket in tickets]
    assert reasons == ["abort", "stop", "abort", "abort"] and pending.cancelled
    assert len(tickets[0].result(0).token_ids) >= 2 and not tickets[2].result(0).token_ids


def kill(thread: threading.Thread) -> None:
    """Make a thread raise SystemExit at its next bytecode."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mask_thread_that_dies_is_replaced(toy: Any, grammars: Any) -> None:
    engine = engine_of(toy)
    engine.run([Request(PROMPT, grammars["only this"], jump="off")])
    for _ in range(4):
        old = engine._mask_thread._thread
        assert old is not None
        kill(old)
        responses = engine.run([Request(PROMPT, grammars[FORM], jump=jump) for jump in MODES])
        assert all(re.fullmatch(FORM, response.text) for response in responses)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_engine_thread_that_dies_leaves_nobody_waiting(toy: Any, grammars: Any) -> None:
    engine = engine_of(toy).start()
    ticket = engine.submit(Request(PROMPT, max_new_tokens=4000, on_text=lambda *_: time.sleep(0.001)))
    assert engine.submit(Request(PROMPT, grammars[FORM])).result(60).error is None
    thread = engine._thread
    assert thread is not None
    kill(thread)
    assert "the engine ended" in str(ticket.result(60).error)
    thread.join()  # or what it prints as it ends belongs to the next test
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit(Request(PROMPT))


def test_requests_from_many_threads(toy: Any, grammars: Any) -> None:
    with engine_of(toy).start() as engine:
        results: list[Any] = []

        def ask(seed: int) -> None:
            for i in range(3):
                pattern = PATTERNS[(seed + i) % len(PATTERNS)]
                sampling = SamplingParams(temperature=1.0, seed=seed)
                results.append((pattern, engine.submit(Request(PROMPT, grammars[pattern], sampling)).result(120)))

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 18 and all(re.fullmatch(pattern, response.text) for pattern, response in results)
        left = engine.submit(Request(PROMPT, max_new_tokens=4000))
    assert left.result(0).finish_reason == "abort" and left.result(0).error is None, "close answers what is left"


def test_arguments(toy: Any) -> None:
    for name in ("max_batch_size", "max_tokens_per_pass", "prefix_cache_bytes"):
        for value in (-1, 1.5, "a", None, True):
            with pytest.raises((TypeError, ValueError), match=name):
                engine_of(toy, **{name: value})
    with pytest.raises(ValueError, match="jump"):
        Request(PROMPT, jump="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_new_tokens"):
        Request(PROMPT, max_new_tokens=-1)
    with pytest.raises(TypeError, match="stop"):
        Request(PROMPT, stop="end")
    with pytest.raises(TimeoutError):
        engine_of(toy).submit(Request(PROMPT)).result(0.01)
    assert isinstance(LimitExceeded("a", 1, 2), FsmcError)


def test_an_engine_that_nobody_holds_is_gone(toy: Any) -> None:
    """Its thread is waiting for work, and holds none of the last."""
    engine = engine_of(toy)
    engine.run([Request(PROMPT, max_new_tokens=3)])
    thread, gone = engine._mask_thread._thread, weakref.ref(engine)
    assert thread is not None
    del engine
    gc.collect()
    assert gone() is None
    thread.join(30)
    assert not thread.is_alive()


def test_a_started_engine_that_nobody_holds_is_gone(toy: Any) -> None:
    """As soon as all is answered; a ticket that is kept does not hold it, nor does the wait for work."""
    engine = engine_of(toy).start()
    threads, gone = [engine._thread], weakref.ref(engine)
    tickets = [engine.submit(Request(PROMPT, max_new_tokens=n)) for n in (3, 30)]
    del engine
    assert [ticket.result(30).finish_reason for ticket in tickets] == ["length"] * 2
    for thread in threads:
        assert thread is not None
        thread.join(30)
        assert not thread.is_alive()
    gc.collect()
    assert gone() is None


_LEAVING = """
import os, sys, threading, time
import torch
torch.set_num_threads(1)
from fsmc.runtime.engine import Engine
from fsmc.runtime.request import Request
from fsmc.runtime.toy_model import toy_model

model, tokenizer, vocab = toy_model()
for n in range(8):
    pid = os.fork()
    if not pid:
        engine = Engine(model, tokenizer, vocab)
        requests = [Request("Hm", max_new_tokens=2000) for _ in range(4)]
        if n % 2:
            engine.start()
            tickets = [engine.submit(request) for request in requests]
        else:
            threading.Thread(target=engine.run, args=(requests,), daemon=True).start()
        while not engine._running:
            time.sleep(0.001)
        time.sleep(0.02)
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="many processes from one")
def test_a_program_that_ends_while_a_pass_is_computed() -> None:
    """Python stops the thread inside the model, which aborts the process, unless the pass is waited for."""
    done = subprocess.run([sys.executable, "-c", _LEAVING], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["7"] * 8, done.stderr


def test_closing_ends_the_thread_for_masks(toy: Any) -> None:
    with engine_of(toy) as engine:
        engine.run([Request(PROMPT, max_new_tokens=3)])
        thread = engine._mask_thread._thread
    assert thread is not None and not thread.is_alive()


def test_what_an_engine_is_made_of(toy: Any) -> None:
    with pytest.raises(TypeError, match=r"vocab must be a Vocabulary, not int \(5\)"):
        fsmc.Engine(toy.model, toy.tokenizer, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"on_step must be a function of a Step, not int \(5\)"):
        fsmc.Engine(toy.model, toy.tokenizer, toy.vocab, on_step=5)  # type: ignore[arg-type]


def test_a_program_that_goes_on_after_an_exit(toy: Any, compiler: Any) -> None:
    grammar = compiler.compile_regex("the [a-z ]{3,30}\\.")
    calls = []

    def leave(text: str, forced: bool) -> None:
        calls.append(text)
        if len(calls) == 2:
            raise SystemExit

    engine = engine_of(toy)
    engine.submit(Request(PROMPT, grammar, on_text=leave, jump="off"))
    neighbour = engine.submit(Request(PROMPT + "!", grammar, jump="off"))
    with pytest.raises(SystemExit):
        while engine.step():
            pass
    while engine.step():
        pass
    (alone,) = engine_of(toy).run([Request(PROMPT + "!", grammar, jump="off")])
    assert neighbour.response is not None and neighbour.response.error is None
    assert neighbour.response.text == alone.text


def test_a_program_that_goes_on_after_an_exit_while_requests_are_let_in(toy: Any, compiler: Any) -> None:
    """What was let in before is let in once."""
    grammar = compiler.compile_regex("the [a-z ]{3,30}\\.")

    class Leaving:
        def __init__(self) -> None:
            self.n = 0

        def poll(self) -> Any:
            self.n += 1
            if self.n == 1:
                raise SystemExit
            return grammar

        def cancel(self) -> None: ...

    engine = engine_of(toy)
    before = engine.submit(Request(PROMPT + "!", grammar, jump="off"))
    leaving = engine.submit(Request(PROMPT, Leaving(), jump="off"))  # type: ignore[arg-type]
    behind = engine.submit(Request(PROMPT + "?", grammar, jump="off"))
    with pytest.raises(SystemExit):
        engine.step()
    assert (len(engine._running), len(engine._waiting)) == (1, 2)
    while engine.step():
        pass
    for ticket, end in ((before, "!"), (leaving, ""), (behind, "?")):
        (alone,) = engine_of(toy).run([Request(PROMPT + end, grammar, jump="off")])
        assert ticket.response is not None and ticket.response.error is None
        assert ticket.response.text == alone.text
