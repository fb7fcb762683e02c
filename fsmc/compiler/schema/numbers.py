"""Numbers: from a formula over bounds, multiples and enumerations to a machine over their JSON text.

Where a condition applies the text is in plain notation (``-?digits(.digits)?``): with an exponent, what a number is worth
depends on counting digits, which no finite machine can. Each atom is a machine over plain text that judges the *value*, so
``1.50`` and ``1.5`` are the same; all arithmetic is exact.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.atoms import AtLeast, Integer, MultipleOf, NumEnum
from fsmc.compiler.schema.formula import AND, FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA, joint_component
from fsmc.compiler.syntax.regex import parse_regex

MAX_REMAINDERS = 50_000
MAX_DIGITS = 10_000
MAX_LISTED = 2_000
"""Up to so many values are judged one by one rather than by the product of all conditions' machines."""

_PLAIN = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
_EXPONENT = r"(?:[eE][+-]?[0-9]{1,3})?"
"""Three digits: more than a float's range, and few enough that the number can still be written out and compared."""

_MINUS, _POINT, _DIGIT0 = 1, 2, 3  # byte classes: 0 nothing, then "-", ".", "0" … "9"


@lru_cache(maxsize=16)
def _pattern(source: str) -> DFA:
    return minimize(determinize(thompson(parse_regex(source))))


def _byte_class() -> np.ndarray:
    byte_class = np.zeros(256, np.uint8)
    byte_class[ord("-")], byte_class[ord(".")] = _MINUS, _POINT
    byte_class[ord("0") : ord("9") + 1] = np.arange(_DIGIT0, _DIGIT0 + 10)
    return byte_class


_Name = tuple[str, bool, int, int]


class _Builder:
    """Rows of a machine over plain number text, by state name: (kind, a flag, two numbers)."""

    def __init__(self, start: _Name) -> None:
        self.number: dict[_Name, int] = {}
        self.rows: list[list[int]] = [[0] * 13]
        self.accepting = [False]
        self.todo: list[_Name] = []
        self.start = self.state(start)

    def state(self, name: _Name) -> int:
        known = self.number.get(name)
        if known is None:
            known = self.number[name] = len(self.rows)
            self.rows.append([0] * 13)
            self.accepting.append(False)
            self.todo.append(name)
        return known

    def dfa(self) -> DFA:
        return minimize(
            DFA.from_arrays(_byte_class(), np.array(self.rows, np.int32), np.array(self.accepting), self.start)
        )


@lru_cache(maxsize=4096)
def at_least_dfa(bound: Decimal, exclusive: bool) -> DFA:
    """The plain texts whose value is >= bound (> if exclusive).

    The digits are compared one by one with those of |bound|: the integer parts by length first.
    """
    whole, _, fraction = format(bound.copy_abs(), "f").partition(".")
    fraction = fraction.rstrip("0")
    n = len(whole)
    sign_of_bound = (bound > 0) - (bound < 0)

    def judge(negative: bool, magnitude: int) -> bool:
        """magnitude: the sign of |value| - |bound|. For a zero bound it says whether the value is zero."""
        if negative:
            order = -1 if sign_of_bound > 0 else -magnitude
        else:
            order = 1 if sign_of_bound < 0 else magnitude
        return order > 0 or (order == 0 and not exclusive)

    # names: (kind, negative, digits so far, comparison so far)
    build = _Builder(("start", False, 0, 0))
    while build.todo:
        name = build.todo.pop()
        q = build.number[name]
        row = build.rows[q]
        kind, negative, count, order = name
        if kind == "start":
            if not negative:
                row[_MINUS] = build.state(("start", True, 0, 0))
            for d in range(10):
                row[_DIGIT0 + d] = build.state(("whole", negative, 1, _compare(d, int(whole[0]))))
            continue
        if kind == "whole":
            settled = -1 if count < n else 1 if count > n else order
            magnitude = settled if settled else -1 if fraction else 0
            for d in range(10):
                if count >= n:
                    row[_DIGIT0 + d] = build.state(("whole", negative, n + 1, 1))
                else:
                    later = order or _compare(d, int(whole[count]))
                    row[_DIGIT0 + d] = build.state(("whole", negative, count + 1, later))
            row[_POINT] = build.state(("point", negative, 0, settled))
        else:
            magnitude = order if order else -1 if count < len(fraction) else 0
            for d in range(10):
                against = int(fraction[count]) if count < len(fraction) else 0
                later = order or _compare(d, against)
                place = 0 if later else min(count + 1, len(fraction))
                row[_DIGIT0 + d] = build.state(("fraction", negative, place, later))
        build.accepting[q] = kind != "point" and judge(negative, magnitude)
    return build.dfa()


def _compare(a: int, b: int) -> int:
    return (a > b) - (a < b)


