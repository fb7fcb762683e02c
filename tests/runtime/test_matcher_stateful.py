"""Random lives of matchers: whatever was accepted, rolled back and forked, each stands where a replay from scratch does."""

import re

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from rsm_examples import EXAMPLES

from fsmc.compiler.errors import BudgetExceeded, VocabularyError
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.bitmask import allocate_token_bitmask
from fsmc.runtime.drafts import fill_draft_bitmasks
from fsmc.runtime.matcher import GrammarMatcher

WORDS = ["größer als 10", "größe: ", "größte", "", "北京", "北方"]
TOKENS = [
    b"gr\xc3",
    b"\xb6",
    b"\xc3\xb6\xc3",
    b"\x9f",
    b"\x9fe",
    b"g",
    b"r",
    b"1",
    b"0",
    b" als",
    b": ",
    b"\xe5\x8c",
    b"[",
    b"]",
]
TOKENS += [
    b"t",
    b"te",
    b"[[",
    b"]]",
    b"+",
    b",",
    b"1+",
    b",1",
    b"[]",
    b"],[",
    "北".encode(),
    "京".encode(),
    b"\x97",
    b"gr",
]
EOS, OTHER_EOS = len(TOKENS), len(TOKENS) + 1
VOCAB = Vocabulary.from_tokens([*TOKENS, b"", b""], [EOS, OTHER_EOS], vocab_size=len(TOKENS) + 9)


def grammars() -> dict[str, CompiledGrammar]:
    compiler = GrammarCompiler(VOCAB, cache_dir=None)
    whole = compiler.compile_regex("(" + "|".join(map(re.escape, WORDS)) + "){0,3}")
    whole.build_index()
    return {
        "words": compiler.compile_regex("(" + "|".join(map(re.escape, WORDS)) + "){0,3}"),
        "words, whole index": whole,
        "sums": compiler.compile_fsm(EXAMPLES["sums"].machine),
        "brackets": compiler.compile_fsm(EXAMPLES["balanced_brackets"].machine),
        "schema": GrammarCompiler(VOCAB, cache_dir=None, whitespace="compact").compile_json_schema(DIFFERENT_NUMBERS),
    }


DIFFERENT_NUMBERS = {"type": "array", "items": {"type": ["integer", "array"], "items": False}, "uniqueItems": True}
"""What a list has read is part of where it stands (`LazyRSM`, recorded frames)."""

GRAMMARS: dict[str, CompiledGrammar] = {}


def row_of(matcher, max_tokens=None):
    mask = allocate_token_bitmask(1, VOCAB.size)
    matcher.fill_next_token_bitmask(mask, max_tokens=max_tokens)
    return mask[0].tolist()


def replay_of(matcher, token_ids):
    for token_id in token_ids:
        assert matcher.accept_token(token_id)
    return matcher


def replay(grammar, entries):
    """A new matcher that took all bytes at once, and the end token if there was one."""
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_bytes(b"".join(entry for entry in entries if entry is not None))
    if None in entries:
        assert matcher.accept_token(EOS)
    return matcher


def can_be_completed(matcher: GrammarMatcher) -> bool:
    """By trying all tokens; for machines of few configurations."""
    seen, left = set(), [matcher.fork()]
    while left:
        probe = left.pop()
        if probe.is_completed():
            return True
        if probe.configuration not in seen:
            seen.add(probe.configuration)
            forks = [probe.fork() for _ in TOKENS]
            left += [fork for token_id, fork in enumerate(forks) if fork.accept_token(token_id)]
    return False


