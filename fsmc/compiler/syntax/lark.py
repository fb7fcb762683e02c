r"""Grammars in Lark's syntax: ``start: "[" [item ("," item)*] "]"``, rules in small letters, terminals in capitals.

A text is what the rule ``start`` derives when its terminals are written one after the other, each as any text that its definition
matches: there is no lexer that would prefer the longest one (Lark calls this ``lexer="dynamic_complete"``). Ignored terminals may
stand before, between and after terminals, any number of them.

Terminals, rules, ``%import common.X``, ``%ignore``, templates, ranges, regexes with flags, ``"…"i``, ``~ n..m`` and ``%json {…}`` are
read; aliases and the marks ``? !`` only shape Lark's trees and mean nothing here. Priorities choose between readings, and are refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from fsmc.compiler.errors import GrammarError, LimitExceeded, UnsupportedGrammarError
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.ebnf import MAX_DEPTH, MAX_REPEAT, check_names, children, regex_leaf
from fsmc.compiler.syntax.expr import Chars
from fsmc.compiler.syntax.grammar_tree import (
    Choice,
    GrammarTree,
    Leaf,
    Node,
    Ref,
    Rule,
    Schema,
    Seq,
    Times,
    choice,
    seq,
    times,
)
from fsmc.compiler.syntax.lark_common import COMMON

MAX_INSTANCES = 10_000
"""Copies of templates, for different arguments,"""
MAX_TEMPLATE_DEPTH = 40
"""and templates that are used inside of templates."""
IGNORED = "%ignore"
"""The name of the rule that reads any number of ignored terminals,"""
BEGIN = "%start"
"""and of the one that reads them before the start rule."""

_BLANK = re.compile(r"(?:[ \t\f]+|//[^\n]*|\\\r?\n)+")
_BLANK_LINES = re.compile(r"(?:[ \t\f\r\n]+|//[^\n]*|#[^\n]*|\\\r?\n)+")
_HEAD = re.compile(r"([?!]*)(_*[A-Za-z][_A-Za-z0-9]*)(\{[^}\n]*\})?(\.-?[0-9]+)?[ \t]*:")
_NAME = re.compile(r"_*[A-Za-z][_A-Za-z0-9]*")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"(i?)')
_REGEX = re.compile(r"/(?!/)((?:[^/\\\n]|\\.)+)/([imslux]*)")
_COUNT = re.compile(r"~[ \t]*([0-9]+)(?:[ \t]*\.\.[ \t]*([0-9]+))?")
_IMPORT = re.compile(r"%import[ \t]+(\.*[A-Za-z_][\w.]*)[ \t]*(\([^)]*\))?(?:[ \t]*->[ \t]*([A-Za-z_]\w*))?")
_FLAGS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "l": 0, "u": 0}


def parse_lark(text: str, *, start: str = "start") -> GrammarTree:
    """The tree of a grammar in Lark's syntax.

    Raises GrammarError with line, column and rule; UnsupportedGrammarError for priorities, declared terminals, imports from elsewhere.

    >>> tree = parse_lark('start: pair ("," pair)*\\npair: WORD "=" INT\\n%import common (WORD, INT)\\n%ignore " "')
    >>> list(tree.rules)
    ['start', 'pair', 'WORD', 'INT', '%ignore', '%start']
    """
    return _Reader(text).read(start)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.rule = text, 0, ""
        self.rules: dict[str, Rule] = {}
        self.templates: dict[str, tuple[tuple[str, ...], Rule]] = {}
        self.instances: dict[tuple[str, tuple[Node, ...]], str] = {}
        self.template_depth: dict[str, int] = {}  # of the rules that are copies of templates
        self.ignored: list[Node] = []

    def error(self, message: str, start: int, end: int, hint: str = "") -> GrammarError:
        return GrammarError(message, self.text, (start, end), self.rule, hint)

    def unsupported(self, message: str, start: int, end: int, hint: str = "") -> GrammarError:
        return UnsupportedGrammarError(message, self.text, (start, end), self.rule, hint)

    # ── statements ───────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, start: str) -> GrammarTree:
        text = self.text
        while True:
            self.skip(_BLANK_LINES)
            if self.at >= len(text):
                break
            self.rule = ""
            if text[self.at] == "%":
                self.directive()
            else:
                self.definition()
            self.skip(_BLANK)
            if self.at < len(text) and text[self.at] not in "\r\n#":
                raise self.error(f"{text[self.at]!r} cannot stand here", self.at, self.at + 1)
        self.instantiate()
        self.check_terminals()
        check_names(text, self.rules, start)
        if self.ignored:
            self.weave_ignored(start)
            start = BEGIN
        return GrammarTree(text, self.rules, start)

    def skip(self, what: re.Pattern[str]) -> None:
        found = what.match(self.text, self.at)
        if found:
            self.at = found.end()

    def directive(self) -> None:
        text, start = self.text, self.at
        if text.startswith("%ignore", start):
            self.at += len("%ignore")
            self.ignored.append(self.alternatives(0))
            return
        found = _IMPORT.match(text, start)
        if found is None:
            word = re.compile(r"%\w*").match(text, start)
            assert word is not None
            raise self.unsupported(f"{word[0]} is not supported", start, word.end())
        module, listed, alias = found[1], found[2], found[3]
        names = [name.strip() for name in listed[1:-1].split(",") if name.strip()] if listed else []
        if not names:
            module, _, name = module.rpartition(".")
            names = [name]
        if module != "common":
            raise self.unsupported(f"only terminals of common can be imported, not of {module!r}", start, found.end())
        for name in names:
            if name not in COMMON:
                raise self.error(f"common has no terminal {name!r}", start, found.end())
            leaf = regex_leaf(text, COMMON[name], 0, (start, found.end()), name)
            self.add(Rule(alias or name, leaf, (start, found.end()), is_terminal=True))
        self.at = found.end()

    def definition(self) -> None:
        text, start = self.text, self.at
        found = _HEAD.match(text, start)
        if not found:
            raise self.error("expected a rule (name: …), a terminal (NAME: …) or a directive (%…)", start, start + 1)
        name, parameters, priority = found[2], found[3], found[4]
        self.rule, span = name, found.span(2)
        if priority:
            raise self.unsupported("priorities are not supported", *found.span(4), "every reading counts here")
        is_terminal = _is_terminal(name)
        self.at = found.end()
        rule = Rule(name, self.alternatives(0), span, is_terminal)
        if parameters is None:
            self.add(rule)
        elif name in self.templates:
            raise self.error(f"the template {name!r} is defined a second time", *span)
        else:
            self.templates[name] = tuple(p.strip() for p in parameters[1:-1].split(",")), rule

    def add(self, rule: Rule) -> None:
        if rule.name in self.rules:
            raise self.error(f"{rule.name!r} is defined a second time", *rule.span)
        self.rules[rule.name] = rule

    # ── bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def alternatives(self, depth: int) -> Node:
        branches = [self.sequence(depth)]
        while True:
            here = self.at
            self.skip(_BLANK_LINES)  # a line that begins with | goes on
            if not self.text.startswith("|", self.at):
                self.at = here
                return choice(branches)
            self.at += 1
            branches.append(self.sequence(depth))

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        text = self.text
        while True:
            self.skip(_BLANK_LINES if depth else _BLANK)
            if self.at >= len(text) or text[self.at] in "|)]}\r\n#,":
                break
            if text.startswith("->", self.at):
                self.at += 2
                self.skip(_BLANK)
                name = _NAME.match(text, self.at)
                if not name:
                    raise self.error("expected a name after ->", self.at, self.at + 1)
                self.at = name.end()
                continue
            parts.append(self.item(depth))
        return seq(parts) if parts else Seq(())

    def item(self, depth: int) -> Node:
        start = self.at
        node = self.atom(depth)
        while True:
            self.skip(_BLANK)
            sign = self.text[self.at : self.at + 1]
            if sign and sign in "?*+":
                self.at += 1
                node = times(node, int(sign == "+"), 1 if sign == "?" else None)
            elif sign == "~":
                found = _COUNT.match(self.text, self.at)
                if not found:
                    raise self.error("expected ~ n or ~ n..m", self.at, self.at + 1)
                low, high = int(found[1][:12]), int((found[2] or found[1])[:12])
                if high < low:
                    raise self.error("the repeat bounds are reversed", self.at, found.end())
                if high > MAX_REPEAT:
                    raise LimitExceeded("max_repeat", MAX_REPEAT, high, f"of {self.text[start : self.at][:60]}")
                self.at = found.end()
                node = times(node, low, high)
            else:
                return node

    def atom(self, depth: int) -> Node:
        text, start = self.text, self.at
        sign = text[start]
        if sign in "([":
            if depth >= MAX_DEPTH:
                raise LimitExceeded("max_depth", MAX_DEPTH, depth + 1, f"groups are open in rule {self.rule!r}")
            self.at += 1
            body = self.alternatives(depth + 1)
            self.skip(_BLANK_LINES)
            close = ")" if sign == "(" else "]"
            if not text.startswith(close, self.at):
                raise self.error(f"the group has no closing {close}", start, start + 1)
            self.at += 1
            return body if sign == "(" else times(body, 0, 1)
        if sign == '"':
            return self.string(start)
        if sign == "/":
            found = _REGEX.match(text, start)
            if not found:
                raise self.error("the regex has no closing /", start, start + 1)
            self.at = found.end()
            flags = 0
            for letter in found[2]:
                flags |= _FLAGS[letter]
            return regex_leaf(text, found[1].replace("\\/", "/"), flags, (start, self.at), self.rule)
        if text.startswith("%json", start):
            return self.embedded(start)
        if sign == "<":
            raise self.unsupported("special tokens are not text and cannot be named", start, start + 1)
        name = _NAME.match(text, start)
        if not name:
            what = f"{sign!r} cannot stand here"
            if sign == "%":
                word = re.compile(r"%\w*").match(text, start)
                assert word is not None
                raise self.unsupported(f"{word[0]} is not supported inside of rules", start, word.end())
            raise self.error(what, start, start + 1, 'literals are written "…"' if sign == "'" else "")
        self.at = name.end()
        if text.startswith("{", self.at):
            return self.template_use(name[0], start, depth)
        if text.startswith("[", self.at):
            raise self.unsupported("attributes of rules are not supported", self.at, self.at + 1)
        return Ref(name[0], name.span())

    def string(self, start: int) -> Node:
        text = self.text
        found = _STRING.match(text, start)
        if not found:
            raise self.error('the literal has no closing "', start, start + 1)
        self.at = found.end()
        characters = self.unescaped(found)
        if text.startswith("..", self.at):
            other = _STRING.match(text, self.at + 2)
            end = self.unescaped(other) if other else ""
            if not other or len(characters) != 1 or len(end) != 1 or found[2] or other[2]:
                raise self.error('a range is written "a".."z"', start, self.at + 2)
            self.at = other.end()
            if end < characters:
                raise self.error("the range is reversed", start, self.at)
            return Leaf(Chars(CharClass.from_ranges([(ord(characters), ord(end))])))
        flags = re.I if found[2] else 0
        return regex_leaf(text, re.escape(characters), flags, (start, self.at), self.rule)

    def unescaped(self, found: re.Match[str]) -> str:
        r"""What a literal stands for; a backslash before another letter than those of ``\n \r \t \f \x \u \U`` stands for itself."""
        body = re.sub(
            r"\\(.)", lambda m: m[0] if m[1] in 'Uuxnftr\\"' else "\\" + m[0], found[1].replace("\x00", "\\x00")
        )
        try:
            characters = str(ast.literal_eval(f'"{body}"'))
            characters.encode()
        except (SyntaxError, ValueError) as error:
            raise self.error(f"the literal cannot be read: {error}", *found.span()) from None
        return characters

    def template_use(self, name: str, start: int, depth: int) -> Node:
        if depth >= MAX_DEPTH:
            raise LimitExceeded("max_depth", MAX_DEPTH, depth + 1, f"groups are open in rule {self.rule!r}")
        self.at += 1
        arguments: list[Node] = []
        while True:
            self.skip(_BLANK_LINES)
            arguments.append(self.alternatives(depth + 1))
            self.skip(_BLANK_LINES)
            sign = self.text[self.at : self.at + 1]
            self.at += 1
            if sign == "}":
                break
            if sign != ",":
                raise self.error("the template's arguments have no closing }", start, self.at)
        return _Use(name, (start, self.at), tuple(arguments))

    def embedded(self, start: int) -> Node:
        """``%json {…}``: a JSON value that is valid under the schema."""
        self.at = start + len("%json")
        self.skip(_BLANK_LINES)
        try:
            _, end = json.JSONDecoder().raw_decode(self.text, self.at)
        except (ValueError, RecursionError) as error:
            raise self.error(f"after %json comes a JSON Schema: {error}", start, start + len("%json")) from None
        schema, self.at = self.text[self.at : end], end
        return Schema(schema, (start, end))

    # ── what is settled at the end ───────────────────────────────────────────────────────────────────────────────────

    def instantiate(self) -> None:
        """Replace the uses of templates by copies of their bodies, which are rules of their own."""
        pending = list(self.rules)
        while pending:
            name = pending.pop()
            self.rule = name
            rule = self.rules[name]
            self.rules[name] = replace(rule, body=self.without_uses(rule.body, pending))
        self.ignored = [self.without_uses(node, pending) for node in self.ignored]

    def without_uses(self, node: Node, pending: list[str]) -> Node:
        if not isinstance(node, _Use):
            return _rebuilt(node, lambda child: self.without_uses(child, pending))
        if node.name not in self.templates:
            raise self.error(f"there is no template {node.name!r}", *node.span)
        parameters, rule = self.templates[node.name]
        if len(parameters) != len(node.arguments):
            what = f"the template {node.name!r} takes {len(parameters)} arguments, not {len(node.arguments)}"
            raise self.error(what, *node.span)
        arguments = tuple(self.without_uses(argument, pending) for argument in node.arguments)
        key = (node.name, tuple(map(_without_spans, arguments)))
        if key not in self.instances:
            if len(self.instances) >= MAX_INSTANCES:
                raise LimitExceeded("max_instances", MAX_INSTANCES, MAX_INSTANCES + 1, "copies of templates")
            depth = self.template_depth.get(self.rule, 0) + 1
            if depth > MAX_TEMPLATE_DEPTH:
                what = f"the template {node.name!r} is used inside of templates, with ever other arguments"
                raise LimitExceeded("max_template_depth", MAX_TEMPLATE_DEPTH, depth, what)
            instance = self.instances[key] = f"{node.name}{{{len(self.instances)}}}"
            bound = dict(zip(parameters, arguments, strict=True))
            self.rules[instance] = Rule(instance, _substituted(rule.body, bound), rule.span, rule.is_terminal)
            self.template_depth[instance] = depth
            pending.append(instance)
        return Ref(self.instances[key], node.span)

    def check_terminals(self) -> None:
        """Terminals are made of terminals, and not of themselves."""
        done: set[str] = set()
        for name, rule in self.rules.items():
            if not rule.is_terminal or name in done:
                continue
            path: list[tuple[str, list[Ref]]] = [(name, _refs(rule.body))]
            on_path = {name}
            while path:
                current, refs = path[-1]
                if not refs:
                    path.pop()
                    on_path.discard(current)
                    done.add(current)
                    continue
                ref = refs.pop()
                self.rule = current
                target = self.rules.get(ref.name)
                if target is None:
                    raise self.error(f"there is no terminal {ref.name!r}", *ref.span)
                if not target.is_terminal:
                    raise self.error(f"a terminal cannot be made of the rule {ref.name!r}", *ref.span)
                if ref.name in on_path:
                    raise self.error(f"the terminal {ref.name!r} is made of itself: only rules can be", *ref.span)
                if ref.name not in done:
                    path.append((ref.name, _refs(target.body)))
                    on_path.add(ref.name)

    def weave_ignored(self, start: str) -> None:
        """Let ignored terminals stand after each terminal of the rules, and before the first."""
        here = (0, 0)
        ignore = Ref(IGNORED, here)

        def woven(node: Node) -> Node:
            if isinstance(node, (Leaf, Schema)) or (isinstance(node, Ref) and self.is_terminal(node)):
                return Seq((node, ignore))
            return _rebuilt(node, woven)

        for name, rule in self.rules.items():
            if not rule.is_terminal:
                self.rules[name] = replace(rule, body=woven(rule.body))
        for node in self.ignored:
            self.rule = IGNORED
            for ref in _refs(node):
                if ref.name in self.rules and not self.is_terminal(ref):
                    raise self.error(f"only terminals can be ignored, not the rule {ref.name!r}", *ref.span)
        self.rules[IGNORED] = Rule(IGNORED, Times(choice(self.ignored), 0, None), here, is_terminal=True)
        self.rules[BEGIN] = Rule(BEGIN, Seq((ignore, Ref(start, here))), here)

    def is_terminal(self, ref: Ref) -> bool:
        target = self.rules.get(ref.name)
        return target is not None and target.is_terminal


@dataclass(frozen=True, slots=True)
class _Use(Ref):
    """A template with its arguments, until it is replaced."""

    arguments: tuple[Node, ...]


def _is_terminal(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()


def _rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with other children."""
    if isinstance(node, Seq):
        return Seq(tuple(map(change, node.parts)))
    if isinstance(node, Choice):
        return Choice(tuple(map(change, node.branches)))
    if isinstance(node, Times):
        return Times(change(node.body), node.minimum, node.maximum)
    return node


def _substituted(node: Node, bound: dict[str, Node]) -> Node:
    if isinstance(node, _Use):
        return _Use(node.name, node.span, tuple(_substituted(argument, bound) for argument in node.arguments))
    if isinstance(node, Ref):
        return bound.get(node.name, node)
    return _rebuilt(node, lambda child: _substituted(child, bound))


def _without_spans(node: Node) -> Node:
    if isinstance(node, Ref):
        return Ref(node.name, (0, 0))
    return _rebuilt(node, _without_spans)


def _refs(node: Node) -> list[Ref]:
    found, pending = [], [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Ref):
            found.append(current)
        else:
            pending.extend(children(current))
    return found
