"""Walking the machine of a schema by hand: what can be done in a state, and doing it along a text that is being written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from fsmc.compiler.automata.tables import CALL, RECORDED
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.object_state import ObjectState
from fsmc.compiler.schema.plain_objects import PlainStates
from fsmc.compiler.schema.positions import AfterKey

_LETTERS, _DIGITS = b"abcdefghijklmnopqrstuvwxyz", b"0123456789"
NATURAL = bytes([*_LETTERS, *_DIGITS, *(byte for byte in range(256) if byte not in _LETTERS + _DIGITS)])
"""All bytes, letters and digits first."""


class Move(NamedTuple):
    """One thing to do: write ``text`` and do what ``code`` says (see `LazyRSM`).

    ``key``: instead, write a declared name as the key of a member: (the frame of the call that reads keys, its outcome).
    """

    text: bytes
    code: int = 0
    key: tuple[int, int] | None = None


@dataclass(slots=True)
class Walk:
    """A text that is being written, and where the machine stands: its state, the return frames of open calls, and
    where in the text each of those calls began that read what must not come twice."""

    text: bytearray
    state: int
    stack: list[int] = field(default_factory=list)
    recorded: list[int] = field(default_factory=list)


class Walker:
    """The moves of a machine. White space that need not be there is left out."""

    def __init__(self, machine: SchemaMachine) -> None:
        self.machine, self.rsm = machine, machine.rsm
        self._groups: dict[int, list[tuple[int, bytes]]] = {}
        self._class_firsts: dict[int, list[tuple[int, int]]] = {}

    def start(self) -> Walk:
        """Before any text."""
        return Walk(bytearray(), self.rsm.start)

    def groups(self, state: int) -> list[tuple[int, bytes]]:
        """(code, the bytes with that code, natural ones first) of each thing that can be done in a state."""
        known = self._groups.get(state)
        if known is None:
            bytes_of: dict[int, bytearray] = {}
            row = self.rsm.row(state).tolist()
            for byte in NATURAL:
                if row[byte]:
                    bytes_of.setdefault(row[byte], bytearray()).append(byte)
            for code in [code for code in bytes_of if code < 0 and self.skips(code)]:
                del bytes_of[code]
            known = self._groups[state] = [(code, bytes(group)) for code, group in bytes_of.items()]
        return known

    def firsts(self, state: int) -> list[tuple[int, bytes]]:
        """(code, the most natural byte with that code) of each thing that can be done in a state: see `groups`."""
        base, codes = self.rsm.classes_of(state)
        listed = self._class_firsts.get(base)
        if listed is None:
            byte_of: dict[int, int] = {}
            classes = self.rsm.class_map_at(base)
            for byte in NATURAL:
                byte_of.setdefault(classes[byte], byte)
            listed = self._class_firsts[base] = list(byte_of.items())
        found: dict[int, int] = {}
        for number, byte in listed:
            found.setdefault(codes[number], byte)
        return [
            (code, bytes((byte,))) for code, byte in found.items() if code > 0 or (code < 0 and not self.skips(code))
        ]

    def skips(self, code: int) -> bool:
        """Whether an action is only the way to white space."""
        kind, target, _ = self.rsm.action(code)
        return kind == CALL and self.machine.is_whitespace(target)

    def object_of(self, frame: int, state: int) -> ObjectState | None:
        """The object whose keys a call with this frame from ``state`` reads, if it does."""
        key = self.rsm.frame_key(frame)
        if isinstance(key, PlainStates):
            return key.object_at(state) if key.reads_keys(frame) else None
        back, _ = key
        return back.o if isinstance(back, AfterKey) else None

    def name(self, o: ObjectState, frame: int, c: int) -> Move:
        """Write the declared name of class ``c``."""
        return Move(json.dumps(o.shape.keys.names[c], ensure_ascii=False).encode(), key=(frame, c))

    def do(self, walk: Walk, move: Move) -> None:
        """Make a move."""
        start = len(walk.text)
        walk.text += move.text
        if move.key is not None:
            walk.state = self.rsm.after_outcome(*move.key)
        elif move.code > 0:
            walk.state = move.code
        else:
            kind, operand, frame = self.rsm.action(move.code)
            if kind == CALL:
                walk.state = operand
                walk.stack.append(frame)
                if frame >= RECORDED:
                    walk.recorded.append(start)
            else:
                frame = walk.stack.pop()
                walk.state = self.rsm.after_outcome(frame, operand)
                if frame >= RECORDED:
                    walk.state = self.rsm.record(walk.state, bytes(walk.text[walk.recorded.pop() :]))
        assert walk.state, f"the machine has a dead end after {bytes(walk.text)!r}"
