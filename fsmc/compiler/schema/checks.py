"""What the value of each keyword has to look like in each draft, and where in it subschemas stand.

The checks are those of the official meta-schemas as far as a wrong value would change what a schema means; a name or an item
given twice, say, is let pass. A keyword that a draft does not know is ignored there, as the standard has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from fsmc.compiler.schema.source import MAX_DEPTH, json_type, shown

NOTHING, SCHEMA, SCHEMAS, NAMED, REGEXES, ITEMS, DEPENDENCIES, REFERENCE, DYNAMIC, REGEX = range(10)
"""What stands below a keyword: no subschema, one, an array of them, an object of them, the same with a regex for each name,
one or an array, an object of subschemas or arrays of names; a reference, a dynamic one; a regex."""


def _anything(value: Any) -> bool:
    return True


class Keyword(NamedTuple):
    """``holds(value)`` says whether a value is ``what`` it must be; ``in_place``: the subschemas below apply to the same value;
    ``part(scalar)``: whether this may stand in it (for messages, see `fault_in`). ``surely``: values of just this class hold, and
    need not be asked about."""

    holds: Callable[[Any], bool]
    what: str
    below: int = NOTHING
    in_place: bool = False
    part: Callable[[Any], bool] = _anything
    surely: type | None = None
    noted: bool = False


def is_number(value: Any) -> bool:
    """A finite number that can be written out in plain notation within reason.

    >>> is_number(1e300), is_number(float("nan")), is_number(Decimal("1e500")), is_number(True)
    (True, False, False, False)
    """
    if isinstance(value, bool):
        return False
    if isinstance(value, Decimal):
        return value.is_finite() and -400 <= value.adjusted() <= 400
    return (isinstance(value, int) and value.bit_length() < 1400) or (isinstance(value, float) and value - value == 0)


def is_text(value: Any) -> bool:
    """A string that can be written in UTF-8.

    >>> is_text("é"), is_text("\\ud800")
    (True, False)
    """
    return isinstance(value, str) and (value.isascii() or _SURROGATE.search(value) is None)


def is_json(value: Any) -> bool:
    """A JSON value that nests no deeper than MAX_DEPTH. (A limit of its own: enum and const are read recursively.)"""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if is_scalar(item):
                continue
            if isinstance(item, dict) and all(map(is_text, item)):
                below += item.values()
            elif isinstance(item, list):
                below += item
            else:
                return False
        if not below:
            return True
        level = below
    return False


def is_scalar(value: Any) -> bool:
    """A JSON value without parts."""
    return value is None or isinstance(value, bool) or is_text(value) or is_number(value)


def fault_in(value: Any, part: Callable[[Any], bool]) -> str:
    """Which part of a keyword's value is wrong, for messages: a member's name, or a scalar that is not what ``part`` says; "" if
    it is the value as a whole.

    >>> fault_in({1: {}}, is_scalar), fault_in([0, {"a": float("nan")}], is_scalar), fault_in(["a", 5], is_text)
    ('the name 1 is a number, not a string', '/1/a is nan', '/1 is 5')
    """
    level: list[tuple[str, Any]] = [("", value)]
    for _ in range(MAX_DEPTH):
        below: list[tuple[str, Any]] = []
        for path, item in level:
            if isinstance(item, dict):
                for name, inner in item.items():
                    if not is_text(name):
                        what = (
                            "has a lone surrogate" if isinstance(name, str) else f"is {json_type(name)}, not a string"
                        )
                        return f"the name {ascii(name)[:60]} {what}{f', in {path}' if path else ''}"
                    below.append((f"{path}/{name}", inner))
            elif isinstance(item, list):
                below += [(f"{path}/{i}", inner) for i, inner in enumerate(item)]
            elif path and not part(item):
                return f"{path} is {shown(item)}"
        if not below:
            break
        level = below
    return ""


def _is_size(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and _are_texts(value)


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and _are_texts(value)


def _are_texts(values: Iterable[Any]) -> bool:
    """Whether all are strings that can be written in UTF-8."""
    try:
        return is_text("".join(values))
    except TypeError:
        return False


def _is_type(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPE_NAMES
    return isinstance(value, list) and all(isinstance(name, str) and name in TYPE_NAMES for name in value)


_SURROGATE = re.compile("[\ud800-\udfff]")
TYPE_NAMES = frozenset(["null", "boolean", "integer", "number", "string", "array", "object"])
_SIZE = Keyword(_is_size, "a whole number of at least 0")
_NUMBER = Keyword(is_number, "a finite number of at most some 400 digits")
_STRING = Keyword(lambda v: isinstance(v, str), "a string", surely=str)
_FLAG = Keyword(lambda v: isinstance(v, bool), "a boolean", surely=bool)
_ONE = Keyword(lambda v: isinstance(v, (dict, bool)), "a subschema", SCHEMA, surely=dict)
_LIST = Keyword(lambda v: isinstance(v, list) and len(v) > 0, "a non-empty array of subschemas", SCHEMAS)
_OBJECT = Keyword(_is_named, "an object of subschemas under names without lone surrogates", NAMED)
_VALUES = (
    f"JSON values (finite numbers of at most some 400 digits, no lone surrogates, nested at most {MAX_DEPTH} deep)"
)
_LIMIT_FLAG = Keyword(_FLAG.holds, "a boolean in draft 4 (a number from draft 6 on)")


def _in_place(keyword: Keyword) -> Keyword:
    return keyword._replace(in_place=True)


_KEYWORDS: tuple[tuple[str, int, int, Keyword], ...] = (  # names, first and last draft
    ("$schema $comment", 4, 2020, _STRING),
    ("id", 4, 4, _STRING),
    ("$id", 6, 2020, _STRING),
    ("$anchor", 2019, 2020, _STRING),
    ("$dynamicAnchor", 2020, 2020, _STRING),
    ("$recursiveAnchor", 2019, 2019, _FLAG),
    ("$ref", 4, 2020, Keyword(_STRING.holds, "a string", REFERENCE, True, surely=str)),
    ("$dynamicRef", 2020, 2020, Keyword(_STRING.holds, "a string", DYNAMIC, True)),
    ("$recursiveRef", 2019, 2019, Keyword(lambda v: v == "#", "the string '#'", DYNAMIC, True)),
    ("type", 4, 2020, Keyword(_is_type, f"the name of a type, or an array of them ({', '.join(sorted(TYPE_NAMES))})", part=_is_type)),
    ("enum", 4, 2020, Keyword(lambda v: isinstance(v, list) and (_are_texts(v) or is_json(v)), f"an array of {_VALUES}", part=is_scalar)),
    ("const", 6, 2020, Keyword(is_json, f"one of the {_VALUES}", part=is_scalar)),
    ("allOf anyOf oneOf", 4, 2020, _in_place(_LIST)),
    ("not", 4, 2020, _in_place(_ONE)),
    ("if then else", 7, 2020, _in_place(_ONE)),
    ("pattern", 4, 2020, Keyword(_STRING.holds, "a string", REGEX, surely=str)),
    ("format", 4, 2020, _STRING._replace(noted=True)),
    ("minLength maxLength minItems maxItems minProperties maxProperties", 4, 2020, _SIZE),
    ("minContains maxContains", 2019, 2020, _SIZE._replace(noted=True)),
    ("minimum maximum", 4, 2020, _NUMBER),
    ("exclusiveMinimum exclusiveMaximum", 4, 4, _LIMIT_FLAG),
    ("exclusiveMinimum exclusiveMaximum", 6, 2020, Keyword(is_number, "a number (a flag only in draft 4)")),
    ("multipleOf", 4, 2020, Keyword(lambda v: is_number(v) and v > 0, "a number greater than 0", noted=True)),
    ("properties", 4, 2020, _OBJECT),
    ("patternProperties", 4, 2020, _OBJECT._replace(below=REGEXES)),
    ("additionalProperties", 4, 2020, _ONE),
    ("propertyNames", 6, 2020, _ONE),
    ("required", 4, 2020, Keyword(_is_names, "an array of names", part=is_text)),
    ("dependentRequired", 2019, 2020, Keyword(
        lambda v: isinstance(v, dict) and all(is_text(k) and _is_names(n) for k, n in v.items()),
        "an object of arrays of names", part=is_text,
    )),
    ("dependentSchemas", 2019, 2020, _in_place(_OBJECT)),
    ("dependencies", 4, 2020, Keyword(  # gone since 2019-09, but still read, as implementations are told to
        lambda v: _is_named(v) and all(isinstance(d, (dict, bool)) or _is_names(d) for d in v.values()),
        "an object of subschemas or arrays of names", DEPENDENCIES, True, is_text,
    )),
    ("unevaluatedProperties unevaluatedItems", 2019, 2020, _ONE._replace(noted=True)),
    ("prefixItems", 2020, 2020, _LIST),
    ("items", 4, 2019, Keyword(lambda v: isinstance(v, (dict, bool, list)), "a subschema, or an array of them", ITEMS)),
    ("items", 2020, 2020, Keyword(_ONE.holds, "a subschema (an array of them is prefixItems since 2020-12)", SCHEMA)),
    ("additionalItems", 4, 2019, _ONE),
    ("contains", 6, 2020, _ONE),
    ("uniqueItems", 4, 2020, _FLAG._replace(noted=True)),
)  # fmt: skip

DRAFTS = (4, 6, 7, 2019, 2020)

_EITHER_LIMIT = Keyword(lambda v: isinstance(v, bool) or is_number(v), "a number (or a boolean, as in draft 4)")
KEYWORDS: dict[int, dict[str, Keyword]] = {
    draft: {name: k for names, first, last, k in _KEYWORDS if first <= draft <= last for name in names.split()}
    for draft in DRAFTS
}
"""Draft → keyword → how to check it."""

UNDECLARED: dict[int, dict[str, Keyword]] = {
    draft: {**table, **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _EITHER_LIMIT)}
    for draft, table in KEYWORDS.items()
}
"""The same where nobody says which draft it is: draft 4's flags, the one old form that many still write beside new keywords."""

IN_PLACE: dict[int, tuple[tuple[str, int], ...]] = {
    draft: tuple((name, k.below) for name, k in table.items() if k.in_place) for draft, table in KEYWORDS.items()
}
"""Draft → the keywords whose subschemas apply to the same value, with what stands below them."""

CONTAINERS: dict[str, int] = {"$defs": NAMED, "definitions": NAMED}
"""Keywords that only hold subschemas for references to name."""
