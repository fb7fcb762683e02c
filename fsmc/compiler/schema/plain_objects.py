"""Objects whose members do not depend on each other, which most are: all their positions at once.

Where nothing is left to hold of an object but what each member has to be and which names have to come, its state is its place
in the order of the names. So all states are known beforehand; a kernel writes them, but for those that lead into keys and
values, which are made when a text gets there. What the positions are is told in positions.py; any_order.py has the objects whose
members come in any order.

The states of a `PlainObject`, each with white space before it (the *entry*) and without:

    0                 after ``{``
    1 + 2 (p - 1)     after a member, at place p, which is 1 or more
    2 + 2 (p - 1)     before a key, at place p
    1 + 2 P + 2 c     after a key of class c (P: the last place)
    2 + 2 P + 2 c     before a value of a member of class c
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.tables import CALL, UNKNOWN
from fsmc.compiler.schema.formula import TRUE
from fsmc.compiler.schema.object_state import ObjectState
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.value_rows import set_value
from fsmc.jit import kernel

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine

MAX_CLASSES = 2048
"""Objects with more classes of keys are made state by state."""

MANY_NAMES = 32
"""Of objects with more names, the keys that may come at a place are found when a text gets there."""

QUOTE, COLON, COMMA, CLOSE, SPACE = 1, 2, 3, 4, 5
"""The byte classes of the rows that the kernel writes; class 0 is all other bytes."""

_BYTES = bytearray(256)
for _number, _listed in enumerate((b'"', b":", b",", b"}", b" \t\n\r"), 1):
    for _byte in _listed:
        _BYTES[_byte] = _number
STRUCTURE = bytes(_BYTES)
N_COLUMNS = 6


def is_plain(shape: ObjectShape, residual: int, watches: tuple[int, ...]) -> bool:
    """Whether an object's state is its place alone."""
    return residual == TRUE and not watches and not shape.tracks


class PlainStates(ABC):
    """States of such an object that are made together. shape: the object's; start: the first of them."""

    __slots__ = ()
    shape: ObjectShape
    start: int

    @abstractmethod
    def build(self, m: SchemaMachine, state: int) -> None:
        """Make what was met: at first the whole, then the row of a state that leads into keys or values."""

    @abstractmethod
    def behind_space(self, state: int) -> int:
        """The same position without white space before it; 0 if ``state`` is such already."""

    @abstractmethod
    def reads_keys(self, frame: int) -> bool:
        """Whether a call with this frame reads a key."""

    @abstractmethod
    def object_at(self, state: int) -> ObjectState:
        """The object as it is at one of the states that lead into keys."""

    @abstractmethod
    def after_value(self, m: SchemaMachine, frame: int) -> int:
        """The state after the value that was called with this frame."""


