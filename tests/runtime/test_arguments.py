"""What a request and its sampling may hold: all else is refused when it is given, by name, with the value and what is allowed."""

from __future__ import annotations

from collections import UserDict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fsmc.runtime.request import Request
from fsmc.runtime.sampling_params import SamplingParams

NAN, INFINITY = float("nan"), float("inf")

NOT_IDS: list[Any] = ["12", b"12", 5, ["a"], [1.5], [True], [None], [-1], [2**31], [2**70], [[1]], {1: 2}, {"a"}]
NOT_IDS += [UserDict(a=1), np.array([1.5]), np.array([[1]]), np.array([True]), object()]
NO_NUMBER: list[Any] = ["1", None, True, [1], NAN, 1j, 2**2000, -(2**2000), INFINITY]
NO_COUNT: list[Any] = [-1, 1.0, "1", None, True, [1], NAN, -(10**5000), np.array([1, 2])]

BAD_SAMPLING: dict[str, list[Any]] = {
    "temperature": [-1, -1e-320, *NO_NUMBER],
    "top_k": NO_COUNT,
    "top_p": [0, 1.01, -1, *NO_NUMBER],
    "min_p": [-0.1, 1.01, *NO_NUMBER],
    "repetition_penalty": [0, -1, *NO_NUMBER],
    "frequency_penalty": [-INFINITY, *NO_NUMBER],
    "presence_penalty": [-INFINITY, *NO_NUMBER],
    "min_new_tokens": NO_COUNT,
    "seed": [1.5, "1", True, [1]],
    "logprobs": [-1, 1.5, "1", [1]],
    "logprobs_of": ["both", None, 1, np.array(["original", "sampled"])],
    "logprob_ids": NOT_IDS,
    "processors": [lambda output, logits: logits, "abc", 5, [5], [None]],
    "logit_bias": [
        5, "abc", [5], ["ab"], [(1,)], [(1, 2, 3)], {"a": 1}, {"": 1}, {5.7: 1}, {True: 1}, {None: 1}, {-1: 1}, {"-1": 1}, {2**70: 1},
        {str(2**70): 1}, {"9" * 5000: 1}, {1: "1"}, {1: None}, {1: NAN}, {1: INFINITY}, {1: 2**2000}, {1: True},
    ],
}  # fmt: skip
BAD_REQUEST: dict[str, list[Any]] = {
    "prompt": [None, "half \ud800", *(x for x in NOT_IDS if x != "12")],
    "grammar": ["[a-z]", 5, {}, Request],
    "sampling": [None, {}, 5, SamplingParams],
    "jump": ["sometimes", None, 5, True, ["off"], np.array(["off", "exact"])],
    "max_new_tokens": NO_COUNT,
    "stop": ["end", b"end", 5, [5], [None], [b"a"], {"a": 1}, True],
    "stop_token_ids": NOT_IDS,
    "never_cut_off": [None, 1, "yes", []],
    "thinking_end": ["", b"", [], "half \ud800", *(x for x in NOT_IDS if x not in ("12", b"12"))],
    "on_text": [5, "print", []],
}


@pytest.mark.parametrize("name", BAD_SAMPLING)
def test_sampling_that_cannot_be(name: str) -> None:
    for value in BAD_SAMPLING[name]:
        with pytest.raises((TypeError, ValueError), match=name):
            SamplingParams(**{name: value})


@pytest.mark.parametrize("name", BAD_REQUEST)
def test_requests_that_cannot_be(name: str) -> None:
    for value in BAD_REQUEST[name]:
        with pytest.raises((TypeError, ValueError), match=name):
            Request(**{"prompt": "x", name: value})


def test_what_is_allowed_is_taken_as_it_is_meant() -> None:
    params = SamplingParams(
        temperature=Fraction(1, 2),  # type: ignore[arg-type]
        top_k=np.int64(3),  # type: ignore[arg-type]
        top_p=np.float32(0.5),  # type: ignore[arg-type]
        logit_bias={"5": 1, 6: -INFINITY},
        logprob_ids=np.array([1, 2]),  # type: ignore[arg-type]
        seed=-(2**200),
    )
    assert (params.temperature, params.top_k, params.top_p, params.logprob_ids) == (0.5, 3, 0.5, (1, 2))
    assert params.logit_bias == ((5, 1.0), (6, -INFINITY))
    none = SamplingParams(logit_bias=None, logprob_ids=None, processors=None)
    assert none == SamplingParams()
    request = Request(np.array([5, 6]), stop=None, stop_token_ids=None)  # type: ignore[arg-type]
    assert (request.prompt, request.stop, request.stop_token_ids) == ((5, 6), (), ())


def test_a_list_that_changes_later_changes_no_request() -> None:
    prompt, stop = [5], ["a"]
    request = Request(prompt, stop=stop)
    prompt.append(-1)
    stop.append(3)  # type: ignore[arg-type]
    assert (request.prompt, request.stop) == ((5,), ("a",))


def test_logprobs_may_be_said_as_openai_does() -> None:
    assert [SamplingParams(logprobs=x).logprobs for x in (True, False, None, 0, 3)] == [0, None, None, 0, 3]


@pytest.mark.parametrize(
    ("temperature", "greedy"), [(0, True), (1e-320, True), (1e-7, True), (1e-6, False), (1, False)]
)
def test_temperatures_so_small_are_greedy(temperature: float, greedy: bool) -> None:
    assert SamplingParams(temperature=temperature).is_greedy is greedy


def test_bad_arguments_of_a_matcher_are_named() -> None:
    import fsmc

    vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("[ab]{3}")
    for value in (1.5, "a", True, -1):
        with pytest.raises((TypeError, ValueError), match="max_rollback_tokens"):
            fsmc.GrammarMatcher(grammar, max_rollback_tokens=value)  # type: ignore[arg-type]
    matcher = fsmc.GrammarMatcher(grammar)
    for wrong in (3, "a", [1], None):
        with pytest.raises(TypeError, match="longest_prefix takes bytes"):
            matcher.longest_prefix(wrong)  # type: ignore[arg-type]
    mask = fsmc.allocate_token_bitmask(4, vocab.size)
    for place in ("a", 1.0, None):
        with pytest.raises(TypeError, match="index must be an integer"):
            matcher.fill_next_token_bitmask(mask, place)  # type: ignore[arg-type]
    for draft, name in ((["a"], r"draft\[0\]"), ([0, 1.0], r"draft\[1\]")):
        with pytest.raises(TypeError, match=name):
            fsmc.fill_draft_bitmasks(matcher, draft, mask)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"parents\[0\]"):
        fsmc.fill_draft_bitmasks(matcher, [0], mask, parents=["a"])  # type: ignore[list-item]


def test_a_least_number_of_tokens_and_an_end_in_time() -> None:
    with pytest.raises(ValueError, match="min_new_tokens=3 may not let it: give one of them"):
        Request("p", None, SamplingParams(min_new_tokens=3), never_cut_off=True)
