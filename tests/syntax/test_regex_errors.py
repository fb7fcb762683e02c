"""Every error says what, points exactly at where, and is of the right kind."""

import re

import pytest

from fsmc.compiler.errors import LimitExceeded, PatternSyntaxError, UnsupportedPatternError
from fsmc.compiler.syntax.regex import parse_regex

SYNTAX_ERRORS = [  # pattern, what the caret is under, part of the message; « » mark the span
    ("a«(»b", "no closing )"),
    ("«(»a(?:b)", "no closing )"),
    ("ab«)»", "closes no group"),
    ("«[»a-", "no closing ]"),
    ("(ab«[»0-", "no closing ]"),
    ("«[»]", "no closing ]"),
    ("«[»^]a", "no closing ]"),
    ("[a«z-a»]", "runs backwards"),
    (r"[\d«\x42-A»]", "runs backwards"),
    (r"[«a-\d»]", "cannot end a range"),
    (r"[«\w-z»]", "cannot end a range"),
    ("«*»a", "nothing to repeat"),
    ("a|«+»", "nothing to repeat"),
    ("«(?)»", "kind of group"),
    ("^«*»", "nothing to repeat"),
    (r"\b«{2}»", "nothing to repeat"),
    ("(?i)«*»", "nothing to repeat"),
    ("a*«*»", "cannot be repeated"),
    ("a{2}«{3}»", "cannot be repeated"),
    ("a??«?»", "cannot be repeated"),
    ("a«{5,2}»", "reversed"),
    ("(?#«»", "no closing )"),
    ("a«\\»", "ends in a backslash"),
    (r"a«\q»", "no escape"),
    (r"[«\Z»]", "no escape \\Z in a class"),
    (r"[«\8»]", "no escape"),
    (r"«\x4»g", "2 hex digits"),
    (r"«\u12»", "4 hex digits"),
    (r"«\U0011»", "8 hex digits"),
    (r"«\U00110000»", "10FFFF"),
    (r"[«\400»]", "octal"),
    (r"«\777»", "octal"),
    (r"«\N»x", "character name"),
    (r"«\N{NO SUCH THING}»", "no character"),
    (r"«\p»L", "general category"),
    ("(?P<«1a»>b)", "identifier"),
    ("«(?P<>»b)", "identifier"),
    ("(?P<n>a)(?P<«n»>b)", "already in use"),
    ("«(?P<n»", "no closing >"),
    ("«(?<»n>a)", "does not exist"),
    ("«(?P»>n)", "does not exist"),
    ("«(?&»n)", "does not exist"),
    ("«(?»", "inside a group's opening"),
    ("(?«k»)a", "no flag k"),
    ("(?i«R»:a)", "no flag R"),
    ("«(?i»", "followed by"),
    ("«(?i=»a)", "followed by"),
    ("«(?i-:»a)", "missing after -"),
    ("«(?-i)»a", "turned off for a part"),
    ("«(?i-i:»a)", "both on and off"),
    ("«(?au)»", "exclude each other"),
    ("(?-«a»:b)", "cannot be turned off"),
    ("a«(?i)»b", "must come first"),
    ("(«(?i)»b)", "must come first"),
    ("a|«(?i)»b", "must come first"),
    ("a«\ud800»", "lone surrogate"),
]

ECMA_ERRORS = [
    ("a«{,5}»", "lower bound"),
    (r"a«\Z»", r"no escape \Z"),
    (r"«\A»a", r"no escape \A"),
    (r"a«\a»", "no escape"),
    (r"«\c1»", "ASCII letter"),
    (r"«\07»", "octal"),
    (r"[«\12»]", "octal"),
    (r"«\u{110000}»", "10FFFF"),
    (r"«\u{»}", "hex digits and }"),
    (r"«\x4»", "2 hex digits"),
    ("(?«x») a", "no flag x"),
    ("[«b-a»]", "runs backwards"),
    ("«[»", "no closing ]"),
    ("(?<«a-b»>x)", "identifier"),
    ("«*»*/*.js", "nothing to repeat"),
]

