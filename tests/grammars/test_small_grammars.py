"""Small grammars, however nasty, against their language by brute force: accepted texts, beginnings, and no dead ends."""

from __future__ import annotations

import itertools
import random

import pytest
from grammar_oracles import language

from fsmc.compiler.automata.recursion import Configuration, RecursiveMachine
from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.errors import EmptyLanguageError

LONGEST = 7

SMALL = {
    "palindromes": 'root ::= "a" root "a" | "b" root "b" | "a" | ""',
    "three at once": 'root ::= root root root | "a"',
    "ambiguous": 'root ::= root root | "a" root "b" | "a" | "b"',
    "hidden left recursion": 'root ::= n root "a" | "b"\nn ::= "" | "a"',
    "all may be empty": 'root ::= x root | ""\nx ::= "" | "a" | y root\ny ::= x "b" | root',
    "cycle": 'root ::= a | "b"\na ::= root | a "a"',
    "indirect left recursion": 'root ::= a\na ::= b "a" | "b"\nb ::= a "b" | c\nc ::= a | "a"',
    "same beginning": 'root ::= x "a" | y "b"\nx ::= "a" x "b" | "b"\ny ::= "a" y "a" | "b"',
    "dangling": 'root ::= "a" root | "a" root "b" root | "b"',
    "ends and goes on": 'root ::= x root? \nx ::= "a" x "a" | "a" "b"? ',
    "dead alternative": 'root ::= "a" dead | "b" root "a" | "a"\ndead ::= "b" dead',
    "counted": 'root ::= ("a" root "b"){2,3} | "a"',
    "deep ends": 'root ::= "a" root | x\nx ::= "b" x "a" | "b" root "b" | "a"',
    "may be empty before itself": 'root ::= (x root)* "a"\nx ::= y?\ny ::= "b" y "a" | "b"',
    "two counters": 'root ::= x "b" | "a" y\nx ::= "a" x "b" | "a"\ny ::= "a" y "b" | "b" "b"',
}


@pytest.mark.parametrize("name", SMALL)
def test_small_grammars(name: str) -> None:
    compare(SMALL[name])


@pytest.mark.parametrize("seed", range(150))
def test_random_grammars(seed: int) -> None:
    compare(random_grammar(random.Random(seed)))


def random_grammar(chance: random.Random) -> str:
    """Two to four rules over a and b, with much recursion, empty texts and repetition."""
    names = ["root", "x", "y", "z"][: chance.randint(2, 4)]

    def item() -> str:
        kind = chance.random()
        text = chance.choice(['"a"', '"b"', '"ab"', '""', "[ab]"]) if kind < 0.5 else chance.choice(names)
        if kind > 0.95:
            text = f"({item()} | {item()})"
        return text + (chance.choice(["*", "+", "?", "{2}", "{1,2}"]) if chance.random() < 0.12 else "")

    lines = []
    for name in names:
        branches = [" ".join(item() for _ in range(chance.randint(1, 3))) for _ in range(chance.randint(1, 3))]
        lines.append(f"{name} ::= {' | '.join(branches)}")
    return "\n".join(lines)


def compare(text: str) -> None:
    recipe = GrammarRecipe(text)
    texts = language(recipe.tree, LONGEST)
    try:
        machine = recipe.build(max_seconds=20)
    except EmptyLanguageError:
        assert not texts, text
        return
    beginnings = {known[:i] for known in texts for i in range(len(known) + 1)}
    live: set[Configuration] = set()
    for n in range(LONGEST + 1):
        for letters in itertools.product("ab", repeat=n):
            candidate = "".join(letters)
            end = machine.run(candidate.encode())
            assert (end is not None and machine.is_complete(end)) == (candidate in texts), (text, candidate)
            assert end is not None or candidate not in beginnings, (text, candidate)
            if end is not None and candidate not in beginnings and n <= 4:
                live.add(end)  # a beginning of longer texts only, so it says
    for configuration in sorted(live)[:3]:
        assert can_be_completed(machine, configuration), (text, configuration)


def can_be_completed(machine: RecursiveMachine, start: Configuration) -> bool:
    """Whether some text completes a configuration: breadth first."""
    seen, pending = {start}, [start]
    for here in pending:  # grows as it goes
        if machine.is_complete(here):
            return True
        for byte in b"ab":
            there = machine.step(here, byte)
            if there is not None and there not in seen:
                seen.add(there)
                pending.append(there)
        if len(pending) > 30_000:
            return False
    return False
