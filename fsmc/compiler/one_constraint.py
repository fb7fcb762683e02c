"""Exactly one constraint: the names under which requests give one, and what is said of two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fsmc.compiler.errors import ConstraintError

SCHEMA_KEYWORDS = (
    "$schema",
    "$ref",
    "$defs",
    "properties",
    "anyOf",
    "oneOf",
    "allOf",
    "enum",
    "const",
    "required",
    "items",
)
"""By which a JSON Schema is known that stands by itself."""

OF_ENGINES = (
    *("json_schema", "regex", "ebnf", "structural_tag", "json", "choice", "grammar", "json_object"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_json_object", "guided_decoding"),
)
"""Members of a request that give a constraint, whatever stands beside them."""

WRAPPERS = ("response_format", "structured_outputs", "sampling_params")

_NAMES = (
    *WRAPPERS,
    *OF_ENGINES,
    *("schema", "schema_", "pattern", "definition", "format", "structures", "triggers", "excludes"),
    *SCHEMA_KEYWORDS[1:],
)


def refuse_others(value: Mapping[Any, Any], own: Iterable[str], place: str = "", names: Iterable[str] = _NAMES) -> None:
    """Raise ConstraintError if a dict that has been recognised gives a second constraint, which would be dropped.

    own: the names that belong together, the one that was recognised first. Names without a value are not given.

    >>> refuse_others({"type": "regex", "pattern": "a", "regex": None}, ["pattern"])
    >>> refuse_others({"type": "json_object", "json_schema": {}}, ["json_object", "schema"])
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.ConstraintError: exactly one constraint must be set, not json_object and json_schema
    """
    first, *belonging = own
    for name in names:
        given = value.get(name)
        if given is not None and not (name == "excludes" and given == []) and name not in (first, *belonging):
            raise ConstraintError(f"exactly one constraint must be set, not {first} and {name}", place)
