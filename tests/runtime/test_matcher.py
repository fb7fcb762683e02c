"""What a request may do: masks, end tokens, forced text, rollback and forks, on machines with and without calls."""

import gc
import json
import re
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rsm_examples import EXAMPLES

from fsmc.compiler.automata.rsm import Configuration
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.bitmask import allocate_token_bitmask, unpack_token_bitmask
from fsmc.runtime.matcher import GrammarMatcher


def compile_regex(pattern, tokens, eos=(), special=(), vocab_size=None, whole=False):
    vocab = Vocabulary.from_tokens(tokens, eos, special, vocab_size)
    grammar = GrammarCompiler(vocab, cache_dir=None).compile_regex(pattern)
    if whole:
        grammar.build_index()
    return grammar


def compile_choice(texts, tokens, **options):
    return compile_regex("|".join(map(re.escape, texts)), tokens, **options)


def allowed(matcher, n_words=0):
    size = matcher.grammar.vocab.size
    mask = allocate_token_bitmask(1, max(size, 32 * n_words))
    matcher.fill_next_token_bitmask(mask)
    return np.flatnonzero(unpack_token_bitmask(mask, mask.size * 32)).tolist()


def after(grammar, token_ids, **options):
    matcher = GrammarMatcher(grammar, **options)
    for token_id in token_ids:
        assert matcher.accept_token(token_id), token_id
    return matcher


@pytest.fixture(params=[False, True], ids=["lazy", "whole"])
def whole(request):
    return request.param


# --------------------------------------------------------------------------------------------------------------- masks


def test_tokens_that_end_inside_characters(whole):
    """One or two faces; the first one's bytes are f0 9f 99 82. Token 6 ends one face and begins the next."""
    tokens = [b"\xf0", b"\x9f", b"\x99", b"\x82", b"\xf0\x9f\x99", "🙂".encode(), b"\x83\xf0", b"\x98", b"x", b""]
    grammar = compile_regex("[🙂🙃]{1,2}", tokens, eos=[9], whole=whole)
    assert allowed(after(grammar, [])) == [0, 4, 5]
    assert allowed(after(grammar, [0])) == [1]
    assert allowed(after(grammar, [0, 1])) == [2]
    assert allowed(after(grammar, [4])) == [3, 6]
    assert allowed(after(grammar, [4, 6])) == [1]
    assert allowed(after(grammar, [4, 3])) == [0, 4, 5, 9]
    assert allowed(after(grammar, [5, 5])) == [9]


def test_pieces_with_spaces_need_a_space_in_the_text(whole):
    tokens = [b"ok", b" ok", b"o", b" ", b"k", b"\n", b""]
    assert allowed(after(compile_regex("ok\n?", tokens, eos=[6], whole=whole), [])) == [0, 2]
    assert allowed(after(compile_regex("ok\n?", tokens, eos=[6], whole=whole), [2, 4])) == [5, 6]
    assert allowed(after(compile_regex(" ok", tokens, eos=[6], whole=whole), [])) == [1, 3]


def test_special_tokens_are_never_text(whole):
    grammar = compile_regex(r"[^\n]*", [b"<end>", b"<|sys|>", b"<", b"|sys|>", b"q"], [0], [0, 1], 40, whole=whole)
    matcher = after(grammar, [2, 3])  # the same text, in ordinary tokens
    assert allowed(matcher) == [0, 2, 3, 4]
    for token_id in (1, 5, 39, 40, 10**30, -1, -5):  # special, without bytes, padding, outside
        assert not matcher.accept_token(token_id)
        assert matcher.rollback_limit == 2 and allowed(matcher) == [0, 2, 3, 4]


def test_several_end_tokens(whole):
    grammar = compile_regex(r"\[[0-9]\]", [b"[", b"5", b"]", b"", b"", b""], [3, 4], [5], whole=whole)
    assert [allowed(after(grammar, ids)) for ids in ([], [0], [0, 1])] == [[0], [1], [2]]
    for end in (3, 4):
        matcher = after(grammar, [0, 1, 2])
        assert allowed(matcher) == [3, 4] and matcher.is_completed() and not matcher.is_terminated()
        assert matcher.accept_token(end) and matcher.is_terminated() and allowed(matcher) == [3, 4]


