"""A recursive state machine whose rows are made when they are first met.

What an object may do next depends on the members seen so far; all such states would be far too many, and a generation
walks few. So a state is a *key*, given a number when something leads to it, and the *builder* makes its row when a kernel
first asks for it. The same holds for where a caller goes on after an outcome.

The tables grow, but what is written is never changed, and a row's start is written last: a kernel that still runs on
the arrays of a moment ago sees either a whole row or none.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.rsm import CALL, EXIT, EXIT_REDO, Configuration
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tokens.byte_groups import loop_groups

MAX_STATES = 4_000_000
MAX_BYTES = 1 << 30

UNBUILT = -1


class Tables(NamedTuple):
    """The arrays that kernels read. e = edges[row_start[q] + class_maps[class_base[q] + byte]] is a state (> 0), 0 for none,
    or row ``-1 - e`` of ``actions`` (see `rsm.RSM`).

    edges: int32; row_start: int32[states], UNBUILT until the row is there; class_base: int32[states], into class_maps:
    uint8[256 per map]; actions: int32[actions, 3]; return_key, return_state: an open-addressed table from ``frame << 32 |
    outcome`` (int64, -1 where free) to the caller's next state (int32); final_outcome: int32[states]; loops: int64[states];
    records: bool[frames], see `LazyRSM`.
    """

    edges: npt.NDArray[np.int32]
    row_start: npt.NDArray[np.int32]
    class_base: npt.NDArray[np.int32]
    class_maps: npt.NDArray[np.uint8]
    actions: npt.NDArray[np.int32]
    return_key: npt.NDArray[np.int64]
    return_state: npt.NDArray[np.int32]
    final_outcome: npt.NDArray[np.int32]
    loops: npt.NDArray[np.int64]
    records: npt.NDArray[np.bool_]


class Builder(Protocol):
    """Who knows what the keys mean."""

    def build_row(self, state: int) -> None:
        """Call ``set_row`` for the state."""

    def build_return(self, frame: int, outcome: int) -> None:
        """Call ``set_return`` for the frame and the outcome."""

    def record(self, state: int, text: bytes) -> int:
        """The state to go on in, given the text that was read between a recorded call and its return to ``state``."""


class LazyRSM:
    """The growing machine. Codes of edges are made by `call`, `exit` and `exit_redo`; a state's own number is a plain edge.

    *Recorded* frames: where what may follow depends on which text was read (items must differ, a key must not come
    twice), whoever runs the machine along a real text keeps what was read since the call, and asks the builder for the
    state to go on in. A mask's walk does not: the state that a recorded return leads to then stands for any text, and
    does not let a second recorded call return.

    Raises LimitExceeded when it comes to have more than ``max_states`` states or ``max_bytes`` of tables.
    """

    is_regular = False

    def __init__(self, builder: Builder, *, max_states: int = MAX_STATES, max_bytes: int = MAX_BYTES) -> None:
        self.builder, self.max_states, self.max_bytes = builder, max_states, max_bytes
        self.start = DEAD
        self.lock = threading.RLock()
        self.tables = Tables(
            edges=np.zeros(1024, np.int32),
            row_start=np.full(64, UNBUILT, np.int32),
            class_base=np.zeros(64, np.int32),
            class_maps=np.zeros(256, np.uint8),
            actions=np.zeros((64, 3), np.int32),
            return_key=np.full(128, -1, np.int64),
            return_state=np.zeros(128, np.int32),
            final_outcome=np.full(64, -1, np.int32),
            loops=np.zeros(64, np.int64),
            records=np.zeros(64, np.bool_),
        )
        self.tables.row_start[DEAD] = 0  # one column of 0: nothing leads on
        self._n_edges, self._n_states, self._n_returns = 1, 1, 0
        self._state_keys: list[Any] = [None]
        self._state_of: dict[Hashable, int] = {}
        self._frame_keys: list[Any] = []
        self._frame_of: dict[Hashable, int] = {}
        self._action_of: dict[tuple[int, int, int], int] = {}
        self._map_of: dict[bytes, int] = {}

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def n_states(self) -> int:
        """States so far, built or not, DEAD included."""
        return self._n_states

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return sum(array.nbytes for array in self.tables)

    def new_state(self, key: Hashable) -> int:
        """The state of this key, made unbuilt if it is new."""
        known = self._state_of.get(key)
        if known is None:
            known = self._state_of[key] = self._add_states(1)
            self._state_keys[known] = key
        return known

    def state_key(self, state: int) -> Any:
        """The key that a state was made for; None for states of a block."""
        return self._state_keys[state]

    def new_frame(self, key: Hashable, records: bool = False) -> int:
        """The return frame of this key, recorded or not."""
        known = self._frame_of.get(key)
        if known is None:
            known = self._frame_of[key] = len(self._frame_keys)
            self._frame_keys.append(key)
            flags = self.tables.records
            if known == len(flags):
                flags = _grown(flags, known + 1)
                self.tables = self.tables._replace(records=flags)
            flags[known] = records
        return known

    def frame_key(self, frame: int) -> Any:
        """The key that a frame was made for."""
        return self._frame_keys[frame]

    def call(self, target: int, frame: int) -> int:
        """The code of an edge that consumes its byte, pushes the frame and goes to ``target``."""
        return self._action(CALL, target, frame)

    def exit(self, outcome: int) -> int:
        """The code of an edge that consumes its byte and returns."""
        return self._action(EXIT, outcome, 0)

    def exit_redo(self, outcome: int) -> int:
        """The code of an edge that returns and has the byte read again by the caller."""
        return self._action(EXIT_REDO, outcome, 0)

    def class_map(self, byte_class: npt.NDArray[np.uint8]) -> int:
        """The place of a byte → class map, for `set_row`."""
        key = byte_class.tobytes()
        known = self._map_of.get(key)
        if known is None:
            known = self._map_of[key] = 256 * len(self._map_of)
            maps = self.tables.class_maps
            if known + 256 > len(maps):
                maps = _grown(maps, known + 256)
            maps[known : known + 256] = byte_class
            self.tables = self.tables._replace(class_maps=maps)
        return known

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def set_row(self, state: int, class_map: int, codes: npt.NDArray[np.int32], final_outcome: int = -1) -> None:
        """Give a state its row: int32[n_classes] codes under the class map, and its outcome at the end of the text."""
        start = self._add_edges(codes)
        tables = self.tables
        tables.class_base[state] = class_map
        tables.final_outcome[state] = final_outcome
        tables.row_start[state] = start

    def reserve(self, n: int, key: Any) -> int:
        """The first of ``n`` adjacent unbuilt states, all made for ``key`` (which builds them together, by `set_rows`)."""
        first = self._add_states(n)
        self._state_keys[first : first + n] = [key] * n
        return first

    def set_rows(
        self, first: int, class_map: int, codes: npt.NDArray[np.int32], final_outcome: int | npt.NDArray[np.int32] = -1
    ) -> None:
        """Give adjacent states their rows: int32[n, n_classes]."""
        n, n_classes = codes.shape
        start = self._add_edges(codes.reshape(-1))
        tables = self.tables
        tables.class_base[first : first + n] = class_map
        tables.final_outcome[first : first + n] = final_outcome
        tables.row_start[first : first + n] = start + n_classes * np.arange(n, dtype=np.int32)

    def add_block(
        self, byte_class: npt.NDArray[np.uint8], delta: npt.NDArray[np.int32], final_outcome: npt.NDArray[np.int32]
    ) -> int:
        """Add a component that is wholly known. Returns what to add to its state numbers.

        delta: int32[n, n_classes]; e > 0 is a state of the block (1 … n - 1; row 0 is DEAD and not added), e < 0 a code.
        """
        n, n_classes = delta.shape
        class_map = self.class_map(byte_class)
        offset = self._add_states(n - 1) - 1
        rows = np.where(delta[1:] > 0, delta[1:] + offset, delta[1:]).astype(np.int32)
        start = self._add_edges(rows.reshape(-1))
        tables = self.tables
        states = slice(offset + 1, offset + n)
        tables.loops[states] = loop_groups(delta, byte_class)[1:]
        tables.class_base[states] = class_map
        tables.final_outcome[states] = final_outcome[1:]
        tables.row_start[states] = start + n_classes * np.arange(n - 1, dtype=np.int32)
        return offset

    def set_return(self, frame: int, outcome: int, state: int) -> None:
        """Say where the caller that pushed ``frame`` goes on after an outcome; 0 where that is a dead end."""
        keys, states = self.tables.return_key, self.tables.return_state
        if 2 * (self._n_returns + 1) > len(keys):
            old = [(int(k), int(s)) for k, s in zip(keys, states, strict=True) if k >= 0]
            keys, states = np.full(2 * len(keys), -1, np.int64), np.zeros(2 * len(keys), np.int32)
            for key, target in old:
                _put(keys, states, key, target)
            self.tables = self.tables._replace(return_key=keys, return_state=states)
        _put(keys, states, frame << 32 | outcome, state)
        self._n_returns += 1

    def build(self, frame: int, number: int) -> None:
        """Make what a kernel missed: the row of state ``number`` (frame < 0), or the return after outcome ``number``."""
        with self.lock:
            if frame < 0:
                if self.tables.row_start[number] == UNBUILT:
                    self.builder.build_row(number)
            elif self.returned(frame, number) is None:
                self.builder.build_return(frame, number)

    def returned(self, frame: int, outcome: int) -> int | None:
        """The caller's next state, None if it was never asked for."""
        keys, states = self.tables.return_key, self.tables.return_state
        key = frame << 32 | outcome
        slot = return_slot(key) & (len(keys) - 1)
        while keys[slot] != -1:
            if keys[slot] == key:
                return int(states[slot])
            slot = (slot + 1) & (len(keys) - 1)
        return None

    def _action(self, kind: int, operand: int, frame: int) -> int:
        key = (kind, operand, frame)
        known = self._action_of.get(key)
        if known is None:
            number = len(self._action_of)
            actions = self.tables.actions
            if number == len(actions):
                actions = _grown(actions, number + 1)
            actions[number] = key
            self.tables = self.tables._replace(actions=actions)
            known = self._action_of[key] = -1 - number
        return known

    def _add_states(self, n: int) -> int:
        first = self._n_states
        needed = first + n
        if needed > self.max_states:
            raise LimitExceeded("max_states", self.max_states, needed, "the text walks through too many states")
        tables = self.tables
        if needed > len(tables.row_start):
            capacity = max(needed, 2 * len(tables.row_start))
            grown = {
                "row_start": np.full(capacity, UNBUILT, np.int32),
                "class_base": np.zeros(capacity, np.int32),
                "final_outcome": np.full(capacity, -1, np.int32),
                "loops": np.zeros(capacity, np.int64),
            }
            for name, array in grown.items():
                array[:first] = getattr(tables, name)[:first]
            self.tables = tables._replace(**grown)
            self._check_bytes()
        self._n_states = needed
        self._state_keys += [None] * n
        return first

    def _add_edges(self, codes: npt.NDArray[np.int32]) -> int:
        first = self._n_edges
        needed = first + len(codes)
        edges = self.tables.edges
        if needed > len(edges):
            edges = np.zeros(max(needed, 2 * len(edges)), np.int32)
            edges[:first] = self.tables.edges[:first]
            self.tables = self.tables._replace(edges=edges)
            self._check_bytes()
        edges[first:needed] = codes
        self._n_edges = needed
        return first

    def _check_bytes(self) -> None:
        if self.nbytes > self.max_bytes:
            raise LimitExceeded("max_bytes", self.max_bytes, self.nbytes, "tables of the machine")

    # ── reference semantics ──────────────────────────────────────────────────────────────────────────────────────────

    def row(self, state: int) -> npt.NDArray[np.int32]:
        """The codes of a state for all 256 bytes, built if need be: int32[256]."""
        if self.tables.row_start[state] == UNBUILT:
            self.build(-1, state)
        tables = self.tables
        base = tables.class_base[state]
        return tables.edges[tables.row_start[state] + tables.class_maps[base : base + 256].astype(np.int64)]

    def final(self, state: int) -> int:
        """The outcome with which the text may end in a state, or -1; built if need be."""
        if self.tables.row_start[state] == UNBUILT:
            self.build(-1, state)
        return int(self.tables.final_outcome[state])

    def after_outcome(self, frame: int, outcome: int) -> int:
        """The caller's next state, built if need be."""
        known = self.returned(frame, outcome)
        if known is None:
            self.build(frame, outcome)
            known = self.returned(frame, outcome)
            assert known is not None
        return known

    @property
    def initial(self) -> Configuration:
        """The configuration before any text."""
        return Configuration(self.start)

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """The configuration after one more byte, None where the byte is not allowed."""
        state, stack = configuration
        while True:
            entry = int(self.row(state)[byte])
            if entry == DEAD:
                return None
            if entry > DEAD:
                return Configuration(entry, stack)
            kind, operand, frame = (int(x) for x in self.tables.actions[-1 - entry])
            if kind == CALL:
                return Configuration(operand, (*stack, frame))
            if not stack:
                return None
            state, stack = self.after_outcome(stack[-1], operand), stack[:-1]
            if state == DEAD:
                return None
            if kind == EXIT:
                return Configuration(state, stack)

    def is_complete(self, configuration: Configuration) -> bool:
        """Whether the text may end here."""
        state, stack = configuration
        while stack:
            outcome = self.final(state)
            if outcome < 0:
                return False
            state, stack = self.after_outcome(stack[-1], outcome), stack[:-1]
        return self.final(state) >= 0

    def run(self, data: bytes) -> Configuration | None:
        """The configuration after ``data``, None where some byte is not allowed. Recorded frames are kept account of."""
        here: Configuration | None = self.initial
        starts: list[int] = []
        records = self.tables.records
        i = 0
        while here is not None and i < len(data):
            before = here
            here = self.step(before, data[i])
            if here is None:
                break
            records = self.tables.records
            kept = len(before.stack)
            while kept and before.stack[:kept] != here.stack[:kept]:
                kept -= 1
            ended = [frame for frame in before.stack[kept:] if records[frame]]
            if ended:
                # the byte ends a recorded call: as its last one (EXIT), or as the first one behind it (EXIT_REDO)
                here, consumed = self._end_recorded(before, data[i])
                text = data[starts.pop() : i + consumed]
                here = Configuration(self.builder.record(here.state, text), here.stack)
                i += consumed
                continue
            if len(here.stack) > kept and records[here.stack[-1]]:
                starts.append(i)
            i += 1
        return here

    def _end_recorded(self, before: Configuration, byte: int) -> tuple[Configuration, int]:
        """Return from calls until a recorded frame has been popped; whether the byte was consumed by that."""
        state, stack = before
        while True:
            kind, outcome, _ = (int(x) for x in self.tables.actions[-1 - int(self.row(state)[byte])])
            state, frame, stack = self.after_outcome(stack[-1], outcome), stack[-1], stack[:-1]
            if self.tables.records[frame]:
                return Configuration(state, stack), int(kind == EXIT)

    def matches(self, data: bytes) -> bool:
        """Whether the whole of ``data`` is accepted."""
        here = self.run(data)
        return here is not None and self.is_complete(here)


def return_slot(key: int) -> int:
    """Where the search for a key of the return table begins (masked to its size); kernels compute the same."""
    mixed = (key * 0x1E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return mixed >> 33


def _put(keys: npt.NDArray[np.int64], states: npt.NDArray[np.int32], key: int, state: int) -> None:
    slot = return_slot(key) & (len(keys) - 1)
    while keys[slot] not in (-1, key):
        slot = (slot + 1) & (len(keys) - 1)
    states[slot] = state
    keys[slot] = key


def _grown(array: npt.NDArray[Any], needed: int) -> npt.NDArray[Any]:
    larger = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
