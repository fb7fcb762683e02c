"""Forced text of a machine that is built as it is walked: found byte by byte from the configuration at hand."""

from __future__ import annotations

import numpy as np

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.rsm import CALL, Configuration
from fsmc.jumpforward.jump_map import MAX_JUMP_BYTES


class LazyJumpForward:
    """The jump from a configuration of a `LazyRSM`: as `JumpForwardMap`, which needs all states at once.

    The rows on the way are built. ``max_bytes`` bounds one jump: it ends there, and can be taken up again.
    """

    def __init__(self, machine: LazyRSM, *, max_bytes: int = MAX_JUMP_BYTES) -> None:
        self.machine, self.max_bytes = machine, max_bytes

    def is_inside(self, state: int) -> bool:
        """Whether the text so far ends inside a character: only continuation bytes may follow, and the end may not."""
        row = self.machine.row(state)
        live = np.flatnonzero(row)
        return bool(len(live)) and bool((live >= 0x80).all() and (live < 0xC0).all())

    def forced_text(self, configuration: Configuration) -> bytes:
        """The bytes of `jump_from`."""
        return self.jump_from(configuration)[0]

    def jump_from(self, configuration: Configuration) -> tuple[bytes, Configuration]:
        """The forced bytes from a configuration to the last character boundary, and the configuration there."""
        out, n_whole, end = bytearray(), 0, configuration
        here = configuration
        while len(out) < self.max_bytes and (byte := self.forced_byte(here)) is not None:
            after = self.machine.step(here, byte)
            assert after is not None
            returned = here.stack[len(after.stack) :]
            here = after
            out.append(byte)
            if not self.is_inside(here.state):
                n_whole, end = len(out), here
            if any(self.machine.tables.records[f] for f in returned):
                break  # what follows depends on the text that was recorded, which is not known here
        return bytes(out[:n_whole]), end

    def forced_byte(self, configuration: Configuration) -> int | None:
        """The one byte that may follow, None if several may or the text may end."""
        machine = self.machine
        row = machine.row(configuration.state)
        live = np.flatnonzero(row)
        codes = row[live]
        sure = codes > DEAD
        calls = codes < DEAD
        sure[calls] = machine.tables.actions[-1 - codes[calls], 0] == CALL
        if sure.sum() > 1 or not len(live):
            return None
        possible = [int(b) for b in live if machine.step(configuration, int(b)) is not None]
        if len(possible) != 1 or machine.is_complete(configuration):
            return None
        return possible[0]
