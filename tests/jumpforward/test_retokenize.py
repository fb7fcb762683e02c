"""Retokenization on a hand-made tokenizer whose every answer can be checked by eye, and on ones that misbehave."""

from __future__ import annotations

import unicodedata
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.retokenize import LOOK_BACK, Retokenizer, retokenize, text_encoder

WORDS = ["na", "me", "name", '"', '":', ": ", '"name', "é", "白", "<|end|>", "<tool>", " x", " ", "  ", "e\u0301"]
VOCAB = Vocabulary.from_tokens(
    [bytes([b]) for b in range(256)] + WORDS, special_token_ids=[256 + WORDS.index("<|end|>")]
)
ID = {word: 256 + i for i, word in enumerate(WORDS)}
CONTROL = [ID["<tool>"]]
ALPHABET = sorted({*"".join(WORDS), "\U0001f389", "\u0301"})


def encode(text: str) -> list[int]:
    """Greedy, longest word first, control tokens' names read as control tokens, other characters as their bytes."""
    ids: list[int] = []
    while text:
        word = max((word for word in WORDS if text.startswith(word)), key=len, default="")
        ids += [ID[word]] if word else list(text[0].encode())
        text = text[len(word) or 1 :]
    return ids


def encode_nfc(text: str) -> list[int]:
    return encode(unicodedata.normalize("NFC", text))


def encode_with_space(text: str) -> list[int]:
    return encode(" " + text) if text else []


def encode_lossy(text: str) -> list[int]:
    return [n for n in encode(text) if n != ID["name"]]


def encode_to_foreign_ids(text: str) -> list[int]:
    """A tokenizer with more tokens than the vocabulary has."""
    return [n + 1000 if n == ID["name"] else n for n in encode(text)]


ENCODERS = [encode, encode_nfc, encode_with_space, encode_lossy, encode_to_foreign_ids]


def spelled(ids: list[int]) -> bytes:
    return b"".join(VOCAB.token(i) for i in ids)


def test_the_token_just_sampled_merges_with_the_forced_text() -> None:
    result = retokenize(encode, VOCAB, [ID["白"], ID['"'], ID["na"]], 'me": ')
    assert result.ids == [ID["白"], ID['"name'], ID['":'], ID[" "]]
    assert result.kept == 1


def test_nothing_changes_where_the_parts_are_the_whole() -> None:
    result = retokenize(encode, VOCAB, [ID["name"], ID["é"]], "白")
    assert (result.ids, result.kept) == ([ID["name"], ID["é"], ID["白"]], 2)


def test_a_token_that_ends_inside_a_character() -> None:
    first, second, third = "白".encode()
    result = retokenize(encode, VOCAB, [ID["name"], first, second], bytes([third]) + b"na")
    assert (result.ids, result.kept) == ([ID["name"], ID["白"], ID["na"]], 1)


def test_the_window_reaches_back_to_a_whole_character() -> None:
    """The last LOOK_BACK tokens are the inside of two characters; their first bytes are one token further back."""
    pieces = list("\U0001f389\U0001f389".encode())
    result = retokenize(encode, VOCAB, [ID["name"], *pieces], "é")
    assert (result.ids, result.kept) == ([ID["name"], *pieces, ID["é"]], 1 + len(pieces))


def test_history_before_the_window_is_not_touched() -> None:
    """Letters that the model chose one by one stay so, except in the window."""
    ids = list(b"nananana")
    result = retokenize(encode, VOCAB, ids, "na")
    assert result.kept == len(ids) - LOOK_BACK
    assert result.ids == ids[: result.kept] + [ID["na"]] * 3


def test_the_name_of_a_control_token_stays_text() -> None:
    result = Retokenizer(encode, VOCAB, CONTROL)([ID["name"]], "<|end|>name<tool>")
    assert result.kept == 1
    assert spelled(result.ids) == b"name<|end|>name<tool>"
    assert not {ID["<|end|>"], ID["<tool>"]} & set(result.ids)
    assert ID["name"] in result.ids[1:], "what surrounds the control token's name is still in whole words"


def test_a_control_token_in_the_history_is_kept() -> None:
    ids = [ID["name"], ID["<|end|>"], ID["na"]]
    result = retokenize(encode, VOCAB, ids, "me")
    assert (result.ids, result.kept) == ([ID["name"], ID["<|end|>"], ID["name"]], 2)