def _as_ratio(divisor: Decimal) -> tuple[int, int]:
    """(P, E) with divisor = P / 10**E; LimitExceeded if a machine would need too many remainders."""
    fraction = Fraction(divisor)
    assert fraction > 0
    places = next(e for e in itertools.count() if (fraction * 10**e).denominator == 1)
    p = int(fraction * 10**places)
    if p * (places + 2) > MAX_REMAINDERS:
        raise LimitExceeded(
            "max_remainders", MAX_REMAINDERS, p * (places + 2), f"multipleOf {divisor} needs too many remainders"
        )
    return p, places


@lru_cache(maxsize=1024)
def multiple_of_dfa(divisor: Decimal) -> DFA:
    """The plain texts whose value is an integer times ``divisor``: a remainder, digit by digit.

    With divisor = P / 10**E a multiple has no digits past the E-th after the point, and the digits up to there, read as an
    integer, are a multiple of P.
    """
    p, places = _as_ratio(divisor)
    # names: (kind, whether a minus has come, remainder, digits after the point)
    build = _Builder(("start", False, 0, 0))
    while build.todo:
        name = build.todo.pop()
        q = build.number[name]
        row = build.rows[q]
        kind, negative, remainder, place = name
        if kind == "start" and not negative:
            row[_MINUS] = build.state(("start", True, 0, 0))
        if kind == "whole":
            row[_POINT] = build.state(("point", True, remainder, 0))
        for d in range(10):
            if kind in ("start", "whole"):
                row[_DIGIT0 + d] = build.state(("whole", True, (remainder * 10 + d) % p, 0))
            elif place < places:
                row[_DIGIT0 + d] = build.state(("fraction", True, (remainder * 10 + d) % p, place + 1))
            elif d == 0:
                row[_DIGIT0] = build.state(("fraction", True, remainder, place))
        build.accepting[q] = kind in ("whole", "fraction") and remainder * 10 ** (places - place) % p == 0
    return build.dfa()


@lru_cache(maxsize=256)
def enum_dfa(values: frozenset[Decimal]) -> DFA:
    """The plain texts whose value is one of these; digits after the last that counts may be zeros."""
    branches = []
    for value in sorted(values):
        text = format(value, "f")
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        if text in ("0", "-0"):
            branches.append(r"-?0(?:\.0+)?")
        elif "." in text:
            branches.append(text.replace(".", r"\.") + "0*")
        else:
            branches.append(text + r"(?:\.0+)?")
    return minimize(determinize(thompson(parse_regex("|".join(branches)))))


