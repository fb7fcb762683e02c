"""Free text without some strings, up to what ends it: beside the definition, said of whole texts."""

from __future__ import annotations

import itertools
import random

import pytest

import fsmc
from fsmc.compiler.tags.excluding import Excluding

VOCAB = fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)


def allowed(text: str, ends: list[str], excludes: list[str], may_end: bool) -> bool:
    """Where an end first stands, the free text before it holds nothing excluded, and one of the ends is all that follows."""
    for i in range(1, len(text) + 1):
        starts = [i - len(end) for end in ends if text[:i].endswith(end)]
        if starts:
            return any(text[s:] in ends and not any(string in text[:s] for string in excludes) for s in starts)
    return may_end and not any(string in text for string in excludes)


def tag_of(ends: list[str], excludes: list[str]) -> dict[str, object]:
    return {"type": "tag", "begin": "[", "content": {"type": "any_text", "excludes": excludes}, "end": ends}


@pytest.mark.parametrize("seed", range(4))
def test_the_free_text_alone_holds_nothing_excluded(seed: int) -> None:
    rng = random.Random(seed)
    texts = ["".join(letters) for n in range(7) for letters in itertools.product("abc", repeat=n)]
    n_allowed = 0
    for _ in range(15):
        ends = ["".join(rng.choices("abc", k=rng.randint(1, 4))) for _ in range(rng.randint(1, 3))]
        excludes = ["".join(rng.choices("abc", k=rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
        may_end = rng.random() < 0.4
        machine = COMPILER.compile_structural_tag(tag_of(ends + [""] * may_end, excludes)).machine
        for text in texts:
            expected = allowed(text, ends, excludes, may_end)
            assert machine.matches(b"[" + text.encode()) == expected, (text, ends, excludes, may_end)
            n_allowed += expected
    assert n_allowed > 500


@pytest.mark.parametrize(
    ("end", "excluded", "good", "bad"),
    [
        ("]", "]", ["[abc]", "[]"], ["[abc", "[a]]"]),
        ("]", "a]", ["[a]", "[ba]"], ["[a]]"]),
        ("abc", "ab", ["[xabc", "[abc"], ["[xabxabc", "[ab"]),
        ("abcd", "bc", ["[xabcd", "[aabcd"], ["[bcabcd", "[xbcd"]),
        ("aab", "a", ["[aab", "[xaab"], ["[aaab", "[axaab"]),
    ],
)
def test_an_end_may_hold_or_complete_what_is_excluded(end: str, excluded: str, good: list[str], bad: list[str]) -> None:
    machine = COMPILER.compile_structural_tag(tag_of([end], [excluded])).machine
    assert [machine.matches(text.encode()) for text in good + bad] == [True] * len(good) + [False] * len(bad)


def test_triggers_and_special_tokens_end_free_text_as_well() -> None:
    tags = [{"begin": "<f>", "content": {"type": "const_string", "value": "1"}, "end": "</f>"}]
    tag = {"type": "triggered_tags", "triggers": ["<f"], "tags": tags, "excludes": ["<"]}
    machine = COMPILER.compile_structural_tag(tag).machine
    texts = [b"a<f>1</f>b", b"a < b", b"<<f>1</f>"]
    assert [machine.matches(text) for text in texts] == [True, False, False]
    vocab = fsmc.Vocabulary.from_tokens([b"a", b"<|c|>", b"[", b""], special_token_ids=[1], eos_token_ids=[3])
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    for excluded, last in ((["<|"], True), (["<|c|>"], True), (["a"], False)):
        matcher = fsmc.GrammarMatcher(compiler.compile_structural_tag(tag_of(["<|c|>"], excluded)))
        assert [matcher.accept_token(token) for token in (2, 0, 1)] == [True, last, True]
        assert matcher.is_completed()


def test_states_in_which_an_end_is_under_way_are_bounded() -> None:
    assert len(Excluding([b"a" * 3000 + b"b"], [b"a"]).late) <= 3001
    excluded = [bytes([98 + i % 20]) * (i // 20 + 1) + b"a" * i for i in range(1, 300)]
    with pytest.raises(fsmc.LimitExceeded, match="max_late"):
        Excluding([b"a" * 40_000], excluded)
