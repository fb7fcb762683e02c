"""Machines of numbers: each condition as a DFA over JSON text in plain notation, ``-?digits(.digits)?``.

A machine judges the *value*, so ``1.50`` and ``1.5`` are the same to it; all arithmetic is exact.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.kept import kept
from fsmc.compiler.schema.atoms import AtLeast, Integer, MultipleOf, NumEnum
from fsmc.compiler.schema.format_machine import machine
from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.joint import Sorter, values_by_atoms
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.values import number_text
from fsmc.compiler.schema.word_machine import word_machine

MAX_REMAINDERS = 50_000
"""Remainders times digits after the point, of a multipleOf."""

MAX_DIGITS = 10_000
"""Of one number in an enumeration."""

_WHOLE = r"-?(?:0|[1-9][0-9]*)"
_MINUS, _POINT, _DIGIT0 = 1, 2, 3  # byte classes: 0 nothing, then "-", ".", "0" … "9"


@lru_cache(maxsize=1)
def any_number() -> DFA:
    """All numbers, with an exponent or without.

    The exponent has three digits: more than a float's range, and few enough that the number can be written out and compared.

    >>> any_number().matches(b"-1.5e300"), any_number().matches(b"01")
    (True, False)
    """
    return machine(_WHOLE + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")


@lru_cache(maxsize=1)
def plain_numbers() -> DFA:
    """All numbers in plain notation."""
    return machine(_WHOLE + r"(?:\.[0-9]+)?")


@lru_cache(maxsize=1)
def whole_numbers() -> DFA:
    """All integers in their canonical text: without a fraction."""
    return machine(_WHOLE)


@lru_cache(maxsize=1)
def integer_dfa() -> DFA:
    """The plain texts whose value is an integer.

    >>> integer_dfa().matches(b"2.00"), integer_dfa().matches(b"2.01")
    (True, False)
    """
    return machine(_WHOLE + r"(?:\.0+)?")


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

    def digits(self, against: int, kind: str, negative: bool, count: int, order: int) -> list[int]:
        """The targets of the ten digits: compared with ``against``, unless ``order`` is settled (in a fraction, ``count`` matters
        no more then)."""
        less, equal, more = (
            self.state((kind, negative, 0 if kind == "fraction" and later else count, later))
            for later in ((order, order, order) if order else (-1, 0, 1))
        )
        return [less] * against + [equal] + [more] * (9 - against)

    def unfinished(self) -> Iterator[tuple[int, list[int], str, bool, int, int]]:
        """(state, its row to fill, the parts of its name) until no new state turns up."""
        while self.todo:
            name = self.todo.pop()
            q = self.number[name]
            yield q, self.rows[q], *name

    def dfa(self) -> DFA:
        return minimize(
            DFA.from_arrays(_byte_class(), np.array(self.rows, np.int32), np.array(self.accepting), self.start)
        )


@kept(1 << 26, lambda dfa, *_: int(dfa.nbytes))
def at_least_dfa(bound: Decimal, exclusive: bool) -> DFA:
    """The plain texts whose value is >= bound (> if exclusive).

    The digits are compared one by one with those of |bound|: the integer parts by length first.

    >>> dfa = at_least_dfa(Decimal("-1.5"), exclusive=True)
    >>> [text for text in (b"-2", b"-1.50", b"-1.49", b"0", b"12") if dfa.matches(text)]
    [b'-1.49', b'0', b'12']
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
    for q, row, kind, negative, count, order in build.unfinished():
        if kind == "start":
            if not negative:
                row[_MINUS] = build.state(("start", True, 0, 0))
            row[_DIGIT0:] = build.digits(int(whole[0]), "whole", negative, 1, 0)
            continue
        if kind == "whole":
            settled = -1 if count < n else 1 if count > n else order
            magnitude = settled if settled else -1 if fraction else 0
            if count >= n:
                row[_DIGIT0:] = [build.state(("whole", negative, n + 1, 1))] * 10
            else:
                against = int(whole[count])
                row[_DIGIT0:] = build.digits(against, "whole", negative, count + 1, order)
            row[_POINT] = build.state(("point", negative, 0, settled))
        else:
            magnitude = order if order else -1 if count < len(fraction) else 0
            against = int(fraction[count]) if count < len(fraction) else 0
            place = min(count + 1, len(fraction))
            row[_DIGIT0:] = build.digits(against, "fraction", negative, place, order)
        build.accepting[q] = kind != "point" and judge(negative, magnitude)
    return build.dfa()


def as_ratio(divisor: Decimal) -> tuple[int, int]:
    """(P, E) with divisor = P / 10**E, E as small as can be. Raises LimitExceeded if a machine needs too many remainders.

    >>> as_ratio(Decimal("0.25"))
    (25, 2)
    """
    fraction = Fraction(divisor)
    assert fraction > 0
    places = next(e for e in itertools.count() if (fraction * 10**e).denominator == 1)
    p = int(fraction * 10**places)
    if p * (places + 2) > MAX_REMAINDERS:
        hint = f"multipleOf {divisor} needs too many remainders: bounds or an enum that leave few multiples help"
        raise LimitExceeded("max_remainders", MAX_REMAINDERS, p * (places + 2), hint)
    return p, places


