"""What a request and its sampling may hold: all else is refused when it is given, by name, with the value and what is allowed."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fsmc
from fsmc.runtime.drafts import RowLayout
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


VOCAB = fsmc.Vocabulary.from_tokens([b"a", b"b", b"c", b""], eos_token_ids=[3])
GRAMMAR = fsmc.GrammarCompiler(VOCAB, cache_dir=None).compile_regex("[abc]*")
NO_INTEGER: list[Any] = [True, np.bool_(True), 1.0, np.float32(1), NAN, "1", None, [1]]
ONE: list[Any] = [1, np.int64(1), np.int32(1), np.uint8(1), np.array(1)]


def matchers() -> list[Any]:
    return [fsmc.GrammarMatcher(GRAMMAR), fsmc.ReasoningGate(fsmc.GrammarMatcher(GRAMMAR), "b")]


@pytest.mark.parametrize("value", NO_INTEGER, ids=repr)
def test_what_is_no_integer_is_no_token(value: Any) -> None:
    mask = fsmc.allocate_token_bitmask(2, VOCAB.size)
    for matcher in matchers():
        calls: list[Callable[[], Any]] = [
            lambda matcher=matcher: matcher.accept_token(value),
            lambda matcher=matcher: matcher.validate_tokens([value]),
            lambda matcher=matcher: matcher.rejection(value),
            lambda matcher=matcher: matcher.rollback(value),
            lambda matcher=matcher: fsmc.fill_draft_bitmasks(matcher, [value], mask),
            lambda matcher=matcher: fsmc.fill_draft_bitmasks(matcher, [0], mask, parents=[value]),
            lambda matcher=matcher: fsmc.fill_bitmask_batch([matcher], mask, [value]),
            lambda matcher=matcher: matcher.fill_next_token_bitmask(mask, value),
            lambda: fsmc.GrammarMatcher(GRAMMAR, stop_token_ids=[value]),
            lambda: fsmc.allocate_token_bitmask(1, value),
        ]
        if value is not None:
            calls.append(lambda matcher=matcher: matcher.fill_next_token_bitmask(mask, 0, value))
        for call in calls:
            with pytest.raises(TypeError, match=r"integer|row numbers"):
                call()
        assert matcher.rollback_limit == 0


@pytest.mark.parametrize("one", ONE, ids=lambda one: type(one).__name__)
def test_integers_of_any_kind_are_tokens(one: Any) -> None:
    mask, again = fsmc.allocate_token_bitmask(2, VOCAB.size), fsmc.allocate_token_bitmask(2, VOCAB.size)
    for matcher in matchers():
        assert matcher.validate_tokens([one]) == 1 and "token 1" in str(matcher.rejection(one))
        matcher.accept_token(one)
        matcher.fill_next_token_bitmask(mask, one, one)
        matcher.fill_next_token_bitmask(again, 1, 1)
        assert (mask == again).all()
        matcher.rollback(one)
        assert matcher.rollback_limit == 0
    assert fsmc.GrammarMatcher(GRAMMAR, stop_token_ids=[one]).stop_token_ids == (1,)


def test_ids_that_no_vocabulary_has() -> None:
    for token_id in (-1, 4, 2**31, 2**70, -(2**70)):
        for matcher in matchers():
            assert not matcher.accept_token(token_id) and matcher.validate_tokens([token_id]) == 0
            mask = fsmc.allocate_token_bitmask(2, VOCAB.size)
            assert not fsmc.fill_draft_bitmasks(matcher, [token_id], mask).any()
        with pytest.raises(ValueError, match="outside the vocabulary"):
            fsmc.GrammarMatcher(GRAMMAR, stop_token_ids=[token_id])
    for wrong in (2**70, -2):
        with pytest.raises(ValueError, match=r"parents\[0\]"):
            fsmc.fill_draft_bitmasks(matchers()[0], [0], fsmc.allocate_token_bitmask(2, 4), parents=[wrong])
    with pytest.raises(ValueError, match="a draft cannot have"):
        RowLayout.of([2**70])
    with pytest.raises(TypeError, match="token_ids must be a list of token ids"):
        matchers()[0].validate_tokens(1)


@pytest.mark.parametrize("name", ["vocab", "machine", "dfa", "kind", "stats", "source", "masks", "something_else"])
def test_a_compiled_grammar_does_not_change(name: str) -> None:
    before = getattr(GRAMMAR, name, None)
    with pytest.raises(AttributeError, match=f"does not change: its {name} cannot be set"):
        setattr(GRAMMAR, name, None)
    with pytest.raises(AttributeError):
        delattr(GRAMMAR, name)
    assert getattr(GRAMMAR, name, None) is before
