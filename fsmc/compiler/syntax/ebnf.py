r"""Grammars in the EBNF of llama.cpp (GBNF) and XGrammar: ``root ::= "[" item ("," item)* "]"``.

Rules are ``name ::= alternatives``; a rule ends where the next one begins. There are literals "…" (escapes \n \r \t \\ \" \' \xHH
\uHHHH \UHHHHHHHH), classes [a-z] and [^"\\], the dot (any character), regexes /…/, groups, ``* + ?`` and ``{m} {m,} {m,n}``,
and comments from # to the end of the line. A text is what the rule ``root`` derives.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache

from fsmc.compiler.errors import GrammarError, LimitExceeded, PatternSyntaxError, UnsupportedGrammarError
from fsmc.compiler.syntax.charclass import ANY, CharClass, Range
from fsmc.compiler.syntax.expr import Chars, Expr, Look, TextEnd, TextStart
from fsmc.compiler.syntax.grammar_tree import (
    GrammarTree,
    Leaf,
    Node,
    Ref,
    Rule,
    Seq,
    choice,
    seq,
    times,
)
from fsmc.compiler.syntax.regex import parse_regex
from fsmc.compiler.syntax.simplify import concat

MAX_DEPTH = 100
"""Groups that may be open at once."""
MAX_REPEAT = 2**31 - 1

_SPACE = re.compile(r"(?:[ \t\r\n\f\v]+|#[^\n]*)+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_DEFINED = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)(?:[ \t\r\n\f\v]+|#[^\n]*)*::=")
_BOUNDS = re.compile(r"\{\s*([0-9]*)\s*(,?)\s*([0-9]*)\s*\}")
_LITERAL = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.S)
_CLASS = re.compile(r"\[(\^?)([^\]\\]*(?:\\.[^\]\\]*)*)\]", re.S)
_REGEX = re.compile(r"/(?!/)([^/\\\n]*(?:\\.[^/\\\n]*)*)/")
_PIECE = re.compile(r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|[^\\]", re.S)
_ESCAPED = re.compile(r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|[\ud800-\udfff]", re.S)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "b": "\b", "0": "\0", "a": "\a"}


def parse_ebnf(text: str, *, start: str = "root") -> GrammarTree:
    """The tree of a grammar in EBNF.

    Raises GrammarError with line, column and rule for what cannot be read, a name that is not defined or defined twice;
    UnsupportedGrammarError for look-ahead assertions, token references and macros.

    >>> tree = parse_ebnf('root ::= "a" root | digit?  # comment\\ndigit ::= [0-9]')
    >>> list(tree.rules)
    ['root', 'digit']
    """
    reader = _Reader(text)
    reader.read()
    check_names(text, reader.rules, start)
    return GrammarTree(text, reader.rules, start, tuple(reader.notes))


def check_names(text: str, rules: dict[str, Rule], start: str) -> None:
    """Raise GrammarError where the start rule is missing or a rule refers to one that is not defined."""
    if start not in rules:
        named = ", ".join(itertools.islice(rules, 5))
        hint = f"give start=..., one of {named}{', …' if len(rules) > 5 else ''}" if rules else ""
        raise GrammarError(f"there is no rule {start!r}, which is where a text begins", text, (0, 0), hint=hint)
    for rule in rules.values():
        pending: list[Node] = [rule.body]
        while pending:
            node = pending.pop()
            if isinstance(node, Ref):
                if node.name not in rules:
                    raise GrammarError(f"there is no rule {node.name!r}", text, node.span, rule.name)
            else:
                pending.extend(children(node))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes that a node is made of."""
    found: tuple[Node, ...] | None = getattr(node, "parts", None) or getattr(node, "branches", None)
    if found is not None:
        return found
    body = getattr(node, "body", None)
    return () if body is None else (body,)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.rules: dict[str, Rule] = {}
        self.notes: list[str] = []
        self.rule = ""

    def error(self, message: str, start: int, end: int, hint: str = "") -> GrammarError:
        return GrammarError(message, self.text, (start, end), self.rule, hint)

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        if found:
            self.at = found.end()

    def read(self) -> None:
        text = self.text
        self.skip()
        while self.at < len(text):
            found = _DEFINED.match(text, self.at)
            if not found:
                self.rule = ""
                raise self.error("expected a rule: name ::= …", self.at, self.at + 1)
            name, span = found[1], found.span(1)
            self.rule = name
            if name in self.rules:
                raise self.error(f"the rule {name!r} is defined a second time", *span)
            self.at = found.end()
            body = self.alternatives(0)
            if self.at < len(text) and not _DEFINED.match(text, self.at):
                what = "a ) that closes no group" if text[self.at] == ")" else f"{text[self.at]!r} cannot stand here"
                raise self.error(what, self.at, self.at + 1)
            self.rules[name] = Rule(name, body, span)

    def alternatives(self, depth: int) -> Node:
        branches = [self.sequence(depth)]
        while self.text.startswith("|", self.at):
            self.at += 1
            branches.append(self.sequence(depth))
        return choice(branches)

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        text = self.text
        self.skip()
        while self.at < len(text) and text[self.at] not in "|)":
            if text[self.at] not in '"[(./<' and _DEFINED.match(text, self.at):
                break
            begin = self.at
            node = self.item(depth)
            self.skip()
            while self.at < len(text) and text[self.at] in "*+?{":
                node = self.quantified(node, begin)
                self.skip()
            parts.append(node)
        return seq(parts) if parts else Seq(())

    def quantified(self, node: Node, begin: int) -> Node:
        sign, start = self.text[self.at], self.at
        if sign != "{":
            self.at += 1
            return times(node, int(sign == "+"), 1 if sign == "?" else None)
        found = _BOUNDS.match(self.text, start)
        if not found or not (found[1] or (found[2] and found[3])):
            raise self.error("expected {m}, {m,} or {m,n}", start, start + 1)
        self.at = found.end()
        low = int(found[1] or 0) if len(found[1]) < 12 else MAX_REPEAT + 1
        high = low if not found[2] else None if not found[3] else int(found[3][:12])
        if low > MAX_REPEAT or (high is not None and high > MAX_REPEAT):
            raise LimitExceeded("max_repeat", MAX_REPEAT, max(low, high or 0), f"of {self.text[begin : self.at][:60]}")
        if high is not None and high < low:
            raise self.error("the repeat bounds are reversed", start, self.at)
        return times(node, low, high)

    def item(self, depth: int) -> Node:
        text, start = self.text, self.at
        sign = text[start]
        if sign == '"':
            return self.literal()
        if sign == "[":
            return self.char_class()
        if sign == ".":
            self.at += 1
            return Leaf(Chars(ANY))
        if sign == "/":
            found = _REGEX.match(text, start)
            if not found:
                raise self.error("the regex has no closing /", start, start + 1)
            self.at = found.end()
            return regex_leaf(text, found[1].replace("\\/", "/"), 0, (start, self.at), self.rule)
        if sign == "(":
            return self.group(depth)
        if sign == "<":
            end = text.find(">", start) + 1 or start + 1
            raise UnsupportedGrammarError(
                "single tokens cannot be named: a grammar is about text", text, (start, end), self.rule
            )
        name = _NAME.match(text, start)
        if not name:
            what = "* + ? and { repeat what stands before them: there is nothing" if sign in "*+?{" else (
                f"{sign!r} cannot stand here"
            )  # fmt: skip
            raise self.error(what, start, start + 1, 'literals are written "…"' if sign == "'" else "")
        self.at = name.end()
        if text.startswith("(", self.at):
            raise UnsupportedGrammarError(
                f"the macro {name[0]} is not supported", text, name.span(), self.rule, "write the rule out"
            )
        return Ref(name[0], name.span())

    def group(self, depth: int) -> Node:
        start = self.at
        if depth >= MAX_DEPTH:
            raise LimitExceeded("max_depth", MAX_DEPTH, depth + 1, f"groups are open in rule {self.rule!r}")
        self.at += 1
        self.skip()
        if self.text.startswith("=", self.at):
            raise UnsupportedGrammarError(
                "look-ahead assertions are not supported", self.text, (start, self.at + 1), self.rule
            )
        body = self.alternatives(depth + 1)
        if not self.text.startswith(")", self.at):
            raise self.error("the group has no closing )", start, start + 1)
        self.at += 1
        return body

    def literal(self) -> Node:
        start = self.at
        found = _LITERAL.match(self.text, start)
        if not found:
            raise self.error('the literal has no closing "', start, start + 1)
        self.at = found.end()
        characters = _ESCAPED.sub(lambda piece: self.character(piece[0], start + 1 + piece.start()), found[1])
        return Leaf(literal(characters))

    def char_class(self) -> Node:
        start = self.at
        found = _CLASS.match(self.text, start)
        if not found:
            raise self.error("the class has no closing ]", start, start + 1)
        self.at = found.end()
        pieces = list(_PIECE.finditer(found[2]))
        first = found.start(2)
        ranges: list[Range] = []
        i = 0
        while i < len(pieces):
            low = high = ord(self.character(pieces[i][0], first + pieces[i].start()))
            if i + 2 < len(pieces) and pieces[i + 1][0] == "-":
                high = ord(self.character(pieces[i + 2][0], first + pieces[i + 2].start()))
                if high < low:
                    raise self.error("the range is reversed", first + pieces[i].start(), first + pieces[i + 2].end())
                i += 2
            ranges.append((low, high))
            i += 1
        chars = CharClass.from_ranges(ranges)
        return Leaf(Chars(~chars if found[1] else chars))

    def character(self, piece: str, at: int) -> str:
        """What one character of a literal or class stands for."""
        if piece[0] != "\\":
            meaning = piece
        elif len(piece) == 2:
            letter = piece[1]
            if letter in _ESCAPES:
                return _ESCAPES[letter]
            if letter.isalnum():
                raise self.error(f"unknown escape {piece}", at, at + 2, r"known: \n \r \t \\ \" \xHH \uHHHH \UHHHHHHHH")
            return letter
        else:
            code = int(piece[2:], 16)
            if code > 0x10FFFF:
                raise self.error("no character has this code point", at, at + len(piece))
            meaning = chr(code)
        if 0xD800 <= ord(meaning) <= 0xDFFF:
            raise self.error("a lone surrogate is in no UTF-8 text", at, at + len(piece))
        return meaning


def literal(characters: str) -> Expr:
    """The tree of a text."""
    return concat([_one(character) for character in characters])


@lru_cache(maxsize=65536)
def _one(character: str) -> Expr:
    return Chars(CharClass.of(character))


def regex_leaf(text: str, pattern: str, flags: int, span: tuple[int, int], rule: str) -> Leaf:
    """A regex as a leaf; its faults become GrammarErrors at its place."""
    try:
        expr = parse_regex(pattern, flags=flags)
    except PatternSyntaxError as error:
        kind = GrammarError if type(error) is PatternSyntaxError else UnsupportedGrammarError
        place = span[0] + 1 + error.span[0]
        raise kind(f"in the regex: {error.message}", text, (place, place + 1), rule, error.hint) from None
    return Leaf(expr, alone=has_assertions(expr))


def has_assertions(expr: Expr) -> bool:
    """Whether there are looks or anchors in a tree."""
    pending, seen = [expr], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (Look, TextStart, TextEnd)):
            return True
        pending.extend(getattr(node, "parts", None) or getattr(node, "branches", None) or ())
        if (body := getattr(node, "body", None)) is not None:
            pending.append(body)
    return False
