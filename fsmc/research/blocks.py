"""Filling a block of positions at once under a machine: what diffusion language models need.

They propose a distribution for each position of a block, all at once. Taking the likeliest token of each position need not give a text
that fits, and fixing positions one after the other may leave none. Dynamic programming over (position, state) gives the
likeliest block that fits (Viterbi 1967; for diffusion models Suresh et al., "DINGO", 2025), or an exact draw. Positions that are already
decided, a suffix for instance, are *fixed*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import EmptyLanguageError, LimitExceeded
from fsmc.research.log_space import Floats, log_sum, log_sums_by
from fsmc.research.matrices import MAX_DENSE_BYTES
from fsmc.research.token_machine import Final, TokenMachine


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens for all positions, their joint log-probability (fixed positions count 0), and the machine's state after them."""

    tokens: list[int]
    log_probability: float
    state: int


def most_probable_block(
    machine: TokenMachine,
    log_probabilities: npt.ArrayLike,
    *,
    state: int | None = None,
    fixed: Mapping[int, int] | None = None,
    final: Final = "live",
    max_bytes: int = MAX_DENSE_BYTES,
) -> Block:
    """The likeliest tokens for a block of positions that the machine takes, positions being independent otherwise.

    log_probabilities: float[n_positions, vocab_size], natural logarithms (or logits less their log-sum), -inf for what cannot be.
    state: where the machine is before the block (default: its start), as `TokenMachine.run` says. fixed: position → token.
    final: "live" if text may follow the block, "complete" or "ended" if it is the last. Ties go to the smallest ids, from the left.

    Time: edges × positions. Raises EmptyLanguageError if no block fits, ValueError for shapes, positions, states and tokens that
    do not exist, LimitExceeded beyond ``max_bytes``.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"(", b")", b"x", b""], eos_token_ids=[3])
    >>> machine = TokenMachine.of(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("[(]x+[)]").dfa, vocab)
    >>> scores = np.log([[0.6, 0.1, 0.2, 0.1], [0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1], [0.1, 0.1, 0.2, 0.6]])
    >>> most_probable_block(machine, scores, final="complete").tokens  # position by position it would be ( ( x and the end
    [0, 2, 1, 3]
    >>> most_probable_block(machine, scores, fixed={3: 1}, final="complete").tokens
    [0, 2, 2, 1]
    """
    scores, start, last = _checked(machine, log_probabilities, state, fixed, final, max_bytes)
    best = np.full((len(scores) + 1, machine.n_states), -np.inf)
    best[-1, last] = 0.0
    source = machine.source
    for i in range(len(scores) - 1, -1, -1):
        np.maximum.at(best[i], source, scores[i, machine.token] + best[i + 1, machine.target])
    if best[0, start] == -np.inf:
        raise EmptyLanguageError(f"no block of {len(scores)} tokens fits there")
    tokens, at = [], start
    for i in range(len(scores)):
        edges = slice(*machine.row_start[at : at + 2])
        place = int(np.argmax(scores[i, machine.token[edges]] + best[i + 1, machine.target[edges]])) + edges.start
        tokens.append(int(machine.token[place]))
        at = int(machine.target[place])
    return Block(tokens, float(best[0, start]), at)


class BlockSampler:
    """The product of the positions' distributions, given that the machine takes the block: exact draws and marginals.

    Arguments and errors are those of `most_probable_block`; ``log_probability`` is that of the event that independent draws fit.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b"])
    >>> machine = TokenMachine.of(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ab|ba").dfa, vocab)
    >>> blocks = BlockSampler(machine, np.log([[0.9, 0.1], [0.5, 0.5]]), final="complete")
    >>> round(float(np.exp(blocks.log_probability)), 6), blocks.marginals().round(3).tolist()
    (0.5, [[0.9, 0.1], [0.1, 0.9]])
    """

    def __init__(
        self,
        machine: TokenMachine,
        log_probabilities: npt.ArrayLike,
        *,
        state: int | None = None,
        fixed: Mapping[int, int] | None = None,
        final: Final = "live",
        max_bytes: int = MAX_DENSE_BYTES,
    ) -> None:
        self.machine = machine
        self._scores, self._start, last = _checked(machine, log_probabilities, state, fixed, final, max_bytes)
        self._source = machine.source
        table = np.full(machine.n_states, -np.inf)
        table[last] = 0.0
        after = [table]  # by number of positions left
        for scores in self._scores[::-1]:
            parts = scores[machine.token] + after[-1][machine.target]
            after.append(log_sums_by(self._source, parts, machine.n_states))
        self._after = after[::-1]
        self.log_probability = float(self._after[0][self._start])
        if self.log_probability == -np.inf:
            raise EmptyLanguageError(f"no block of {len(self._scores)} tokens fits there")

    def sample(self, rng: np.random.Generator) -> Block:
        """One block, drawn exactly; its ``log_probability`` is that of independent draws, not given that they fit."""
        machine, tokens, total, at = self.machine, [], 0.0, self._start
        for scores, after in zip(self._scores, self._after[1:], strict=True):
            edges = slice(*machine.row_start[at : at + 2])
            weights = scores[machine.token[edges]] + after[machine.target[edges]]
            likely = np.exp(weights - weights.max())
            place = int(rng.choice(len(likely), p=likely / likely.sum())) + edges.start
            token, at = int(machine.token[place]), int(machine.target[place])
            tokens.append(token)
            total += float(scores[token])
        return Block(tokens, total, at)

    def marginals(self) -> Floats:
        """float64[n_positions, vocab_size]: the distribution of each position's token, given that the whole block fits."""
        machine = self.machine
        marginals = np.zeros_like(self._scores)
        before = np.full(machine.n_states, -np.inf)
        before[self._start] = 0.0
        for i, scores in enumerate(self._scores):
            arriving = before[self._source] + scores[machine.token]
            weights = arriving + self._after[i + 1][machine.target]
            np.add.at(marginals[i], machine.token, np.exp(weights - log_sum(weights)))
            before = log_sums_by(machine.target, arriving, machine.n_states)
        return marginals


def _checked(
    machine: TokenMachine,
    log_probabilities: npt.ArrayLike,
    state: int | None,
    fixed: Mapping[int, int] | None,
    final: Final,
    max_bytes: int,
) -> tuple[Floats, int, npt.NDArray[np.bool_]]:
    """The scores with the fixed positions decided, the state before the block, the states allowed after it."""
    scores = np.array(log_probabilities, np.float64)
    if scores.ndim != 2 or scores.shape[1] != machine.vocab_size:
        raise ValueError(f"log_probabilities have shape {scores.shape}, not (positions, {machine.vocab_size})")
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise ValueError("log_probabilities hold nan or +inf")
    needed = 8 * (len(scores) + 1) * machine.n_states + 32 * machine.n_edges
    if needed > max_bytes:
        raise LimitExceeded("max_bytes", max_bytes, needed, "take a shorter block or a smaller machine")
    for position, token in (fixed or {}).items():
        if not 0 <= position < len(scores) or not 0 <= token < machine.vocab_size:
            raise ValueError(
                f"fixed: there is no position {position} or no token {token} ({len(scores)} positions, "
                f"{machine.vocab_size} tokens)"
            )
        scores[position] = -np.inf
        scores[position, token] = 0.0
    start = machine.start if state is None else state
    if not 0 < start < machine.n_states:
        raise ValueError(f"state is {start}: a block starts in one of 1..{machine.n_states - 1} (0 is DEAD)")
    return scores, start, machine.final(final)
