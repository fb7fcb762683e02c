"""The order in which an object's declared members are written.

Every ``properties`` list that applies to the object is respected as far as they agree, and so are the members of constants:
names are merged topologically, among those that could come next the one named first comes first; where lists contradict
each other, the first named wins. Names that only ``required``, ``dependentRequired`` or ``propertyNames`` list come after them.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from typing import Any

from fsmc.compiler.schema.atoms import Const, Schema
from fsmc.compiler.schema.keywords import Keywords

_RARER = frozenset(["const", "enum", "dependentRequired", "dependencies", "propertyNames"])
"""Keywords that name members, besides ``properties`` and ``required``."""


class MemberOrder:
    """Finds and merges the lists of the subschemas that a value formula applies in place.

    >>> from fsmc.compiler.schema.document import SchemaDocument
    >>> from fsmc.compiler.schema.formula import Formulas
    >>> base = {"properties": {"id": {}, "name": {}}, "required": ["kind"]}
    >>> document = SchemaDocument({"properties": {"name": {}, "age": {}}, "allOf": [base]})
    >>> keywords = Keywords(document, Formulas())
    >>> MemberOrder(keywords).of((keywords.schema(document.root),))
    ('id', 'name', 'age', 'kind')
    """

    def __init__(self, keywords: Keywords) -> None:
        self.keywords = keywords
        self._lists: dict[int, tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]] = {}
        self._orders: dict[tuple[int, ...], tuple[str, ...]] = {}

    def of(self, formulas: tuple[int, ...]) -> tuple[str, ...]:
        """The order for an object of which these value formulas speak (what must hold first, then what is watched)."""
        known = self._orders.get(formulas)
        if known is None:
            lists: dict[tuple[str, ...], None] = {}
            required: dict[str, None] = {}
            for formula in formulas:
                for payload in self._payloads(formula):
                    if isinstance(payload, Const):
                        _add_members(lists, [self.keywords.constants[payload.text]])
                    else:
                        own, names = self._of_node(payload.node)
                        lists.update(dict.fromkeys(own))
                        required.update(dict.fromkeys(names))
            merged = merge(list(lists))
            seen = set(merged)
            known = self._orders[formulas] = (*merged, *(name for name in required if name not in seen))
        return known

    def _payloads(self, formula: int) -> list[Schema | Const]:
        table = self.keywords.formulas
        return [table.payload(atom) for atom in sorted(table.atoms(formula))]

    def _of_node(self, node: int) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
        """(lists, other names) of a subschema and all that it applies to the same value.

        Lists are those of ``properties`` and the members of constants; other names stand in ``required`` and the like.
        """
        known = self._lists.get(node)
        if known is not None:
            return known
        document, keyword = self.keywords.document, self.keywords.document.keyword
        value = document.value
        lists: dict[tuple[str, ...], None] = {}
        required: dict[str, None] = {}
        seen = {node}
        stack = [node]
        while stack:
            current = stack.pop()
            lists[tuple(keyword(current, "properties", ()))] = None
            required.update(dict.fromkeys(keyword(current, "required", ())))
            if isinstance(value(current), dict) and not _RARER.isdisjoint(value(current)):
                constant = keyword(current, "const")
                _add_members(lists, keyword(current, "enum", ()) if constant is None else [constant])
                for dependent in ("dependentRequired", "dependencies"):
                    for name, needed in keyword(current, dependent, {}).items():
                        required.update(dict.fromkeys([name, *(needed if isinstance(needed, list) else ())]))
                required.update(dict.fromkeys(self._listed_keys(current)))
            applied = [n for n in document.in_place(current) if n not in seen]
            seen.update(applied)
            stack.extend(reversed(applied))
        lists.pop((), None)
        known = self._lists[node] = (tuple(lists), tuple(required))
        return known

    def _listed_keys(self, node: int) -> list[str]:
        """The names that ``propertyNames`` enumerates."""
        document = self.keywords.document
        if document.keyword(node, "propertyNames") is None:
            return []
        keys = document.keyword(document.child(node, "propertyNames"), "enum", ())
        return [name for name in keys if isinstance(name, str)]


def _add_members(lists: dict[tuple[str, ...], None], values: Iterable[Any]) -> None:
    lists.update((tuple(value), None) for value in values if isinstance(value, dict))


def merge(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """One order of all names that respects every list; ties, and contradictions, by first naming.

    >>> merge([("kind", "size"), ("id", "size", "note"), ("kind", "id")])
    ('kind', 'id', 'size', 'note')
    """
    lists = list(lists)
    if len(lists) == 1:
        return tuple(dict.fromkeys(lists[0]))
    rank: dict[str, int] = {}
    for names in lists:
        for name in names:
            rank.setdefault(name, len(rank))
    after: dict[str, set[str]] = {name: set() for name in rank}
    waits = dict.fromkeys(rank, 0)
    for names in lists:
        for a, b in itertools.pairwise(names):
            if a != b and b not in after[a]:
                after[a].add(b)
                waits[b] += 1
    ready = [(rank[name], name) for name in rank if not waits[name]]
    heapq.heapify(ready)
    order: dict[str, None] = {}
    left = sorted(rank, key=rank.__getitem__, reverse=True)
    while len(order) < len(rank):
        if ready:
            name = heapq.heappop(ready)[1]
        else:  # the lists contradict each other
            while left[-1] in order:
                left.pop()
            name = left[-1]
        if name in order:
            continue
        order[name] = None
        for other in after[name]:
            waits[other] -= 1
            if not waits[other] and other not in order:
                heapq.heappush(ready, (rank[other], other))
    return tuple(order)
