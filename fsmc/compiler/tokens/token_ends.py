"""Where each allowed token leads: the configurations after one more token, and which tokens end in which."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED, UNKNOWN
from fsmc.compiler.tokens.stacks import ReturnStacks, after, push_node
from fsmc.compiler.tokens.trie import DEPTH, END, START, TokenTrie, packed_groups
from fsmc.compiler.tokens.walk import DONE, FULL, MISSING
from fsmc.jit import bytes_at, int_rows_at, ints_at, kernel, long_rows_at, longs_at

_ROOM = 4096


class TokenEnds(NamedTuple):
    """ends: int64[n, 3], distinct rows (state, stack node, 1 if a recorded call returned on the way, else 0).
    group: int32[n_tokens], of each rank of the trie the row of ``ends`` that the token leads to, -1 where it is not allowed."""

    ends: npt.NDArray[np.int64]
    group: npt.NDArray[np.int32]


def token_ends(
    machine: RecursiveMachine,
    stacks: ReturnStacks,
    trie: TokenTrie,
    state: int,
    stack: int,
    *,
    only_ends: bool = False,
) -> TokenEnds:
    """Walk all tokens from a configuration.

    Where a recorded call returns, the end is the state that stands for any text (see `LazyRSM`). only_ends: where a whole
    subtree of the trie stays where it is, apart from the inside of characters, look no further; ``group`` is empty then.

    >>> from fsmc.compiler.automata.dfa import DFA
    >>> from fsmc.compiler.automata.rsm import RSM
    >>> from fsmc.compiler.tokens.vocabulary import Vocabulary
    >>> ab = RSM.from_dfa(DFA.from_arrays([0] * 97 + [1, 2] + [0] * 157, [[0, 0, 0], [0, 1, 2], [0, 0, 0]], [False, False, True], 1))
    >>> trie = TokenTrie.build(Vocabulary.from_tokens([b"a", b"ab", b"aa", b"c"]))
    >>> found = token_ends(ab, ReturnStacks(), trie, ab.start, 0)
    >>> found.ends.tolist(), dict(zip(trie.token_ids.tolist(), found.group.tolist()))
    ([[1, 0, 0], [2, 0, 0]], {0: 0, 2: 0, 1: 1, 3: -1})
    """
    group = np.full(0 if only_ends else trie.n_tokens, -1, np.int32)
    path = np.empty((trie.height + 1, 3), np.int64)
    path[0] = state, stack, 0
    ends, table = np.empty((256, 3), np.int64), np.full(1024, -1, np.int32)
    node = n_ends = 0
    while True:
        tables = machine.tables
        with stacks.lock:
            stacks.reserve(_ROOM)
            limit = len(stacks) + _ROOM
            status, node, n_ends, frame, number = _ends_at(
                tables.addresses, stacks.addresses, trie.addresses, path, ends, table, group, limit, node, n_ends
            )
        if status == DONE:
            return TokenEnds(ends[:n_ends], group)
        if status == MISSING:
            machine.build(frame, number)
        elif n_ends == len(ends):
            ends, table = np.empty((8 * len(ends), 3), np.int64), np.full(32 * len(ends), -1, np.int32)
            node = n_ends = 0


@kernel
def _place(ends: Array, table: Array, state: int, stack: int, used: int) -> int:
    """The slot of an end in the hash table, or the free one where it belongs."""
    mixed = (state << 33 ^ stack << 1 ^ used) * np.int64(0x1E3779B97F4A7C15)
    slot = (mixed >> 32) & (len(table) - 1)
    while table[slot] >= 0:
        i = table[slot]
        if ends[i, 0] == state and ends[i, 1] == stack and ends[i, 2] == used:
            break
        slot = (slot + 1) & (len(table) - 1)
    return int(slot)


@kernel
def _ends(
    edges: Array, states: Array, class_maps: Array, actions: Array, returns: Array, loops: Array,
    nodes: Array, table_of_nodes: Array, count: Array,
    trie: Array,
    path: Array, ends: Array, table: Array, group: Array, limit: int, node: int, n_ends: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Go on at ``node``: (why it stopped, node to go on from, number of ends, what is missing).

    ``path`` int64[height + 1, 3] holds after each depth: state, stack, whether a recorded call returned.
    """
    while node < len(trie):
        d = np.int64(trie[node, DEPTH])
        q, top, used = path[d - 1, 0], path[d - 1, 1], path[d - 1, 2]
        pushed = np.int64(-1)
        while True:
            if states[q, 0] == UNKNOWN:
                return MISSING, node, n_ends, -1, np.int64(q)
            code = edges[states[q, 0] + class_maps[states[q, 1] + (trie[node, 0] & 255)]]
            if code >= 0:
                q = np.int64(code)
                break
            kind, operand = actions[-1 - code, 0], np.int64(actions[-1 - code, 1])
            if kind == CALL:
                q, pushed = operand, np.int64(actions[-1 - code, 2])
                break
            if top == 0:
                q = np.int64(0)
                break
            frame = np.int64(nodes[top, 1])
            q = np.int64(after(returns, frame, operand))
            if q == UNKNOWN:
                return MISSING, node, n_ends, frame, operand
            top = np.int64(nodes[top, 0])
            if q != 0 and frame >= RECORDED:
                if used:
                    q = np.int64(0)
                used = np.int64(1)
            if q == 0 or kind == EXIT:
                break
        below = np.int64(trie[node, END])
        if q == 0:
            node = below
            continue
        if pushed >= 0:
            if count[0] >= limit:
                return FULL, node, n_ends, 0, 0
            top = np.int64(push_node(nodes, table_of_nodes, count, top, pushed))
        if states[q, 0] == UNKNOWN:
            return MISSING, node, n_ends, -1, np.int64(q)
        stays = len(group) == 0 and packed_groups(trie, node) & ~loops[q] == 0 and trie[node, 0] >> 8 <= states[q, 3]
        if stays or trie[node, START] < trie[node, START + 1]:
            slot = _place(ends, table, q, top, used)
            if table[slot] < 0:
                if n_ends == len(ends):
                    return FULL, node, n_ends, 0, 0
                ends[n_ends, 0], ends[n_ends, 1], ends[n_ends, 2] = q, top, used
                table[slot] = n_ends
                n_ends += 1
            if len(group):
                for rank in range(trie[node, START], trie[node, START + 1]):
                    group[rank] = table[slot]
        if stays:
            node = below
            continue
        path[d, 0], path[d, 1], path[d, 2] = q, top, used
        node += 1
    return DONE, node, n_ends, 0, 0


@kernel
def _ends_at(
    machine: Array, stacks: Array, trie: Array,
    path: Array, ends: Array, table: Array, group: Array, limit: int, node: int, n_ends: int,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """`_ends` with addresses of the arrays."""
    return _ends(
        ints_at(machine, 0), int_rows_at(machine, 1, 4), bytes_at(machine, 2), int_rows_at(machine, 3, 3),
        long_rows_at(machine, 4, 2), longs_at(machine, 5),
        int_rows_at(stacks, 0, 3), ints_at(stacks, 1), longs_at(stacks, 2),
        int_rows_at(trie, 0, 8), path, ends, table, group, limit, node, n_ends,
    )  # fmt: skip
