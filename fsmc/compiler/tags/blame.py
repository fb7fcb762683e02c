"""Which keyword of a schema inside a structural tag is why a text cannot go on; see the module of the same name for schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.cfg.blame import blame_in as blame_in_grammar
from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.errors import FsmcError
from fsmc.compiler.schema.blame import (
    MAX_SECONDS,
    Blame,
    Keyword,
    Path,
    at_path,
    can_go_on,
    keywords_of,
    pointer_of,
    search,
)
from fsmc.compiler.schema.recipe import exact_json
from fsmc.compiler.schema.source import parse_json
from fsmc.compiler.tags.recipe import TagRecipe
from fsmc.jit import working_seconds


def blame(recipe: TagRecipe, data: bytes, offset: int, *, max_seconds: float = MAX_SECONDS) -> Blame:
    """The keywords, by JSON pointer into the tag, without which the byte at ``offset`` could be read; none where no schema is the reason.

    >>> from fsmc.compiler.schema.text_options import TextOptions
    >>> tag = {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": {"maximum": 5}}, "end": "</a>"}
    >>> blame(TagRecipe.of(tag, TextOptions(), {}, ()), b"<a>7</a>", 4).keywords
    (Keyword(pointer='/content/json_schema/maximum', value=5),)
    """
    deadline = working_seconds() + max_seconds
    tag = parse_json(recipe.tag)

    def helps(changed: Any) -> bool:
        try:
            seconds = max(0.1, deadline - working_seconds())
            return can_go_on(replace(recipe, tag=exact_json(changed)).build(max_seconds=seconds), data, offset)
        except FsmcError:
            return False

    def without(paths: list[Path]) -> bool:
        changed = tag
        for path in paths:
            changed = _replaced(changed, path, True)
        return helps(changed)

    paths = list(_schemas(tag))
    if not paths or not without(paths):
        return _in_grammars(recipe, tag, data, offset, deadline)
    while len(paths) > 1:  # which one it is, by halves
        half = paths[: len(paths) // 2]
        paths = half if without(half) else paths[len(half) :]
    if working_seconds() > deadline:
        return Blame(complete=False)
    own = [(*paths[0], *keyword) for keyword in keywords_of(at_path(tag, paths[0]))]
    if not without(paths):
        return Blame()
    found, together, complete = search(tag, own, [own], helps, deadline)
    return Blame(tuple(Keyword(pointer_of(p), at_path(tag, p)) for p in found), together, complete=complete)


def _in_grammars(recipe: TagRecipe, tag: Any, data: bytes, offset: int, deadline: float) -> Blame:
    """The keywords of a schema in one of the tag's grammars."""

    def build(path: Path, text: str, seconds: float) -> RecursiveMachine:
        return replace(recipe, tag=exact_json(_replaced(tag, path, text))).build(max_seconds=seconds)

    for path in _grammars(tag):
        here = at_path(tag, path[:-1])
        grammar = GrammarRecipe(here["grammar"], here.get("syntax", "ebnf"))
        found = blame_in_grammar(grammar, partial(build, path), data, offset, deadline)
        if found.keywords or not found.complete:
            return replace(found, grammar=pointer_of(path))
    return Blame()


def _grammars(tag: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of the texts of grammars in a tag, but for what is inside of its schemas."""
    for name, inner in tag.items() if isinstance(tag, dict) else enumerate(tag) if isinstance(tag, list) else ():
        if name == "grammar" and isinstance(inner, str) and tag.get("type") == "grammar":
            yield (*path, name)
        elif name not in ("json_schema", "schema"):
            yield from _grammars(inner, (*path, str(name)))


def _schemas(tag: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of the schemas in a tag."""
    for name, inner in tag.items() if isinstance(tag, dict) else enumerate(tag) if isinstance(tag, list) else ():
        here = (*path, str(name))
        if name in ("json_schema", "schema"):
            yield here
        else:
            yield from _schemas(inner, here)


def _replaced(tag: Any, path: Path, value: Any) -> Any:
    """The tag with another value at a path; only what changes is copied."""
    if not path:
        return value
    if isinstance(tag, list):
        return [_replaced(inner, path[1:], value) if str(i) == path[0] else inner for i, inner in enumerate(tag)]
    return {**tag, path[0]: _replaced(tag[path[0]], path[1:], value)}
