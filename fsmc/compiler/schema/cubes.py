"""The ways in which a formula can be true: conjunctions of literals (*cubes*), enumerated lazily.

A depth-first search as in DPLL (Davis, Logemann, Loveland 1962): literals that have to hold are assigned first, what
follows from them is decided by the caller, and only then is a disjunction split. Nothing is expanded before it is met:
a hundred alternatives of which a tag decides give a hundred cubes, not their product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.formula import FALSE, NOT, ONE, OR, TRUE, Formulas

MAX_STEPS = 50_000

Cube = dict[int, bool]
"""Atom → whether it holds; atoms that are absent do not matter."""

Decide = Callable[[Cube], "Callable[[int], int] | None"]
"""Given literals: None if they contradict each other, else a function atom → TRUE, FALSE, or the atom if undecided."""


def cubes(table: Formulas, formula: int, decide: Decide, max_steps: int = MAX_STEPS) -> Iterator[Cube]:
    """All cubes of ``formula`` that ``decide`` does not refute; together they cover it, and they may overlap.

    Raises LimitExceeded after ``max_steps`` splits.

    Where a implies b, the second of these cubes need not mention b, and no cube of a and not b comes:

    >>> table = Formulas()
    >>> a, b, c = map(table.atom, "abc")
    >>> def decide(cube):
    ...     if cube.get(a) and not cube.get(b, True):
    ...         return None
    ...     return lambda atom: TRUE if atom == b and cube.get(a) else atom
    >>> formula = table.conj([table.disj([a, c]), table.disj([b, table.negate(c)])])
    >>> for cube in cubes(table, formula, decide):
    ...     print({table.payload(atom): cube[atom] for atom in sorted(cube)})
    {'a': True}
    {'b': True, 'c': True}
    """
    stack: list[tuple[int, Cube]] = [(formula, {})]
    steps = 0
    while stack:
        steps += 1
        if steps > max_steps:
            raise LimitExceeded(
                "max_steps", max_steps, steps, "the alternatives interact too much: simplify the schema"
            )
        rest, cube = stack.pop()
        rest, cube = _propagate(table, rest, cube, decide)
        if rest == TRUE:
            yield cube
        elif rest != FALSE:
            stack.extend((branch, cube) for branch in reversed(_split(table, rest)))


def _propagate(table: Formulas, formula: int, cube: Cube, decide: Decide) -> tuple[int, Cube]:
    """Move literals from the formula into the cube and replace what they decide, until neither changes anything."""
    while formula != FALSE:
        found = {atom: sign for part in table.conjuncts(formula) for atom, sign in [table.literal(part) or (-1, True)]}
        found.pop(-1, None)
        if not found:
            break
        cube = {**cube, **found}
        decided = decide(cube)
        if decided is None:
            return FALSE, cube

        def value_of(atom: int, known: Cube = cube, decided: Callable[[int], int] = decided) -> int:
            sign = known.get(atom)
            return decided(atom) if sign is None else (TRUE if sign else FALSE)

        formula = table.substitute(formula, value_of)
    return formula, cube


def _split(table: Formulas, formula: int) -> list[int]:
    """The formula as a disjunction: its conjunct with the fewest alternatives is split."""
    parts = table.conjuncts(formula)
    best = min(parts, key=lambda part: len(table.arguments(part)))
    rest = [part for part in parts if part != best]
    kind, arguments = table.kind(best), table.arguments(best)
    negate = table.negate
    if kind == OR:
        alternatives = list(arguments)
    elif kind == ONE:
        alternatives = [_only(table, arguments, {i}) for i in range(len(arguments))]
    else:  # not exactly one: none of them, or two
        assert kind == NOT
        arguments = table.arguments(arguments[0])
        alternatives = [table.conj(map(negate, arguments))]
        alternatives += [table.conj((a, b)) for i, a in enumerate(arguments) for b in arguments[:i]]
    return [branch for alternative in alternatives if (branch := table.conj([*rest, alternative])) != FALSE]


def _only(table: Formulas, formulas: tuple[int, ...], chosen: set[int]) -> int:
    return table.conj(f if i in chosen else table.negate(f) for i, f in enumerate(formulas))
