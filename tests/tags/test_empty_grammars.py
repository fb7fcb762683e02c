"""Grammars that may be empty, inside structural tags and sums: the empty text counts, alone and beside what follows."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import fsmc

VOCAB = fsmc.Vocabulary.from_tokens([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)
TEXTS = ["".join(letters) for n in range(6) for letters in itertools.product("()ab", repeat=n)]


def random_grammar(seed: int) -> str:
    """Two rules over four letters, which may be empty more often than not."""
    rng = random.Random(seed)

    def part(names: str) -> str:
        kind = rng.random()
        if kind < 0.35:
            return f'"{rng.choice("ab")}"'
        if kind < 0.6:
            return f'"(" {rng.choice(names)} ")"'
        if kind < 0.7:
            return '""'
        return f"{rng.choice(names[-1:])}{rng.choice(['*', '?', ''])}"

    rules = []
    for name, names in (("root", "xx"), ("x", "rx")):
        alternatives = [" ".join(part(names) for _ in range(rng.randrange(1, 3))) for _ in range(rng.randrange(1, 3))]
        rules.append(f"{name} ::= " + " | ".join([*alternatives, *(['""'] if rng.random() < 0.5 else [])]))
    return "\n".join(rules).replace(" r ", " root ").replace(" r*", " root*")


def same(compiled: fsmc.CompiledGrammar, expected: set[str], around: tuple[str, str]) -> None:
    before, behind = around
    found = {text for text in TEXTS if compiled.machine.matches(f"{before}{text}{behind}".encode())}
    assert found == expected, (compiled.source, sorted(found ^ expected)[:5])


def test_random_grammars_in_every_place() -> None:
    n_empty = n_tried = 0
    for seed in range(150):
        text = random_grammar(seed)
        try:
            alone = COMPILER.compile_grammar(text)
        except fsmc.FsmcError:
            continue
        expected = {t for t in TEXTS if alone.machine.matches(t.encode())}
        node: dict[str, Any] = {"type": "grammar", "grammar": text}
        literal = {"type": "const_string", "value": "<"}
        integer = {"type": "json_schema", "json_schema": {"type": "integer"}}
        for tag, around in (
            (node, ("", "")),
            ({"type": "tag", "begin": "<", "content": node, "end": ">"}, ("<", ">")),
            ({"type": "sequence", "elements": [literal, node]}, ("<", "")),
            ({"type": "sequence", "elements": [node, literal]}, ("", "<")),
            ({"type": "or", "elements": [node, literal]}, ("", "")),
            ({"type": "sequence", "elements": [integer, node]}, ("12", "")),
            ({"type": "sequence", "elements": [node, integer]}, ("", "12")),
            (
                {"type": "tag", "begin": "<", "content": {"type": "or", "elements": [node, literal]}, "end": ">"},
                ("<", ">"),
            ),
        ):
            try:
                compiled = COMPILER.compile_structural_tag(tag)
            except (fsmc.ConstraintError, fsmc.LimitExceeded):
                continue
            same(compiled, expected, around)
            n_tried += 1
            n_empty += "" in expected
    assert n_tried > 300 and n_empty > 100, (n_tried, n_empty)


NESTED = 'root ::= "(" root ")" | ""'


def accepts(compiled: fsmc.CompiledGrammar, yes: list[str], no: list[str]) -> None:
    for text in yes + no:
        assert compiled.machine.matches(text.encode()) == (text in yes), text


def test_empty_grammars_behind_each_other_and_beside_values() -> None:
    one, other = ({"type": "grammar", "grammar": NESTED.replace("(", a).replace(")", b)} for a, b in ("()", "[]"))
    integer, boolean = ({"type": "json_schema", "json_schema": {"type": kind}} for kind in ("integer", "boolean"))
    both = COMPILER.compile_structural_tag({"type": "sequence", "elements": [one, other, boolean]})
    accepts(both, ["true", "()true", "[[]]true", "(())[]true"], ["", "[]()true", "()", "(true"])
    beside = COMPILER.compile_structural_tag({"type": "sequence", "elements": [integer, one, other, boolean]})
    accepts(beside, ["1true", "-7()true", "1[]true", "10()[]false"], ["1", "1()", "true"])
    either = {"type": "or", "elements": [one, other]}
    accepts(
        COMPILER.compile_structural_tag({"type": "tag", "begin": "<", "content": either, "end": ">"}),
        ["<>", "<()>", "<[[]]>"],
        ["<", "<()[]>", "<)>"],
    )
    with pytest.raises(fsmc.ConstraintError, match=r"begins with '\('"):
        COMPILER.compile_structural_tag({"type": "sequence", "elements": [one, one]})


def test_sums() -> None:
    nested = COMPILER.compile_grammar(NESTED)
    accepts(nested + COMPILER.compile_regex("x"), ["x", "()x", "(())x"], ["", "()", "(x"])
    accepts(COMPILER.compile_regex("[ab]{0,4}") + nested, ["", "aba", "ab()", "(())"], ["ab(", "ababa"])


def test_masks_behind_an_empty_grammar() -> None:
    tokens = [b"<", b">", b"(", b")", b"<>", b"<(", b")>", b"()", b"<()>", b""]
    vocab = fsmc.Vocabulary.from_tokens(tokens, eos_token_ids=[9])
    tag = {"type": "tag", "begin": "<", "content": {"type": "grammar", "grammar": NESTED}, "end": ">"}
    compiled = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_structural_tag(tag)
    matcher = fsmc.GrammarMatcher(compiled)
    assert compiled.masks.allowed_token_ids(compiled.machine.start).tolist() == [0, 4, 5, 8]
    assert matcher.accept_token(0) and [t for t in range(9) if matcher.fork().accept_token(t)] == [1, 2, 7]
