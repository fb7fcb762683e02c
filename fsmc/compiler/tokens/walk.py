"""Kernels that run a recursive state machine from a configuration, a state and a return stack, along given or forced bytes.

Where a machine is made as it is walked, a kernel returns MISSING and says what; the wrapper has it built, and the kernel
goes on from where it stopped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, Array
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED, UNKNOWN
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks, after, push_node
from fsmc.jit import bytes_at, int_rows_at, ints_at, kernel, long_rows_at, longs_at

DONE, MISSING, STARTED, ENDED, FULL = 0, 1, 2, 3, 4
"""Why a kernel stopped: it is finished; something must be built; a recorded call was made; one has returned; no room."""

Recording = tuple[bytes, tuple[int, ...]]
"""What was read since the outermost open recorded call, and where in it each open one began (see `LazyRSM`)."""

NOTHING: Recording = (b"", ())

MAX_JUMP_BYTES = 1 << 24

N_TEXT_BYTES = 0xF5
"""Bytes from here on are in no UTF-8 text. A machine may have them as letters that stand beside a text which means the same
(see `Vocabulary.with_markers`): what is forced is that text."""

FREE = -1
"""Where no byte is forced."""


class Jump(NamedTuple):
    """What is forced: ``text``, up to the last character boundary, leads to (state, stack); ``rest`` is forced after it."""

    text: bytes
    rest: bytes
    state: int
    stack: int


def advance(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    state: int,
    stack: int,
    data: npt.NDArray[np.uint8],
    begin: int = 0,
    end: int | None = None,
    recording: Recording = NOTHING,
) -> tuple[int, int, Recording, int]:
    """Run ``machine`` over ``data[begin:end]`` (uint8): (state, stack, recording, where in ``data`` it stopped).

    Stops before the first byte that is not allowed; the state is DEAD if that is so because of what a recorded call read.
    """
    if end is None:
        end = len(data)
    text, starts = recording
    n = kept = begin  # kept: up to here data is in the text already
    while True:
        tables = machine.tables
        with stacks.lock:
            room = stacks.room - (end - n)  # a byte pushes at most one frame
            if room >= 0:
                stacks.room = room
            else:
                stacks.reserve(end - n)
            status, state, stack, n, frame, number = _advance_at(
                tables.addresses, stacks.addresses, state, stack, data, n, end
            )
        if status == DONE and not starts:
            return state, stack, NOTHING, n
        if status == MISSING:
            machine.build(frame, number)
            continue
        if starts:
            text += data[kept:n].tobytes()
        kept = n
        if status == DONE:
            return state, stack, (text, starts), n
        if status == STARTED:
            if not starts:
                text = data[n - 1 : n].tobytes()
            starts = (*starts, len(text) - 1)
        else:
            state = machine.record(state, text[starts[-1] :])
            starts = starts[:-1]
            if state == DEAD:
                return DEAD, EMPTY_STACK, NOTHING, n - number


def jump_on_stack(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    state: int,
    stack: int,
    next_byte: npt.NDArray[np.int16],
    *,
    max_bytes: int = MAX_JUMP_BYTES,
) -> Jump:
    """Follow what is forced: as long as one byte leads on and the text may not end.

    It ends after a byte with which a recorded call returns: what follows depends on the text that was read.
    next_byte: int16, FREE for states at which to stop in any case (states beyond its end are judged by their rows).
    Raises LimitExceeded for more than ``max_bytes``.
    """
    out = np.empty(64, np.uint8)
    n = n_whole = 0
    end, end_stack = state, stack
    while True:
        tables = machine.tables
        with stacks.lock:
            stacks.reserve(len(out) - n)
            status, state, stack, n, n_whole, end, end_stack, frame, number = _jump_at(
                tables.addresses, stacks.addresses, next_byte, out, state, stack, n, n_whole, end, end_stack
            )
        if n > max_bytes:
            raise LimitExceeded("max_bytes", max_bytes, n, "more text than that is forced in one jump")
        if status == DONE:
            return Jump(out[:n_whole].tobytes(), out[n_whole:n].tobytes(), end, end_stack)
        if status == MISSING:
            machine.build(frame, number)
        else:
            out = np.concatenate((out, out))


@kernel
def _step(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array, nodes: Array,
    state: int, stack: int, byte: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Move by one byte: (status, state, stack, frame, number). Writes nothing, so that a step can be tried.

    DONE: state 0 where the byte is not allowed; ``frame`` is to be pushed, or -1. MISSING: see `RecursiveMachine.build`.
    ENDED: a recorded call returned; ``number`` tells whether the byte was consumed by that.
    """
    while True:
        if states[state, 0] == UNKNOWN:
            return MISSING, state, stack, -1, state
        code = edges[states[state, 0] + class_maps[states[state, 1] + byte]]
        if code >= 0:
            return DONE, np.int64(code), stack, -1, 0
        kind, operand = actions[-1 - code, 0], np.int64(actions[-1 - code, 1])
        if kind == CALL:
            return DONE, operand, stack, np.int64(actions[-1 - code, 2]), 0
        if stack == 0:
            return DONE, 0, stack, -1, 0
        frame = np.int64(nodes[stack, 1])
        state = after(returns, frame, operand)
        if state == UNKNOWN:
            return MISSING, state, stack, frame, operand
        stack = np.int64(nodes[stack, 0])
        if state > 0 and frame >= RECORDED:
            return ENDED, state, stack, -1, int(kind == EXIT)
        if state == 0 or kind == EXIT:
            return DONE, state, stack, -1, 0