UNSUPPORTED = [
    (r"(a)«\1»", "back-reference", "python"),
    (r"(a)b«\12»", "back-reference", "python"),
    ("(?P<n>a)«(?P=n)»", "back-reference", "python"),
    ("«(?>»a)", "atomic", "python"),
    ("(a)«(?(1)»b|c)", "conditional", "python"),
    ("a«*+»", "possessive", "python"),
    ("a«{2,3}+»b", "possessive", "python"),
    ("(?«L»)a", "locale", "python"),
    (r"«\p{Greek}»", "not a general category", "python"),
    (r"«\p{Script=Greek}»", "property Script", "python"),
    (r"a«\ud83d»b", "surrogate", "python"),
    (r"«[\ud800-\udfff]»", "surrogates only", "python"),
    (r"([xy])-«\1»", "back-reference", "ecma"),
    (r"(?<n>a)«\k<n>»", "back-reference", "ecma"),
    (r"«\k»", "back-reference", "ecma"),
    (r"«\uD83D»", "surrogate", "ecma"),
    (r"«[\uD800-\uDBFF]»[\uDC00-\uDFFF]", "surrogates only", "ecma"),
    (r"«\p{Script=Han}»", "property Script", "ecma"),
]


def check(marked, message, flavor, kind):
    start = marked.index("«")
    end = marked.index("»") - 1
    pattern = marked.replace("«", "").replace("»", "")
    with pytest.raises(PatternSyntaxError) as caught:
        parse_regex(pattern, flavor)
    error = caught.value
    assert type(error) is kind
    assert message in str(error)
    assert error.pattern == pattern
    if start != end:
        assert error.span == (start, end), str(error)
        assert "^" * (end - start) in str(error).splitlines()[2]


@pytest.mark.parametrize(("marked", "message"), SYNTAX_ERRORS)
def test_syntax_error(marked, message):
    check(marked, message, "python", PatternSyntaxError)


@pytest.mark.parametrize(("marked", "message"), SYNTAX_ERRORS)
def test_re_refuses_it_too(marked, message):
    pattern = marked.replace("«", "").replace("»", "")
    if "surrogate" in message or r"\p" in pattern or "flags for" in pattern:
        pytest.skip("re reads bytes and half characters, and has no categories")
    if "must come first" in message and not hasattr(re, "NOFLAG"):
        pytest.skip("an error since Python 3.11, before it only a warning")
    with pytest.raises((re.error, OverflowError)):
        re.compile(pattern)


@pytest.mark.parametrize(("marked", "message"), ECMA_ERRORS)
def test_ecma_syntax_error(marked, message):
    check(marked, message, "ecma", PatternSyntaxError)


@pytest.mark.parametrize(("marked", "message", "flavor"), UNSUPPORTED)
def test_unsupported(marked, message, flavor):
    check(marked, message, flavor, UnsupportedPatternError)


def test_the_caret_is_found_on_its_line():
    with pytest.raises(PatternSyntaxError) as caught:
        parse_regex("(?x)\n a b\n c{3,1} d")
    assert str(caught.value).splitlines()[:3] == [
        "the repeat bounds are reversed, at position 12 (line 3)",
        "   c{3,1} d",
        "    ^^^^^",
    ]


def test_limits():
    with pytest.raises(LimitExceeded, match="max_depth=100 exceeded"):
        parse_regex("(" * 5000 + ")" * 5000)
    with pytest.raises(LimitExceeded, match="max_depth=2 exceeded"):
        parse_regex("(?:a(?=b(c)))", max_depth=2)
    with pytest.raises(LimitExceeded, match="max_pattern_length=3 exceeded"):
        parse_regex("abcd", max_pattern_length=3)
    for count in ("9999999999", "9" * 100_000):
        with pytest.raises(LimitExceeded, match="max_repeat"):
            parse_regex(f"a{{{count}}}")


@pytest.mark.parametrize("layer", ["(?:a|b{}?)*", r"(?=a|\b{}c)*?x|y", "(?<!{}$|a)"])
def test_the_deepest_pattern_allowed_needs_no_deep_stack(layer):
    pattern = ""
    for _ in range(100):
        pattern = layer.replace("{}", pattern)
    parse_regex(pattern)
    parse_regex(pattern, "ecma")


def test_wrong_arguments():
    with pytest.raises(ValueError, match="flavor"):
        parse_regex("a", "perl")
    with pytest.raises(ValueError, match="flags"):
        parse_regex("a", flags=re.L)
    with pytest.raises(ValueError, match="flags"):
        parse_regex("a", "ecma", flags=re.X)
