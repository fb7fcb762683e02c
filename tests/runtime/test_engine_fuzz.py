"""Requests with random values in any field among good ones: each good one writes what it writes alone, each other one has a
result or an error of its own. By `run`, by the thread of `start`, and as lines of ``fsmc generate --requests``."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the engine needs torch")
pytest.importorskip("transformers", reason="the engine needs transformers")

import typer  # noqa: E402

import fsmc  # noqa: E402
from fsmc.cli.generate_many import CONSTRAINTS, OTHERS, SAMPLING, Defaults, generate_many  # noqa: E402
from fsmc.runtime.engine import Engine  # noqa: E402
from fsmc.runtime.request import Request, Response  # noqa: E402
from fsmc.runtime.sampling_params import SamplingParams  # noqa: E402
from fsmc.runtime.toy_model import toy_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

ROUNDS = 12


class Hostile:
    """It raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def refuse(self, *_: Any) -> Any:
        raise LookupError("hostile")

    __eq__ = __len__ = __iter__ = __bool__ = __index__ = __float__ = __repr__ = __str__ = __call__ = refuse  # type: ignore[assignment]
    __hash__ = object.__hash__


class Unready:
    """A grammar that is never made, or fails in a way of its own."""

    def __init__(self, how: str) -> None:
        self.how = how

    def poll(self) -> Any:
        if self.how == "raise":
            raise ArithmeticError("a poll that raises")
        return {"text": "not a grammar", "none": object()}[self.how]

    def cancel(self) -> None:
        raise ArithmeticError("a cancel that raises")


NUMBERS: list[Any] = [
    0,
    -0.0,
    -1,
    1,
    2,
    3,
    5,
    399,
    400,
    0.5,
    1e-310,
    1e-7,
    1e300,
    -1e300,
    10**6,
    2**31,
    2**63,
    2**70,
    -(2**70),
    2**2000,
]
NUMBERS += [float("nan"), float("inf"), -float("inf"), True, False]
TEXTS: list[Any] = [
    "",
    "a",
    "5",
    "the",
    "half \ud800",
    "\x00",
    "é\U0001f389",
    "exact",
    "off",
    "original",
    "sampled",
    "9" * 5000,
    "</think>",
]