def test_stop_tokens_of_one_request(whole):
    grammar = compile_regex("a;?", [b"a", b";", b"", b""], eos=[2], whole=whole)
    assert allowed(after(grammar, [0])) == [1, 2]
    matcher = after(grammar, [0], stop_token_ids=[3, 1])
    assert matcher.stop_token_ids == (1, 3)
    assert allowed(matcher) == [1, 3]
    assert not matcher.accept_token(2)
    assert matcher.accept_token(1) and matcher.is_terminated()  # ends the text; is not the optional ";"
    assert allowed(GrammarMatcher(grammar, stop_token_ids=[0])) == []  # a stop token is not text either
    assert allowed(after(grammar, [0], stop_token_ids=[])) == [1]
    for bad in (4, -1):
        with pytest.raises(ValueError, match="outside the vocabulary"):
            GrammarMatcher(grammar, stop_token_ids=[bad])


def test_a_choice_that_begins_another(whole):
    tokens = [b"in", b"to", b" it", b"", b"i", b"n"]
    grammar = compile_choice(["in", "into", "in it"], tokens, eos=[3], whole=whole)
    assert allowed(after(grammar, [])) == [0, 4]
    assert allowed(after(grammar, [4])) == [5]
    matcher = after(grammar, [0])
    assert allowed(matcher) == [1, 2, 3] and matcher.is_completed() and not matcher.is_terminated()
    assert matcher.find_jump_forward_string() == ""
    assert allowed(after(grammar, [0, 1])) == allowed(after(grammar, [0, 2])) == [3]