def test_half_a_character_behind_a_control_token() -> None:
    """No window can begin at a character here: the bytes are spelled as they are."""
    rest = "白".encode()[1:]
    result = retokenize(encode, VOCAB, [ID["<|end|>"], rest[0]], rest[1:])
    assert (result.ids, result.kept) == ([ID["<|end|>"], *rest], 2)


def test_a_normalizer_does_not_change_the_text() -> None:
    result = retokenize(encode_nfc, VOCAB, [ID["na"]], "e\u0301name")
    assert spelled(result.ids) == "nae\u0301name".encode()
    assert result.ids[-1] == ID["name"]


def test_a_space_that_the_tokenizer_writes_first_is_left_out() -> None:
    result = retokenize(encode_with_space, VOCAB, [ID["na"]], "me x")
    assert (result.ids, result.kept) == ([ID["name"], ID[" x"]], 0)


def test_a_text_that_no_token_spells_is_an_error() -> None:
    vocab = Vocabulary.from_tokens(["a", "b"])
    with pytest.raises(VocabularyError, match="0xc3"):
        retokenize(lambda text: [0 for _ in text], vocab, [0], "é")


def test_a_long_text_with_many_bad_spots_takes_few_encodings_of_all_of_it() -> None:
    """Each control token's name costs some short encodings; encoding all that follows each time would be quadratic."""
    encoded = 0

    def counting(text: str) -> list[int]:
        nonlocal encoded
        encoded += len(text)
        return encode(text)

    text = "<|end|>" * 500
    result = retokenize(counting, VOCAB, [], text)
    assert spelled(result.ids) == text.encode()
    assert encoded < 40 * len(text)


def test_text_encoder_of_an_object_that_returns_lists() -> None:
    class Tokenizer:
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            assert not add_special_tokens
            return encode(text)

    assert text_encoder(Tokenizer())("name") == [ID["name"]]


def test_text_encoder_of_tiktoken_reads_names_of_special_tokens_as_text() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "tiny",
        pat_str=r"\w+|.",
        mergeable_ranks={bytes([b]): b for b in range(256)},
        special_tokens={"<|end|>": 256},
    )
    assert text_encoder(encoding)("<|end|>") == list(b"<|end|>")


def test_added_tokens_are_control_except_white_space() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate("<tol>Ġ")}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_tokens(["<tool>", "  "])
    vocab = Vocabulary.from_huggingface(tokenizer)
    tool, indent = tokenizer.token_to_id("<tool>"), tokenizer.token_to_id("  ")
    ids = Retokenizer.for_tokenizer(tokenizer, vocab)([], "<tool>  ").ids
    assert tool not in ids
    assert ids[-1] == indent
    assert b"".join(vocab.token(i) for i in ids) == b"<tool>  "


TEXT_TOKENS = [[i] for word, i in ID.items() if word not in ("<|end|>", "<tool>")] + [
    list(c.encode()) for c in ALPHABET
]


@settings(max_examples=300, deadline=None)
@given(
    encoder=st.sampled_from(ENCODERS),
    history=st.lists(st.sampled_from(TEXT_TOKENS), max_size=12).map(lambda parts: list(chain(*parts))),
    text=st.text(alphabet=ALPHABET, min_size=1, max_size=12),
    n_bytes_sampled=st.integers(0, 3),
)
def test_bytes_prefix_and_control_tokens_whatever_the_tokenizer_does(encoder, history, text, n_bytes_sampled) -> None:
    """From any tokens, canonical or not, of which the last few may be the first bytes of the next character."""
    split = min(n_bytes_sampled, len(text[0].encode()) - 1)
    old, forced = history + list(text.encode()[:split]), text.encode()[split:]
    new, kept = (result := Retokenizer(encoder, VOCAB, CONTROL)(old, forced)).ids, result.kept
    assert spelled(new) == spelled(old) + forced
    assert new[:kept] == old[:kept]
    assert kept == len(old) or new[kept : kept + 1] != old[kept : kept + 1]
    assert kept >= len(old) - LOOK_BACK - 3
    assert not {ID["<|end|>"], *CONTROL} & set(new)
