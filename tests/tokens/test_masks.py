"""Packed mask rows, and masks computed when met."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mask_oracles import HAND_DRAWN, allowed_by_dfa, allowed_by_rsm, compile_dfa, row_tokens
from rsm_examples import EXAMPLES
from test_walk import configurations, intern, vocabulary_for

from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.tokens import lazy_masks, mask_rows, mask_walk
from fsmc.compiler.tokens.mask_rows import ALLOWED, BITS, FORBIDDEN, copy_row, expand_row, max_packed_ids
from fsmc.compiler.tokens.masks import LazyMasks
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jit import addresses_of


def words(tokens: list[int], n_words: int) -> np.ndarray:
    bits = np.zeros(32 * n_words, np.uint8)
    bits[tokens] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_rows_are_kept_as_flips_of_a_base(data):
    """Tokens of three digits, of which a machine allows any: the row of its start is that set, however it is kept."""
    vocab_size = data.draw(st.integers(1, 400))
    order = data.draw(st.permutations(range(vocab_size)))
    n_tokens = data.draw(st.integers(1, vocab_size))
    trie = TokenTrie.build(Vocabulary.from_tokens([b"%03d" % place if place < n_tokens else b"" for place in order]))
    allowed = sorted(data.draw(st.permutations(range(n_tokens)))[: data.draw(st.integers(1, n_tokens))])
    masks = LazyMasks(RSM.from_dfa(compile_dfa("|".join(f"{n:03}" for n in allowed))), trie)
    out = np.full(len(trie.all_tokens) + 3, -1, np.int32)
    masks.copy_row(masks.machine.start, 0, out)
    assert row_tokens(out) == sorted(order.index(n) for n in allowed)
    (row,) = masks._rows.values()
    n_words = len(trie.all_tokens)
    assert row.addresses[3] <= max_packed_ids(n_words) and row.size <= 4 + max(n_words, row.addresses[3]) // 2 + 1


def test_kernels_do_what_their_python_does(monkeypatch):
    base, ids, out = np.array([0b1011, -1, 0], np.int32), np.array([0, 2, 63, 95], np.int32), np.full(5, 7, np.int32)
    lazy_masks.copy_flipped(addresses_of(base, ids), addresses_of(out))
    assert out.tolist() == [0b1110, (1 << 31) - 1, -(1 << 31), 0, 0]
    monkeypatch.setattr(mask_rows, "_expand_row", mask_rows._expand_row.py_func)
    all_tokens = words(list(range(150)), 10)
    for kind, packed in [(ALLOWED, [3]), (FORBIDDEN, [3]), (BITS, words([3, 70], 10))]:
        row, out = np.array(packed, np.int32), np.empty(12, np.int32)
        start = np.array([0, len(row)])
        copy_row.py_func(np.zeros(1, np.int32), np.array([kind], np.uint8), start, row, all_tokens, 0, out)
        expected = {ALLOWED: [3], FORBIDDEN: [n for n in range(150) if n != 3], BITS: [3, 70]}[kind]
        assert row_tokens(out) == expected
        expand_row(kind, row, all_tokens, out)
        assert row_tokens(out) == expected


def test_every_state_of_a_machine_without_calls():
    vocab = Vocabulary.from_tokens(HAND_DRAWN)
    dfa = compile_dfa(r'"(a|é|[^"ab]b){0,3}",? ?')
    masks = LazyMasks(RSM.from_dfa(dfa), TokenTrie.build(vocab))
    for _again in range(2):
        for state in range(dfa.n_states):
            assert masks.allowed_token_ids(state).tolist() == allowed_by_dfa(dfa, vocab, state)
    assert masks.n_rows == dfa.n_states


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_configuration_of_a_machine_with_calls(name):
    example = EXAMPLES[name]
    vocab = vocabulary_for(example)
    masks = LazyMasks(example.machine, TokenTrie.build(vocab))
    met = sorted(configurations(example))
    for configuration in [*met, *met[::-1]]:
        stack = intern(masks.stacks, configuration.stack)
        allowed = masks.allowed_token_ids(configuration.state, stack).tolist()
        assert allowed == allowed_by_rsm(example.machine, vocab, configuration)
    assert masks.n_rows <= len(met)


def test_rows_that_do_not_depend_on_the_stack_are_kept_once():
    example = EXAMPLES["balanced_brackets"]
    masks = LazyMasks(example.machine, TokenTrie.build(Vocabulary.from_tokens([b"[", b"[[", b"[]"])))
    inside = example.machine.run(b"[").state
    for depth in range(1, 20):
        assert masks.allowed_token_ids(inside, intern(masks.stacks, (0,) * depth)).tolist() == [0, 1, 2]
    assert masks.n_rows == 1


def test_old_words_are_overwritten_and_further_ones_cleared():
    masks = LazyMasks(RSM.from_dfa(compile_dfa("a")), TokenTrie.build(Vocabulary.from_tokens([b"a", b"b"])))
    out = np.full(3, -1, np.int32)
    masks.copy_row(masks.machine.start, 0, out)
    assert out.tolist() == [1, 0, 0]


def test_the_cache_keeps_to_its_bound():
    vocab = Vocabulary.from_tokens([b"%d" % n for n in range(1000)])
    dfa = compile_dfa("[0-9]{1,40}")
    masks = LazyMasks(RSM.from_dfa(dfa), TokenTrie.build(vocab), max_cache_bytes=2000)
    unbounded = LazyMasks(RSM.from_dfa(dfa), TokenTrie.build(vocab))
    for state in [*range(dfa.n_states)] * 2:
        assert masks.allowed_token_ids(state).tolist() == unbounded.allowed_token_ids(state).tolist()
        assert 0 < masks.nbytes <= 2000
    assert unbounded.n_rows == dfa.n_states > masks.n_rows
    assert unbounded.nbytes >= sum(8 * row.size for row in unbounded._rows.values())


def test_a_row_is_computed_once(monkeypatch):
    calls = []
    monkeypatch.setattr(
        lazy_masks, "walk_configuration", lambda *args: calls.append(args) or mask_walk.walk_configuration(*args)
    )
    masks = LazyMasks(RSM.from_dfa(compile_dfa("ab*")), TokenTrie.build(Vocabulary.from_tokens([b"a", b"ab"])))
    for _ in range(3):
        masks.allowed_token_ids(masks.machine.start)
    assert len(calls) == 1


def test_threads_share_a_cache():
    vocab = Vocabulary.from_tokens(HAND_DRAWN)
    dfa = compile_dfa(r"[ab☃é]{0,12}")
    expected = [allowed_by_dfa(dfa, vocab, state) for state in range(dfa.n_states)]
    masks = LazyMasks(RSM.from_dfa(dfa), TokenTrie.build(vocab), max_cache_bytes=5000)

    def run(seed: int) -> bool:
        states = np.random.default_rng(seed).permutation(dfa.n_states).tolist() * 5
        return all(masks.allowed_token_ids(state).tolist() == expected[state] for state in states)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_rows_asked_for_again_outlive_others():
    """One state is asked for again and again, so its row is kept while those of others come and go."""
    vocab = Vocabulary.from_tokens([b"%d" % n for n in range(1000)])
    dfa = compile_dfa("[0-9]{1,40}")
    masks = LazyMasks(RSM.from_dfa(dfa), TokenTrie.build(vocab), max_cache_bytes=5000)
    hot = masks.machine.start
    expected = masks.allowed_token_ids(hot).tolist()
    computed = []
    compute = masks._compute
    masks._compute = lambda state, stack: computed.append(state) or compute(state, stack)
    for state in range(1, dfa.n_states):
        masks.allowed_token_ids(state)
        assert masks.allowed_token_ids(hot).tolist() == expected
    assert len(computed) > 30 and hot not in computed and masks.n_rows < 30


def test_copies_have_addresses_of_their_own():
    example = EXAMPLES["sums"]
    machine, trie = example.machine, TokenTrie.build(vocabulary_for(example))
    expected = LazyMasks(machine, trie).allowed_token_ids(machine.start).tolist()
    for other_machine, other_trie in [copy.deepcopy((machine, trie)), pickle.loads(pickle.dumps((machine, trie)))]:
        assert other_trie.addresses.tolist() != trie.addresses.tolist()
        assert other_machine.tables.addresses.tolist() != machine.tables.addresses.tolist()
        masks = LazyMasks(other_machine, other_trie)
        assert masks.allowed_token_ids(other_machine.start).tolist() == expected
        with pytest.raises(TypeError, match="addresses mean nothing"):
            pickle.dumps(masks.row(other_machine.start, 0))


@pytest.mark.parametrize("out", [np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(8, np.int32)[::4]])
def test_rows_are_written_only_where_they_fit(out):
    masks = LazyMasks(RSM.from_dfa(compile_dfa("a")), TokenTrie.build(Vocabulary.from_tokens([b"a"] * 65)))
    with pytest.raises(ValueError, match="int32"):
        masks.copy_row(masks.machine.start, 0, out)
