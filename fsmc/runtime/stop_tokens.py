"""The tokens that end a text, as the masks of a matcher need them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.arguments import integers


class StopTokens(NamedTuple):
    """ids: those tokens. bits: of each, the word of a mask row and its bit there. texts: of each that has bytes, which are never
    text then, the word and all other bits; markers are letters, and stand where their letter may."""

    ids: frozenset[int]
    bits: tuple[tuple[int, np.int32], ...]
    texts: tuple[tuple[int, np.int32], ...]

    @classmethod
    def of(cls, vocab: Vocabulary, ids: Iterable[int] | None) -> StopTokens:
        """These ids; None: the vocabulary's EOS ids, of which it is found out once. TypeError, ValueError for what is no id of it.

        >>> StopTokens.of(Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2]), None).bits
        ((0, np.int32(4)),)
        """
        if ids is None:
            known = _usual.get(vocab)
            if known is None:
                known = _usual[vocab] = cls.of(vocab, vocab.eos_token_ids)
            return known
        chosen = frozenset(integers("stop_token_ids", ids))
        for token_id in chosen:
            if not 0 <= token_id < vocab.size:
                raise ValueError(f"stop token id {token_id} is outside the vocabulary of {vocab.size} ids")
        bit_of = {t: (t // 32, np.uint32(1 << t % 32).astype(np.int32)) for t in sorted(chosen)}
        texts = tuple((word, ~bit) for t, (word, bit) in bit_of.items() if vocab.token(t) and t not in vocab.markers)
        return cls(chosen, tuple(bit_of.values()), texts)


_usual: weakref.WeakKeyDictionary[Vocabulary, StopTokens] = weakref.WeakKeyDictionary()
