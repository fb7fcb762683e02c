"""What a component tells its caller: an *outcome*, the truth of what is watched.

A component is shared by all callers that ask the same of a value, but each of them watches formulas of its own, of which
some are constants for the type at hand, some are equal, and some are each other's negation. So a component watches
distinct formulas only, and each caller keeps a *reading* of the component's outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas

Truth = tuple[bool, ...]
"""For each thing watched, whether it holds."""

Reading = tuple["bool | tuple[int, bool]", ...]
"""For each thing the caller watches: a constant, or (index into the component's outcome, sign)."""


class Outcomes:
    """Numbers for outcomes, as the machine's exits need them; that of the empty one is 0.

    >>> outcomes = Outcomes()
    >>> [outcomes.number(truth) for truth in [(True,), (), (False,), (True,)]], outcomes.truth(2)
    ([1, 0, 2, 1], (False,))
    """

    def __init__(self) -> None:
        self._truths: list[Truth] = [()]
        self._numbers: dict[Truth, int] = {(): 0}

    def number(self, truth: Truth) -> int:
        """The number of an outcome."""
        known = self._numbers.get(truth)
        if known is None:
            known = self._numbers[truth] = len(self._truths)
            self._truths.append(truth)
        return known

    def truth(self, number: int) -> Truth:
        """The outcome of a number."""
        return self._truths[number]


def what_to_watch(table: Formulas, must: int, watches: Sequence[int]) -> tuple[tuple[int, ...], Reading]:
    """(what a component has to watch, how the caller reads it) for a caller with these ``watches`` of a type's values.

    What ``must`` holds says already need not be watched.

    >>> table = Formulas()
    >>> a, b = table.atom("a"), table.atom("b")
    >>> watched, reading = what_to_watch(table, b, [a, TRUE, table.negate(a), b])
    >>> watched == (a,), reading
    (True, ((0, True), True, (0, False), True))
    """
    distinct: dict[int, int] = {}
    reading: list[bool | tuple[int, bool]] = []
    certain = {TRUE, *table.conjuncts(must)}
    for watch in watches:
        opposite = table.negate(watch)
        if watch in certain:
            reading.append(True)
        elif watch == FALSE or opposite in certain:
            reading.append(False)
        else:
            base = min(watch, opposite)
            reading.append((distinct.setdefault(base, len(distinct)), watch == base))
    return tuple(distinct), tuple(reading)


def read(reading: Reading, outcome: Truth) -> Truth:
    """The truth of what the caller watches, from a component's outcome.

    >>> read((True, (0, False)), (False,))
    (True, True)
    """
    return tuple(r if isinstance(r, bool) else outcome[r[0]] == r[1] for r in reading)
