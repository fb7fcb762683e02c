"""A model given that its text fits: exactly, by forward and backward passes over (machine state, hidden state).

Masking forbids tokens that lead nowhere, and renormalizes what is left at each step. That is not the model's distribution among valid texts: a
token behind which little that is valid is likely keeps its probability. The exact one weighs each token by the
probability that what follows it will fit. For a model with few hidden states that is a table, filled from the end (Rabiner 1989 has
the passes; Zhang et al., "Tractable Control for Autoregressive Language Generation", 2023, the use).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.errors import LimitExceeded
from fsmc.research.hidden_markov import HiddenMarkovModel
from fsmc.research.log_space import Floats, log_of, log_sum, log_sums_by
from fsmc.research.matrices import MAX_DENSE_BYTES, assemble
from fsmc.research.token_machine import Final, TokenMachine


class ConditionedModel:
    """The texts of a model of at most ``max_tokens`` tokens, given that they stop where they may.

    A text stops after EOS, or else after ``max_tokens`` tokens; ``final`` says where it may: "ended" (the default) wants EOS, "complete"
    also takes texts that are complete when ``max_tokens`` are reached, "live" those that can still be completed. Memory: one number for
    each position, state and hidden state. Raises ValueError if model and machine have different vocabularies, LimitExceeded beyond
    ``max_bytes``.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    >>> machine = TokenMachine.of(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ab|b").dfa, vocab)
    >>> model = HiddenMarkovModel([1.0], [[1.0]], [[0.8, 0.1, 0.1]])
    >>> exact = ConditionedModel(machine, model, max_tokens=3)
    >>> round(float(np.exp(exact.log_probability)), 6)  # 0.8 · 0.1 · 0.1 for ab, 0.1 · 0.1 for b
    0.018
    >>> exact.next_token_distribution([]).round(3)  # masking would give 0.889 and 0.111
    array([0.444, 0.556, 0.   ])
    """

    def __init__(
        self,
        machine: TokenMachine,
        model: HiddenMarkovModel,
        max_tokens: int,
        final: Final = "ended",
        *,
        max_bytes: int = MAX_DENSE_BYTES,
    ) -> None:
        _check_vocabularies(machine, model)
        if max_tokens < 0:
            raise ValueError(f"max_tokens={max_tokens} must not be negative")
        needed = 8 * model.n_hidden * ((max_tokens + 1) * machine.n_states + machine.n_edges)
        if needed > max_bytes:
            raise LimitExceeded("max_bytes", max_bytes, needed, "take fewer tokens, a smaller machine or model")
        self.machine, self.model, self.max_tokens, self.final = machine, model, max_tokens, final
        self._final = machine.final(final)
        self._initial, self._transition = log_of(model.initial), log_of(model.transition)
        going_on = np.flatnonzero(machine.source != machine.ended)  # what has stopped stays as it is
        self._source, self._target = machine.source[going_on], machine.target[going_on]
        self._emitted = log_of(model.emission.T)[machine.token]
        self._after = self._backward(self._emitted[going_on])

    def _backward(self, emitted: Floats) -> list[Floats]:
        """after[k][q, h]: log-probability of stopping well with k tokens left, in state q, before hidden state h emits."""
        n_states = self.machine.n_states
        table = np.repeat(log_of(self._final)[:, None], self.model.n_hidden, 1)
        tables = [table]
        for _ in range(self.max_tokens):
            parts = emitted + self._moved(tables[-1])[self._target]
            table = log_sums_by(self._source, parts, n_states)
            table[-1] = tables[-1][-1]
            tables.append(table)
        return tables

    def _moved(self, after: Floats) -> Floats:
        """The same table before the hidden state moves on: summed over the one that comes next."""
        rows = [log_sum(after + self._transition[h]) for h in range(self.model.n_hidden)]
        return np.stack(rows, axis=-1)

    @property
    def log_probability(self) -> float:
        """Natural logarithm of the probability that a text of the model fits; -inf if none does."""
        return float(log_sum(self._initial + self._after[-1][self.machine.start]))

    def text_log_probability(self, tokens: Sequence[int]) -> float:
        """Natural logarithm of the probability of one whole text, given that texts fit; -inf if it is not one that fits."""
        state = self.machine.run(tokens)
        early = len(tokens) < self.max_tokens and state != self.machine.ended
        inside = self.machine.run(tokens[:-1]) != self.machine.ended if tokens else True
        if early or not inside or len(tokens) > self.max_tokens or not self._final[state]:
            return -np.inf
        own = self.model.log_probability(tokens)
        return own - self.log_probability if own > -np.inf else own

    def next_token_distribution(self, prefix: Sequence[int]) -> Floats:
        """float64[vocab_size]: the exact distribution of the token after ``prefix``, given that the whole text fits.

        Raises ValueError where no text that fits goes on: the prefix is whole, too long, or leads nowhere.
        """
        state, belief = self.machine.start, self._initial
        for token in prefix:
            state, belief = self._advance(state, belief, token)
        return self._distribution(state, belief, self.max_tokens - len(prefix))

    def sample(self, rng: np.random.Generator) -> list[int]:
        """One text, drawn exactly: no text is thrown away, none has a wrong weight. ValueError if none fits."""
        if self.log_probability == -np.inf:
            raise ValueError(f"no text of {self.max_tokens} tokens fits, or the model never writes one")
        tokens: list[int] = []
        state, belief = self.machine.start, self._initial
        while len(tokens) < self.max_tokens and state != self.machine.ended:
            distribution = self._distribution(state, belief, self.max_tokens - len(tokens))
            token = int(rng.choice(len(distribution), p=distribution))
            tokens.append(token)
            state, belief = self._advance(state, belief, token)
        return tokens

    def state_marginals(self) -> Floats:
        """float64[max_tokens + 1, n_states]: where the machine is after each number of tokens, given that texts fit.

        A text that has stopped stays in *ended*. ValueError if no text fits.
        """
        machine = self.machine
        before = np.full((machine.n_states, self.model.n_hidden), -np.inf)
        before[machine.start] = self._initial
        if self.log_probability == -np.inf:
            raise ValueError(f"no text of {self.max_tokens} tokens fits, or the model never writes one")
        emitted = self._emitted[machine.source != machine.ended]
        marginals = np.zeros((self.max_tokens + 1, machine.n_states))
        for i in range(self.max_tokens + 1):
            marginals[i] = np.exp(log_sum(before + self._after[self.max_tokens - i]) - self.log_probability)
            arriving = log_sums_by(self._target, before[self._source] + emitted, machine.n_states)
            stopped = np.logaddexp(arriving[-1], before[-1])
            moved = [log_sum(arriving + self._transition[:, h]) for h in range(self.model.n_hidden)]
            before = np.stack(moved, axis=-1)
            before[-1] = stopped
        return marginals

    def _advance(self, state: int, belief: Floats, token: int) -> tuple[int, Floats]:
        """The state and the log-probabilities of the hidden states (up to a factor) after one more token."""
        if state == self.machine.ended:
            raise ValueError("the text is whole: nothing comes after it")
        state = self.machine.step(state, token)
        if state != DEAD:
            belief = log_sum((belief + log_of(self.model.emission[:, token]))[:, None] + self._transition, axis=0)
            belief = belief - belief.max() if belief.max() > -np.inf else belief
        if state == DEAD or belief.max() == -np.inf:
            raise ValueError(f"token {token} cannot come there: the machine or the model rules it out")
        return state, belief

    def _distribution(self, state: int, belief: Floats, n_left: int) -> Floats:
        if n_left <= 0 or state == self.machine.ended:
            raise ValueError("the text is whole: nothing comes after it")
        edges = slice(*self.machine.row_start[state : state + 2])
        moved = self._moved(self._after[n_left - 1][self.machine.target[edges]])
        weights = log_sum(self._emitted[edges] + moved + belief)
        if not (weights > -np.inf).any():
            raise ValueError("no text that fits goes on from there")
        distribution = np.zeros(self.model.vocab_size)
        likely = np.exp(weights - weights.max())
        distribution[self.machine.token[edges]] = likely / likely.sum()
        return distribution


def product_matrix(
    machine: TokenMachine, model: HiddenMarkovModel, *, sparse: bool = False, max_bytes: int = MAX_DENSE_BYTES
) -> Any:
    """The product of machine and model as one weighted machine: float64[n_states · m, n_states · m], place q · m + h.

    Entry ((q, h), (r, g)) is the probability that hidden state h emits a token that leads from q to r, and moves to g; *ended*
    stays as it is. With start and final vectors its n-th power gives `ConditionedModel`'s probability. Raises as `transition_matrix`.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    >>> machine = TokenMachine.of(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ab|b").dfa, vocab)
    >>> matrix = product_matrix(machine, HiddenMarkovModel([1.0], [[1.0]], [[0.8, 0.1, 0.1]]))
    >>> np.linalg.matrix_power(matrix, 3)[machine.start, machine.ended].round(6)
    np.float64(0.018)
    """
    _check_vocabularies(machine, model)
    m = model.n_hidden
    source = machine.source
    edges = np.flatnonzero(source != machine.ended)
    hidden, following = np.nonzero(model.transition)
    values = model.emission[hidden][:, machine.token[edges]] * model.transition[hidden, following][:, None]
    rows = source[edges] * m + hidden[:, None]
    columns = machine.target[edges].astype(np.int64) * m + following[:, None]
    last = machine.ended * m + np.arange(m)
    return assemble(
        np.append(rows, last),
        np.append(columns, last),
        np.append(values, np.ones(m)),
        machine.n_states * m,
        sparse,
        max_bytes,
    )


def _check_vocabularies(machine: TokenMachine, model: HiddenMarkovModel) -> None:
    if machine.vocab_size != model.vocab_size:
        raise ValueError(f"the machine is for {machine.vocab_size} tokens, the model for {model.vocab_size}")
