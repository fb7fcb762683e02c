"""What users give as a schema: a dict, JSON text, or a Python type."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any

from fsmc.compiler.errors import LimitExceeded, SchemaError

MAX_DEPTH = 400
"""How deeply objects and arrays of a schema may nest."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def schema_of(source: Any) -> dict[str, Any] | bool | str:
    """The schema of what users call one: a dict, a bool, JSON text, a pydantic model, a dataclass, a TypedDict or other type.

    Raises SchemaError for anything else.

    >>> schema_of({"type": "null"})
    {'type': 'null'}
    """
    if isinstance(source, (dict, bool, str)):
        return source
    if isinstance(source, (bytes, bytearray)):
        raise SchemaError("a schema is a dict, a bool or JSON text: decode bytes to text first", "", "")
    if source is None or isinstance(source, (int, float, list, tuple, set)):
        raise SchemaError(f"a schema is an object or a boolean, not {json_type(source)}", "", "")
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError
    except ImportError as error:
        raise SchemaError("to compile a type, install pydantic; or give its JSON Schema as a dict", "", "") from error
    try:
        return TypeAdapter(source).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        reason = str(error).partition("\n")[0]
        raise SchemaError(f"{source!r} is neither a JSON Schema nor a type for pydantic: {reason}", "", "") from error


def parse_json(text: str, max_depth: int = MAX_DEPTH) -> Any:
    """JSON text with exact numbers. Raises SchemaError for what is not JSON: also NaN, Infinity and repeated members.

    A byte order mark before the text is dropped.

    >>> parse_json('[1.10, 1e400]')
    [Decimal('1.10'), Decimal('1E+400')]
    """
    try:
        return json.loads(
            text.removeprefix("\ufeff"), parse_float=_decimal, parse_constant=_no_constant, object_pairs_hook=_members
        )
    except RecursionError as error:
        raise LimitExceeded("max_depth", max_depth, _depth(text, max_depth), "the text nests too deeply") from error
    except ValueError as error:
        if isinstance(error, SchemaError):
            raise
        if "integer string conversion" in str(error):  # Python's own limit, of 4,300 digits
            raise SchemaError("a number in it has thousands of digits; at most some 400 are read", "", "") from error
        raise SchemaError(f"not JSON: {error}; the text is {quoted(text[:81]) if text else 'empty'}", "", "") from error


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation as error:  # an exponent beyond the decimal module's
        raise SchemaError(f"the number {digits[:20]}… is too large or too small", "", "") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise SchemaError(f"the member {quoted(twice)} stands twice in one object: leave one of them out", "", "")
    return found


def _no_constant(name: str) -> Any:
    raise SchemaError(f"{name} is not JSON: leave the keyword out, or give a number", "", "")


def _depth(text: str, enough: int) -> int:
    """How deeply brackets nest in the text, not counting those in strings; counted no further than past ``enough``."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        if match[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > enough:
                break
        elif match[0] in "]}":
            depth -= 1
    return deepest


def json_type(value: Any) -> str:
    """What a value is, for messages."""
    for type_, name in (
        (bool, "a boolean"),
        (str, "a string"),
        (dict, "an object"),
        (list, "an array"),
        (tuple, "a tuple, which JSON has not (write a list)"),
    ):
        if isinstance(value, type_):
            return name
    if value is None or isinstance(value, (int, float, Decimal)):
        return "null" if value is None else "a number"
    return f"a Python {type(value).__name__}, which JSON has not"


def shown(value: Any) -> str:
    r"""A value in a message: what it is, or itself where that is short.

    >>> shown(0.5), shown([]), shown({"a": 1}), shown("\ud800")
    ('0.5', 'an empty array', 'an object', "'\\ud800'")
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float, Decimal)):
        if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to print very large ones
            return "a number of more than 60 digits"
        text = str(value) if isinstance(value, Decimal) else repr(value)
        return text if len(text) <= 40 else json_type(value)
    return "an empty array" if isinstance(value, list) and not value else json_type(value)


def quoted(text: str) -> str:
    """A text of the schema in a message: all of it, or its beginning."""
    return repr(text if len(text) <= 80 else text[:79] + "…")
