"""The token trie: its arrays against sets of prefixes, and the byte groups against walking."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mask_oracles import HAND_DRAWN, compile_dfa, real_vocabulary, vocabularies
from random_machines import plain_machines

from fsmc.compiler.automata.byte_groups import (
    BYTE_GROUP,
    NO_CHARACTER,
    UTF8_STEPS,
    _groups_below,
    _loop_groups,
    _spread_groups,
    groups_below,
    loop_groups,
)
from fsmc.compiler.tokens import trie as trie_module
from fsmc.compiler.tokens.trie import TokenTrie, trie_of
from fsmc.compiler.tokens.vocabulary import Vocabulary


def paths(trie: TokenTrie) -> list[bytes]:
    """The bytes that lead to each node."""
    found: list[bytes] = []
    path = b""
    for byte, depth in zip(trie.byte.tolist(), trie.depth.tolist(), strict=True):
        path = path[: depth - 1] + bytes([byte])
        assert len(path) == depth
        found.append(path)
    return found


def check(trie: TokenTrie, tokens: list[bytes]) -> None:
    """All arrays of the trie from its definition."""
    with_bytes = [number for number, token in enumerate(tokens) if token]
    nodes = paths(trie)
    assert nodes == sorted({tokens[n][:length] for n in with_bytes for length in range(1, len(tokens[n]) + 1)})
    assert trie.token_ids.tolist() == sorted(with_bytes, key=lambda n: (tokens[n], n))
    assert trie.height == max((len(token) for token in tokens), default=0)
    for node, path in enumerate(nodes):
        ranks = range(trie.token_start[node], trie.token_start[node + 1])
        assert all(tokens[trie.token_ids[rank]] == path for rank in ranks)
        below = [other for other in nodes if other.startswith(path)]
        assert trie.end[node] - node == len(below)
        longest = max(len(other) for other in below) - len(path)
        assert trie.rounds[trie.level[node]] >= longest > (trie.rounds[trie.level[node] - 1] if longest else -1)
    assert trie.token_start[-1] == len(with_bytes)
    assert [path[0] for path in nodes if len(path) == 1] == np.flatnonzero(trie.first >= 0).tolist()
    assert all(nodes[node] == bytes([lead]) for lead, node in enumerate(trie.first) if node >= 0)
    bits = np.unpackbits(trie.all_tokens.view(np.uint8), bitorder="little")
    assert np.flatnonzero(bits).tolist() == with_bytes


def test_the_trie_drawn_by_hand():
    trie = TokenTrie.build(Vocabulary.from_tokens(HAND_DRAWN, eos_token_ids=[16]))
    assert [path.decode("latin-1") for path in paths(trie)][:9] == ["\n", " ", " a", '"', '",', '", ', ",", ',"', "-"]
    assert trie.token_ids[:6].tolist() == [24, 0, 2, 1, 17, 21]
    assert trie.n_tokens == 25 and trie.n_nodes == 28
    check(trie, HAND_DRAWN)


@settings(max_examples=60, deadline=None)
@given(vocabularies(b"ab\x00\xff"))
def test_any_vocabulary(vocab):
    check(TokenTrie.build(vocab), list(vocab.tokens))


def test_groups_of_all_sizes_are_sorted():
    tokens = [bytes([a, b]) for b in range(255, -1, -1) for a in range(0, 256, 5)]
    tokens += [b"common prefix of a few tokens" + bytes([a]) * 3 for a in range(40)] * 2
    trie = TokenTrie.build(Vocabulary.from_tokens(tokens))
    assert trie.token_ids.tolist() == sorted(range(len(tokens)), key=lambda n: (tokens[n], n))


def test_special_tokens_and_padding_are_left_out():
    vocab = Vocabulary.from_tokens([b"<eos>", b"a", b"<pad>"], eos_token_ids=[0], special_token_ids=[2], vocab_size=70)
    trie = TokenTrie.build(vocab)
    assert trie.token_ids.tolist() == [1] and trie.all_tokens.tolist() == [2, 0, 0]


def test_a_vocabulary_without_bytes():
    trie = TokenTrie.build(Vocabulary.from_tokens([b"", b""]))
    assert (trie.n_nodes, trie.n_tokens, trie.height) == (0, 0, 0)


def test_the_trie_of_a_vocabulary_is_built_once():
    vocab = Vocabulary.from_tokens([b"a"])
    assert trie_of(vocab) is trie_of(vocab) is not trie_of(Vocabulary.from_tokens([b"a"]))


def test_arrays_are_read_only():
    trie = TokenTrie.build(Vocabulary.from_tokens([b"a"]))
    with pytest.raises(ValueError, match="read-only"):
        trie.byte[0] = 1


def test_a_real_vocabulary():
    vocab = real_vocabulary()
    trie = TokenTrie.build(vocab)
    tokens = vocab.tokens
    with_bytes = [number for number, token in enumerate(tokens) if token]
    assert trie.token_ids.tolist() == sorted(with_bytes, key=lambda n: (tokens[n], n))
    prefixes = {tokens[n][:length] for n in with_bytes for length in range(1, len(tokens[n]) + 1)}
    assert paths(trie) == sorted(prefixes)


def test_the_decoder_is_python_s():
    def decodes(data: bytes) -> bool:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return error.reason == "unexpected end of data"
        return True

    second = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    for data in [
        bytes([a, *rest]) for a in range(256) for b in second for rest in ([b], [b, 0x80, 0xBF], [b, 0x80, 0x40])
    ]:
        state = 0
        for byte in data:
            state = UTF8_STEPS[state, byte] if state != 255 else 255
        assert (state != 255) == decodes(data), data


def test_every_byte_that_begins_a_character_has_a_group():
    begins = UTF8_STEPS[0] != 255
    assert ((BYTE_GROUP == NO_CHARACTER) == ~begins).all()
    assert len(set(BYTE_GROUP.tolist())) == 63


def groups_of(text: str) -> int:
    return int(np.bitwise_or.reduce([BYTE_GROUP[c.encode()[0]] for c in text]))


@pytest.mark.parametrize(
    ("tokens", "path", "expected"),
    [
        ([b"a", b"ab-", b"a1"], b"a", groups_of("g-1") & ~groups_of("g") | groups_of("b")),
        (["aé☃".encode()], b"a", groups_of("é☃")),
        (["aé☃".encode()], "aé".encode(), groups_of("☃")),
        (["aé☃".encode()], b"a\xc3", NO_CHARACTER),  # inside a character
        ([b"a\xe2\x98"], b"a", groups_of("☃")),  # the beginning of a character is as good as a character
        ([b"a\xe2\x98x"], b"a", None),  # a broken one is not
        ([b"a\x98"], b"a", None),
        ([b"a\xed\xa0\x80"], b"a", None),  # a surrogate
        ([b"\x98\x83b"], b"\x98\x83", groups_of("b")),
        ([b"a"], b"a", 0),
    ],
)
def test_groups_below_a_node(tokens, path, expected):
    trie = TokenTrie.build(Vocabulary.from_tokens(tokens))
    groups = int(trie.groups[paths(trie).index(path)])
    if expected is None:
        assert groups & NO_CHARACTER
    else:
        assert groups == expected


@pytest.mark.parametrize(
    ("pattern", "after", "loops_on", "leaves_on"),
    [
        (r'"[^"]*"', b'"', "aZ09 .\n☃é😀", '"'),
        (r'"[^"]*"', b"", "", 'a"'),
        (r"\w*", b"", "aZ0б国", "-é"),  # ×, U+00D7, begins with the byte that é begins with
        (r"\S*", b"", "aé中😀", " \u2028"),
        (r"[a-f0-9]*x", b"", "a0", "gx"),
        (r"(ab)*", b"", "", "ab"),
        (r".{0,20}", b"", "", "a☃"),
    ],
)
def test_groups_on_which_a_state_loops(pattern, after, loops_on, leaves_on):
    dfa = compile_dfa(pattern)
    loops = int(loop_groups(dfa.delta, dfa.byte_class)[dfa.run(after)])
    assert loops & groups_of(loops_on) == groups_of(loops_on) if loops_on else True
    assert not any(loops & groups_of(c) for c in leaves_on)
    assert not loops & NO_CHARACTER


@settings(max_examples=60, deadline=None)
@given(vocabularies("aé☃".encode(), max_length=8), plain_machines(), st.booleans())
def test_a_state_stays_alive_where_groups_say_so(vocab, machine, over_bytes):
    dfa = machine.to_byte_dfa() if over_bytes else machine.to_dfa()
    trie = TokenTrie.build(vocab)
    loops = loop_groups(dfa.delta, dfa.byte_class)
    nodes = paths(trie)
    for state in range(dfa.n_states):
        for node, path in enumerate(nodes):
            if trie.groups[node] & ~loops[state] == 0:
                for longer in nodes[node : trie.end[node]]:
                    assert longer == path or dfa.run(longer[len(path) :], state) != 0


def test_kernels_do_what_their_python_does():
    vocab = Vocabulary.from_tokens(HAND_DRAWN * 3)
    trie = TokenTrie.build(vocab)
    names = ["_sort_tokens", "_shared_prefixes", "_nodes", "_longest_below"]
    compiled = {name: getattr(trie_module, name) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(trie_module, name, compiled[name].py_func)
        plain = TokenTrie.build(vocab)
    for name in ("byte", "depth", "end", "token_start", "token_ids", "first", "groups", "level"):
        assert np.array_equal(getattr(trie, name), getattr(plain, name)), name

    parent = np.array([-1, 0, 1, 1, 0], np.int32)
    byte = np.frombuffer(b"a\xc3\xa9b\x80", np.uint8)
    groups = np.zeros(5, np.int64)
    _groups_below.py_func(byte, parent, np.empty(5, np.uint8), np.zeros(5, np.bool_), groups)
    assert groups.tolist() == groups_below(byte, parent).tolist()

    for pattern in (r"[^\s-]*", r"[a-z]*ab[a-zé]*"):
        dfa = compile_dfa(pattern)
        loops, home, todo = (
            np.zeros(dfa.n_states, np.int64),
            np.zeros(dfa.n_states, np.bool_),
            np.empty((256, 2), np.int32),
        )
        _loop_groups.py_func(dfa.delta, dfa.byte_class, np.unique(dfa.byte_class[:128]), todo, home, loops)
        _spread_groups.py_func(dfa.delta, dfa.byte_class, todo, home, loops)
        assert loops.tolist() == loop_groups(dfa.delta, dfa.byte_class).tolist()


def test_groups_that_never_lead_to_a_dead_end():
    """Before a match and inside of one, texts over the letters go on; after "-" only digits do."""
    dfa = compile_dfa(r"(?s:.*)abc[a-z]*(-[0-9]*)?")
    letters = groups_of("bx")
    for text in (b"", b"x", b"a", b"ab", b"zabab", b"abc", b"abcz"):
        assert int(loop_groups(dfa.delta, dfa.byte_class)[dfa.run(text)]) & letters == letters
    dfa = compile_dfa(r"[a-z]*abc[a-z]*(-[0-9]*)?")
    loops = loop_groups(dfa.delta, dfa.byte_class)
    assert [bool(int(loops[dfa.run(text)]) & letters) for text in (b"", b"ab", b"abcx", b"abc-", b"abc-1")] == [
        True, True, True, False, False,
    ]  # fmt: skip