class Life(RuleBasedStateMachine):
    """Each matcher with a model of its history: the bytes of every entry (None for an end token), and how many may be undone."""

    matchers = Bundle("matchers")

    @initialize(
        name=st.sampled_from(["words", "words, whole index", "sums", "brackets", "schema"]),
        limit=st.sampled_from([None, 0, 2, 5]),
    )
    def start(self, name, limit):
        if not GRAMMARS:
            GRAMMARS.update(grammars())
        self.grammar, self.limit = GRAMMARS[name], limit
        self.lives = []

    @rule(target=matchers)
    def new(self):
        if len(self.lives) >= 4:
            return multiple()
        self.lives.append((GrammarMatcher(self.grammar, max_rollback_tokens=self.limit), [], [0]))
        return self.lives[-1]

    @rule(target=matchers, life=matchers)
    def fork(self, life):
        if len(self.lives) >= 6:
            return multiple()
        self.lives.append((life[0].fork(), list(life[1]), list(life[2])))
        return self.lives[-1]

    @rule(life=matchers, token_id=st.integers(-1, VOCAB.size))
    def accept_any_token(self, life, token_id):
        self.accept(life, token_id)

    @rule(life=matchers, data=st.data())
    def accept_allowed_token(self, life, data):
        row = np.array(row_of(life[0]), np.int32)
        ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        if ids:
            assert self.accept(life, data.draw(st.sampled_from(ids)))

    def accept(self, life, token_id):
        """A token is accepted iff its bit is set; for an end token the model says when."""
        matcher, entries, _ = life
        ends = token_id in (EOS, OTHER_EOS)
        row = row_of(matcher)
        bit = 0 <= token_id < VOCAB.size and row[token_id // 32] >> token_id % 32 & 1
        accepted = matcher.accept_token(token_id)
        assert accepted == bool(bit)
        if accepted and not (ends and None in entries):
            self.remember(life, None if ends else TOKENS[token_id])
        return accepted

    def remember(self, life, entry):
        life[1].append(entry)
        life[2][0] += 1
        if self.limit is not None:
            life[2][0] = min(life[2][0], self.limit)

    @rule(life=matchers, parts=st.lists(st.sampled_from([*TOKENS, *map(str.encode, WORDS)]), max_size=3))
    def accept_text(self, life, parts):
        matcher = life[0]
        text = b"".join(parts)
        longest = matcher.longest_prefix(text)
        accepted = matcher.accept_bytes(text)
        assert accepted == (longest == len(text))
        if accepted:
            self.remember(life, text)

    @rule(life=matchers)
    def jump(self, life):
        matcher = life[0]
        forced = matcher.find_jump_forward_string().encode()
        for end in range(len(forced)):
            ids = {byte for byte in range(256) if matcher.fork().accept_bytes(forced[:end] + bytes([byte]))}
            assert ids == {forced[end]}  # one byte leads on, at every place
        assert matcher.accept_bytes(forced)
        self.remember(life, forced)

    @rule(life=matchers, n=st.integers(-1, 6))
    def rollback(self, life, n):
        matcher, entries, reachable = life
        assert matcher.rollback_limit == reachable[0]
        if not 0 <= n <= reachable[0]:
            with pytest.raises(ValueError, match="cannot roll back"):
                matcher.rollback(n)
        else:
            matcher.rollback(n)
            del entries[len(entries) - n :]
            reachable[0] -= n

    @rule(life=matchers, ids=st.lists(st.integers(-1, VOCAB.size), max_size=4))
    def validate(self, life, ids):
        probe, n = life[0].fork(), 0
        while n < len(ids) and probe.accept_token(ids[n]):
            n += 1
        assert life[0].validate_tokens(ids) == n

    @rule(life=matchers, ids=st.lists(st.integers(-1, VOCAB.size), max_size=4), data=st.data())
    def draft(self, life, ids, data):
        """The rows of a draft are those of a replay that takes its tokens; the invariant says that nothing moved."""
        matcher, entries, _ = life
        parents = [data.draw(st.integers(-1, i - 1)) for i in range(len(ids))]
        mask = allocate_token_bitmask(len(ids) + 1, VOCAB.size)
        valid = fill_draft_bitmasks(matcher, ids, mask, parents=parents)
        assert mask[0].tolist() == row_of(matcher)
        for i in range(len(ids)):
            fresh, path, at = replay(self.grammar, entries), [], i
            while at >= 0:
                path.insert(0, ids[at])
                at = parents[at]
            assert valid[i] == (fresh.validate_tokens(path) == len(path))
            assert mask[i + 1].tolist() == (row_of(replay_of(fresh, path)) if valid[i] else [0] * mask.shape[1])

    @rule(life=matchers, more=st.integers(0, 3))
    def budget(self, life, more):
        """Under a budget a part of the tokens is allowed, as in a replay; each leaves enough."""
        matcher, entries, _ = life
        fresh = replay(self.grammar, entries)
        try:
            needed = matcher.num_tokens_to_complete()
        except VocabularyError:  # after "größer" comes a space, and no token has one
            with pytest.raises(VocabularyError):
                fresh.num_tokens_to_complete()
            assert not can_be_completed(matcher)
            return
        assert needed == fresh.num_tokens_to_complete()
        if needed and not matcher.is_terminated():
            with pytest.raises(BudgetExceeded):
                row_of(matcher, needed - 1)
        row = np.array(row_of(matcher, needed + more), np.int32)
        assert row.tolist() == row_of(fresh, needed + more) and not (row & ~np.array(row_of(matcher), np.int32)).any()
        ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        assert ids
        for token_id in ids:
            probe = matcher.fork()
            assert probe.accept_token(token_id) and (
                matcher.is_terminated() or probe.num_tokens_to_complete() < needed + more
            )

    @rule(life=matchers)
    def reset(self, life):
        life[0].reset()
        life[1].clear()
        life[2][0] = 0

    @invariant()
    def stands_where_a_replay_does(self):
        for matcher, entries, _ in getattr(self, "lives", []):
            fresh = replay(self.grammar, entries)
            assert matcher.configuration == fresh.configuration
            assert matcher.is_terminated() == fresh.is_terminated() == (None in entries)
            assert matcher.is_completed() == fresh.is_completed()
            assert matcher.find_jump_forward_string() == fresh.find_jump_forward_string()
            assert row_of(matcher) == row_of(fresh)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
