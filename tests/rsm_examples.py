"""Recursive state machines built by hand, each with an oracle that knows nothing of machines.

Every configuration that can be reached has a completion, as every machine of the compiler promises, so that the
examples also serve the tests of walks, masks and matchers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fsmc.compiler.automata.rsm import CALL, EXIT, EXIT_REDO, RSM


@dataclass(frozen=True)
class Call:
    """Enter the component at ``target``; ``frame`` names where its outcomes lead."""

    target: str
    frame: str


@dataclass(frozen=True)
class Exit:
    """Leave the component with an outcome, consuming the byte (or not, with ``redo``)."""

    outcome: int
    redo: bool = False


def machine(
    edges: dict[str, dict[bytes, str | Call | Exit]],
    frames: dict[str, dict[int, str]],
    finals: dict[str, int],
    start: str,
) -> RSM:
    """An RSM from tables with names.

    edges: state → {bytes, each of which takes the edge → next state, Call or Exit}; frames: name → {outcome → state};
    finals: state → outcome with which the text may end there.
    """
    states = {name: number for number, name in enumerate(edges, 1)}
    frame_numbers = {name: number for number, name in enumerate(frames)}
    actions: list[tuple[int, int, int]] = []
    full = np.zeros((len(states) + 1, 256), np.int32)
    for name, row in edges.items():
        for symbols, edge in row.items():
            if isinstance(edge, str):
                entry = states[edge]
            else:
                if isinstance(edge, Call):
                    action = (CALL, states[edge.target], frame_numbers[edge.frame])
                else:
                    action = (EXIT_REDO if edge.redo else EXIT, edge.outcome, 0)
                if action not in actions:
                    actions.append(action)
                entry = -1 - actions.index(action)
            full[states[name], list(symbols)] = entry
    columns, byte_class = np.unique(full, axis=1, return_inverse=True)
    n_outcomes = 1 + max((outcome for row in frames.values() for outcome in row), default=0)
    returns = np.zeros((len(frames), n_outcomes), np.int32)
    for name, row in frames.items():
        for outcome, target in row.items():
            returns[frame_numbers[name], outcome] = states[target]
    final_outcome = np.full(len(states) + 1, -1, np.int32)
    for name, outcome in finals.items():
        final_outcome[states[name]] = outcome
    return RSM(
        byte_class.reshape(256).astype(np.uint8),
        np.ascontiguousarray(columns, np.int32),
        np.array(actions, np.int32).reshape(-1, 3),
        returns,
        final_outcome,
        states[start],
    )


DIGITS, EVEN, ODD = b"0123456789", b"02468", b"13579"


def balanced_brackets() -> RSM:
    """``[`` … ``]`` around any number of such pairs: calls and plain exits, nesting without bound."""
    return machine(
        edges={
            "root": {b"[": Call("inside", "root")},
            "inside": {b"[": Call("inside", "nested"), b"]": Exit(0)},
            "end": {},
        },
        frames={"root": {0: "end"}, "nested": {0: "inside"}},
        finals={"end": 0},
        start="root",
    )


def is_balanced(text: bytes) -> bool:
    depth = 0
    for position, byte in enumerate(text):
        depth += 1 if byte == ord("[") else -1 if byte == ord("]") else -(10**9)
        if depth < 0 or (depth == 0 and position + 1 < len(text)):
            return False
    return depth == 0 and len(text) > 0


def sums() -> RSM:
    """A sum of numbers, or a list of such values: ``[1+20,[],[3]]``. Numbers and sums end only where something else begins.

    A comma after a number closes two components and then moves in a third; at the end of the text both close as well.
    A number has no leading zero.
    """
    enter_number = {b"0": Call("zero", "term"), b"123456789": Call("digits", "term")}
    end_of_term = {b",]+": Exit(0, redo=True)}

    def value(frame: str) -> dict[bytes, str | Call | Exit]:
        # The byte that starts a sum is the first byte of its first number: it goes to a state of the sum's component
        # which has, in effect, already read one digit.
        return {
            b"0": Call("sum_zero", frame),
            b"123456789": Call("sum_digits", frame),
            b"[": Call("list_first", frame),
        }

    return machine(
        edges={
            "root": value("root"),
            "end": {},
            "list_first": {**value("list"), b"]": Exit(0)},
            "list_after": {b",": "list_next", b"]": Exit(0)},
            "list_next": value("list"),
            "sum_zero": {b"+": "sum_term", b",]": Exit(0, redo=True)},
            "sum_digits": {DIGITS: "sum_digits", b"+": "sum_term", b",]": Exit(0, redo=True)},
            "sum_term": enter_number,
            "sum_after": {b"+": "sum_term", b",]": Exit(0, redo=True)},
            "zero": end_of_term,
            "digits": {DIGITS: "digits", **end_of_term},
        },
        frames={"root": {0: "end"}, "list": {0: "list_after"}, "term": {0: "sum_after"}},
        finals={"end": 0, "sum_zero": 0, "sum_digits": 0, "sum_after": 0, "zero": 0, "digits": 0},
        start="root",
    )


def is_sums(text: bytes) -> bool:
    """With each sum replaced by 0 it is JSON, made of these characters only."""
    number = rb"(?:0|[1-9][0-9]*)"
    sums_replaced = re.sub(rb"(?<![0-9+])%s(?:\+%s)*(?![0-9+])" % (number, number), b"0", text)
    try:
        json.loads(sums_replaced)
    except ValueError:
        return False
    return re.fullmatch(rb"[][,+0-9]*", text) is not None


def parity() -> RSM:
    """Digits whose last one is even or odd are an outcome, on which depends what may follow.

    ``(digits;`` must be followed by ``e`` or ``o``; ``<digits;`` must be even (the other outcome is a dead return), and
    so must ``=digits``, which only the end of the text ends. ``{(digits;}`` hands the outcome on through a second frame.
    """
    digits: dict[bytes, str | Call | Exit] = {EVEN: "even", ODD: "odd"}
    return machine(
        edges={
            "root": {
                b"(": Call("number", "either"),
                b"<": Call("number", "only_even"),
                b"=": Call("number", "only_even"),
                b"{": Call("wrapped", "either"),
            },
            "number": digits,
            "even": {**digits, b";": Exit(0)},
            "odd": {**digits, b";": Exit(1)},
            "wrapped": {b"(": Call("number", "hand_on")},
            "wrapped_even": {b"}": Exit(0)},
            "wrapped_odd": {b"}": Exit(1)},
            "want_e": {b"e": "end"},
            "want_o": {b"o": "end"},
            "end": {},
        },
        frames={
            "either": {0: "want_e", 1: "want_o"},
            "only_even": {0: "end"},
            "hand_on": {0: "wrapped_even", 1: "wrapped_odd"},
        },
        finals={"even": 0, "odd": 1, "end": 0},
        start="root",
    )


def is_parity(text: bytes) -> bool:
    even, odd = rb"[0-9]*[02468]", rb"[0-9]*[13579]"
    forms = (rb"\(%s;e", rb"<%s;", rb"=%s", rb"<%s", rb"=%s;", rb"\{\(%s;\}e")
    odd_forms = (rb"\(%s;o", rb"\{\(%s;\}o")
    return any(re.fullmatch(form % even, text) for form in forms) or any(
        re.fullmatch(form % odd, text) for form in odd_forms
    )


@dataclass(frozen=True)
class Example:
    """A machine, the bytes worth trying on it, a predicate that decides its language, and some accepted texts."""

    machine: RSM
    alphabet: bytes
    accepts: Callable[[bytes], bool]
    accepted: tuple[bytes, ...]


EXAMPLES = {
    "balanced_brackets": Example(balanced_brackets(), b"[]x", is_balanced, (b"[]", b"[[][[]]]", b"[" * 50 + b"]" * 50)),
    "sums": Example(sums(), b"[],+01", is_sums, (b"10+2", b"[]", b"[1+20,[],[3,[0]]]", b"[" * 9 + b"7" + b"]" * 9)),
    "parity": Example(parity(), b"(<={;}e12o", is_parity, (b"(18;e", b"(81;o", b"<2;", b"=120", b"{(3;}o", b"{(4;}e")),
}
