"""Small vocabularies and patterns, and everything about them by trying all token sequences."""

from __future__ import annotations

from itertools import product

import numpy as np

import fsmc
from fsmc.compiler.automata.dfa import DFA
from fsmc.research import HiddenMarkovModel, TokenMachine

TOKENS = [b"a", b"b", b"ab", b"ba", b"bb", b"", "é".encode(), b"\xc3", b"\xa9"]
EOS, PAD = 5, 6
VOCAB = fsmc.Vocabulary.from_tokens([*TOKENS[:6], b"", *TOKENS[6:]], eos_token_ids=[EOS], special_token_ids=[PAD])
NO_EOS = fsmc.Vocabulary.from_tokens([b"a", b"b", b"ab"])
PATTERNS = ["(ab|ba)*", "a*b?", "[abé]{1,4}", "(a|b)*a(a|b)", "é?(ab)+", "(?:aab|b)+", "", "(?=.*b)a*b*"]


def dfa_of(pattern: str, vocab: fsmc.Vocabulary = VOCAB) -> DFA:
    dfa = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex(pattern).dfa
    assert dfa is not None
    return dfa


def machine_of(pattern: str, vocab: fsmc.Vocabulary = VOCAB) -> TokenMachine:
    return TokenMachine.of(dfa_of(pattern, vocab), vocab, pad_token_ids=[PAD] if vocab is VOCAB else [])


def sequences(vocab: fsmc.Vocabulary, length: int) -> list[tuple[int, ...]]:
    return list(product(range(vocab.size), repeat=length))


def fits(dfa: DFA, vocab: fsmc.Vocabulary, tokens: tuple[int, ...], final: str, horizon: int = 4) -> bool:
    """What a machine over tokens should say, from bytes: text, then EOS and padding. *live* by trying all ways to go on."""
    n_text = next((i for i, token in enumerate(tokens) if not vocab.token(token)), len(tokens))
    text, tail = b"".join(vocab.token(token) for token in tokens[:n_text]), tokens[n_text:]
    if tail:
        return tail[0] == EOS and set(tail) <= {EOS, PAD} and dfa.matches(text)
    if final == "ended":
        return False
    if dfa.matches(text):
        return True
    pieces = [piece for piece in set(vocab.tokens) if piece]
    return final == "live" and any(
        dfa.matches(text + b"".join(more)) for n in range(1, horizon) for more in product(pieces, repeat=n)
    )


def random_model(rng: np.random.Generator, n_hidden: int, vocab_size: int) -> HiddenMarkovModel:
    """With exact zeros here and there, as real ones have."""

    def distributions(*shape: int) -> np.ndarray:
        weights = rng.random(shape) * (rng.random(shape) < 0.8)
        weights[..., 0] += 0.05
        return weights / weights.sum(-1, keepdims=True)

    return HiddenMarkovModel(
        distributions(n_hidden), distributions(n_hidden, n_hidden), distributions(n_hidden, vocab_size)
    )
