"""Objects whose members do not depend on each other, in any order: all that may come at one place at once.

The state of such an object is the set of declared names that have come, of which there are too many to lay out beforehand. So
the states around one member are laid out, by a kernel, when the member before it has been read. For objects in the order of
their names see plain_objects.py.

The states of a `PlainPlace` from ``base`` on, each with white space before it (the *entry*) and without:

    0           after ``{``, or after a member
    1           before a key, after a comma
    2 + 2 j     after a key of the j-th class that may come
    3 + 2 j     before the value of its member
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.formula import TRUE
from fsmc.compiler.schema.object_state import ObjectState
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.plain_objects import (
    N_COLUMNS,
    STRUCTURE,
    PlainStates,
    lay_out_place,
)
from fsmc.compiler.schema.value_rows import set_value

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine

MAX_CLASSES = 64
"""Objects with more classes of keys are made state by state: at each place most of these states would never be met."""


class PlainPlace(PlainStates):
    """One place of an object: before the first member (is_first), or behind members with the names ``seen`` (a mask). start: the
    state there."""

    __slots__ = ("_base", "_classes", "_frame", "_is_first", "_seen", "shape", "start")

    def __init__(self, m: SchemaMachine, shape: ObjectShape, seen: int, *, is_first: bool) -> None:
        self.shape, self._seen, self._is_first = shape, seen, is_first
        self._base = self._frame = -1
        self._classes: list[int] = []
        self.start = m.rsm.reserve(1, self)

    def build(self, m: SchemaMachine, state: int) -> None:
        """See `PlainStates`."""
        if state == self.start:
            self._lay_out(m)
            return
        position = (state - self._base) >> 1
        if position == 1:
            m.set_spaced(
                self._base + 2, {ord('"'): self._key_code(m, self.shape.allowed(TRUE, self._seen))}, self._frame + 2
            )
            return
        j = (position - 3) >> 1
        set_value(
            m,
            self._base + 2 * position,
            self.shape.static[self._classes[j]],
            self._frame + 1 + 2 * (1 + len(self._classes)) + j,
            self._frame + 1 + position,
        )

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
        return ObjectState.of(self.shape, TRUE, (), self._seen, 0)

    def after_value(self, m: SchemaMachine, frame: int) -> int:
        """See `PlainStates`."""
        c = self._classes[frame - self._frame - 1 - 2 * (1 + len(self._classes))]
        return m.plain_start(self.shape, self.shape.after(self._seen, c))

    def _key_code(self, m: SchemaMachine, allowed: int) -> int:
        """The code of the opening quote of a key of the ``allowed`` classes, 0 if there are none."""
        return m.rsm.call(m.scalars.late_key(m, self.shape.keys, allowed), self._frame) if allowed else 0

    def _lay_out(self, m: SchemaMachine) -> None:
        """Make all states but those that lead into values, and into keys behind a space that has to be there: these are made when
        a text gets there."""
        shape, keys, rsm = self.shape, self.shape.keys, m.rsm
        allowed = shape.allowed(TRUE, self._seen)
        self._classes = classes = list(bits(allowed))
        n_positions = 2 * (1 + len(classes))
        self._base = rsm.reserve(2 * n_positions, self)
        self._frame = rsm.new_frames(1 + n_positions + len(classes), self)
        key = self._key_code(m, allowed)
        close = 0 if shape.missing(self._seen) else m.exit(())
        class_map = rsm.class_map(STRUCTURE)
        outcomes = np.array([keys.outcome(c) for c in classes], np.int64)
        n_rows = 2 + len(classes)
        arrays, edge, action = rsm.take_room(
            edges=n_rows * 2 * N_COLUMNS, actions=n_rows, returns=n_positions + len(classes)
        )
        lay_out_place(
            arrays.edges, arrays.states, arrays.actions, arrays.returns, edge, action, self.start, self._base,
            self._frame, m.space, outcomes, key, close, class_map, self._is_first, m.options.whitespace == "json",
        )  # fmt: skip
