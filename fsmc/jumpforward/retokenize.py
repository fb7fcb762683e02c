"""What forced text does to the tokens: tokenize it afresh together with the last few tokens, keep what agrees.

A model has seen text cut into the tokens that its tokenizer makes. After forced text is appended, the tokens of the
whole are rarely those of the two parts: ``"na`` + ``me": `` is spelled ``"name``, ``":``, `` ``. So the last tokens are
encoded again with the forced text behind them; the ids that stay the same keep their place in the key-value cache.

A tokenizer is not a bijection, so its answer is checked before it is used. `Retokenizer` describes the guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.vocabulary import Vocabulary

Encode = Callable[[str], Sequence[int]]
"""Text to ids, without a begin or end token."""

LOOK_BACK = 4
"""How many old tokens are encoded again. Over 400 random cuts of mixed text and six real tokenizers, looking back 1, 2
and 4 tokens gave what encoding everything gives in 86, 99 and 100% of the cases."""

_ANCHORS = ("\n", "|", "a")
"""Text to put before a piece, for tokenizers that write a space before every text they are given."""

_SHORTEST_PIECE = 8


@dataclass(frozen=True, slots=True)
class Retokenized:
    """The tokens after a jump. Invariant: ``ids[:kept]`` are the old ids, and ids[kept] is not the old one there."""

    ids: list[int]
    kept: int


def retokenize(encode: Encode, vocab: Vocabulary, ids: Sequence[int], forced: str | bytes) -> Retokenized:
    """The tokens of the text of ``ids`` with ``forced`` behind it, and how many of ``ids`` stay as they are.

    encode: text to ids, without special tokens around it. Several jumps with one tokenizer are cheaper with one
    `Retokenizer`, which also documents what is guaranteed and what is raised.

    >>> vocab = Vocabulary.from_tokens(["n", "a", "na", "me", "name", ":"])
    >>> def encode(text):  # the longest token first
    ...     ids = []
    ...     while text:
    ...         ids.append(max((i for i in range(6) if text.startswith(vocab.token(i).decode())),
    ...                        key=lambda i: len(vocab.token(i))))
    ...         text = text[len(vocab.token(ids[-1])):]
    ...     return ids
    >>> retokenize(encode, vocab, [5, 2], "me:")
    Retokenized(ids=[5, 4, 5], kept=1)
    """
    return Retokenizer(encode, vocab)(ids, forced)


class Retokenizer:
    """Appends forced text to tokens, for one tokenizer. Calling it gives a `Retokenized`.

    encode: text to ids, without special tokens around it. control_ids: ids that must not come out of text, besides the
    vocabulary's special ones: tokens added to a tokenizer that steer the model (``<tool_call>``). Those that the constraint
    names are meant: the vocabulary's markers may come out.

    Guaranteed of the new ids, whatever the tokenizer does:

    - their bytes are the old bytes followed by the forced ones (a normalizer that composes characters, or one that
      writes a space before every text, would change them);
    - no control id is among the new ones (``<|im_end|>`` in forced text stays text);
    - old ids that differ from the new are among the last ``LOOK_BACK``, or share a character with one of them, as a
      token may end inside a character.

    Where the tokenizer's own answer breaks the first two, only that spot is spelled in smaller pieces: a character by
    itself, or its bytes. Raises VocabularyError if even that fails.
    """

    def __init__(self, encode: Encode, vocab: Vocabulary, control_ids: Iterable[int] = ()) -> None:
        self.vocab = vocab
        self._encode = encode
        self._forbidden = (frozenset(vocab.special_token_ids) | frozenset(control_ids)) - frozenset(vocab.markers)
        self._writes_space_first = self._bytes_of(encode("a")) == b" a"

    @classmethod
    def for_tokenizer(cls, tokenizer: Any, vocab: Vocabulary, named: str = "") -> Retokenizer:
        """For a tokenizer of transformers or tokenizers, a tiktoken.Encoding, or anything with ``encode(text)``.

        Tokens that were added to the tokenizer are control ids, except runs of white space (some vocabularies keep
        their indentation there), and those that stand in ``named``: what a structural tag names may come out.
        """
        texts = {i: vocab.token(i).strip() for i in _added_ids(tokenizer) if i < vocab.size}
        added = (i for i, text in texts.items() if text and text not in named.encode("utf-8", "replace"))
        return cls(text_encoder(tokenizer), vocab, added)

    def __call__(self, ids: Sequence[int], forced: str | bytes) -> Retokenized:
        """The tokens of the text of ``ids`` followed by ``forced``, and the length of the prefix that stays.

        ``ids`` may end inside a character which ``forced``, as bytes, completes. ``forced`` must end at a character.
        """
        forced = forced.encode() if isinstance(forced, str) else forced
        old = list(ids)
        start = self._window_start(old, forced)
        new = self.tokenize(self._bytes_of(old[start:]) + forced)
        return Retokenized(old[:start] + new, start + _common_prefix_length(new, old[start:]))

    def tokenize(self, text: str | bytes) -> list[int]:
        """Ids whose bytes are exactly ``text`` (in the middle of some text, not at its beginning), none of them control.

        >>> vocab = Vocabulary.from_tokens(["a", "b", "ab", "<eos>"], eos_token_ids=[3])
        >>> Retokenizer(lambda text: [3] if "ab" in text else [ord(c) - 97 for c in text], vocab).tokenize("ab")
        [0, 1]
        """
        try:
            text = text.decode() if isinstance(text, bytes) else text
        except UnicodeDecodeError as error:  # begins inside a character, behind a token that has no bytes
            return self._spell(error.object)
        ids: list[int] = []
        position, length = 0, len(text)
        while position < len(text):
            piece = text[position : position + length]
            good = self._exact_prefix(self._encode_inside(piece), piece.encode())
            ids += good
            taken = len(self._bytes_of(good).decode())
            position += taken
            if taken == len(piece):
                length *= 2
            else:  # Halving and doubling: each bad spot costs a few short encodings, not one of all that follows it.
                ids += self._spell_character(text[position])
                position += 1
                length = max(_SHORTEST_PIECE, length // 2)
        return ids

    def _window_start(self, ids: Sequence[int], forced: bytes) -> int:
        """The token to begin with: LOOK_BACK from the end, or further, to the nearest that begins a character.

        Never before a token without bytes, which would be lost.
        """
        start, first = len(ids), forced[:1]
        while start and (token := self.vocab.text(ids[start - 1])):
            if len(ids) - start >= LOOK_BACK and not _continues_character(first):
                break
            start, first = start - 1, token
        return start

    def _encode_inside(self, text: str) -> Sequence[int]:
        """The tokenizer's ids for text that stands inside a text: without the space that some write at the beginning."""
        if self._writes_space_first:
            for anchor in _ANCHORS:
                ids = self._encode(anchor + text)
                unwritten = b" " + anchor.encode()
                for n, token_id in enumerate(ids):
                    if not unwritten:
                        return ids[n:]
                    token = self._bytes_of([token_id])
                    if not unwritten.startswith(token):  # one token for the anchor and what follows: no cut there
                        break
                    unwritten = unwritten[len(token) :]
        return self._encode(text)

    def _exact_prefix(self, ids: Sequence[int], expected: bytes) -> list[int]:
        """The longest prefix of ``ids`` without control ids that spells whole characters of ``expected``."""
        offset = good = 0
        for n, token_id in enumerate(ids, start=1):
            token = self._bytes_of([token_id])
            if not token or token_id in self._forbidden or not expected.startswith(token, offset):
                break
            offset += len(token)
            if not _continues_character(expected[offset : offset + 1]):
                good = n
        return list(ids[:good])

    def _spell_character(self, character: str) -> list[int]:
        ids, expected = self._encode_inside(character), character.encode()
        good = self._exact_prefix(ids, expected)
        return good if self._bytes_of(good) == expected else self._spell(expected)

    def _spell(self, data: bytes) -> list[int]:
        """``data`` in tokens of up to one character, the longest that fits each time; the last resort."""
        ids: list[int] = []
        position = 0
        while position < len(data):
            for length in range(4, 0, -1):
                token_id = self._short_tokens.get(data[position : position + length])
                if token_id is not None:
                    ids.append(token_id)
                    position += len(self.vocab.token(token_id))
                    break
            else:
                raise VocabularyError(
                    f"forced text contains {data!r}, and no tokens of the vocabulary spell its byte {position} "
                    f"(0x{data[position]:02x}): jump-forward needs a tokenizer and vocabulary that cover each other"
                )
        return ids

    @cached_property
    def _short_tokens(self) -> dict[bytes, int]:
        """Bytes of up to one character → the lowest id that has them."""
        tokens = enumerate(self.vocab.tokens)
        short = [(token, i) for i, token in tokens if 0 < len(token) <= 4 and i not in self._forbidden]
        return dict(reversed(short))

    def _bytes_of(self, ids: Sequence[int]) -> bytes:
        """The bytes of ids; none for an id that the vocabulary does not have (a tokenizer may know more)."""
        return b"".join(self.vocab.text(i) if 0 <= i < self.vocab.size else b"" for i in ids)


