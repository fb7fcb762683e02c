"""What the keywords ask that speak of values of every type: references, ``type``, ``enum``, ``const`` and the combinators.

Each rule takes the `Keywords` at work, the subschema, the keyword's value in it and the JSON type in question, and gives a
formula over that type's atoms. What applies to the same value is expanded in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fsmc.compiler.schema.atoms import (
    ARRAY,
    FALSE_LITERAL,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE_LITERAL,
    El,
    Integer,
    NumEnum,
)
from fsmc.compiler.schema.conditions import every_member, min_items, one_of_names, present, this_name
from fsmc.compiler.schema.formula import FALSE, TRUE
from fsmc.compiler.schema.values import Number, to_decimal

if TYPE_CHECKING:
    from fsmc.compiler.schema.keywords import Keywords

TYPE_NAMES = {
    "null": (NULL,),
    "boolean": (TRUE_LITERAL, FALSE_LITERAL),
    "number": (NUMBER,),
    "integer": (NUMBER,),
    "string": (STRING,),
    "array": (ARRAY,),
    "object": (OBJECT,),
}
"""A name that ``type`` may give → the kinds of value it allows (of numbers, ``integer`` allows some)."""

# ── references ───────────────────────────────────────────────────────────────────────────────────────────────────────


def reference(k: Keywords, node: int, value: str, type_: str) -> int:
    """``$ref``: what the subschema asks that it names."""
    return k.expand_node(k.document.resolve(node, value), type_)


def dynamic_reference(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``$dynamicRef``, ``$recursiveRef``: what it names depends on how we got here, which the node knows."""
    return k.expand_node(k.document.resolve_dynamic(node), type_)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def types(k: Keywords, node: int, value: str | list[str], type_: str) -> int:
    """``type``: a constant, but for numbers of which only the integers are allowed."""
    names = (value,) if isinstance(value, str) else value
    if type_ == NUMBER and "number" not in names:
        return k.formulas.atom(Integer()) if "integer" in names else FALSE
    return TRUE if any(type_ in TYPE_NAMES[name] for name in names) else FALSE


def enum(k: Keywords, node: int, value: list[Any], type_: str) -> int:
    """``enum``: strings and numbers as one enumeration, other values one by one."""
    return one_of_values(k, value, type_)


def const(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``const``."""
    return one_of_values(k, [value], type_)


def one_of_values(k: Keywords, values: Iterable[Any], type_: str) -> int:
    """The value equals one of these."""
    if type_ == STRING:
        return one_of_names(k.formulas, (v for v in values if isinstance(v, str)))
    if type_ == NUMBER:
        numbers = frozenset(to_decimal(v) for v in values if _is_number(v))
        return k.formulas.atom(NumEnum(numbers)) if numbers else FALSE
    return k.formulas.disj(equal_to(k, value, type_) for value in values)


def equal_to(k: Keywords, value: Any, type_: str) -> int:
    """A value of the given type equals ``value``: of objects and arrays, in the words of members and items."""
    table = k.formulas
    if value is None or isinstance(value, bool):
        return TRUE if type_ == {None: NULL, True: TRUE_LITERAL, False: FALSE_LITERAL}[value] else FALSE
    if isinstance(value, str) or _is_number(value):
        return one_of_values(k, [value], type_) if type_ in (STRING, NUMBER) else FALSE
    if isinstance(value, list):
        if type_ != ARRAY:
            return FALSE
        n = len(value)
        items = [table.atom(El(i, i + 1, k.const(item))) for i, item in enumerate(value)]
        return table.conj([*items, min_items(table, n), table.negate(min_items(table, n + 1))])
    if type_ != OBJECT:
        return FALSE
    members = [every_member(table, this_name(table, key), k.const(item)) for key, item in value.items()]
    members += [present(table, key) for key in value]
    return table.conj([*members, every_member(table, table.negate(one_of_names(table, value)), FALSE)])


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)


# ── combinators ──────────────────────────────────────────────────────────────────────────────────────────────────────


def all_of(k: Keywords, node: int, value: list[Any], type_: str) -> int:
    """``allOf``: and."""
    return k.formulas.conj(_branches(k, node, "allOf", len(value), type_))


def any_of(k: Keywords, node: int, value: list[Any], type_: str) -> int:
    """``anyOf``: or."""
    return k.formulas.disj(_branches(k, node, "anyOf", len(value), type_))


def one_of(k: Keywords, node: int, value: list[Any], type_: str) -> int:
    """``oneOf``: exactly one."""
    return k.formulas.exactly_one(_branches(k, node, "oneOf", len(value), type_))


def _branches(k: Keywords, node: int, keyword: str, n: int, type_: str) -> list[int]:
    return [k.expand_node(k.document.child(node, keyword, i), type_) for i in range(n)]


def not_(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``not``."""
    return k.formulas.negate(k.expand_node(k.document.child(node, "not"), type_))


def if_(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``if``, ``then`` and ``else``: (not if, or then) and (if, or else)."""
    table, document = k.formulas, k.document
    condition = k.expand_node(document.child(node, "if"), type_)
    then, otherwise = (
        TRUE if document.keyword(node, name) is None else k.expand_node(document.child(node, name), type_)
        for name in ("then", "else")
    )
    return table.conj([table.disj([table.negate(condition), then]), table.disj([condition, otherwise])])