@kept(1 << 26, lambda dfa, *_: int(dfa.nbytes))
def multiple_of_dfa(divisor: Decimal) -> DFA:
    """The plain texts whose value is an integer times ``divisor``: a remainder, digit by digit.

    With divisor = P / 10**E a multiple has no digits past the E-th after the point, and the digits up to there, read as an
    integer, are a multiple of P.

    >>> dfa = multiple_of_dfa(Decimal("0.25"))
    >>> dfa.matches(b"1.750"), dfa.matches(b"1.8")
    (True, False)
    """
    p, places = as_ratio(divisor)
    # names: (kind, whether a minus has come, remainder, digits after the point)
    build = _Builder(("start", False, 0, 0))
    for q, row, kind, negative, remainder, place in build.unfinished():
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


def number_words(value: Decimal, whole: bool) -> list[bytes]:
    """The plain texts of a value without idle zeros; an integer may be written 1.0, as ``json.dumps`` writes a float, unless
    ``whole``. Raises LimitExceeded for more than ``MAX_DIGITS`` digits.

    >>> number_words(Decimal(0), whole=False), number_words(Decimal("1.50"), whole=False), number_words(Decimal(7), whole=True)
    ([b'0', b'0.0', b'-0', b'-0.0'], [b'1.5'], [b'7'])
    """
    text = number_text(value)
    if len(text) > MAX_DIGITS:
        raise LimitExceeded("max_digits", MAX_DIGITS, len(text), "a number in an enumeration has too many digits")
    texts = [text] if whole or "." in text else [text, text + ".0"]
    if text == "0":
        texts += ["-" + zero for zero in texts]
    return [text.encode() for text in texts]


def number_sorters(atoms: Iterable[int], table: Formulas) -> list[Sorter]:
    """The machines of number atoms over plain texts, all enumerations in one: see `joint_component`."""
    sorters, listed = [], []
    for atom in atoms:
        table.clock.check()
        payload = table.payload(atom)
        if isinstance(payload, NumEnum):
            listed.append((atom, payload.values))
        else:
            sorters.append(Sorter.of(atom, _atom_dfa(payload)))
    if listed:
        by_atoms = values_by_atoms(listed)
        kinds = {kind: i for i, kind in enumerate(dict.fromkeys(by_atoms.values()))}
        machine = _enumerated({value: kinds[kind] for value, kind in by_atoms.items()})
        sorters.append(Sorter.of_outcomes(machine, tuple(kinds)))
    return sorters


def _enumerated(kinds: dict[Decimal, int]) -> OutcomeDFA:
    """The plain texts of these values, with their kinds: after the last digit that counts, zeros may follow.

    >>> machine = _enumerated({Decimal("1.5"): 0, Decimal("1.505"): 1, Decimal(2): 2})
    >>> [text for text in (b"1.50", b"1.505", b"1.5050", b"1.51", b"2", b"2.", b"2.00") if machine.run(text) is not None]
    [b'1.50', b'1.505', b'1.5050', b'2', b'2.00']
    """
    n = max(kinds.values()) + 1
    plain: dict[bytes, int] = {}  # may end here
    zeros: dict[bytes, int] = {}  # and zeros may follow
    for value, kind in kinds.items():
        for text in number_words(value, whole=False):
            (zeros if b"." in text else plain)[text] = kind
    # where a longer value goes on with a zero ("1.505" after "1.5"), that zero is a step of its own
    texts = sorted(zeros)
    waiting = list(texts)
    while waiting:
        text = waiting.pop()
        after = text + b"0"
        at = bisect_left(texts, after)
        if at < len(texts) and texts[at].startswith(after):
            kind = plain[text] = zeros.pop(text)
            if after not in zeros:
                zeros[after] = kind
                waiting.append(after)
    words = word_machine({**plain, **{text: kind + n for text, kind in zeros.items()}}, ((),) * (2 * n))
    loops = np.flatnonzero(words.outcome >= n)
    kind_of = words.outcome[loops] - n
    leaf_of = words.n_states + np.arange(n, dtype=np.int32)  # of each kind a state after more zeros
    byte_class, zero = words.byte_class.copy(), words.delta.shape[1]  # a column for "0": it may be in none of the texts
    delta = np.zeros((words.n_states + n, zero + 1), np.int32)
    delta[:-n, :-1] = words.delta
    delta[:-n, zero] = words.delta[:, byte_class[ord("0")]]
    byte_class[ord("0")] = zero
    delta[loops, zero] = leaf_of[kind_of]
    delta[leaf_of, zero] = leaf_of
    outcome = np.concatenate((np.where(words.outcome >= n, words.outcome - n, words.outcome), np.arange(n)))
    return OutcomeDFA(byte_class, delta, outcome.astype(np.int32), words.start, ((),) * n)


def _atom_dfa(payload: object) -> DFA:
    """The machine of a number atom (see atoms.py) that is no enumeration, over plain texts."""
    if isinstance(payload, Integer):
        return integer_dfa()
    if isinstance(payload, AtLeast):
        return at_least_dfa(payload.bound, payload.exclusive)
    assert isinstance(payload, MultipleOf)
    return multiple_of_dfa(payload.divisor)
