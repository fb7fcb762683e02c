"""How many tokens an end-of-thinking marker still takes: from each place in it, and after each token of the vocabulary.

A token that writes a piece of the marker is no progress if what is left of the marker then takes more tokens than the whole
does (``</`` and ``think`` and ``>`` are three, what is left after ``<`` may be seven): so each place is counted by itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.tokens.spelling import fewest_tokens
from fsmc.compiler.tokens.trie import trie_of
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jit import kernel

MAX_LENGTH = 4096
"""Of a marker, in bytes or ids."""

_MAX_KEPT = 32
"""Markers of a vocabulary, and places of a marker, of which all that was found out is kept."""


class MarkerPaths:
    """The ways to one marker in one vocabulary, a text or token ids; a *place* is how much of it was read, up to all of it.

    >>> vocab = Vocabulary.from_tokens([b"a", b"</", b"/", b"<", b"t>", b"t", b">"])
    >>> paths = MarkerPaths.of(vocab, b"</t>")
    >>> paths.costs.tolist(), paths.after(0).tolist(), paths.after(1).tolist()
    ([2, 2, 1, 1, 0], [0, 2, 0, 1, 0, 0, 0], [0, 2, 2, 1, 0, 0, 0])
    """

    def __init__(self, vocab: Vocabulary, marker: bytes | tuple[int, ...], ends: frozenset[int]) -> None:
        if not 0 < len(marker) <= MAX_LENGTH:
            raise ValueError(f"a marker has between 1 and {MAX_LENGTH} bytes or ids, not {len(marker)}")
        self.marker, self.ends = marker, ends
        self.fallbacks = _fallbacks(marker)
        self._vocab = weakref.ref(vocab)
        self._after: dict[int, npt.NDArray[np.int16]] = {}

    @cached_property
    def costs(self) -> npt.NDArray[np.int64]:
        """From each place, how many tokens are enough (int64[length + 1]): those that spell what is left, or a way over places where
        less is read. So from every place but the last some token leads to where one less is enough.

        Raises ValueError where no tokens spell the marker.
        """
        marker, n = self.marker, len(self.marker)
        if isinstance(marker, tuple):
            return np.arange(n, -1, -1, dtype=np.int64)
        trie, ends = trie_of(self._vocabulary), np.array(sorted(self.ends), np.int32)
        spelled = [fewest_tokens(trie, marker[k:], ends) for k in range(n + 1)]
        costs = np.array([_NEVER if ids is None else len(ids) for ids in spelled], np.int64)
        if costs.max() > 1 + costs[0] or costs[0] == _NEVER:  # another way may be shorter, back to where less is read
            usable = trie.token_ids[~np.isin(trie.token_ids, ends)]
            reached = [self._reached(k, usable) for k in range(n)]
            shorter = True
            while shorter:
                best = np.array([min(costs[k], 1 + costs[reached[k]].min(initial=_NEVER)) for k in range(n)] + [0])
                shorter, costs = bool((best < costs).any()), best
        if costs[0] >= _NEVER:
            without = " without those that end a text" if self.ends else ""
            raise ValueError(f"no tokens of this vocabulary{without} spell {marker!r}: give the marker as token ids")
        return costs

    def _reached(self, place: int, usable: npt.NDArray[np.int32]) -> list[int]:
        """The places that tokens lead to, the last one only if the marker is the end of a token."""
        assert isinstance(self.marker, bytes)
        after = self.after(place)[usable]
        found = np.unique(after)
        whole = (self._vocabulary.token(t) for t in usable[after == len(self.marker)].tolist())
        ends = any(self.read(place, token)[1] == len(token) for token in whole)
        return [k for k in found.tolist() if k < len(self.marker) or ends]

    @classmethod
    def of(cls, vocab: Vocabulary, marker: bytes | tuple[int, ...], ends: frozenset[int] = frozenset()) -> MarkerPaths:
        """Those of this marker, kept for a few markers as long as the vocabulary is there. ends: tokens that end a text, and write
        nothing of a marker that is a text."""
        known, key = _known.setdefault(vocab, {}), (marker, ends)
        if key not in known:
            if len(known) >= _MAX_KEPT:
                known.clear()
            known[key] = cls(vocab, marker, ends)
        return known[key]

    @property
    def worst(self) -> int:
        """So many tokens are enough from every place."""
        return int(self.costs.max())

    def read(self, place: int, data: Sequence[int]) -> tuple[int, int]:
        """The place after some bytes or token ids, and where in them the marker ended or they did (Knuth, Morris, Pratt)."""
        marker = self.marker
        for i, unit in enumerate(data):
            while place and marker[place] != unit:
                place = self.fallbacks[place]
            if marker[place] == unit:
                place += 1
                if place == len(marker):
                    return place, i + 1
        return place, len(data)

    def after(self, place: int) -> npt.NDArray[np.int16]:
        """The place after each token, int16[vocab size]: a whole marker stays whole, whatever comes after it in the token."""
        known = self._after.get(place)
        if known is None:
            vocab = self._vocabulary
            known = np.zeros(vocab.size, np.int16)
            if isinstance(self.marker, tuple):
                for token_id in set(self.marker):
                    known[token_id] = self.read(place, (token_id,))[0]
            else:
                marker = np.frombuffer(self.marker, np.uint8)
                _read_tokens(vocab.token_bytes, vocab.token_offsets, marker, np.array(self.fallbacks), place, known)
            if len(self._after) >= _MAX_KEPT:
                self._after.clear()
            self._after[place] = known
        return known

    @property
    def _vocabulary(self) -> Vocabulary:
        vocab = self._vocab()
        assert vocab is not None, "who has a gate has its vocabulary"
        return vocab


_known: weakref.WeakKeyDictionary[Vocabulary, dict[tuple[bytes | tuple[int, ...], frozenset[int]], MarkerPaths]] = (
    weakref.WeakKeyDictionary()
)
_NEVER = 1 << 30


def _fallbacks(marker: Sequence[int]) -> list[int]:
    """Of each length of what was read, the longest shorter one that it also ends with."""
    found = [0, 0]
    for i in range(1, len(marker)):
        k = found[i]
        while k and marker[k] != marker[i]:
            k = found[k]
        found.append(k + 1 if marker[k] == marker[i] else 0)
    return found


@kernel
def _read_tokens(data: Array, offsets: Array, marker: Array, fallbacks: Array, start: int, places: Array) -> None:
    """`MarkerPaths.read` of every token at once."""
    for token in range(len(places)):
        place = start
        for i in range(offsets[token], offsets[token + 1]):
            while place > 0 and marker[place] != data[i]:
                place = fallbacks[place]
            if marker[place] == data[i]:
                place += 1
                if place == len(marker):
                    break
        places[token] = place
