"""Both syntaxes: what is read, what is refused, and where the error says it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import fsmc
from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.errors import EmptyLanguageError, GrammarError, LimitExceeded, UnsupportedGrammarError
from fsmc.compiler.syntax.lark_literals import string
from fsmc.compiler.syntax.regex import parse_regex

READ = [
    # (grammar, accepted, rejected)
    (r'root ::= "\x41\u00e9\U0001F600\n\"\\"', ['Aé😀\n"\\'], ["A"]),
    (r"root ::= [^a-c\]\-]{2}", ["de", "é☃"], ["ad", "d]", "-d", "d"]),
    (r"root ::= [a-]+ . ?", ["a-a", "-"], ["b"]),
    ('root ::= "a"{2,3} "b"{1,} "c"{,2} "d"{2}', ["aabdd", "aaabbccdd"], ["abdd", "aabcccdd", "aabd"]),
    ('# first\nroot ::= x # second "\n | "b" # third\n\nx ::=\n  "a"\n', ["a", "b"], ["x"]),
    ('root ::= ("a" | "b" ("c" | ))* ""', ["", "abcb"], ["c"]),
    ("root ::= item-1 item_2\nitem-1 ::= [0-9]\nitem_2 ::= /[a-z]+\\/x/", ["1a/x"], ["1/x"]),
    ('root   ::= "yes"|"no"', ["yes", "no"], ["ye"]),
    ("start: A b\nA: /[0-9]+/i\nb: \"x\"i \"y\"..\"z\" | _c\n_c: \"c\" ~ 2..3\n", ["1Xy", "12xz", "1cc"], ["1xx", "1c"]),
    ("start: a\n\n// a comment\n?a: \"x\" -> one\n  | \"y\" a -> more  # another\n!b: \"z\"", ["x", "yyx"], ["y", "z"]),
    ('start: ["a"] ("b" | "c")+', ["ab", "cc"], ["a"]),
    ('start: sep{NUMBER, ","}\nsep{x, s}: x (s x)*\n%import common.INT -> NUMBER', ["1,22,3"], ["1,", ""]),
    ('start: NAME+\n%import common (CNAME, WS)\nNAME: CNAME\n%ignore WS\n%ignore /#[^\\n]*/', ["a b", " a#x\n", "ab"], ["", "1"]),
    ("start: /a(?=b)b/ /(?i:x)/", ["abx", "abX"], ["ax"]),
    ('start: "\\\\d" "\\n" "\\u00e9"', ["\\d\né"], ["d"]),
    ("start: DATE\nDATE: YEAR \"-\" MONTH\nYEAR: /[0-9]{4}/\nMONTH: \"0\" \"1\"..\"9\" | \"1\" \"0\"..\"2\"", ["2024-12"], ["2024-13"]),
    ('start: "a" \\ \n "b" .. "c" x { "d" } \nx { y }: y ~+1 .. +2', ["abd", "acdd"], ["ab", "dd"]),
    ("start: /a  # one\n  b/x\nx: /c/u", ["ab"], ["a  # one\n  b", "a b"]),
    ("start: A x\nA: \"a\"\nx: \"x\"\n%extend A: \"b\"\n%override x: \"y\" | \"z\"", ["ay", "bz"], ["ax", "by\n", "a"]),
    ('start: t{s, "a"}\nt{f, x}: f{x} f{x}\ns{x}: x "."', ["a.a."], ["a.", "a"]),
    ("start: INT _EXP N\n%import common.INT\n%import common (INT, _EXP)\n%import common.INT -> N", ["1e52"], ["1e"]),
    ('start: ESCAPED_STRING\n%import common.ESCAPED_STRING', ['"a\\"b"', '""'], ['"', '"a"b"']),
]  # fmt: skip

WRONG = [
    # (grammar, kind, line, column, rule, what the message says)
    ("", GrammarError, 1, 1, "", "the grammar is empty"),
    ("root ::= a", GrammarError, 1, 10, "root", "there is no rule 'a'"),
    ('x ::= "a"', GrammarError, 1, 1, "", "there is no rule 'root'"),
    ('root ::= "a"\nroot ::= "b"', GrammarError, 2, 1, "root", "a second time"),
    ('root ::= "a', GrammarError, 1, 10, "root", "no closing"),
    ("root ::= [a", GrammarError, 1, 10, "root", "no closing ]"),
    ('root ::= ("a"', GrammarError, 1, 10, "root", "no closing )"),
    ('root ::= "a")', GrammarError, 1, 13, "root", "closes no group"),
    ("root ::= [z-a]", GrammarError, 1, 11, "root", "reversed"),
    ('root ::= "a"{3,2}', GrammarError, 1, 13, "root", "reversed"),
    ('root ::= "a"{}', GrammarError, 1, 13, "root", "expected {m}"),
    ("root ::= *", GrammarError, 1, 10, "root", "nothing"),
    (r'root ::= "\q"', GrammarError, 1, 11, "root", "unknown escape"),
    (r'root ::= "\ud800"', GrammarError, 1, 11, "root", "surrogate"),
    ("root ::= 'a'", GrammarError, 1, 10, "root", "cannot stand"),
    ('root ::= "a" (= "b")', UnsupportedGrammarError, 1, 14, "root", "look-ahead"),
    ("root ::= TagDispatch(x)", UnsupportedGrammarError, 1, 10, "root", "macro"),
    ('root ::= "a" <think>', UnsupportedGrammarError, 1, 14, "root", "tokens"),
    ('root ::= "a"\n\n  b ::= c', GrammarError, 3, 9, "b", "there is no rule 'c'"),
    ('start: "a"\nstart: "b"', GrammarError, 2, 1, "start", "a second time"),
    ("start: a", GrammarError, 1, 8, "start", "there is no rule 'a'"),
    ('start.2: "a"', UnsupportedGrammarError, 1, 6, "start", "priorities"),
    ('start: A\nA.1: "a"', UnsupportedGrammarError, 2, 2, "A", "priorities"),
    ("start: A\nA: B\nB: A", GrammarError, 3, 4, "B", "made of itself"),
    ('start: A\nA: b\nb: "x"', GrammarError, 2, 4, "A", "cannot be made of the rule"),
    ("start: /a(/", GrammarError, 1, 10, "start", "in the regex"),
    (r"start: /(a)\1/", UnsupportedGrammarError, 1, 12, "start", "back-references"),
    ("%declare A\nstart: A", UnsupportedGrammarError, 1, 1, "", "%declare"),
    ("%import python.STRING\nstart: STRING", UnsupportedGrammarError, 1, 1, "", "common"),
    ("%import common.NIX\nstart: NIX", GrammarError, 1, 1, "", "no terminal 'NIX'"),
    ('start: t{"a"}', GrammarError, 1, 8, "start", "no template 't'"),
    ('start: t{"a"}\nt{x, y}: x y', GrammarError, 1, 8, "start", "takes 2 arguments"),
    ('start: "z".."a"', GrammarError, 1, 8, "start", "reversed"),
    ('start: "a" )', GrammarError, 1, 12, "start", "cannot stand"),
    ('start: "a"\n%ignore', GrammarError, 2, 1, "", "%ignore needs a terminal"),
    ('start: "a"\n%ignore // nothing\nA: "b"', GrammarError, 2, 1, "", "%ignore needs a terminal"),
    ('start: "a"\r\n%ignore\r\n', GrammarError, 2, 1, "", "%ignore needs a terminal"),
    ('start: "a"\n%ignore # nothing', GrammarError, 2, 1, "", "%ignore needs a terminal"),
    ('start: "a"\n%ignore start', GrammarError, 2, 9, "%ignore", "only terminals"),
    ('start: "a"\n%ignore WS', GrammarError, 2, 9, "%ignore", "there is no terminal 'WS'"),
    ('start: "a"\n%ignore /b/ (C | " ")', GrammarError, 2, 14, "%ignore", "there is no terminal 'C'"),
    ("start: /a/l", UnsupportedGrammarError, 1, 11, "start", "the flag l of regexes"),
    ("start: /a\nb/", GrammarError, 1, 8, "start", "no closing / on its line"),
    ("start: STRING\n%import common._STRING_INNER", UnsupportedGrammarError, 2, 1, "", "relies on lazy matching"),
    ('start: t{"a", "b"}\nt{x, x}: x', GrammarError, 2, 2, "t", "two parameters 'x'"),
    ('start: "a"\n%extend x: "b"', GrammarError, 2, 9, "x", "no 'x' above that %extend could change"),
    ('start: t{"a"}\nt{x}: x\n%override t{x}: x x', UnsupportedGrammarError, 3, 11, "t", "%override of a template"),
    ('start: <|end|>', UnsupportedGrammarError, 1, 8, "start", "special tokens"),
    ('start: "a" "\\u12"', GrammarError, 1, 12, "start", "an escape in the literal is cut off"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "accepted", "rejected"), READ, ids=range(len(READ)))
def test_read(text: str, accepted: list[str], rejected: list[str]) -> None:
    machine = GrammarRecipe(text).build()
    assert [t for t in accepted if not machine.matches(t.encode())] == []
    assert [t for t in rejected if machine.matches(t.encode())] == []


@pytest.mark.parametrize(("text", "kind", "line", "column", "rule", "says"), WRONG, ids=range(len(WRONG)))
def test_wrong(text: str, kind: type[GrammarError], line: int, column: int, rule: str, says: str) -> None:
    with pytest.raises(GrammarError) as caught:
        GrammarRecipe(text).build()
    error = caught.value
    assert type(error) is kind
    assert (error.line, error.column, error.rule) == (line, column, rule)
    assert says in str(error)
    assert str(error).splitlines()[2].strip(" ") in ("^" * 80)[:60]


def test_the_syntax_can_be_said_and_so_can_the_first_rule() -> None:
    recipe = GrammarRecipe('one: "1"\ntwo: "2"', "lark", "two")
    assert recipe.build().matches(b"2") and not recipe.build().matches(b"1")
    assert GrammarRecipe('a ::= "1"\nb ::= "2" b | a', start="b").build().matches(b"221")
    with pytest.raises(GrammarError):
        GrammarRecipe('start: "a"', "ebnf").build()
    with pytest.raises(ValueError, match="syntax='bnf'"):
        GrammarRecipe("", "bnf")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        GrammarRecipe(b"")  # type: ignore[arg-type]
    with pytest.raises(GrammarError, match="surrogate"):
        GrammarRecipe('root ::= "\ud800"')


def test_rules_that_nothing_uses_or_that_derive_nothing_are_noted() -> None:
    vocab = fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    grammar = compiler.compile_grammar('root ::= "(" root ")" | dead | "a"\ndead ::= "b" dead\nunused ::= "c"')
    assert grammar.notes == ("rules that nothing uses: unused", "rules that derive no text: dead")
    assert grammar.machine.matches(b"(a)") and not grammar.machine.matches(b"b")
    for text in ('root ::= "a" root', "root ::= x\nx ::= y\ny ::= x", "root ::= []", "start: /a(?!.*)./"):
        with pytest.raises(EmptyLanguageError):
            compiler.compile_grammar(text)


def test_a_grammar_is_saved_and_loaded(tmp_path) -> None:  # type: ignore[no-untyped-def]
    vocab = fsmc.Vocabulary.from_tokens([b"(", b")", b"a", b""], eos_token_ids=[3])
    for text in ('root ::= "(" root ")" | "a"', "start: /[(a)]+/"):
        grammar = fsmc.GrammarCompiler(vocab, cache_dir=tmp_path / "cache").compile_grammar(text)
        grammar.save(tmp_path / "g.fsmc")
        again = fsmc.CompiledGrammar.load(tmp_path / "g.fsmc", vocab)
        assert again.source == text and again.kind == "grammar"
        assert again.machine.matches(b"(a)")
        assert fsmc.GrammarCompiler(vocab, cache_dir=tmp_path / "cache").compile_grammar(text).machine.matches(b"(a)")


def test_limits() -> None:
    with pytest.raises(LimitExceeded) as caught:
        GrammarRecipe('root ::= ("(" root ")" | "a"){100000}').build(max_states=10_000)
    assert caught.value.name == "max_states"
    with pytest.raises(LimitExceeded):
        GrammarRecipe("root ::= " + "(" * 200 + '"a"' + ")" * 200).build()
    with pytest.raises(LimitExceeded):
        GrammarRecipe('start: t{"a"}\nt{x}: x t{("b" x)} | x').build()


@pytest.mark.parametrize(("text", "syntax"), [('root ::= "a"', "ebnf"), ('start: "a"', "lark")])
@pytest.mark.parametrize("said", [True, False])
def test_a_byte_order_mark_is_no_part_of_a_grammar(text: str, syntax: str, said: bool) -> None:
    assert GrammarRecipe("\ufeff" + text, syntax if said else None).build().matches(b"a")
    with pytest.raises(GrammarError, match="line 1, column 1:"):
        GrammarRecipe("\ufeff)" + text, syntax).build()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n", "the grammar is empty"),
        ('root: "a"', "there is no rule 'start'(.|\n)*give start=..., one of root"),
        ('root = "a"', "(.|\n)*in EBNF, which is the other syntax, a rule is name ::="),
        (r'start: "\xZZ"', r"an escape in the literal is cut off(.|\n)*known: "),
        (r'start: "\ud800"', "a lone surrogate is in no UTF-8 text"),
    ],
)
def test_what_a_newcomer_writes(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        GrammarRecipe(text).build()


def test_a_start_that_is_no_name() -> None:
    with pytest.raises(TypeError, match="start is the name of a rule, not an int"):
        GrammarRecipe('root ::= "a"', None, 3)
    with pytest.raises(ValueError, match="start='' names no rule"):
        GrammarRecipe('root ::= "a"', None, "")


@pytest.mark.parametrize(
    "text", ['root ::= "x" | b\nb ::= b "y"\nu ::= "unused"', 'root ::= "x" | "(" root ")" | b\nb ::= b "y"\nu ::= "z"']
)
def test_notes_name_rules_that_do_nothing_also_of_regular_grammars(text: str, tmp_path: Path) -> None:
    vocab = fsmc.Vocabulary.from_tokens([b"x", b""], eos_token_ids=[1])
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=tmp_path).compile_grammar(text)
    assert grammar.notes == ("rules that nothing uses: u", "rules that derive no text: b")
    assert fsmc.CompiledGrammar.from_bytes(grammar.to_bytes(), vocab).notes == grammar.notes
    assert fsmc.GrammarCompiler(vocab, cache_dir=tmp_path).compile_grammar(text).notes == grammar.notes
    assert fsmc.GrammarCompiler(vocab, cache_dir=None).compile_grammar('root ::= "x"').notes == ()


@pytest.mark.parametrize("text", ["a", "abc", "a.b*[c]", "tab\\t", "né", "\\u00e9", ".", " "])
def test_a_literal_of_lark_is_the_regex_of_its_text(text: str) -> None:
    """Plain ones are made without the regex reader, as the same tree."""
    (leaf, end), characters = string(f'"{text}"', 0, "start"), ast.literal_eval(f'"{text}"')
    assert end == len(text) + 2 and leaf.expr == parse_regex(re.escape(characters)) and not leaf.alone
