"""tokenizer.json, the format of the tokenizers library, and that library's tokenizers in memory."""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import Any

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.decoders import PieceDecoder, piece_decoder
from fsmc.compiler.tokens.token_table import TokenTable, checked_id, pieces_by_id

_TOP_LEVEL_KEYS = {"added_tokens", "pre_tokenizer", "decoder", "model"}
_MERGES_KEY = re.compile(rb'(?<!\\)"merges"\s*:\s*\[')
_END_OF_MERGES = re.compile(rb"\]\s*\}\s*\}\s*\Z")


def is_tokenizer_json(document: Any) -> bool:
    """Whether a parsed JSON document has the shape of a tokenizer.json."""
    return isinstance(document, dict) and isinstance(document.get("model"), dict) and "vocab" in document["model"]


def parse_tokenizer_json(raw: bytes) -> Any:
    """The parsed document, its merges perhaps left out: they are half of the file and say nothing about bytes.

    Raises ValueError as `json.loads` does.
    """
    key = _MERGES_KEY.search(raw)
    if key and _END_OF_MERGES.search(raw, max(key.end() - 1, len(raw) - 256)):
        # Standard layout: the merges end the model, the model ends the file. Anything missing from what is left
        # says that the layout is another one after all.
        document = json.loads(raw[: key.end()] + b"]}}")
        if document.keys() >= _TOP_LEVEL_KEYS and is_tokenizer_json(document):
            return document
    return json.loads(raw)


def read_tokenizer_json(document: Any, where: str) -> TokenTable:
    """The tokens of a parsed tokenizer.json; ``where`` names it in errors.

    Raises VocabularyError for a decoder that gives tokens no bytes of their own, and for ids that are out of range or
    given twice.
    """
    if not is_tokenizer_json(document):
        raise VocabularyError(f"{where}: not a tokenizer.json (no model with a vocab)")
    model, added = document["model"], document.get("added_tokens") or []
    try:
        vocab, unknown = _model_vocab(model, where)
        byte_fallback = bool(model.get("byte_fallback", False))
        decoder = piece_decoder(document.get("decoder"), document.get("pre_tokenizer"), byte_fallback, where)
        triples = [(token["id"], token["content"], bool(token["special"])) for token in added]
    except (AttributeError, KeyError, TypeError) as error:
        raise VocabularyError(f"{where}: damaged or of an unknown layout ({type(error).__name__}: {error})") from None
    return token_table(vocab, decoder, triples, unknown, where)


def read_tokenizers_library(tokenizer: Any, where: str) -> TokenTable:
    """The tokens of a ``tokenizers.Tokenizer`` in memory.

    It could be serialized and read like a file, but for 128,000 tokens that costs three times as much as asking for
    its parts (`get_vocab`, and the few bytes of state of its decoder and pre-tokenizer).
    """
    model = tokenizer.model
    byte_fallback = bool(getattr(model, "byte_fallback", False))
    decoder = piece_decoder(_state(tokenizer.decoder), _state(tokenizer.pre_tokenizer), byte_fallback, where)
    added = [(i, token.content, token.special) for i, token in tokenizer.get_added_tokens_decoder().items()]
    vocab = tokenizer.get_vocab(with_added_tokens=False)
    return token_table(vocab, decoder, added, getattr(model, "unk_token", None), where)


def token_table(
    vocab: dict[str, int],
    decoder: PieceDecoder,
    added: Iterable[tuple[int, str, bool]],
    unknown: str | None,
    where: str,
) -> TokenTable:
    """Put a model's own pieces and the added tokens (id, content, special) together.

    An added token that is not special is matched in the text as it is written, so its content is its bytes: decoding it
    like a piece would turn "Ġ" into a space. Only where text decoders are concerned and the model has the very same
    piece, the model writes it too, and the decoder's reading holds ("▁▁" in Gemma).
    """
    pieces = pieces_by_id(vocab, vocab.values(), where)
    try:
        table = TokenTable(decoder.decode(pieces))
    except UnicodeEncodeError as error:
        raise VocabularyError(f"{where}: a token is not Unicode text: {error.object[:60]!r}") from None
    names: dict[str, int] = {}
    for token_id, content, special in added:
        names[content] = checked_id(token_id, where)
        is_piece = token_id < len(pieces) and pieces[token_id] == content
        if special:
            table.special.add(token_id)
        if decoder.byte_level or not is_piece:
            try:
                table.set_token(token_id, content.encode())
            except UnicodeEncodeError:
                raise VocabularyError(f"{where}: added token {token_id} is not Unicode text: {content!r}") from None
    table.names = ChainMap(names, vocab)
    if unknown is not None and unknown in table.names:
        table.special.add(table.names[unknown])
    return table


def _model_vocab(model: Mapping[str, Any], where: str) -> tuple[dict[str, int], str | None]:
    """The pieces of the model with their ids, and the piece that stands for what it does not know."""
    vocab = model["vocab"]
    if isinstance(vocab, dict):  # BPE, WordPiece, WordLevel
        return vocab, model.get("unk_token")
    pieces = [piece for piece, _score in vocab]  # Unigram: [[piece, score], ...]
    by_name = {piece: token_id for token_id, piece in enumerate(pieces)}
    if len(by_name) != len(pieces):
        raise VocabularyError(f"{where}: a piece occurs twice in the model's vocab")
    unknown = model.get("unk_id")
    return by_name, None if unknown is None else pieces[unknown]


def _state(part: Any) -> Any:
    """A component of the tokenizers library as the JSON it would have in a file."""
    return None if part is None else json.loads(part.__getstate__())
