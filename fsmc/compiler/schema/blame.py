"""Which keyword of a schema is why a text cannot go on: the one without which it could.

The machine of a schema does not remember which keyword an edge comes from: formulas are shared, simplified, joined. So the
question is asked the other way round, which is exact for every keyword: the schema is compiled again without it, and the text
tried. Keywords that apply where the text stands are tried first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.errors import FsmcError
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.source import parse_json
from fsmc.jit import working_seconds

MAX_SECONDS = 5.0

Path = tuple[str, ...]

_NAMES = {
    *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions", "$comment"),
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$vocabulary"),
}
"""Keywords that ask nothing of a value."""

_MAPS = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_APPLICATORS = {*_MAPS, *_LISTS, *_SAME_VALUE, "$ref", "$dynamicRef", "$recursiveRef"}
"""Keywords that ask nothing themselves: what stands in them does."""


class Keyword(NamedTuple):
    """A keyword by its JSON pointer, and its value."""

    pointer: str
    value: Any


@dataclass(frozen=True, slots=True)
class Blame:
    """What stands in a text's way.

    keywords: without any one of them the text could go on; or, if ``together``, without all of them. option: an option of the
    layout without which it could. is_syntax: no schema at all would help: it is not JSON, or not canonical.
    complete: False where ``max_seconds`` ended the search: there may be more. line: of a grammar, where the schema begins that has them.
    grammar: of a structural tag, where that grammar is; the keywords are in a schema of it then, else in the tag.
    """

    keywords: tuple[Keyword, ...] = ()
    together: bool = False
    option: str | None = None
    is_syntax: bool = False
    complete: bool = True
    line: int | None = None
    grammar: str | None = None


def blame(
    recipe: SchemaRecipe, data: bytes, offset: int, place: str = "", *, max_seconds: float = MAX_SECONDS
) -> Blame:
    """Why the byte at ``offset`` cannot be read, or, if that is the end of ``data``, why the text cannot end there.

    place: the JSON pointer of the value in which that is, if known: the search begins there. max_seconds: for all of it.

    >>> recipe = SchemaRecipe({"properties": {"a": {"type": "integer", "maximum": 5}}})
    >>> blame(recipe, b'{"a": 7', 6, "/a").keywords
    (Keyword(pointer='/properties/a/maximum', value=5),)
    """
    deadline = working_seconds() + max_seconds
    schema = parse_json(recipe.schema) if isinstance(recipe.schema, str) else recipe.schema

    def helps(changed: Any, **options: Any) -> bool:
        try:
            other = replace(recipe, schema=changed, options=replace(recipe.options, **options))
            return can_go_on(
                other.build(max_seconds=max(0.1, deadline - working_seconds())).handed_over(), data, offset
            )
        except FsmcError:
            return False

    if not helps(True):
        loose = {"whitespace": "flexible", "indent": None}
        if recipe.options.whitespace != "flexible" or recipe.options.indent is not None:
            if helps(True, **loose):
                return Blame(option="indent" if recipe.options.indent is not None else "whitespace")
        return Blame(is_syntax=True)
    if not isinstance(schema, dict):
        return Blame((Keyword("", schema),))
    near = list(_near(schema, place))
    option = (
        "property_order" if recipe.options.property_order == "schema" and helps(schema, property_order="any") else None
    )
    found, together, complete = search(schema, list(keywords_of(schema)), near, helps, deadline, option is not None)
    return Blame(tuple(Keyword(pointer_of(p), at_path(schema, p)) for p in found), together, option, False, complete)


def search(
    document: Any,
    keywords: list[Path],
    near: list[list[Path]],
    helps: Callable[..., bool],
    deadline: float,
    is_known: bool = False,
) -> tuple[list[Path], bool, bool]:
    """The keywords that stand in the way, whether only all of them together do, and whether all were tried.

    document: what holds them. near: paths of the subschemas that apply at the place, then of those around. helps: whether the text could go on
    under a changed document. is_known: something else that would help is known, so only keywords that would by themselves are of interest.
    """
    candidates = sorted(keywords, key=lambda k: _distance(k, near))
    own = [path for path in candidates if path[-1] not in _APPLICATORS]
    found, complete = _single(document, own, near, helps, deadline)
    together = False
    if not found and not is_known and complete:
        found, complete = _together(document, own, helps, deadline)
        together = len(found) > 1
    if (
        not found and not is_known and complete
    ):  # what only brings keywords together: "properties" with "additionalProperties"
        found, complete = _single(document, candidates, near, helps, deadline)
        found = [path for path in found if not any(q != path and q[: len(path)] == path for q in found)]
    return found, together, complete


def can_go_on(machine: RecursiveMachine, data: bytes, offset: int) -> bool:
    """Whether the byte at ``offset`` can be read; at the end of ``data``: whether the text may end."""
    end = machine.run(data[: offset + 1])
    return end is not None and (offset < len(data) or machine.is_complete(end))


def applicable(schema: Any, place: str) -> list[str]:
    """The JSON pointers of the subschemas that a value at this place (a JSON pointer into a text) has to do with.

    References into the same document are followed; ``patternProperties`` count as applying where their pattern is found.

    >>> schema = {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"kids": {"items": {"$ref": "#/$defs/t"}}}}}}
    >>> applicable(schema, "/kids/0")
    ['/$defs/t/properties/kids/items', '/$defs/t']
    """
    levels = list(_near(schema, place))
    return [pointer_of(path) for path in levels[0]] if levels else []


def _near(schema: Any, place: str) -> Iterator[list[Path]]:
    """The paths of the subschemas that apply at ``place``, then those at the value that holds it, and so on to the root."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]]
    levels = [_same_value(schema, [()])]
    for step in steps:
        below = [inner for path in levels[-1] for inner in _below(at_path(schema, path), path, step)]
        levels.append(_same_value(schema, below))
    yield from reversed(levels)


