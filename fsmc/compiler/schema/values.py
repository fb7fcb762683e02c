"""JSON values as the schema compiler compares them: numbers exactly, members in any order, by one canonical text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

Number = int | float | Decimal
"""A JSON number in Python: Decimal where JSON text was read, which keeps it exact."""


def canonical(value: Any) -> str:
    """Canonical text of a JSON value: equal values (1 and 1.0; members in any order) have equal texts.

    >>> canonical({"b": [1.0, True], "a": "é"})
    '{"a":"é","b":[1,true]}'
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Number):
        return number_text(to_decimal(value))
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    members = sorted((json.dumps(key, ensure_ascii=False), canonical(v)) for key, v in value.items())
    return "{" + ",".join(f"{key}:{text}" for key, text in members) + "}"


def to_decimal(number: Number) -> Decimal:
    """The exact decimal number that JSON text shows for a Python number.

    >>> to_decimal(0.1)
    Decimal('0.1')
    """
    if isinstance(number, Decimal):
        return number
    return (
        Decimal(number) if isinstance(number, int) else Decimal(float.__repr__(number))
    )  # numpy has floats with a repr of their own


def number_text(number: Decimal) -> str:
    """Plain notation (no exponent), without trailing zeros in a fraction.

    >>> number_text(Decimal("1.50")), number_text(Decimal("1e3")), number_text(Decimal("-0.0"))
    ('1.5', '1000', '0')
    """
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
