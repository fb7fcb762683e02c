"""What keywords ask of strings and of numbers. For how a rule is called see keyword_general.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsmc.compiler.schema.atoms import AtLeast, Format, Length, MultipleOf, Pattern
from fsmc.compiler.schema.formats import KNOWN_FORMATS, MAX_LENGTH
from fsmc.compiler.schema.formula import TRUE
from fsmc.compiler.schema.values import Number, to_decimal

if TYPE_CHECKING:
    from fsmc.compiler.schema.keywords import Keywords

MAX_TEXT = 1 << 30

# ── strings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def min_length(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``minLength``, in code points."""
    return k.formulas.atom(Length(int(value), None)) if value > 0 else TRUE


def max_length(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``maxLength``, in code points; of larger ones than texts can have, no more is counted."""
    return k.formulas.atom(Length(0, min(int(value), MAX_TEXT)))


def pattern(k: Keywords, node: int, value: str, type_: str) -> int:
    """``pattern``: a match anywhere."""
    return k.formulas.atom(Pattern(value))


def format_(k: Keywords, node: int, value: str, type_: str) -> int:
    """``format``: asserted where it is known, else an annotation (`Keywords.unchecked` tells)."""
    if value not in KNOWN_FORMATS:
        return TRUE
    parts = [k.formulas.atom(Format(value))]
    if value in MAX_LENGTH:
        parts.append(k.formulas.atom(Length(0, MAX_LENGTH[value])))
    return k.formulas.conj(parts)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def minimum(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``minimum``; draft 4's flag beside it makes it exclusive (see `checks.UNDECLARED`)."""
    return _at_least(k, value, exclusive=k.document.keyword(node, "exclusiveMinimum") is True)


def maximum(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``maximum``: not more than."""
    exclusive = k.document.keyword(node, "exclusiveMaximum") is True
    return k.formulas.negate(_at_least(k, value, exclusive=not exclusive))


def exclusive_minimum(k: Keywords, node: int, value: Number | bool, type_: str) -> int:
    """``exclusiveMinimum``, a bound of its own from draft 6 on; a flag says nothing by itself."""
    return TRUE if isinstance(value, bool) else _at_least(k, value, exclusive=True)


def exclusive_maximum(k: Keywords, node: int, value: Number | bool, type_: str) -> int:
    """``exclusiveMaximum``: not at least."""
    if isinstance(value, bool):
        return TRUE
    return k.formulas.negate(_at_least(k, value, exclusive=False))


def multiple_of(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``multipleOf``, exact in decimals."""
    return k.formulas.atom(MultipleOf(to_decimal(value)))


def _at_least(k: Keywords, bound: Any, *, exclusive: bool) -> int:
    return k.formulas.atom(AtLeast(to_decimal(bound), exclusive))
