"""Numbers: bounds, multiples and enumerations in exact arithmetic, over texts of every form."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal, localcontext
from typing import Any

import pytest

from fsmc.compiler.errors import EmptyLanguageError, LimitExceeded
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

LONG = 12345678901234567890123456789012345  # more digits than Decimal's default context keeps
TEXTS = [
    sign + whole + fraction
    for sign, whole, fraction in itertools.product(
        ("", "-"),
        ("0", "1", "2", "7", "10", "12", "99", "100", str(LONG - 1), str(LONG), str(LONG + 1)),
        ("", ".5", ".25", ".75", ".01", ".125"),
    )
]
CONDITIONS: list[dict[str, Any]] = [
    {"minimum": 1},
    {"minimum": -1, "maximum": 10},
    {"exclusiveMinimum": 0},
    {"exclusiveMaximum": 0.5},
    {"exclusiveMinimum": -2, "exclusiveMaximum": -0.25},
    {"minimum": LONG},
    {"maximum": -LONG, "minimum": -LONG - 1},
    {"exclusiveMaximum": LONG + 0.5},
    {"multipleOf": 2},
    {"multipleOf": 0.25},
    {"multipleOf": 0.01},
    {"multipleOf": 2.5, "minimum": 0},
    {"multipleOf": 3, "maximum": LONG},
    {"multipleOf": 5, "minimum": 0, "maximum": 100},
    {"enum": [1, 2.5, -7.25, LONG]},
    {"const": -12.5},
    {"not": {"multipleOf": 0.5}},
    {"not": {"minimum": 2, "maximum": 99}},
    {"anyOf": [{"multipleOf": 3}, {"multipleOf": 5, "minimum": 50}]},
    {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]},
    {"not": {"enum": [1, LONG]}},
    {"multipleOf": 2, "not": {"multipleOf": 4}, "minimum": 0, "maximum": 12},
]


def holds(schema: dict[str, Any], value: Decimal) -> bool:
    """What the keywords ask, in Decimal."""
    for keyword, asked in schema.items():
        number = Decimal(str(asked)) if isinstance(asked, (int, float, Decimal)) else Decimal(0)
        if keyword == "type":
            fine = asked == "number" or value == value.to_integral_value()
        elif keyword == "minimum":
            fine = value >= number
        elif keyword == "maximum":
            fine = value <= number
        elif keyword == "exclusiveMinimum":
            fine = value > number
        elif keyword == "exclusiveMaximum":
            fine = value < number
        elif keyword == "multipleOf":
            fine = value % number == 0
        elif keyword in ("enum", "const"):
            fine = value in [Decimal(str(a)) for a in (asked if keyword == "enum" else [asked])]
        elif keyword == "not":
            fine = not holds(asked, value)
        else:
            count = sum(holds(part, value) for part in asked)
            fine = count >= 1 if keyword == "anyOf" else count == 1
        if not fine:
            return False
    return True


def accepts(schema: dict[str, Any], text: str) -> bool:
    return SchemaMachine(SchemaDocument(schema), TextOptions()).rsm.matches(text.encode())


@pytest.mark.parametrize("type_", ["number", "integer"])
@pytest.mark.parametrize("condition", CONDITIONS, ids=json.dumps)
def test_texts_by_their_value(condition: dict[str, Any], type_: str) -> None:
    schema = {"type": type_, **condition}
    rsm = SchemaMachine(SchemaDocument(json.dumps(schema)), TextOptions()).rsm if _some(schema) else None
    with localcontext() as context:
        context.prec = 100
        for text in TEXTS:
            expected = holds(json.loads(json.dumps(schema), parse_float=Decimal), Decimal(text))
            assert (rsm is not None and rsm.matches(text.encode())) == expected, (schema, text)


def _some(schema: dict[str, Any]) -> bool:
    try:
        SchemaMachine(SchemaDocument(json.dumps(schema)), TextOptions())
    except EmptyLanguageError:
        return False
    return True


def test_integers_have_no_fraction_and_conditions_no_exponent() -> None:
    assert [accepts({"type": "integer"}, t) for t in ("1", "-0", "1.0", "1e2", "01")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    listed = {"type": "integer", "multipleOf": 2, "minimum": 0, "maximum": 9}
    assert [accepts(listed, t) for t in ("2", "2.0", "3")] == [True, False, False]
    assert [accepts({"type": "number"}, t) for t in ("1e5", "1E-07", "2.5e+12", "1e", "1e1000", ".5", "1.")] == [
        True
    ] * 3 + [False] * 4
    assert not accepts({"type": "number", "minimum": 0}, "1e5")


def test_bounds_that_exclude_each_other_are_told() -> None:
    for schema in (
        {"type": "number", "minimum": 2, "exclusiveMaximum": 2},
        {"type": "integer", "exclusiveMinimum": LONG, "exclusiveMaximum": LONG + 1},
        {"type": "number", "minimum": 0.26, "maximum": 0.49, "multipleOf": 0.25},
    ):
        with pytest.raises(EmptyLanguageError):
            SchemaMachine(SchemaDocument(schema), TextOptions())


def test_a_divisor_with_too_many_remainders_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="max_remainders"):
        accepts({"type": "number", "multipleOf": 123456789}, "0")
