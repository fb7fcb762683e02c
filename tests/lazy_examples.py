"""Builders of machines that are made as they are walked: copies of known machines, and lists whose items must differ."""

from __future__ import annotations

import numpy as np

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.rsm import CALL, EXIT, RSM


class Copying:
    """Builds the rows and returns of an RSM one by one, as they are asked for; its states and frames are the keys."""

    def __init__(self, original: RSM, **limits: int) -> None:
        self.original = original
        self.machine = LazyRSM(self, **limits)
        self.machine.start = self.machine.new_state(original.start)
        self.built: list[object] = []

    def build_row(self, state: int) -> None:
        machine, original = self.machine, self.original
        number = machine.state_key(state)
        codes = [self._code(int(e)) for e in original.delta[number]]
        class_map = machine.class_map(original.byte_class)
        machine.set_row(state, class_map, np.array(codes, np.int32), original.final(number))
        self.built.append(number)

    def build_return(self, frame: int, outcome: int) -> None:
        target = self.original.after_outcome(self.machine.frame_key(frame), outcome)
        self.machine.set_return(frame, outcome, self.machine.new_state(target) if target else 0)
        self.built.append((frame, outcome))

    def record(self, state: int, text: bytes) -> int:
        raise AssertionError("no frame is recorded")

    def _code(self, entry: int) -> int:
        machine = self.machine
        if entry >= 0:
            return machine.new_state(entry) if entry else 0
        kind, operand, frame = self.original.action(entry)
        if kind == CALL:
            return machine.call(machine.new_state(operand), machine.new_frame(frame))
        return machine.exit(operand) if kind == EXIT else machine.exit_redo(operand)


def lazy_copy(original: RSM, **limits: int) -> LazyRSM:
    """The same machine, made as it is walked."""
    return Copying(original, **limits).machine


class DifferentItems:
    """``(a,bb,c)`` with items of a, b, c that must differ, closed by an exit that redoes; nested lists need not differ.

    Keys: ("item", seen) before an item, ("in", ) inside one, ("after", seen) behind it, None where the text is not known.
    """

    def __init__(self) -> None:
        self.machine = LazyRSM(self)
        byte_class = np.zeros(256, np.uint8)
        for number, byte in enumerate(b"abc,()", 1):
            byte_class[byte] = number
        self.class_map = self.machine.class_map(byte_class)
        self.machine.start = self.machine.new_state(("start",))

    def build_row(self, state: int) -> None:
        machine = self.machine
        name, *rest = machine.state_key(state)
        row = dict.fromkeys("abc,()", 0)
        if name == "start":
            row["("] = machine.new_state(("item", frozenset()))
        elif name == "item":
            inside = machine.new_state(("in",))
            row |= dict.fromkeys("abc", machine.call(inside, machine.new_frame(rest[0], records=True)))
        elif name == "in":
            row |= dict.fromkeys("abc", state)
            row |= dict.fromkeys(",)", machine.exit_redo(0))
        elif name == "after":
            row[","] = machine.new_state(("item", rest[0]))
            row[")"] = machine.new_state(("end",))
        codes = np.array([0, *row.values()], np.int32)
        machine.set_row(state, self.class_map, codes, 0 if name == "end" else -1)

    def build_return(self, frame: int, outcome: int) -> None:
        seen = self.machine.frame_key(frame)
        target = 0 if seen is None else self.machine.new_state(("after", None, seen))
        self.machine.set_return(frame, outcome, target)

    def record(self, state: int, text: bytes) -> int:
        _, _, seen = self.machine.state_key(state)
        return 0 if text in seen else self.machine.new_state(("after", seen | {text}))


def is_different_items(text: bytes) -> bool:
    """The same language with the means of Python."""
    items = text[1:-1].split(b",")
    return (
        text[:1] == b"("
        and len(text) > 1
        and text[-1:] == b")"
        and all(item and not item.strip(b"abc") for item in items)
        and len(set(items)) == len(items)
    )
