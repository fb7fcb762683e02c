"""Random patterns for the tests of several stages: as text for Python's `re`, which is the oracle."""

from __future__ import annotations

import itertools
import random

from fsmc.compiler.automata.dfa import DFA

PLAIN = ["a", "b", "é", "😀", "[ab]", "[^a]", ".", "[é-😀]", "[aé]", ""]
ZERO_WIDTH = [r"\n", "^", "$", r"\b", r"\B", r"\A", r"\Z", r"\w", "(?m:^)", "(?m:$)"]
FIXED_WIDTH = [  # Python's look-behinds need bodies of one length
    "a", "b", "é", "[^a]", "ab", "a(?=b)", "^", "a$", "(?<!a)b", "b(?!a.)", r"\ba", "(?<=b)a", "(?=a(?<=ba)).", r"\B..",
    "(?<=(?<!a)b)a", r"(?=.\Z)a",
]  # fmt: skip
REPEATS = ["*", "+", "?", "{2}", "{0,3}", "{1,2}", "{2,}"]


def pattern(rng: random.Random, depth: int, *, looks: bool = False) -> str:
    """A pattern nested up to ``depth``, over a, b, é, 😀 and the line feed."""
    choice = rng.random()
    if depth == 0 or choice < 0.25:
        return rng.choice(PLAIN + ZERO_WIDTH if looks else PLAIN)
    first = pattern(rng, depth - 1, looks=looks)
    if choice < 0.45:
        return first + pattern(rng, depth - 1, looks=looks)
    if choice < 0.6:
        return f"(?:{first}|{pattern(rng, depth - 1, looks=looks)})"
    if choice < 0.75 or not looks:
        return f"(?:{first})" + rng.choice(REPEATS)
    if choice < 0.9:
        return rng.choice(["(?=", "(?!"]) + first + ")" + pattern(rng, depth - 1, looks=looks)
    return first + rng.choice(["(?<=", "(?<!"]) + rng.choice(FIXED_WIDTH) + ")"


def texts(alphabet: str, longest: int) -> list[str]:
    """All texts over the alphabet with at most ``longest`` characters."""
    return ["".join(t) for n in range(longest + 1) for t in itertools.product(alphabet, repeat=n)]


def language(dfa: DFA, alphabet: str, longest: int) -> set[str]:
    """The accepted texts among ``texts(alphabet, longest)``, walked as a tree: a dead prefix ends its branch."""
    delta, accepting = dfa.delta.tolist(), dfa.accepting.tolist()
    symbols = [(character, dfa.byte_class[list(character.encode())].tolist()) for character in alphabet]
    found, layer = set(), [("", dfa.start)]
    for _ in range(longest + 1):
        found |= {text for text, state in layer if accepting[state]}
        following = []
        for text, state in layer:
            for character, columns in symbols:
                target = state
                for column in columns:
                    target = delta[target][column]
                if target:
                    following.append((text + character, target))
        layer = following
    return found
