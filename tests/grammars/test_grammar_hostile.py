"""Grammars made to hurt: right answers or LimitExceeded, in bounded time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest
from grammar_examples import JSON

import fsmc
from fsmc.compiler.cfg import terminals
from fsmc.compiler.cfg.nets import SYMBOL, Net
from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.cfg.terminals import Terminal, net_to_dfa
from fsmc.compiler.errors import EmptyLanguageError, LimitExceeded
from fsmc.compiler.syntax.regex import parse_regex
from fsmc.jit import time_limit


def chain(n: int, link: str, last: str) -> str:
    lines = [f"r{i} ::= {link.format(i + 1)}" for i in range(n)]
    return "root ::= r0\n" + "\n".join(lines) + f"\nr{n} ::= {last}"


WORDS = " | ".join(f'"word{i:07d}"' for i in range(60_000))

RIGHT = {
    "three at once": ('root ::= a\na ::= a a a | "x"', ["x" * 501, "x"], ["x" * 500, ""]),
    "exponential ambiguity": ('root ::= s\ns ::= s s s | s s | "a" | "(" s ")"', ["a" * 300, "(" * 99 + "a" + ")" * 99], ["(a"]),
    "deep left recursion": ('root ::= a\na ::= a "x" | "y"', ["y" + "x" * 100_000], ["x"]),
    "a loop of left recursion": (
        "root ::= r0\n" + "\n".join(f'r{i} ::= r{(i + 1) % 500} "x" | "y"' for i in range(500)),
        ["yxx", "y"],
        ["x"],
    ),
    "deep nesting": ('root ::= "(" root ")" | "x"', ["(" * 4_000 + "x" + ")" * 4_000], ["(" * 4_000 + "x)"]),
    "palindromes": ('root ::= p\np ::= "a" p "a" | "b" p "b" | ""', ["ab" * 60 + "ba" * 60], ["ab" * 60]),
    "doubling": (chain(30, "r{0} r{0}", '"x" | "(" r0 ")"'), [], ["x" * 1000]),
    "a chain to the right": (chain(2_000, '"x" r{0}', '"y"'), ["x" * 2_000 + "y"], ["y"]),
    "a chain to the left": (chain(2_000, 'r{0} "x"', '"y"'), ["y" + "x" * 2_000], ["y"]),
    "a long chain to the left": (
        chain(5_000, 'r{0} "x" | "y"', '"z"'), ["z" + "x" * 5_000, "yxx"], ["z" + "x" * 4_999, "yy"],
    ),
    "a long chain to the left, hidden": (chain(700, 'e r{0} "x" | "y" | "(" r0 ")"', '"z"\ne ::= "" | "w"'), ["w(yx)xx"], ["(yx)z"]),
    "many signs": ('root ::= "a"' + "*?+" * 20_000 + ' ("(" root ")" | "b")' + "?+" * 20_000, ["aa", "(aa)b"], ["(b"]),
    "many signs of one item": ('root ::= ("a"+)+ ("b"?)? ("c"?)+', ["ab", "aacc"], ["b", "abb", ""]),
    "a regular rule many times": ('root ::= ("a"{1000}){2000}', ["a" * 2_000_000], ["a" * 1_999_999]),
    "a list of words many times": (
        "root ::= (" + " | ".join(f'"w{i:06d}"' for i in range(3000)) + "){5000}", ["w000001w002999" * 2500], ["w000001" * 4999, "w003000" * 5000],
    ),
    "rules that double, regular": (chain(20, "r{0} r{0}", '"a"'), ["a" * 2**20], ["a" * (2**20 - 1)]),
    "regular rules, many times in one": (
        "start: (A|B)~2000\nA: /(abc){30}/\nB: /(abd){30}/", [("abc" * 30 + "abd" * 30) * 1000], [("abc" * 30 + "abd" * 29) * 1000]
    ),
    "a megabyte of words": (f'root ::= "(" root ")" | w\nw ::= {WORDS}', ["(word0000007)"], ["word00"]),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers(name: str) -> None:
    text, accepted, rejected = RIGHT[name]
    machine = GrammarRecipe(text).build()
    assert [t[:20] for t in accepted if not machine.matches(t.encode())] == []
    assert [t[:20] for t in rejected if machine.matches(t.encode())] == []


@pytest.mark.parametrize(
    "text",
    [
        'root ::= ("(" root ")" | "x"){1000000}',
        'root ::= "(" root ")" | [ab]* "a" [ab]{25}',
        chain(40_000, 'r{0} "x" r{0}', '"y" | r0'),
        "root ::= " + " | ".join(f"w{i}" for i in range(20_000)) + "\n"
        + "\n".join(f'w{i} ::= "w{i};" | "(" w{i} ")" root' for i in range(20_000)),
        chain(3_000, 'r{0} "a" | "b"', 'root "c" | "d"'),
        'root ::= ("a" root "b"){0,1000000000} | "x"',
        'root ::= "a"' + "{1,2}" * 60,
        chain(60, "r{0} r{0}", '"a"'),
        "root ::= x{1000000}\nx ::= y{100000} | z\ny ::= [ab]{1000}\nz ::= [ab]{999}",
    ],
    ids=["repeats", "subsets", "chain", "rules", "left chain", "far repeats", "repeats of repeats", "doubling", "regular repeats"],
)  # fmt: skip
def test_limits_in_bounded_time(text: str) -> None:
    began = time.process_time()
    try:
        machine = GrammarRecipe(text).build(max_states=50_000, max_bytes=1 << 28, max_seconds=3)
        machine.matches(b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
    except LimitExceeded as error:
        assert error.reached >= error.limit
    assert time.process_time() - began < 60


def called_from(depth: int, function: Callable[[], object]) -> object:
    return called_from(depth - 1, function) if depth else function()


DEEP = '"x"'
for _ in range(45):
    DEEP = f'("a" ({DEEP} | "b")* "c" | "d")*'


@pytest.mark.parametrize(
    "text",
    [f"root ::= {DEEP}", f"start: {DEEP}", 'root ::= "a"' + "{1,2}" * 5_000, 'start: "a"' + " ~ 1..2" * 5_000],
    ids=["ebnf", "lark", "repeats in ebnf", "repeats in lark"],
)
def test_what_nests_too_deeply_for_the_stack_that_is_left(text: str) -> None:
    """Groups within their limit, but compiled from far down, and repeats of repeats: no RecursionError."""
    compiler = fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a"]), cache_dir=None)
    with pytest.raises(LimitExceeded, match=r"max_depth=.*let them nest less"):
        called_from(sys.getrecursionlimit() - 250, lambda: compiler.compile_grammar(text))
    with pytest.raises(LimitExceeded, match="max_depth"):
        called_from(sys.getrecursionlimit() - 250, GrammarRecipe(text).build)


def test_nothing_can_be_derived() -> None:
    with pytest.raises(EmptyLanguageError, match="line 1, column 1, in rule 'root'"):
        GrammarRecipe('root ::= a\na ::= a "x" | "(" a ")"').build()


@pytest.mark.parametrize("syntax", ["ebnf", "lark"])
def test_long_chains_of_regular_rules(syntax: str) -> None:
    """Each inside the one before: deeper than Python's stack goes."""
    n, arrow, name = 600, "::=" if syntax == "ebnf" else ":", "r"
    first = "root" if syntax == "ebnf" else "start"
    rules = [f'{first} {arrow} "a" | "b" {name}1', *(f'{name}{i} {arrow} "a" | "b" {name}{i + 1}' for i in range(1, n))]
    machine = GrammarRecipe("\n".join([*rules, f'{name}{n} {arrow} "z"']), syntax).build()
    assert machine.matches(b"b" * n + b"z") and machine.matches(b"b" * (n - 1) + b"a")
    assert not machine.matches(b"b" * n + b"a") and not machine.matches(b"b" * (n + 1))