def _atom_dfa(payload: object) -> DFA:
    if isinstance(payload, Integer):
        return _pattern(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")
    if isinstance(payload, AtLeast):
        return at_least_dfa(payload.bound, payload.exclusive)
    if isinstance(payload, MultipleOf):
        return multiple_of_dfa(payload.divisor)
    assert isinstance(payload, NumEnum)
    return enum_dfa(payload.values)


def number_component(must: int, watches: Sequence[int], table: Formulas) -> OutcomeDFA:
    """The machine over a number's text that accepts where ``must`` holds, its outcomes telling which of ``watches`` hold.

    Unconstrained numbers may have an exponent. Where integers are asked for the text has no fraction. Raises LimitExceeded.
    """
    if must == TRUE and not watches:
        return _as_outcome(_pattern(_PLAIN + _EXPONENT))
    integer = table.atom(Integer())
    whole = integer in table.conjuncts(must)
    universe = _pattern(r"-?(?:0|[1-9][0-9]*)" if whole else _PLAIN)
    listed = _listed_values(must, table)
    if listed is not None:
        return _listed_component(universe, listed, must, watches, table)
    if whole:
        must, *watches = (table.substitute(f, lambda atom: TRUE if atom == integer else atom) for f in (must, *watches))
    return joint_component(universe, lambda atom: _atom_dfa(table.payload(atom)), must, watches, table)


def _listed_values(formula: int, table: Formulas) -> list[Decimal] | None:
    """The values among which those of the formula are, if they are few and multiples of something or enumerated; else None."""
    low, high, step, multiples = None, None, None, False
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if isinstance(payload, NumEnum) and literal and literal[1]:
            return sorted(payload.values) if len(payload.values) <= MAX_LISTED else None
        if isinstance(payload, AtLeast) and literal:
            if literal[1]:
                low = payload.bound if low is None else max(low, payload.bound)
            else:
                high = payload.bound if high is None else min(high, payload.bound)
        elif (one := _common_step(part, table)) is not None:
            multiples = multiples or not isinstance(payload, Integer)
            step = one if step is None else _lcm(step, one)
    if not multiples or step is None or low is None or high is None:
        return None
    first, last = math.ceil(Fraction(low) / step), math.floor(Fraction(high) / step)
    if last - first >= MAX_LISTED:
        return None
    return [_as_decimal(k * step) for k in range(first, last + 1)]


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


def _listed_component(
    universe: DFA, values: list[Decimal], must: int, watches: Sequence[int], table: Formulas
) -> OutcomeDFA:
    """As `number_component`, of finitely many values: each is judged by itself."""
    by_vector: dict[tuple[bool, ...], set[Decimal]] = {}
    for value in values:
        if number_holds(must, value, table):
            by_vector.setdefault(tuple(number_holds(w, value, table) for w in watches), set()).add(value)
    kinds = [table.atom(NumEnum(frozenset(group))) for group in by_vector.values()]
    component = joint_component(universe, lambda atom: _atom_dfa(table.payload(atom)), table.disj(kinds), kinds, table)
    vector_of = {tuple(i == k for k in range(len(kinds))): vector for i, vector in enumerate(by_vector)}
    vectors = tuple(vector_of[vector] for vector in component.vectors)
    return OutcomeDFA(component.byte_class, component.delta, component.outcome, component.start, vectors)


def _as_outcome(dfa: DFA) -> OutcomeDFA:
    return OutcomeDFA(dfa.byte_class, dfa.delta, np.where(dfa.accepting, 0, -1).astype(np.int32), dfa.start, ((),))


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
    """Whether some number satisfies the formula; intervals, multiples and enumerations without building anything."""
    if formula in (TRUE, FALSE):
        return formula == TRUE
    if table.kind(formula) == OR and any(number_satisfiable(part, table) for part in table.arguments(formula)):
        return True
    low: tuple[Decimal, bool] | None = None  # (bound, exclusive)
    high: tuple[Decimal, bool] | None = None
    step: Fraction | None = None
    plain = True
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        sign = literal is not None and literal[1]
        if isinstance(payload, NumEnum) and sign:
            return any(number_holds(formula, value, table) for value in payload.values)
        if isinstance(payload, AtLeast) and sign:
            low = max(low, (payload.bound, payload.exclusive)) if low else (payload.bound, payload.exclusive)
        elif isinstance(payload, AtLeast):
            bound = (payload.bound, not payload.exclusive)
            high = min((high, bound), key=lambda b: (b[0], not b[1])) if high else bound
        elif isinstance(payload, (Integer, MultipleOf)) and sign:
            if isinstance(payload, MultipleOf):
                _as_ratio(payload.divisor)  # refused now, not when a text gets to the number
            one = Fraction(1) if isinstance(payload, Integer) else Fraction(payload.divisor)
            step = one if step is None else _lcm(step, one)
        else:
            plain = False
    if plain:
        if low is None or high is None:
            return True
        if step is None:
            return low[0] < high[0] or (low[0] == high[0] and not low[1] and not high[1])
        k = math.ceil(Fraction(low[0]) / step)
        if low[1] and k * step == Fraction(low[0]):
            k += 1
        return k * step < Fraction(high[0]) or (k * step == Fraction(high[0]) and not high[1])
    listed = _listed_values(formula, table)
    if listed is not None:
        return any(number_holds(formula, value, table) for value in listed)
    return bool((number_component(formula, (), table).outcome >= 0).any())


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator, b.numerator), math.lcm(a.denominator, b.denominator))


def _lcm(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.lcm(a.numerator, b.numerator), math.gcd(a.denominator, b.denominator))


def number_count(formula: int, table: Formulas) -> int | None:
    """How many numbers satisfy the formula; None if infinitely many (or not easily told: fractions, negated conditions)."""
    low, high, step = None, None, None
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if literal is None:
            return None
        if isinstance(payload, NumEnum) and literal[1]:
            return sum(number_holds(formula, value, table) for value in payload.values)
        if isinstance(payload, (Integer, MultipleOf)) and literal[1]:
            one = Fraction(1) if isinstance(payload, Integer) else Fraction(payload.divisor)
            step = one if step is None else _lcm(step, one)
        elif isinstance(payload, AtLeast):
            if literal[1]:
                low = payload.bound if low is None else max(low, payload.bound)
            else:
                high = payload.bound if high is None else min(high, payload.bound)
    if step is None or low is None or high is None:
        return None
    first, last = math.ceil(Fraction(low) / step), math.floor(Fraction(high) / step)
    if last - first > 10_000:
        return None
    return sum(number_holds(formula, _as_decimal(k * step), table) for k in range(first, last + 1))


def _as_decimal(fraction: Fraction) -> Decimal:
    """The same number, which has finitely many decimal places. (Decimal's default context would round.)"""
    return Context(prec=MAX_DIGITS).divide(Decimal(fraction.numerator), Decimal(fraction.denominator))
