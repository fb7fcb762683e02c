"""Which format a tokenizer has, whether it is a file, a folder or an object, and which of its ids end a text."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.decoders import SENTENCEPIECE_DECODER, PieceDecoder
from fsmc.compiler.tokens.sentencepiece_files import read_sentencepiece
from fsmc.compiler.tokens.tiktoken_files import (
    add_special_tokens,
    is_tekken,
    read_tekken,
    read_tiktoken,
    read_tiktoken_encoding,
)
from fsmc.compiler.tokens.token_table import TokenTable, checked_id
from fsmc.compiler.tokens.tokenizer_json import (
    is_tokenizer_json,
    parse_tokenizer_json,
    read_tokenizer_json,
    read_tokenizers_library,
    token_table,
)

MAX_FILE_BYTES = 1 << 27
"""No more is read of one file; the largest known tokenizer.json, with 262,144 tokens, has 33 MB."""

_FILE_NAMES = ("tokenizer.json", "tekken*.json", "*.tiktoken", "tokenizer.model*", "*.model")
"""What a folder is searched for, best first: tokenizer.json also holds the tokens added after training."""

BESIDE = ("generation_config.json", "config.json", "tokenizer_config.json", "special_tokens_map.json")
"""The files beside a tokenizer's that may say which ids end a text."""

_TOKENIZERS = "a transformers tokenizer, a tokenizers.Tokenizer, a tiktoken.Encoding"


def read_file(path: str | os.PathLike[str]) -> tuple[Path, bytes]:
    """A tokenizer's file, ``path`` itself or the best one in that folder, and its content.

    Raises VocabularyError where it is missing, cannot be read, or can be no tokenizer's.
    """
    file = Path(path)
    try:
        file = _find_file(file)
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # a device may never end, a pipe never begin
            raise VocabularyError(f"{file}: not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise VocabularyError(
                f"{file}: {status.st_size} bytes, no tokenizer file is that large (up to {MAX_FILE_BYTES})"
            )
        return file, file.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, VocabularyError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise VocabularyError(f"{file}: cannot be read ({reason})") from None


def read_table(
    file: Path,
    raw: bytes,
    special_tokens: Mapping[str, int] | None = None,
    eos_token_ids: Iterable[int] | None = None,
) -> TokenTable:
    """The tokens of what `read_file` found, with the EOS ids that the files beside it (`BESIDE`) name.

    The format is told from the content, not the name. ``special_tokens`` (name → id) are entered in addition, which
    tiktoken's rank files need. ``eos_token_ids`` replaces what the files say. Raises VocabularyError for a
    damaged or unknown file.
    """
    table = _read_bytes(raw, str(file))
    if special_tokens:
        add_special_tokens(table, special_tokens, str(file))
    if eos_token_ids is not None:
        table.eos = set(eos_token_ids)
    else:
        table.eos |= _generation_eos(file.parent) | _tokenizer_eos(file.parent, table)
    return table


def read_tokenizer(tokenizer: Any, eos_token_ids: Iterable[int] | None = None) -> TokenTable:
    """The tokens of a tokenizer object, recognized by what it offers, so that its library need not be installed.

    Understood are transformers' tokenizers (fast, SentencePiece, byte-level in Python, Mistral's), tokenizers.Tokenizer
    and tiktoken.Encoding. The EOS ids are the tokenizer's own and, where it was loaded from a folder, those that the
    folder's generation_config.json (or config.json) names; ``eos_token_ids`` replaces them.
    """
    where = type(tokenizer).__name__
    table = _read_object(tokenizer, where)
    if eos_token_ids is not None:
        table.eos = set(eos_token_ids)
        return table
    own = getattr(tokenizer, "eos_token_id", None)
    table.eos |= set() if own is None else {own}
    folder = getattr(tokenizer, "name_or_path", "")
    if folder and os.path.isdir(folder):
        table.eos |= _generation_eos(Path(folder))
    return table


def _generation_eos(folder: Path) -> set[int]:
    """Where generation stops, by the model's own files; for chat models these are several ids.

    config.json is asked only where there is no generation_config.json, as in transformers.
    """
    config = _read_config(folder / BESIDE[0]) or _read_config(folder / BESIDE[1])
    listed = config.get("eos_token_id")
    if listed is None and isinstance(config.get("text_config"), dict):
        listed = config["text_config"].get("eos_token_id")  # models of several modalities
    ids = [token_id for token_id in (listed if isinstance(listed, list) else [listed]) if token_id is not None]
    return {checked_id(token_id, f"{folder}, eos_token_id") for token_id in ids}


