"""Numbers: from a formula over bounds, multiples and enumerations to a machine over their JSON text.

Where a condition applies the text is in plain notation (``-?digits(.digits)?``): with an exponent, what a number is worth
depends on counting digits, which no finite machine can. The machines of the conditions stand in number_machines.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema.atoms import AtLeast, Integer, MultipleOf, NumEnum
from fsmc.compiler.schema.formula import AND, FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.number_machines import (
    any_number,
    as_ratio,
    atom_dfa,
    plain_numbers,
    short_numbers,
    whole_numbers,
)
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA, joint_component

MAX_DIGITS = 10_000
MAX_LISTED = 2_000
"""Up to so many values are judged one by one rather than by the product of all conditions' machines."""
MAX_COUNTED = 10_000


# ── where the values lie ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Range:
    """What the conjuncts of a number formula say at once: where its values lie, if it has any.

    low, high: (bound, whether it is excluded), None for no bound. step: all values are multiples of it. listed: all values
    are among these. is_all: the conjuncts say nothing else. has_multiples: the step comes from more than "integer".
    """

    low: tuple[Decimal, bool] | None = None
    high: tuple[Decimal, bool] | None = None
    step: Fraction | None = None
    listed: frozenset[Decimal] | None = None
    is_all: bool = True
    has_multiples: bool = False

    @classmethod
    def of(cls, formula: int, table: Formulas) -> Range:
        """The range of a formula over number atoms."""
        low, high, step, listed, is_all, has_multiples = None, None, None, None, True, False
        for part in table.conjuncts(formula):
            literal = table.literal(part)
            payload, sign = (table.payload(literal[0]), literal[1]) if literal else (None, False)
            if isinstance(payload, NumEnum) and sign:
                listed = payload.values if listed is None else listed & payload.values
            elif isinstance(payload, AtLeast) and sign:
                bound = (payload.bound, payload.exclusive)
                low = bound if low is None else max(low, bound)
            elif isinstance(payload, AtLeast):
                bound = (payload.bound, not payload.exclusive)
                high = bound if high is None else min(high, bound, key=lambda b: (b[0], not b[1]))
            else:
                one = _common_step(part, table)
                if one is not None:
                    step = one if step is None else _lcm(step, one)
                    has_multiples = has_multiples or not isinstance(payload, Integer)
                is_all = is_all and isinstance(payload, (Integer, MultipleOf)) and sign
        return cls(low, high, step, listed, is_all, has_multiples)

    def is_empty(self) -> bool:
        """Whether no number lies in the range (``listed`` apart)."""
        if self.low is None or self.high is None:
            return False
        (low, above), (high, below) = self.low, self.high
        if self.step is None:
            return low > high or (low == high and (above or below))
        first = math.ceil(Fraction(low) / self.step)
        if above and first * self.step == Fraction(low):
            first += 1
        return first * self.step > Fraction(high) or (first * self.step == Fraction(high) and below)

    def multiples(self, at_most: int) -> list[Decimal] | None:
        """The multiples of the step from bound to bound, both included; None where they are not finite or more than that."""
        if self.step is None or self.low is None or self.high is None:
            return None
        first, last = math.ceil(Fraction(self.low[0]) / self.step), math.floor(Fraction(self.high[0]) / self.step)
        if last - first >= at_most:
            return None
        return [_as_decimal(k * self.step) for k in range(first, last + 1)]


def _common_step(formula: int, table: Formulas) -> Fraction | None:
    """A number of which all values of the formula are multiples, if its atoms tell."""
    literal = table.literal(formula)
    if literal:
        payload = table.payload(literal[0])
        if isinstance(payload, (Integer, MultipleOf)) and literal[1]:
            return Fraction(1) if isinstance(payload, Integer) else Fraction(payload.divisor)
        return None
    steps = [_common_step(part, table) for part in table.arguments(formula)]
    if table.kind(formula) == AND:
        return next((step for step in steps if step is not None), None)
    if table.kind(formula) != OR or None in steps:
        return None
    known = [step for step in steps if step is not None]
    return functools.reduce(_gcd, known) if known else None


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator, b.numerator), math.lcm(a.denominator, b.denominator))


def _lcm(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.lcm(a.numerator, b.numerator), math.gcd(a.denominator, b.denominator))


def _as_decimal(fraction: Fraction) -> Decimal:
    """The same number, which has finitely many decimal places. (Decimal's default context would round.)"""
    return Context(prec=MAX_DIGITS).divide(Decimal(fraction.numerator), Decimal(fraction.denominator))


# ── components ───────────────────────────────────────────────────────────────────────────────────────────────────────


