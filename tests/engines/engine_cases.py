"""What the tests of all engines share: a tokenizer, requests of every kind with a check of their texts, and a walk through masks."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fsmc.runtime.bitmask import allocate_token_bitmask

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "kind": {"enum": ["fox", "owl"]},
    },
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}
PATTERN = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])"
EBNF = 'root ::= "(" root ")" | [a-c]{1,3}'
TAG = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</f>"},
}


class Case(NamedTuple):
    """A kind of request, what it is made from, and what every text of it is."""

    kind: str
    source: Any
    is_valid: Callable[[str], bool]


def is_person(text: str) -> bool:
    value = json.loads(text)
    return list(value) == ["name", "age", "kind"] and 0 <= value["age"] <= 130 and value["kind"] in ("fox", "owl")


def is_in_parentheses(text: str) -> bool:
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return re.fullmatch("[a-c]{1,3}", text) is not None


CASES = [
    Case("json", SCHEMA, is_person),
    Case("json_object", None, lambda text: isinstance(json.loads(text), dict)),
    Case("regex", PATTERN, lambda text: re.fullmatch(PATTERN, text) is not None),
    Case("choice", ["yes", "no", "not now"], ["yes", "no", "not now"].__contains__),
    Case("grammar", EBNF, is_in_parentheses),
    Case(
        "structural_tag",
        TAG,
        lambda text: text.startswith("<f>") and text.endswith("</f>") and is_person(text[3:-4]),
    ),
]


def toy_tokenizer() -> Any:
    """Transformers' tokenizer of 400 byte-level tokens with one end token."""
    from fsmc.runtime.toy_model import toy_model  # which needs torch, and llama.cpp does not

    return toy_model(n_layers=1, hidden_size=16).tokenizer


def allowed_ids(row: Any) -> list[int]:
    """The ids whose bits are set in a row of int32 words."""
    words = np.ascontiguousarray(np.asarray(row, np.int32)).view(np.uint8)
    return np.flatnonzero(np.unpackbits(words, bitorder="little")).tolist()


def choose(ids: list[int], rng: random.Random, matcher: Any, closing: bool) -> int:
    """One of these ids; ``closing``: one from which the text can end soonest."""
    if closing:
        row = allocate_token_bitmask(1, matcher.vocab_size)
        matcher.fill_next_token_bitmask(row, max_tokens=matcher.num_tokens_to_complete())
        ids = sorted(set(ids) & set(allowed_ids(row[0])))
    return rng.choice(ids)
