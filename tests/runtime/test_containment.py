"""Nothing that one request carries is another's affair, nor the engine's: it ends with a result or an error of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the engine needs torch")
pytest.importorskip("transformers", reason="the engine needs transformers")

import fsmc  # noqa: E402
from fsmc.runtime.engine import Engine  # noqa: E402
from fsmc.runtime.request import Request  # noqa: E402
from fsmc.runtime.sampling import SamplingBatch  # noqa: E402
from fsmc.runtime.sampling_params import SamplingParams  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPT = "Who? "


@pytest.fixture(scope="module")
def good(compiler: Any) -> list[Request]:
    """Requests whose texts depend on the model, on random numbers, and on how many of these were drawn."""
    seeded = SamplingParams(temperature=1.5, seed=3, top_p=0.95, logprobs=True)
    return [
        Request(PROMPT, compiler.compile_regex("the (gardener|librarian) is [a-z ]{5,20}")),
        Request(PROMPT, compiler.compile_regex("[a-z]{12}"), seeded, "off"),
        Request(PROMPT, compiler.compile_regex("name: [A-Z][a-z]{3,9}!"), seeded, "exact"),
        Request(PROMPT, None, SamplingParams(temperature=0.9, seed=1), max_new_tokens=9),
    ]


@pytest.fixture(scope="module")
def expected(toy: Any, good: list[Request]) -> list[str]:
    return [engine_of(toy).run([request])[0].text for request in good]


def engine_of(toy: Any, **options: Any) -> Engine:
    return Engine(toy.model, toy.tokenizer, toy.vocab, **options)


def answers(toy: Any, good: list[Request], bad: Request, started: bool = False) -> Any:
    """The texts of the good requests beside a bad one in the midst of them, and the response of that."""
    engine = engine_of(toy)
    with engine.start() if started else engine:
        responses = engine.run([*good[:2], bad, *good[2:]])
        assert engine.run(good[:1])[0].error is None, "the engine goes on"
    return [responses[i].text for i in (0, 1, 3, 4)], responses[2]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"prompt": [5, 10**6]}, "prompt: token id 1000000 is outside the model"),
        ({"prompt": [400]}, "prompt: token id 400 is outside the model, whose ids are 0 to 399"),
        ({"stop_token_ids": [10**6], "sampling": SamplingParams(min_new_tokens=3)}, "stop_token_ids: token id 1000000"),
        ({"sampling": SamplingParams(logit_bias={400: 1})}, "logit_bias: token id 400"),
        ({"sampling": SamplingParams(logprob_ids=[7, 400])}, "logprob_ids: token id 400"),
        ({"thinking_end": [400]}, "thinking_end: token id 400"),
    ],
)
@pytest.mark.parametrize("started", [False, True])
def test_ids_that_there_are_not(
    toy: Any, good: Any, expected: Any, options: dict[str, Any], why: str, started: bool
) -> None:
    texts, bad = answers(toy, good, Request(**{"prompt": PROMPT, **options}), started)
    assert texts == expected and why in str(bad.error) and bad.finish_reason == "error"
    ticket = engine_of(toy).submit(Request(**{"prompt": PROMPT, **options}))
    assert why in str(ticket.result(0).error), "told at once"


@pytest.mark.parametrize(
    "sampling",
    [
        {"logprobs": True}, {"logprobs": 10**9}, {"top_k": 2**70, "temperature": 1.0}, {"min_new_tokens": 10**30},
        {"repetition_penalty": 1e-300}, {"frequency_penalty": 1e308, "presence_penalty": -1e308}, {"logit_bias": {5: 1e300}},
        {"temperature": 1e-310}, {"temperature": 1e300}, {"seed": -(2**200), "temperature": 1.0}, {"top_p": 1e-300, "temperature": 1.0},
    ],
)  # fmt: skip
def test_extreme_options_have_a_result(
    toy: Any, compiler: Any, good: Any, expected: Any, sampling: dict[str, Any]
) -> None:
    texts, extreme = answers(
        toy, good, Request(PROMPT, compiler.compile_regex("[a-z]{4}"), SamplingParams(**sampling)), True
    )
    assert texts == expected and extreme.error is None and len(extreme.text) == 4


@pytest.mark.parametrize("temperature", [1e-300, 1e-308, 1e-310, 5e-324])
@pytest.mark.parametrize("direct", [False, True])
def test_a_tiny_temperature_draws_nothing_forbidden(
    toy: Any, compiler: Any, monkeypatch: Any, temperature: float, direct: bool
) -> None:
    """Greedily; and where it is really divided by."""
    if direct:
        monkeypatch.setattr(SamplingParams, "is_greedy", False)
    grammar = compiler.compile_regex("[a-z]{4}")
    drawn, greedy = engine_of(toy).run(
        [Request(PROMPT, grammar, SamplingParams(temperature=t, seed=1)) for t in (temperature, 0.0)]
        if not direct
        else [Request(PROMPT, grammar, SamplingParams(temperature=temperature, seed=1))] * 2
    )
    assert len(drawn.text) == 4 and drawn.text == greedy.text


def test_scores_that_are_no_numbers_never_choose_what_is_forbidden(monkeypatch: Any) -> None:
    from fsmc.runtime import sampling

    monkeypatch.setattr(sampling, "_keep_likeliest", lambda scores, *_: torch.full_like(scores, float("nan")))
    batch = SamplingBatch.of([SamplingParams(temperature=1.0, top_k=2), SamplingParams(temperature=1.0)])
    wrong, fine = batch.sample(torch.tensor([[-torch.inf, 1.0, 2.0], [-torch.inf, 1.0, -torch.inf]]))
    assert "forbidden" in str(wrong) and fine.token == 1  # type: ignore[union-attr]


def test_an_end_token_too_must_be_allowed(toy: Any, compiler: Any, good: Any, expected: Any, monkeypatch: Any) -> None:
    """Whatever may go wrong between mask and choice."""
    sample = SamplingBatch.sample

    def wrong(self: Any, *arguments: Any) -> Any:
        chosen = sample(self, *arguments)
        return [
            result._replace(token=0) if params.seed == 77 else result
            for result, params in zip(chosen, self.params, strict=True)
        ]

    monkeypatch.setattr(SamplingBatch, "sample", wrong)
    texts, bad = answers(toy, good, Request(PROMPT, compiler.compile_regex("[a-z]{4}"), SamplingParams(seed=77)))
    assert texts == expected and "token 0 was chosen, but the mask does not allow it" in str(bad.error)


@pytest.mark.parametrize("where", ["_draw", "_logprobs", "_shape"])
def test_whatever_fails_in_sampling_ends_one_row(
    toy: Any, good: Any, expected: Any, monkeypatch: Any, where: str
) -> None:
    """A fault of any stage: the others are sampled alone, with the random numbers that they would have had."""
    stage = getattr(SamplingBatch, where)

    def failing(self: Any, *arguments: Any) -> Any:
        result = stage(self, *arguments)
        if any(params.seed == 77 for params in self.params):
            raise OverflowError(f"a fault in {where}")
        return result

    monkeypatch.setattr(SamplingBatch, where, failing)
    sampling = SamplingParams(temperature=1.0, seed=77, logprobs=1)
    texts, bad = answers(toy, good, Request(PROMPT, max_new_tokens=5, sampling=sampling))
    assert texts == expected and f"a fault in {where}" in str(bad.error)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, GeneratorExit, RecursionError])
@pytest.mark.parametrize("what", ["processor", "on_text", "poll", "cancel"])
@pytest.mark.parametrize("started", [False, True])
def test_functions_of_a_request_that_raise(
    toy: Any, good: Any, expected: Any, error: Any, what: str, started: bool
) -> None:
    def oops(*_: Any) -> Any:
        raise error("oops")

    class Pending:
        def poll(self) -> Any:
            return oops() if what == "poll" else None

        def cancel(self) -> None:
            oops()

    if what == "cancel":
        engine = engine_of(toy)
        with engine.start() if started else engine:
            ticket = engine.submit(Request(PROMPT, Pending()))
            ticket.abort()
            assert [response.text for response in engine.run(good)] == expected
        assert "oops" in str(ticket.result(0).error)
        return
    options: dict[str, Any] = {
        "processor": {"sampling": SamplingParams(processors=[oops])},
        "on_text": {"on_text": oops},
        "poll": {"grammar": Pending()},
    }[what]
    texts, bad = answers(toy, good, Request(PROMPT, **options), started)
    assert texts == expected and "oops" in str(bad.error) and isinstance(bad.error, Exception)


# ------------------------------------------------------------------------------------------------------ shared grammars


def test_who_is_aborted_cancels_no_grammar_of_others(toy: Any) -> None:
    """Of the same engine, of another one, and of a request that comes later with the same object."""
    began, go_on = threading.Event(), threading.Event()

    class Slow(fsmc.GrammarCompiler):
        def compile_regex(self, pattern: str, *arguments: Any, **options: Any) -> Any:
            if pattern == "wait":
                began.set()
                go_on.wait(60)
            return super().compile_regex(pattern, *arguments, **options)

    with fsmc.GrammarManager(Slow(toy.vocab, cache_dir=None), max_workers=1) as manager:
        manager.request("regex", "wait")
        assert began.wait(60)
        pending = manager.request("regex", "(yes|no)!")
        engine, other = engine_of(toy), engine_of(toy)
        first, second = engine.submit(Request("x ", pending)), engine.submit(Request("y ", pending))
        third = other.submit(Request("z ", pending))
        first.abort()
        engine.step()
        assert first.result(0).finish_reason == "abort" and manager.n_waiting == 1
        second.abort()
        engine.step()
        assert second.result(0).finish_reason == "abort" and manager.n_waiting == 0, "nobody waits: it need not begin"
        other.step()
        assert manager.n_waiting == 1, "but one does"
        third.abort()
        other.step()
        fourth = engine.submit(Request("x ", pending))
        go_on.set()
        while fourth.response is None:
            engine.step()
            time.sleep(0.001)
        assert fourth.result(0).text in ("yes!", "no!") and fourth.result(0).error is None


def test_a_grammar_that_was_cancelled_by_its_owner_stays_so(toy: Any) -> None:
    with fsmc.GrammarManager(fsmc.GrammarCompiler(toy.vocab, cache_dir=None)) as manager:
        pending = manager.request("regex", "(a|b)*a(a|b){14}")
        pending.cancel()
        (response,) = engine_of(toy).run([Request("x ", pending)])
        assert response.error is None or "cancelled" in str(response.error)


# ------------------------------------------------------------------------------------------- the engine's own functions


def test_a_run_that_raises_leaves_nothing_in_the_queue(toy: Any, good: Any, expected: Any) -> None:
    def oops(*_: Any) -> None:
        raise KeyError("mine")

    engine = engine_of(toy, max_batch_size=1)
    with pytest.raises(KeyError, match="mine"):
        engine.run(good, on_done=oops)
    with pytest.raises(TypeError, match=r"a Request, not str \('text'\)"):
        engine.run([good[0], "text"])  # type: ignore[list-item]
    engine.step()
    assert not engine._waiting and not engine._running
    assert [response.text for response in engine.run(good)] == expected


@pytest.mark.parametrize("started", [False, True])
def test_functions_of_a_request_may_submit_but_not_step(toy: Any, good: Any, expected: Any, started: bool) -> None:
    engine = engine_of(toy)
    tickets: list[Any] = []
    requests = [
        Request(PROMPT, good[0].grammar, on_text=lambda *_: tickets.append(engine.submit(good[1])) if not tickets else None),
        Request(PROMPT, good[0].grammar, on_text=lambda *_: engine.run(good)),
        Request(PROMPT, good[0].grammar, on_text=lambda *_: engine.step()),
    ]  # fmt: skip
    with engine.start() if started else engine:
        fine, running, stepping = engine.run(requests)
        while not started and engine.step():
            pass
        assert fine.text == expected[0] and tickets[0].result(60).text == expected[1]
        assert "neither step nor run" in str(running.error) and "neither step nor run" in str(stepping.error)


@pytest.mark.parametrize("started", [False, True])
def test_closing_aborts(toy: Any, good: Any, started: bool) -> None:
    """Also from a function that a step calls; afterwards the engine takes nothing."""
    for inside in (False, True):
        engine = engine_of(toy, max_batch_size=1)
        begun = threading.Event()

        def on_text(*_: Any, engine: Engine = engine, inside: bool = inside, begun: Any = begun) -> None:
            begun.set()
            if inside:
                engine.close()
            time.sleep(0.001)

        if started:
            engine.start()
        tickets = [engine.submit(Request(PROMPT, max_new_tokens=3000, on_text=on_text)), engine.submit(good[0])]
        for _ in range(3):
            if not started:
                engine.step()
        assert begun.wait(60)
        engine.close()
        for ticket in tickets:
            assert ticket.result(0).finish_reason == "abort" and ticket.result(0).error is None
        with pytest.raises(RuntimeError, match="closed"):
            engine.submit(good[0])
        engine.close()


def test_two_threads_may_run_one_engine(toy: Any, good: Any, expected: Any) -> None:
    engine = engine_of(toy, max_batch_size=3)
    texts: list[Any] = []
    threads = [
        threading.Thread(target=lambda: texts.append([response.text for response in engine.run(good)]))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert texts == [expected] * 3


def test_a_callback_that_waits_for_another_request_is_told_so(toy: Any, compiler: Any) -> None:
    grammar, waiting = compiler.compile_regex("[a-c]{6}"), []

    def wait(text: str, forced: bool) -> None:
        waiting[0].result()

    with engine_of(toy).start() as engine:
        waiting.append(engine.submit(Request(PROMPT, compiler.compile_regex("[a-c]{60}"))))
        bad = engine.submit(Request(PROMPT, grammar, on_text=wait)).result(60)
        assert isinstance(bad.error, RuntimeError) and "cannot wait for another request" in str(bad.error)
        assert waiting[0].result(60).error is None
