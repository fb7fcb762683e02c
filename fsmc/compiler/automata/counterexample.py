"""A text that one machine accepts and another refuses, sought among the short ones.

For two machines that cannot be put side by side exactly: where what was read decides what may follow, or where the states of both together do not
come to an end. Both are run on the same texts, the short ones first. What is found is certain; that nothing is found says something only where
there was nothing left to look at.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from fsmc.compiler.automata.recursion import Reading, RecursiveMachine
from fsmc.compiler.automata.shortest import ShortestTexts
from fsmc.compiler.automata.tables import CALL, EXIT_REDO, RECORDED
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import nearer_limit, time_limit, working_seconds

MAX_SEARCHED = 5_000

_MAX_ALIKE = 16
"""Texts that lead to the same two configurations and differ in what must not come twice."""
_MAX_BYTES_ALIKE = 3
"""Bytes that do the same, inside of what must not come twice."""
_NATURAL = sorted(range(256), key=lambda byte: (not chr(byte).isalnum() or byte > 127, byte))

Ending = Callable[[bytes, Reading], bytes | None]
"""From a text and where it leads: the same text completed, or None where no short way is known."""


class Sought(NamedTuple):
    """The text that was found, and, if none was, whether that is because there is none."""

    text: bytes | None
    is_all: bool


class _Place(NamedTuple):
    text: bytes
    a: Reading
    b: Reading | None


def counterexample(
    a: RecursiveMachine,
    b: RecursiveMachine,
    *,
    max_searched: int = MAX_SEARCHED,
    max_seconds: float = math.inf,
    ending: Ending | None = None,
    shows: Callable[[bytes], bool] | None = None,
) -> Sought:
    """A short text that ``a`` accepts and ``b`` does not.

    max_searched, max_seconds: beginnings of texts that are looked at, and the time. ending: finds the rest of a text that ``b`` has refused already. shows: whether such a
    text is one that is sought (default: each is).

    >>> from fsmc.compiler.schema.recipe import SchemaRecipe
    >>> a = SchemaRecipe({"type": "array", "uniqueItems": True, "items": {"type": "integer"}}).build().rsm
    >>> b = SchemaRecipe({"type": "array", "maxItems": 1}).build().rsm
    >>> counterexample(a, b).text
    b'[0,1]'
    """
    with time_limit(max_seconds):
        return _sought(a, b, max_searched, ending or ending_of(a), shows)


def _sought(
    a: RecursiveMachine,
    b: RecursiveMachine,
    max_searched: int,
    ending: Ending,
    shows: Callable[[bytes], bool] | None,
) -> Sought:
    places = deque([_Place(b"", Reading(a.initial), Reading(b.initial))])
    seen: set[object] = set()
    alike: Counter[object] = Counter()
    is_all, n_looked_at, until = True, 0, nearer_limit(math.inf)[1]
    while places:
        place = places.popleft()
        if n_looked_at == max_searched or working_seconds() > until:
            return Sought(None, False)
        n_looked_at += 1
        refused = place.b is None or not b.is_complete(place.b.here)
        if refused and a.is_complete(place.a.here) and (shows is None or shows(place.text)):
            return Sought(place.text, False)
        if place.b is None:
            found = ending(place.text, place.a)
            if found is not None and a.matches(found) and (shows is None or shows(found)):
                return Sought(found, False)
            is_all = is_all and shows is None  # texts that lead to the same place need not show the same
        bytes_to_try, are_all = _bytes(a, b, place)
        is_all = is_all and are_all
        for byte in bytes_to_try:
            text = place.text + bytes((byte,))
            after = a.read(place.a, text, len(text) - 1)
            if after is None:
                continue
            there = _Place(text, after, b.read(place.b, text, len(text) - 1) if place.b is not None else None)
            known = there.a.here, there.b and there.b.here
            exactly = known, _texts(there.a, text), there.b and _texts(there.b, text)
            if exactly in seen:
                continue
            if alike[known] == _MAX_ALIKE:
                is_all = False
                continue
            seen.add(exactly)
            alike[known] += 1
            places.append(there)
    return Sought(None, is_all)


def _texts(reading: Reading, text: bytes) -> tuple[bytes, ...]:
    """What the open recorded calls have read."""
    return tuple(text[start:] for start in reading.starts)


def _bytes(a: RecursiveMachine, b: RecursiveMachine, place: _Place) -> tuple[list[int], bool]:
    """Bytes that stand for all that may follow, and whether they do: of those that do the same in both machines the most natural ones."""
    sides = [(a, place.a)] if place.b is None else [(a, place.a), (b, place.b)]
    rows = [machine.row(reading.here.state).tolist() for machine, reading in sides]
    actions = [
        {code: machine.action(code) for code in set(row) if code < 0}
        for (machine, _), row in zip(sides, rows, strict=True)
    ]
    is_recorded = any(reading.starts for _, reading in sides)
    n_of: Counter[object] = Counter()
    chosen, are_all = [], True
    for byte in _NATURAL:
        codes = tuple(row[byte] for row in rows)
        if not codes[0]:
            continue
        done = [known[code] for code, known in zip(codes, actions, strict=True) if code < 0]
        is_read_again = any(kind == EXIT_REDO for kind, _, _ in done)  # by the caller, which tells such bytes apart
        is_kept = is_recorded or any(kind == CALL and frame >= RECORDED for kind, _, frame in done)
        kind = (codes, byte) if is_read_again else codes
        n_of[kind] += 1
        if n_of[kind] <= (_MAX_BYTES_ALIKE if is_kept else 1):
            chosen.append(byte)
        else:
            are_all = are_all and not is_kept
    return chosen, are_all


def ending_of(machine: RecursiveMachine) -> Ending:
    """The shortest ways to the end of a machine's texts."""
    nodes: list[tuple[int, int]] = [(0, 0)]
    number_of: dict[tuple[int, int], int] = {}
    shortest = ShortestTexts(machine, nodes.__getitem__)

    def ending(text: bytes, reading: Reading) -> bytes | None:
        node = 0
        for frame in reading.here.stack:
            if (node, frame) not in number_of:
                number_of[node, frame] = len(nodes)
                nodes.append((node, frame))
            node = number_of[node, frame]
        try:
            found = shortest.ending(reading.here.state, node)
        except LimitExceeded:
            return None
        return None if found.way is None else text + found.text

    return ending
