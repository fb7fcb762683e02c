"""How one request wants its tokens chosen; needs no torch, so that a request can be made and checked anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fsmc.runtime.arguments import described, integer, items, number, shown, token_id, token_ids, within

LogitsFunction: TypeAlias = Callable[[Sequence[int], Any], Any]
"""A processor of one's own: (ids of the output so far, logits float[vocab_size]) → logits of the same shape."""

GREEDY_BELOW = 1e-6
"""Temperatures below mean the likeliest token: float32 logits tell no finer differences, and a division could overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """The options of one request, applied in this order (`SamplingBatch` does it):

    processors: functions of one's own, one after the other.
    repetition_penalty: logits of tokens in prompt or output are divided by it where positive, multiplied where negative.
    frequency_penalty, presence_penalty: subtracted per occurrence in the output, and once for any occurrence.
    min_new_tokens: no stop token before there are so many.
    (Here comes the constraint: what it forbids stays forbidden, whatever follows.)
    logit_bias: id → number added; a mapping or pairs, ids also as text ("42", as JSON has them). Of an id that is named
    several times the last bias counts; -inf forbids a token.
    temperature: 0 (or below a millionth) takes the likeliest token, of equal ones the first, and ignores the options below.
    top_k: only the k likeliest (0: all). top_p: of these, the fewest likeliest that together have this probability.
    min_p: of these, such as have min_p times the probability of the likeliest.

    seed: the same seed draws the same tokens, whatever else is in the batch; None: another one each time.
    logprobs: None, or for how many of the likeliest tokens to give log-probabilities (0, or True as in OpenAI's chat requests:
    only of the chosen one; False: None).
    logprob_ids: ids to give them for besides. logprobs_of: "sampled", the distribution that the token was drawn from (of
    temperature 0, the one before the likeliest was taken), or "original", the model's own, before all of this.

    None for any of the lists is an empty one. Raises TypeError or ValueError, naming the option, for what cannot be; `Engine.submit`
    looks at whether the vocabulary has the ids.

    >>> SamplingParams(temperature=0.7, logit_bias={"5": 1, 5: 2}).logit_bias
    ((5, 2.0),)
    >>> SamplingParams(top_p=0)
    Traceback (most recent call last):
    ...
    ValueError: top_p=0 must be above 0 and at most 1
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    min_new_tokens: int = 0
    logit_bias: Mapping[Any, float] | Iterable[tuple[Any, float]] | None = ()
    seed: int | None = None
    logprobs: int | bool | None = None
    logprob_ids: Sequence[int] | None = ()
    logprobs_of: Literal["sampled", "original"] = "original"
    processors: Sequence[LogitsFunction] | None = ()

    def __post_init__(self) -> None:
        given: dict[str, Any] = {
            **{name: number(name, getattr(self, name), allowed, fits) for name, allowed, fits in _NUMBERS},
            "top_k": integer("top_k", self.top_k, 0, "at least 0 (0: all)"),
            "min_new_tokens": integer("min_new_tokens", self.min_new_tokens, 0),
            "seed": None if self.seed is None else integer("seed", self.seed),
            "logit_bias": _settle(self.logit_bias),
            "logprobs": _how_many(self.logprobs),
            "logprob_ids": token_ids("logprob_ids", self.logprob_ids),
            "processors": items("processors", self.processors, "a list of functions of (output ids, logits)"),
        }
        if not isinstance(self.logprobs_of, str) or self.logprobs_of not in ("sampled", "original"):
            raise ValueError(f"logprobs_of={shown(self.logprobs_of)} must be 'sampled' or 'original'")
        for processor in given["processors"]:
            if not callable(processor):
                raise TypeError(f"processors must be functions of (output ids, logits), not {described(processor)}")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def check_ids(self, vocab_size: int) -> None:
        """ValueError for a token id that a vocabulary of this size does not have."""
        within("logit_bias", (token for token, _ in self.logit_bias or ()), vocab_size)
        within("logprob_ids", self.logprob_ids or (), vocab_size)

    @property
    def is_greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW

    @property
    def wants_logprobs(self) -> bool:
        return self.logprobs is not None or bool(self.logprob_ids)


_NUMBERS: tuple[tuple[str, str, Callable[[float], bool]], ...] = (
    ("temperature", "a finite number of at least 0", lambda x: 0 <= x < math.inf),
    ("top_p", "above 0 and at most 1", lambda x: 0 < x <= 1),
    ("min_p", "between 0 and 1", lambda x: 0 <= x <= 1),
    ("repetition_penalty", "a finite number above 0", lambda x: 0 < x < math.inf),
    ("frequency_penalty", "a finite number", math.isfinite),
    ("presence_penalty", "a finite number", math.isfinite),
)


def _how_many(logprobs: Any) -> int | None:
    """True and False are what OpenAI's chat requests say: of the chosen token, or none."""
    if logprobs is None or logprobs is False:
        return None
    return 0 if logprobs is True else integer("logprobs", logprobs, 0, "None, a bool, or a number of tokens")


def _settle(bias: Any) -> tuple[tuple[int, float], ...]:
    """Pairs with each id once, ascending."""
    pairs = bias.items() if isinstance(bias, Mapping) else items("logit_bias", bias, "token ids with numbers")
    settled: dict[int, float] = {}
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise TypeError(f"logit_bias: {described(pair)} is no pair of a token id and a number")
        key, value = pair
        try:
            token = int(key) if isinstance(key, str) else key
        except ValueError:
            raise ValueError(f"logit_bias: {shown(key)} is no token id") from None
        token = token_id("logit_bias: token id", token)
        allowed = "finite, or -inf to forbid the token"
        settled[token] = number(f"logit_bias: {token}", value, allowed, lambda x: x < math.inf)
    return tuple(sorted(settled.items()))
