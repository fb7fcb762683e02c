"""A recursive state machine whose rows are made when they are first met.

What an object may do next depends on the members seen so far; all such states would be far too many, and a generation
walks few. So a state is a *key*, given a number when something leads to it, and the *builder* makes its row when a kernel
first asks for it. The same holds for where a caller goes on after an outcome.

The tables grow, but what is written is never changed, and what makes a row visible is written last: a kernel that still
runs on the arrays of a moment ago sees either a whole row or none.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.builder import Builder
from fsmc.compiler.automata.byte_groups import loop_groups
from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.growing import Arrays, Views, rehash, write_rows
from fsmc.compiler.automata.recursion import Alike, Block, RecursiveMachine
from fsmc.compiler.automata.tables import (
    CALL,
    EXIT,
    EXIT_REDO,
    FOREVER,
    RECORDED,
    UNKNOWN,
    Tables,
    look_up_return,
    put_return,
)
from fsmc.compiler.errors import LimitExceeded

MAX_STATES = 4_000_000
MAX_BYTES = 1 << 30


class LazyRSM(RecursiveMachine):
    """The growing machine. Codes of edges are made by `call`, `exit` and `exit_redo`; a state's own number is a plain edge.

    *Recorded* frames: where what may follow depends on which text was read (items must differ, a key must not come
    twice), whoever runs the machine along a real text keeps what was read since the call, and asks the builder for the
    state to go on in. A mask's walk does not: the state that a recorded return leads to then stands for any text, and
    does not let a second recorded call return.

    Any number of threads may run the machine; what they miss is built by one at a time (``lock``). Raises LimitExceeded
    when it comes to have more than ``max_states`` states or ``max_bytes`` of tables; what was built before stays usable.
    """

    def __init__(self, builder: Builder, *, max_states: int = MAX_STATES, max_bytes: int = MAX_BYTES) -> None:
        self.builder, self.max_states, self.max_bytes = builder, max_states, max_bytes
        self.start = DEAD
        self.lock = threading.RLock()
        self._publish(Arrays.new())
        self._n_edges, self._n_states = 1, 1
        self._state_keys: list[Any] = [None]
        self._state_of: dict[Hashable, int] = {}
        self._frame_keys: list[Any] = []
        self._frame_of: dict[Hashable, int] = {}
        self._action_of: dict[tuple[int, int, int], int] = {}
        self._n_actions = self._n_returns = self._n_given = self._bytes_given = 0
        self._map_of: dict[bytes, int] = {bytes(256): 0}
        self.has_recorded_frames = False

    def fork(self, builder: Builder, *, max_states: int = MAX_STATES, max_bytes: int = MAX_BYTES) -> LazyRSM:
        """A machine of its own that has all that this one has so far; what comes to be built is up to ``builder``.

        What every machine of a kind begins with is made once so; it does not count for the limits.
        """
        twin = LazyRSM.__new__(LazyRSM)
        twin.builder, twin.max_states, twin.max_bytes = builder, max_states, max_bytes
        twin.start = self.start
        twin.lock = threading.RLock()
        twin._publish(self._own.copied())
        twin._n_edges, twin._n_states = self._n_edges, self._n_states
        twin._n_actions, twin._n_returns = self._n_actions, self._n_returns
        twin._n_given, twin._bytes_given = self._n_states, self._own.nbytes
        twin.has_recorded_frames = self.has_recorded_frames
        for name in ("_state_keys", "_state_of", "_frame_keys", "_frame_of", "_action_of", "_map_of"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def tables(self) -> Tables:
        """The arrays as they are now; they are replaced when they grow, so take them all at once."""
        return self._published

    @property
    def is_regular(self) -> bool:
        """False: calls may come."""
        return False

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def n_states(self) -> int:
        """States so far, built or not, DEAD included."""
        return self._n_states

    @property
    def n_frames(self) -> int:
        """Return frames so far, recorded or not."""
        return len(self._frame_keys)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self._own.nbytes

    def new_state(self, key: Hashable) -> int:
        """The state of this key, made unbuilt if it is new."""
        known = self._state_of.get(key)
        if known is None:
            known = self._state_of[key] = self.reserve(1, key)
        return known

    def state_key(self, state: int) -> Any:
        """The key that a state was made for; a `Block`, say, for states that were made together."""
        return self._state_keys[state]

    def block_of(self, state: int) -> Block | Alike | None:
        """What is known of the states around this one, see `RecursiveMachine.block_of`."""
        key = self._state_keys[state]
        return key if isinstance(key, (Block, Alike)) else None

    def behind_space(self, state: int) -> int:
        """See `RecursiveMachine.behind_space`."""
        return self.builder.behind_space(state) if self.space is not None else 0

    def new_frame(self, key: Hashable, records: bool = False) -> int:
        """The return frame of this key, recorded or not."""
        known = self._frame_of.get(key)
        if known is None:
            self.has_recorded_frames = self.has_recorded_frames or records
            known = self._frame_of[key] = len(self._frame_keys) | (RECORDED if records else 0)
            self._frame_keys.append(key)
        return known

    def new_frames(self, n: int, key: Any) -> int:
        """The first of ``n`` new frames with adjacent numbers, not recorded, all made for ``key``."""
        first = len(self._frame_keys)
        self._frame_keys += [key] * n
        return first

    def frame_key(self, frame: int) -> Any:
        """The key that a frame was made for."""
        return self._frame_keys[frame & ~RECORDED]

    def call(self, target: int, frame: int) -> int:
        """The code of an edge that consumes its byte, pushes the frame and goes to ``target``."""
        return self._action(CALL, target, frame)

    def new_call(self, target: int, frame: int) -> int:
        """`call` with a frame that no call of ``target`` was made with before."""
        number = self._n_actions
        if number >= len(self._own.actions):
            self._make_room("actions", number + 1)
        place, view = 3 * number, self._views.actions
        view[place], view[place + 1], view[place + 2] = CALL, target, frame
        self._n_actions = number + 1
        return -1 - number

    def exit(self, outcome: int) -> int:
        """The code of an edge that consumes its byte and returns."""
        return self._action(EXIT, outcome, 0)

    def exit_redo(self, outcome: int) -> int:
        """The code of an edge that returns and has the byte read again by the caller."""
        return self._action(EXIT_REDO, outcome, 0)

    def _action(self, kind: int, operand: int, frame: int) -> int:
        action = (kind, operand, frame)
        known = self._action_of.get(action)
        if known is None:
            number = self._n_actions
            if number >= len(self._own.actions):
                self._make_room("actions", number + 1)
            place, view = 3 * number, self._views.actions
            view[place], view[place + 1], view[place + 2] = action
            known = self._action_of[action] = -1 - number
            self._n_actions = number + 1
        return known

    def class_map(self, byte_class: npt.NDArray[np.uint8] | bytes | bytearray) -> int:
        """The place of a byte → class map (256 of them), for `set_row`."""
        key = bytes(byte_class)
        known = self._map_of.get(key)
        if known is None:
            place = 256 * len(self._map_of)
            if place + 256 > len(self._views.class_maps):
                self._make_room("class_maps", place + 256)
            self._views.class_maps[place : place + 256] = key
            known = self._map_of[key] = place
        return known

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def set_row(
        self,
        state: int,
        class_map: int,
        codes: Sequence[int] | npt.NDArray[np.int32],
        final_outcome: int = -1,
        loops: int = 0,
    ) -> None:
        """Give a state its row: a code for each class of the class map, and its outcome at the end of the text.

        loops: the byte groups whose texts all lead back to the state (see `Tables`).
        """
        start = self._add_edges(codes)
        place, view = 4 * state, self._views.states
        if loops:
            self._own.loops[state] = loops
            view[place + 3] = FOREVER
        view[place + 1], view[place + 2] = class_map, final_outcome
        view[place] = start

    def reserve(self, n: int, key: Any) -> int:
        """The first of ``n`` adjacent unbuilt states, all made for ``key`` (which builds them together, by `set_rows`)."""
        first, needed = self._n_states, self._n_states + n
        if needed - self._n_given > self.max_states:
            raise LimitExceeded(
                "max_states",
                self.max_states,
                needed - self._n_given,
                "texts have walked through that many: raise it, or compile anew",
            )
        if needed > len(self._own.states):
            self._make_room("states", needed)
        self._n_states = needed
        self._state_keys += [key] * n
        return first

    def set_rows(
        self,
        first: int,
        class_map: int,
        codes: npt.NDArray[np.int32],
        final_outcome: int | npt.NDArray[np.int32] = -1,
        loops: int | npt.NDArray[np.int64] = 0,
        room: int | npt.NDArray[np.int32] = 0,
    ) -> None:
        """Give adjacent states their rows: int32[n, n_classes]. loops, room: see `Tables`."""
        n, n_classes = codes.shape
        start = self._add_edges(codes.reshape(-1))
        if isinstance(loops, int) and isinstance(final_outcome, int) and isinstance(room, int):
            if loops:
                self._own.loops[first : first + n] = loops
            write_rows(self._own.states, first, n, class_map, final_outcome, room, start, n_classes)
            return
        self._own.loops[first : first + n] = loops
        rows = self._own.states[first : first + n]
        rows[:, 1] = class_map
        rows[:, 2] = final_outcome
        rows[:, 3] = room
        rows[:, 0] = start + n_classes * np.arange(n, dtype=np.int32)

    def copy_row(self, state: int, other: int) -> None:
        """Give a state the row of ``other``, which has one."""
        if not self.is_built(other):
            self.builder.build_row(other)
        view, to, source = self._views.states, 4 * state, 4 * other
        if view[source + 3]:
            self._own.loops[state] = self._own.loops[other]
        view[to + 1], view[to + 2], view[to + 3] = view[source + 1], view[source + 2], view[source + 3]
        view[to] = view[source]

    def add_block(
        self,
        byte_class: npt.NDArray[np.uint8],
        delta: npt.NDArray[np.int32],
        final_outcome: npt.NDArray[np.int32],
        name: Hashable = None,
    ) -> int:
        """Add a component that is wholly known and calls nothing. Returns what to add to its state numbers.

        delta: int32[n, n_classes]; e > 0 is a state of the block (1 … n - 1; row 0 is DEAD and not added), e < 0 the code of
        an exit. name: see `Block`.
        """
        class_map = self.class_map(byte_class)
        loops = loop_groups(delta, byte_class)[1:]
        is_large = name is not None or bool(loops.any())
        first = self.reserve(len(delta) - 1, Block(self._n_states, name, is_large))
        offset = first - 1
        codes = np.where(delta[1:] > 0, delta[1:] + offset, delta[1:]).astype(np.int32)
        self.set_rows(first, class_map, codes, final_outcome[1:], loops, FOREVER)
        return offset

    def set_return(self, frame: int, outcome: int, state: int) -> None:
        """Say where the caller that pushed ``frame`` goes on after an outcome; 0 where that is a dead end."""
        self._room_for_returns(1)
        self._n_returns += 1
        put_return(self._views.returns, frame << 32 | outcome, state)

    def take_room(self, *, edges: int, actions: int, returns: int) -> tuple[Arrays, int, int]:
        """Room that the caller fills with so many edges, actions and returns: the arrays, the first free edge, the first free
        action. For builders that write many rows by a kernel of their own."""
        self._make_room("edges", self._n_edges + edges)
        self._make_room("actions", self._n_actions + actions)
        self._room_for_returns(returns)
        edge, action = self._n_edges, self._n_actions
        self._n_edges, self._n_actions, self._n_returns = edge + edges, action + actions, self._n_returns + returns
        return self._own, edge, action

    def build(self, frame: int, number: int) -> None:
        """Make what a kernel missed: the row of state ``number`` (frame < 0), or the return after outcome ``number``."""
        with self.lock:
            if frame < 0:
                if self._views.states[4 * number] == UNKNOWN:
                    self.builder.build_row(number)
            elif self._known_return(frame, number) == UNKNOWN:
                self.builder.build_return(frame, number)

    def record(self, state: int, text: bytes | None) -> int:
        """The state to go on in after a recorded call that read ``text`` returned to ``state``, see `Builder`."""
        with self.lock:
            return self.builder.record(state, text)

    # ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_edges(self, codes: Sequence[int] | npt.NDArray[np.int32]) -> int:
        first, needed = self._n_edges, self._n_edges + len(codes)
        if needed > len(self._own.edges):
            self._make_room("edges", needed)
        if isinstance(codes, np.ndarray):
            self._own.edges[first:needed] = codes
        else:
            self._views.edges[first:needed] = array("i", codes)
        self._n_edges = needed
        return first

    def make_room(self, *, returns: int, **needed: int) -> None:
        """Make room for so many more returns and for so many entries of the named arrays, which else grow as needed."""
        self._room_for_returns(returns)
        for name, n in needed.items():
            self._make_room(name, n)

    def _make_room(self, name: str, n: int) -> None:
        """Replace the named array by a larger one unless it has so many entries."""
        if n > len(getattr(self._own, name)):
            self._replace(self._own.with_room(name, n))

    def _room_for_returns(self, n: int) -> None:
        needed, old = self._n_returns + n, self._own.returns
        if 2 * needed > len(old):
            returns = np.full((max(2 * len(old), 1 << (2 * needed - 1).bit_length()), 2), UNKNOWN, np.int64)
            rehash(old, returns)
            self._replace(self._own._replace(returns=returns))

    def _replace(self, own: Arrays) -> None:
        """Publish larger arrays.

        Rows and returns become visible through ``states`` and ``returns``, which are written in place. A kernel that still
        runs on the arrays of a moment ago must not see rows there that lie beyond the end of its other arrays: so these
        two are always replaced as well.
        """
        if own.states is self._own.states:
            own = own._replace(states=own.states.copy())
        if own.returns is self._own.returns:
            own = own._replace(returns=own.returns.copy())
        if own.nbytes - self._bytes_given > self.max_bytes:
            raise LimitExceeded(
                "max_bytes",
                self.max_bytes,
                own.nbytes - self._bytes_given,
                "tables of the machine, which grow with the texts: raise it, or compile anew",
            )
        self._publish(own)

    def _publish(self, own: Arrays) -> None:
        self._own, self._views = own, Views.of(own)
        self._published = Tables.of(*own)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def is_built(self, state: int) -> bool:
        """Whether the state has its row."""
        return self._views.states[4 * state] != UNKNOWN

    def _built(self, state: int) -> Tables:
        """Tables in which the state has its row."""
        while self._published.states[state, 0] == UNKNOWN:
            self.build(-1, state)
        return self._published

    def row(self, state: int) -> npt.NDArray[np.int32]:
        """What each byte does in a state, built if need be, see `RecursiveMachine.row`."""
        tables = self._built(state)
        start, base, _, _ = tables.states[state].tolist()
        row: npt.NDArray[np.int32] = tables.edges[start + tables.class_maps[base : base + 256].astype(np.int64)]
        return row

    def classes_of(self, state: int) -> tuple[int, memoryview]:
        """The number of the map that says which bytes a state tells apart, and what each class does in it: as `row`, in the time of a
        look."""
        self._built(state)
        views = self._views
        start, base = views.states[4 * state], views.states[4 * state + 1]
        return base, views.edges[start:]

    def class_map_at(self, base: int) -> bytes:
        """The class of each byte, of a map from `classes_of`."""
        return bytes(self._views.class_maps[base : base + 256])

    def code(self, state: int, byte: int) -> int:
        """One entry of `row`."""
        tables = self._built(state)
        start, base, _, _ = tables.states[state].tolist()
        return int(tables.edges[start + int(tables.class_maps[base + byte])])

    def action(self, code: int) -> tuple[int, int, int]:
        """What a negative code stands for."""
        kind, operand, frame = self._published.actions[-1 - code].tolist()
        return kind, operand, frame

    def final(self, state: int) -> int:
        """The outcome with which the text may end in a state, or -1; built if need be."""
        return int(self._built(state).states[state, 2])

    def after_outcome(self, frame: int, outcome: int) -> int:
        """The caller's next state, built if need be."""
        while (known := self._known_return(frame, outcome)) == UNKNOWN:
            self.build(frame, outcome)
        return known

    def _known_return(self, frame: int, outcome: int) -> int:
        return look_up_return(self._views.returns, frame << 32 | outcome)

    def __repr__(self) -> str:
        return f"<LazyRSM: {self._n_states} states so far, {len(self._frame_keys)} return frames>"