def _tokenizer_eos(folder: Path, table: TokenTable) -> set[int]:
    """The end of text that the tokenizer's files name, by its text."""
    eos: set[int] = set()
    for name in BESIDE[2:]:
        token = _read_config(folder / name).get("eos_token")
        content = token.get("content") if isinstance(token, dict) else token
        if content is None:
            continue
        if not isinstance(content, str) or content not in table.names:
            raise VocabularyError(
                f"{folder / name}: eos_token {content!r} is not in the vocabulary; pass eos_token_ids (--eos) to override"
            )
        eos.add(table.names[content])
    return eos


def _find_file(path: Path) -> Path:
    """``path`` itself, or the best tokenizer file if it is a folder."""
    if not path.is_dir():
        return path
    for pattern in _FILE_NAMES:
        found = sorted(path.glob(pattern))
        if found:
            return found[0]
    raise VocabularyError(f"{path}: no tokenizer file in this folder (looked for {', '.join(_FILE_NAMES)})")


def _read_bytes(raw: bytes, where: str) -> TokenTable:
    """The tokens of a file's content in whichever format it is."""
    start = raw[:64].lstrip()
    if start[:1] in (b"{", b"["):
        try:
            document = parse_tokenizer_json(raw)
        except (ValueError, RecursionError) as error:
            raise VocabularyError(f"{where}: not JSON, or truncated ({error})") from None
        if is_tokenizer_json(document):
            return read_tokenizer_json(document, where)
        if is_tekken(document):
            return read_tekken(document, where)
        raise VocabularyError(
            f"{where}: JSON, but neither a tokenizer.json nor a tekken.json"
            + (
                f" (it has {', '.join(sorted(map(str, document))[:8]) or 'nothing'})"
                if isinstance(document, dict)
                else ""
            )
        )
    if not raw:
        raise VocabularyError(f"{where}: the file is empty")
    if raw[0] == 0x0A:  # field 1, length-delimited: the first piece
        return read_sentencepiece(raw, where)
    if len(raw.split(b"\n", 1)[0].split()) == 2:
        return read_tiktoken(raw, where)
    raise VocabularyError(
        f"{where}: not a tokenizer file (known: tokenizer.json, tekken.json, tiktoken ranks, SentencePiece models)"
    )


def _read_object(tokenizer: Any, where: str) -> TokenTable:
    """The tokens of a tokenizer object of whichever kind."""
    fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(fast, "get_added_tokens_decoder") and hasattr(fast, "get_vocab"):
        return read_tokenizers_library(fast, where)
    if hasattr(tokenizer, "token_byte_values") and hasattr(tokenizer, "special_tokens_set"):
        return read_tiktoken_encoding(tokenizer, where)
    if hasattr(tokenizer, "get_vocab") and (hasattr(tokenizer, "sp_model") or hasattr(tokenizer, "byte_decoder")):
        return _read_python_tokenizer(tokenizer, where)
    mistral = getattr(getattr(getattr(tokenizer, "tokenizer", None), "instruct_tokenizer", None), "tokenizer", None)
    if mistral is not None and hasattr(mistral, "file_path"):
        return _read_bytes(Path(mistral.file_path).read_bytes(), str(mistral.file_path))
    raise VocabularyError(
        f"a {where} is no tokenizer that can be read ({_TOKENIZERS}); "
        "Vocabulary.from_file reads its files, from_tokens takes the bytes of each token"
    )


def _read_python_tokenizer(tokenizer: Any, where: str) -> TokenTable:
    """transformers' tokenizers in Python: GPT-2's byte-level BPE, or around a SentencePiece model.

    Ids are the tokenizer's, not the SentencePiece model's: some models shift them.
    """
    added = [(i, token.content, bool(token.special)) for i, token in tokenizer.added_tokens_decoder.items()]
    special = set(tokenizer.all_special_ids)
    vocab = tokenizer.get_vocab()
    if hasattr(tokenizer, "sp_model"):
        decoder = SENTENCEPIECE_DECODER
        model = read_sentencepiece(tokenizer.sp_model.serialized_model_proto(), where)
        special |= {vocab[piece] for piece, i in model.names.items() if i in model.special and piece in vocab}
        own_pieces = model.names.keys()
    else:
        decoder = PieceDecoder(byte_level=True)
        own_pieces = tokenizer.encoder.keys()
    foreign = {content for _, content, _ in added} - own_pieces
    table = token_table({piece: i for piece, i in vocab.items() if piece not in foreign}, decoder, added, None, where)
    table.special |= special
    return table


def _read_config(path: Path) -> dict[str, Any]:
    """A JSON object from a file beside the tokenizer; {} if there is no such file."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(content, dict):
        raise VocabularyError(f"{path}: expected a JSON object")
    return content
