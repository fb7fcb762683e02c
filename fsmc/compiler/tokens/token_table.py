"""What every tokenizer format is read into before it becomes a `Vocabulary`: bytes by id, special ids, names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fsmc.compiler.errors import VocabularyError

MAX_VOCABULARY_SIZE = 1 << 24
"""Ids from here on are refused as damage: the largest vocabularies in use have under 300,000 tokens, and one stray id
of 10**12 in a file would otherwise ask for terabytes."""


@dataclass
class TokenTable:
    """The content of one tokenizer. ``tokens[i]`` is what id i adds to the text (b"" if nothing), special ids included.

    ``names`` finds the id of a token by the name that config files use for it ("</s>"); ``eos`` are the ids that the
    format itself declares as end of text.
    """

    tokens: list[bytes]
    special: set[int] = field(default_factory=set)
    names: Mapping[str, int] = field(default_factory=dict)
    eos: set[int] = field(default_factory=set)

    def set_token(self, token_id: int, token: bytes) -> None:
        """Give ``token_id`` its bytes, leaving a hole of ids without bytes if it lies past the end."""
        self.tokens.extend([b""] * (token_id + 1 - len(self.tokens)))
        self.tokens[token_id] = token


def checked_id(token_id: object, where: str) -> int:
    """``token_id`` as it came from a file, if it can be one."""
    if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id < MAX_VOCABULARY_SIZE:
        raise VocabularyError(f"{where}: {token_id!r} is not a token id (0 to {MAX_VOCABULARY_SIZE - 1})")
    return token_id


def pieces_by_id(pieces: Iterable[str], token_ids: Collection[int], where: str) -> list[str]:
    """The pieces in the order of their ids, "" for ids that no piece has.

    Raises VocabularyError where an id is out of range or given twice.
    """
    if not set(map(type, token_ids)) <= {int}:
        raise VocabularyError(f"{where}: token ids must be integers")
    if not token_ids:
        return []
    checked_id(min(token_ids), where), checked_id(max(token_ids), where)
    ids = np.fromiter(token_ids, dtype=np.int64, count=len(token_ids))
    if np.array_equal(ids, np.arange(ids.size)):  # nearly every file lists its tokens in the order of their ids
        return list(pieces)
    counts = np.bincount(ids)
    if counts.max() > 1:
        raise VocabularyError(f"{where}: token id {int(counts.argmax())} is given to {int(counts.max())} tokens")
    ordered = [""] * counts.size
    for piece, token_id in zip(pieces, token_ids, strict=True):
        ordered[token_id] = piece
    return ordered
