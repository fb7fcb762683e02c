"""Grammars put together by ``+`` and ``|``, however they overlap: texts, masks and all that a matcher can, against brute force."""

from __future__ import annotations

import itertools
import random
import re

import lark
import numpy as np
import pytest

import fsmc
from tests.grammar_examples import EXAMPLES
from tests.test_grammars_beside_patterns import PATTERNS, TEXTS, Rules, random_rules, short_texts, written
from tests.tokens.mask_oracles import row_tokens

TOKENS = [b"a", b"b", b"ab", b"ba", b"aab", b"bb", b"bba", b"abab", b"c", b""]
VOCAB = fsmc.Vocabulary.from_tokens(TOKENS, eos_token_ids=[9])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)
PAIRS = 'root ::= "a" root "b" | ""'
PALINDROMES = 'root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""'
LONGEST = 6


def pairs(text: str) -> bool:
    n = len(text) // 2
    return text == "a" * n + "b" * n


def palindrome(text: str) -> bool:
    return text == text[::-1]


def sums(first: set[str], second: set[str], longest: int = LONGEST) -> set[str]:
    return {x + y for x in first for y in second if len(x + y) <= longest}


def allowed(grammar: fsmc.CompiledGrammar, texts: list[str] = TEXTS) -> set[str]:
    return {text for text in texts if grammar.machine.matches(text.encode())}


PARTS = {
    "a* ": (COMPILER.compile_regex("a*"), lambda text: not text.strip("a")),
    "b*": (COMPILER.compile_regex("b*"), lambda text: not text.strip("b")),
    "(a|bb)+": (COMPILER.compile_regex("(a|bb)+"), lambda text: bool(re.fullmatch("(a|bb)+", text))),
    "pairs": (COMPILER.compile_grammar(PAIRS), pairs),
    "palindromes": (COMPILER.compile_grammar(PALINDROMES), palindrome),
    "lists": (COMPILER.compile_grammar('root ::= root root root | "a" | root root'), lambda text: set(text) == {"a"}),
}


@pytest.mark.parametrize(("first", "second"), [*itertools.product(PARTS, PARTS)])
def test_sums_of_two(first: str, second: str) -> None:
    (a, in_a), (b, in_b) = PARTS[first], PARTS[second]
    texts = ({t for t in TEXTS if in_x(t)} for in_x in (in_a, in_b))
    assert allowed(a + b) == sums(*texts)
    assert allowed(a | b) == {t for t in TEXTS if in_a(t) or in_b(t)}


@pytest.mark.parametrize("seed", range(30))
def test_random_sums(seed: int) -> None:
    rng = random.Random(seed)
    compiled: list[tuple[fsmc.CompiledGrammar, set[str]]] = []
    while len(compiled) < 3:
        if rng.random() < 0.3:
            pattern = rng.choice(PATTERNS)
            ours = {text for text in TEXTS if re.fullmatch(pattern, text)}
            compiled.append((COMPILER.compile_regex(pattern), ours))
            continue
        rules: Rules = random_rules(rng)
        try:
            compiled.append((COMPILER.compile_grammar(written(rules)), short_texts(rules)))
        except fsmc.EmptyLanguageError:
            continue
    (a, x), (b, y), (c, z) = compiled
    expected = sums(sums(x, y), z)
    assert allowed((a + b) + c) == allowed(a + (b + c)) == expected
    assert allowed((a | b) + (b | c)) == sums(x | y, y | z)
    check_masks((a + b) + c, expected, seed)


def check_masks(grammar: fsmc.CompiledGrammar, texts: set[str], seed: int) -> None:
    """Each mask along a walk against the texts, as far as these are known; jumps, copies and going back on the way."""
    beginnings = {text[:n] for text in texts for n in range(len(text) + 1)}
    rng, matcher = random.Random(seed), fsmc.GrammarMatcher(grammar)
    mask, text = fsmc.allocate_token_bitmask(1, VOCAB.size), ""
    for _ in range(8):
        matcher.fill_next_token_bitmask(mask)
        tokens = row_tokens(np.asarray(mask[0]))
        assert (9 in tokens) == (text in texts) == matcher.is_completed() == grammar.machine.matches(text.encode())
        for token in range(9):
            after = text + TOKENS[token].decode()
            if after in beginnings:
                assert token in tokens, (text, token)
            copy = matcher.fork()
            assert copy.accept_token(token) == (token in tokens)
            if token in tokens and token == tokens[0]:
                assert ended(copy, copy.num_tokens_to_complete() + 1, rng), text
        jump = matcher.find_jump_forward_string()
        if jump and text in beginnings:
            assert all(
                t[len(text) :].startswith(jump) or jump.startswith(t[len(text) :]) for t in texts if t.startswith(text)
            )
        choices = [t for t in tokens if t != 9 and len(text) + len(TOKENS[t]) < LONGEST]
        if not choices:
            return
        token = rng.choice(choices)
        assert matcher.accept_token(token)
        matcher.rollback(1)
        assert matcher.accept_token(token)
        text += TOKENS[token].decode()