texts = st.sets(st.text("ab🙂é", max_size=4).map(str.encode), min_size=1, max_size=8)
pieces = st.lists(
    st.binary(max_size=3) | st.sampled_from([*map(str.encode, ["a", "ab", "🙂", "é🙂", "bé"])]), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(texts, pieces, st.booleans(), st.data())
def test_masks_by_listing_the_language(texts, pieces, whole, data):
    """Bit set ⇔ some text of the (finite) language goes on like this."""
    eos = len(pieces)
    pattern = "|".join(re.escape(text.decode()) for text in texts)
    grammar = compile_regex(pattern, [*pieces, b""], eos=[eos], vocab_size=eos + 5, whole=whole)
    matcher, so_far = GrammarMatcher(grammar), b""
    for _ in range(6):
        expected = [
            i for i, piece in enumerate(pieces) if piece and any(text.startswith(so_far + piece) for text in texts)
        ]
        expected += [eos] if so_far in texts else []
        assert allowed(matcher) == expected
        assert matcher.is_completed() == (so_far in texts)
        assert matcher.validate_tokens([data.draw(st.sampled_from(expected))] if expected else []) == bool(expected)
        if expected in ([], [eos]):
            break
        token_id = data.draw(st.sampled_from([t for t in expected if t != eos]))
        so_far += pieces[token_id]
        assert matcher.accept_token(token_id)


@pytest.mark.parametrize("name", EXAMPLES)
def test_machines_with_calls(name):
    """Against the reference semantics, and against the language itself at the end of each walk."""
    example = EXAMPLES[name]
    rng = np.random.default_rng(0)
    letters = list(example.alphabet)
    tokens = [bytes(rng.choice(letters, size=n)) for n in (1, 2, 3, 4) for _ in range(40)]
    tokens += [text[i : i + n] for text in example.accepted for n in (2, 5) for i in range(0, len(text), 3)]
    eos = len(tokens)
    grammar = GrammarCompiler(Vocabulary.from_tokens([*tokens, b""], [eos]), cache_dir=None).compile_fsm(
        example.machine
    )
    for _ in range(15):
        matcher, here, text = GrammarMatcher(grammar), example.machine.initial, b""
        for _ in range(25):
            ends = [example.machine.run(token, here) for token in tokens]
            expected = [i for i, end in enumerate(ends) if end is not None]
            complete = example.machine.is_complete(here)
            assert matcher.configuration == here and matcher.is_completed() == complete == example.accepts(text)
            assert allowed(matcher) == expected + [eos] * complete
            assert matcher.find_jump_forward_string() == grammar.jump_map.jump_from(here)[0].decode()
            if not expected:
                break
            token_id = expected[rng.integers(len(expected))]
            assert matcher.accept_token(token_id)
            here, text = ends[token_id], text + tokens[token_id]
    deep = GrammarMatcher(grammar)
    for text in example.accepted:
        assert deep.accept_bytes(text) and deep.is_completed() and deep.accept_token(eos)
        deep.rollback(2)


def test_only_the_given_row_of_the_given_mask():
    grammar = compile_regex("a", [b"a", b"b", b""], eos=[2])
    matcher = GrammarMatcher(grammar)
    mask, other = np.full((3, 1), 7, np.int32), np.full((2, 1), 7, np.int32)
    matcher.fill_next_token_bitmask(mask, 1)
    matcher.fill_next_token_bitmask(other)
    assert mask.ravel().tolist() == [7, 1, 7] and other.ravel().tolist() == [1, 7]
    matcher.accept_token(0)
    matcher.fill_next_token_bitmask(mask, 1)
    matcher.fill_next_token_bitmask(mask, index=2)
    assert mask.ravel().tolist() == [7, 4, 4] and other.ravel().tolist() == [1, 7]
    matcher.accept_token(2)
    mask[:] = 7
    matcher.fill_next_token_bitmask(mask, 0)
    assert mask.ravel().tolist() == [4, 7, 7]
    matcher.fork().fill_next_token_bitmask(mask, 2)
    assert mask.ravel().tolist() == [4, 7, 4]


@pytest.mark.parametrize("kind", ["one row", "wider", "a slice", "torch"])
def test_shapes_of_masks(kind, whole):
    tokens = [bytes([65 + i]) for i in range(33)] + [b""]
    matcher = GrammarMatcher(compile_regex("[aA]?", tokens, eos=[33], whole=whole))
    expected = [1, 0b11]  # tokens 0 and 32, and the end
    for _ in range(3):
        if kind == "one row":
            mask = row = np.full(2, -1, np.int32)
        elif kind == "wider":
            mask, expected = np.full((1, 4), -1, np.int32), [*expected[:2], 0, 0]
            row = mask[0]
        elif kind == "a slice":
            mask = np.full((4, 9), -1, np.int32)[::2, 3:5]
            row = mask[0]
        else:
            mask = pytest.importorskip("torch").full((1, 2), -1, dtype=pytest.importorskip("torch").int32)
            row = mask[0].numpy()
        matcher.fill_next_token_bitmask(mask)
        assert row.tolist() == expected
        if not matcher.is_terminated():
            matcher.accept_token(33)
            expected = [0, 0b10]


@pytest.mark.parametrize(
    "mask, index, error, message",
    [
        (np.zeros((1, 1), np.int32), 0, ValueError, r"shape \(1, 1\); this vocabulary needs \(batch, 2\)"),
        (np.zeros((1, 2), np.int64), 0, TypeError, "must be int32, not int64"),
        (np.zeros((1, 2), np.uint32), 0, TypeError, "must be int32, not uint32"),
        (np.zeros((1, 1, 2), np.int32), 0, ValueError, "shape"),
        (np.zeros((2, 2), np.int32), 2, IndexError, "row 2 does not exist; the mask has 2 rows"),
        (np.zeros((2, 2), np.int32), -1, IndexError, "row -1 does not exist"),
        (np.zeros((2, 2), np.int32).T, 0, ValueError, "adjacent"),
        ([[0, 0]], 0, TypeError, "numpy array or a torch tensor, not list"),
    ],
)
def test_masks_that_do_not_fit(mask, index, error, message):
    matcher = GrammarMatcher(compile_regex("a", [b"a"] * 33))
    good = allocate_token_bitmask(1, 33)
    matcher.fill_next_token_bitmask(good)
    with pytest.raises(error, match=message):
        matcher.fill_next_token_bitmask(mask, index)
    assert not np.asarray(mask).any()
    matcher.fill_next_token_bitmask(good)  # still works


def test_mask_that_cannot_be_written():
    matcher = GrammarMatcher(compile_regex("a", [b"a"]))
    mask = allocate_token_bitmask(1, 1)
    mask.flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        matcher.fill_next_token_bitmask(mask)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="on the CPU"):
        matcher.fill_next_token_bitmask(torch.zeros(1, 1, dtype=torch.int32, device="meta"))


