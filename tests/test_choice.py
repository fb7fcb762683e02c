"""Lists of literal texts: exactly those, however many, whatever is in them."""

from __future__ import annotations

import enum
import random

import numpy as np
import pytest

import fsmc
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.words import words_dfa
from tests.tokens.mask_oracles import row_tokens

LETTERS = [bytes([byte]) for byte in range(256)]
VOCAB = fsmc.Vocabulary.from_tokens([*LETTERS, b"go", b" on", b"(no", b"", b"ne)"], eos_token_ids=[259])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)


def accepts(grammar: fsmc.CompiledGrammar, text: str) -> bool:
    matcher = fsmc.GrammarMatcher(grammar)
    return matcher.accept_bytes(text.encode()) and matcher.is_completed()


def allowed(matcher: fsmc.GrammarMatcher) -> list[int]:
    mask = fsmc.allocate_token_bitmask(1, VOCAB.size)
    matcher.fill_next_token_bitmask(mask)
    return row_tokens(np.asarray(mask[0]))


@pytest.mark.parametrize(
    ("choices", "others"),
    [
        (["v1.0", "(none)", "[x]", "a|b", "50% + tax?", "c:\\d"], ["v1x0", "none", "x", "a", "c:5", ""]),
        (["go", "go on", "gone"], ["g", "go o", "goon", "gonee"]),
        (["白天", "白头", "naïve", "🙂"], ["白", "天", "naive", "nai"]),
        (["", "a"], ["aa", "b"]),
        ([""], ["a"]),
        (["same", "same"], ["samesame"]),
        (["\x00\n", '"', "^$"], ["\n", "^"]),
    ],
)
def test_exactly_the_texts(choices: list[str], others: list[str]) -> None:
    grammar = COMPILER.compile_choice(choices)
    for text in choices:
        assert accepts(grammar, text)
    for text in others:
        assert not accepts(grammar, text)


def test_the_beginning_of_another_may_end_there() -> None:
    matcher = fsmc.GrammarMatcher(COMPILER.compile_choice(["go", "go on", "gone"]))
    assert allowed(matcher) == [ord("g"), 256]
    assert matcher.accept_token(256)
    assert allowed(matcher) == [ord(" "), ord("n"), 257, 259]
    assert matcher.find_jump_forward_string() == ""
    assert matcher.accept_token(ord("n")) and matcher.find_jump_forward_string() == "e"


@pytest.mark.parametrize("seed", range(20))
def test_minimal_and_exact(seed: int) -> None:
    rng = random.Random(seed)
    words = ["".join(rng.choice("abé") for _ in range(rng.randrange(7))) for _ in range(rng.randrange(1, 40))]
    dfa = words_dfa([word.encode() for word in words])
    assert dfa.n_states == minimize(dfa).n_states
    for text in [*words, *("".join(rng.choice("abé") for _ in range(rng.randrange(7))) for _ in range(50))]:
        assert dfa.matches(text.encode()) == (text in words)


def test_all_256_bytes() -> None:
    dfa = words_dfa([bytes([byte]) * 2 for byte in range(256)])
    assert dfa.matches(b"\x00\x00") and dfa.matches(b"\xff\xff") and not dfa.matches(b"\x00\xff")


def test_a_hundred_thousand_texts() -> None:
    words = [f"{i * 7919 % 1_000_003:06d}-{i}" for i in range(100_000)]
    grammar = COMPILER.compile_choice(words)
    assert all(accepts(grammar, word) for word in words[::997])
    assert not accepts(grammar, words[5][:-1] + "x")
    assert grammar.dfa is not None and grammar.stats.states == grammar.machine.n_states


def test_members_of_an_enum_stand_for_their_values() -> None:
    class Colour(enum.Enum):
        RED = "red"
        BLUE = "blue"

    assert accepts(COMPILER.compile_choice(Colour), "blue")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ([], "choice: the list is empty"),
        ("yes", "choice: must be a list of texts, not a str"),
        (None, "choice: must be a list of texts, not None"),
        ({"a": 1}, "choice: must be a list of texts, not a dict"),
        (["a", 1], r"choice\[1\]: a choice is a text, not the number 1"),
        (["a", None], r"choice\[1\]: a choice is a text, not None"),
        (["a", b"b"], r"choice\[1\]: a choice is a text, not a bytes"),
        (["a", "b\ud800"], r"choice\[1\]: half a surrogate pair .* at character 1"),
    ],
)
def test_what_is_no_list_of_texts(choices: object, message: str) -> None:
    with pytest.raises(fsmc.ConstraintError, match=message):
        COMPILER.compile_choice(choices)  # type: ignore[arg-type]


def test_limits_hold() -> None:
    small = fsmc.GrammarCompiler(VOCAB, cache_dir=None, max_states=10)
    with pytest.raises(fsmc.LimitExceeded, match="max_states=10"):
        small.compile_choice(["abcdefghijkl"])
    with pytest.raises(fsmc.LimitExceeded, match="max_bytes"):
        fsmc.GrammarCompiler(VOCAB, cache_dir=None, max_bytes=100).compile_choice(["abcdefghijkl"])


def test_index_file(tmp_path) -> None:
    grammar = COMPILER.compile_choice(["é", "b"])
    grammar.build_index()
    grammar.save(tmp_path / "x.fsmc")
    again = fsmc.CompiledGrammar.load(tmp_path / "x.fsmc", VOCAB)
    assert again.source == '["é", "b"]' and again.kind == "choice" and accepts(again, "é")
