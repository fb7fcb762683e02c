"""Speculative drafts: rows equal those of walking there, nothing follows a bad token, and the matcher stays where it is."""

import random

import numpy as np
import pytest

from fsmc.compiler.errors import BudgetExceeded
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace, unpack_token_bitmask
from fsmc.runtime.drafts import RowLayout, fill_draft_bitmask_batch, fill_draft_bitmasks
from fsmc.runtime.matcher import GrammarMatcher
from fsmc.runtime.reasoning import ReasoningGate

TOKENS = [b"a", b"b", b"ab", b"[", b"]", b",", b"[[", b"],", b"1", b""]
EOS = 9
VOCAB = Vocabulary.from_tokens(TOKENS, [EOS], vocab_size=70)
COMPILER = GrammarCompiler(VOCAB, cache_dir=None)
GRAMMARS = {
    "regex": COMPILER.compile_regex("(ab|b){1,3}a?"),
    "schema": COMPILER.compile_json_schema(
        {"type": "array", "items": {"type": ["integer", "array"]}, "uniqueItems": True}
    ),
}


def matcher_of(name, text=b""):
    matcher = GrammarMatcher(GRAMMARS[name])
    assert matcher.accept_bytes(text)
    return matcher


def row_of(matcher, left=None):
    mask = allocate_token_bitmask(1, VOCAB.size)
    matcher.fill_next_token_bitmask(mask, max_tokens=left)
    return mask[0].tolist()


def expected(matcher, draft, parents, left):
    """Row by row: a fork that takes the tokens of the path, and its mask."""
    rows, valid = [row_of(matcher, left)], []
    for i in range(len(draft)):
        path, at = [], i
        while at >= 0:
            path.insert(0, draft[at])
            at = parents[at]
        probe = matcher.fork()
        try:
            for n, token in enumerate(path):
                mask = np.array([row_of(probe, None if left is None else left - n)], np.int32)
                if not (0 <= token < VOCAB.size and unpack_token_bitmask(mask, VOCAB.size)[0, token]):
                    raise ValueError
                assert probe.accept_token(token)
            rows.append(row_of(probe, None if left is None else left - len(path)))
            valid.append(True)
        except (ValueError, BudgetExceeded):
            rows.append([0] * len(rows[0]))
            valid.append(False)
    return rows, valid


@pytest.mark.parametrize("name", sorted(GRAMMARS))
@pytest.mark.parametrize("gated", [False, True])
def test_trees_and_chains_at_random(name, gated):
    rng = random.Random(name)
    for _ in range(60):
        matcher = matcher_of(name)
        if gated:
            matcher = ReasoningGate(matcher, rng.choice(["1b", [3, 4], "a"]))
        for _ in range(rng.randrange(4)):
            matcher.accept_token(rng.randrange(-1, VOCAB.size))
        k = rng.randrange(6)
        likely = [token for token in range(10) if matcher.fork().accept_token(token)] or [EOS]
        draft = [rng.choice([*likely, rng.randrange(-1, 12)]) for _ in range(k)]
        parents = [rng.randrange(-1, i) if i else -1 for i in range(k)]
        chain = rng.random() < 0.4
        if chain:
            parents = list(range(-1, k - 1))
        left = rng.choice([None, matcher.num_tokens_to_complete() + rng.randrange(5)])
        before = matcher.num_tokens_to_complete(), row_of(matcher), matcher.rollback_limit
        mask = np.full((k + 3, allocate_token_bitmask(1, VOCAB.size).shape[1]), 77, np.int32)
        valid = fill_draft_bitmasks(matcher, draft, mask, 1, parents=None if chain else parents, max_tokens=left)
        assert (matcher.num_tokens_to_complete(), row_of(matcher), matcher.rollback_limit) == before
        rows, flags = expected(matcher, draft, parents, left)
        assert valid.tolist() == flags and mask[1 : k + 2].tolist() == rows
        assert (mask[0] == 77).all() and (mask[k + 2] == 77).all()
        if chain and left is None:
            n = matcher.validate_tokens(draft)
            assert flags == [i < n for i in range(k)]


