"""Grammars that are read in ever more ways, whose machines have no end, beside patterns: as grammars, so exactly."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import fsmc
from fsmc.compiler import algebra
from fsmc.compiler.automata.algebra import all_bytes
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.cfg import beside, joined
from fsmc.compiler.cfg.machine import GrammarMachine
from fsmc.compiler.cfg.recipe import GrammarRecipe

VOCAB = fsmc.Vocabulary.from_tokens([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)
TEXTS = ["".join(letters) for n in range(7) for letters in itertools.product("ab", repeat=n)]
ENDLESS = 'root ::= root "b" n1 | ""\nn1 ::= "b" root "a" | "b" "b"'
PATTERNS = ["a", "b*", "[ab]*", "[ab]{0,3}", "(ab)*", "a*b*", "([ab]{2})*", "b[ab]*a", "(a|bb)*"]

Rules = dict[str, list[list[str]]]


def random_rules(rng: random.Random) -> Rules:
    names = ["root", "n1", "n2"][: rng.randint(1, 3)]
    letters = ["a", "b", "a", "b", *names, *names]
    return {
        name: [[rng.choice(letters) for _ in range(rng.choice([0, 1, 2, 2, 3, 3]))] for _ in range(rng.randint(1, 3))]
        for name in names
    }


def written(rules: Rules) -> str:
    def branch(parts: list[str]) -> str:
        return " ".join(f'"{part}"' if part in "ab" else part for part in parts) or '""'

    return "\n".join(f"{name} ::= {' | '.join(map(branch, branches))}" for name, branches in rules.items())


def short_texts(rules: Rules) -> set[str]:
    """The texts of up to six letters, by the rules' meaning."""
    found: dict[str, set[str]] = {name: set() for name in rules}
    n_before = -1
    while n_before != (n_before := sum(map(len, found.values()))):
        for name, branches in rules.items():
            for parts in branches:
                texts = {""}
                for part in parts:
                    more = {part} if part in "ab" else found[part]
                    texts = {x + y for x in texts for y in more if len(x + y) <= 6}
                found[name] |= texts
    return found["root"]


def allowed(machine: fsmc.CompiledGrammar | GrammarMachine) -> set[str]:
    rsm = machine.rsm if isinstance(machine, GrammarMachine) else machine.machine
    return {text for text in TEXTS if rsm.matches(text.encode())}


def network_of(rules: Rules) -> beside.Network | None:
    try:
        machine = GrammarRecipe(written(rules)).build()
    except fsmc.EmptyLanguageError:
        return None
    return algebra.network_of(machine)


def dfa_of(pattern: str) -> DFA:
    dfa = COMPILER.compile_regex(pattern).dfa
    assert dfa is not None
    return dfa


def test_a_grammar_whose_machine_has_no_end() -> None:
    a, b = COMPILER.compile_grammar(ENDLESS), COMPILER.compile_regex("a")
    assert a.subset_of(b).witness == b"" and (a - COMPILER.compile_regex("")).subset_of(b).witness in (b"bba", b"bbb")
    assert allowed(a | b) == allowed(a) | {"a"} and allowed(a - b) == allowed(a)
    threes, anything = COMPILER.compile_regex("([ab]{3})*"), COMPILER.compile_regex("[ab]*")
    assert a.subset_of(threes) and a.subset_of(anything) and allowed(a & threes) == allowed(a)
    with pytest.raises(fsmc.EmptyLanguageError):
        a - threes
    again = (a & threes) | b
    assert allowed((again & COMPILER.compile_regex("a|b{3}")) | b) == {"a", "bbb"}


@pytest.mark.parametrize("seed", range(40))
def test_random_grammars(seed: int) -> None:
    rng = random.Random(seed)
    rules, pattern = random_rules(rng), rng.choice(PATTERNS)
    network = network_of(rules)
    if network is None:
        assert not short_texts(rules) or GrammarRecipe(written(rules)).build()
        return
    texts, dfa = short_texts(rules), dfa_of(pattern)
    ours = {text for text in TEXTS if re.fullmatch(pattern, text)}
    assert allowed(GrammarMachine(joined.union(network, joined.of_dfa(dfa)))) == texts | ours
    both = beside.Beside(network, dfa)
    found, witness = both.intersection(), both.shortest()
    if texts & ours:
        assert witness is not None and witness.decode() in texts & ours
        assert len(witness) == min(map(len, texts & ours))
    assert (found is None) == (witness is None)
    assert (allowed(GrammarMachine(found)) if found is not None else set()) == texts & ours


def test_what_is_generated_can_be_completed() -> None:
    combined = COMPILER.compile_grammar(ENDLESS) - COMPILER.compile_regex("([ab]{6})*")
    for seed in range(5):
        matcher, rng, text = fsmc.GrammarMatcher(combined), random.Random(seed), b""
        for _ in range(40):
            mask = fsmc.allocate_token_bitmask(1, 257)
            matcher.fill_next_token_bitmask(mask)
            tokens = [token for token in range(257) if mask[0, token >> 5] >> (token & 31) & 1]
            assert tokens, text
            token = rng.choice(tokens)
            assert matcher.accept_token(token)
            if token == 256:
                assert combined.machine.matches(text) and len(text) % 6
                break
            text += bytes((token,))


def test_limits() -> None:
    network = network_of({"root": [["root", "b", "root"], ["a", "root", "b"], []]})
    assert network is not None
    with pytest.raises(fsmc.LimitExceeded, match="max_pairs=3 "):
        beside.Beside(network, all_bytes(), max_places=3)
    with pytest.raises(fsmc.LimitExceeded, match="max_seconds=0 "):
        beside.Beside(network, all_bytes(), max_seconds=0).intersection()


def test_a_very_long_shortest_text() -> None:
    """Each rule is the one before twice, so that no recursion over it, nor over its length, would do."""
    lines = ["root ::= r12 | root root"] + [f"r{i} ::= r{i - 1} r{i - 1}" for i in range(1, 13)]
    network = algebra.network_of(GrammarRecipe("\n".join([*lines, 'r0 ::= "a" r0 "b" | "ab"'])).build())
    assert network is not None
    assert beside.Beside(network, all_bytes()).shortest() == b"ab" * 4096