def test_templates_whose_arguments_double():
    """A kilobyte of Lark that stands for 2**30 letters."""
    text = (
        'start: t0{"a"}\n' + "".join(f"t{i}{{x}}: t{i + 1}{{x}} t{i + 1}{{(x x)}}\n" for i in range(30)) + "t30{x}: x\n"
    )
    with pytest.raises(LimitExceeded, match="max_copied"):
        fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a"]), cache_dir=None).compile_grammar(text)


def test_a_limit_around_holds_inside_of_a_row():
    """Grammars read in ever more ways: the nearer limit counts, and is looked at in the middle of a row."""
    compiler = fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a", b"b"]), cache_dir=None)
    b = compiler.compile_grammar('root ::= "ab" x | "" | ""\nx ::= "" | "b" root root | root x')
    with time_limit(0), pytest.raises(LimitExceeded, match=r"max_seconds=0 exceeded.*for one step"):
        b.machine.matches(b"ab" * 40)


def test_what_is_written_out_of_regular_rules_keeps_the_limits(monkeypatch):
    """A machine for each place where a rule is read: counted before it is made."""
    one = Terminal((10**6, 1 << 30, 60.0), expr=parse_regex("(abc){300}"))
    net = Net([{SYMBOL: place + 1} for place in range(100_000)] + [{}], [False] * 100_000 + [True])
    made = []
    monkeypatch.setattr(terminals, "NFA", lambda *parts: made.append(parts))
    for limits, name in (
        ((50_000, 1 << 30, 60.0), "max_states"),
        ((10**9, 1 << 20, 60.0), "max_bytes"),
        ((10**9, 1 << 40, 0.0), "max_seconds"),
    ):
        with pytest.raises(LimitExceeded, match=name):
            net_to_dfa(net, {0: one}, limits)
    assert not made


@pytest.mark.parametrize("what", ["subset_of", "equivalent"])
def test_the_time_of_a_comparison_holds_for_what_is_compared(what: str) -> None:
    """A combination that is written as a grammar, for the comparison, has no limit of its own beside it."""
    compiler = fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a", b"b"]), cache_dir=None)
    json = compiler.compile_grammar(JSON.ebnf)
    a, b = (json & compiler.compile_regex(pattern) for pattern in (".{0,60}", "(.{0,30}){2}"))
    began = time.process_time()
    with pytest.raises(LimitExceeded, match=r"max_seconds=0\.5 exceeded"):
        getattr(a, what)(b, max_seconds=0.5)
    assert time.process_time() - began < 60
