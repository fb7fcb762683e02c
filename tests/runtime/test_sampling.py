"""Sampling: the order of the stages, each option's distribution against an enumeration, rows that mind their own business."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="sampling needs torch")

import fsmc  # noqa: E402
from fsmc.compiler.errors import FsmcError  # noqa: E402
from fsmc.runtime.sampling import History, Sampled, SamplingBatch  # noqa: E402
from fsmc.runtime.sampling_params import SamplingParams  # noqa: E402

INFINITY = float("inf")
LOGITS = [1.0, 0.5, -0.3, 2.0, 0.0, -1.0]


def one(params: SamplingParams, logits: list[float], history: History | None = None, allowed: Any = None) -> Any:
    return many(params, 1, logits, history, allowed)[0]


def many(
    params: SamplingParams, n: int, logits: list[float], history: History | None = None, allowed: Any = None
) -> list[Any]:
    def constrain(scores: Any) -> None:
        if allowed is not None:
            scores[:, [i for i in range(len(logits)) if i not in allowed]] = -INFINITY

    histories = None if history is None else [history] * n
    return SamplingBatch.of([params] * n).sample(torch.tensor([logits] * n), constrain, histories)


# ------------------------------------------------------------------------------- distributions, against an enumeration

VOCAB = fsmc.Vocabulary.from_tokens([b"a", b"b", b"ab", b"ba", b"c", b""], eos_token_ids=[5])
PATTERN = "(a|b){1,3}|c"
TABLE = np.random.default_rng(7).normal(0, 1.2, (7, 6))
"""The model: logits by the last token (6: none yet)."""

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "temperature": {"temperature": 0.6},
    "top_k": {"top_k": 2},
    "top_p": {"top_p": 0.7},
    "min_p": {"min_p": 0.25},
    "repetition_penalty": {"repetition_penalty": 1.8},
    "frequency_penalty": {"frequency_penalty": 0.9},
    "presence_penalty": {"presence_penalty": -0.8},
    "min_new_tokens": {"min_new_tokens": 2},
    "logit_bias": {"logit_bias": {0: 1.0, "2": -INFINITY, 4: 3.0}},
    "processors": {"processors": [lambda output, logits: logits + 0.5 * torch.arange(6) * len(output)]},
    "all": {
        "temperature": 1.3, "top_k": 4, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.2,
        "frequency_penalty": 0.3, "presence_penalty": 0.2, "logit_bias": {1: 0.4},
    },
}  # fmt: skip


def probabilities(p: SamplingParams, output: list[int], allowed: list[int]) -> dict[int, float]:
    """What `SamplingParams` says, in plain Python."""
    x = {i: float(v) for i, v in enumerate(TABLE[output[-1] if output else 6])}
    for processor in p.processors:
        x = dict(enumerate(processor(output, torch.tensor(list(x.values()), dtype=torch.float64)).tolist()))
    for i in set(output):
        x[i] = x[i] / p.repetition_penalty if x[i] > 0 else x[i] * p.repetition_penalty
    for i in set(output):
        x[i] -= p.frequency_penalty * output.count(i) + p.presence_penalty
    if len(output) < p.min_new_tokens:
        x.pop(5)
    x = {i: v for i, v in x.items() if i in allowed}
    x = {i: v + dict(p.logit_bias).get(i, 0.0) for i, v in x.items()}
    weights = {i: math.exp(v / p.temperature) for i, v in x.items() if v > -INFINITY}
    order = sorted(weights, key=lambda i: (-weights[i], i))
    order = order[: p.top_k or None]
    total, kept, mass = sum(weights[i] for i in order), [], 0.0
    for i in order:
        if mass < p.top_p:
            kept.append(i)
        mass += weights[i] / total
    kept = [i for i in kept if weights[i] >= p.min_p * weights[kept[0]]]
    total = sum(weights[i] for i in kept)
    return {i: weights[i] / total for i in kept}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_distribution_is_the_enumerated_one(name: str) -> None:
    """Whole texts of a small language: their frequencies among 4,000, by chi-squared."""
    params = SamplingParams(**{"temperature": 1.0, "seed": None, **OPTIONS[name]})
    pattern = "(a|b){2,3}" if name == "min_new_tokens" else PATTERN  # a "c" is one token, and then the text is complete
    grammar = fsmc.GrammarCompiler(VOCAB, cache_dir=None).compile_regex(pattern)
    n = 4_000
    seeded = [SamplingParams(**{"temperature": 1.0, **OPTIONS[name], "seed": i}) for i in range(n)]
    batch = SamplingBatch.of(seeded)
    expected: dict[tuple[int, ...], float] = {}
    waiting: dict[tuple[int, ...], list[int]] = {(): list(range(n))}
    reached: dict[tuple[int, ...], float] = {(): 1.0}
    counts: dict[tuple[int, ...], int] = {}
    mask = fsmc.allocate_token_bitmask(1, VOCAB.size)
    while waiting:
        output, rows = waiting.popitem()
        matcher = fsmc.GrammarMatcher(grammar)
        assert all(map(matcher.accept_token, output))
        matcher.fill_next_token_bitmask(mask)
        allowed = [i for i in range(6) if int(mask[0, 0]) >> i & 1]
        for token, probability in probabilities(params, list(output), allowed).items():
            place = expected if token == 5 else reached
            place[(*output, token)] = reached[output] * probability
        logits = torch.tensor(TABLE[output[-1] if output else 6], dtype=torch.float32).repeat(len(rows), 1)

        def constrain(scores: Any) -> None:
            fsmc.apply_token_bitmask_inplace(scores, np.repeat(mask, len(scores), axis=0))

        histories = [History((), output, [5])] * len(rows)
        sampled = batch.filter(rows).sample(logits, constrain, histories)
        for row, chosen in zip(rows, sampled, strict=True):
            assert isinstance(chosen, Sampled) and chosen.token in allowed
            text = (*output, chosen.token)
            if chosen.token == 5:
                counts[text] = counts.get(text, 0) + 1
            else:
                waiting.setdefault(text, []).append(row)
    # Branches that were never sampled are still part of the enumeration: their mass is what is missing here.
    assert set(counts) <= set(expected)
    rare = n - sum(counts[text] for text in counts if expected[text] * n >= 5)
    cells = [(counts.get(text, 0), p * n) for text, p in expected.items() if p * n >= 5]
    others = n - sum(e for _, e in cells)
    if others >= 5:
        cells.append((rare, others))
    statistic = sum((observed - e) ** 2 / e for observed, e in cells)
    freedom = len(cells) - 1
    # Wilson and Hilferty: the 1 - 1e-5 quantile of chi-squared. Seeds are fixed, so that this fails always or never.
    limit = freedom * (1 - 2 / (9 * freedom) + 4.265 * math.sqrt(2 / (9 * freedom))) ** 3 if freedom else 1e-9
    assert statistic <= limit, (statistic, limit, freedom)


def test_the_test_of_distributions_can_fail() -> None:
    """With another temperature the statistic is far beyond the limit."""
    p, q = (probabilities(SamplingParams(temperature=t), [], [0, 1, 2, 3, 4]) for t in (1.0, 0.8))
    assert sum(4_000 * (q[i] - p[i]) ** 2 / p[i] for i in p) > 60


# ------------------------------------------------------------------------------------------------- what comes when


@pytest.mark.parametrize(
    "params",
    [
        {"logit_bias": {0: 1e30}},
        {"processors": [lambda output, logits: logits + torch.tensor([INFINITY, 0, 0, 0, 0, 0])]},
        {"processors": [lambda output, logits: torch.full((6,), float("nan"))], "logit_bias": {3: 5.0}},
        {"temperature": 1e-30, "logit_bias": {0: 1e30}},
        {"temperature": 1e30, "top_p": 1.0},
        {"temperature": 1.0, "top_k": 5, "frequency_penalty": -1e30},
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_masked_token_never_comes_back(params: dict[str, Any], temperature: float) -> None:
    options = {"temperature": temperature, "seed": 1, **params}
    for result in many(SamplingParams(**options), 50, LOGITS, History((0,), (0, 0), (5,)), allowed={1, 4}):
        assert isinstance(result, FsmcError) or result.token in (1, 4)


def test_nan_is_a_token_that_cannot_be_chosen() -> None:
    nan = float("nan")
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, seed=0)
        assert one(params, [nan, 1.0, -1000.0]).token == 1
        assert isinstance(one(params, [nan, nan, nan]), FsmcError)
        assert one(params, [0.0, INFINITY, 5.0]).token == 1


def test_nothing_left_is_an_error_of_that_row_alone() -> None:
    batch = SamplingBatch.of([SamplingParams(), SamplingParams(logit_bias=dict.fromkeys(range(6), -INFINITY))])
    fine, wrong = batch.sample(torch.tensor([LOGITS, LOGITS]))
    assert fine == Sampled(3) and isinstance(wrong, FsmcError)


def test_a_failing_processor_is_an_error_of_that_row_alone() -> None:
    def broken(output: Any, logits: Any) -> Any:
        raise KeyError("oops")

    batch = SamplingBatch.of(
        [SamplingParams(processors=[broken]), SamplingParams(processors=[lambda o, x: x[:2]]), SamplingParams()]
    )
    raising, reshaping, fine = batch.sample(torch.tensor([LOGITS] * 3))
    assert "KeyError: 'oops'" in str(raising) and "shape (6,)" in str(reshaping) and fine == Sampled(3)


def test_processors_come_first_and_in_order() -> None:
    seen: list[Any] = []

    def double(output: Any, logits: Any) -> Any:
        seen.append((tuple(output), logits.tolist()))
        return logits * 2

    params = SamplingParams(processors=[double, double], repetition_penalty=2.0, logprobs=0, logprobs_of="sampled")
    one(params, [1.0, 4.0], History((0,), (1,)))
    assert seen == [((1,), [1.0, 4.0]), ((1,), [2.0, 8.0])]


def test_greedy_takes_the_first_of_equal_ones() -> None:
    assert one(SamplingParams(), [0.0, 3.0, 3.0]).token == 1


# ------------------------------------------------------------------------------------------------------ seeds and rows


def test_a_seed_means_the_same_tokens_in_any_batch() -> None:
    mine = SamplingParams(temperature=0.9, top_p=0.9, seed=42)
    others = [SamplingParams(temperature=1.0, seed=i, top_k=i % 3, min_p=0.1) for i in range(5)] + [SamplingParams()]
    rows = torch.randn(30, 6, generator=torch.Generator().manual_seed(3))
    alone = SamplingBatch.of([mine])
    expected = [alone.sample(row[None].clone())[0] for row in rows]
    mixed = SamplingBatch.of(others[:3]).merge(SamplingBatch.of([mine])).merge(SamplingBatch.of(others[3:]))
    got = []
    for step, row in enumerate(rows):
        if step == 10:
            mixed = mixed.filter([3, 0, 5])  # mine is now the first
        if step == 20:
            mixed = SamplingBatch.of([SamplingParams(temperature=2.0)]).merge(mixed)
        place = 3 if step < 10 else 0 if step < 20 else 1
        got.append(mixed.sample(row.repeat(len(mixed), 1))[place])
    assert got == expected
    other_seed = SamplingBatch.of([SamplingParams(temperature=0.9, top_p=0.9, seed=43)])
    assert [other_seed.sample(row[None].clone())[0] for row in rows] != expected


def test_no_seed_draws_anew() -> None:
    draws = [[r.token for r in many(SamplingParams(temperature=1.0), 40, LOGITS)] for _ in range(2)]
    assert draws[0] != draws[1]


def test_rows_and_parameters_must_agree() -> None:
    with pytest.raises(ValueError, match="2 rows of logits for 1"):
        SamplingBatch.of([SamplingParams()]).sample(torch.zeros(2, 3))


# ------------------------------------------------------------------------------------------------------ log-probabilities


def test_logprobs_of_the_original_and_of_the_sampled_distribution() -> None:
    options: dict[str, Any] = {"temperature": 0.5, "seed": 0, "top_k": 2, "logprobs": 3, "logprob_ids": [5, 99]}
    original = torch.tensor(LOGITS).log_softmax(-1).tolist()
    result = one(SamplingParams(**options), LOGITS, allowed={0, 1, 2})
    assert math.isclose(result.logprobs.chosen, original[result.token], rel_tol=1e-5)
    assert [i for i, _ in result.logprobs.top] == [3, 0, 1] and set(result.logprobs.named) == {5}
    assert math.isclose(result.logprobs.named[5], original[5], rel_tol=1e-5)
    result = one(SamplingParams(**options, logprobs_of="sampled"), LOGITS, allowed={0, 1, 2})
    drawn = torch.tensor([1.0, 0.5]).div(0.5).log_softmax(-1).tolist()
    assert [i for i, _ in result.logprobs.top[:2]] == [0, 1] and result.logprobs.top[2][1] == -INFINITY
    assert np.allclose([v for _, v in result.logprobs.top[:2]], drawn, atol=1e-5)
    assert result.logprobs.named[5] == -INFINITY
    assert one(SamplingParams(), LOGITS).logprobs is None


def test_logprobs_of_a_greedy_row_are_those_before_the_likeliest_is_taken() -> None:
    result = one(SamplingParams(logprobs=1, logprobs_of="sampled"), LOGITS, allowed={0, 1})
    assert math.isclose(result.logprobs.chosen, torch.tensor([1.0, 0.5]).log_softmax(-1)[0].item(), rel_tol=1e-5)


# ------------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1), ("temperature", float("nan")), ("temperature", INFINITY), ("top_p", 0), ("top_p", 1.5),
        ("top_k", -1), ("top_k", 1.5), ("min_p", 2), ("repetition_penalty", 0), ("frequency_penalty", INFINITY),
        ("presence_penalty", "1"), ("min_new_tokens", -1), ("logit_bias", {1: INFINITY}), ("logit_bias", {1: float("nan")}),
        ("logit_bias", {"a": 1}), ("logprobs", -1), ("logprobs_of", "both"), ("seed", 1.5), ("processors", [3]),
        ("temperature", True),
    ],
)  # fmt: skip
def test_arguments_out_of_range(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        SamplingParams(**{name: value})


def test_of_duplicate_biases_the_last_counts() -> None:
    assert SamplingParams(logit_bias=[(3, 1.0), ("3", -2), (1, 0.5)]).logit_bias == ((1, 0.5), (3, -2.0))
    assert one(SamplingParams(logit_bias=[(0, 99), ("0", 0), (77, 5)]), LOGITS).token == 3, "id 77 does not exist"


@pytest.mark.parametrize("value", [1e300, 1e308, 1e-300, -1e300, -1e308])
@pytest.mark.parametrize("name", ["repetition_penalty", "frequency_penalty", "presence_penalty"])
@pytest.mark.parametrize("level", [-3.0, 0.0, 3.0, 3.4e38, -3.4e38])
def test_a_penalty_is_no_ban(name, value, level):
    if value < 0 and name == "repetition_penalty":
        return
    seen = History(range(5), range(5))
    for temperature in (0, 1):
        batch = SamplingBatch.of([SamplingParams(temperature=temperature, seed=1, **{name: value})])
        (sampled,) = batch.sample(torch.full((1, 5), level), histories=[seen])
        assert isinstance(sampled, Sampled), sampled
    batch = SamplingBatch.of([SamplingParams(**{name: value})])
    (only,) = batch.sample(torch.tensor([[level, -torch.inf]]), histories=[History([0, 1], [0, 1])])
    assert only.token == 0
