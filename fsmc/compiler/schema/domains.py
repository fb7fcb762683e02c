"""Formulas that only a few listed scalars satisfy, such as the tags that tell alternatives apart: which ones those are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal

from fsmc.compiler.schema.atoms import (
    ARRAY,
    FALSE_LITERAL,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUE_LITERAL,
    Doubtful,
    Format,
    NumEnum,
)
from fsmc.compiler.schema.conditions import merge_enumerations
from fsmc.compiler.schema.formula import FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.keywords import Keywords
from fsmc.compiler.schema.numbers import number_holds
from fsmc.compiler.schema.string_machines import atom_texts, string_holds
from fsmc.compiler.schema.values import canonical

Domain = frozenset[str]
"""Canonical texts of values (see `values.canonical`)."""


class Domains:
    """Finds the domains of value formulas.

    >>> from fsmc.compiler.schema.document import SchemaDocument
    >>> document = SchemaDocument({"enum": ["a", 1.0, None], "type": ["string", "number"]})
    >>> keywords = Keywords(document, Formulas())
    >>> domains = Domains(keywords)
    >>> tag = keywords.schema(document.root)
    >>> sorted(domains.of(tag)), domains.of(keywords.formulas.negate(tag))
    (['"a"', '1'], None)
    """

    def __init__(self, keywords: Keywords) -> None:
        self.keywords = keywords
        self._known: dict[int, Domain | None] = {TRUE: None, FALSE: frozenset()}

    def of(self, formula: int) -> Domain | None:
        """The values that satisfy a value formula, if they are listed scalars; else None."""
        if formula not in self._known:
            self._known[formula] = self._find(formula)
        return self._known[formula]

    def one_of(self, values: Iterable[str]) -> int:
        """The value formula "one of these"."""
        loaded = (json.loads(text, parse_float=Decimal) for text in sorted(values))
        return self.keywords.formulas.disj([self.keywords.const(value) for value in loaded])

    def _find(self, formula: int) -> Domain | None:
        table, expand = self.keywords.formulas, self.keywords.expand
        if any(expand(formula, type_) != FALSE for type_ in (OBJECT, ARRAY)):
            return None
        found: set[str] = set()
        for type_, of_type in ((STRING, _strings), (NUMBER, _numbers)):
            values = of_type(expand(formula, type_), table)
            if values is None:
                return None
            found |= values
        for type_, text in ((NULL, "null"), (TRUE_LITERAL, "true"), (FALSE_LITERAL, "false")):
            if expand(formula, type_) == TRUE:
                found.add(text)
        return frozenset(found)


def _strings(formula: int, table: Formulas) -> set[str] | None:
    if formula == FALSE:
        return set()
    if table.kind(formula) == OR:
        return _union(_strings(part, table) for part in table.arguments(formula))
    included, rest = merge_enumerations(table, formula)
    for part in table.conjuncts(rest):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal and literal[1] else None
        texts = atom_texts(payload)
        if texts is not None:
            included = texts if included is None else included & texts
    doubtful = any(isinstance(table.payload(atom), (Doubtful, Format)) for atom in table.atoms(rest))
    if included is None or doubtful:
        return None
    return {canonical(text) for text in included if rest == TRUE or string_holds(rest, text, table)}


def _numbers(formula: int, table: Formulas) -> set[str] | None:
    if formula == FALSE:
        return set()
    if table.kind(formula) == OR:
        return _union(_numbers(part, table) for part in table.arguments(formula))
    literals = [table.literal(part) for part in table.conjuncts(formula)]
    listed = [table.payload(literal[0]) for literal in literals if literal and literal[1]]
    enumeration = next((payload for payload in listed if isinstance(payload, NumEnum)), None)
    if enumeration is None:
        return None
    return {canonical(value) for value in enumeration.values if number_holds(formula, value, table)}


def _union(parts: Iterable[set[str] | None]) -> set[str] | None:
    union: set[str] = set()
    for part in parts:
        if part is None:
            return None
        union |= part
    return union
