"""Terminals of Lark's grammars: what they may be made of, and those that are ignored between the others."""

from __future__ import annotations

from dataclasses import replace

from fsmc.compiler.errors import GrammarError
from fsmc.compiler.syntax.ebnf import children
from fsmc.compiler.syntax.grammar_tree import Leaf, Node, Ref, Rule, Schema, Seq, Times, choice, rebuilt

IGNORED = "%ignore"
"""The name of the rule that reads any number of ignored terminals,"""
BEGIN = "%start"
"""and of the one that reads them before the start rule."""


def is_terminal_name(name: str) -> bool:
    """Terminals are written in capitals.

    >>> is_terminal_name("_WS"), is_terminal_name("_list")
    (True, False)
    """
    return name.lstrip("_")[:1].isupper()


def check_terminals(text: str, rules: dict[str, Rule]) -> None:
    """Terminals are made of terminals, and not of themselves: GrammarError if not."""
    done: set[str] = set()
    for name, rule in rules.items():
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
            target = rules.get(ref.name)
            if target is None:
                raise GrammarError(f"there is no terminal {ref.name!r}", text, ref.span, current)
            if not target.is_terminal:
                raise GrammarError(f"a terminal cannot be made of the rule {ref.name!r}", text, ref.span, current)
            if ref.name in on_path:
                what = f"the terminal {ref.name!r} is made of itself: only rules can be"
                raise GrammarError(what, text, ref.span, current)
            if ref.name not in done:
                path.append((ref.name, _refs(target.body)))
                on_path.add(ref.name)


def weave_ignored(text: str, rules: dict[str, Rule], ignored: list[Node], start: str) -> None:
    """Let ignored terminals stand after each terminal of the rules, and before the first: from the rule `BEGIN` on."""
    here = (0, 0)
    ignore = Ref(IGNORED, here)

    def is_terminal(ref: Ref) -> bool:
        return ref.name in rules and rules[ref.name].is_terminal

    def woven(node: Node) -> Node:
        if isinstance(node, (Leaf, Schema)) or (isinstance(node, Ref) and is_terminal(node)):
            return Seq((node, ignore))
        return rebuilt(node, woven)

    for name, rule in rules.items():
        if not rule.is_terminal:
            rules[name] = replace(rule, body=woven(rule.body))
    for node in ignored:
        for ref in _refs(node):
            if ref.name not in rules:
                raise GrammarError(f"there is no terminal {ref.name!r}", text, ref.span, IGNORED)
            if not is_terminal(ref):
                what = f"only terminals can be ignored, not the rule {ref.name!r}"
                raise GrammarError(what, text, ref.span, IGNORED)
    rules[IGNORED] = Rule(IGNORED, Times(choice(ignored), 0, None), here, is_terminal=True)
    rules[BEGIN] = Rule(BEGIN, Seq((ignore, Ref(start, here))), here)


def _refs(node: Node) -> list[Ref]:
    found, pending = [], [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Ref):
            found.append(current)
        else:
            pending.extend(children(current))
    return found