def text_encoder(tokenizer: Any) -> Encode:
    """The function from text to ids, nothing added around them, of the common libraries' tokenizers.

    Understood are tokenizers of transformers, tokenizers.Tokenizer, tiktoken.Encoding, and objects with ``encode(text)``
    that takes ``add_special_tokens``.

    >>> from tokenizers import Tokenizer, models
    >>> text_encoder(Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])))("bab")
    [1, 2]
    """
    if hasattr(
        tokenizer, "encode_ordinary"
    ):  # tiktoken; its encode() raises when a special token's name is in the text
        ordinary: Encode = tokenizer.encode_ordinary
        return ordinary

    def encode(text: str) -> Sequence[int]:
        encoded = tokenizer.encode(text, add_special_tokens=False)
        ids: Sequence[int] = getattr(encoded, "ids", encoded)
        return ids

    return encode


def _added_ids(tokenizer: Any) -> Iterable[int]:
    """The ids that were added to a tokenizer's model, of transformers (name → id) or tokenizers (id → token)."""
    if hasattr(tokenizer, "get_added_vocab"):
        names: dict[str, int] = tokenizer.get_added_vocab()
        return names.values()
    if hasattr(tokenizer, "get_added_tokens_decoder"):
        tokens: dict[int, Any] = tokenizer.get_added_tokens_decoder()
        return tokens.keys()
    return ()


def _continues_character(data: bytes) -> bool:
    """Whether ``data`` begins with a byte from the inside of a character (10xxxxxx in UTF-8)."""
    return bool(data) and data[0] & 0xC0 == 0x80


def _common_prefix_length(a: Sequence[int], b: Sequence[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
