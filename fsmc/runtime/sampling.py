"""Which token the model chooses: the likeliest, or one drawn from its distribution."""

from __future__ import annotations

import torch


class Sampler:
    """Picks a token from logits. One random number per token, so that a seed means the same choices however the forward
    passes were grouped.

    temperature: 0 takes the likeliest token (of equal ones the first). top_p: draw from the likeliest tokens that
    together have this probability. seed: of the draw; None: another one each time. Raises ValueError for a negative
    temperature or a top_p outside (0, 1].

    >>> Sampler().pick(torch.tensor([0.5, 2.0, -torch.inf]))
    1
    >>> sampler = Sampler(temperature=1.0, seed=0)
    >>> {sampler.pick(torch.tensor([0.0, -torch.inf, 0.0])) for _ in range(20)}
    {0, 2}
    """

    def __init__(self, temperature: float = 0.0, top_p: float = 1.0, seed: int | None = None) -> None:
        if not temperature >= 0:
            raise ValueError(f"temperature={temperature} must not be negative")
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p={top_p} must be above 0 and at most 1")
        self.temperature, self.top_p = temperature, top_p
        self._generator = torch.Generator()  # on the CPU, so that the same seed draws the same on every device
        if seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(seed)

    def pick(self, logits: torch.Tensor) -> int:
        """The chosen id. logits: float[vocab_size], -inf where a token must not be chosen; at least one is finite."""
        if self.temperature == 0:
            return int(logits.argmax())
        probabilities = torch.softmax(logits.double() / self.temperature, dim=-1)
        drawn = float(torch.rand((), generator=self._generator, dtype=torch.float64))
        ordered, ids = probabilities.sort(descending=True, stable=True)
        cumulative = ordered.cumsum(0)
        n_kept = 1 + int((cumulative < self.top_p).sum())
        n_kept = min(n_kept, int((ordered > 0).sum()))  # rounding must not let a forbidden token in at the end
        chosen = int(torch.searchsorted(cumulative[:n_kept], drawn * cumulative[n_kept - 1], right=True))
        return int(ids[min(chosen, n_kept - 1)])
