"""The whole index against brute force: rows drawn by hand, random machines, every state of twenty over a real vocabulary."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mask_oracles import HAND_DRAWN, allowed_by_dfa, compile_dfa, real_vocabulary, vocabularies
from random_machines import plain_machines

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.errors import IndexFileError, LimitExceeded
from fsmc.compiler.tokens import difference, token_index
from fsmc.compiler.tokens.mask_rows import ALLOWED, BITS, FORBIDDEN
from fsmc.compiler.tokens.masks import LazyMasks, TokenIndex, build_index
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary

MACHINES = [
    r'"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"',
    r"[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+\.[a-zA-Z0-9.-]+",
    r"(\+\d{1,3} )?\(\d{3}\) \d{3}-\d{4}",
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)",
    r"https?://[\w.-]+(:[0-9]+)?(/[^\s?#]*)?(\?\S*)?",
    r"[0-9]{3}-[0-9]{2}-[0-9]{4}",
    r".{0,12}",
    r"\w{1,2}",
    r"[^\W\d]+( [^\W\d]+)*",
    r"(?s:.*)end",
    r"yes|no|maybe|[1-9][0-9]?",
    r'\{"name": "[\w\s]{1,2}", "age": [0-9]{1,2}\}',
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    r"( {4})*(def|class) [a-z_]+:\n",
    r"[\u4e00-\u9fff]{2,4}",
    r"[а-яё ]*[.!?]",
    r"(a|b)*a(a|b){4}",
    r"(?i:select|insert) [a-z*]+;",
    r"[😀-🙏]{1,3}",
]


def check_every_state(dfa: DFA, vocab: Vocabulary, trie: TokenTrie) -> None:
    index, lazy = build_index(dfa, trie), LazyMasks(RSM.from_dfa(dfa), trie)
    for state in range(dfa.n_states):
        expected = allowed_by_dfa(dfa, vocab, state)
        assert index.allowed_token_ids(state).tolist() == expected, state
        assert lazy.allowed_token_ids(state).tolist() == expected, state


@pytest.fixture(scope="module")
def real():
    vocab = real_vocabulary()
    return vocab, TokenTrie.build(vocab)


@pytest.mark.parametrize("pattern", MACHINES)
def test_every_state_over_a_real_vocabulary(pattern, real):
    check_every_state(compile_dfa(pattern), *real)


@pytest.mark.parametrize("pattern", MACHINES)
def test_every_state_over_a_vocabulary_drawn_by_hand(pattern):
    vocab = Vocabulary.from_tokens(HAND_DRAWN)
    check_every_state(compile_dfa(pattern), vocab, TokenTrie.build(vocab))


@settings(max_examples=120, deadline=None)
@given(vocabularies("aé☃".encode(), max_length=9), plain_machines(max_states=6), st.booleans())
def test_random_machines_over_random_vocabularies(vocab, machine, over_bytes):
    dfa = machine.to_byte_dfa() if over_bytes else machine.to_dfa()
    check_every_state(dfa, vocab, TokenTrie.build(vocab))


def test_rows_drawn_by_hand():
    tokens = [b"a", b"ab", b"b", b"", b"ba", b"c", b"ab"]
    dfa = compile_dfa("(ab)*")
    index = build_index(dfa, TokenTrie.build(Vocabulary.from_tokens(tokens)))
    after_a = dfa.run(b"a")
    assert index.allowed_token_ids(dfa.start).tolist() == [0, 1, 6]
    assert index.allowed_token_ids(after_a).tolist() == [2, 4]
    assert index.allowed_token_ids(0).tolist() == []
    assert index.n_rows == 3
    out = np.full(2, -1, np.int32)
    index.copy_row(after_a, 0, out)
    assert out.tolist() == [0b10100, 0]


def test_equal_rows_are_stored_once():
    vocab = Vocabulary.from_tokens([b"%d" % n for n in range(100)])
    index = build_index(compile_dfa("[0-9]{50}"), TokenTrie.build(vocab))
    assert (index.n_states, index.n_rows) == (52, 3)  # two or more digits left, one, none


def test_every_kind_of_row_is_used():
    tokens = [bytes([a, b]) for a in range(ord("a"), ord("z") + 1) for b in range(ord("a"), ord("z") + 1)]
    vocab = Vocabulary.from_tokens(tokens)
    dfa = compile_dfa("[a-z]*|A([a-m][a-z])*|B[^x]*")
    index = build_index(dfa, TokenTrie.build(vocab))
    assert set(index.row_kind) == {ALLOWED, FORBIDDEN, BITS}
    check_every_state(dfa, vocab, TokenTrie.build(vocab))


def test_a_language_of_nothing_and_a_vocabulary_of_nothing():
    nothing = DFA(np.zeros(256, np.uint8), np.zeros((1, 1), np.int32), np.zeros(1, np.bool_), 0)
    index = build_index(nothing, TokenTrie.build(Vocabulary.from_tokens([b"a"])))
    assert index.allowed_token_ids(0).tolist() == []
    index = build_index(compile_dfa("a"), TokenTrie.build(Vocabulary.from_tokens([b"", b""])))
    assert index.allowed_token_ids(1).tolist() == []


def test_progress_is_reported_to_the_end(monkeypatch):
    monkeypatch.setattr(token_index, "_STATES_PER_CALL", 10)
    reports = []
    trie = TokenTrie.build(Vocabulary.from_tokens([b"a" * n for n in range(1, 50)]))
    index = build_index(compile_dfa("a{40}"), trie, progress=lambda done, total: reports.append((done, total)))
    assert len(reports) == 5 and reports == sorted(set(reports)) and reports[-1] == (42, 42)
    assert index.allowed_token_ids(1).tolist() == list(range(40))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_memory_is_bounded(n_threads, monkeypatch):
    monkeypatch.setattr(token_index, "MIN_BLOCKS_PER_THREAD", 5)
    words = [f"{a}{b}" for a in range(200) for b in "abc"]
    trie = TokenTrie.build(Vocabulary.from_tokens([word.encode() for word in words]))
    rng = np.random.default_rng(0)
    many_rows = compile_dfa("|".join(f"x{n}({'|'.join(rng.permutation(words)[:250])})" for n in range(40)))
    assert build_index(many_rows, trie).n_rows > 40
    with pytest.raises(LimitExceeded, match="max_bytes"):
        build_index(many_rows, trie, max_bytes=100, max_threads=n_threads)
    blocks = 4 * len(trie.rounds) * many_rows.n_states
    with pytest.raises(LimitExceeded, match="max_bytes"):
        build_index(many_rows, trie, max_bytes=blocks + 100, max_threads=n_threads)


def test_an_index_comes_back_from_its_arrays():
    index = damageable()
    again = TokenIndex.from_arrays(index.arrays(), n_states=index.n_states, vocab_size=550)
    for state in range(index.n_states):
        assert again.allowed_token_ids(state).tolist() == index.allowed_token_ids(state).tolist()
    assert again.nbytes == index.nbytes > 0


@functools.cache
def damageable() -> TokenIndex:
    """An index with all three kinds of row, over 520 tokens of two letters, padded to 550."""
    tokens = [bytes([a, b]) for a in range(ord("a"), ord("z") + 1) for b in range(ord("a"), ord("t") + 1)]
    trie = TokenTrie.build(Vocabulary.from_tokens(tokens, vocab_size=550))
    index = build_index(compile_dfa("[a-z]*|A([a-m][a-z])*|Baa"), trie)
    assert set(index.row_kind) == {ALLOWED, BITS, FORBIDDEN}
    return index


def changed(array: np.ndarray, place: int, value: int) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


DAMAGES = {
    "no array 'packed'": lambda a: a.pop("packed"),
    "array 'row_of_state' is float64": lambda a: a.update(row_of_state=a["row_of_state"].astype(np.float64)),
    "array 'all_tokens' is int32 of 2 dimensions": lambda a: a.update(all_tokens=a["all_tokens"][None]),
    "states, the machine": lambda a: a.update(row_of_state=a["row_of_state"][:-1]),
    "a mask row has 17 words": lambda a: a.update(all_tokens=a["all_tokens"][:-1]),
    "past the vocabulary's size": lambda a: a.update(all_tokens=changed(a["all_tokens"], 17, 1 << 6)),
    "a row that is not there": lambda a: a.update(row_of_state=changed(a["row_of_state"], 1, len(a["row_kind"]))),
    "names a row": lambda a: a.update(row_of_state=changed(a["row_of_state"], 1, -1)),
    "does not span": lambda a: a.update(row_start=changed(a["row_start"], 0, 1)),
    "span the packed rows": lambda a: a.update(packed=a["packed"][:-1]),
    "span the": lambda a: a.update(row_start=a["row_start"][:-1]),
    "not ascending": lambda a: a.update(row_start=changed(a["row_start"], 2, -5)),
    "unknown kind": lambda a: a.update(row_kind=changed(a["row_kind"], 0, 3)),
    "wrong length": lambda a: a.update(row_kind=np.full_like(a["row_kind"], BITS)),
    "a token id is past": lambda a: a.update(packed=changed(a["packed"], id_place(a), 550)),
    "token id is past": lambda a: a.update(packed=changed(a["packed"], id_place(a), -1)),
    "a token without bytes": lambda a: a.update(packed=changed(a["packed"], id_place(a), 530)),
    "token without bytes": lambda a: a.update(packed=changed(a["packed"], word_place(a) + 17, 1)),
}


def id_place(arrays: dict) -> int:
    sizes = np.diff(arrays["row_start"])
    return int(arrays["row_start"][np.flatnonzero((arrays["row_kind"] != BITS) & (sizes > 0))[0]])


def word_place(arrays: dict) -> int:
    return int(arrays["row_start"][np.flatnonzero(arrays["row_kind"] == BITS)[0]])


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_arrays_are_refused(message):
    index = damageable()
    arrays = index.arrays()
    DAMAGES[message](arrays)
    with pytest.raises(IndexFileError, match=message):
        TokenIndex.from_arrays(arrays, n_states=index.n_states, vocab_size=550)


def test_rows_are_compared_in_full():
    row = np.array([0b1011, 0, 1], np.int32)
    n_tokens = 70
    stored = np.array([9, 0, 1, 3, 64, *sorted(set(range(70)) - {0, 1, 3, 64}), *row], np.int32)
    for kind, start, stop in [(ALLOWED, 1, 5), (FORBIDDEN, 5, 71), (BITS, 71, 74)]:
        assert difference._is_stored(row, 4, n_tokens, kind, stored, start, stop)
        for bit in range(n_tokens):
            other = row.copy()
            other[bit >> 5] ^= np.int32(1) << np.int32(bit & 31)
            n_allowed = int(np.unpackbits(other.view(np.uint8)).sum())
            assert not difference._is_stored(other, n_allowed, n_tokens, kind, stored, start, stop)
        same_count = np.array([0b1101, 0, 1], np.int32)
        assert not difference._is_stored(same_count, 4, n_tokens, kind, stored, start, stop)


def test_kernels_do_what_their_python_does(monkeypatch):
    vocab = Vocabulary.from_tokens(HAND_DRAWN * 2)
    trie, dfa = TokenTrie.build(vocab), compile_dfa(r'"?[ab☃]{0,4}(",)?.*')
    index = build_index(dfa, trie)
    for name in ("_difference_walk", "_flip", "_scramble", "_count_bits", "_is_stored", "store_ranks"):
        monkeypatch.setattr(difference, name, getattr(difference, name).py_func)
    for name in ("index_rows", "order_along_splits", "ranks_to_ids"):
        monkeypatch.setattr(token_index, name, getattr(difference, name).py_func)
    with np.errstate(over="ignore"):
        plain = build_index(dfa, trie)
    for name, array in index.arrays().items():
        assert np.array_equal(array, plain.arrays()[name]), name


@pytest.mark.parametrize("pattern", [r"(a|b)*a(a|b){7}", "[ab]{0,300}", "(ab|c){2,40}é?"])
def test_threads_make_the_same_rows(pattern, monkeypatch):
    monkeypatch.setattr(token_index, "MIN_BLOCKS_PER_THREAD", 5)
    trie = TokenTrie.build(Vocabulary.from_tokens(HAND_DRAWN))
    dfa = compile_dfa(pattern)
    alone = build_index(dfa, trie, max_threads=1)
    reports = []
    for n in (2, 3, 7):
        together = build_index(dfa, trie, max_threads=n, progress=lambda *done: reports.append(done))
        assert together.n_rows == alone.n_rows
        for state in range(dfa.n_states):
            assert together.allowed_token_ids(state).tolist() == alone.allowed_token_ids(state).tolist()
        assert reports[-1][0] == reports[-1][1]
