"""The walk through a schema that checks it: each keyword has a value of its type, and each reference leads somewhere.

Most subschemas of most schemas ask for a type, or refer to what another one refers to as well: those are done with at a glance
(`_is_done`). Whatever else is met is looked at keyword by keyword, once in each context that it is read in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fsmc.compiler.errors import (
    LimitExceeded,
    PatternSyntaxError,
    SchemaError,
    UnsupportedPatternError,
    UnsupportedSchemaError,
)
from fsmc.compiler.schema.checks import (
    DEPENDENCIES,
    IN_PLACE,
    ITEMS,
    NAMED,
    NOTHING,
    REGEX,
    REGEXES,
    SCHEMA,
    SCHEMAS,
    TYPE_NAMES,
    Keyword,
    fault_in,
)
from fsmc.compiler.schema.references import Place, References
from fsmc.compiler.schema.resources import Context, Trail, pointer_text
from fsmc.compiler.schema.source import json_type, shown
from fsmc.compiler.schema.string_machines import pattern_expr

_COUNT, _LOOP = re.compile(r"\{\d{2,}|\{\d,\d{2,}|.{300}", re.DOTALL), re.compile(r"[*+]|,\}")

_ANNOTATIONS = frozenset(["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"])
_PLAIN = _ANNOTATIONS | {"type"}
_REFERRING = _ANNOTATIONS | {"$ref"}

_Waiting = tuple[Any, Context, Trail, int]
"""A subschema to be checked, the context that it is read in, the way to it, and how deep it nests."""


class Checker:
    """What one walk finds out. dynamic: whether ``references`` keeps dynamic scopes apart.

    noted: (subschema, keyword, value) of each keyword that is `checks.Keyword.noted`, and of patterns that may grow large.
    checked: the subschemas that were looked at keyword by keyword; n_passed: how many were not. targets: what references lead to, and what is met twice (a
    Python object may hold itself).

    >>> schema = {"properties": {"a": {"type": "string"}, "b": {"format": "date"}}}
    >>> checker = Checker(References(schema, 2020, None, dynamic=False), dynamic=False, max_depth=400, max_nodes=1000)
    >>> checker.check(schema)
    >>> checker.n_passed, len(checker.checked), [(pointer_text(place[2]), keyword, value) for place, keyword, value in checker.noted]
    (1, 2, [('/properties/b', 'format', 'date')])
    """

    def __init__(self, references: References, *, dynamic: bool, max_depth: int, max_nodes: int) -> None:
        self._references, self._dynamic = references, dynamic
        self._max_depth, self._max_nodes = max_depth, max_nodes
        self.n_passed = 0
        self.noted: list[tuple[Place, str, Any]] = []
        self.checked: list[Place] = []
        self.targets: list[Place] = []
        self._found: list[tuple[dict[str, Any], Context, Trail, str]] = []  # references that wait to be followed

    def check(self, schema: Any) -> None:
        """Check every subschema that can be reached from the root.

        Subschemas first and what references name after, so that a wrong value is reported where it stands rather than
        as a reference that cannot be resolved. Raises SchemaError, UnsupportedSchemaError and LimitExceeded; `DynamicReference`
        if there is one that ``references`` is not prepared for.
        """
        waiting: list[_Waiting] = [(schema, self._references.first, "", 1)]
        while waiting:
            self._check(waiting)
            waiting = []
            for schema, context, trail, keyword in self._found:
                if keyword == "$ref":
                    place = self._references.target(schema[keyword], context, (trail, keyword))
                elif self._dynamic:
                    place = self._references.dynamic_target(schema, context, trail)
                else:
                    raise DynamicReference
                self.targets.append(place)
                waiting.append((*place, 1))
            self._found.clear()

    def _check(self, waiting: list[_Waiting]) -> None:
        """Check the subschemas that wait, and those below them as they are met."""
        add, checked, n_passed = waiting.append, self.checked, self.n_passed
        for value, context, trail, depth in waiting:
            if value is True or value is False:
                continue
            if not isinstance(value, dict):
                raise SchemaError(
                    f"a schema is an object or a boolean, not {json_type(value)}", pointer_text(trail), ""
                )
            if "$id" in value or "id" in value or "$schema" in value:
                context = self._references.context_of(value, context, trail)
            place = value, context, trail
            if id(value) in context.checked:
                self.targets.append(place)
                continue
            context.checked.add(id(value))
            checked.append(place)
            if depth > self._max_depth:
                hint = "the schema nests too deeply: name parts in $defs"
                raise LimitExceeded("max_depth", self._max_depth, depth, hint, pointer_text(trail))
            keywords = context.keywords
            at_a_glance = depth + 2 <= self._max_depth
            items: Iterable[tuple[str, Any]] = value.items()
            if context.draft <= 7 and "$ref" in value:
                items = [("$ref", value["$ref"])]
            for name, inner in items:
                keyword = keywords.get(name)
                if keyword is None:
                    if not isinstance(name, str):
                        what = f"the name {shown(name)} is {json_type(name)}, not a string"
                        raise SchemaError(what, pointer_text(trail), "")
                    continue
                holds, _, below, in_place, _, surely, noted = keyword
                if type(inner) is not surely and not holds(inner):
                    raise _wrong(keyword, inner, (trail, name))
                if noted:
                    self.noted.append((place, name, inner))
                if below == NOTHING:
                    continue
                if below in (NAMED, REGEXES):
                    members = None if in_place else context.members
                    for key, schema in inner.items():
                        if at_a_glance and _is_done(schema, members):
                            n_passed += 1
                        else:
                            add((schema, context, (trail, name, key), depth + 2))
                    if below == REGEXES:
                        for key in inner:
                            if _may_grow(key, (trail, name, key), name):
                                self.noted.append((place, name, key))
                        if len(inner) > 3:
                            self.noted.append((place, name, inner))
                elif below == SCHEMA or (below == ITEMS and not isinstance(inner, list)):
                    if at_a_glance and _is_done(inner, None if in_place else context.members):
                        n_passed += 1
                    else:
                        add((inner, context, (trail, name), depth + 1))
                elif below in (SCHEMAS, ITEMS):
                    for k, schema in enumerate(inner):
                        if at_a_glance and _is_done(schema, None):
                            n_passed += 1
                        else:
                            add((schema, context, (trail, name, k), depth + 2))
                elif below == DEPENDENCIES:
                    for key, schema in inner.items():
                        if not isinstance(schema, list):
                            add((schema, context, (trail, name, key), depth + 2))
                elif below == REGEX:
                    if _may_grow(inner, (trail, name), name):
                        self.noted.append((place, name, inner))
                else:
                    self._found.append((value, context, trail, name))
            if n_passed + len(checked) > self._max_nodes or len(waiting) > self._max_nodes:
                met = max(n_passed + len(checked), len(waiting))
                raise LimitExceeded("max_nodes", self._max_nodes, met, "the schema has too many subschemas")
        self.n_passed = n_passed


_APPLYING = {draft: frozenset(name for name, _ in names) for draft, names in IN_PLACE.items()}


def applies_in_place(place: Place) -> bool:
    """Whether a subschema applies another one to the same value."""
    value, context, _ = place
    return isinstance(value, dict) and not value.keys().isdisjoint(_APPLYING[context.draft])


def _is_done(schema: Any, members: set[str] | None) -> bool:
    """Whether a subschema asks for a type at most, and has nothing else that might be wrong. members: the references of members
    and items that were met, to which one is added; another such reference is nothing new. None: references are."""
    if schema.__class__ is not dict:
        return False
    names = schema.keys()
    if names <= _PLAIN:
        name = schema.get("type", "null")
        return name.__class__ is str and name in TYPE_NAMES
    if members is None or not names <= _REFERRING:
        return False
    reference = schema["$ref"]
    if reference.__class__ is not str:
        return False
    if reference in members:
        return True
    members.add(reference)
    return False


def _wrong(keyword: Keyword, value: Any, trail: Trail) -> SchemaError:
    """The error of a keyword's value that is not what it must be."""
    fault = fault_in(value, keyword.part)
    named = isinstance(value, (dict, list)) and value and keyword.what.startswith(json_type(value))
    instead = f"; {fault}" if fault else "" if named else f", not {shown(value)}"
    return SchemaError(f"must be {keyword.what}{instead}", pointer_text(trail), trail[-1])


def _may_grow(pattern: str, trail: Trail, keyword: str) -> bool:
    """Whether the machine of a pattern, which is made when a text first gets to it, may grow large: if something is counted of
    which it is not clear where it begins. Raises where the pattern is at hand."""
    try:
        pattern_expr(pattern)
    except UnsupportedPatternError as error:
        raise UnsupportedSchemaError(str(error), pointer_text(trail), keyword) from error
    except PatternSyntaxError as error:
        raise SchemaError(str(error), pointer_text(trail), keyword) from error
    counts = _COUNT.search(pattern)
    return counts is not None and (not pattern.startswith("^") or _LOOP.search(pattern, 0, counts.start()) is not None)


class DynamicReference(Exception):
    """The schema has dynamic references, so that scopes have to be kept apart."""
