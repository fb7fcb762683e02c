"""Classes against re, over every code point: what is not compared is not known to be exact."""

import random
import re

import pytest

from fsmc.compiler.syntax.case_folding import fold_ecma, fold_python
from fsmc.compiler.syntax.charclass import ANY, CharClass
from fsmc.compiler.syntax.expr import NOTHING, Chars
from fsmc.compiler.syntax.regex import parse_regex
from fsmc.compiler.syntax.unicode_tables import all_code_points

EVERYTHING = all_code_points()
CASED = "".join(c for c in EVERYTHING if c.lower() != c or c.upper() != c)


def class_in_re(pattern, flags=0):
    return CharClass.from_ranges((m.start(), m.end() - 1) for m in re.finditer(f"(?:{pattern})+", EVERYTHING, flags))


def class_here(pattern, flags=0, flavor="python"):
    tree = parse_regex(pattern, flavor, flags)
    if tree == NOTHING:
        return CharClass(())
    assert isinstance(tree, Chars)
    return tree.chars


@pytest.mark.parametrize("flags", [0, re.A, re.I, re.I | re.A, re.S], ids=repr)
@pytest.mark.parametrize("pattern", [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", ".", r"[\w\s]", r"[^\w\s]", r"[^\W\d]"])
def test_class_escapes(pattern, flags):
    assert class_here(pattern, flags) == class_in_re(pattern, flags)


def test_ignoring_case_of_cased_characters():
    assert len(CASED) > 2500
    for character in CASED[::3]:
        expected = re.findall(re.escape(character), CASED, re.I)
        assert class_here(re.escape(character), re.I) == CharClass.of(expected), hex(ord(character))
        assert fold_python(CharClass.of(expected)) == CharClass.of(expected), "folding twice changes nothing"


def test_characters_without_case_stand_for_themselves():
    caseless = [c for c in EVERYTHING[::601] if not 0xD800 <= ord(c) <= 0xDFFF and c not in CASED]
    for character in caseless:
        assert fold_python(CharClass.of(character)) == CharClass.of(character)
    for character in caseless[::300]:
        assert class_in_re(re.escape(character), re.I) == CharClass.of(character)


def random_class(rng):
    items = []
    for _ in range(rng.randint(1, 4)):
        start = ord(rng.choice(CASED)) if rng.random() < 0.7 else rng.randrange(0x20, 0x11000)
        end = min(0x10FFFF, start + rng.choice([0, 1, 5, 40, 3000]))
        items.append(rf"\U{start:08x}-\U{end:08x}" if end > start else rf"\U{start:08x}")
    return "[" + rng.choice(["", "^"]) + "".join(items) + rng.choice(["", "", r"\d", r"\W"]) + "]"


@pytest.mark.parametrize("seed", range(25))
def test_ignoring_case_in_random_classes(seed):
    rng = random.Random(seed)
    pattern = random_class(rng)
    for flags in (0, re.I):
        assert class_here(pattern, flags) == class_in_re(pattern, flags), (pattern, flags)
    if r"\U0001" not in pattern:  # see fold_ascii
        assert class_here(pattern, re.I | re.A) == class_in_re(pattern, re.I | re.A), pattern


def test_ecma_folding_against_what_str_can_say():
    # CaseFolding.txt, status C: where both the full folding and the lower case are single, groups are equal foldings
    for character in CASED:
        folded = character.casefold()
        if len(folded) == 1:
            assert fold_ecma(CharClass.of(character)).contains(ord(folded)), hex(ord(character))
    for group in ["sSſ", "kK\u212a", "åÅ\u212b", "ßẞ", "σςΣ", "µμΜ", "ΐ\u1fd3", "\u01c4\u01c5\u01c6", "ᾀᾈ", "Ꭰꭰ"]:
        for character in group:
            assert fold_ecma(CharClass.of(character)) == CharClass.of(group), group
    for alone in "İıŉǰ@漢":
        assert fold_ecma(CharClass.of(alone)) == CharClass.of(alone)


def test_ecma_classes():
    space = class_here(r"^\s$", flavor="ecma")
    assert space == CharClass.of("\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | CharClass.from_ranges(
        [(0x2000, 0x200A)]
    )
    assert class_here(r"^\S$", flavor="ecma") == ~space
    assert class_here("^.$", flavor="ecma") == ANY - CharClass.of("\n\r\u2028\u2029")
    assert class_here(r"^\w$", flavor="ecma") == class_in_re("[a-zA-Z0-9_]")
    assert class_here("^[^]$", flavor="ecma") == ANY
    assert class_here(r"^\P{Lu}$", re.I, "ecma").contains(ord("A")), "a is in the complement, and A counts as a"
    assert not class_here(r"\P{Lu}", re.I).contains(ord("A"))
