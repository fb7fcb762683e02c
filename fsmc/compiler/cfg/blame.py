"""Which keyword of a schema inside a grammar is why a text cannot go on; see the module of the same name for schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.errors import FsmcError
from fsmc.compiler.schema.blame import MAX_SECONDS, Blame, Keyword, at_path, can_go_on, keywords_of, pointer_of, search
from fsmc.compiler.schema.recipe import exact_json
from fsmc.compiler.schema.source import parse_json
from fsmc.compiler.syntax.grammar_tree import Choice, Node, Schema, Seq, Span, Times
from fsmc.jit import working_seconds


def blame(recipe: GrammarRecipe, data: bytes, offset: int, *, max_seconds: float = MAX_SECONDS) -> Blame:
    """The keywords of a ``%json`` schema, by JSON pointer into it, without which the byte at ``offset`` could be read; none where no
    schema is the reason, or only several together. ``line``: where the ``%json`` stands that they are in.

    >>> recipe = GrammarRecipe('start: "<a>" value "</a>"\\nvalue: %json {"type": "integer", "maximum": 5}')
    >>> found = blame(recipe, b"<a>7</a>", 4)
    >>> found.keywords, found.line
    ((Keyword(pointer='/maximum', value=5),), 2)
    """

    def build(text: str, seconds: float) -> RecursiveMachine:
        return replace(recipe, text=text).build(max_seconds=seconds)

    return blame_in(recipe, build, data, offset, working_seconds() + max_seconds)


def blame_in(
    recipe: GrammarRecipe, build: Callable[[str, float], RecursiveMachine], data: bytes, offset: int, deadline: float
) -> Blame:
    """The same, where the grammar is all of a machine or a part of it. build: the machine with another text of the grammar, in so many seconds."""
    places = sorted({span for rule in recipe.tree.rules.values() for span in _schemas(rule.body)})

    def helps(place: Span, changed: Any, if_refused: bool = False) -> bool:
        start, end = place
        try:
            text = f"{recipe.text[:start]}%json {exact_json(changed)}{recipe.text[end:]}"
            return can_go_on(build(text, max(0.1, deadline - working_seconds())), data, offset)
        except FsmcError:  # what may be any value cannot stand beside all that this schema can
            return if_refused

    for place in places:
        if working_seconds() > deadline:
            return Blame(complete=False)
        schema = parse_json(recipe.text[place[0] : place[1]].removeprefix("%json"))
        if not isinstance(schema, dict) or not helps(place, True, if_refused=True):
            continue
        own = list(keywords_of(schema))
        found, together, complete = search(schema, own, [own], partial(helps, place), deadline)
        if found or not complete:
            keywords = tuple(Keyword(pointer_of(path), at_path(schema, path)) for path in found)
            line = recipe.text.count("\n", 0, place[0]) + 1 if found else None
            return Blame(keywords, together, complete=complete, line=line)
    return Blame()


def _schemas(node: Node) -> Iterator[Span]:
    """Where the schemas of a piece of grammar stand, each with its ``%json``."""
    if isinstance(node, Schema):
        yield node.span
    inner = node.parts if isinstance(node, Seq) else node.branches if isinstance(node, Choice) else ()
    for part in (node.body,) if isinstance(node, Times) else inner:
        yield from _schemas(part)
