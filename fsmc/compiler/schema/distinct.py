"""How many bytes are enough to end an array of distinct items, or an object with keys that nobody declared, whatever was read.

Let an array need n items, all of one kind, and let w1 … wn be distinct values of that kind. Whichever k values stand in it, at
least n - k of these are not among them, and end it: all of them written out are a bound that does not depend on what was read.
Where one more item has to come whether or not it is needed, n is at least k + 1.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace

from fsmc.compiler.errors import LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema.arrays import ArrayShape
from fsmc.compiler.schema.atoms import MinItems, Unique
from fsmc.compiler.schema.formula import TRUE
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.positions import AfterItem, AfterKey, Item, ItemNext, Spaced
from fsmc.compiler.schema.sampling import short_array

ANOTHER = 32
"""Bytes that are enough to end a free string or number, wherever one is in it, as another value than any of so many: eleven end an
escape or a character, and of twenty letters or digits there are more words than a text has items."""
MAX_ITEMS, MAX_STEPS = 32, 5_000
"""Items that are written out to find a bound, and states that may be looked at for one."""


PLAIN = (string.ascii_letters + string.digits + string.punctuation + " \n").encode()
"""Of these free strings and numbers are made, and what stands between items."""


class DistinctItems:
    """What `SomeTexts` asks about recorded calls, for the machine of a schema: see there. is_spelled: which texts may be written, those
    of PLAIN among them."""

    def __init__(self, machine: SchemaMachine, is_spelled: Callable[[bytes], bool] = lambda text: True) -> None:
        assert is_spelled(PLAIN)
        self.machine, self.is_spelled = machine, is_spelled
        self._written: dict[tuple[ArrayShape, int, int], int | None] = {}

    def after(self, frame: int, outcome: int) -> tuple[int, int]:
        """The state after a recorded call, and how many bytes more than it needs are enough that it differs from others."""
        rsm = self.machine.rsm
        state = rsm.after_outcome(frame, outcome)
        key = rsm.frame_key(frame)
        if state or not isinstance(key, tuple):
            return state, 0
        back, reading = key
        if isinstance(back, AfterItem) and back.a.pending:
            back = replace(back, a=replace(back.a, pending=False))
        elif isinstance(back, AfterKey) and back.o.pending and back.o.shape.keys.others is None:
            back = AfterKey(back.o.with_key(back.o.seen, False))
        else:
            return 0, 0
        return rsm.after_outcome(rsm.new_frame((back, reading), True), outcome), ANOTHER

    def rest(self, state: int) -> tuple[int, int] | None:
        """Where items come that have to differ: (how many bytes are enough to end the array, its outcome). None if not known."""
        position = self.machine.rsm.state_key(state)
        if isinstance(position, Spaced):
            position = position.position
        if not isinstance(position, (ItemNext, Item)) or not position.a.pending:
            return None
        a = position.a
        shape = a.shape
        alike = all(element.low == 0 and element.high is None for element in shape.static)
        if a.residual != TRUE or a.watches or shape.compares or not alike:
            return None
        n_items = 0 if a.place >= shape.least else shape.least
        if isinstance(position, Item):
            # More than were written, the pending one included.
            n_items = max(shape.least, 1 << (len(a.seen) + 1).bit_length())
        written = self._items(shape, a.depth, n_items) if n_items else 0
        _, outcome, _ = self.machine.rsm.action(self.machine.exit(()))
        return None if written is None else (written + 1 + self._indent(a.depth), outcome)

    def _indent(self, depth: int) -> int:
        return 0 if self.machine.options.indent is None else 1 + depth * self.machine.options.indent

    def _items(self, shape: ArrayShape, depth: int, n: int) -> int | None:
        """The bytes of so many different items, or of all that there are, and what stands between them."""
        key = (shape, depth, n)
        if key not in self._written:
            try:
                self._written[key] = self._write_out(shape, depth, n)
            except (LimitExceeded, UnsupportedSchemaError):
                self._written[key] = None
        return self._written[key]

    def _write_out(self, shape: ArrayShape, depth: int, n: int) -> int | None:
        m, table = self.machine, self.machine.table
        item = shape.static_at(0)
        if m.value_parts(item, (), depth + 1, plentiful=True):
            return n * (ANOTHER + 2 + self._indent(depth + 1))
        if n > MAX_ITEMS:
            return None
        while not m.emptiness.count_at_least(item, n):
            n -= 1
        payloads = (*shape.static, Unique(shape.unique_pointer), MinItems(n))
        text = short_array(m, table.conj(map(table.atom, payloads)), depth, MAX_STEPS)
        return len(text) if self.is_spelled(text) else None