def ended(matcher: fsmc.GrammarMatcher, max_tokens: int, rng: random.Random) -> bool:
    """Whether the end is reached within a budget."""
    mask = fsmc.allocate_token_bitmask(1, VOCAB.size)
    while max_tokens:
        matcher.fill_next_token_bitmask(mask, max_tokens=max_tokens)
        token = rng.choice(row_tokens(np.asarray(mask[0])))
        assert matcher.accept_token(token)
        if token == 9:
            return True
        max_tokens -= 1
    return False


def test_long_sums_do_not_nest() -> None:
    whole, one = COMPILER.compile_grammar(PAIRS), COMPILER.compile_grammar('root ::= "(" root ")" | "x"')
    for _ in range(250):
        whole += one
    assert whole.machine.matches(b"aabb" + b"((x))" * 250) and not whole.machine.matches(b"ab" + b"x" * 249)


def test_sums_go_on_into_everything_else() -> None:
    a = COMPILER.compile_grammar(PAIRS) + COMPILER.compile_regex("a*")
    short = a & COMPILER.compile_regex(".{0,4}")
    assert allowed(short) == {"", "a", "aa", "aaa", "aaaa", "ab", "aba", "abaa", "aabb"}
    assert (COMPILER.compile_grammar(PAIRS)).subset_of(COMPILER.compile_regex("a*b*"))
    assert (
        a.subset_of(COMPILER.compile_regex("a*b*a*")) and a.subset_of(COMPILER.compile_regex("a*b*")).witness == b"aba"
    )
    null = COMPILER.compile_json_schema({"type": "null"})
    assert (a + null).machine.matches(b"aabba null") and not (a + null).machine.matches(b"aab null")


def test_a_value_in_a_grammar_in_a_sum() -> None:
    value = COMPILER.compile_grammar('start: "<" %json {"type": "object", "required": ["x"]} ">"', syntax="lark")
    whole = COMPILER.compile_grammar(PAIRS) + (value + value)
    assert whole.machine.matches(b'ab<{"x": 1}><{"x": []}>') and not whole.machine.matches(b'ab<{"x": 1}><{}>')
    number = COMPILER.compile_grammar('start: "=" %json {"type": "integer"}', syntax="lark")
    with pytest.raises(fsmc.ConstraintError, match="a number of the schema and what follows it") as error:
        COMPILER.compile_grammar(PAIRS) + (number + COMPILER.compile_regex("[0-9]"))
    assert "%json" in str(error.value)


@pytest.mark.parametrize(("first", "second"), [("json", "json"), ("arithmetic", "arithmetic"), ("lisp", "json")])
def test_sums_of_real_grammars_against_lark(first: str, second: str) -> None:
    """Two texts one after the other, also where the first could go on with what begins the second."""
    rng, grammars = random.Random(1), [EXAMPLES[first], EXAMPLES[second]]
    a, b = (COMPILER.compile_grammar(example.ebnf) for example in grammars)
    parsers = [lark.Lark(example.lark, parser="earley", lexer="dynamic_complete") for example in grammars]

    def parses(number: int, text: str) -> bool:
        try:
            parsers[number].parse(text)
        except lark.exceptions.LarkError:
            return False
        return True

    whole, n_accepted = a + b, 0
    for x, y in itertools.product(*((*example.accepted, *example.rejected) for example in grammars)):
        text = x + y
        if rng.random() < 0.5 or len(text) > 24:
            continue
        expected = any(parses(0, text[:i]) and parses(1, text[i:]) for i in range(len(text) + 1))
        assert whole.machine.matches(text.encode()) == expected, text
        n_accepted += expected
    assert n_accepted > 5


def test_a_grammar_without_end_in_a_sum_is_seen_at_once() -> None:
    """The sum is no grammar: what one stack after the other would be looked at for, up to the limit of time."""
    schema = COMPILER.compile_json_schema({"type": "array", "items": {"type": "null"}, "maxItems": 2})
    lists = schema & COMPILER.compile_grammar('root ::= "[" (root ("," root)*)? "]" | "null"')
    palindromes = COMPILER.compile_grammar('root ::= "a" root "a" | "b" root "b" | "a" | ""')
    whole = palindromes + lists
    pattern = COMPILER.compile_regex("(a|b)*(null)?|x*")
    with pytest.raises(fsmc.ConstraintError, match="read in ever more ways"):
        whole | pattern
    witness = whole.subset_of(pattern).witness
    assert witness is not None and whole.machine.matches(witness) and not pattern.machine.matches(witness)
    assert (whole & COMPILER.compile_regex(".{0,5}")).machine.matches(b"bab[]")
