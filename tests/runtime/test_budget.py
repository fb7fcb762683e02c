"""Never cut off: masks under a budget leave a way to the end, and texts are complete within it."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rsm_examples import EXAMPLES

from fsmc.compiler.automata.shortest import SLACK
from fsmc.compiler.errors import BudgetExceeded, LimitExceeded, VocabularyError
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime import budget as budget_module
from fsmc.runtime.batch import fill_bitmask_batch
from fsmc.runtime.bitmask import allocate_token_bitmask, unpack_token_bitmask
from fsmc.runtime.budget import NEVER
from fsmc.runtime.matcher import GrammarMatcher

SHARED = Path(__file__).resolve().parents[3] / "shared"
BYTES = [bytes([byte]) for byte in range(256)]


def vocabulary(tokens, **options):
    return Vocabulary.from_tokens([*tokens, b""], [len(tokens)], **options)


def allowed(matcher, max_tokens=None):
    mask = allocate_token_bitmask(1, matcher.vocab_size)
    matcher.fill_next_token_bitmask(mask, max_tokens=max_tokens)
    return set(np.flatnonzero(unpack_token_bitmask(mask[0], matcher.vocab_size)).tolist())


def fewest(matcher, most):
    """The least number of tokens that complete the text, found by trying all; more than ``most``: None."""
    level = [matcher]
    for n in range(most + 1):
        if any(one.is_terminated() for one in level):
            return n
        following, seen = [], set()
        for one in level:
            for token in allowed(one):
                after = one.fork()
                assert after.accept_token(token)
                key = after.configuration, after.is_terminated()
                if key not in seen:
                    seen.add(key)
                    following.append(after)
        level = following
    return None


def walk(matcher, budget, rng, others=()):
    """A random text under a budget: every mask leaves a token, each token enough, and the text is complete in time."""
    left, tokens = budget, []
    while not matcher.is_terminated():
        may = allowed(matcher, left)
        assert may and may <= allowed(matcher), (left, tokens)
        token = rng.choice(sorted(may))
        assert matcher.accept_token(token)
        tokens.append(token)
        left -= 1
        assert matcher.num_tokens_to_complete() <= left
    assert left >= 0
    return tokens


PATTERNS = [
    "(a{3})*b",
    "a{5}b*",
    "(ab|ba){2,4}",
    "a(bb)*a",
    "(aa|b)*c|abcabc",
    "[ab]{0,6}c",
    "x?",
    "ab(cab)*",
    "aaaaaaab|b{4}",
]
TOKENS = [b"a", b"b", b"c", b"x", b"aa", b"ab", b"aaa", b"abc", b"bb", b"cab"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_exact(pattern):
    grammar = GrammarCompiler(vocabulary(TOKENS), cache_dir=None).compile_regex(pattern)
    rng = random.Random(pattern)
    for start in (b"", b"a", b"ab"):
        matcher = GrammarMatcher(grammar)
        if not matcher.accept_bytes(start):
            continue
        needed = matcher.num_tokens_to_complete()
        assert needed == fewest(matcher, 12)
        for budget in range(needed, needed + 5):
            expected = {
                token
                for token in allowed(matcher)
                if (after := matcher.fork()).accept_token(token) and after.num_tokens_to_complete() <= budget - 1
            }
            assert allowed(matcher, budget) == expected
            for _ in range(5):
                walk(matcher.fork(), budget, rng)
        with pytest.raises(BudgetExceeded, match=f"max_tokens={needed - 1} is not enough.*: {needed} are"):
            allowed(matcher, needed - 1)


SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]},
    {"type": "array", "items": {"enum": ["red", "green", {"deep": [1, 2]}]}, "minItems": 2, "maxItems": 4},
    {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 3},
    {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "uniqueItems": True},
    {"type": "string", "minLength": 5, "maxLength": 9},
    {"type": "object", "minProperties": 3, "additionalProperties": {"type": "boolean"}},
    {"anyOf": [{"type": "object", "properties": {"k": {"const": "long"}, "v": {"minLength": 20, "type": "string"}}, "required": ["k", "v"],
                "additionalProperties": False},
               {"type": "object", "properties": {"k": {"const": "longer"}, "v": {"const": 1}}, "required": ["k", "v"],
                "additionalProperties": False}]},
    {"$ref": "#/definitions/tree", "definitions": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/definitions/tree"},
     "leaf": {"const": 1}}, "required": ["leaf"], "additionalProperties": False}}},
    True,
]  # fmt: skip


@pytest.mark.parametrize("layout", [{}, {"whitespace": "compact", "property_order": "any"}, {"indent": 2}], ids=str)
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_schemas(schema, layout):
    tokens = [
        *BYTES,
        b'{"',
        b'":',
        b'"}',
        b'","',
        b"],[",
        b"true",
        b"name",
        b"[[",
        b" red",
        b'"green"',
        b"12",
        b"\n  ",
        "größe".encode(),
    ]
    grammar = GrammarCompiler(vocabulary(tokens), cache_dir=None, **layout).compile_json_schema(schema)
    rng = random.Random(3)
    matcher = GrammarMatcher(grammar)
    needed = matcher.num_tokens_to_complete()
    with pytest.raises(BudgetExceeded):
        allowed(matcher, needed - 1)
    depends_on_what_was_read = "uniqueItems" in str(schema) or "minProperties" in str(schema)
    for budget in [needed, needed + 1, needed + 3, needed + 10]:
        for _ in range(1 if depends_on_what_was_read else 4):
            text = b"".join(tokens[token] for token in walk(matcher.fork(), budget, rng)[:-1])
            assert grammar.machine.matches(text)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_machines_with_calls(name):
    example = EXAMPLES[name]
    grammar = GrammarCompiler(vocabulary(BYTES), cache_dir=None).compile_fsm(example.machine)
    matcher = GrammarMatcher(grammar)
    needed = matcher.num_tokens_to_complete()
    least = fewest(matcher, 12)
    assert least is None or needed == least
    for budget in range(needed, needed + 6):
        walk(matcher.fork(), budget, random.Random(budget))


def test_plenty_is_the_mask_without_a_budget():
    grammar = GrammarCompiler(vocabulary(BYTES), cache_dir=None).compile_json_schema(SCHEMAS[0])
    matcher = GrammarMatcher(grammar)
    for byte in b'{"name": "x", "ag':
        assert allowed(matcher, 10**6) == allowed(matcher)
        assert matcher.is_far_from(10**6) and not matcher.is_far_from(matcher.num_tokens_to_complete())
        assert matcher.accept_token(byte)


@pytest.mark.parametrize("layout", [{}, {"whitespace": "compact", "property_order": "any"}], ids=str)
@pytest.mark.parametrize(
    "schema", [*SCHEMAS[:2], SCHEMAS[4], *SCHEMAS[6:], {"format": "date-time"}, {"pattern": "^[a-z]{0,300}-x"}], ids=str
)
def test_some_ending_is_no_shorter_than_the_shortest(schema, layout):
    """What tells that tokens are plenty: never less than is needed, and known for all that is not recorded."""
    schema = {"type": "string", **schema} if schema is not True and schema.keys() & {"format", "pattern"} else schema
    grammar = GrammarCompiler(vocabulary(BYTES), cache_dir=None, **layout).compile_json_schema(schema)
    rng = random.Random(1)
    for _ in range(3):
        matcher = GrammarMatcher(grammar)
        while not matcher.is_terminated() and matcher.n_entries < 60:
            state, stack, _ = matcher.place
            some = matcher.budget.some.cost(state, stack)
            assert some is not None, (matcher.configuration, matcher.budget.some._n_steps)
            assert some >= matcher.budget.shortest.ending(state, stack).cost - SLACK
            plenty = matcher.budget.enough(state, stack) + 1
            assert matcher.is_far_from(plenty)
            for token in rng.sample(sorted(allowed(matcher)), 1):
                assert matcher.accept_token(token)
                assert matcher.num_tokens_to_complete() <= plenty - 1


FEW_BYTES = [bytes([b]) for b in range(256) if b not in (4, 6, 0x13, 0xF1, 0xF2, ord("q"))]
"""As real vocabularies have them: some bytes are in no token, one only in longer ones."""


@pytest.mark.parametrize("schema", [*SCHEMAS[:2], SCHEMAS[4], {"enum": ["qed", "the long way round", 17]}], ids=str)
@pytest.mark.parametrize("ends", [[], [b"~"]], ids=repr)
def test_plenty_where_some_bytes_are_no_tokens(schema, ends):
    tokens = [*FEW_BYTES, b"qe", b'"}', b" }", b'": ']
    vocab = Vocabulary.from_tokens([*tokens, b""], [len(tokens)])
    grammar = GrammarCompiler(vocab, cache_dir=None).compile_json_schema(schema)
    stops = [len(tokens), *map(tokens.index, ends)]  # an end token that has bytes is no text
    rng = random.Random(2)
    n_far = n_steps = 0
    for n in range(6):
        matcher = GrammarMatcher(grammar, stop_token_ids=stops)
        needed = matcher.num_tokens_to_complete()
        walk(matcher.fork(), needed + 5 * n, rng)
        while not matcher.is_terminated() and matcher.n_entries < 40:
            n_steps += 1
            n_far += matcher.is_far_from(10**6)
            plenty = matcher.budget.enough(*matcher.place[:2]) + 1
            for token in rng.sample(sorted(allowed(matcher)), 1):
                assert matcher.accept_token(token)
                assert matcher.num_tokens_to_complete() <= plenty - 1
    assert n_far > n_steps / 2


def test_what_a_token_may_ask_for_is_no_plenty():
    """One token chooses between arrays of three distinct items and of 600."""
    arrays = [
        {"type": "array", "items": {"type": t}, "uniqueItems": True, "minItems": n}
        for t, n in (("integer", 3), ("string", 600))
    ]
    grammar = GrammarCompiler(vocabulary(BYTES), cache_dir=None, whitespace="compact").compile_json_schema(
        {"anyOf": arrays}
    )
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_token(ord("["))
    assert ord('"') in allowed(matcher) and ord('"') not in allowed(matcher, 400)
    assert ord('"') in allowed(matcher, 100_000)
    assert matcher.accept_token(ord("1")) and matcher.num_tokens_to_complete() <= 398


def _distinct(items, least=2, **more):
    return {"type": "array", "items": items, "uniqueItems": True, "minItems": least, **more}


DISTINCT = {
    "few long ones": _distinct({"type": "string", "pattern": "^[xy](1|1{300})$"}, maxItems=4),
    "enum": _distinct({"enum": ["a", "b" * 200, {"c": [1]}, None, 12, "d" * 50]}, 3),
    "integers": _distinct({"type": "integer"}, 3),
    "numbers": _distinct({"type": "number"}),
    "integers or texts": _distinct({"type": ["integer", "string"]}, 4),
    "one letter": _distinct({"type": "string", "pattern": "^a*$"}, 3),
    "objects": _distinct({"type": "object", "properties": {"k": {"enum": ["x", "y"]}, "n": {"type": "integer"}}, "required": ["k"]}),
    "arrays": _distinct(_distinct({"type": "string"}, 1), 3),
    "among members": {"type": "object", "properties": {"a": _distinct({"pattern": "^z+$", "type": "string"}), "b": {"const": 1}},
                      "required": ["a", "b"]},
    "keys": {"type": "object", "minProperties": 3, "additionalProperties": _distinct({"enum": [1, 22, 333]}, 1)},
}  # fmt: skip


@pytest.mark.parametrize("layout", [{}, {"whitespace": "compact"}, {"indent": 1}], ids=str)
@pytest.mark.parametrize("name", DISTINCT)
def test_plenty_where_items_have_to_differ(name, layout):
    """Whichever token comes, with as many as count as plenty the text can be ended."""
    tokens = [
        *BYTES,
        b'","',
        b'", "',
        b",0",
        b",1",
        b", -",
        b'"}',
        b'1"',
        b'1","',
        b'":',
        b'":["',
        b'"],"',
        b"],[",
        b",1,",
        b"1e",
    ]
    compiler = GrammarCompiler(vocabulary(tokens), cache_dir=None, **layout)
    grammar = compiler.compile_json_schema(DISTINCT[name])
    rng = random.Random(name)
    for _ in range(4):
        matcher, known = GrammarMatcher(grammar), 0
        while not matcher.is_terminated() and matcher.n_entries < 40:
            enough = matcher.budget.enough(*matcher.place[:2])
            may = sorted(allowed(matcher))
            if enough < NEVER:
                known += 1
                for token in rng.sample(may, min(len(may), 12)):
                    after = matcher.fork()
                    assert after.accept_token(token), tokens[token]
                    assert after.num_tokens_to_complete() <= enough
                assert allowed(matcher, enough + 1) >= set(may)
            assert matcher.accept_token(rng.choice([token for token in may if token >= len(BYTES)] or may))
        assert known > 0.9 * matcher.n_entries


KEYS = {
    "oneOf": [
        {"not": {"patternProperties": {"a": {"not": {"type": "object", "not": {"patternProperties": {"c": {"not": {"const": "9"}}}}}}}}},
        {"required": ["x", "y", "z"]},
    ],
    "type": "object",
}  # fmt: skip
"""One of the shortest texts has an undeclared key, in its value another one; most keys bring no end nearer."""
WALKED = {**DISTINCT, "keys of which some matter": KEYS}


@pytest.mark.parametrize("name", WALKED)
def test_walks_where_items_have_to_differ(name):
    tokens = [*BYTES, b'","', b'", "', b"],[", b"111", b'1"']
    grammar = GrammarCompiler(vocabulary(tokens), cache_dir=None, whitespace="compact").compile_json_schema(
        WALKED[name]
    )
    rng = random.Random(name)
    for more in (0, 1, 5, 50, 300):
        matcher = GrammarMatcher(grammar)
        left = matcher.num_tokens_to_complete() + more
        while not matcher.is_terminated():
            may = sorted(allowed(matcher, left))
            assert matcher.accept_token(rng.choice(may))
            left -= 1
            assert matcher.num_tokens_to_complete() <= left


@pytest.mark.parametrize(
    ("schema", "needed"),
    [({"minProperties": 20_000}, None), ({"anyOf": [{"type": "null"}, {"minProperties": 3_000, "type": "object"}]}, 5)],
    ids=json.dumps,
)
def test_what_is_too_hard_is_said_and_not_tried_again(schema, needed):
    grammar = GrammarCompiler(vocabulary(BYTES), cache_dir=None).compile_json_schema(
        {"type": ["object", "null"], **schema}
    )
    if needed is not None:
        assert GrammarMatcher(grammar).num_tokens_to_complete() == needed
        return
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_bytes(b"{")
    with pytest.raises(LimitExceeded) as first:
        matcher.num_tokens_to_complete()
    with pytest.raises(LimitExceeded) as second:
        matcher.num_tokens_to_complete()
    assert second.value is first.value


def test_long_texts_of_patterns_are_found():
    grammar = GrammarCompiler(vocabulary(BYTES), cache_dir=None).compile_regex(".{8000}")
    assert GrammarMatcher(grammar).num_tokens_to_complete() == 8001


def test_a_vocabulary_that_cannot_spell_every_text():
    """The shortest text in bytes has no tokens here, a longer one has."""
    grammar = GrammarCompiler(vocabulary([b"long", b"er", b"x"]), cache_dir=None).compile_regex("ab|longer|longx{9}")
    matcher = GrammarMatcher(grammar)
    assert matcher.num_tokens_to_complete() == 3 and allowed(matcher, 3) == {0}
    assert (
        matcher.accept_token(0)
        and allowed(matcher, 2) == {1}
        and allowed(matcher, 9) == {1}
        and allowed(matcher, 10) == {1, 2}
    )
    matcher = GrammarMatcher(GrammarCompiler(vocabulary([b"y"]), cache_dir=None).compile_regex("x"))
    with pytest.raises(VocabularyError, match="single bytes"):
        matcher.num_tokens_to_complete()
    schema = {"type": "object", "properties": {"a": {"enum": ["b", "long"]}}, "required": ["a"]}
    grammar = GrammarCompiler(vocabulary([b'{"a"', b":", b'"long', b'"}']), cache_dir=None).compile_json_schema(schema)
    assert GrammarMatcher(grammar).num_tokens_to_complete() == 5


def test_what_counts_as_text_and_as_end():
    vocab = Vocabulary.from_tokens([b"a", b"b", b"ab", b""], [3])
    grammar = GrammarCompiler(vocab, cache_dir=None).compile_regex("(ab)+")
    assert GrammarMatcher(grammar).num_tokens_to_complete() == 2
    stops = GrammarMatcher(grammar, stop_token_ids=[2])  # then it is no text
    assert stops.num_tokens_to_complete() == 3 and allowed(stops, 3) == {0}
    assert stops.accept_token(0) and stops.accept_token(1) and allowed(stops, 1) == {2}
    endless = GrammarMatcher(grammar, stop_token_ids=[])
    assert endless.num_tokens_to_complete() == 1 and allowed(endless, 1) == {2}
    done = GrammarMatcher(grammar)
    assert done.accept_token(2) and done.num_tokens_to_complete() == 1 and allowed(done, 1) == {3}
    with pytest.raises(BudgetExceeded):
        allowed(done, 0)
    assert done.accept_token(3) and done.num_tokens_to_complete() == 0 and allowed(done, 0) == {3}


def test_nothing_is_written_when_it_is_not_enough():
    grammar = GrammarCompiler(vocabulary(TOKENS), cache_dir=None).compile_regex("a{9}")
    matcher, mask = GrammarMatcher(grammar), allocate_token_bitmask(2, len(TOKENS) + 1)
    before = mask.copy()
    with pytest.raises(BudgetExceeded) as caught:
        matcher.fill_next_token_bitmask(mask, 1, max_tokens=2)
    assert (caught.value.max_tokens, caught.value.needed) == (2, 4) and (mask == before).all()
    with pytest.raises(BudgetExceeded):
        fill_bitmask_batch([None, matcher], mask, max_tokens=[None, 3])
    assert (mask == before).all()
    with pytest.raises(TypeError):
        matcher.fill_next_token_bitmask(mask, max_tokens="9")
    with pytest.raises(ValueError, match="as many budgets"):
        fill_bitmask_batch([matcher], mask, max_tokens=[1, 2])


def test_batches_are_the_rows_one_by_one():
    grammar = GrammarCompiler(vocabulary(TOKENS), cache_dir=None).compile_regex("(a{3})*b")
    matchers = [GrammarMatcher(grammar) for _ in range(4)]
    assert (
        matchers[1].accept_bytes(b"a") and matchers[3].accept_bytes(b"aaab") and matchers[3].accept_token(len(TOKENS))
    )
    budgets = [2, 3, None, 0]
    batch, single = (allocate_token_bitmask(4, len(TOKENS) + 1) for _ in range(2))
    fill_bitmask_batch(matchers, batch, max_tokens=budgets)
    for row, (matcher, left) in enumerate(zip(matchers, budgets, strict=True)):
        matcher.fill_next_token_bitmask(single, row, left)
    assert (batch == single).all()


def test_whole_indexes():
    grammar = GrammarCompiler(vocabulary(TOKENS), cache_dir=None).compile_regex("(a{3})*b")
    lazy = GrammarMatcher(grammar)
    grammar.build_index()
    whole = GrammarMatcher(grammar)
    for left in range(2, 6):
        assert allowed(lazy, left) == allowed(whole, left)


@pytest.mark.skipif(not (SHARED / "data").exists(), reason="no ../shared beside this checkout")
def test_walks_over_real_schemas():
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "budget_walks.py"
    done = subprocess.run(
        [sys.executable, str(script), "--walks", "100", "--seed", "7", "--no-compare"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100 walks, all complete and in budget" in done.stdout, done.stdout


def test_many_items_that_have_to_differ_are_not_written_out_for_ever(monkeypatch):
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 20}
    monkeypatch.setattr(budget_module, "MAX_SECONDS", 0)
    vocab = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), b""], eos_token_ids=[256])
    matcher = GrammarMatcher(GrammarCompiler(vocab, cache_dir=None).compile_json_schema(schema))
    for _ in range(2):
        with pytest.raises(LimitExceeded, match="max_seconds=0"):
            matcher.num_tokens_to_complete()
    assert matcher.accept_bytes(b"[1")
    matcher.fill_next_token_bitmask(allocate_token_bitmask(1, vocab.size))
