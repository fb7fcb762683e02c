"""The mask of a state that reads almost the same as another one (`Alike`): that one's, less what cannot be read here.

The two are walked side by side, and only as long as they are apart: a key that has still to come differs from one that may come in a
few tokens of a hundred thousand.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import UNKNOWN
from fsmc.compiler.tokens.mask_source import (
    JOB,
    N_EXITS,
    N_IDS,
    NO_NODE,
    NODE,
    NUMBER,
    ROOM,
    STACK,
    STATE,
    Scratch,
)
from fsmc.compiler.tokens.trie import DEPTH, END, START, TokenTrie
from fsmc.compiler.tokens.walk import DONE, FULL, MISSING
from fsmc.jit import bytes_at, copy_bytes, int_rows_at, ints_at, kernel, longs_at


def walk_alike(
    machine: RecursiveMachine,
    trie: TokenTrie,
    state: int,
    like: int,
    room: int,
    record: npt.NDArray[np.int64],
    scratch: Scratch,
) -> bool:
    """Make ``scratch.source`` that of a state that is `Alike` another, whose record for the same stack is given; false if more
    can be read here than there.

    The record of the other is the beginning; what cannot be read here is taken away, and its exits are this state's own.
    """
    view = scratch.view
    view[STATE], view[STACK], view[JOB], view[NODE], view[ROOM] = state, like, 0, NO_NODE, room
    while True:
        status = _alike_at(machine.tables.addresses, trie.addresses, record, scratch.addresses, scratch.registers)
        if status != MISSING:
            return status == DONE
        machine.build(-1, view[NUMBER])


@kernel
def _alike(
    edges: Array, states: Array, class_maps: Array, actions: Array, trie: Array, token_ids: Array, tops: Array,
    path: Array, words: Array, exits: Array, ids: Array, registers: Array,
) -> int:  # fmt: skip
    """Walk a state and the one it is like side by side, as long as they are apart, and see `walk_alike`. Adds to exits and ids."""
    n_exits, n_ids, room = registers[N_EXITS], registers[N_IDS], registers[ROOM]
    job, node = registers[JOB], registers[NODE]
    while job < len(tops):
        top_node = np.int64(tops[job, 0])
        if node < 0:
            q, p, b = path[0, 0], path[0, 1], tops[job, 2]
            if states[q, 0] == UNKNOWN:
                registers[JOB], registers[NODE], registers[N_EXITS], registers[N_IDS] = job, node, n_exits, n_ids
                registers[NUMBER] = q
                return MISSING
            if edges[states[q, 0] + class_maps[states[q, 1] + b]] == edges[states[p, 0] + class_maps[states[p, 1] + b]]:
                job += 1
                continue
            node = top_node
        stop = np.int64(trie[top_node, END])
        while node < stop:
            d = np.int64(trie[node, DEPTH])
            q, p = path[d - 1, 0], path[d - 1, 1]
            if states[q, 0] == UNKNOWN:
                registers[JOB], registers[NODE], registers[N_EXITS], registers[N_IDS] = job, node, n_exits, n_ids
                registers[NUMBER] = q
                return MISSING
            q = edges[states[q, 0] + class_maps[states[q, 1] + (trie[node, 0] & 255)]]
            p = edges[states[p, 0] + class_maps[states[p, 1] + (trie[node, 0] & 255)]]
            if q > 0 and p <= 0:
                return FULL
            if q > 0 and q != p and d + (trie[node, 0] >> 8) > room:
                path[d, 0], path[d, 1] = q, p
                node += 1
                continue
            below = np.int64(trie[node, END])
            if q <= 0 and q != p:
                if p != 0:
                    for rank in range(trie[node, START], trie[node, START + 2]):
                        token = token_ids[rank]
                        if words[token >> 5] >> (token & 31) & 1:
                            ids[n_ids] = token
                            n_ids += 1
                if q < 0:
                    if n_exits == len(exits):
                        return FULL
                    exits[n_exits, 0], exits[n_exits, 1], exits[n_exits, 2] = (
                        node,
                        actions[-1 - q, 0],
                        actions[-1 - q, 1],
                    )
                    n_exits += 1
            node = below
        job += 1
        node = np.int64(NO_NODE)
    registers[N_EXITS], registers[N_IDS] = n_exits, n_ids
    return DONE


@kernel
def _alike_at(machine: Array, trie: Array, record: Array, scratch: Array, registers: Array) -> int:
    """`_alike` with addresses of the arrays; writes ``Scratch.source`` when done."""
    path, exits, ids, words = (
        int_rows_at(scratch, 1, 4),
        int_rows_at(scratch, 2, 3),
        ints_at(scratch, 3),
        ints_at(scratch, 4),
    )
    if registers[JOB] == 0 and registers[NODE] < 0:
        path[0, 0], path[0, 1] = registers[STATE], registers[STACK]
        flipped = ints_at(record, 1)
        copy_bytes(scratch[8], record[0], 4 * record[1])
        for i in range(len(flipped)):
            ids[i] = flipped[i]
            words[flipped[i] >> 5] ^= np.int32(1) << np.int32(flipped[i] & 31)
        registers[N_EXITS], registers[N_IDS] = 0, len(flipped)
    status: int = _alike(
        ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2), int_rows_at(machine, 3, 3),
        int_rows_at(trie, 0, 8), ints_at(trie, 1), int_rows_at(trie, 4, 3), path, words, exits, ids, registers,
    )  # fmt: skip
    source = longs_at(scratch, 5)
    source[0], source[1], source[2], source[3] = scratch[4], registers[N_EXITS], record[0], record[1]
    source[4], source[5] = scratch[6], registers[N_IDS]
    return int(status)