def number_component(must: int, watches: Sequence[int], table: Formulas) -> OutcomeDFA:
    """The machine over a number's text that accepts where ``must`` holds, its outcomes telling which of ``watches`` hold.

    Unconstrained numbers may have an exponent. Where integers are asked for the text has no fraction. Raises LimitExceeded.

    >>> table = Formulas()
    >>> integer, positive = table.atom(Integer()), table.atom(AtLeast(Decimal(0), exclusive=True))
    >>> component = number_component(integer, [positive], table)
    >>> component.run(b"12"), component.run(b"-1"), component.run(b"0.5")
    ((True,), (False,), None)
    """
    if must == TRUE and not watches:
        return OutcomeDFA.of(any_number())
    integer = table.atom(Integer())
    whole = integer in table.conjuncts(must)
    listed = _listed_values(must, table)
    if listed is not None:  # a machine of finitely many texts, most of which is forced
        return _listed_component(whole_numbers() if whole else short_numbers(), listed, must, watches, table)
    universe = whole_numbers() if whole else plain_numbers()
    if whole:
        must, *watches = (table.substitute(f, lambda atom: TRUE if atom == integer else atom) for f in (must, *watches))
    return joint_component(universe, lambda atom: atom_dfa(table.payload(atom)), must, watches, table)


def _listed_values(formula: int, table: Formulas) -> list[Decimal] | None:
    """The values among which those of the formula are, if they are few and multiples of something or enumerated; else None."""
    found = Range.of(formula, table)
    if found.listed is not None:
        return sorted(found.listed) if len(found.listed) <= MAX_LISTED else None
    return found.multiples(MAX_LISTED) if found.has_multiples else None


def _listed_component(
    universe: DFA, values: list[Decimal], must: int, watches: Sequence[int], table: Formulas
) -> OutcomeDFA:
    """As `number_component`, of finitely many values: each is judged by itself."""
    by_vector: dict[tuple[bool, ...], set[Decimal]] = {}
    for value in values:
        if number_holds(must, value, table):
            by_vector.setdefault(tuple(number_holds(w, value, table) for w in watches), set()).add(value)
    kinds = [table.atom(NumEnum(frozenset(group))) for group in by_vector.values()]
    component = joint_component(universe, lambda atom: atom_dfa(table.payload(atom)), table.disj(kinds), kinds, table)
    vector_of = {tuple(i == k for k in range(len(kinds))): vector for i, vector in enumerate(by_vector)}
    vectors = tuple(vector_of[vector] for vector in component.vectors)
    return OutcomeDFA(component.byte_class, component.delta, component.outcome, component.start, vectors)


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def number_holds(formula: int, value: Decimal, table: Formulas) -> bool:
    """Whether a number formula holds of one value."""

    def value_of(atom: int) -> int:
        payload = table.payload(atom)
        if isinstance(payload, Integer):
            holds = value == value.to_integral_value()
        elif isinstance(payload, AtLeast):
            holds = value > payload.bound or (value == payload.bound and not payload.exclusive)
        elif isinstance(payload, MultipleOf):
            holds = (Fraction(value) / Fraction(payload.divisor)).denominator == 1
        else:
            assert isinstance(payload, NumEnum)
            holds = value in payload.values
        return TRUE if holds else FALSE

    return table.substitute(formula, value_of) == TRUE


def number_satisfiable(formula: int, table: Formulas) -> bool:
    """Whether some number satisfies the formula; intervals, multiples and enumerations without building anything.

    >>> table = Formulas()
    >>> third, less = table.atom(MultipleOf(Decimal(3))), table.negate(table.atom(AtLeast(Decimal(3), exclusive=False)))
    >>> more = table.atom(AtLeast(Decimal(0), exclusive=True))
    >>> number_satisfiable(table.conj([third, less]), table), number_satisfiable(table.conj([third, less, more]), table)
    (True, False)
    """
    if formula in (TRUE, FALSE):
        return formula == TRUE
    if table.kind(formula) == OR and any(number_satisfiable(part, table) for part in table.arguments(formula)):
        return True
    found = Range.of(formula, table)
    if found.listed is not None:
        return any(number_holds(formula, value, table) for value in found.listed)
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        if literal and literal[1] and isinstance(payload := table.payload(literal[0]), MultipleOf):
            as_ratio(payload.divisor)  # refused now, not when a text gets to the number
    if found.is_all:
        return not found.is_empty()
    values = _listed_values(formula, table)
    if values is not None:
        return any(number_holds(formula, value, table) for value in values)
    return bool((number_component(formula, (), table).outcome >= 0).any())


def number_count(formula: int, table: Formulas) -> int | None:
    """How many numbers satisfy the formula; None if infinitely many (or more than MAX_COUNTED, or not easily told).

    >>> table = Formulas()
    >>> number_count(table.atom(NumEnum(frozenset({Decimal(1), Decimal(2)}))), table)
    2
    """
    found = Range.of(formula, table)
    values = found.multiples(MAX_COUNTED) if found.listed is None else found.listed
    return None if values is None else sum(number_holds(formula, value, table) for value in values)
