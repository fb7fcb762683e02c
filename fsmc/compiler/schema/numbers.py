"""Numbers: from a formula over bounds, multiples and enumerations to a machine over their JSON text.

Where a condition applies the text is in plain notation (``-?digits(.digits)?``): with an exponent, what a number is worth
depends on counting digits, which no finite machine can. The machines of the conditions stand in number_machines.py.
"""

from __future__ import annotations

import functools
import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import TypeAlias

from fsmc.compiler.kept import Kept
from fsmc.compiler.schema.atoms import AtLeast, Integer, MultipleOf, NumEnum
from fsmc.compiler.schema.bits import as_mask, told_apart
from fsmc.compiler.schema.formula import AND, FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.joint import joint_component
from fsmc.compiler.schema.number_machines import (
    any_number,
    as_ratio,
    number_sorters,
    number_words,
    plain_numbers,
    whole_numbers,
)
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.word_machine import word_machine

MAX_DIGITS = 10_000

Conditions: TypeAlias = "frozenset[tuple[Integer | AtLeast | MultipleOf, bool]]"

MAX_LISTED = 2_000
"""Up to so many multiples are judged one by one rather than by the product of all conditions' machines."""


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
    asked = None if watches else conditions(must, table)
    known = None if asked is None else _components.get(asked)
    if known is None:
        known = _number_component(must, watches, table)
        if asked is not None:
            _components.put(asked, known, known.nbytes)
    return known


_components = Kept[OutcomeDFA](1 << 26)


def conditions(formula: int, table: Formulas) -> Conditions | None:
    """Bounds and multiples that have to hold, with their signs, if a formula asks for nothing else.

    >>> table = Formulas()
    >>> positive = table.atom(AtLeast(Decimal(0), exclusive=True))
    >>> conditions(table.conj([table.atom(Integer()), positive]), table) == {(Integer(), True), (AtLeast(Decimal(0), True), True)}
    True
    """
    found = set()
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if not literal or not isinstance(payload, (Integer, AtLeast, MultipleOf)):
            return None
        found.add((payload, literal[1]))
    return frozenset(found)


def _number_component(must: int, watches: Sequence[int], table: Formulas) -> OutcomeDFA:
    integer = table.atom(Integer())
    whole = integer in table.conjuncts(must)
    listed = _listed_values(must, table)
    if listed is not None:  # a machine of finitely many texts, most of which is forced
        return _listed_component(listed, whole, must, watches, table)
    universe = whole_numbers() if whole else plain_numbers()
    if whole:
        must, *watches = (table.substitute(f, lambda atom: TRUE if atom == integer else atom) for f in (must, *watches))
    return joint_component(universe, lambda atoms: number_sorters(atoms, table), must, watches, table)


def _listed_values(formula: int, table: Formulas) -> list[Decimal] | None:
    """The values among which those of the formula are, if they are enumerated, or few and multiples of something; else None."""
    found = Range.of(formula, table)
    if found.listed is not None:
        return sorted(found.listed)
    return found.multiples(MAX_LISTED) if found.has_multiples else None


def _listed_component(
    values: list[Decimal], whole: bool, must: int, watches: Sequence[int], table: Formulas
) -> OutcomeDFA:
    """As `number_component`, of finitely many values: each is judged by itself. whole: all that satisfy ``must`` are integers."""
    good, *watched = numbers_that([must, *watches], values, table)
    which, vectors = told_apart(good, watched, len(values))
    words: dict[bytes, int] = {}
    for value, outcome in zip(values, which.tolist(), strict=True):
        if outcome >= 0:
            words.update(dict.fromkeys(number_words(value, whole), outcome))
    return word_machine(words, vectors)


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def numbers_that(formulas: Sequence[int], values: Sequence[Decimal], table: Formulas) -> list[int]:
    """For each number formula the values of which it holds, as cases (`Formulas.cases`). values: ascending."""
    index = {value: i for i, value in enumerate(values)}
    n = len(values)

    def of_atom(atom: int) -> int:
        table.clock.check()
        payload = table.payload(atom)
        if isinstance(payload, NumEnum):
            return as_mask((index[value] for value in payload.values if value in index), n)
        if isinstance(payload, AtLeast):
            first = (bisect_right if payload.exclusive else bisect_left)(values, payload.bound)
            return (1 << n) - 1 >> first << first
        return as_mask((i for i, value in enumerate(values) if _holds(payload, value)), n)

    memo: dict[int, int] = {}
    return [table.cases(formula, of_atom, (1 << n) - 1, memo) for formula in formulas]


def number_holds(formula: int, value: Decimal, table: Formulas) -> bool:
    """Whether a number formula holds of one value."""
    return numbers_that([formula], [value], table) == [1]


def _holds(payload: object, value: Decimal) -> bool:
    if isinstance(payload, Integer):
        return value == value.to_integral_value()
    assert isinstance(payload, MultipleOf)
    (above, below), (divisor, parts) = value.as_integer_ratio(), payload.divisor.as_integer_ratio()
    return above * parts % (below * divisor) == 0


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
        return numbers_that([formula], sorted(found.listed), table) != [0]
    values = _listed_values(formula, table)
    for part in table.conjuncts(formula) if values is None else ():
        literal = table.literal(part)
        if literal and literal[1] and isinstance(payload := table.payload(literal[0]), MultipleOf):
            as_ratio(payload.divisor)  # refused now, not when a text gets to the number
    if found.is_all:
        return not found.is_empty()
    if values is not None:
        return numbers_that([formula], values, table) != [0]
    if numbers_that([formula], _candidates(formula, table), table) != [0]:
        return True
    return bool((number_component(formula, (), table).outcome >= 0).any())


def _candidates(formula: int, table: Formulas) -> list[Decimal]:
    """Numbers to try first, ascending: those at which something changes, and their neighbours. Most formulas hold of one."""
    found = {Decimal(0)}
    listed: list[Decimal] = []
    for atom in table.atoms(formula):
        payload = table.payload(atom)
        if isinstance(payload, MultipleOf):
            found.add(payload.divisor)
        elif isinstance(payload, AtLeast):
            whole = math.floor(payload.bound)
            found.update((payload.bound, *map(Decimal, (whole - 1, whole, whole + 1, whole + 2))))
        elif isinstance(payload, NumEnum):
            found.update(itertools.islice(payload.values, 10))
            listed += (min(payload.values), max(payload.values))
    if listed:
        found.update((Decimal(math.floor(min(listed)) - 1), Decimal(math.floor(max(listed)) + 1)))
    return sorted(found)
