"""How one request wants its tokens chosen; needs no torch, so that a request can be made and checked anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

LogitsFunction: TypeAlias = Callable[[Sequence[int], Any], Any]
"""A processor of one's own: (ids of the output so far, logits float[vocab_size]) → logits of the same shape."""


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
    temperature: 0 takes the likeliest token, of equal ones the first, and ignores the options below.
    top_k: only the k likeliest (0: all). top_p: of these, the fewest likeliest that together have this probability.
    min_p: of these, such as have min_p times the probability of the likeliest.

    seed: the same seed draws the same tokens, whatever else is in the batch; None: another one each time.
    logprobs: None, or for how many of the likeliest tokens to give log-probabilities (0: only of the chosen one).
    logprob_ids: ids to give them for besides. logprobs_of: "sampled", the distribution that the token was drawn from (of
    temperature 0, the one before the likeliest was taken), or "original", the model's own, before all of this.

    Raises TypeError or ValueError, naming the option, for what cannot be.

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
    logit_bias: Mapping[Any, float] | Iterable[tuple[Any, float]] = ()
    seed: int | None = None
    logprobs: int | None = None
    logprob_ids: Sequence[int] = ()
    logprobs_of: Literal["sampled", "original"] = "original"
    processors: Sequence[LogitsFunction] = ()

    def __post_init__(self) -> None:
        for name, allowed, fits in _BOUNDS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int if name in _INTEGERS else (int, float)):
                kind = "an integer" if name in _INTEGERS else "a number"
                raise TypeError(f"{name} must be {kind}, not {type(value).__name__}")
            if not fits(value):
                raise ValueError(f"{name}={value} must be {allowed}")
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise TypeError(f"seed must be an integer or None, not {type(self.seed).__name__}")
        if self.logprobs is not None and (not isinstance(self.logprobs, int) or self.logprobs < 0):
            raise ValueError(f"logprobs={self.logprobs!r} must be None or a number of tokens")
        if self.logprobs_of not in ("sampled", "original"):
            raise ValueError(f"logprobs_of={self.logprobs_of!r} must be 'sampled' or 'original'")
        if not all(map(callable, self.processors)):
            raise TypeError("processors must be functions of (output ids, logits)")
        object.__setattr__(self, "logit_bias", _settle(self.logit_bias))
        object.__setattr__(self, "logprob_ids", tuple(map(int, self.logprob_ids)))
        object.__setattr__(self, "processors", tuple(self.processors))

    @property
    def wants_logprobs(self) -> bool:
        return self.logprobs is not None or bool(self.logprob_ids)


_BOUNDS: tuple[tuple[str, str, Callable[[float], bool]], ...] = (
    ("temperature", "at least 0", lambda x: 0 <= x < math.inf),
    ("top_k", "at least 0 (0: all)", lambda x: x >= 0),
    ("top_p", "above 0 and at most 1", lambda x: 0 < x <= 1),
    ("min_p", "between 0 and 1", lambda x: 0 <= x <= 1),
    ("repetition_penalty", "above 0", lambda x: 0 < x < math.inf),
    ("frequency_penalty", "a finite number", math.isfinite),
    ("presence_penalty", "a finite number", math.isfinite),
    ("min_new_tokens", "at least 0", lambda x: x >= 0),
)
_INTEGERS = {"top_k", "min_new_tokens"}


def _settle(bias: Mapping[Any, float] | Iterable[tuple[Any, float]]) -> tuple[tuple[int, float], ...]:
    """Pairs with each id once, ascending."""
    settled: dict[int, float] = {}
    for key, value in bias.items() if isinstance(bias, Mapping) else bias:
        try:
            token, number = int(key), float(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"logit_bias: {key!r}: {value!r} is no token id with a number") from error
        if math.isnan(number) or number == math.inf:
            raise ValueError(f"logit_bias: {key!r}: {value!r} must be finite, or -inf to forbid the token")
        settled[token] = number
    return tuple(sorted(settled.items()))