def test_after_the_end_only_the_end():
    mask = allocate_token_bitmask(4, VOCAB.size)
    assert fill_draft_bitmasks(matcher_of("regex", b"ab"), [EOS, EOS, 0], mask).tolist() == [True, True, False]
    assert [np.flatnonzero(row).tolist() for row in unpack_token_bitmask(mask, VOCAB.size)[1:]] == [[EOS], [EOS], []]


@pytest.mark.parametrize(
    ("draft", "options", "error", "message"),
    [
        ([0, 1, 2], {}, IndexError, "rows 0 to 3; the mask has 3"),
        ([0], {"first_row": 2}, IndexError, "rows 2 to 3"),
        ([0], {"first_row": -1}, IndexError, "rows -1 to 0"),
        ([0, 1], {"parents": [-1]}, ValueError, "as many parents, not 1"),
        ([0, 1], {"parents": [0, -1]}, ValueError, r"parents\[0\]=0"),
        ([0, 1], {"parents": [-1, -2]}, ValueError, r"parents\[1\]=-2"),
        ([0], {"max_tokens": 1}, BudgetExceeded, "max_tokens=1"),
    ],
)
def test_what_does_not_fit_writes_nothing(draft, options, error, message):
    mask = np.full((3, 3), 5, np.int32)
    with pytest.raises(error, match=message):
        fill_draft_bitmasks(matcher_of("regex"), draft, mask, **options)
    assert (mask == 5).all()


def test_rows_of_a_batch_with_and_without_constraints():
    """Logits of every row; rows of requests without a constraint stay as they are."""
    matchers = [matcher_of("regex"), None, matcher_of("schema"), None, matcher_of("regex", b"abab")]
    drafts = [[1, 0, 4], [5, 6], [], [], [EOS]]
    mask = allocate_token_bitmask(7, VOCAB.size)
    layout, valid = fill_draft_bitmask_batch(matchers, drafts, mask)
    assert layout.n_logit_rows == 4 + 3 + 1 + 1 + 2 and layout.n_mask_rows == 4 + 1 + 2
    assert [flags.tolist() for flags in valid] == [[True, True, False], [True, True], [], [], [True]]
    assert layout.masked_logit_rows.tolist() == [0, 1, 2, 3, 7, 9, 10]
    logits = np.zeros((layout.n_logit_rows, VOCAB.size), np.float32)
    apply_token_bitmask_inplace(logits, layout.spread(mask))
    finite = np.isfinite(logits)
    assert finite[layout.logit_rows(1)].all() and finite[layout.logit_rows(3)].all()
    for i in (0, 2, 4):
        rows = unpack_token_bitmask(mask, VOCAB.size)[layout.mask_rows(i)]
        assert (finite[layout.logit_rows(i)] == rows).all()
    assert finite[layout.logit_rows(0)][:3].any(axis=1).all() and not finite[3].any()


def test_layouts_that_make_no_sense():
    with pytest.raises(ValueError, match="cannot have -1 tokens"):
        RowLayout.of([1, -1])
    with pytest.raises(ValueError, match="as many flags"):
        RowLayout.of([1, 2], [True])
    with pytest.raises(ValueError, match="as many drafts"):
        fill_draft_bitmask_batch([None], [], allocate_token_bitmask(1, 70))
    with pytest.raises(IndexError, match="need 3 rows"):
        fill_draft_bitmask_batch([matcher_of("regex")], [[0, 1]], allocate_token_bitmask(2, 70))
    assert RowLayout.of([]).n_logit_rows == 0 and RowLayout.of([], []).masked_logit_rows.tolist() == []


def test_drafts_are_judged_by_matchers():
    mask = allocate_token_bitmask(8, VOCAB.size)
    with pytest.raises(TypeError, match="by a matcher, not by a int"):
        fill_draft_bitmask_batch([None, 5], [[1], [1]], mask)
    for wrong in (True, 50.5):
        with pytest.raises(TypeError, match="max_tokens must be an integer"):
            fill_draft_bitmasks(matcher_of("regex"), [0], mask, max_tokens=wrong)