# ---------------------------------------------------------------------------------------------------------- going on


def test_kinds_of_token_ids():
    matcher = GrammarMatcher(compile_regex("a*", [b"a", b""], eos=[1]))
    assert matcher.accept_token(np.int64(0)) and matcher.accept_token(np.int32(1)) and matcher.is_terminated()
    with pytest.raises(TypeError):
        matcher.accept_token(0.0)
    torch = pytest.importorskip("torch")
    matcher.reset()
    assert (
        matcher.accept_token(torch.tensor(0)) and matcher.accept_token(torch.tensor([1])[0]) and matcher.is_terminated()
    )


def test_after_the_end_only_the_end():
    matcher = after(compile_regex("(ok)+", [b"ok", b"", b""], eos=[1, 2]), [0, 1])
    assert matcher.accept_token(1) and matcher.accept_token(2) and matcher.rollback_limit == 2  # no-ops
    assert not matcher.accept_token(0) and not matcher.accept_bytes(b"ok") and matcher.is_terminated()
    assert matcher.is_completed() and matcher.find_jump_forward_string() == "" and matcher.longest_prefix(b"ok") == 0
    assert matcher.expected() == "nothing (the text has ended)"
    assert matcher.validate_tokens([1, 2, 1]) == 3 and matcher.validate_tokens([0]) == 0
    matcher.reset()
    assert not matcher.is_terminated() and matcher.rollback_limit == 0 and allowed(matcher) == [0]


def test_text_is_taken_whole_or_not_at_all():
    matcher = GrammarMatcher(compile_regex("añb", [b"a", b""], eos=[1]))
    assert not matcher.accept_bytes("añc".encode()) and matcher.longest_prefix("añc".encode()) == 3
    assert matcher.rollback_limit == 0 and matcher.configuration == Configuration(matcher.grammar.machine.start)
    assert matcher.accept_bytes(b"a\xc3") and matcher.accept_bytes(b"") and matcher.accept_bytes(bytearray(b"\xb1b"))
    assert matcher.is_completed() and matcher.rollback_limit == 3
    matcher.rollback(2)
    assert matcher.longest_prefix(b"\xb1b!") == 2 and not matcher.is_completed()
    assert matcher.accept_bytes(b"\xb1b") and matcher.accept_token(1)
    assert matcher.accept_bytes(b"") and matcher.is_terminated()
    matcher.rollback(2)
    assert matcher.is_completed() and not matcher.is_terminated()


def test_validating_does_not_move():
    matcher = after(compile_regex("ab*", [b"a", b"b", b""], eos=[2]), [0])
    assert matcher.validate_tokens([1, 1, 2, 2]) == 4
    assert matcher.validate_tokens([1, 2, 1]) == 2
    assert matcher.validate_tokens(iter([1, 0, 1])) == 1
    assert matcher.validate_tokens([]) == 0 and matcher.validate_tokens([99]) == 0
    assert matcher.rollback_limit == 1 and allowed(matcher) == [1, 2]


def test_forced_text_in_whole_characters():
    """Two choices whose second characters share two of three bytes: e5 8c 97 and e5 8c 96."""
    grammar = compile_choice(["東北", "東化"], ["東".encode(), b"\xe6", b"\xe5\x8c", b""], eos=[3])
    matcher = GrammarMatcher(grammar)
    assert matcher.find_jump_forward_string() == "東"
    assert matcher.accept_bytes("東".encode()) and matcher.find_jump_forward_string() == ""
    assert matcher.accept_token(2) and matcher.find_jump_forward_string() == ""
    assert matcher.accept_bytes(b"\x97") and matcher.find_jump_forward_string() == "" and allowed(matcher) == [3]
    matcher.reset()
    assert matcher.accept_token(1)
    assert matcher.find_jump_forward_string() == ""  # the forced bytes would complete a character already begun
    assert grammar.jump_map.forced_bytes(matcher.configuration.state) == b"\x9d\xb1\xe5\x8c"


