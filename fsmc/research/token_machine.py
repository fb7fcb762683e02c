"""The machine over tokens: which token leads from which state to which, all of it, for dynamic programming.

A mask says whether a token is allowed; programs over (position, state) also need where it leads. That table has an entry for each
state and allowed token, so it is for small vocabularies, or patterns that allow few tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.errors import LimitExceeded, MachineError
from fsmc.compiler.tokens.trie import trie_of
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.research.matrices import MAX_DENSE_BYTES, assemble, check_dense, check_dfa

Final = Literal["ended", "complete", "live"]
"""Where a sequence may stop: EOS was taken; or the text may end here as well; or any place from which tokens can still complete it."""

MAX_EDGES = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class TokenMachine:
    """Deterministic machine over tokens. States are those of the DFA (0 is DEAD) and one more, the last: *ended*.

    Each EOS leads from accepting states to *ended*, and from there on to itself, as do padding tokens: a block of a fixed number of
    positions is a text and then EOS or padding.

    row_start: int64[n_states + 1]; token, target: int32[n_edges]: the edges of state q are those of
    ``row_start[q] … row_start[q + 1]``, tokens ascending. accepting: bool[n_states], where the text may end or has ended.

    >>> from fsmc.compiler.automata.determinize import determinize
    >>> from fsmc.compiler.automata.nfa import thompson
    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> vocab = Vocabulary.from_tokens([b"a", b"b", b"ab", b""], eos_token_ids=[3])
    >>> machine = TokenMachine.of(determinize(thompson(parse_regex("(ab)+"))), vocab)
    >>> machine.accepts([2, 0, 1, 3]), machine.accepts([2, 0]), machine.n_edges
    (True, False, 7)
    """

    row_start: npt.NDArray[np.int64]
    token: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    accepting: npt.NDArray[np.bool_]
    start: int
    vocab_size: int

    @classmethod
    def of(
        cls, dfa: DFA, vocab: Vocabulary, *, pad_token_ids: Iterable[int] = (), max_edges: int = MAX_EDGES
    ) -> TokenMachine:
        """The machine of a DFA over a vocabulary: one walk over the trie, all states at once.

        pad_token_ids: tokens that may follow EOS besides EOS itself. Raises LimitExceeded beyond ``max_edges``, ValueError for a
        padding token outside the vocabulary, MachineError for an empty language.
        """
        check_dfa(dfa)
        if dfa.is_empty:
            raise MachineError("the machine accepts nothing: no token leads anywhere")
        after_end = sorted({*vocab.eos_token_ids, *pad_token_ids})
        if after_end and not 0 <= after_end[0] <= after_end[-1] < vocab.size:
            raise ValueError(f"padding tokens {after_end} lie outside 0..{vocab.size - 1}")
        trie = trie_of(vocab)
        everywhere = np.arange(1, dfa.n_states, dtype=np.int32)
        path = [(everywhere, everywhere)]  # for each byte on the way to a node: from which states, to which
        found: list[tuple[npt.NDArray[np.int32], int, npt.NDArray[np.int32]]] = []
        ended, n_edges, node = dfa.n_states, 0, 0
        while node < trie.n_nodes:
            del path[trie.depth[node] :]
            sources, states = path[-1]
            states = dfa.delta[states, dfa.byte_class[trie.byte[node]]]
            alive = np.flatnonzero(states)
            if not len(alive):
                node = int(trie.end[node])
                continue
            sources, states = sources[alive], states[alive]
            path.append((sources, states))
            for token in trie.token_ids[trie.token_start[node] : trie.token_start[node + 1]].tolist():
                found.append((sources, token, states))
                n_edges += len(sources)
            if n_edges > max_edges:
                raise LimitExceeded("max_edges", max_edges, n_edges, "take a smaller vocabulary or pattern")
            node += 1
        at_end = np.flatnonzero(dfa.accepting).astype(np.int32)
        found += [(at_end, eos, np.full_like(at_end, ended)) for eos in vocab.eos_token_ids]
        stays = np.array([ended], np.int32)
        found += [(stays, token, stays) for token in after_end]
        source = np.concatenate([sources for sources, _, _ in found] or [np.zeros(0, np.int32)])
        tokens = np.repeat([token for _, token, _ in found], [len(sources) for sources, _, _ in found])
        target = np.concatenate([targets for _, _, targets in found] or [np.zeros(0, np.int32)])
        order = np.lexsort((tokens, source))
        return cls(
            row_start=np.searchsorted(source[order], np.arange(ended + 2)).astype(np.int64),
            token=tokens[order].astype(np.int32),
            target=target[order],
            accepting=np.append(dfa.accepting, True),
            start=dfa.start,
            vocab_size=vocab.size,
        )

    @property
    def n_states(self) -> int:
        """Number of states, DEAD and *ended* included."""
        return len(self.accepting)

    @property
    def n_edges(self) -> int:
        """Number of (state, token) pairs that lead on."""
        return len(self.token)

    @property
    def ended(self) -> int:
        """The state after EOS."""
        return self.n_states - 1

    @property
    def source(self) -> npt.NDArray[np.int64]:
        """The state that each edge starts from: int64[n_edges]."""
        return np.repeat(np.arange(self.n_states), np.diff(self.row_start))

    def step(self, state: int, token: int) -> int:
        """The next state, 0 (DEAD) if the token is not allowed."""
        low, high = self.row_start[state], self.row_start[state + 1]
        place = low + np.searchsorted(self.token[low:high], token)
        return int(self.target[place]) if place < high and self.token[place] == token else DEAD

    def run(self, tokens: Iterable[int], state: int | None = None) -> int:
        """The state after the tokens, from ``state`` (default: the start)."""
        state = self.start if state is None else state
        for token in tokens:
            state = self.step(state, token)
        return state

    def accepts(self, tokens: Iterable[int], final: Final = "complete") -> bool:
        """Whether a sequence may stop after these tokens."""
        return bool(self.final(final)[self.run(tokens)])

    def final(self, kind: Final) -> npt.NDArray[np.bool_]:
        """bool[n_states]: where a sequence may stop. *live* is decided in tokens: some sequence of them reaches a complete text."""
        if kind == "complete":
            return self.accepting
        if kind == "ended":
            ended = np.zeros(self.n_states, np.bool_)
            ended[self.ended] = True
            return ended
        if kind != "live":
            raise ValueError(f"final is {kind!r}; it must be 'ended', 'complete' or 'live'")
        live: npt.NDArray[np.bool_] = self.accepting.copy()
        source, n_live = self.source, 0
        while n_live < (n_live := int(live.sum())):
            live[source[live[self.target]]] = True
        return live

    def table(self, *, max_bytes: int = MAX_DENSE_BYTES) -> npt.NDArray[np.int32]:
        """int32[n_states, vocab_size]: the next state for every state and token, 0 (DEAD) where it is not allowed."""
        check_dense(self.n_states * self.vocab_size // 2, max_bytes)
        table = np.zeros((self.n_states, self.vocab_size), np.int32)
        table[self.source, self.token] = self.target
        return table

    def matrix(
        self, weights: npt.ArrayLike | None = None, *, sparse: bool = False, max_bytes: int = MAX_DENSE_BYTES
    ) -> Any:
        """[n_states, n_states]: entry (q, r) is the sum of ``weights[t]`` (default: 1) over the tokens t that lead from q to r.

        Its powers count token sequences, or add up their probabilities under a model that draws each token independently.

        >>> from fsmc.compiler.automata.dfa import DFA
        >>> vocab = Vocabulary.from_tokens([b"a", b"aa"])
        >>> machine = TokenMachine.of(DFA.from_arrays(np.arange(256) == 97, [[-1, 0]], [True], start=0), vocab)
        >>> machine.matrix([0.75, 0.25])
        array([[0., 0., 0.],
               [0., 1., 0.],
               [0., 0., 0.]])
        """
        numbers = np.ones(self.vocab_size, np.int64) if weights is None else np.asarray(weights)
        if numbers.shape != (self.vocab_size,):
            raise ValueError(f"weights have shape {numbers.shape}; one for each of {self.vocab_size} tokens is needed")
        return assemble(self.source, self.target, numbers[self.token], self.n_states, sparse, max_bytes)

    def token_matrices(self, *, sparse: bool = False, max_bytes: int = MAX_DENSE_BYTES) -> list[Any]:
        """For each token, int64[n_states, n_states] with 1 at (q, r) where it leads from q to r; they add up to `matrix`."""
        if not sparse:
            check_dense(self.vocab_size * self.n_states**2, max_bytes)
        order = np.argsort(self.token, kind="stable")
        bounds = np.searchsorted(self.token[order], np.arange(self.vocab_size + 1))
        source, ones = self.source, np.ones(self.n_edges, np.int64)
        parts = [order[low:high] for low, high in pairwise(bounds)]
        return [assemble(source[p], self.target[p], ones[p], self.n_states, sparse, max_bytes) for p in parts]

    def __repr__(self) -> str:
        return f"<TokenMachine: {self.n_states} states, {self.n_edges} edges, {self.vocab_size} tokens>"
