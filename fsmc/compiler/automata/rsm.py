"""Recursive state machines (Alur et al., "Analysis of Recursive State Machines", 2005): the one table that runs.

A DFA is an RSM without calls. A *call edge* consumes its byte, pushes a return frame and enters a component; an *exit*
pops the frame, and the frame and the exit's *outcome* together say where the caller goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA

CALL, EXIT, EXIT_REDO = 0, 1, 2
"""Kinds of action. CALL: consume the byte, push the frame, go to the target state. EXIT: consume the byte, pop the
frame, go to ``returns[frame, outcome]``. EXIT_REDO: pop the frame, then process the same byte at
``returns[frame, outcome]`` (a number ends only where something else begins)."""


@dataclass(frozen=True, slots=True, eq=False)
class RSM:
    """Deterministic recursive state machine over bytes. State 0 is DEAD.

    byte_class: uint8[256]. delta: int32[n_states, n_classes]: e > 0 a state, 0 DEAD, e < 0 row ``-1 - e`` of actions.
    actions: int32[n_actions, 3], rows (kind, target, frame) for CALL and (kind, outcome, 0) for exits.
    returns: int32[n_frames, n_outcomes], the caller's next state, 0 where that outcome is a dead end.
    final_outcome: int32[n_states], the outcome with which the text may end here, or -1. A configuration (state, return
    stack) is complete when this pops the whole stack and the last state has an outcome as well.
    """

    byte_class: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.int32]
    actions: npt.NDArray[np.int32]
    returns: npt.NDArray[np.int32]
    final_outcome: npt.NDArray[np.int32]
    start: int
