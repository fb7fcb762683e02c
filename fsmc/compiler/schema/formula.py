"""Boolean formulas, hash-consed: a formula is an integer, and equal formulas are the same integer.

What a JSON Schema asks of a value is a boolean combination of simple conditions: allOf is "and", anyOf "or", oneOf
"exactly one", not "not"; a keyword is an *atom*. Keeping formulas as integers makes them cheap to compare, to memoise
on and to put into the state of a machine.

Formulas are kept in negation normal form: "not" stands only before atoms and before "exactly one", which is never
expanded (its expansion is quadratic, its negation's far larger).

Enumerations that meet in one "and", "or" or "exactly one" become a single one: ten thousand alternatives of a constant each
cost what one enumeration does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from fsmc.compiler.schema.atoms import Enumeration
from fsmc.compiler.schema.clock import Clock

FALSE, TRUE = 0, 1
CONSTANT, ATOM, NOT, AND, OR, ONE = range(6)


class Formulas:
    """The table of all formulas of one compilation. clock: what limits the work on them.

    >>> table = Formulas()
    >>> a, b = table.atom("a"), table.atom("b")
    >>> table.conj([a, b]) == table.conj([b, a, TRUE]), table.conj([a, table.negate(a)]) == FALSE
    (True, True)
    >>> table.show(table.negate(table.disj([a, table.negate(b)])))
    "('b' and not 'a')"
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = Clock() if clock is None else clock
        self._n_made = 0
        self._nodes: list[tuple[int, Any]] = [(CONSTANT, False), (CONSTANT, True)]
        self._ids: dict[tuple[int, Any], int] = {(CONSTANT, False): FALSE, (CONSTANT, True): TRUE}
        self.of_name: dict[str, int] = {}  # see `conditions.this_name`
        self._negation: dict[int, int] = {FALSE: TRUE, TRUE: FALSE}
        self._atoms: dict[int, frozenset[int]] = {FALSE: frozenset(), TRUE: frozenset()}
        self._enumerations: dict[int, tuple[type[Any], frozenset[Any], bool]] = {}  # literal → class, values, sign

    @property
    def n_steps(self) -> int:
        """Formulas that were asked for so far: a measure of work without a clock."""
        return self._n_made

    def kind(self, formula: int) -> int:
        """CONSTANT, ATOM, NOT, AND, OR or ONE."""
        return self._nodes[formula][0]

    def payload(self, atom: int) -> Any:
        """What an atom stands for."""
        assert self._nodes[atom][0] == ATOM
        return self._nodes[atom][1]

    def arguments(self, formula: int) -> tuple[int, ...]:
        """The parts of an AND, OR or ONE, or the one part of a NOT."""
        kind, data = self._nodes[formula]
        return (data,) if kind == NOT else data if kind in (AND, OR, ONE) else ()

    def atom(self, payload: Hashable) -> int:
        """The formula of one condition."""
        node = ATOM, payload
        known = self._ids.get(node)
        if known is None:
            known = self._intern(node)
            if isinstance(payload, Enumeration):
                self._enumerations[known] = type(payload), payload.values, True
        return known

    def negate(self, formula: int) -> int:
        """Not; pushed inwards through AND and OR."""
        known = self._negation.get(formula)
        if known is not None:
            return known
        kind, data = self._nodes[formula]
        if kind == AND:
            result = self.disj(map(self.negate, data))
        elif kind == OR:
            result = self.conj(map(self.negate, data))
        else:
            result = self._intern((NOT, formula))
            if formula in self._enumerations:
                class_, values, _ = self._enumerations[formula]
                self._enumerations[result] = class_, values, False
        self._negation[formula], self._negation[result] = result, formula
        return result

    def conj(self, formulas: Iterable[int]) -> int:
        """And: flattened, without repetitions; FALSE when a part and its negation meet."""
        return self._nary(AND, formulas, unit=TRUE, zero=FALSE)

    def disj(self, formulas: Iterable[int]) -> int:
        """Or."""
        return self._nary(OR, formulas, unit=FALSE, zero=TRUE)

    def exactly_one(self, formulas: Iterable[int]) -> int:
        """Exactly one of the formulas holds (one that is listed twice cannot be the one)."""
        formulas = tuple(formulas)
        if len(formulas) > 1 and not self._enumerations.keys().isdisjoint(formulas):
            twice, formulas = self._once_or_twice(formulas)
            if twice:
                return self.conj([*map(self.negate, twice), self.exactly_one(formulas)])
        counts: dict[int, int] = {}
        for formula in formulas:
            if formula != FALSE:
                counts[formula] = counts.get(formula, 0) + 1
        if counts.get(TRUE, 0) > 1:
            return FALSE
        repeated = [f for f, n in counts.items() if n > 1]
        single = sorted(f for f, n in counts.items() if n == 1)
        if TRUE in counts:
            return self.conj(self.negate(f) for f in counts if f != TRUE)
        if repeated:
            return self.conj([*map(self.negate, repeated), self.exactly_one(single)])
        if not single:
            return FALSE
        if len(single) == 1:
            return single[0]
        if len(single) == 2 and self._negation.get(single[0]) == single[1]:
            return TRUE
        return self._intern((ONE, tuple(single)))

    def substitute(self, formula: int, value_of: Callable[[int], int], memo: dict[int, int] | None = None) -> int:
        """The formula with each atom replaced by ``value_of(atom)``, simplified. ``memo`` may be shared by calls with the
        same ``value_of``."""
        memo = {} if memo is None else memo
        self._tick()
        known = memo.get(formula)
        return self._replaced(formula, value_of, memo) if known is None else known

    def _replaced(self, formula: int, value_of: Callable[[int], int], memo: dict[int, int]) -> int:
        """`substitute` in a formula that is not in ``memo`` yet."""
        kind, data = self._nodes[formula]
        if kind == ATOM:
            result = value_of(formula)
        elif kind == NOT:
            inner = memo.get(data)
            result = self.negate(self._replaced(data, value_of, memo) if inner is None else inner)
        elif kind == CONSTANT:
            result = formula
        else:
            parts = tuple([memo[f] if f in memo else self._replaced(f, value_of, memo) for f in data])
            if parts == data:  # most formulas do not change at most steps
                result = formula
            else:
                result = (self.conj if kind == AND else self.disj if kind == OR else self.exactly_one)(parts)
        memo[formula] = result
        return result

    def cases(
        self, formula: int, of_atom: Callable[[int], int], everything: int, memo: dict[int, int] | None = None
    ) -> int:
        """In which of some numbered cases the formula holds, as bits, given that of each atom. everything: all cases.

        ``memo`` may be shared by calls with the same arguments.

        >>> table = Formulas()
        >>> a, b = table.atom("a"), table.atom("b")
        >>> bin(table.cases(table.conj([a, table.negate(b)]), {a: 0b0110, b: 0b0100}.__getitem__, 0b1111))
        '0b10'
        """
        memo = {} if memo is None else memo
        known = memo.get(formula)
        if known is not None:
            return known
        kind, data = self._nodes[formula]
        if kind == ATOM:
            result = of_atom(formula)
        elif kind == CONSTANT:
            result = everything if data else 0
        elif kind == NOT:
            result = everything & ~self.cases(data, of_atom, everything, memo)
        elif kind == AND:
            result = everything
            for part in data:
                result &= self.cases(part, of_atom, everything, memo)
        elif kind == OR:
            result = 0
            for part in data:
                result |= self.cases(part, of_atom, everything, memo)
        else:
            result = twice = 0
            for part in data:
                one = self.cases(part, of_atom, everything, memo)
                twice |= result & one
                result |= one
            result &= ~twice
        memo[formula] = result
        return result

    def atoms(self, formula: int) -> frozenset[int]:
        """All atoms in the formula."""
        if self._nodes[formula][0] == ATOM:
            return frozenset((formula,))  # not kept: of a large schema they would be half of all objects there are
        known = self._atoms.get(formula)
        if known is None:
            known = self._atoms[formula] = frozenset().union(*map(self.atoms, self.arguments(formula)))
        return known

    def conjuncts(self, formula: int) -> tuple[int, ...]:
        """The parts that all have to hold: of an AND its arguments, of TRUE nothing, else the formula itself."""
        if formula == TRUE:
            return ()
        return self.arguments(formula) if self._nodes[formula][0] == AND else (formula,)

    def literal(self, formula: int) -> tuple[int, bool] | None:
        """(atom, sign) if the formula is an atom or a negated one."""
        kind, data = self._nodes[formula]
        if kind == ATOM:
            return formula, True
        if kind == NOT and self._nodes[data][0] == ATOM:
            return data, False
        return None

    def literals(self, formula: int) -> Iterator[tuple[int, int, Any, bool]]:
        """(part, atom, what the atom stands for, sign) of each part that has to hold; the atom is -1 where the part is no literal."""
        nodes = self._nodes
        for part in self.conjuncts(formula):
            kind, data = nodes[part]
            if kind == ATOM:
                yield part, part, data, True
            elif kind == NOT and nodes[data][0] == ATOM:
                yield part, data, nodes[data][1], False
            else:
                yield part, -1, None, True

    def show(self, formula: int) -> str:
        """Readable text, for messages and dumps."""
        kind, data = self._nodes[formula]
        if kind == CONSTANT:
            return str(data).lower()
        if kind == ATOM:
            return repr(data)
        if kind == NOT:
            return f"not {self.show(data)}"
        word = {AND: " and ", OR: " or ", ONE: " xor1 "}[kind]
        return f"({word.join(map(self.show, data))})"

    def listed(self, formula: int, sign: bool = True) -> frozenset[Any] | None:
        """The values of a formula that is an enumeration (not ``sign``: the negation of one), else None."""
        known = self._enumerations.get(formula)
        return known[1] if known is not None and known[2] == sign else None

    def _tick(self) -> None:
        """Look at the clock now and then: whatever takes long makes formulas."""
        self._n_made += 1
        if self._n_made % 64 == 0:
            self.clock.check()

    def _intern(self, node: tuple[int, Any]) -> int:
        known = self._ids.setdefault(node, len(self._nodes))
        if known == len(self._nodes):
            self._nodes.append(node)
        return known

    def _nary(self, kind: int, formulas: Iterable[int], unit: int, zero: int) -> int:
        self._tick()
        parts = set(formulas)
        if zero in parts:
            return zero
        parts.discard(unit)
        nodes = self._nodes
        nested = [formula for formula in parts if nodes[formula][0] == kind]
        if nested:
            if len(parts) == 1:
                return nested[0]
            parts.difference_update(nested)
            parts.update(*[nodes[formula][1] for formula in nested])
        if len(parts) > 1 and not self._enumerations.keys().isdisjoint(parts):
            if not self._merge_enumerations(kind, parts):
                return zero
        if len(parts) < 2:
            return next(iter(parts), unit)
        if not parts.isdisjoint(map(self._negation.get, parts)):
            return zero
        return self._intern((kind, tuple(sorted(parts))))

    def _merge_enumerations(self, kind: int, parts: set[int]) -> bool:
        """Join the enumerations of each class in the parts of an AND or OR; False if that decides the whole.

        Of an AND: those included, less those excluded. An OR is the negation of the AND of the negations.
        """
        by_class: dict[type[Any], list[int]] = {}
        for part in parts:
            if part in self._enumerations:
                by_class.setdefault(self._enumerations[part][0], []).append(part)
        for class_, literals in by_class.items():
            if len(literals) == 1:
                continue
            included: frozenset[Any] | None = None
            excluded: set[Any] = set()
            for literal in literals:
                _, values, sign = self._enumerations[literal]
                if sign == (kind == OR):
                    excluded |= values
                else:
                    included = values if included is None else included & values
            values = frozenset(excluded) if included is None else included - excluded
            if not values:
                return False
            parts.difference_update(literals)
            joint = self.atom(class_(values))
            parts.add(joint if (included is None) == (kind == OR) else self.negate(joint))
        return True

    def _once_or_twice(self, formulas: tuple[int, ...]) -> tuple[list[int], tuple[int, ...]]:
        """For "exactly one": (enumerations of what several of the formulas list, the formulas with one enumeration for each
        class, of what one of them lists)."""
        rest: list[int] = []
        counts: dict[type[Any], Counter[Any]] = {}
        for formula in formulas:
            class_, values, sign = self._enumerations.get(formula, (None, frozenset(), False))
            if class_ is not None and sign:
                counts.setdefault(class_, Counter()).update(values)
            else:
                rest.append(formula)
        twice = []
        for class_, count in counts.items():
            several = frozenset(v for v, n in count.items() if n > 1)
            if several:
                twice.append(self.atom(class_(several)))
            if len(several) < len(count):
                rest.append(self.atom(class_(frozenset(count.keys() - several))))
        return twice, tuple(rest)
