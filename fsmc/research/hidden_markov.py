"""A small model for exact experiments: a hidden Markov model over tokens, of which a bigram model is a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class HiddenMarkovModel:
    """A hidden state emits a token and moves on; what is seen are the tokens.

    initial: float64[m], the first hidden state. transition: float64[m, m], emission: float64[m, vocab_size]; rows are distributions.
    Raises ValueError for shapes that do not fit, and rows that are not distributions.

    >>> model = HiddenMarkovModel([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], [[0.9, 0.1], [0.0, 1.0]])
    >>> float(np.exp(model.log_probability([0, 1])))
    0.495
    """

    initial: npt.NDArray[np.float64]
    transition: npt.NDArray[np.float64]
    emission: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        initial, transition, emission = (
            np.array(a, np.float64) for a in (self.initial, self.transition, self.emission)
        )
        m = len(initial) if initial.ndim == 1 else 0
        if not m or transition.shape != (m, m) or emission.ndim != 2 or len(emission) != m:
            raise ValueError(
                f"shapes {initial.shape}, {transition.shape}, {emission.shape} are not (m,), (m, m), (m, vocabulary)"
            )
        for name, array in (("initial", initial), ("transition", transition), ("emission", emission)):
            if not (array >= 0).all() or not np.allclose(array.sum(-1), 1, rtol=0, atol=1e-6):
                raise ValueError(f"{name}: each row must be a distribution (not negative, of sum 1)")
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def from_bigrams(cls, first: npt.ArrayLike, following: npt.ArrayLike) -> HiddenMarkovModel:
        """A bigram model: ``first[t]`` and ``following[t, u]`` are probabilities; the hidden state is the token itself.

        >>> float(np.exp(HiddenMarkovModel.from_bigrams([1, 0], [[0.25, 0.75], [1, 0]]).log_probability([0, 1, 0])))
        0.75
        """
        table = np.array(following, np.float64)
        return cls(np.array(first, np.float64), table, np.eye(len(table)))

    @property
    def n_hidden(self) -> int:
        return len(self.initial)

    @property
    def vocab_size(self) -> int:
        return int(self.emission.shape[1])

    def after(self, belief: npt.NDArray[np.float64], token: int) -> npt.NDArray[np.float64]:
        """One step of the forward algorithm: joint weights of (the token, the next hidden state) from those of the present one."""
        if not 0 <= token < self.vocab_size:
            raise ValueError(f"token {token} is outside 0..{self.vocab_size - 1}")
        moved: npt.NDArray[np.float64] = (belief * self.emission[:, token]) @ self.transition
        return moved

    def log_probability(self, tokens: Sequence[int]) -> float:
        """Natural logarithm of the probability that these are the first tokens."""
        belief, total = self.initial, 0.0
        for token in tokens:
            belief = self.after(belief, token)
            weight = float(belief.sum())
            if weight == 0:
                return -np.inf
            belief, total = belief / weight, total + np.log(weight)
        return float(total)

    def next_token_distribution(self, tokens: Sequence[int]) -> npt.NDArray[np.float64]:
        """float64[vocab_size]: probabilities of what comes after these tokens. ValueError if they cannot come at all."""
        belief = self.initial
        for token in tokens:
            belief = self.after(belief, token)
            if not belief.any():
                raise ValueError(f"the model never writes {list(tokens)}")
            belief = belief / belief.sum()
        distribution: npt.NDArray[np.float64] = belief @ self.emission
        return distribution
