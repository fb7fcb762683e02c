"""Boolean formulas, hash-consed: a formula is an integer, and equal formulas are the same integer.

What a JSON Schema asks of a value is a boolean combination of simple conditions: allOf is "and", anyOf "or", oneOf
"exactly one", not "not"; a keyword is an *atom*. Keeping formulas as integers makes them cheap to compare, to memoise
on and to put into the state of a machine.

Formulas are kept in negation normal form: "not" stands only before atoms and before "exactly one", which is never
expanded (its expansion is quadratic, its negation's far larger).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from fsmc.compiler.schema.clock import Clock

FALSE, TRUE = 0, 1
CONSTANT, ATOM, NOT, AND, OR, ONE = range(6)


class Formulas:
    """The table of all formulas of one compilation.

    >>> table = Formulas()
    >>> a, b = table.atom("a"), table.atom("b")
    >>> table.conj([a, b]) == table.conj([b, a, TRUE]), table.conj([a, table.negate(a)]) == FALSE
    (True, True)
    >>> table.show(table.negate(table.disj([a, table.negate(b)])))
    "('b' and not 'a')"
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self._n_made = 0
        self._nodes: list[tuple[int, Any]] = [(CONSTANT, False), (CONSTANT, True)]
        self._ids: dict[tuple[int, Any], int] = {node: i for i, node in enumerate(self._nodes)}
        self._negation: dict[int, int] = {FALSE: TRUE, TRUE: FALSE}
        self._atoms: dict[int, frozenset[int]] = {FALSE: frozenset(), TRUE: frozenset()}

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
        return self._intern((ATOM, payload))

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
        nodes = self._nodes
        self._tick()

        def replaced(formula: int) -> int:
            kind, data = nodes[formula]
            if kind == ATOM:
                result = value_of(formula)
            elif kind == NOT:
                inner = memo.get(data)
                result = self.negate(replaced(data) if inner is None else inner)
            elif kind == CONSTANT:
                result = formula
            else:
                parts = tuple([memo[f] if f in memo else replaced(f) for f in data])
                if parts == data:  # most formulas do not change at most steps
                    result = formula
                else:
                    result = (self.conj if kind == AND else self.disj if kind == OR else self.exactly_one)(parts)
            memo[formula] = result
            return result

        known = memo.get(formula)
        return replaced(formula) if known is None else known

    def atoms(self, formula: int) -> frozenset[int]:
        """All atoms in the formula."""
        known = self._atoms.get(formula)
        if known is None:
            kind = self._nodes[formula][0]
            if kind == ATOM:
                known = frozenset((formula,))
            else:
                known = frozenset().union(*map(self.atoms, self.arguments(formula)))
            self._atoms[formula] = known
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

    def _tick(self) -> None:
        """Look at the clock now and then: whatever takes long makes formulas."""
        self._n_made += 1
        if self._n_made % 64 == 0:
            self.clock.check()

    def _intern(self, node: tuple[int, Any]) -> int:
        known = self._ids.get(node)
        if known is None:
            known = self._ids[node] = len(self._nodes)
            self._nodes.append(node)
        return known

    def _nary(self, kind: int, formulas: Iterable[int], unit: int, zero: int) -> int:
        self._tick()
        parts: set[int] = set()
        nodes = self._nodes
        for formula in formulas:
            if formula == zero:
                return zero
            if formula != unit:
                if nodes[formula][0] == kind:
                    parts.update(nodes[formula][1])
                else:
                    parts.add(formula)
        if not parts:
            return unit
        if len(parts) == 1:
            return next(iter(parts))
        negation = self._negation
        for part in parts:
            if negation.get(part) in parts:
                return zero
        return self._intern((kind, tuple(sorted(parts))))
