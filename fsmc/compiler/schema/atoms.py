"""The simple conditions that formulas are made of.

Formulas over *values* have two atoms: `Schema` (the value is valid under a subschema) and `Const` (it equals a JSON
value). For one JSON type they turn into formulas over that type's own atoms; a string formula also describes a set of
object keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

NULL, TRUE_LITERAL, FALSE_LITERAL, NUMBER, STRING, ARRAY, OBJECT = (
    "null",
    "true",
    "false",
    "number",
    "string",
    "array",
    "object",
)
TYPES = (NULL, TRUE_LITERAL, FALSE_LITERAL, NUMBER, STRING, ARRAY, OBJECT)
"""The kinds of value that differ in their first byte; each of the literals is a kind of its own."""


class Schema(NamedTuple):
    """The value is valid under the subschema ``node`` of the document.

    This and `All`, of which there are most, are tuples: made, compared and hashed in a quarter of the time. They are of different
    lengths, so that they differ; all other atoms differ by their class.
    """

    node: int


@dataclass(frozen=True, slots=True)
class Const:
    """The value equals a JSON value, given by its canonical text (`values.canonical`)."""

    text: str


class Enumeration:
    """The value is one of these. Formulas join enumerations of one class wherever they meet (`Formulas`)."""

    __slots__ = ()
    values: frozenset[Any]


# ── strings (and object keys) ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StrEnum(Enumeration):
    """The string is one of these."""

    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The string contains a match of this regex (ECMA-262)."""

    source: str


@dataclass(frozen=True, slots=True)
class Length:
    """minimum <= number of code points <= maximum (None: no bound)."""

    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Format:
    """The string has this format, as far as the format's machine can tell."""

    name: str


@dataclass(frozen=True, slots=True)
class Doubtful:
    """The format's machine cannot tell whether the string has this format (`formats.doubtful_dfa`)."""

    name: str


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Integer:
    """The number has no fractional part (1.0 has none)."""


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The number is >= bound, or > bound if ``exclusive``. (At most x is the negation of greater than x.)"""

    bound: Decimal
    exclusive: bool


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """The number is an integer times ``divisor`` (> 0)."""

    divisor: Decimal


@dataclass(frozen=True, slots=True)
class NumEnum(Enumeration):
    """The number is one of these."""

    values: frozenset[Decimal]


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class All(NamedTuple):
    """Every member whose key satisfies the string formula ``keys`` has a value that satisfies ``value``.

    Its negation says that some such member has a value that does not; "k is required" is ``not All({k}, FALSE)``.
    """

    keys: int
    value: int


@dataclass(frozen=True, slots=True)
class MinProps:
    """At least ``count`` members (>= 1)."""

    count: int


# ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class El:
    """Every item with low <= index < high (None: no end) satisfies ``value``."""

    low: int
    high: int | None
    value: int


@dataclass(frozen=True, slots=True)
class Count:
    """At least ``count`` (>= 1) items satisfy ``value``."""

    value: int
    count: int


@dataclass(frozen=True, slots=True)
class MinItems:
    """At least ``count`` items (>= 1)."""

    count: int


@dataclass(frozen=True, slots=True)
class Unique:
    """No two items are equal. ``pointer`` is the place of the keyword, for errors."""

    pointer: str