class PlainObject(PlainStates):
    """The states of one shape in a machine. start: that after ``{``."""

    __slots__ = ("_base", "_frame", "_n_places", "shape", "start")

    def __init__(self, m: SchemaMachine, shape: ObjectShape) -> None:
        self.shape = shape
        self._n_places = shape.keys.n_names + 1
        self._base = self._frame = -1
        self.start = m.rsm.reserve(1, self)

    def build(self, m: SchemaMachine, state: int) -> None:
        """See `PlainStates`."""
        if state == self.start:
            self._lay_out(m)
            return
        position = (state - self._base) >> 1
        after_members = position - 1 - 2 * self._n_places
        if after_members >= 0:
            c = after_members >> 1
            set_value(m, self._entry(position), self.shape.static[c], self._value_frame(c), self._space_frame(position))
        else:
            edges = {ord('"'): self._key_code(m, position >> 1)}
            m.set_spaced(self._entry(position), edges, self._space_frame(position))

    def behind_space(self, state: int) -> int:
        """See `PlainStates`."""
        if state == self.start:
            return self._base + 1
        return state + 1 if (state - self._base) & 1 == 0 else 0

    def reads_keys(self, frame: int) -> bool:
        """See `PlainStates`."""
        return frame == self._frame

    def object_at(self, state: int) -> ObjectState:
        """See `PlainStates`."""
        position = 0 if state in (self.start, self._base + 1) else (state - self._base) >> 1
        return ObjectState.of(self.shape, TRUE, (), position >> 1, 0)

    def after_value(self, m: SchemaMachine, frame: int) -> int:
        """See `PlainStates`."""
        raise AssertionError("all returns are known from the beginning")

    def _entry(self, position: int) -> int:
        return self._base + 2 * position

    def _space_frame(self, position: int) -> int:
        return self._frame + 1 + position

    def _value_frame(self, c: int) -> int:
        return self._frame + 2 + 2 * (self._n_places + self.shape.keys.n_classes) + c

    def _key_code(self, m: SchemaMachine, place: int) -> int:
        """The code of a key's opening quote, 0 if no member may come."""
        allowed = self.shape.allowed(TRUE, place)
        return m.rsm.call(m.scalars.late_key(m, self.shape.keys, allowed), self._frame) if allowed else 0

    def _lay_out(self, m: SchemaMachine) -> None:
        shape, keys, rsm = self.shape, self.shape.keys, m.rsm
        n_places, n_classes = self._n_places, keys.n_classes
        n_positions = 1 + 2 * (n_places + n_classes)
        live = shape.live(shape.all_classes)
        declared = live & shape.declared_mask
        last = n_places if live != declared else declared.bit_length() - 1  # before later places no member may come
        self._base = rsm.reserve(2 * n_positions, self)
        self._frame = rsm.new_frames(1 + n_positions + n_classes, self)
        all_keys = keys.n_names <= MANY_NAMES and m.options.whitespace != "json"
        if all_keys and keys.n_names:
            starts = m.scalars.late_keys_in_order(m, keys, live, shape.required)
            starts[last + 1 :] = [0] * (len(starts) - last - 1)
        else:
            allowed = shape.allowed(TRUE, 0)
            starts = [m.scalars.late_key(m, keys, allowed) if allowed else 0]
        close, class_map = m.exit(()), rsm.class_map(STRUCTURE)
        n_rows = 1 + n_classes + 2 * n_places
        arrays, edge, action = rsm.take_room(
            edges=n_rows * 2 * N_COLUMNS, actions=n_rows + 1 + n_places, returns=n_positions + 2 * n_classes
        )
        _lay_out(
            arrays.edges, arrays.states, arrays.actions, arrays.returns, edge, action, self.start, self._base,
            self._frame, m.space, keys.n_names, n_classes, keys.outcome(keys.n_names),
            shape.required.bit_length(), last, np.array(starts, np.int32), all_keys, close, class_map,
        )  # fmt: skip


@kernel
def _put(returns: Array, frame: int, outcome: int, target: int) -> None:
    """See `tables.put_return`."""
    key = np.int64(frame) << 32 | np.int64(outcome)
    slot = np.int64((np.uint64(key) * np.uint64(0x1E3779B97F4A7C15)) >> np.uint64(33)) & (len(returns) - 1)
    while returns[slot, 0] != UNKNOWN:
        slot = (slot + 1) & (len(returns) - 1)
    returns[slot, 1] = target
    returns[slot, 0] = key


@kernel
def _end_rows(
    edges: Array, states: Array, actions: Array, edge: int, action: int, entry: int, inner: int, space: int, frame: int,
    class_map: int,
) -> None:  # fmt: skip
    """Give the state ``inner`` the row of edges from ``edge`` on, and ``entry``, before it, the same with white space."""
    if space > 0:
        for column in range(1, SPACE):
            edges[edge + N_COLUMNS + column] = edges[edge + column]
        edges[edge + N_COLUMNS + SPACE] = -1 - action
        actions[action, 0], actions[action, 1], actions[action, 2] = CALL, space, frame
    states[inner, 1], states[inner, 2], states[entry, 1], states[entry, 2] = class_map, -1, class_map, -1
    states[inner, 0] = edge
    states[entry, 0] = edge + N_COLUMNS if space > 0 else edge


