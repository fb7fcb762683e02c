"""Masks of strings of bounded length, made from those of any string."""

import numpy as np
import pytest
from mask_oracles import real_vocabulary

import fsmc


@pytest.mark.parametrize("bounds", [(0, 9), (3, 12), (2, None), (0, 40), (5, 5), (0, 1)])
def test_strings_of_bounded_length_over_a_real_vocabulary(bounds):
    """Their masks are those of any string but for the tokens that are too long or end it too early."""
    vocab = real_vocabulary()
    low, high = bounds
    schema = {"type": "string", "minLength": low} | ({} if high is None else {"maxLength": high})
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    grammar = compiler.compile_json_schema({"items": schema, "prefixItems": [{"const": 1}]})
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    rng = np.random.default_rng(low)
    tokens = vocab.tokens
    closing = [t for t, text in enumerate(tokens) if b'"' in text or b"\\" in text]
    long = [t for t, text in enumerate(tokens) if len(text) > 7]
    for text in ('[1,"aé☃😀b"', '[1, "\\\\n\\u001fxy', '[1,"' + "z" * 30, '[1,"☃'):
        data = text.encode()[: -1 if text.endswith("☃") else None]
        matcher = fsmc.GrammarMatcher(grammar)
        for byte in data:
            if not matcher.accept_bytes(bytes([byte])):
                break
            if byte == ord("["):
                continue
            matcher.fill_next_token_bitmask(mask)
            allowed = np.unpackbits(mask.view(np.uint8)[0], bitorder="little")
            some = (
                rng.choice(vocab.size, 150).tolist() + rng.choice(closing, 100).tolist() + rng.choice(long, 50).tolist()
            )
            for token in some:
                assert allowed[token] == matcher.fork().accept_token(token), (text, byte, tokens[token])
