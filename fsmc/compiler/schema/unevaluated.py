"""``unevaluatedProperties`` and ``unevaluatedItems``: of what no subschema in place has looked at.

Which keys and items those are depends on which alternatives hold: each subschema that applies in place evaluates under a
condition, itself a formula over the same value. So both keywords become "unless the conditions hold under which it is
evaluated, it satisfies the subschema". Source: core specification 2020-12, sections 11.2 and 11.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.atoms import ARRAY, OBJECT, Pattern
from fsmc.compiler.schema.conditions import every_item, every_member, merge_enumerations, one_of_names, present
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas

if TYPE_CHECKING:
    from fsmc.compiler.schema.keywords import Keywords

MAX_KEY_CELLS = 4096
"""Sets of keys that the conditions of unevaluatedProperties tell apart."""

MAX_CONDITIONS = 6
"""unevaluatedItems is split by the truth of each condition it may depend on: 2**n cases."""


def _in_place(k: Keywords, node: int, type_: str) -> Iterator[tuple[int, int]]:
    """(condition, node) of each subschema applied to the same value; what it evaluates counts where the condition holds."""
    table, document, keyword = k.formulas, k.document, k.document.keyword
    if keyword(node, "$ref") is not None:
        yield TRUE, document.resolve(node, keyword(node, "$ref"))
    if keyword(node, "$dynamicRef") is not None or keyword(node, "$recursiveRef") is not None:
        yield TRUE, document.resolve_dynamic(node)
    for i in range(len(keyword(node, "allOf", ()))):
        yield TRUE, document.child(node, "allOf", i)
    for name in ("anyOf", "oneOf"):
        for i in range(len(keyword(node, name, ()))):
            branch = document.child(node, name, i)
            yield k.expand_node(branch, type_), branch
    if keyword(node, "if") is not None:
        condition = k.expand_node(document.child(node, "if"), type_)
        yield condition, document.child(node, "if")
        if keyword(node, "then") is not None:
            yield condition, document.child(node, "then")
        if keyword(node, "else") is not None:
            yield table.negate(condition), document.child(node, "else")
    if type_ == OBJECT:
        for name in keyword(node, "dependentSchemas", ()):
            yield present(table, name), document.child(node, "dependentSchemas", name)
        for name, dependency in keyword(node, "dependencies", {}).items():
            if not isinstance(dependency, list):
                yield present(table, name), document.child(node, "dependencies", name)


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────────


def unevaluated_properties(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``unevaluatedProperties``. Raises LimitExceeded for more than ``MAX_KEY_CELLS`` sets of keys."""
    table = k.formulas
    wanted = k.below(node, "unevaluatedProperties")
    if wanted == TRUE:
        return TRUE
    by_condition: dict[int, int] = {}
    for condition, keys in _evaluated_keys(k, node, TRUE, own=True):
        by_condition[condition] = table.disj([by_condition.get(condition, FALSE), keys])
    always = by_condition.pop(TRUE, FALSE)
    by_condition.pop(FALSE, None)
    # Each cell of the keys by which conditions cover them; few exist, since names are cells of their own.
    cells: dict[frozenset[int], int] = {frozenset(): table.negate(always)}
    for condition, keys in by_condition.items():
        refined: dict[frozenset[int], int] = {}
        for covered, cell in cells.items():
            for more, part in ((covered | {condition}, keys), (covered, table.negate(keys))):
                cut = _simplified(table, table.conj([cell, part]))
                if cut != FALSE:
                    refined[more] = table.disj([refined.get(more, FALSE), cut])
        cells = refined
        if len(cells) > MAX_KEY_CELLS:
            raise LimitExceeded(
                "key classes of unevaluatedProperties", MAX_KEY_CELLS, len(cells), "simplify the alternatives"
            )
    return table.conj(table.disj([*covered, every_member(table, cell, wanted)]) for covered, cell in cells.items())


def _evaluated_keys(k: Keywords, node: int, condition: int, own: bool) -> Iterator[tuple[int, int]]:
    """(condition, keys): where the condition holds, these keys are evaluated. ``own``: the node is where we ask from."""
    table, keyword = k.formulas, k.document.keyword
    yield condition, one_of_names(table, keyword(node, "properties", ()))
    for pattern in keyword(node, "patternProperties", ()):
        yield condition, table.atom(Pattern(pattern))
    if keyword(node, "additionalProperties") is not None:
        yield condition, TRUE
    if not own and keyword(node, "unevaluatedProperties") is not None:
        yield condition, TRUE
    for inner, applied in _in_place(k, node, OBJECT):
        yield from _evaluated_keys(k, applied, table.conj([condition, inner]), own=False)


def _simplified(table: Formulas, keys: int) -> int:
    """A set of keys with its enumerations multiplied out: FALSE if no key is left."""
    included, rest = merge_enumerations(table, keys)
    return rest if included is None else table.conj([one_of_names(table, included), rest])


# ── items ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def unevaluated_items(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``unevaluatedItems``. Raises LimitExceeded for more than ``MAX_CONDITIONS`` conditions."""
    table = k.formulas
    wanted = k.below(node, "unevaluatedItems")
    if wanted == TRUE:
        return TRUE
    found = [e for e in _evaluated_items(k, node, TRUE, own=True) if e[0] != FALSE]
    conditions = sorted({condition for condition, _, _ in found} - {TRUE})
    if len(conditions) > MAX_CONDITIONS:
        raise LimitExceeded(
            "alternatives seen by unevaluatedItems", MAX_CONDITIONS, len(conditions), "simplify the alternatives"
        )
    cases = []
    for truth in itertools.product((True, False), repeat=len(conditions)):
        holds = {TRUE, *(c for c, t in zip(conditions, truth, strict=True) if t)}
        guard = table.conj(c if t else table.negate(c) for c, t in zip(conditions, truth, strict=True))
        seen = [(n, v) for c, n, v in found if c in holds]
        if any(n is None for n, _ in seen):
            cases.append(guard)
            continue
        start = max((n for n, _ in seen if n is not None), default=0)
        others = every_item(table, start, None, table.disj([wanted, *(v for _, v in seen)]))
        cases.append(table.conj([guard, others]))
    return table.disj(cases)


def _evaluated_items(k: Keywords, node: int, condition: int, own: bool) -> Iterator[tuple[int, int | None, int]]:
    """(condition, n, value): where the condition holds, the first n items (None: all) and each item that satisfies the
    value formula are evaluated."""
    keyword = k.document.keyword
    prefix, items = keyword(node, "prefixItems"), keyword(node, "items")
    if prefix is not None:
        yield condition, len(prefix), FALSE
    if isinstance(items, list):
        yield condition, len(items), FALSE
        everything = keyword(node, "additionalItems") is not None
    else:
        everything = items is not None
    if everything or (not own and keyword(node, "unevaluatedItems") is not None):
        yield condition, None, FALSE
    # in 2019-09 contains evaluates nothing
    if keyword(node, "contains") is not None and k.document.draft(node) >= 2020:
        yield condition, 0, k.below(node, "contains")
    for inner, applied in _in_place(k, node, ARRAY):
        yield from _evaluated_items(k, applied, k.formulas.conj([condition, inner]), own=False)