@kernel
def _lay_out(
    edges: Array, states: Array, actions: Array, returns: Array, edge: int, action: int, start: int, base: int,
    frame: int, space: int, n_names: int, n_classes: int, first_other: int, n_due: int, n_live: int,
    starts: Array, all_keys: bool, close: int, class_map: int,
) -> None:  # fmt: skip
    """Rows and returns of a `PlainObject` (see there for ``base`` and ``frame``).

    space: the state of white space, 0 if there is none. first_other: the outcome of the first class of undeclared keys. n_due: the
    place from which on the object may end; n_live: the last place before which a member may come. starts: int32, the states after
    the opening quote of a key at each place, 0 where none may come; without all_keys only that of the first place, and the others
    are made when a text gets there.
    """
    n_places = n_names + 1
    n_positions = 1 + 2 * (n_places + n_classes)
    for position in range(n_positions):
        entry = start if position == 0 else base + 2 * position
        inner = base + 2 * position + 1
        before = position & 1 == 0  # before a key or value
        if before and position > 0 and not (all_keys and position <= 2 * n_places):
            continue
        for column in range(2 * N_COLUMNS):
            edges[edge + column] = 0
        if position > 2 * n_places:
            edges[edge + COLON] = entry + 2
        else:
            place = (position + 1) >> 1
            key = starts[min(place, n_names)] if before else 0
            if key != 0:
                edges[edge + QUOTE] = -1 - action
                actions[action, 0], actions[action, 1], actions[action, 2] = CALL, key, frame
                action += 1
            if not before and place <= n_live:
                edges[edge + COMMA] = entry + 2
            if place >= n_due and (not before or place == 0):
                edges[edge + CLOSE] = close
        _end_rows(edges, states, actions, edge, action, entry, inner, space, frame + 1 + position, class_map)
        action += 1 if space > 0 else 0
        edge += 2 * N_COLUMNS
    for position in range(n_positions):
        _put(returns, frame + 1 + position, np.int64(0), base + 2 * position + 1)
    for c in range(n_classes):
        after_key = base + 2 * (1 + 2 * n_places + 2 * c)
        _put(returns, frame, c if c < n_names else first_other + c - n_names, after_key)
        place = min(c + 1, n_places)
        _put(returns, frame + 1 + n_positions + c, np.int64(0), base + 2 * (1 + 2 * (place - 1)))


@kernel
def lay_out_place(
    edges: Array, states: Array, actions: Array, returns: Array, edge: int, action: int, start: int, base: int,
    frame: int, space: int, outcomes: Array, key: int, close: int, class_map: int, is_first: bool, one_space: bool,
) -> None:  # fmt: skip
    """Rows and returns of an `any_order.PlainPlace` (see there for ``base`` and ``frame``).

    space: the state of white space, 0 if there is none. outcomes: int64, those of the keys that may come. key: the code of the
    opening quote of a key, 0 if none may come; close: that of the closing bracket, 0 if it may not come. one_space: one has to stand
    before a key that comes after a comma.
    """
    n_positions = 2 * (1 + len(outcomes))
    for position in range(n_positions):
        entry, inner = np.int64(start if position == 0 else base + 2 * position), np.int64(base + 2 * position + 1)
        if (position >= 3 and position & 1) or (position == 1 and (one_space or is_first)):
            continue  # before a value; or before a key that a builder makes, or that does not come
        for column in range(2 * N_COLUMNS):
            edges[edge + column] = 0
        if position >= 2:
            edges[edge + COLON] = entry + 2
        elif position == 1 or is_first:
            edges[edge + QUOTE] = key
        elif key != 0:
            edges[edge + COMMA] = base + 2
        if position == 0:
            edges[edge + CLOSE] = close
        _end_rows(edges, states, actions, edge, action, entry, inner, space, frame + 1 + position, class_map)
        action += 1 if space > 0 else 0
        edge += 2 * N_COLUMNS
    for position in range(n_positions):
        _put(returns, frame + 1 + position, np.int64(0), base + 2 * position + 1)
    for j in range(len(outcomes)):
        _put(returns, frame, outcomes[j], base + 2 * (2 + 2 * j))
