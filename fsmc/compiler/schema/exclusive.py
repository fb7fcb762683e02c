"""Alternatives of objects that exclude each other: of these "exactly one" is "one", which is far easier.

`oneOf` is mostly written for alternatives that a tag tells apart: a member that each requires with a value of its own. Others
require what the next forbids. Of n alternatives, "exactly one" asks n times that n - 1 do not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fsmc.compiler.schema.atoms import All
from fsmc.compiler.schema.domains import Domain, Domains
from fsmc.compiler.schema.formula import AND, FALSE, NOT, ONE, OR, Formulas

MAX_COMPARED = 1000
"""Up to so many alternatives are compared each with each, where no tag tells them apart."""


class _Alternative(NamedTuple):
    """Bit masks of the declared names that have to come, and that must not; values listed for one that comes."""

    formula: int
    required: int
    forbidden: int
    tags: dict[int, Domain]


class Exclusive:
    """Rewrites object formulas.

    mask_of: the bit mask of declared names in the key set of an `All` atom, given the atom; it counts only below ``names``, a mask.
    required: names that have to come anyhow.
    """

    def __init__(
        self, table: Formulas, domains: Domains, mask_of: Callable[[int], int], names: int, required: int
    ) -> None:
        self.table, self.domains, self.mask_of = table, domains, mask_of
        self.names, self.required = names, required
        self._known: dict[int, int] = {}

    def rewritten(self, formula: int) -> int:
        """The formula, each "exactly one" of alternatives that exclude each other replaced by "or"."""
        known = self._known.get(formula)
        if known is None:
            table = self.table
            kind, parts = table.kind(formula), table.arguments(formula)
            if kind == NOT:
                known = table.negate(self.rewritten(parts[0]))
            elif kind in (AND, OR):
                known = (table.conj if kind == AND else table.disj)(map(self.rewritten, parts))
            elif kind == ONE:
                known = self._one(list(map(self.rewritten, parts)))
            else:
                known = formula
            self._known[formula] = known
        return known

    def _one(self, formulas: list[int]) -> int:
        table = self.table
        if len(set(formulas)) < len(formulas):
            return table.exactly_one(formulas)
        groups = _apart(list(map(self._read, formulas)))
        return table.disj(table.exactly_one(a.formula for a in group) for group in groups)

    def _read(self, formula: int) -> _Alternative:
        table = self.table
        required, forbidden = self.required, 0
        listed: dict[int, list[Domain]] = {}
        for part in table.conjuncts(formula):
            literal = table.literal(part)
            payload = table.payload(literal[0]) if literal else None
            if literal is None or not isinstance(payload, All):
                continue
            mask = self.mask_of(literal[0])
            if not literal[1]:
                required |= mask & self.names if mask & (mask - 1) == 0 else 0
            elif payload.value == FALSE:
                forbidden |= mask & self.names
            elif mask & (mask - 1) == 0 and (domain := self.domains.of(payload.value)) is not None:
                listed.setdefault(mask, []).append(domain)
        tags = {mask: frozenset.intersection(*found) for mask, found in listed.items() if mask & required}
        return _Alternative(formula, required, forbidden, tags)


def _apart(alternatives: list[_Alternative]) -> list[list[_Alternative]]:
    """Groups such that alternatives of different groups exclude each other."""
    for mask in set.intersection(*(set(a.tags) for a in alternatives)):
        groups = _by_tag(alternatives, mask)
        if len(groups) > 1:
            return [part for group in groups for part in _apart(group)]
    if len(alternatives) > MAX_COMPARED:
        return [alternatives]
    groups = []
    for a in alternatives:
        joined, rest = [a], []
        for group in groups:
            if all(_exclude(a, b) for b in group):
                rest.append(group)
            else:
                joined += group
        groups = [*rest, joined]
    return groups


def _by_tag(alternatives: list[_Alternative], mask: int) -> list[list[_Alternative]]:
    """Grouped so that alternatives with a value of the tag in common are together."""
    group_of: dict[str, list[_Alternative]] = {}
    for a in alternatives:
        joined = [a]
        for value in a.tags[mask]:
            group = group_of.get(value, joined)
            if group is not joined:
                if len(group) < len(joined):
                    group, joined = joined, group
                group += joined
                group_of.update((v, group) for b in joined for v in b.tags[mask])
                joined = group
        group_of.update((value, joined) for value in a.tags[mask])
    return list({id(group): group for group in group_of.values()}.values())


def _exclude(a: _Alternative, b: _Alternative) -> bool:
    """Whether the two are known not to hold of the same object."""
    if a.required & b.forbidden or b.required & a.forbidden:
        return True
    return any(mask in b.tags and domain.isdisjoint(b.tags[mask]) for mask, domain in a.tags.items())
