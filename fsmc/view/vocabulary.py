"""Tokens for the page: their bytes, sorted, and the merges with which a byte-level BPE cuts text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.view.packing import packed_bytes, packed_ints

_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""How ByteLevel cuts text into words, where it does (GPT-2's pattern)."""


def tokens_document(vocabulary: Vocabulary) -> dict[str, Any]:
    """The tokens that have bytes, in the order of their bytes: ids, lengths, and bytes one after the other."""
    tokens = vocabulary.tokens
    ids = sorted((i for i, token in enumerate(tokens) if token), key=lambda i: tokens[i])
    return {
        "size": vocabulary.size,
        "ids": packed_ints(ids),
        "lengths": packed_ints([len(tokens[i]) for i in ids]),
        "bytes": packed_bytes(b"".join(tokens[i] for i in ids)),
        "eos": list(vocabulary.eos_token_ids),
    }


def merges_document(document: dict[str, Any] | None, vocabulary: Vocabulary) -> dict[str, Any] | None:
    """How a tokenizer.json cuts text, if it is a byte-level BPE without a normalizer that changes text; else None."""
    if document is None:
        return None
    model, normalizer = document.get("model") or {}, document.get("normalizer")
    steps = _steps(document.get("pre_tokenizer"))
    changes = normalizer and normalizer.get("type") != "NFC" and normalizer.get("normalizers") != []
    if model.get("type") != "BPE" or steps is None or changes:
        return None
    ids: dict[str, int] = model["vocab"]
    merges = [tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    try:
        triples = [(ids[a], ids[b], ids[a + b]) for a, b in merges]
    except KeyError:
        return None
    if max(ids.values(), default=0) >= vocabulary.size:
        return None
    return {
        "merges": packed_ints(np.asarray(triples, np.int32).reshape(-1).tolist()),
        "steps": steps,
        "whole_pieces": bool(model.get("ignore_merges")),
    }


def _steps(pre_tokenizer: Any) -> list[dict[str, Any]] | None:
    """Patterns, one applied to the pieces of the one before; None for what the page does not know."""
    if not isinstance(pre_tokenizer, dict):
        return None
    kind = pre_tokenizer.get("type")
    if kind == "Sequence":
        steps: list[dict[str, Any]] = []
        for part in pre_tokenizer["pretokenizers"]:
            inner = _steps(part)
            if inner is None:
                return None
            steps += inner
        return steps
    if kind == "ByteLevel":
        if pre_tokenizer.get("add_prefix_space"):
            return None
        return [{"pattern": _WORDS}] if pre_tokenizer.get("use_regex", True) else []
    if kind == "Digits":
        return [{"pattern": r"\p{N}" if pre_tokenizer.get("individual_digits") else r"\p{N}+"}]
    if kind == "Split" and pre_tokenizer.get("behavior") == "Isolated" and not pre_tokenizer.get("invert"):
        pattern = pre_tokenizer["pattern"]
        return [{"pattern": _in_javascript(pattern["Regex"]) if "Regex" in pattern else re.escape(pattern["String"])}]
    return None


def _in_javascript(pattern: str) -> str:
    """``(?i:…)`` spelled out, which not every browser knows.

    >>> _in_javascript("(?i:'s|'t)|x")
    "(?:'[sS]|'[tT])|x"
    """

    def spelled(match: re.Match[str]) -> str:
        return "(?:" + re.sub(r"[a-zA-Z]", lambda m: f"[{m[0].lower()}{m[0].upper()}]", match[1]) + ")"

    return re.sub(r"\(\?i:([^()\\\[]*)\)", spelled, pattern)
