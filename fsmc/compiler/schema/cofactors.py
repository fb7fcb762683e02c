"""Many cofactors of one formula: what is left of it where, of some atoms, all are false but a few.

Alternatives that a tag tells apart are such a formula: where the tag is known, one of its atoms holds and a thousand do not.
All cofactors together take about as long as one substitution, since each begins with what they have in common.
"""

from __future__ import annotations

from fsmc.compiler.schema.formula import AND, ATOM, FALSE, NOT, OR, TRUE, Formulas


class Cofactors:
    """The cofactors of ``formula`` by ``atoms``.

    >>> table = Formulas()
    >>> a, b, x, y = map(table.atom, "abxy")
    >>> choice = table.conj([table.disj([table.negate(a), x]), table.disj([table.negate(b), y])])
    >>> cofactors = Cofactors(table, choice, frozenset([a, b]))
    >>> [table.show(cofactors.of(frozenset(true))) for true in ([], [a], [b])]
    ['true', "'x'", "'y'"]
    """

    def __init__(self, table: Formulas, formula: int, atoms: frozenset[int]) -> None:
        self.table, self.formula, self.atoms = table, formula, atoms
        self._base: dict[int, int] = {}
        self._parts: dict[int, tuple[dict[int, list[int]], dict[int, int]]] = {}

    def of(self, true: frozenset[int]) -> int:
        """The formula where the atoms ``true`` hold and the other ones do not."""
        return self._cofactor(self.formula, true)

    def _without(self, formula: int) -> int:
        """The formula where none of the atoms holds."""
        return self.table.substitute(formula, lambda atom: FALSE if atom in self.atoms else atom, self._base)

    def _cofactor(self, formula: int, true: frozenset[int]) -> int:
        table = self.table
        if true.isdisjoint(table.atoms(formula)):
            return self._without(formula)
        kind = table.kind(formula)
        if kind == ATOM:
            return TRUE
        if kind == NOT:
            return table.negate(self._cofactor(table.arguments(formula)[0], true))
        where, common = self._split(formula)
        changed = {part for atom in true for part in where.get(atom, ())}
        parts = [rest for part, rest in common.items() if part not in changed]
        parts += [self._cofactor(part, true) for part in changed]
        return (table.conj if kind == AND else table.disj if kind == OR else table.exactly_one)(parts)

    def _split(self, formula: int) -> tuple[dict[int, list[int]], dict[int, int]]:
        """(atom → parts that it is in, part → what is left of it where no atom holds), without parts of which nothing is left."""
        known = self._parts.get(formula)
        if known is None:
            table = self.table
            unit = TRUE if table.kind(formula) == AND else FALSE
            where: dict[int, list[int]] = {}
            common: dict[int, int] = {}
            for part in table.arguments(formula):
                for atom in self.atoms & table.atoms(part):
                    where.setdefault(atom, []).append(part)
                rest = self._without(part)
                if rest != unit:
                    common[part] = rest
            known = self._parts[formula] = (where, common)
        return known
