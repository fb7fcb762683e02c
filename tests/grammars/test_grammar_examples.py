"""Eight grammars: tables of texts, random derivations, mutations with lark's Earley parser as oracle, masks by brute force."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from grammar_examples import EXAMPLES, JSON
from grammar_oracles import Derivations, mutated
from tokens.mask_oracles import real_vocabulary, row_tokens

import fsmc
from fsmc.compiler.automata.recursion import Configuration, RecursiveMachine
from fsmc.compiler.cfg.recipe import GrammarRecipe, Syntax

lark = pytest.importorskip("lark", reason="pip install '.[test]'")

BOTH: tuple[Syntax, ...] = ("ebnf", "lark")


def recipe(name: str, syntax: Syntax) -> GrammarRecipe:
    return GrammarRecipe(getattr(EXAMPLES[name], syntax))


@pytest.mark.parametrize("syntax", BOTH)
@pytest.mark.parametrize("name", EXAMPLES)
def test_tables(name: str, syntax: Syntax) -> None:
    machine = recipe(name, syntax).build()
    assert [text for text in EXAMPLES[name].accepted if not machine.matches(text.encode())] == []
    assert [text for text in EXAMPLES[name].rejected if machine.matches(text.encode())] == []


@pytest.mark.parametrize("syntax", BOTH)
@pytest.mark.parametrize("name", EXAMPLES)
def test_random_derivations_are_accepted(name: str, syntax: Syntax) -> None:
    example = recipe(name, syntax)
    machine, derivations = example.build(), Derivations(example.tree, seed=1)
    texts = {derivations.text(random.Random(i).choice((5, 30, 120))) for i in range(80)}
    assert len(texts) > 20
    assert [text for text in texts if not machine.matches(text)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_mutations_are_judged_as_lark_does(name: str) -> None:
    text = EXAMPLES[name].lark
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete", ambiguity="resolve")
    machine, derivations, chance = (
        recipe(name, "lark").build(),
        Derivations(recipe(name, "lark").tree, 2),
        random.Random(3),
    )
    derived = [d.decode() for d in (derivations.text(chance.choice((2, 10, 25))) for _ in range(60)) if len(d) < 60]
    texts = [*filter(lambda t: len(t) < 60, EXAMPLES[name].accepted), *derived]
    alphabet = "".join(sorted(set("".join(texts)) | set("()[]{}<>,;.'\" \n0aA")))
    outcomes = []
    for _ in range(150):
        candidate = mutated(chance.choice(texts), alphabet, chance)
        outcomes.append(parses(parser, candidate))
        assert machine.matches(candidate.encode()) == outcomes[-1], candidate
    assert 5 < sum(outcomes) < 145  # both kinds occur


def parses(parser: lark.Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


@pytest.mark.parametrize("name", EXAMPLES)
def test_masks_by_brute_force(name: str) -> None:
    """At some places of a text: the tokens that can be read whole, and nothing else."""
    vocab = real_vocabulary()
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_grammar(EXAMPLES[name].ebnf)
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    text = max(EXAMPLES[name].accepted, key=len).encode()[:44]
    tokens = sorted((vocab.token(i), i) for i in range(vocab.size) if vocab.token(i))
    stops = set(vocab.eos_token_ids)
    for end in range(0, len(text) + 1, 11):
        matcher = fsmc.GrammarMatcher(grammar)
        assert matcher.accept_bytes(text[:end])
        matcher.fill_next_token_bitmask(mask)
        expected = sorted(readable(grammar.machine, matcher.configuration, tokens))
        assert [token for token in row_tokens(mask[0]) if token not in stops] == expected
        assert (set(row_tokens(mask[0])) & stops != set()) == grammar.machine.matches(text[:end])


def readable(machine: RecursiveMachine, here: Configuration, tokens: list[tuple[bytes, int]]) -> list[int]:
    """The ids of the tokens, sorted by their bytes, that the reference semantics reads; what neighbours share is run once."""
    path: list[Configuration | None] = [here]
    previous, found = b"", []
    for token, number in tokens:
        shared = 0
        while shared < min(len(previous), len(token)) and previous[shared] == token[shared]:
            shared += 1
        del path[shared + 1 :]
        for byte in token[len(path) - 1 :]:
            last = path[-1]
            path.append(None if last is None else machine.step(last, byte))
        previous = token
        if path[-1] is not None:
            found.append(number)
    return found


def test_the_json_grammar_accepts_what_the_schema_of_any_json_accepts() -> None:
    vocab = fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    # the same layout: no white space, which the schema allows at most 40 characters of, and DEL, which JSON allows
    text = JSON.ebnf.replace("[ \\t\\n\\r]*", '""').replace("\\x7F", "")
    grammar, schema = compiler.compile_grammar(text).machine, GrammarlessSchema(compiler)
    chance = random.Random(4)
    derivations = Derivations(GrammarRecipe(text).tree, 5)
    outcomes = []
    for _ in range(400):
        candidate = derivations.text(chance.choice((5, 30))).decode()
        if chance.random() < 0.6:
            candidate = mutated(candidate, '{}[]",:0123456789-+.eEtrufalsn\\é\n', chance)
        outcomes.append(is_json(candidate))
        assert grammar.matches(candidate.encode()) == outcomes[-1], candidate
        if not outcomes[-1]:
            assert not schema.matches(candidate.encode()), candidate
        else:  # keys twice in an object, and other ways to write the same, are refused by the schema
            canonical = json.dumps(json.loads(candidate), separators=(",", ":"), ensure_ascii=False)
            if is_utf8(canonical) and "Infinity" not in canonical:  # 1e999 is one for Python
                assert grammar.matches(canonical.encode()) and schema.matches(canonical.encode()), canonical
    assert 50 < sum(outcomes) < 390


def is_utf8(text: str) -> bool:
    return not any(0xD800 <= ord(c) <= 0xDFFF for c in text)


class GrammarlessSchema:
    """The machine of any JSON value, without white space."""

    def __init__(self, compiler: fsmc.GrammarCompiler) -> None:
        compact = fsmc.GrammarCompiler(compiler.vocab, cache_dir=None, whitespace="compact")
        self.machine = compact.compile_json_schema(True).machine

    def matches(self, text: bytes) -> bool:
        return self.machine.matches(text)


def is_json(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    outside = "".join(
        part for i, part in enumerate(text.replace("\\\\", "").replace('\\"', "").split('"')) if i % 2 == 0
    )
    return not any(c in " \t\n\r" for c in outside)


def test_a_matcher_of_a_grammar_jumps_rolls_back_and_forks() -> None:
    vocab = fsmc.Vocabulary.from_tokens([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_grammar(
        'root ::= "BEGIN " stmt " END"\nstmt ::= "a" stmt "a" | "b" stmt "b" | "pass"'  # ambiguous where the middle is
    )
    matcher = fsmc.GrammarMatcher(grammar)
    assert matcher.find_jump_forward_string() == "BEGIN "
    assert matcher.accept_bytes(b"BEGIN ab")
    other = matcher.fork()
    assert matcher.accept_bytes(b"p") and matcher.find_jump_forward_string() == "assba END"
    matcher.rollback(1)
    assert matcher.accept_bytes(b"apassaba END") and matcher.is_completed()
    assert not other.is_completed() and other.accept_bytes(b"passba END") and other.is_completed()
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    other.fill_next_token_bitmask(mask)
    assert row_tokens(mask[0]) == [256]
    assert np.count_nonzero(mask) == 1
