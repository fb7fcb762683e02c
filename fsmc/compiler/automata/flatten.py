"""A recursive state machine as a plain DFA, where nesting is bounded: configurations become states."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.recursion import Configuration, RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.errors import LimitExceeded, MachineError

MAX_STATES = 100_000


def flatten(machine: RecursiveMachine, max_depth: int, *, max_states: int = MAX_STATES) -> DFA:
    """The DFA of the texts that ``machine`` accepts with at most ``max_depth`` calls open at any time, trimmed.

    A call beyond that is forbidden, and so is what can only be completed by one. Rows of a `LazyRSM` are built on the way.
    Raises LimitExceeded for more than ``max_states`` configurations; MachineError where a recorded call is met (items that
    must differ, keys that must not come twice), since what follows then depends on the text itself; ValueError for a
    negative depth.

    >>> from fsmc.compiler.automata.rsm import RSM
    >>> machine = RSM.from_dfa(DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0))
    >>> flatten(machine, max_depth=0).matches(b"x")
    True
    """
    if max_depth < 0:
        raise ValueError(f"max_depth={max_depth} must not be negative")
    number: dict[Configuration, int] = {machine.initial: 0}
    todo = [machine.initial]
    rows: list[npt.NDArray[np.int32]] = []

    def number_of(configuration: Configuration) -> int:
        if configuration not in number:
            if len(number) == max_states:
                raise LimitExceeded("max_states", max_states, max_states + 1, "flatten to a smaller depth")
            number[configuration] = len(number)
            todo.append(configuration)
        return number[configuration]

    def row_of(configuration: Configuration) -> npt.NDArray[np.int32]:
        """The next configuration's number for each byte, -1 where there is none: int32[256]."""
        state, stack = configuration
        codes = machine.row(state)
        row = np.full(256, -1, np.int32)
        for code in np.unique(codes[codes != DEAD]).tolist():
            target, after = code, stack
            if code < DEAD:
                kind, operand, frame = machine.action(code)
                if kind == CALL:
                    if frame >= RECORDED:
                        raise MachineError(
                            "this machine keeps track of texts (items or keys that must differ): no DFA can"
                        )
                    if len(stack) == max_depth:
                        continue
                    target, after = operand, (*stack, frame)
                elif not stack:
                    continue
                else:
                    target, after = machine.after_outcome(stack[-1], operand), stack[:-1]
                    if target != DEAD and kind != EXIT:  # the same bytes again, there
                        np.copyto(row, row_of(Configuration(target, after)), where=codes == code)
                        continue
            if target != DEAD:
                row[codes == code] = number_of(Configuration(target, after))
        return row

    n_done = 0
    while n_done < len(todo):
        rows.append(row_of(todo[n_done]))
        n_done += 1
    accepting = [machine.is_complete(configuration) for configuration in todo]
    return DFA.from_arrays(np.arange(256), np.array(rows), accepting, start=0)
