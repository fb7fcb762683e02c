"""The vocabulary of a model as byte strings: what each token id adds to the text, and which ids are never text."""

from __future__ import annotations

import hashlib
import itertools
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.loaders import read_file, read_table, read_tokenizer
from fsmc.compiler.tokens.token_table import MAX_VOCABULARY_SIZE, TokenTable
from fsmc.compiler.tokens.vocabulary_cache import VocabularyFile

_MAX_MARKED = 16


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token id → bytes. Special tokens (all EOS ids among them), holes and padding have no bytes, and are never text.

    token_bytes: uint8[total], the bytes of all tokens one after the other, in the order of their ids.
    token_offsets: int64[size + 1]; token i is ``token_bytes[token_offsets[i]:token_offsets[i + 1]]``.
    eos_token_ids: the ids that end a text, ascending. special_token_ids: every id that steers the model instead of
    being text, ascending; it contains the EOS ids.
    special_texts: id → the name of a special token, as it is written in texts ("<|call|>"), where that is known.
    markers: special ids that a constraint names (see `with_markers`), ascending.

    Several ids may have the same bytes. ``size`` may exceed the tokenizer's own size: models pad their logits.

    >>> vocabulary = Vocabulary.from_tokens([b"yes", b" no", b"", b"</s>"], eos_token_ids=[3], vocab_size=8)
    >>> vocabulary.size, vocabulary.token(1), vocabulary.token(3), vocabulary.token(7)
    (8, b' no', b'', b'')
    """

    token_bytes: npt.NDArray[np.uint8]
    token_offsets: npt.NDArray[np.int64]
    eos_token_ids: tuple[int, ...]
    special_token_ids: tuple[int, ...]
    special_texts: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    markers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        data, offsets = self.token_bytes, self.token_offsets
        if data.dtype != np.uint8 or data.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
            raise VocabularyError("token_bytes must be uint8[total] and token_offsets int64[size + 1]")
        if not 1 <= offsets.size <= MAX_VOCABULARY_SIZE + 1:
            raise VocabularyError(f"a vocabulary has between 0 and {MAX_VOCABULARY_SIZE} ids, not {offsets.size - 1}")
        if offsets[0] != 0 or offsets[-1] != data.size or (np.diff(offsets) < 0).any():
            raise VocabularyError(f"token_offsets must rise from 0 to the {data.size} bytes of token_bytes")
        eos = _checked_ids(self.eos_token_ids, self.size, "EOS")
        special = tuple(sorted({*_checked_ids(self.special_token_ids, self.size, "special"), *eos}))
        rows = np.asarray([i for i in special if i not in self.markers], dtype=np.int64)
        if (offsets[rows + 1] != offsets[rows]).any():
            raise VocabularyError("special tokens are never text, so they must have no bytes (from_tokens drops them)")
        object.__setattr__(self, "token_bytes", _frozen(data))
        object.__setattr__(self, "token_offsets", _frozen(offsets))
        object.__setattr__(self, "eos_token_ids", eos)
        object.__setattr__(self, "special_token_ids", special)

    @classmethod
    def from_tokens(
        cls,
        tokens: Sequence[bytes | str | None],
        eos_token_ids: Iterable[int] = (),
        special_token_ids: Iterable[int] = (),
        vocab_size: int | None = None,
    ) -> Vocabulary:
        """A vocabulary from the bytes of token 0, 1, 2, …; text is taken as UTF-8, None and b"" as "never allowed".

        Special and EOS tokens lose whatever bytes are given for them: they are addressed by id only. ``vocab_size``
        pads with ids that are never allowed. Raises VocabularyError on an id outside the vocabulary.

        >>> Vocabulary.from_tokens(["a", "<eos>"], eos_token_ids=[1]).tokens
        (b'a', b'')
        """
        if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Sequence):
            raise TypeError(f"tokens must be a list of bytes, by id, not {type(tokens).__name__}")
        size = len(tokens) if vocab_size is None else operator.index(vocab_size)
        if not len(tokens) <= size <= MAX_VOCABULARY_SIZE:
            raise VocabularyError(
                f"vocab_size={size} must be at least the {len(tokens)} tokens given and at most {MAX_VOCABULARY_SIZE}"
            )
        eos = _checked_ids(eos_token_ids, size, "EOS")
        special = _checked_ids(special_token_ids, size, "special")
        texts: list[Any] = list(tokens)
        if set(map(type, texts)) != {bytes}:  # asked of all at once: there are a hundred thousand and more
            texts = [t.encode() if isinstance(t, str) else t or b"" for t in tokens]
            if not all(isinstance(t, (bytes, bytearray, memoryview)) for t in texts):
                wrong = next(i for i, t in enumerate(texts) if not isinstance(t, (bytes, bytearray, memoryview)))
                raise TypeError(f"token {wrong} must be bytes, str or None, not {type(tokens[wrong]).__name__}")
        names = {}
        for token_id in (*eos, *special):
            if token_id < len(texts) and texts[token_id]:
                names[token_id], texts[token_id] = bytes(texts[token_id]), b""
        offsets = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1 : len(texts) + 1])
        offsets[len(texts) + 1 :] = offsets[len(texts)]
        return cls(np.frombuffer(b"".join(texts), dtype=np.uint8), offsets, eos, special, names)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        eos_token_ids: Iterable[int] | None = None,
        special_tokens: Mapping[str, int] | None = None,
        vocab_size: int | None = None,
    ) -> Vocabulary:
        """The vocabulary in a tokenizer's file: tokenizer.json, tekken.json, tiktoken ranks or a SentencePiece model.

        ``path`` may be a folder that holds one. The ids that end a text come from the file and from those beside it
        (generation_config.json, config.json, tokenizer_config.json, special_tokens_map.json); ``eos_token_ids``
        replaces them. ``special_tokens`` (name → id) adds what a rank file cannot list. ``vocab_size`` is the width of
        the model's logits where it is not the tokenizer's size. Raises VocabularyError, naming the file, for one that
        is missing, damaged, of another kind, or whose tokens have no bytes of their own.

        What was read of a large file is kept in the cache folder (`cache_dir.default_cache_dir`), for as long as the files and the
        arguments stay what they were.
        """
        file, raw = read_file(path)
        eos = None if eos_token_ids is None else list(eos_token_ids)
        kept = VocabularyFile.of(file, raw, special_tokens, eos, vocab_size)
        known = kept.load()
        if known is not None:
            return cls(*known)
        vocab = cls._from_table(read_table(file, raw, special_tokens, eos), vocab_size, os.fspath(path))
        kept.store(
            vocab.token_bytes, vocab.token_offsets, vocab.eos_token_ids, vocab.special_token_ids, vocab.special_texts
        )
        return vocab

    @classmethod
    def from_huggingface(
        cls, tokenizer: Any, vocab_size: int | None = None, *, eos_token_ids: Iterable[int] | None = None
    ) -> Vocabulary:
        """The vocabulary of a tokenizer in memory: transformers' (fast or not), tokenizers.Tokenizer, tiktoken.Encoding.

        ``vocab_size`` is the width of the model's logits (``model.config.vocab_size``) where it is not the tokenizer's
        size. ``eos_token_ids`` replaces the tokenizer's own end of text. Raises VocabularyError.
        """
        return cls._from_table(read_tokenizer(tokenizer, eos_token_ids), vocab_size, type(tokenizer).__name__)

    @classmethod
    def _from_table(cls, table: TokenTable, vocab_size: int | None, where: str) -> Vocabulary:
        """The vocabulary of what a loader has read; ``where`` names the source in errors."""
        tokens, special, eos = table.tokens, table.special, table.eos
        if vocab_size is not None and 0 <= vocab_size < len(tokens):
            # Gemma 3's tokenizer has an image token past its text model's logits. Only such tokens may be cut off.
            if any(tokens[i] and i not in special and i not in eos for i in range(vocab_size, len(tokens))):
                raise VocabularyError(
                    f"{where}: vocab_size={vocab_size} cuts off text tokens, the vocabulary has {len(tokens)} ids"
                )
            tokens = tokens[:vocab_size]
            special, eos = ({i for i in ids if i < vocab_size} for ids in (special, eos))
        try:
            return cls.from_tokens(tokens, eos, special, vocab_size)
        except VocabularyError as error:
            raise VocabularyError(f"{where}: {error}") from None

    @property
    def size(self) -> int:
        """The number of ids, padding included: the width of the logits and of a mask row, in bits."""
        return int(self.token_offsets.size) - 1

    def token(self, token_id: int) -> bytes:
        """The bytes that one token adds to the text; b"" for special tokens, holes and padding.

        Raises VocabularyError for an id outside the vocabulary.
        """
        if not 0 <= token_id < self.size:
            raise VocabularyError(f"token id {token_id} is outside the vocabulary of {self.size} ids")
        return self.token_bytes[self.token_offsets[token_id] : self.token_offsets[token_id + 1]].tobytes()

    @cached_property
    def tokens(self) -> tuple[bytes, ...]:
        """The bytes of every id, in order; made on first use (some ten milliseconds for 128,000 tokens)."""
        data, bounds = self.token_bytes.tobytes(), self.token_offsets.tolist()
        return tuple(data[begin:end] for begin, end in itertools.pairwise(bounds))

    def text(self, token_id: int) -> bytes:
        """What a token looks like in the text: its bytes, or of a marker its name. Errors as `token`.

        >>> vocab = Vocabulary.from_tokens(["a", "<call>"], special_token_ids=[1])
        >>> vocab.text(1), vocab.with_markers([1]).text(1)
        (b'', b'<call>')
        """
        return self.special_texts.get(token_id, b"") if token_id in self.markers else self.token(token_id)

    def with_markers(self, ids: Iterable[int]) -> Vocabulary:
        """The vocabulary of a constraint that names these special tokens: each is a letter of its own, bytes that no text has.

        The k-th of them, in ascending order, has the bytes FF k; so it can stand only where the constraint's machine has
        that letter, never in a text. Tokens with an FF among their own bytes, which no text has either, lose theirs. Raises VocabularyError for an id that is no special one, and for more than 128.

        >>> vocab = Vocabulary.from_tokens(["a", "<call>", "</s>"], special_token_ids=[1], eos_token_ids=[2])
        >>> vocab.with_markers([1]).token(1), vocab.with_markers([]) is vocab
        (b'\\xff\\x00', True)
        """
        chosen = _checked_ids(ids, self.size, "marker")
        if not chosen or chosen == self.markers:
            return self
        plain = [token_id for token_id in chosen if token_id not in self.special_token_ids]
        if plain or len(chosen) > 128:
            what = (
                f"token {plain[0]} is text, not a special token" if plain else f"{len(chosen)} markers, of at most 128"
            )
            raise VocabularyError(what)
        known = self._marked.get(chosen)
        if known is None:
            tokens = list(self.tokens)
            if 0xFF in self.token_bytes:
                tokens = [b"" if b"\xff" in token else token for token in tokens]
            for k, token_id in enumerate(chosen):
                tokens[token_id] = bytes((0xFF, k))
            offsets = np.zeros(self.size + 1, dtype=np.int64)
            np.cumsum(np.fromiter(map(len, tokens), np.int64, self.size), out=offsets[1:])
            data = np.frombuffer(b"".join(tokens), dtype=np.uint8)
            known = Vocabulary(data, offsets, self.eos_token_ids, self.special_token_ids, self.special_texts, chosen)
            if len(self._marked) >= _MAX_MARKED:
                self._marked.pop(next(iter(self._marked)))
            self._marked[chosen] = known
        return known

    def has_tokens_of(self, other: Vocabulary) -> bool:
        """Whether every id has the bytes that it has in ``other``, which may name special tokens (`with_markers`) and end texts otherwise.

        >>> vocab = Vocabulary.from_tokens(["a", "b", "</s>"], eos_token_ids=[2])
        >>> vocab.has_tokens_of(vocab.with_markers([2])), vocab.has_tokens_of(Vocabulary.from_tokens(["b", "a", ""]))
        (True, False)
        """
        if self is other:
            return True
        if not set(other.markers) <= set(self.special_token_ids):
            return False
        mine = self.with_markers(other.markers)
        return np.array_equal(mine.token_offsets, other.token_offsets) and np.array_equal(
            mine.token_bytes, other.token_bytes
        )

    @cached_property
    def _marked(self) -> dict[tuple[int, ...], Vocabulary]:
        """Those of `with_markers`: with each come a token trie and masks, which grammars share."""
        return {}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of everything that masks depend on: bytes, offsets, special and EOS ids.

        >>> a = Vocabulary.from_tokens([b"a", b"b"]); b = Vocabulary.from_tokens([b"ab", b""])
        >>> len(a.fingerprint), a.fingerprint == b.fingerprint
        (64, False)
        """
        digest = hashlib.sha256(b"fsmc vocabulary 1\0")
        for numbers in (self.token_offsets, self.eos_token_ids, self.special_token_ids):
            digest.update(len(numbers).to_bytes(8, "little"))  # or [a][b c] and [a b][c] would be one fingerprint
            digest.update(np.asarray(numbers, dtype="<i8").tobytes())
        digest.update(self.token_bytes.tobytes())
        if self.markers:
            digest.update(np.asarray(self.markers, dtype="<i8").tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"Vocabulary(size={self.size}, eos={list(self.eos_token_ids)}, special={len(self.special_token_ids)})"


def _checked_ids(ids: Iterable[int], size: int, kind: str) -> tuple[int, ...]:
    """``ids`` as ascending plain ints, each once and inside the vocabulary."""
    checked = sorted({operator.index(token_id) for token_id in ids})
    outside = [token_id for token_id in checked if not 0 <= token_id < size]
    if outside:
        raise VocabularyError(f"{kind} token id {outside[0]} is outside the vocabulary of {size} ids")
    return tuple(checked)


def _frozen(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A read-only contiguous view (a view, so that the caller's own array keeps its flags)."""
    view: npt.NDArray[np.generic] = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
