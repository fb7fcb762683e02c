"""What keywords ask of arrays, as conditions on items and their number. For how a rule is called see keyword_general.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsmc.compiler.schema.atoms import Unique
from fsmc.compiler.schema.conditions import count_items, every_item
from fsmc.compiler.schema.conditions import min_items as at_least
from fsmc.compiler.schema.formula import TRUE
from fsmc.compiler.schema.values import Number

if TYPE_CHECKING:
    from fsmc.compiler.schema.keywords import Keywords


def prefix_items(k: Keywords, node: int, value: list[Any], type_: str) -> int:
    """``prefixItems``: one subschema for each of the first items."""
    return _positional(k, node, "prefixItems", len(value))


def items(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``items``: of the items after those of prefixItems; before 2020-12 an array of subschemas, too."""
    if isinstance(value, list):
        return _positional(k, node, "items", len(value))
    start = len(k.document.keyword(node, "prefixItems", ()))
    return every_item(k.formulas, start, None, k.below(node, "items"))


def additional_items(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``additionalItems``: of the items after those of an array of ``items``; beside anything else it says nothing."""
    listed = k.document.keyword(node, "items")
    if not isinstance(listed, list):
        return TRUE
    return every_item(k.formulas, len(listed), None, k.below(node, "additionalItems"))


def _positional(k: Keywords, node: int, keyword: str, n: int) -> int:
    table, child = k.formulas, k.document.child
    return table.conj(every_item(table, i, i + 1, k.schema(child(node, keyword, i))) for i in range(n))


def min_items(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``minItems``."""
    return at_least(k.formulas, int(value))


def max_items(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``maxItems``: not one more."""
    return k.formulas.negate(at_least(k.formulas, int(value) + 1))


def contains(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``contains``, with ``minContains`` and ``maxContains`` beside it (since 2019-09)."""
    table, keyword = k.formulas, k.document.keyword
    wanted = k.below(node, "contains")
    enough = count_items(table, wanted, int(keyword(node, "minContains", 1)))
    most = keyword(node, "maxContains")
    if most is None:
        return enough
    return table.conj([enough, table.negate(count_items(table, wanted, int(most) + 1))])


def unique_items(k: Keywords, node: int, value: bool, type_: str) -> int:
    """``uniqueItems``; TRUE if the user asked for it to be ignored (`Keywords.unchecked` tells)."""
    if not value or k.ignore_unique_items:
        return TRUE
    return k.formulas.atom(Unique(k.document.pointer(node)))
