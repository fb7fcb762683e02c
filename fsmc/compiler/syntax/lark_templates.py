"""Templates of Lark's grammars: rules with parameters. Each use becomes a rule of its own, a copy of the body with the arguments put in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fsmc.compiler.errors import GrammarError, LimitExceeded
from fsmc.compiler.syntax.grammar_tree import Node, Ref, Rule, rebuilt

MAX_INSTANCES = 10_000
"""Copies of templates, for different arguments,"""
MAX_TEMPLATE_DEPTH = 40
"""and templates that are used inside of templates;"""
MAX_COPIED = 1_000_000
"""and expressions that are looked at in making the copies: arguments may double from one to the next."""

Templates = dict[str, tuple[tuple[str, ...], Rule]]
"""Name → parameters and body."""


@dataclass(frozen=True, slots=True)
class Use(Ref):
    """A template with its arguments, until it is replaced."""

    arguments: tuple[Node, ...]


class Instances:
    """Replaces the uses of ``templates`` in ``rules``, to which the copies are added. text: of the grammar, for errors."""

    def __init__(self, text: str, rules: dict[str, Rule], templates: Templates) -> None:
        self.text, self.rules, self.templates, self.rule = text, rules, templates, ""
        self.names: dict[tuple[str, tuple[Node, ...]], str] = {}
        self.depths: dict[str, int] = {}  # of the rules that are copies of templates
        self.n_copied = 0

    def make(self, ignored: list[Node]) -> list[Node]:
        """Do so; returns what is ignored, without uses of templates as well."""
        pending = list(self.rules)
        while pending:
            self.rule = pending.pop()
            rule = self.rules[self.rule]
            self.rules[self.rule] = replace(rule, body=self.without_uses(rule.body, pending))
        return [self.without_uses(node, pending) for node in ignored]

    def without_uses(self, node: Node, pending: list[str]) -> Node:
        """A node with references to copies in the place of uses; ``pending``: the rules whose bodies are still to be looked at."""
        if self.rule in self.depths:
            self.count()
        if not isinstance(node, Use):
            return rebuilt(node, lambda child: self.without_uses(child, pending))
        if node.name not in self.templates:
            raise self.error(f"there is no template {node.name!r}", node)
        parameters, rule = self.templates[node.name]
        if len(parameters) != len(node.arguments):
            what = f"the template {node.name!r} takes {len(parameters)} arguments, not {len(node.arguments)}"
            raise self.error(what, node)
        arguments = tuple(self.without_uses(argument, pending) for argument in node.arguments)
        key = (node.name, tuple(map(self.without_spans, arguments)))
        if key not in self.names:
            if len(self.names) >= MAX_INSTANCES:
                raise LimitExceeded("max_instances", MAX_INSTANCES, MAX_INSTANCES + 1, "copies of templates")
            depth = self.depths.get(self.rule, 0) + 1
            if depth > MAX_TEMPLATE_DEPTH:
                what = f"the template {node.name!r} is used inside of templates, with ever other arguments"
                raise LimitExceeded("max_template_depth", MAX_TEMPLATE_DEPTH, depth, what)
            name = self.names[key] = f"{node.name}{{{len(self.names)}}}"
            bound = dict(zip(parameters, arguments, strict=True))
            self.rules[name] = Rule(name, self.substituted(rule.body, bound), rule.span, rule.is_terminal)
            self.depths[name] = depth
            pending.append(name)
        return Ref(self.names[key], node.span)

    def substituted(self, node: Node, bound: dict[str, Node]) -> Node:
        """The body of a template with its arguments in the place of its parameters."""
        self.count()
        if isinstance(node, Use):
            given = bound.get(node.name)  # a template may be an argument, too
            name = given.name if isinstance(given, Ref) and not isinstance(given, Use) else node.name
            return Use(name, node.span, tuple(self.substituted(argument, bound) for argument in node.arguments))
        if isinstance(node, Ref):
            return bound.get(node.name, node)
        return rebuilt(node, lambda child: self.substituted(child, bound))

    def without_spans(self, node: Node) -> Node:
        """What tells arguments apart."""
        self.count()
        if isinstance(node, Ref):
            return Ref(node.name, (0, 0))
        return rebuilt(node, self.without_spans)

    def count(self) -> None:
        """One more expression was looked at."""
        self.n_copied += 1
        if self.n_copied > MAX_COPIED:
            what = f"the arguments of templates grow from one to the next, in the rule {self.rule!r}"
            raise LimitExceeded("max_copied", MAX_COPIED, self.n_copied, what)

    def error(self, message: str, node: Use) -> GrammarError:
        """At a use."""
        return GrammarError(message, self.text, node.span, self.rule)