def _same_value(schema: Any, paths: list[Path]) -> list[Path]:
    """These subschemas and those that they apply to the same value."""
    known = dict.fromkeys(paths)
    todo = list(known)
    while todo:
        path = todo.pop()
        here = at_path(schema, path)
        if not isinstance(here, dict):
            continue
        inner = []
        for name in _SAME_VALUE:
            if isinstance(here.get(name), list):
                inner += [(*path, name, str(i)) for i in range(len(here[name]))]
            elif name in here:
                inner.append((*path, name))
        for name in ("dependentSchemas", "dependencies"):
            inner += [(*path, name, key) for key in here.get(name) or () if isinstance(here[name], dict)]
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = here.get(name)
            if isinstance(target, str) and target.startswith("#") and target[1:2] in ("", "/"):
                inner.append(tuple(s.replace("~1", "/").replace("~0", "~") for s in target[1:].split("/")[1:]))
        for new in inner:
            if new not in known and at_path(schema, new) is not None:
                known[new] = None
                todo.append(new)
    return list(known)


def _below(here: Any, path: Path, step: str) -> list[Path]:
    """The subschemas for one member or item."""
    if not isinstance(here, dict):
        return []
    found = []
    if isinstance(here.get("properties"), dict) and step in here["properties"]:
        found.append((*path, "properties", step))
    for pattern in here.get("patternProperties") or ():
        try:
            matches = re.search(pattern, step) is not None
        except re.error:  # JavaScript's syntax
            matches = True
        if matches:
            found.append((*path, "patternProperties", pattern))
    if not found:
        found += [(*path, name) for name in ("additionalProperties", "unevaluatedProperties") if name in here]
    if step.isdecimal():
        for name in ("prefixItems", "items"):
            if isinstance(here.get(name), list) and int(step) < len(here[name]):
                found.append((*path, name, step))
        found += [
            (*path, n) for n in ("items", "additionalItems", "contains", "unevaluatedItems") if _is_schema(here, n)
        ]
    return found


def _is_schema(here: dict[str, Any], name: str) -> bool:
    return isinstance(here.get(name), (dict, bool))


def at_path(schema: Any, path: Path) -> Any:
    for step in path:
        try:
            schema = schema[int(step)] if isinstance(schema, list) else schema[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return schema


def keywords_of(schema: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all keywords that ask something of a value."""
    if schema is False and path[-2:-1] and path[-2] in _MAPS:
        yield path  # a member that must not be
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        here = (*path, name)
        if name not in _NAMES:
            yield here
        if name in _MAPS and isinstance(value, dict):
            for key, inner in value.items():
                yield from keywords_of(inner, (*here, key))
        elif isinstance(value, list) and name in (*_LISTS, "items"):
            for i, inner in enumerate(value):
                yield from keywords_of(inner, (*here, str(i)))
        elif isinstance(value, dict) and name not in ("const", "enum", "default", "examples"):
            yield from keywords_of(value, here)


def _distance(path: Path, near: list[list[Path]]) -> int:
    """How far up from the place the subschema that has this keyword applies."""
    holders = (path, path[:-1], path[:-2] if path[-2:-1] and path[-2] in _MAPS else path)
    return next((i for i, level in enumerate(near) if any(h in level for h in holders)), len(near))


def _without(schema: Any, paths: list[Path]) -> Any:
    """The schema without some keywords; only what changes is copied."""
    here = {path[0] for path in paths if len(path) == 1}
    deeper: dict[str, list[Path]] = {}
    for path in paths:
        if len(path) > 1 and path[0] not in here:
            deeper.setdefault(path[0], []).append(path[1:])
    if isinstance(schema, list):
        return [_without(inner, deeper[str(i)]) if str(i) in deeper else inner for i, inner in enumerate(schema)]
    return {
        key: _without(inner, deeper[key]) if key in deeper else inner
        for key, inner in schema.items()
        if key not in here
    }


def _single(
    schema: Any,
    candidates: list[Path],
    near: list[list[Path]],
    helps: Callable[..., bool],
    deadline: float,
) -> tuple[list[Path], bool]:
    """The keywords without any one of which the text could go on, and whether all were tried.

    Those that apply elsewhere are tried only if none that applies at the place, or at what holds it, is one.
    """
    found: list[Path] = []
    for path in candidates:
        if found and _distance(path, near) == len(near):
            break
        if working_seconds() > deadline:
            return found, False
        if helps(_without(schema, [path])):
            found.append(path)
    return found, True


def _together(
    schema: Any, candidates: list[Path], helps: Callable[..., bool], deadline: float
) -> tuple[list[Path], bool]:
    """Keywords without all of which the text could go on, none of which can be left out of them; [] if there are none."""
    removed = list(candidates)
    if not helps(_without(schema, removed)):
        return [], True
    step = max(1, len(removed) // 2)
    while True:  # halves, then quarters, down to single ones
        i = 0
        while i < len(removed):
            if working_seconds() > deadline:
                return removed, False
            fewer = removed[:i] + removed[i + step :]
            if helps(_without(schema, fewer)):
                removed = fewer
            else:
                i += step
        if step == 1:
            return removed, True
        step = max(1, step // 2)


def pointer_of(path: Path) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)
