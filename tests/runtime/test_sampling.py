"""The sampler against the distribution it says it draws from."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="sampling needs torch")

from fsmc.runtime.sampling import Sampler  # noqa: E402

LOGITS = torch.tensor([1.0, 3.0, -torch.inf, 2.0, 0.0])


def frequencies(sampler: Sampler, n: int = 4000) -> torch.Tensor:
    counts = torch.zeros(len(LOGITS))
    for _ in range(n):
        counts[sampler.pick(LOGITS)] += 1
    return counts / n


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_softmax(temperature: float) -> None:
    expected = torch.softmax(LOGITS / temperature, dim=0)
    seen = frequencies(Sampler(temperature, seed=7))
    assert seen[2] == 0
    assert torch.allclose(seen, expected, atol=0.04)  # five standard deviations of 4000 draws


def test_top_p_keeps_the_likeliest_tokens_that_reach_it() -> None:
    """Probabilities are about .64, .24, .09, .03: 0.7 needs the first two, and they share all of the mass."""
    seen = frequencies(Sampler(1.0, top_p=0.7, seed=7))
    expected = torch.softmax(LOGITS[[1, 3]], dim=0)
    assert torch.allclose(seen[[1, 3]], expected, atol=0.04)
    assert seen[[0, 2, 4]].sum() == 0


@pytest.mark.parametrize("top_p", [1.0, 0.999999, 1e-9])
def test_forbidden_tokens_are_never_drawn(top_p: float) -> None:
    logits = torch.full((1000,), -torch.inf)
    logits[[3, 700]] = 0.0
    sampler = Sampler(1.0, top_p=top_p, seed=1)
    assert {sampler.pick(logits) for _ in range(100)} <= {3, 700}


def test_the_same_seed_draws_the_same() -> None:
    first, second, other = (Sampler(1.0, seed=seed) for seed in (5, 5, 6))
    draws = [[sampler.pick(LOGITS) for _ in range(50)] for sampler in (first, second, other)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize(
    "arguments", [{"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"top_p": 1.5}]
)
def test_arguments_out_of_range(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Sampler(**arguments)
