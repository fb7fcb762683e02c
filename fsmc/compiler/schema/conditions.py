"""Formulas of one condition each: the atoms of objects and arrays, simplified where they say nothing or too much.

The rules of keywords are written in these words: "k is required" is ``present(table, "k")``.
"""

from __future__ import annotations

from collections.abc import Iterable

from fsmc.compiler.schema.atoms import All, Count, El, MinItems, MinProps, StrEnum
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas


def one_of_names(table: Formulas, names: Iterable[str]) -> int:
    """The string formula "one of these"; FALSE if there are none.

    >>> table = Formulas()
    >>> one_of_names(table, []) == FALSE, table.show(one_of_names(table, ["a"]))
    (True, "StrEnum(values=frozenset({'a'}))")
    """
    values = frozenset(names)
    return table.atom(StrEnum(values)) if values else FALSE


def this_name(table: Formulas, name: str) -> int:
    """`one_of_names` of a single one."""
    known = table.of_name.get(name)
    if known is None:
        known = table.of_name[name] = table.atom(StrEnum(frozenset((name,))))
    return known


def every_member(table: Formulas, keys: int, value: int) -> int:
    """Every member whose key satisfies the string formula ``keys`` has a value that satisfies ``value``.

    >>> table = Formulas()
    >>> every_member(table, FALSE, FALSE) == every_member(table, one_of_names(table, "k"), TRUE) == TRUE
    True
    """
    return TRUE if keys == FALSE or value == TRUE else table.atom(All(keys, value))


def present(table: Formulas, name: str) -> int:
    """There is a member of this name: not all such members (of which none may be) have an impossible value."""
    return table.negate(table.atom(All(this_name(table, name), FALSE)))


def min_members(table: Formulas, count: int) -> int:
    """At least ``count`` members."""
    return table.atom(MinProps(count)) if count > 0 else TRUE


def every_item(table: Formulas, low: int, high: int | None, value: int) -> int:
    """Every item with low <= index < high (None: no end) satisfies ``value``."""
    return TRUE if value == TRUE or low == high else table.atom(El(low, high, value))


def min_items(table: Formulas, count: int) -> int:
    """At least ``count`` items."""
    return table.atom(MinItems(count)) if count > 0 else TRUE


def count_items(table: Formulas, value: int, count: int) -> int:
    """At least ``count`` items satisfy ``value``.

    >>> table = Formulas()
    >>> count_items(table, TRUE, 2) == min_items(table, 2), count_items(table, FALSE, 2) == FALSE
    (True, True)
    """
    if count <= 0 or value == TRUE:
        return min_items(table, count)
    return FALSE if value == FALSE else table.atom(Count(value, count))


def merge_enumerations(table: Formulas, formula: int) -> tuple[frozenset[str] | None, int]:
    """A string formula as (the strings of which it has to be one, None for any; what else it asks of them).

    Excluded strings are taken out of the first where it is there, and otherwise gathered in one atom.

    >>> table = Formulas()
    >>> a, b, ab = (one_of_names(table, names) for names in ("a", "b", "ab"))
    >>> merge_enumerations(table, table.conj([ab, table.negate(b)]))
    (frozenset({'a'}), 1)
    """
    included: frozenset[str] | None = None
    excluded: set[str] = set()
    rest = []
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if literal is None or not isinstance(payload, StrEnum):
            rest.append(part)
        elif literal[1]:
            included = payload.values if included is None else included & payload.values
        else:
            excluded |= payload.values
    if included is None:
        return None, table.conj([*rest, table.negate(one_of_names(table, excluded))])
    return included - excluded, table.conj(rest)
