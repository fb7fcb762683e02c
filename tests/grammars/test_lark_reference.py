"""Small grammars in Lark's syntax against lark itself: it reads them, and their language is counted out from its rules and regexes."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.errors import EmptyLanguageError, LimitExceeded

lark = pytest.importorskip("lark")

TEXTS = ["".join(letters) for n in range(6) for letters in itertools.product("ab ", repeat=n)]
LITERALS = [
    '"a"',
    '"b"',
    '"ab"',
    '"ba"',
    '"A"i',
    '"aB"i',
    '"a".."b"',
    "/[ab]/",
    "/a+/",
    "/b?a/",
    "/a{1,2}b/",
    "/[^b ]/",
    "/B/i",
]
LITERALS += ["/a b/x", "/a  # one\n b/x", "/./", "/a./s", "/(?:ab)+/", "/[ab]{2}/", r"/\x61/", r"/a\/?/", '"a" .. "b"']
IGNORED = ['" "', '"b"', "/ /", "A", '" " | "b"', '("a" | " ")+', '" " "a"']


def grammar(chance: random.Random) -> str:
    """Rules, terminals of terminals, templates, ignored terminals, and everything that only shapes trees."""
    terminals, rules = ["A", "B", "C"][: chance.randint(1, 3)], ["start", "x", "y"][: chance.randint(1, 3)]
    with_template = chance.random() < 0.35

    def item(names: list[str], depth: int) -> str:
        kind = chance.random()
        if kind < 0.45 and names:
            made = chance.choice(names)
        elif kind < 0.55 and depth < 2:
            made = f"({seq(names, depth + 1)} | {seq(names, depth + 1)})"
        elif kind < 0.6 and depth < 2:
            return f"[{seq(names, depth + 1)}]"
        elif kind < 0.7 and with_template and rules[0] in names:
            made = f"t{{{chance.choice([*terminals, *rules])}, {chance.choice(LITERALS[:4])}}}"
        else:
            made = chance.choice(LITERALS)
        return made + (chance.choice(["?", "*", "+", " ~ 2", "~1 .. 2", "~0..2"]) if chance.random() < 0.25 else "")

    def seq(names: list[str], depth: int = 0) -> str:
        return " ".join(item(names, depth) for _ in range(chance.randint(1, 2)))

    lines = []
    for name in rules:
        body = [seq(terminals + rules) + chance.choice(["", " -> q", " // c"]) for _ in range(chance.randint(1, 3))]
        lines.append(chance.choice(["", "?", "!", "?!"]) + name + ": " + "\n   | ".join(body))
    for i, name in enumerate(terminals):
        lines.append(f"{name}: {seq(terminals[:i])} | {seq(terminals[:i])}")
    if with_template:
        lines.append(f"t{{p, q}}: {seq(['p', 'q', *terminals], 1)} | {seq(['p', 'q'], 1)}")
    if chance.random() < 0.6:
        lines += [f"%ignore {chance.choice(IGNORED)}" for _ in range(chance.randint(1, 2))]
    chance.shuffle(lines)
    return "\n".join([*lines, *chance.choice([[], ['%extend start: "b" A'], ['%override A: "b" "a"?']])]) + "\n"


def language(parser: lark.Lark) -> set[str]:
    """The short texts that lark's rules derive, any text that matches a terminal's regex taken for it: a least fixed point."""
    matching: dict[str, frozenset[str]] = {}
    for terminal in parser.terminals:
        regex = re.compile(terminal.pattern.to_regexp())
        matching[terminal.name] = frozenset(text for text in TEXTS if regex.fullmatch(text))
    every = frozenset(TEXTS)

    def joined(a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
        return frozenset(x + y for x in a for y in b) & every

    ignored, more = frozenset([""]), frozenset().union(*(matching[name] for name in parser.ignore_tokens))
    while (found := ignored | joined(ignored, more)) != ignored:
        ignored = found
    texts = {name: joined(some, ignored) for name, some in matching.items()}
    texts |= {rule.origin.name: frozenset() for rule in parser.rules}
    while True:
        before = dict(texts)
        for rule in parser.rules:
            found = frozenset([""])
            for symbol in rule.expansion:
                found = joined(found, texts[symbol.name])
            texts[rule.origin.name] |= found
        if texts == before:
            return set(joined(ignored, texts["start"]))


@pytest.mark.parametrize("seed", range(250))
def test_random_grammars_in_larks_syntax(seed: int) -> None:
    text = grammar(random.Random(seed))
    try:
        parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    except (lark.exceptions.LarkError, lark.exceptions.GrammarError) as error:
        assert "zero-width" in str(error) or "Rules defined twice" in str(error), (
            text
        )  # narrower than what is read here
        return
    expected = language(parser)
    try:
        machine = GrammarRecipe(text, "lark").build(max_states=20_000)
        accepted = {known for known in TEXTS if machine.matches(known.encode())}
    except EmptyLanguageError:
        assert not expected, text
        return
    except LimitExceeded:  # counted pieces after repeated ones: the smallest machine is huge
        return
    assert accepted == expected, text
    for known in random.Random(seed).sample(TEXTS, 40):
        try:
            parser.parse(known)
        except (lark.exceptions.LarkError, RuntimeError, AssertionError):  # it may crash on cycles
            continue
        assert known in accepted, (text, known)


PLACES = ["", " ", "a", " a", "a ", "a b", "ab", " a b ", "a,b", "a , b", "aa", "a a", "a  a", "a a b"]


@pytest.mark.parametrize(
    "text",
    [
        'start: "a" "b"\n%ignore " "',
        'start: A\nA: "a" "b"\n%ignore " "',
        'start: x? "b"?\nx: "a"\n%ignore " "',
        "start: x*\nx: y+\ny: A\nA: /[ab]/\n%ignore /  */",
        'start: l{A}\nl{x}: x ("," x)*\nA: "a".."b"\n%ignore " "',
        'start: A ~ 2..3\nA: "a" | "b"\n%ignore " "',
        'start: "a"+ A\nA: "b" ~ 1..2\n%ignore WS\n%import common.WS',
        'start: "a" WS? "b"\n%ignore WS\n%import common.WS_INLINE -> WS',
        'start: "a" ("," | WS) "b"\nWS: " "\n%ignore WS WS?',
    ],
)
def test_where_ignored_text_may_stand(text: str) -> None:
    parser, machine = lark.Lark(text, parser="earley", lexer="dynamic_complete"), GrammarRecipe(text, "lark").build()
    for known in PLACES:
        try:
            parser.parse(known)
            parsed = True
        except lark.exceptions.LarkError:
            parsed = False
        assert machine.matches(known.encode()) == parsed, known


LAZY = {"_STRING_INNER", "_STRING_ESC_INNER"}
ODD = {"ESCAPED_STRING", "C_COMMENT"}  # of lark's lazy regexes only the shortest match counts
WORDS = [
    "",
    *'aZé_+-.0 \t\r\n\f#/*"\\',
    "12",
    "1.",
    ".5",
    "-1",
    "+.5e3",
    "1e-5",
    "2.E7",
    "a1",
    "_x9",
    "ab",
    "a-b",
    " \n",
    "\r\n\n",
]
WORDS += [
    "#a b",
    "//a",
    "--a",
    "#a\n",
    "/**/",
    "/*a*b**/",
    "/* */ */",
    '"a"',
    '"\\""',
    '"a"b"',
    '"\\"',
    "e5",
    "E+7",
    "0x1",
    "fF",
    "-",
    "\r",
]


def test_every_terminal_of_common() -> None:

    source = lark.load_grammar.stdlib_loader(None, "common.lark")[1]
    names = set(re.findall(r"^([A-Z_]+)\s*:", source, re.M))
    assert len(names) > 20
    for name in names - LAZY:
        text = f"start: {name}\n%import common.{name}"
        [terminal] = lark.Lark(text, parser="earley", lexer="dynamic").terminals
        regex, machine = re.compile(terminal.pattern.to_regexp()), GrammarRecipe(text, "lark").build()
        for word in [*WORDS, *(a + b for a in WORDS for b in WORDS)]:
            found = regex.match(word) if name in ODD else regex.fullmatch(word)
            assert machine.matches(word.encode()) == (found is not None and found.end() == len(word)), (name, word)
