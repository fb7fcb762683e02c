"""The order in which an object's declared members are written.

Every ``properties`` list that applies to the object is respected as far as they agree: names are merged topologically,
among those that could come next the one named first comes first; where lists contradict each other, the first named wins.
Names that only ``required`` lists come after them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from fsmc.compiler.schema.atoms import Const, Schema
from fsmc.compiler.schema.keywords import Keywords


class MemberOrder:
    """Finds and merges the lists of the subschemas that a value formula applies in place."""

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
                for node in self._nodes(formula):
                    own, names = self._of_node(node)
                    lists.update(dict.fromkeys(own))
                    required.update(dict.fromkeys(names))
            merged = merge(list(lists))
            seen = set(merged)
            known = self._orders[formulas] = (*merged, *(name for name in required if name not in seen))
        return known

    def _nodes(self, formula: int) -> list[int]:
        table = self.keywords.formulas
        payloads = [table.payload(atom) for atom in sorted(table.atoms(formula))]
        assert all(isinstance(p, (Schema, Const)) for p in payloads)
        return [p.node for p in payloads if isinstance(p, Schema)]

    def _of_node(self, node: int) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
        """(properties lists, required names) of a subschema and all that it applies to the same value."""
        known = self._lists.get(node)
        if known is not None:
            return known
        lists: dict[tuple[str, ...], None] = {}
        required: dict[str, None] = {}
        seen = {node}
        stack = [node]
        while stack:
            current = stack.pop()
            schema = self.keywords.document.value(current)
            if not isinstance(schema, dict):
                continue
            lists[tuple(schema.get("properties", ()))] = None
            names = schema.get("required", ())
            required.update(dict.fromkeys(names if isinstance(names, list) else ()))
            dependent = [*schema.get("dependentRequired", {}).values(), *schema.get("dependencies", {}).values()]
            for extra in dependent:
                required.update(dict.fromkeys(extra if isinstance(extra, list) else ()))
            applied = [n for n in self.keywords.in_place(current) if n not in seen]
            seen.update(applied)
            stack.extend(reversed(applied))
        lists.pop((), None)
        known = self._lists[node] = (tuple(lists), tuple(required))
        return known


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
        for a, b in zip(names, names[1:], strict=False):
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
