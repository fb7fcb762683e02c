r"""Grammars in Lark's syntax: ``start: "[" [item ("," item)*] "]"``, rules in small letters, terminals in capitals.

A text is what the rule ``start`` derives when its terminals are written one after the other, each as any text that its definition
matches: there is no lexer that would prefer the longest one (Lark calls this ``lexer="dynamic_complete"``). Ignored terminals may
stand before, between and after terminals, any number of them.

Terminals, rules, ``%import common.X``, ``%ignore``, ``%extend``, ``%override``, templates, ranges, regexes with flags, ``"…"i``, ``~ n..m`` and ``%json {…}`` are
read; aliases and the marks ``? !`` only shape Lark's trees and mean nothing here. Priorities choose between readings, and are refused.
"""

from __future__ import annotations

import re

from fsmc.compiler.errors import GrammarError, LimitExceeded, UnsupportedGrammarError
from fsmc.compiler.syntax.ebnf import MAX_DEPTH, MAX_REPEAT, check_names, regex_leaf
from fsmc.compiler.syntax.grammar_tree import GrammarTree, Node, Ref, Rule, Seq, choice, seq, times
from fsmc.compiler.syntax.lark_common import COMMON, LAZY
from fsmc.compiler.syntax.lark_literals import regex, schema, string
from fsmc.compiler.syntax.lark_templates import Instances, Templates, Use
from fsmc.compiler.syntax.lark_terminals import BEGIN, check_terminals, is_terminal_name, weave_ignored

_BLANK = re.compile(r"(?:[ \t\f]+|//[^\n]*|\\[ \t]*\r?\n)+")
_INLINE = re.compile(r"[ \t]+(?=\{)")
_BLANK_LINES = re.compile(r"(?:[ \t\f\r\n]+|//[^\n]*|#[^\n]*|\\[ \t]*\r?\n)+")
_HEAD = re.compile(r"([?!]*)(_*[A-Za-z][_A-Za-z0-9]*)(?:[ \t]*(\{[^}\n]*\}))?(?:[ \t]*(\.[ \t]*[+-]?[0-9]+))?[ \t]*:")
_NAME = re.compile(r"_*[A-Za-z][_A-Za-z0-9]*")
_COUNT = re.compile(r"~[ \t]*\+?([0-9]+)(?:[ \t]*\.\.[ \t]*\+?([0-9]+))?")
_CHANGE = re.compile(r"%(extend|override)[ \t]+")
_IMPORT = re.compile(r"%import[ \t]+(\.*[A-Za-z_][\w.]*)[ \t]*(\([^)]*\))?(?:[ \t]*->[ \t]*([A-Za-z_]\w*))?")


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
        self.templates: Templates = {}
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
        ignored = Instances(text, self.rules, self.templates).make(self.ignored)
        check_terminals(text, self.rules)
        check_names(text, self.rules, start)
        if ignored:
            weave_ignored(text, self.rules, ignored, start)
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
            ignored = self.alternatives(0)
            if ignored == Seq(()):
                raise self.error("%ignore needs a terminal or a text to ignore", start, start + len("%ignore"))
            self.ignored.append(ignored)
            return
        changed = _CHANGE.match(text, start)
        if changed:
            self.at = changed.end()
            self.definition(changed[1])
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
            if name in LAZY:
                hint = r"write the whole terminal as a regex: /'([^'\\\n]|\\.)*'/ for a text between single quotes"
                raise self.unsupported(
                    f"{name} relies on lazy matching, and is not supported", start, found.end(), hint
                )
            if name not in COMMON:
                raise self.error(f"common has no terminal {name!r}", start, found.end())
            leaf = regex_leaf(text, COMMON[name], 0, (start, found.end()), name)
            known = self.rules.get(alias or name)
            if known is None or known.body != leaf:  # else it is imported twice
                self.add(Rule(alias or name, leaf, (start, found.end()), is_terminal=True))
        self.at = found.end()

    def definition(self, change: str = "") -> None:
        """A rule, terminal or template; ``change``: "extend" or "override" one that is there already."""
        text, start = self.text, self.at
        found = _HEAD.match(text, start)
        if not found:
            what = "expected a rule (name: …), a terminal (NAME: …) or a directive (%…)"
            raise self.error(what, start, start + 1, "in EBNF, which is the other syntax, a rule is name ::= …")
        name, parameters, priority = found[2], found[3], found[4]
        self.rule, span = name, found.span(2)
        if priority:
            raise self.unsupported("priorities are not supported", *found.span(4), "every reading counts here")
        is_terminal = is_terminal_name(name)
        self.at = found.end()
        rule = Rule(name, self.alternatives(0), span, is_terminal)
        if change:
            self.change(rule, change, parameters is not None)
        elif parameters is None:
            self.add(rule)
        elif name in self.templates:
            raise self.error(f"the template {name!r} is defined a second time", *span)
        else:
            listed = tuple(p.strip() for p in parameters[1:-1].split(","))
            twice = [p for i, p in enumerate(listed) if p in listed[:i]]
            if twice:
                raise self.error(f"the template {name!r} has two parameters {twice[0]!r}", *found.span(3))
            self.templates[name] = listed, rule

    def change(self, rule: Rule, change: str, is_template: bool) -> None:
        """``%extend`` or ``%override`` what stands above."""
        if is_template:
            raise self.unsupported(f"%{change} of a template is not supported", *rule.span)
        known = self.rules.get(rule.name)
        if known is None:
            raise self.error(f"there is no {rule.name!r} above that %{change} could change", *rule.span)
        body = rule.body if change == "override" else choice([known.body, rule.body])
        self.rules[rule.name] = Rule(rule.name, body, rule.span, rule.is_terminal)

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
        if sign in '"/':
            node, self.at = (string if sign == '"' else regex)(text, start, self.rule)
            return node
        if text.startswith("%json", start):
            self.at += len("%json")
            span = start, self.at
            self.skip(_BLANK_LINES)
            node, self.at = schema(text, self.at, span, self.rule)
            return node
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
        self.skip(_INLINE)
        if text.startswith("{", self.at):
            return self.template_use(name[0], start, depth)
        if text.startswith("[", self.at):
            raise self.unsupported("attributes of rules are not supported", self.at, self.at + 1)
        return Ref(name[0], name.span())

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
        return Use(name, (start, self.at), tuple(arguments))