def test_forced_text_stops_where_the_text_may_end():
    matcher = GrammarMatcher(compile_regex("no(, no)*", [b"no", b""], eos=[1]))
    assert matcher.find_jump_forward_string() == "no"
    assert matcher.accept_bytes(b"no") and matcher.find_jump_forward_string() == ""
    assert matcher.accept_bytes(b",") and matcher.find_jump_forward_string() == " no"


def test_what_is_expected():
    matcher = GrammarMatcher(compile_regex(r"-?[0-9]+(\.[0-9])?|[à-ÿ]|[\u3041-\u3096]", [b"-", b""], eos=[1]))
    assert matcher.expected() == "'-', '0'–'9', some of U+00C0–U+00FF or some of U+3000–U+3FFF"
    matcher.accept_bytes(b"-7")
    assert matcher.expected() == "'.', '0'–'9' or the end of the text"
    matcher.reset()
    matcher.accept_bytes(b"\xc3")
    assert matcher.expected() == "byte a0–bf"
    matcher.accept_bytes(b"\xa0")
    assert matcher.expected() == "the end of the text"


# -------------------------------------------------------------------------------------------------------- going back


def test_rollback_over_the_end():
    tokens = [b"(", b"x", b"+", b")", b""]
    grammar = compile_regex(r"\(x(\+x)*\)", tokens, eos=[4])
    matcher = after(grammar, [0, 1, 3, 4])
    matcher.rollback(1)
    assert not matcher.is_terminated() and matcher.is_completed() and allowed(matcher) == [4]
    assert matcher.accept_token(4)
    matcher.rollback(2)
    assert allowed(matcher) == [2, 3] and not matcher.is_completed()
    for n in (3, -1):
        with pytest.raises(ValueError, match=f"cannot roll back {n} tokens: the history holds 2"):
            matcher.rollback(n)
        assert allowed(matcher) == [2, 3] and matcher.rollback_limit == 2
    matcher.rollback(0)
    matcher.rollback()
    assert allowed(matcher) == [1]


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
def test_bounded_history(limit):
    grammar = compile_regex("[ab]*", [b"a", b"b", b""], eos=[2])
    matcher = GrammarMatcher(grammar, max_rollback_tokens=limit)
    forks = []
    for n in range(1, 60):
        matcher.accept_token(n % 2)
        assert matcher.rollback_limit == min(n, limit)
        entries, entry = 0, matcher._history
        while entry is not None:
            entries, entry = entries + 1, entry[0]
        assert entries <= 2 * limit  # what is held does not grow
        forks.append((n, matcher.fork()))
    for n, fork in forks:
        with pytest.raises(ValueError, match=f"max_rollback_tokens={limit}"):
            fork.rollback(limit + 1)
        fork.rollback(min(n, limit))
        assert fork.rollback_limit == 0  # the limit is on how far back, in however many steps
    with pytest.raises(ValueError, match="max_rollback_tokens=-1 must be None or at least 0"):
        GrammarMatcher(grammar, max_rollback_tokens=-1)


def test_bounded_history_goes_back_to_the_right_places():
    tokens = [b"a", b"b", b"c"]
    grammar = compile_regex("(abc)*", tokens)
    matcher = GrammarMatcher(grammar, max_rollback_tokens=4)
    for n in range(30):
        assert matcher.accept_token(n % 3)
        fork = matcher.fork()
        fork.rollback(back := min(n + 1, 4))
        assert allowed(fork) == [(n + 1 - back) % 3]


