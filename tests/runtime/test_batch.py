"""A batch filled in one call is what its matchers write one by one."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import fsmc
from fsmc.runtime import batch
from fsmc.runtime.batch import fill_bitmask_batch

WORDS = [bytes([byte]) for byte in range(256)] + [b"ab", b'": "', b'", "', b'"}', b'{"', b"true", b"12"]
EOS = len(WORDS)
VOCAB = fsmc.Vocabulary.from_tokens([*WORDS, b""], eos_token_ids=[EOS])
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 9},
        "tags": {"type": "array", "items": {"enum": ["a", "ab"]}},
    },
    "required": ["name"],
}
TEXTS = [
    b"",
    b"{",
    b'{"name": "',
    b'{"name": "ab',
    b'{"name": "ab", "tags": ["',
    b'{"name": "ab", "tags": ["a", "ab"]}',
]


def mixed(vocab: fsmc.Vocabulary = VOCAB) -> list[fsmc.GrammarMatcher | None]:
    """Matchers of lazy and of whole masks, with and without calls, complete, terminated and absent."""
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    schema, lazy, whole = (
        compiler.compile_json_schema(SCHEMA),
        compiler.compile_regex("(ab)*|[^x]{3,9}"),
        compiler.compile_regex('(ab|b)*a{2,5}|[^"]*'),
    )
    whole.build_index()
    matchers: list[fsmc.GrammarMatcher | None] = [None]
    for grammar, texts in ((schema, TEXTS), (lazy, [b"", b"a", b"ab", b"zzzz"]), (whole, [b"", b"ab", b"aaaaa"])):
        for text in texts:
            matcher = fsmc.GrammarMatcher(grammar)
            assert matcher.accept_bytes(text)
            matchers.append(matcher)
    ended = fsmc.GrammarMatcher(lazy)
    assert ended.accept_token(vocab.eos_token_ids[0])
    spelled = fsmc.GrammarMatcher(whole, stop_token_ids=[ord("b"), EOS])  # a stop token that has bytes
    return [*matchers, ended, spelled]


def one_by_one(matchers, mask, rows=None) -> np.ndarray:
    expected = np.array(mask)
    for row, matcher in zip(range(len(matchers)) if rows is None else rows, matchers, strict=True):
        if matcher is None:
            expected[row] = -1
        else:
            matcher.fill_next_token_bitmask(expected, row)
    return expected


def garbage(n_rows: int, n_words: int) -> np.ndarray:
    return np.random.default_rng(n_rows).integers(-(2**31), 2**31, (n_rows, n_words), dtype=np.int64).astype(np.int32)


@pytest.mark.parametrize("n_more_words", [0, 3])
def test_the_same_as_one_by_one(n_more_words: int) -> None:
    matchers = mixed()
    mask = garbage(len(matchers) + 2, -(-VOCAB.size // 32) + n_more_words)
    expected = one_by_one(matchers, mask)
    fill_bitmask_batch(matchers, mask)
    assert np.array_equal(mask, expected)
    fill_bitmask_batch(matchers, mask)  # all rows known now
    assert np.array_equal(mask, expected)


def test_chosen_rows_and_a_slice_of_a_wider_array() -> None:
    matchers = mixed()
    rows = np.random.default_rng(1).permutation(len(matchers) + 3)[: len(matchers)].tolist()
    wide = garbage(len(matchers) + 3, 40)
    before, mask = wide.copy(), wide[:, 5:25]
    expected = one_by_one(matchers, mask, rows)
    fill_bitmask_batch(matchers, mask, rows)
    assert np.array_equal(mask, expected)
    assert np.array_equal(wide[:, :5], before[:, :5]) and np.array_equal(wide[:, 25:], before[:, 25:])


def test_one_matcher_none_and_nobody() -> None:
    matcher, mask = mixed()[3], garbage(3, 9)
    expected = one_by_one([matcher], mask, [2])
    fill_bitmask_batch([matcher], mask, [2])
    assert np.array_equal(mask, expected)
    fill_bitmask_batch([None], mask, [1])
    assert (mask[1] == -1).all() and np.array_equal(mask[[0, 2]], expected[[0, 2]])
    fill_bitmask_batch([], mask)
    fill_bitmask_batch([], mask, [])
    assert np.array_equal(mask[2], expected[2])
    row = garbage(1, 9)[0]
    fill_bitmask_batch([matcher], row)
    assert np.array_equal(row, expected[2])


def test_vocabularies_of_different_sizes() -> None:
    larger = fsmc.Vocabulary.from_tokens([*WORDS, b"", b"abab", b"bb"], eos_token_ids=[EOS], vocab_size=400)
    matchers = [*mixed(), *mixed(larger)]
    mask = garbage(len(matchers), -(-larger.size // 32))
    expected = one_by_one(matchers, mask)
    fill_bitmask_batch(matchers, mask)
    assert np.array_equal(mask, expected)
    with pytest.raises(ValueError, match="this vocabulary needs"):
        fill_bitmask_batch(matchers, mask[:, :9].copy())


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    matchers = mixed()
    mask = torch.from_numpy(garbage(len(matchers), 9))
    expected = one_by_one(matchers, mask.numpy())
    fill_bitmask_batch(matchers, mask)
    assert np.array_equal(mask.numpy(), expected)
    rows = torch.arange(len(matchers) - 1, -1, -1)
    expected = one_by_one(matchers, mask.numpy(), rows.tolist())
    fill_bitmask_batch(matchers, mask, rows)
    assert np.array_equal(mask.numpy(), expected)
    with pytest.raises(TypeError, match="int32"):
        fill_bitmask_batch(matchers, mask.long())


def test_errors_come_before_anything_is_written() -> None:
    matchers, mask = mixed(), garbage(40, 9)
    before = mask.copy()
    read_only = mask.copy()
    read_only.setflags(write=False)
    for error, message, arguments in [
        (TypeError, "matcher 1 is a str", ([None, "x"], mask)),
        (TypeError, "numpy array or a torch tensor", (matchers, [[0] * 9] * 40)),
        (TypeError, "must be int32", (matchers, mask.astype(np.int64))),
        (ValueError, "this vocabulary needs", (matchers, mask[:, :8].copy())),
        (ValueError, "writable", (matchers, read_only)),
        (ValueError, "adjacent", (matchers, np.asfortranarray(mask))),
        (ValueError, "as many rows", (matchers, mask, [0, 1])),
        (TypeError, "rows must be", (matchers[:3], mask, [0.0, 1.0, 2.0])),
        (ValueError, "twice", (matchers[:3], mask, [4, 5, 4])),
        (IndexError, "row 40 does not exist", (matchers[:3], mask, [0, 40, 1])),
        (IndexError, "row -1 does not exist", (matchers[:1], mask, [-1])),
        (IndexError, "mask of 2 rows", (matchers[:3], mask[:2])),
        (IndexError, "row 40 does not exist", (matchers[1:2], mask, [40])),
        (ValueError, "as many rows", (matchers[1:2], mask, [1, 2])),
    ]:
        with pytest.raises(error, match=message):
            fill_bitmask_batch(*arguments)
    assert np.array_equal(mask, before)


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "ROWS_PER_THREAD", 4)
    monkeypatch.setattr(batch, "_n_processors", lambda: 3)


@pytest.mark.usefixtures("two_threads")
def test_shared_out_to_threads() -> None:
    matchers = mixed() * 5
    mask = garbage(len(matchers), 9)
    expected = one_by_one(matchers, mask)
    fill_bitmask_batch(matchers, mask)
    assert np.array_equal(mask, expected)
    assert any(thread.name == "fsmc-batch" for thread in threading.enumerate())
    mask = garbage(len(matchers), 9)
    fill_bitmask_batch(matchers, mask, max_threads=1)
    assert np.array_equal(mask, expected)


@pytest.mark.usefixtures("two_threads")
def test_batches_at_the_same_time() -> None:
    """Each thread has matchers of its own; grammars, rows and helpers are shared."""
    grammar = mixed()[3].grammar
    wrong: list[int] = []

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            matchers = [fsmc.GrammarMatcher(grammar) for _ in range(13)]
            for matcher in matchers:
                matcher.accept_bytes(TEXTS[rng.integers(len(TEXTS))])
            mask = garbage(13, 9)
            fill_bitmask_batch(matchers, mask)
            if not np.array_equal(mask, one_by_one(matchers, mask)):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.usefixtures("two_threads")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    matchers = mixed()
    mask = garbage(len(matchers), 9)
    fill_bitmask_batch(matchers, mask)
    child = os.fork()
    if child == 0:
        again = np.zeros_like(mask)
        fill_bitmask_batch(matchers, again)
        os._exit(0 if np.array_equal(mask, again) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_rows_dropped_by_the_cache_are_still_copied() -> None:
    """Where the memory for rows is too small for the batch, some are dropped while the batch is gathered."""
    matchers = mixed()
    for matcher in matchers:
        if matcher is not None and matcher.grammar.index is None:
            matcher.grammar.masks.max_cache_bytes = 1
    mask = garbage(len(matchers), 9)
    expected = one_by_one(matchers, mask)
    fill_bitmask_batch(matchers, mask)
    assert np.array_equal(mask, expected)