def value_of(rng: random.Random, depth: int = 0) -> Any:
    """What JSON can say, more or less."""
    kind = rng.randrange(5 if depth < 2 else 3)
    if kind < 2:
        return rng.choice(NUMBERS if kind else TEXTS)
    if kind == 2:
        return None
    if kind == 3:
        return [value_of(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {
        rng.choice([str(rng.choice(NUMBERS[:14])), *TEXTS]): value_of(rng, depth + 1) for _ in range(rng.randrange(3))
    }


def thing_of(rng: random.Random) -> Any:
    """And what Python can hold besides."""
    things: list[Any] = [
        Hostile(), [Hostile()], {Hostile(): 1}, {1: Hostile()}, b"bytes", {5, 6}, range(3), iter([1, 2]), object(), Request, 1j,
        torch.tensor([5, 6]), torch.tensor([1.5]), torch.tensor(5), torch.zeros(2, 2), [torch.tensor(5)], [lambda *_: None],
        [lambda output, logits: logits[:3]], [lambda output, logits: logits.fill_(float("nan"))], [lambda output, logits: 1 // 0],
        lambda *_: 1 // 0, {i: float("-inf") for i in range(400)}, {5: -float("inf")}, [(5, 1), (5, 2)], list(range(400)),
        Unready("raise"), Unready("text"), Unready("none"),
    ]  # fmt: skip
    return rng.choice(things) if rng.random() < 0.4 else value_of(rng)


def oops(*_: Any) -> Any:
    raise KeyError("a function that raises")


PLAUSIBLE: list[tuple[str, list[Any]]] = [
    ("prompt", ["", [], [399], [400], [5] * 5000, "long " * 2000, [0, 0], torch.tensor([5, 6])]),
    ("grammar", [Unready("raise"), Unready("text"), Unready("none")]),
    ("max_new_tokens", [0, 1, 2]),
    ("stop", [None, [""], ["a", "e", "t"], ["\ud800"], [" "]]),
    ("stop_token_ids", [None, [0], [7, 7], [400], list(range(400)), [2**31 - 1]]),
    ("never_cut_off", [True]),
    ("thinking_end", ["a", "</think>", [5], [400], b"\xff", [0]]),
    ("on_text", [oops, lambda text: None, lambda text, forced: text.fail, Hostile()]),
    ("temperature", [1e-320, 1e-7, 1e-5, 1e300]),
    ("top_k", [1, 2**70]),
    ("top_p", [1e-300, 0.5]),
    ("min_p", [1.0, 1e-300]),
    ("repetition_penalty", [1e-300, 1e300, 5]),
    ("frequency_penalty", [1e308, -1e308, 1]),
    ("presence_penalty", [1e308, -1e308, 1]),
    ("min_new_tokens", [1, 5, 2**70]),
    ("logit_bias", [{399: 1e300}, {400: 1}, {i: -float("inf") for i in range(400)}, {0: 1e300}, {0: 50, 5: -1e300}]),
    ("seed", [-(2**200), None]),
    ("logprobs", [True, 0, 3, 2**70]),
    ("logprob_ids", [[0, 399], [400]]),
    (
        "processors",
        [
            [oops],
            [lambda o, x: x[:3]],
            [lambda o, x: None],
            [lambda o, x: x * float("nan")],
            [lambda o, x: x.long()],
            [oops] * 2,
        ],
    ),
]


def request_of(rng: random.Random, grammar: Any) -> Request | Exception:
    """A request of which one to three fields hold anything; or how it was refused."""
    sampling: dict[str, Any] = {"temperature": rng.choice([0.0, 1.0]), "seed": rng.randrange(9)}
    request: dict[str, Any] = {
        "prompt": "x ",
        "grammar": grammar,
        "max_new_tokens": 8,
        "jump": rng.choice(["canonical", "exact", "off"]),
    }
    fields = [(sampling, f.name) for f in dataclasses.fields(SamplingParams)]
    fields += [(request, f.name) for f in dataclasses.fields(Request)]
    changed = rng.sample(fields, rng.randint(1, 3))
    plausible = dict(PLAUSIBLE) if rng.random() < 0.7 else {}
    for options, name in changed:
        options[name] = rng.choice(plausible[name]) if name in plausible else thing_of(rng)
        if name == "max_new_tokens" and type(options[name]) is int:
            options[name] = min(options[name], 50)  # which is how long a test may take
    try:
        return Request(**{"sampling": SamplingParams(**sampling), **request})
    except (TypeError, ValueError) as error:
        assert any(name in str(error) for _, name in changed), (error, changed)
        return error
    except LookupError as error:
        assert "hostile" in str(error)
        return error


def ended(response: Response) -> bool:
    """With a result, or with an error that says something."""
    if response.finish_reason == "error":
        return isinstance(response.error, Exception) and bool(str(response.error) or repr(response.error))
    return response.finish_reason in ("stop", "length") and response.error is None


@pytest.fixture(scope="module")
def toy() -> Any:
    return toy_model(n_layers=1, hidden_size=32)


@pytest.fixture(scope="module")
def good(toy: Any, compiler: Any) -> list[tuple[Request, str]]:
    """Requests, and what each writes alone."""
    seeded = SamplingParams(temperature=1.3, seed=5, top_k=30)
    requests = [
        Request("Who? ", compiler.compile_regex("the (gardener|librarian) is [a-z ]{5,9}")),
        Request("x ", compiler.compile_regex("[a-z]{9}"), seeded, "exact"),
        Request("x ", compiler.compile_regex('\\{"name": "[A-Z][a-z]{1,8}"\\}'), seeded, "off", never_cut_off=True),
        Request([20, 30, 40], None, SamplingParams(temperature=1.0, seed=2), max_new_tokens=7),
    ]
    return [(request, Engine(toy.model, toy.tokenizer, toy.vocab).run([request])[0].text) for request in requests]


@pytest.mark.parametrize("started", [False, True])
def test_good_requests_among_random_ones(toy: Any, compiler: Any, good: Any, started: bool) -> None:
    grammar = compiler.compile_regex("[a-z]{3,6}")
    refused = failed = answered = 0
    engine = Engine(toy.model, toy.tokenizer, toy.vocab, max_batch_size=6)
    with engine.start() if started else engine:
        for round_ in range(ROUNDS):
            rng = random.Random(2 * round_ + started)
            asked: list[tuple[Request, str | None]] = [*good]
            for _ in range(25):
                request = request_of(rng, rng.choice([grammar, None]))
                if isinstance(request, Request):
                    asked.append((request, None))
                else:
                    refused += 1
            rng.shuffle(asked)
            for (_, text), response in zip(asked, engine.run([request for request, _ in asked]), strict=True):
                assert ended(response), response
                assert text is None or (response.text, response.error) == (text, None)
                failed += response.error is not None
                answered += text is None and response.error is None
    assert refused > 50 and failed > 50 and answered > 50, "the test tries all of these"


def test_good_lines_among_random_ones(toy: Any, compiler: Any, monkeypatch: Any) -> None:
    lines = [
        {"prompt": "Who? ", "regex": "the (gardener|librarian) is [a-z ]{5,9}"},
        {"prompt": "x ", "regex": "[a-z]{9}", "temperature": 1.3, "seed": 5, "jump": "exact", "stop": None},
        {"messages": [{"role": "user", "content": "x"}], "choice": ["red", "blue"]},
    ]
    names = sorted(SAMPLING | OTHERS | set(CONSTRAINTS))

    def answers(given: list[bytes]) -> dict[int, Any]:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(sys, "stdout", out)
        try:
            generate_many(given, toy, manager, Defaults(False, "canonical", 12, 0.0, 1.0, 1), 6)
        except typer.Exit as exit_:
            assert exit_.exit_code == 1
        out.seek(0)
        return {record["line"]: record for record in map(json.loads, out)}

    with fsmc.GrammarManager(compiler, timeout=20) as manager:
        whole = [json.dumps(line).encode() for line in lines]
        expected = [answers([line])[1]["text"] for line in whole]
        kinds = set()
        for round_ in range(ROUNDS):
            rng = random.Random(round_)
            given = [*zip(whole, expected, strict=True)]
            for _ in range(20):
                line: dict[str, Any] = {"prompt": "x ", "max_tokens": 6}
                for name in rng.sample(names, rng.randint(1, 3)):
                    line[name] = (
                        min(value, 50) if type(value := value_of(rng)) is int and name == "max_tokens" else value
                    )
                given.append((json.dumps(line).encode(), None))
            given += [
                (b'{"prompt": "\xff"}', None),
                (b"[" * rng.choice([900, 980, 10**5]), None),
                (b'{"prompt": "x", "max_tokens": 1, "id": ' + b"[" * 965 + b"]" * 965 + b"}", None),
                (b'{"prompt": 5', None),
                (b'{"prompt": "x ", "regex": "a", "logit_bias": {"1180591620717411303424": 1}}', None),
            ]
            rng.shuffle(given)
            found = answers([line for line, _ in given])
            assert sorted(found) == list(range(1, len(given) + 1))
            for number, (line, text) in enumerate(given, start=1):
                record = found[number]
                assert text is None or (record["text"] == text and "error" not in record), (line, record)
                assert "error" not in record or record["error"], record
                kinds.add("error" in record)
        assert kinds == {True, False}
