"""What a short way through the machine of a schema need look at: no white space, and of members only those that help.

Where names are required, the first of them is written next: of all orders in which members may come, one is enough.
"""

from __future__ import annotations

from collections.abc import Callable

from fsmc.compiler.automata.shortest import Step
from fsmc.compiler.automata.tables import CALL, EXIT
from fsmc.compiler.schema.ending import useful_keys
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.walk import Walker


def short_steps(machine: SchemaMachine) -> Callable[[int], list[Step]]:
    """The steps of a state, for `ShortestTexts`."""
    walker = Walker(machine)

    def steps(state: int) -> list[Step]:
        found = []
        for code, first in walker.firsts(state):
            if code > 0:
                found.append(Step(first, code))
                continue
            kind, _, frame = walker.rsm.action(code)
            o = walker.object_of(frame, state) if kind == CALL else None
            if o is None:
                found.append(Step(first if kind in (CALL, EXIT) else b"", 0, code))
                continue
            keys = useful_keys(walker, o)
            for c in keys:
                if c < o.shape.keys.n_names:
                    text = walker.name(o, frame, c).text
                    found.append(Step(text, walker.rsm.after_outcome(frame, c)))
            if keys and keys[-1] >= o.shape.keys.n_names:
                found.append(Step(first, 0, code))
        return found

    return steps
