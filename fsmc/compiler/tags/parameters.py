"""The arguments of a call as Qwen's coder models write them: one element for each parameter, its text as it stands.

    <parameter=city>
    Paris
    </parameter>
    <parameter=days>
    3
    </parameter>

A parameter that is a string is written without quotes, up to the closing tag; all others as JSON.
"""

from __future__ import annotations

import re
from typing import Any

from fsmc.compiler.automata import algebra as regular
from fsmc.compiler.automata.words import words_dfa
from fsmc.compiler.errors import ConstraintError, EmptyLanguageError, PatternSyntaxError
from fsmc.compiler.schema.source import parse_json
from fsmc.compiler.schema.string_machines import pattern_dfa
from fsmc.compiler.tags.tree import Automaton, Choice, Free, Pattern, Repeat, Schema, Sequence, Text

_OPEN, _CLOSE = "<parameter=", "\n</parameter>\n"
_PLAIN = frozenset(
    ["type", "description", "title", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly", "format"]
)
"""Keywords that say nothing of the text of a string (a format is not checked outside JSON)."""


def parameters_of(schema: Schema) -> Any:
    """The tree of the parameters that a schema of an object declares, in their order; optional ones may be left out.

    Raises ConstraintError where the schema is not of that kind: parameters are what ``properties`` lists.
    """
    value = parse_json(schema.schema) if isinstance(schema.schema, str) else schema.schema
    value = {} if value is True else value
    if not isinstance(value, dict):
        raise ConstraintError("no parameters satisfy it", schema.place)
    known = {"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema", *_PLAIN}
    unknown = [keyword for keyword in value if keyword not in known]
    if unknown or value.get("type", "object") != "object":
        what = f"{unknown[0]} is not supported" if unknown else "the type is not object"
        raise ConstraintError(f"{what} where each parameter is an element of its own: use properties", schema.place)
    if "properties" not in value and "required" not in value and value.get("additionalProperties") is not False:
        return Repeat(_parameter(Pattern(r"[^\s<>]+", schema.place), _raw(schema.place)), 0, None)
    properties = value.get("properties", {})
    required = value.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise ConstraintError("properties must be an object and required a list", schema.place)
    if not all(isinstance(name, str) for name in required):
        raise ConstraintError("required must be a list of names", schema.place)
    missing = [name for name in required if name not in properties]
    if missing:
        raise ConstraintError(f"{missing[0]!r} is required, but no property: say what it is", schema.place)
    parts = []
    for name, inner in properties.items():
        element = _parameter(Text(name), _value(inner, value, schema, name))
        parts.append(element if name in required else Repeat(element, 0, 1))
    return Sequence(tuple(parts))


def _parameter(name: Text | Pattern, content: Any) -> Sequence:
    return Sequence((Text(_OPEN), name, Text(">\n"), content, Text(_CLOSE)))


def _value(inner: Any, whole: dict[str, Any], schema: Schema, name: str) -> Any:
    """What stands in one parameter's element."""
    place = f"{schema.place}.properties[{name!r}]"
    if isinstance(inner, dict) and "$ref" not in inner:
        values = [inner["const"]] if "const" in inner else inner.get("enum")
        if isinstance(values, list) and values and all(isinstance(v, str) for v in values):
            return Choice(tuple(Text(v) for v in values))
        if inner.get("type") == "string":
            unknown = [keyword for keyword in inner if keyword not in _PLAIN and keyword != "pattern"]
            if unknown:
                raise ConstraintError(f"{unknown[0]} of a string that is not JSON is not supported", place)
            if "pattern" in inner:
                return _matching(inner["pattern"], place)
            return _raw(place)
    context: dict[str, Any] = {key: whole[key] for key in ("$defs", "definitions", "$schema") if key in whole}
    return Schema({**context, "allOf": [inner]} if context else inner, place, schema.any_order, schema.max_whitespace)


def _matching(pattern: Any, place: str) -> Automaton:
    """A string in which the pattern of a schema matches, and with which the closing tag first stands behind it."""
    if not isinstance(pattern, str):
        raise ConstraintError("must be a text", f"{place}.pattern")
    try:
        holding = pattern_dfa(pattern)
    except PatternSyntaxError as error:
        raise error.placed(f"{place}.pattern") from None
    without = regular.complement(pattern_dfa(re.escape(_CLOSE)))
    dfa = regular.intersection(holding, regular.right_quotient(without, words_dfa([_CLOSE[:-1].encode()])))
    if dfa.is_empty:
        raise EmptyLanguageError(f"{place}.pattern: matches in no text that can stand in an element")
    return Automaton(dfa, place)


def _raw(place: str) -> Free:
    return Free(place)