@kernel
def _advance(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array,
    nodes: Array, table: Array, count: Array, state: int, stack: int, data: Array, n: int, stop: int,
) -> tuple[int, int, int, int, int, int]:  # fmt: skip
    """Run over ``data[n:stop]``: (why it stopped, state, stack, where it stopped, what is missing: see `RecursiveMachine.build`).

    Stops after a byte that makes a recorded call, and when a recorded call has returned: after the byte if the exit
    consumed it (the last number is 1), before it otherwise.
    """
    while n < stop:
        status, q, top, frame, number = _step(
            edges, states, class_maps, actions, returns, nodes, state, stack, np.int64(data[n])
        )
        if status == MISSING:
            return MISSING, state, stack, n, frame, number
        if q == 0:
            break
        if frame >= 0:
            top = push_node(nodes, table, count, top, frame)
            if frame >= RECORDED:
                status = STARTED
        state, stack = q, top
        n += number if status == ENDED else 1
        if status != DONE:
            return status, state, stack, n, 0, number
    return DONE, state, stack, n, 0, 0


@kernel
def _advance_at(
    machine: Array, stacks: Array, state: int, stack: int, data: Array, n: int, stop: int
) -> tuple[int, int, int, int, int, int]:
    """`_advance` with addresses of the arrays."""
    edges, states, class_maps = ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2)
    actions, returns = int_rows_at(machine, 3, 3), long_rows_at(machine, 4, 2)
    nodes, table, count = int_rows_at(stacks, 0, 3), ints_at(stacks, 1), longs_at(stacks, 2)
    return _advance(edges, states, class_maps, actions, returns, nodes, table, count, state, stack, data, n, stop)


@kernel
def _jump(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array,
    nodes: Array, table: Array, count: Array, next_byte: Array, out: Array,
    state: int, stack: int, n: int, n_whole: int, end: int, end_stack: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """Append forced bytes to ``out[:n]``: (why it stopped, state, stack, n, n, state and stack at the last character
    boundary, what is missing)."""
    while True:
        if states[state, 0] == UNKNOWN:
            return MISSING, state, stack, n, n_whole, end, end_stack, -1, state
        start, base, outcome = states[state, 0], states[state, 1], states[state, 2]
        n_live, n_sure, outside = 0, 0, outcome >= 0
        for byte in range(N_TEXT_BYTES):
            code = edges[start + class_maps[base + byte]]
            if code != 0:
                n_live += 1
                outside = outside or byte & 0xC0 != 0x80
                if code > 0 or actions[-1 - code, 0] == CALL:  # live with any stack
                    n_sure += 1
                    if n_sure > 1 and outside:
                        break
        if outside or n_live == 0:
            n_whole, end, end_stack = n, state, stack
        if n_sure > 1 or n_live == 0 or (state < len(next_byte) and next_byte[state] == FREE):
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0
        n_live, forced, q, top, pushed, ended = 0, 0, state, stack, np.int64(-1), False
        for byte in range(N_TEXT_BYTES):
            if edges[start + class_maps[base + byte]] == 0:
                continue
            status, to, below, frame, number, over = ENDED, state, stack, np.int64(-1), 0, False
            while status == ENDED and number == 0:  # past recorded calls, whatever they read
                status, to, below, frame, number = _step(
                    edges, states, class_maps, actions, returns, nodes, to, below, byte
                )
                over = over or status == ENDED
            if status == MISSING:
                return MISSING, state, stack, n, n_whole, end, end_stack, frame, number
            if to != 0:
                n_live += 1
                forced, q, top, pushed, ended = byte, to, below, frame, over
        if n_live != 1:
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0
        up = stack  # the text may end here if every open call does, with an outcome that its caller takes
        while up != 0 and outcome >= 0:
            target = after(returns, np.int64(nodes[up, 1]), np.int64(outcome))
            if target == UNKNOWN:
                return MISSING, state, stack, n, n_whole, end, end_stack, np.int64(nodes[up, 1]), np.int64(outcome)
            if states[target, 0] == UNKNOWN:
                return MISSING, state, stack, n, n_whole, end, end_stack, -1, target
            up, outcome = np.int64(nodes[up, 0]), states[target, 2]
        if outcome >= 0:
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0
        if n == len(out):
            return FULL, state, stack, n, n_whole, end, end_stack, 0, 0
        state, stack = q, top
        if pushed >= 0:
            stack = push_node(nodes, table, count, stack, pushed)
        out[n] = forced
        n += 1
        if ended:
            if forced < 0x80:
                n_whole, end, end_stack = n, state, stack
            return DONE, state, stack, n, n_whole, end, end_stack, 0, 0


@kernel
def _jump_at(
    machine: Array, stacks: Array, next_byte: Array, out: Array,
    state: int, stack: int, n: int, n_whole: int, end: int, end_stack: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:  # fmt: skip
    """`_jump` with addresses of the arrays."""
    edges, states, class_maps = ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2)
    actions, returns = int_rows_at(machine, 3, 3), long_rows_at(machine, 4, 2)
    nodes, table, count = int_rows_at(stacks, 0, 3), ints_at(stacks, 1), longs_at(stacks, 2)
    return _jump(
        edges, states, class_maps, actions, returns, nodes, table, count, next_byte, out,
        state, stack, n, n_whole, end, end_stack,
    )  # fmt: skip
