"""Which tokens the model chooses: the options of all requests of a batch, as tensors that are made once.

A step passes logits through the stages in the order in which `SamplingParams` lists them. What no row asks for is skipped:
a batch that is greedy throughout is masked and takes one argmax.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import torch

from fsmc.compiler.errors import FsmcError
from fsmc.runtime.sampling_params import SamplingParams

Constrain: TypeAlias = Callable[[torch.Tensor], None]
"""Sets the logits of what is forbidden to -inf, in place."""


class TokenLogprobs(NamedTuple):
    """Log-probabilities at one token: of the chosen one, of the likeliest (likeliest first), and of the ids asked for."""

    chosen: float
    top: tuple[tuple[int, float], ...]
    named: dict[int, float]


class Sampled(NamedTuple):
    """The token chosen for one row, and its log-probabilities if they were wanted."""

    token: int
    logprobs: TokenLogprobs | None = None


class History(NamedTuple):
    """What a row has read and written, and which ids end it; only looked at where an option needs it."""

    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    stop_token_ids: Sequence[int] = ()


class Draws:
    """The random numbers of one row, one for each of its tokens. A number stays the next one until a token was chosen by it,
    so that choosing can be tried again.

    >>> draws = Draws(seed=1)
    >>> first = draws.next
    >>> draws.next == first, draws.was_used(), draws.next == first
    (True, None, False)
    """

    def __init__(self, seed: int | None) -> None:
        self._generator = torch.Generator()
        if seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(seed % 2**63)
        self._next: float | None = None

    @property
    def next(self) -> float:
        """Of [0, 1)."""
        if self._next is None:
            self._next = torch.rand(1, generator=self._generator, dtype=torch.float64).item()
        return self._next

    def was_used(self) -> None:
        self._next = None


@dataclass(frozen=True, eq=False)
class SamplingBatch:
    """The rows of a batch, each with its `SamplingParams` and its source of random numbers; never changed.

    A row that samples draws one random number for each of its tokens, from a generator of its own on the CPU: so a seed
    means the same tokens on every device, in every batch, and however the passes were grouped.

    >>> batch = SamplingBatch.of([SamplingParams(), SamplingParams(temperature=1.0, seed=0)])
    >>> [sampled.token for sampled in batch.sample(torch.tensor([[0.5, 2.0, 0.0], [0.0, -torch.inf, -torch.inf]]))]
    [1, 0]
    >>> len(batch.filter([1]).merge(batch))
    3
    """

    params: tuple[SamplingParams, ...]
    draws: tuple[Draws | None, ...]

    @classmethod
    def of(cls, params: Sequence[SamplingParams]) -> SamplingBatch:
        return cls(tuple(params), tuple(None if p.is_greedy else Draws(p.seed) for p in params))

    def __len__(self) -> int:
        return len(self.params)

    def filter(self, rows: Sequence[int]) -> SamplingBatch:
        """Only these rows, in this order; each goes on drawing where it was."""
        return SamplingBatch(tuple(self.params[i] for i in rows), tuple(self.draws[i] for i in rows))

    def merge(self, other: SamplingBatch) -> SamplingBatch:
        """The rows of this batch, then those of the other."""
        return SamplingBatch(self.params + other.params, self.draws + other.draws)

    @torch.inference_mode()
    def sample(
        self,
        logits: torch.Tensor,
        constrain: Constrain | None = None,
        histories: Sequence[History] | None = None,
    ) -> list[Sampled | FsmcError]:
        """Choose a token for every row; an FsmcError in its place where none can be, or its options or processors fail.

        Should this raise, no random number is used up, and each row can be tried alone (processors are called again then).

        logits: float[n, vocab_size] of the model, on any device; they may be written over. constrain: called with them
        where the constraints come, to set what is forbidden to -inf in place (`apply_token_bitmask_inplace` does that).
        histories: one of each row (None: all are empty).
        """
        if logits.shape[0] != len(self):
            raise ValueError(f"{logits.shape[0]} rows of logits for {len(self)} rows of sampling parameters")
        histories = histories if histories is not None else [History()] * len(self)
        failures: dict[int, FsmcError] = {}
        logits = logits.float()
        original = _finite(logits).log_softmax(-1) if self._wants_original else None
        logits = self._shape(logits, histories, failures)
        if constrain is not None:
            constrain(logits)
        logits = self._add_bias(logits)
        best, tokens = logits.max(-1)
        if bool(torch.isnan(best).any()) or bool((best == torch.inf).any()):  # max finds them; nothing else need look
            logits = _finite(logits)
            best, tokens = logits.max(-1)
        chosen = tokens.tolist()
        for row, score in enumerate(best.tolist()):
            if score == -torch.inf and row not in failures:
                failures[row] = FsmcError(
                    "no token is left to choose from: the constraint, logit_bias, min_new_tokens and the processors forbid "
                    "them all, or the model gave no numbers"
                )
        drawing = [row for row in self._drawing if row not in failures]
        if drawing:
            logits[drawing], picked, scores = self._draw(logits[drawing], drawing)
            for row, token, score in zip(drawing, picked, scores, strict=True):
                chosen[row] = token
                if not score > -math.inf:  # a rule of last resort, for NaN too: what is forbidden is never drawn
                    failures[row] = FsmcError(f"token {token} was drawn, which is forbidden: are the scores numbers?")
        logprobs = self._logprobs(logits, original, chosen, failures) if self._wanting else {}
        for row in drawing:
            if draws := self.draws[row]:
                draws.was_used()
        return [failures.get(row) or Sampled(token, logprobs.get(row)) for row, token in enumerate(chosen)]

    # ------------------------------------------------------------------------------------------ which rows want what

    @property
    def needs_histories(self) -> bool:
        """Whether some row has an option that looks at what was read and written."""
        return bool(self._shaped)

    @cached_property
    def _drawing(self) -> list[int]:
        return [i for i, p in enumerate(self.params) if not p.is_greedy]

    @cached_property
    def _wanting(self) -> list[int]:
        return [i for i, p in enumerate(self.params) if p.wants_logprobs]

    @cached_property
    def _wants_original(self) -> bool:
        return any(self.params[i].logprobs_of == "original" for i in self._wanting)

    @cached_property
    def _shaped(self) -> list[int]:
        """Rows with options that come before the mask."""
        plain = SamplingParams()
        names = ("processors", "repetition_penalty", "frequency_penalty", "presence_penalty", "min_new_tokens")
        return [i for i, p in enumerate(self.params) if any(getattr(p, n) != getattr(plain, n) for n in names)]

    @cached_property
    def _bias(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """Row, id and number of all biases; each pair of row and id is there once."""
        entries = [(i, token, number) for i, p in enumerate(self.params) for token, number in p.logit_bias or ()]
        if not entries:
            return None
        rows, tokens, numbers = zip(*entries, strict=True)
        return torch.tensor(rows), torch.tensor(tokens), torch.tensor(numbers, dtype=torch.float64)

    @cached_property
    def _filters(self) -> dict[str, torch.Tensor]:
        """temperature, top_k, top_p and min_p of the rows that draw: float64 or int64[rows, 1]."""
        drawing = [self.params[i] for i in self._drawing]
        columns = {name: [[getattr(p, name)] for p in drawing] for name in ("temperature", "top_p", "min_p")}
        filters = {name: torch.tensor(column, dtype=torch.float64) for name, column in columns.items()}
        return filters | {"top_k": torch.tensor([[min(p.top_k or 2**62, 2**62)] for p in drawing])}

    # --------------------------------------------------------------------------------------------------- the stages

    def _shape(
        self, logits: torch.Tensor, histories: Sequence[History], failures: dict[int, FsmcError]
    ) -> torch.Tensor:
        """Processors, NaN, penalties, minimum of new tokens: row by row, as each has a history of its own."""
        for i in self._shaped:
            p, history, row = self.params[i], histories[i], logits[i]
            what = "a logits processor failed"
            try:
                for processor in p.processors or ():
                    row = _checked(processor(history.output, row.clone()), row)
                what = "the penalties or min_new_tokens cannot be applied"
                row = _penalised(_finite(row), p, history)
                if len(history.output) < p.min_new_tokens:
                    row[[token for token in history.stop_token_ids if 0 <= token < len(row)]] = -torch.inf
                logits[i] = row
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # whatever someone's function raises is this row's affair alone
                failures[i] = FsmcError(f"{what}: {type(error).__name__}: {error}")
        return logits

    def _add_bias(self, logits: torch.Tensor) -> torch.Tensor:
        """A forbidden token is at -inf, which no bias lifts: biases are finite or -inf."""
        if self._bias is None:
            return logits
        rows, tokens, numbers = (part.to(logits.device) for part in self._bias)
        known = (tokens >= 0) & (tokens < logits.shape[1])
        rows, tokens = rows[known], tokens[known]
        logits[rows, tokens] += numbers[known].to(logits.dtype)
        return logits

    def _draw(self, logits: torch.Tensor, rows: Sequence[int]) -> tuple[torch.Tensor, list[int], list[float]]:
        """The scores really drawn from (log-probabilities, -inf where filtered out), the ids drawn, and the scores of these.

        Each row's figures depend on that row alone, so that a seed means the same in any batch.
        """
        filters = self._filters
        if len(rows) < len(self._drawing):
            wanted = set(rows)
            places = [i for i, row in enumerate(self._drawing) if row in wanted]
            filters = {name: column[places] for name, column in filters.items()}
        temperature, top_p, min_p, top_k = (column.to(logits.device) for column in filters.values())
        scores = _finite(logits.double())
        # In this order no score can be infinite - infinite.
        scores = (scores - scores.max(-1, keepdim=True).values) / temperature
        sorted_rows = ((top_p < 1) | (top_k < logits.shape[1]))[:, 0].nonzero()[:, 0]
        if len(sorted_rows):
            scores[sorted_rows] = _keep_likeliest(scores[sorted_rows], top_k[sorted_rows], top_p[sorted_rows])
        if bool((min_p > 0).any()):
            scores[scores < torch.log(min_p)] = -torch.inf  # the likeliest has score 0
        cumulative = scores.softmax(-1).cumsum(-1)
        random = torch.tensor([[draws.next] for i in rows if (draws := self.draws[i])], dtype=torch.float64)
        at = random.to(logits.device) * cumulative[:, -1:]
        # The last token that adds anything: rounding must not step over it, to one that is forbidden.
        last = (cumulative < cumulative[:, -1:]).sum(-1, keepdim=True)
        picked = torch.minimum(torch.searchsorted(cumulative, at, right=True), last)
        logprobs = scores.log_softmax(-1).to(logits.dtype)
        return logprobs, picked[:, 0].tolist(), logprobs.gather(-1, picked)[:, 0].tolist()

    def _logprobs(
        self, logits: torch.Tensor, original: torch.Tensor | None, chosen: Sequence[int], failures: dict[int, FsmcError]
    ) -> dict[int, TokenLogprobs]:
        found = {}
        for i in self._wanting:
            if i in failures:
                continue
            p = self.params[i]
            from_original = original is not None and p.logprobs_of == "original"
            row = original[i] if original is not None and from_original else logits[i].float().log_softmax(-1)
            top = row.topk(min(p.logprobs or 0, len(row)))
            named = {token: float(row[token]) for token in p.logprob_ids or () if 0 <= token < len(row)}
            pairs = tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True))
            found[i] = TokenLogprobs(float(row[chosen[i]]), pairs, named)
        return found


def _finite(logits: torch.Tensor) -> torch.Tensor:
    """What is no number becomes -inf: a token that cannot be chosen; +inf the largest number."""
    return torch.nan_to_num(logits, nan=-torch.inf, posinf=torch.finfo(logits.dtype).max, neginf=-torch.inf)


def _checked(result: Any, row: torch.Tensor) -> torch.Tensor:
    if not isinstance(result, torch.Tensor) or result.shape != row.shape:
        shape = tuple(getattr(result, "shape", ()))
        raise ValueError(f"it must return logits of shape {tuple(row.shape)}, not {type(result).__name__} {shape}")
    return result.to(row)


def _penalised(row: torch.Tensor, p: SamplingParams, history: History) -> torch.Tensor:
    if p.repetition_penalty != 1 and (seen := set(history.prompt) | set(history.output)):
        ids = torch.tensor(sorted(seen), device=row.device)
        scores = row[ids].double()
        penalised = torch.where(scores > 0, scores / p.repetition_penalty, scores * p.repetition_penalty)
        row[ids] = _as_numbers_of(row, scores, penalised)
    if (p.frequency_penalty or p.presence_penalty) and len(history.output):
        counts = Counter(history.output)
        ids = torch.tensor(list(counts), device=row.device)
        times = torch.tensor(list(counts.values()), device=row.device, dtype=torch.float64)
        scores = row[ids].double()
        row[ids] = _as_numbers_of(row, scores, scores - (p.frequency_penalty * times + p.presence_penalty))
    return row


def _as_numbers_of(row: torch.Tensor, scores: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """What became of finite scores, float64, as finite numbers of the row's type: no penalty, however large, is a ban."""
    limit = torch.finfo(row.dtype).max
    return torch.where(scores.isfinite(), changed.nan_to_num(0.0).clamp(-limit, limit), scores).to(row)


def _keep_likeliest(scores: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """-inf for all but the top_k likeliest, and of these all but the fewest that together have top_p; of equals the first."""
    ordered, ids = scores.sort(descending=True, stable=True)
    rank = torch.arange(scores.shape[1], device=scores.device)
    ordered = ordered.masked_fill(rank >= top_k, -torch.inf)
    probabilities = ordered.softmax(-1)
    ordered = ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= top_p, -torch.inf)
    return torch.empty_like(scores).scatter_(-1, ids, ordered)
