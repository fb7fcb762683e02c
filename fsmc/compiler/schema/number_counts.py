"""How many numbers satisfy a formula, exactly: between the bounds that it names, its truth depends on multiples only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.atoms import AtLeast, Integer, MultipleOf, NumEnum
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.numbers import Range, numbers_that

MAX_TRIED = 100_000
"""Multiples that are tried one by one."""

_Interval = tuple[Fraction | None, Fraction | None]


def number_count(formula: int, limit: int, table: Formulas) -> int:
    """How many numbers satisfy the formula, counted up to ``limit``. Raises LimitExceeded where too many would have to be tried.

    >>> from decimal import Decimal
    >>> table = Formulas()
    >>> low = table.atom(AtLeast(Decimal(1), exclusive=False))
    >>> high = table.negate(table.atom(AtLeast(Decimal(3), exclusive=False)))
    >>> integers = table.conj([low, high, table.atom(Integer())])  # 1 and 2
    >>> number_count(integers, 10, table), number_count(table.conj([low, high]), 10, table)
    (2, 10)
    """
    payloads = [table.payload(atom) for atom in table.atoms(formula)]
    steps = {
        Fraction(1) if isinstance(p, Integer) else Fraction(p.divisor)
        for p in payloads
        if isinstance(p, (Integer, MultipleOf))
    }
    points = {p.bound for p in payloads if isinstance(p, AtLeast)}
    points.update(value for p in payloads if isinstance(p, NumEnum) for value in p.values)
    found, tried = numbers_that([formula], sorted(points), table)[0].bit_count(), 0
    if Range.of(formula, table).listed is not None:
        return min(found, limit)
    cuts: list[Fraction | None] = [None, *map(Fraction, sorted(points)), None]
    for interval in itertools.pairwise(cuts):
        if found >= limit:
            return limit
        if _holds(formula, _between(interval, steps), table):
            return limit  # of no multiple anything is asked: endlessly many
        for number in _multiples(interval, steps):
            tried += 1
            if tried > MAX_TRIED:
                raise LimitExceeded("numbers tried one by one", MAX_TRIED, tried, "too many multiples to count")
            if _holds(formula, number, table):
                if None in interval:
                    return limit  # and so does every number that is whole periods away from it
                found += 1
                if found >= limit:
                    return limit
    return min(found, limit)


def _holds(formula: int, number: Fraction, table: Formulas) -> bool:
    def value_of(atom: int) -> int:
        payload = table.payload(atom)
        if isinstance(payload, Integer):
            holds = number.denominator == 1
        elif isinstance(payload, MultipleOf):
            holds = (number / Fraction(payload.divisor)).denominator == 1
        elif isinstance(payload, AtLeast):
            holds = number > payload.bound or (number == payload.bound and not payload.exclusive)
        else:
            assert isinstance(payload, NumEnum)
            holds = number in payload.values
        return TRUE if holds else FALSE

    return table.substitute(formula, value_of) == TRUE


def _between(interval: _Interval, steps: set[Fraction]) -> Fraction:
    """A number inside the interval that is a multiple of no step."""
    low, high = interval
    if low is None or high is None:
        number = high - 1 if high is not None else Fraction(0) if low is None else low + 1
        width = Fraction(1, 2)
    else:
        number, width = (low + high) / 2, (high - low) / 4
    while any((number / step).denominator == 1 for step in steps):
        width /= 7
        number += width
    return number


def _multiples(interval: _Interval, steps: set[Fraction]) -> Iterator[Fraction]:
    """The multiples of the steps inside the interval, each once; of an endless interval those of one period."""
    low, high = interval
    if not steps:
        return
    denominator = math.lcm(*(step.denominator for step in steps))
    period = Fraction(math.lcm(*(int(step * denominator) for step in steps)), denominator)
    if low is None:
        high = Fraction(0) if high is None else high
        low = high - period - min(steps) / 2
    elif high is None:
        high = low + period + min(steps) / 2
    seen: set[Fraction] = set()
    for step in sorted(steps):
        k = math.floor(low / step) + 1
        while (number := k * step) < high:
            if number not in seen:
                seen.add(number)
                yield number
            k += 1
