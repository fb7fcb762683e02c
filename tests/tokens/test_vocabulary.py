"""Vocabulary: tokens as flat arrays, special tokens without bytes, ids checked, one fingerprint for one content."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.token_table import MAX_VOCABULARY_SIZE
from fsmc.compiler.tokens.vocabulary import Vocabulary


@given(st.lists(st.binary(max_size=6), max_size=30), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_tokens_come_back_as_given(tokens, padding):
    vocabulary = Vocabulary.from_tokens(tokens, vocab_size=len(tokens) + padding)
    assert vocabulary.size == len(tokens) + padding
    assert list(vocabulary.tokens) == tokens + [b""] * padding
    assert [vocabulary.token(i) for i in range(vocabulary.size)] == list(vocabulary.tokens)


def test_special_and_eos_tokens_lose_their_bytes():
    vocabulary = Vocabulary.from_tokens(
        [b"<|im|>", b"a", b"</s>", b"<pad>"], eos_token_ids=[2], special_token_ids=[3, 0]
    )
    assert vocabulary.tokens == (b"", b"a", b"", b"")
    assert vocabulary.eos_token_ids == (2,)
    assert vocabulary.special_token_ids == (0, 2, 3)  # EOS is special whether or not it was listed


def test_several_eos_ids_are_sorted_and_counted_once():
    vocabulary = Vocabulary.from_tokens([b"a"] * 5, eos_token_ids=(np.int64(4), 1, 4))
    assert vocabulary.eos_token_ids == (1, 4)
    assert all(type(i) is int for i in vocabulary.eos_token_ids)


def test_duplicate_bytes_and_missing_bytes_are_kept_apart():
    vocabulary = Vocabulary.from_tokens(["é", b"\xc3\xa9", None, "é"])
    assert vocabulary.tokens == (b"\xc3\xa9", b"\xc3\xa9", b"", b"\xc3\xa9")


def test_eos_may_lie_in_the_padding():
    assert Vocabulary.from_tokens([b"a"], eos_token_ids=[5], vocab_size=8).eos_token_ids == (5,)


@pytest.mark.parametrize("ids", [[3], [-1], [1 << 40]])
@pytest.mark.parametrize("kind", ["eos_token_ids", "special_token_ids"])
def test_ids_outside_the_vocabulary_are_named(kind, ids):
    with pytest.raises(VocabularyError, match=f"{ids[0]} is outside the vocabulary of 3 ids"):
        Vocabulary.from_tokens([b"a", b"b", b"c"], **{kind: ids})


@pytest.mark.parametrize("vocab_size", [-1, 1, MAX_VOCABULARY_SIZE + 1])
def test_impossible_sizes_are_refused(vocab_size):
    with pytest.raises(VocabularyError, match="vocab_size"):
        Vocabulary.from_tokens([b"a", b"b"], vocab_size=vocab_size)


@pytest.mark.parametrize("token_id", [-1, 2])
def test_token_of_a_foreign_id(token_id):
    with pytest.raises(VocabularyError, match="outside the vocabulary of 2 ids"):
        Vocabulary.from_tokens([b"a", b"b"]).token(token_id)


def test_arrays_are_read_only_and_the_callers_stay_writable():
    offsets = np.array([0, 1], dtype=np.int64)
    vocabulary = Vocabulary(np.frombuffer(b"a", np.uint8), offsets, (), ())
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.token_offsets[1] = 0
    with pytest.raises(AttributeError):
        vocabulary.token_offsets = offsets
    assert offsets.flags.writeable


@pytest.mark.parametrize(
    ("data", "offsets", "special", "message"),
    [
        (np.zeros(2, np.int8), np.array([0, 2]), (), "uint8"),
        (np.zeros(2, np.uint8), np.array([0, 2], np.int32), (), "int64"),
        (np.zeros(2, np.uint8), np.array([0, 1]), (), "rise"),
        (np.zeros(2, np.uint8), np.array([1, 2]), (), "rise"),
        (np.zeros(2, np.uint8), np.array([0, 2, 1, 2]), (), "rise"),
        (np.zeros(0, np.uint8), np.zeros(0, np.int64), (), "between 0 and"),
        (np.zeros(2, np.uint8), np.array([0, 2]), (0,), "never text"),
    ],
)
def test_arrays_that_are_no_vocabulary(data, offsets, special, message):
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(data, offsets, (), special)


def test_fingerprint_is_of_the_content_and_nothing_else():
    base = Vocabulary.from_tokens([b"ab", b"c", b"", b""], eos_token_ids=[3])
    same = Vocabulary(base.token_bytes.copy(), base.token_offsets.copy(), (3,), (3,))
    assert same.fingerprint == base.fingerprint
    different = [
        Vocabulary.from_tokens([b"a", b"bc", b"", b""], eos_token_ids=[3]),  # other bounds
        Vocabulary.from_tokens([b"ab", b"d", b"", b""], eos_token_ids=[3]),  # other bytes
        Vocabulary.from_tokens([b"ab", b"c", b"", b""], eos_token_ids=[2]),  # another EOS
        Vocabulary.from_tokens([b"ab", b"c", b"", b""], eos_token_ids=[2, 3]),
        Vocabulary.from_tokens([b"ab", b"c", b"", b""], eos_token_ids=[3], special_token_ids=[2]),
        Vocabulary.from_tokens([b"ab", b"c", b"", b""], eos_token_ids=[3], vocab_size=5),
    ]
    assert len({base.fingerprint, *(v.fingerprint for v in different)}) == 1 + len(different)


def test_empty_vocabulary():
    assert Vocabulary.from_tokens([]).tokens == ()
