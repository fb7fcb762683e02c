"""Where a subschema is read: the document (*resource*) around it, the draft, and the dynamic scope.

A resource is a schema with a URI of its own: the root, an embedded schema with ``$id``, a document of a registry. What
``#`` and relative references mean depends on the resource; what ``$dynamicRef`` and ``$recursiveRef`` mean depends on the
resources that were entered on the way. Of those only the outermost one that declares a given dynamic anchor ever matters
(core specification 2020-12, 8.2.3.2; 2019-09, 8.2.4.2), so that a scope has finitely many values however a schema recurses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fsmc.compiler.errors import SchemaError, UnsupportedSchemaError
from fsmc.compiler.schema.checks import (
    CONTAINERS,
    DEPENDENCIES,
    ITEMS,
    KEYWORDS,
    NAMED,
    NOTHING,
    REGEXES,
    SCHEMA,
    SCHEMAS,
    Keyword,
)
from fsmc.compiler.schema.source import quoted

Trail = Any
"""The way to a value: a URI (the start of a foreign resource, "" for the root), or (trail, step, ...) below another."""

RECURSIVE = ""
"""The name under which a resource's ``$recursiveAnchor: true`` is kept among its dynamic anchors; no real anchor has it."""

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a URI. draft: its root's. dynamic: dynamic anchor → the subschema that it names."""

    root: Any
    uri: str
    draft: int
    trail: Trail
    dynamic: dict[str, Any]


Scope = tuple[tuple[str, Resource], ...]
"""For each dynamic anchor, sorted by name, the outermost resource that declares it."""


@dataclass(slots=True, eq=False)
class Context:
    """All that the meaning of a subschema depends on besides its text.

    nodes: identity of a value → its node. checked: identities
    of the values that have been checked. members: references that are all that a member or an item has to satisfy.
    """

    resource: Resource
    draft: int
    scope: Scope
    keywords: dict[str, Keyword]
    nodes: dict[int, int] = field(default_factory=dict)
    checked: set[int] = field(default_factory=set)
    members: set[str] = field(default_factory=set)


def pointer_text(trail: Trail) -> str:
    """A trail as a JSON pointer (RFC 6901), after a URI if it starts in a foreign resource.

    >>> pointer_text((("", "properties", "a/b"), "anyOf", 0))
    '/properties/a~1b/anyOf/0'
    """
    steps: list[str] = []
    while isinstance(trail, tuple):
        steps[:0] = ["/" + str(step).replace("~", "~0").replace("/", "~1") for step in trail[1:]]
        trail = trail[0]
    return f"{trail}{''.join(steps)}"


def declared_draft(schema: dict[str, Any], default: int, trail: Trail) -> int:
    """The draft that ``$schema`` names. A meta-schema of somebody's own means what the default draft says."""
    uri = schema.get("$schema")
    if not isinstance(uri, str):
        return default
    uri = official_uri(uri.rstrip("#"))
    if "json-schema.org/draft-03" in uri:
        raise UnsupportedSchemaError(
            "draft 3 is not supported: write it for draft 4 or later", pointer_text((trail, "$schema")), "$schema"
        )
    return _DRAFTS.get(uri, default)


def declares_draft(schema: Any) -> bool:
    """Whether ``$schema`` names a draft that is known."""
    return isinstance(schema, dict) and declared_draft(schema, 0, "") != 0


def official_uri(uri: str) -> str:
    """The URI of a meta-schema of draft 7 or before is http; many write https."""
    return uri.replace("https://json-schema.org/draft-0", "http://json-schema.org/draft-0")


def identifier(schema: dict[str, Any], draft: int) -> str | None:
    """The ``$id`` that gives a schema a URI of its own, if it has one."""
    found = schema.get("id" if draft == 4 else "$id")
    if not isinstance(found, str) or (draft <= 7 and ("$ref" in schema or found.startswith("#"))):
        return None  # beside $ref nothing counts before 2019-09; "#name" was how an anchor was written
    return found


def dynamic_anchors(root: Any, draft: int) -> dict[str, Any]:
    """The dynamic anchors of a resource, not those of resources embedded in it."""
    found: dict[str, Any] = {}
    if draft < 2019 or not isinstance(root, dict):
        return found
    if draft == 2019:
        return {RECURSIVE: root} if root.get("$recursiveAnchor") is True else found
    queue = [root]
    for schema in queue:
        if schema is not root and "$id" in schema:
            continue
        if isinstance(name := schema.get("$dynamicAnchor"), str):
            found.setdefault(name, schema)
        for keyword, value in schema.items():
            queue += [inner for _, inner in subschemas(keyword, value, draft) if isinstance(inner, dict)]
    return found


def subschemas(keyword: str, value: Any, draft: int) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """(path, subschema) of every subschema that stands below a keyword."""
    below = kind_below(keyword, draft)
    if below == SCHEMA or (below == ITEMS and not isinstance(value, list)):
        yield (keyword,), value
    elif below in (SCHEMAS, ITEMS) and isinstance(value, list):
        for i, inner in enumerate(value):
            yield (keyword, i), inner
    elif below in (NAMED, REGEXES, DEPENDENCIES) and isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, (dict, bool)):
                yield (keyword, name), inner


def kind_below(keyword: str, draft: int) -> int:
    """What stands below a keyword (`checks`); also below those that only hold subschemas for references."""
    if keyword in CONTAINERS:
        return CONTAINERS[keyword]
    known = KEYWORDS[draft].get(keyword)
    return NOTHING if known is None else known.below


def step_into(value: Any, step: str, reference: str, trail: Trail) -> tuple[Any, str | int]:
    """What one step of a JSON pointer leads to, and the step as a key or an index. ``trail``: of the reference, for errors."""
    if isinstance(value, dict) and step in value:
        return value[step], step
    if isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
        return value[int(step)], int(step)
    raise SchemaError(
        f"cannot resolve {quoted(reference)}: there is no {quoted(step)} in it", pointer_text(trail), trail[-1]
    )
