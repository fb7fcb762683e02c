"""The ways in which a formula can be true: conjunctions of literals (*cubes*), enumerated lazily.

A depth-first search as in DPLL (Davis, Logemann, Loveland 1962): literals that have to hold are assigned first, what
follows from them is decided by the caller, and only then is the formula split: into the cases that the caller knows, or
by a disjunction. Nothing is expanded before it is met: a hundred alternatives of which a tag decides give a hundred cubes,
not their product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.formula import FALSE, NOT, ONE, OR, TRUE, Formulas

MAX_STEPS = 50_000

Cube = dict[int, bool]
"""Atom → whether it holds; atoms that are absent do not matter."""

Case = tuple[Cube, int]
"""Literals, and what is left of a formula where they hold."""


class Facts:
    """What is known while a cube is being made, literal by literal. This class knows nothing; subclasses say what follows."""

    def assume(self, literals: Cube) -> bool:
        """These hold as well; False if that contradicts what is known (nothing is asked any more then)."""
        return True

    def watch(self, atoms: Iterable[int]) -> None:
        """These are the atoms that `consequences` is to speak of."""

    def consequences(self) -> dict[int, int]:
        """Watched atom → TRUE or FALSE, of those that the literals assumed last decide; others may be among them."""
        return {}

    def cases(self, formula: int) -> Sequence[Case]:
        """Cases that cover all, where splitting the formula by them is better than by a disjunction; else none."""
        return ()


def cubes(
    table: Formulas, formula: int, facts_of: Callable[[], Facts] = Facts, max_steps: int = MAX_STEPS
) -> Iterator[Cube]:
    """All cubes of ``formula`` that the facts do not refute; together they cover it, and they may overlap.

    ``facts_of`` makes the facts before anything is assumed. Raises LimitExceeded after ``max_steps`` splits.

    Where a implies b, the second of these cubes need not mention b, and no cube of a and not b comes:

    >>> table = Formulas()
    >>> a, b, c = map(table.atom, "abc")
    >>> class Implies(Facts):
    ...     def __init__(self):
    ...         self.known = {}
    ...     def assume(self, literals):
    ...         self.known.update(literals)
    ...         return not self.known.get(a) or self.known.get(b, True)
    ...     def consequences(self):
    ...         return {b: TRUE} if self.known.get(a) else {}
    >>> formula = table.conj([table.disj([a, c]), table.disj([b, table.negate(c)])])
    >>> for cube in cubes(table, formula, Implies):
    ...     print({table.payload(atom): cube[atom] for atom in sorted(cube)})
    {'a': True}
    {'b': True, 'c': True}
    """
    stack: list[tuple[int, Cube, Cube]] = [(formula, {}, {})]
    steps = 0
    while stack:
        steps += 1
        if steps > max_steps:
            raise LimitExceeded(
                "max_steps", max_steps, steps, "the alternatives interact too much: simplify the schema"
            )
        rest, cube, more = stack.pop()
        facts = facts_of()
        if cube and not facts.assume(cube):
            continue
        rest, cube = propagate(table, rest, facts, cube, more)
        if rest == TRUE:
            yield cube
        elif rest != FALSE:
            cases = facts.cases(rest) or [({}, branch) for branch in _split(table, rest)]
            stack.extend((branch, cube, literals) for literals, branch in reversed(cases))


def propagate(
    table: Formulas, formula: int, facts: Facts, cube: Cube | None = None, more: Cube | None = None
) -> tuple[int, Cube]:
    """Move literals from the formula into the cube and replace what they decide, until neither changes anything.

    ``more``: literals that hold beside the formula, and that the facts do not know yet. Each part of the formula is looked at
    again only when an atom in it has been decided: a chain of a thousand implications takes a thousand steps.

    >>> table = Formulas()
    >>> a, b, c, d = map(table.atom, "abcd")
    >>> formula = table.conj([a, table.disj([table.negate(a), b]), table.disj([table.negate(b), c, d])])
    >>> rest, cube = propagate(table, formula, Facts())
    >>> table.show(rest), cube == {a: True, b: True}
    ("('c' or 'd')", True)
    """
    cube = dict(cube or {})
    pending = dict(more or {})
    parts: dict[int, int] = {}

    def take(formula: int, i: int) -> bool:
        """Sort what has to hold into literals and the rest, part i; False if it contradicts itself."""
        rest = []
        for part in table.conjuncts(formula):
            literal = table.literal(part)
            if literal is None:
                rest.append(part)
            elif pending.setdefault(*literal) != literal[1]:
                return False
        if rest:
            parts[i] = table.conj(rest)
        return True

    for i, part in enumerate(table.conjuncts(formula)):
        if part == FALSE or not take(part, i):
            return FALSE, cube
    if not pending:
        return formula, cube
    where: dict[int, list[int]] = {}
    for i, part in parts.items():
        for atom in table.atoms(part):
            where.setdefault(atom, []).append(i)
    facts.watch(where)
    while pending:
        cube.update(pending)
        if not facts.assume(pending):
            return FALSE, cube
        values = facts.consequences()
        values.update((atom, TRUE if sign else FALSE) for atom, sign in pending.items())
        pending = {}
        memo: dict[int, int] = {}
        for i in sorted({i for atom in values for i in where.pop(atom, ())} & parts.keys()):
            left = table.substitute(parts.pop(i), lambda atom, values=values: values.get(atom, atom), memo)  # type: ignore[misc]  # the default binds this round's
            if left == FALSE or not take(left, i):
                return FALSE, cube
    return table.conj(parts.values()), cube


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