def test_forks_share_a_past_but_no_future():
    grammar = compile_regex("[ab]*c?", [b"a", b"b", b"c", b""], eos=[3])
    matcher = after(grammar, [0, 1])
    fork = matcher.fork()
    assert fork.accept_token(2) and fork.accept_token(3) and fork.is_terminated()
    assert not matcher.is_terminated() and allowed(matcher) == [0, 1, 2, 3] and matcher.rollback_limit == 2
    matcher.rollback(2)
    fork.rollback(4)
    assert fork.rollback_limit == matcher.rollback_limit == 0
    assert allowed(fork) == allowed(matcher) == [0, 1, 2, 3]


def test_long_histories_are_freed():
    """A chain of a million entries must neither overflow the stack when it goes nor outlive its matcher."""
    grammar = compile_regex("a*", [b"a", b""], eos=[1])
    matcher = GrammarMatcher(grammar)
    for _ in range(200_000):
        matcher._remember()
    alive = weakref.ref(grammar.masks)
    matcher.reset()
    del matcher, grammar
    gc.collect()
    assert alive() is None


# ----------------------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("name", ["sums", "balanced_brackets"])
def test_matchers_in_many_threads_share_one_grammar(name):
    example = EXAMPLES[name]
    rng = np.random.default_rng(1)
    tokens = [bytes(rng.choice(list(example.alphabet), size=n)) for n in (1, 2, 3) for _ in range(30)]
    vocab = Vocabulary.from_tokens([*tokens, b""], [len(tokens)])

    def walk(grammar, seed):
        rng, trace = np.random.default_rng(seed), []
        matcher = GrammarMatcher(grammar)
        for _ in range(60):
            ids = allowed(matcher)
            trace.append((ids, matcher.configuration, matcher.find_jump_forward_string()))
            ids = [i for i in ids if i < len(tokens)]
            if not ids or rng.random() < 0.2:
                matcher.rollback(int(rng.integers(matcher.rollback_limit + 1)))
            else:
                matcher.accept_token(ids[rng.integers(len(ids))])
        return trace

    expected = [walk(GrammarCompiler(vocab, cache_dir=None).compile_fsm(example.machine), seed) for seed in range(8)]
    shared = GrammarCompiler(vocab, cache_dir=None).compile_fsm(example.machine)
    found: list = [None] * 32
    start = threading.Barrier(32)

    def work(i):
        start.wait()
        found[i] = walk(shared, i % 8)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(32):
        assert found[i] == expected[i % 8]


def test_where_masks_are_narrower_than_what_is_accepted():
    """Exactly where a token ends an item that has to differ and goes on into the next: by either way every text can be written."""
    tokens = [*(bytes([byte]) for byte in range(32, 127)), b'","', b'a","b', b'["a","b"]', b'"]', b'",', b"1,2", b",1"]
    vocab = Vocabulary.from_tokens([*tokens, b""], eos_token_ids=[len(tokens)])
    compiler = GrammarCompiler(vocab, cache_dir=None, whitespace="compact")
    mask = allocate_token_bitmask(1, vocab.size)
    narrower = {}
    for items in (
        {"type": "string"},
        {"type": "integer"},
        {"enum": ["a", "b"]},
        {"enum": ["a", "b"], "type": "string"},
    ):
        for differ in (True, False):
            matcher = GrammarMatcher(
                compiler.compile_json_schema({"type": "array", "items": items, "uniqueItems": differ})
            )
            left_out = set()
            for read in (b"", b"[", b'["', b'["a', b"[1", b'["a","'):
                matcher.reset()
                if not matcher.accept_bytes(read):
                    continue
                matcher.fill_next_token_bitmask(mask)
                allowed = unpack_token_bitmask(mask, vocab.size)[0]
                accepted = np.array([matcher.validate_tokens([token]) == 1 for token in range(vocab.size)])
                assert not (allowed & ~accepted).any()
                left_out |= {vocab.token(token) for token in np.flatnonzero(accepted & ~allowed)}
            narrower[json.dumps(items), differ] = left_out
    spanning = {b'","', b'a","b', b'["a","b"]'}
    for (items, differ), left_out in narrower.items():
        assert left_out == (
            set() if not differ or "integer" in items else spanning if "enum" in items else {b'["a","b"]'}
        )
