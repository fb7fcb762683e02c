"""Random patterns against re: same verdict on every short text, whole-string and as a search."""

import itertools
import random
import re

import pytest
from tree_matching import fullmatch

from fsmc.compiler.syntax.regex import parse_regex

TEXTS = ["".join(letters) for n in range(5) for letters in itertools.product("ab\n-", repeat=n)]
ATOMS = ["a", "b", "-", ".", r"\w", "[ab]", "[^a]", r"\n", r"[b\n]", r"\s", r"\W", "(?i:A)"]
ANCHORS = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
BEHIND = ["a", "b", r"\n", "ab", r"\b.", "^", "[ab]", "^a", r"\w\b", "a$"]  # re wants a fixed width
REPEATS = [*[""] * 6, "*", "+", "?", "*?", "{2}", "{1,2}", "{0}", "{,2}", "{1,}"]


def random_alternation(rng, depth):
    return "|".join(random_sequence(rng, depth) for _ in range(rng.choice([1, 1, 1, 2, 2, 3])))


def random_sequence(rng, depth):
    return "".join(random_term(rng, depth) for _ in range(rng.choice([0, 1, 1, 2, 2, 3])))


def random_term(rng, depth):
    kind = rng.random() if depth else 0.6 * rng.random()
    if kind < 0.45:
        return rng.choice(ATOMS) + rng.choice(REPEATS)
    if kind < 0.6:
        return rng.choice(ANCHORS)
    if kind < 0.7:
        return f"(?{rng.choice('=!')}{random_alternation(rng, depth - 1)})"
    if kind < 0.8:
        return f"(?<{rng.choice('=!')}{rng.choice(BEHIND)})"
    return f"({rng.choice(['', '?:', '?m:', '?s:'])}{random_alternation(rng, depth - 1)}){rng.choice(REPEATS)}"


@pytest.mark.parametrize("seed", range(12))
def test_same_verdicts(seed):
    rng = random.Random(seed)
    for _ in range(25):
        pattern = random_alternation(rng, 3)
        compiled, tree = re.compile(pattern), parse_regex(pattern)
        for text in [*rng.sample(TEXTS, 40), "", "a", "\n", "a\n"]:
            assert fullmatch(tree, text) == bool(compiled.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize("seed", range(12))
def test_search_cancels_anchors_exactly(seed):
    rng = random.Random(1000 + seed)
    for _ in range(25):
        pattern = random_alternation(rng, 3).replace(r"\A", "^").replace(r"\Z", "$").replace("?m:", "?:")
        pattern = pattern.replace(r"\B", "").replace("{,2}", "{0,2}")
        try:
            compiled = re.compile(pattern.replace("$", r"\Z"))  # ECMA-262's $ is the very end
        except re.error:  # what was taken out had stood between two repeats, or made a look-behind's width fixed
            continue
        tree = parse_regex(pattern, "ecma")
        for text in [*rng.sample(TEXTS, 40), "", "a", "\n", "a\n"]:
            assert fullmatch(tree, text) == bool(compiled.search(text)), (pattern, text)
