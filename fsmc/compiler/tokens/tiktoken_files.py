"""tiktoken's rank files and Mistral's tekken.json: both list the tokens' bytes in base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.token_table import TokenTable, checked_id

_TEKKEN_NAMES = [
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]"),
    *("[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>"),
    *("[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]"),
    *("[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
]  # fmt: skip
"""By id, in tekken files that list no special tokens (before version 8): these are fixed by convention."""


def read_tiktoken(raw: bytes, where: str) -> TokenTable:
    """The tokens of a rank file: a line for each, its bytes in base64, a space, its id.

    Special tokens are not in such files; they are passed to `Vocabulary.from_file`. Raises VocabularyError, naming the
    line, for one that is no such pair, and for an id that occurs twice.
    """
    tokens: dict[int, bytes] = {}
    for number, line in enumerate(raw.splitlines(), 1):
        if not line:
            continue
        try:
            encoded, rank = line.split()
            token_id, token = int(rank), base64.b64decode(encoded, validate=True)
        except (ValueError, binascii.Error):
            raise VocabularyError(f"{where}, line {number}: expected 'base64 id', found {line[:60]!r}") from None
        if token_id in tokens:
            raise VocabularyError(f"{where}, line {number}: token id {token_id} occurs twice")
        tokens[checked_id(token_id, f"{where}, line {number}")] = token
    return TokenTable([tokens.get(i, b"") for i in range(max(tokens, default=-1) + 1)])


def read_tiktoken_encoding(encoding: Any, where: str) -> TokenTable:
    """The tokens of a ``tiktoken.Encoding`` in memory; its end of text is "<|endoftext|>" if it has one."""
    table = TokenTable([b""] * encoding.n_vocab)
    for token in encoding.token_byte_values():
        table.tokens[encoding.encode_single_token(token)] = token
    table.names = {name: encoding.encode_single_token(name) for name in encoding.special_tokens_set}
    table.special = set(table.names.values())
    for name, token_id in table.names.items():
        table.tokens[token_id] = name.encode()
    if encoding.n_vocab and "<|endoftext|>" in table.names:
        table.eos = {table.names["<|endoftext|>"]}
    return table


def is_tekken(document: Any) -> bool:
    """Whether a parsed JSON document has the shape of a tekken.json."""
    return isinstance(document, dict) and isinstance(document.get("vocab"), list) and "config" in document


def read_tekken(document: Any, where: str) -> TokenTable:
    """The tokens of a parsed tekken.json: first the special tokens, then those of the vocabulary by rank.

    The file holds more tokens than the model uses; ``default_vocab_size`` says how many ids there are, of which the
    first ``default_num_special_tokens`` are special, named or not.
    """
    if not is_tekken(document):
        raise VocabularyError(f"{where}: not a tekken.json (no config and vocab)")
    try:
        config = document["config"]
        n_special = checked_id(config["default_num_special_tokens"], where)
        size = checked_id(config["default_vocab_size"], where)
        table = TokenTable([b""] * size, set(range(n_special)))
        listed = document.get("special_tokens")
        names = {name: i for i, name in enumerate(_TEKKEN_NAMES) if i < n_special}
        if listed is not None:
            names = {t["token_str"]: checked_id(t["rank"], where) for t in listed}
        missing = set(range(n_special, size))
        for entry in document["vocab"]:
            token_id = checked_id(entry["rank"], where) + n_special
            if token_id < size:
                table.tokens[token_id] = base64.b64decode(entry["token_bytes"], validate=True)
                missing.discard(token_id)
    except (AttributeError, KeyError, TypeError, binascii.Error) as error:
        raise VocabularyError(f"{where}: damaged or of an unknown layout ({type(error).__name__}: {error})") from None
    if missing:
        raise VocabularyError(f"{where}: {len(missing)} of {size} ids have no token, the first is {min(missing)}")
    for name, token_id in names.items():
        if token_id < n_special:
            table.tokens[token_id] = name.encode()
    table.names = names
    table.eos = {token_id for name, token_id in names.items() if name == "</s>"}
    return table


def add_special_tokens(table: TokenTable, special_tokens: Mapping[str, int], where: str) -> None:
    """Enter special tokens, name → id, that a file format cannot list itself."""
    for name, token_id in special_tokens.items():
        if checked_id(token_id, f"{where}, special token {name!r}") >= len(table.tokens):
            table.set_token(token_id, b"")
        table.special.add(token_id)
        table.tokens[token_id] = name.encode()
    table.names = {**table.names, **special_tokens}
