"""Byte groups: whether a state stays alive, whatever follows, for all tokens below a trie node at once.

Inside ``[^"]*`` nearly every token leads back to the same state. Where a text has to contain a match of a pattern it leads to
many states, but none is a dead end. To see that without walking them, bytes and
characters are put into 62 fixed groups, one bit each: every ASCII punctuation mark and usual white-space character by
itself, digits, hexadecimal letters, other letters, and the well-formed characters of two to four bytes by ranges of their lead
byte. A trie node knows the groups that occur below it, a state the groups of which it can read any text, and when the second
set holds the first the whole subtree is allowed: its tokens, which are contiguous, are set as one range.
A JSON string's row takes 0.1 ms instead of 1.4 (128,000 tokens).

Both sets are conservative: a subtree that is not well-formed UTF-8, or a state that leaves on one byte of a group, only
costs a walk.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.automata.tables import read_only
from fsmc.jit import kernel

ILL_FORMED = 255


def _utf8_steps() -> npt.NDArray[np.uint8]:
    """The decoder of well-formed UTF-8 (Unicode, table 3-7) as uint8[8, 256]: state 0 is a character boundary.

    States 1, 2, 3 await that many continuation bytes; 4, 5, 6, 7 are after E0, ED, F0, F4, whose second byte is restricted.
    """
    steps = np.full((8, 256), ILL_FORMED, np.uint8)
    steps[0, 0x00:0x80] = 0
    steps[0, 0xC2:0xE0] = 1
    steps[0, 0xE1:0xF0] = 2
    steps[0, 0xF1:0xF4] = 3
    steps[0, [0xE0, 0xED, 0xF0, 0xF4]] = 4, 5, 6, 7
    steps[1, 0x80:0xC0] = 0
    steps[2, 0x80:0xC0] = 1
    steps[3, 0x80:0xC0] = 2
    steps[4, 0xA0:0xC0] = 1
    steps[5, 0x80:0xA0] = 1
    steps[6, 0x90:0xC0] = 2
    steps[7, 0x80:0x90] = 2
    return steps


def _byte_groups() -> npt.NDArray[np.int64]:
    """int64[256]: the bit of each byte's group; bytes that begin no character share the bit that no state loops on."""
    letters_and_digits = [b"0123456789", b"ABCDEF", b"GHIJKLMNOPQRSTUVWXYZ", b"abcdef", b"ghijklmnopqrstuvwxyz"]
    alone = b" \t\n\r!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    # Lead bytes are cut where scripts, and so the usual classes, change: Latin-1 (C2, C3), Latin letters (C4-C9),
    # combining marks (CC-CD), Greek, Cyrillic, ..., the white space of E1, E2 and E3, ideographs and nothing else (E5-E8).
    cuts = [*b"\xc2\xc3\xc4\xca\xcc\xce\xd0\xd2\xd8\xdc\xe0\xe1\xe2\xe3\xe4\xe5\xe9\xea\xee\xf0\xf5"]
    leads = [bytes(range(low, high)) for low, high in pairwise(cuts)]
    controls = bytes(b for b in [*range(0x20), 0x7F] if b not in alone)
    groups = [*letters_and_digits, *(bytes([b]) for b in alone), controls, *leads]
    bits = np.full(256, 1 << len(groups), np.int64)
    for number, members in enumerate(groups):
        bits[list(members)] = 1 << number
    return bits


UTF8_STEPS = _utf8_steps()
BYTE_GROUP = _byte_groups()
NO_CHARACTER = int(BYTE_GROUP.max())
ASCII_GROUPS: dict[int, tuple[int, ...]] = {}
"""The bit of each group of ASCII characters, and its bytes."""
for _byte in range(0x80):
    ASCII_GROUPS[int(BYTE_GROUP[_byte])] = (*ASCII_GROUPS.get(int(BYTE_GROUP[_byte]), ()), _byte)
_MAX_STATES = 512
_MAX_EXPANSIONS = 64  # per lead byte: a machine made to have many paths inside a character is walked, not analysed


def groups_below(byte: npt.NDArray[np.uint8], parent: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """For each node of a preorder trie, the groups of all bytes and characters strictly below it, as bits.

    byte: uint8[N]; parent: int32[N], -1 at the top. Returns int64[N]. A node inside a character, and one below which
    something is not well-formed, holds the bit ``NO_CHARACTER`` that is in no state's set.

    >>> trie_of_ab_ac = np.frombuffer(b"abc", np.uint8), np.array([-1, 0, 0], np.int32)
    >>> groups_below(*trie_of_ab_ac).tolist() == [int(BYTE_GROUP[ord("b")]), 0, 0]
    True
    """
    groups = np.zeros(len(byte), np.int64)
    _groups_below(byte, parent, np.empty(len(byte), np.uint8), np.zeros(len(byte), np.bool_), groups)
    return groups


def loop_groups(
    delta: npt.NDArray[np.int32], byte_class: npt.NDArray[np.uint8], *, spread: bool = True
) -> npt.NDArray[np.int64]:
    """For each state, groups of which any text (of well-formed characters) can be read from it, as bits.

    delta: int32[n_states, n_classes], byte_class: uint8[256]. Returns int64[n_states]. They are those whose bytes lead from the
    state back to it; and, in machines of up to 512 states, one set for all states that texts over it never lead out
    of (not without ``spread``). States that loop on no ASCII byte have otherwise the
    empty set, right or not: that test is what keeps this at some nanoseconds a state.

    >>> only_a = np.zeros(256, np.uint8); only_a[ord("-")] = 1
    >>> loop_groups(np.array([[0, 0], [0, 1]], np.int32), only_a).tolist() == [0, int(BYTE_GROUP[ord("-")])]
    True
    """
    loops = np.zeros(len(delta), np.int64)
    delta, byte_class = read_only(delta), read_only(byte_class)
    home, todo = np.zeros(len(delta), np.bool_), np.empty((4 * 64, 2), np.int32)
    _loop_groups(delta, byte_class, np.unique(byte_class[:128]), todo, home, loops)
    if spread and len(delta) <= _MAX_STATES:
        _spread_groups(delta, byte_class, todo, home, loops)
    return loops


@kernel
def _groups_below(byte: Array, parent: Array, decoder: Array, ill_formed: Array, groups: Array) -> None:
    """Scratch: ``decoder``, the UTF-8 state after each node, and ``ill_formed``, from False. Children come after parents, so the second loop runs back."""
    for node in range(len(byte)):
        before = decoder[parent[node]] if parent[node] >= 0 else 0
        after = UTF8_STEPS[before, byte[node]]
        if after == ILL_FORMED:  # UTF-8 synchronizes itself: read on as if a character began (or ended) here
            ill_formed[node] = True
            after = UTF8_STEPS[0, byte[node]]
            if after == ILL_FORMED:
                after = 0
        decoder[node] = after
    for node in range(len(byte) - 1, -1, -1):
        up = parent[node]
        if up >= 0:
            if ill_formed[node]:
                groups[up] |= NO_CHARACTER
            elif decoder[up] == 0:
                groups[up] |= BYTE_GROUP[byte[node]] | groups[node]
            else:
                groups[up] |= groups[node]  # goes on with a character whose lead byte, above, has the bit
        if decoder[node] != 0:  # what was gathered here has been handed up; a state inside a character is not asked
            groups[node] = NO_CHARACTER


@kernel
def _returns(delta: Array, byte_class: Array, state: int, lead: int, todo: Array, home: Array) -> bool:
    """Whether every well-formed character that begins with ``lead`` leads from ``state`` to a state that is ``home``."""
    todo[0, 0] = UTF8_STEPS[0, lead]
    todo[0, 1] = delta[state, byte_class[lead]]
    n_todo = 1
    for _ in range(_MAX_EXPANSIONS):
        if n_todo == 0:
            return True
        n_todo -= 1
        decoder = todo[n_todo, 0]
        inside = todo[n_todo, 1]
        if inside <= 0:
            return False
        last = 0
        for b in range(0x80, 0xC0):
            after = UTF8_STEPS[decoder, b]
            if after == ILL_FORMED:
                continue
            target = delta[inside, byte_class[b]]
            if after == 0:
                if target <= 0 or not home[target]:
                    return False
            elif target != last or target == 0:  # neighbours mostly share their target
                todo[n_todo, 0] = after
                todo[n_todo, 1] = target
                n_todo += 1
                last = target
    return False


@kernel
def _leaves(delta: Array, byte_class: Array, state: int, todo: Array, home: Array, groups: int, any_: Any) -> int:
    """Those of ``groups`` with a byte or character that leads from ``state`` to one that is not ``home``; some of them if ``any_``."""
    leaves = 0
    for b in range(0x80):
        target = delta[state, byte_class[b]]
        if target <= 0 or not home[target]:
            leaves |= BYTE_GROUP[b]
    leaves &= groups
    if any_ and leaves != 0:
        return leaves
    for lead in range(0xC2, 0xF5):
        if (groups & ~leaves) & BYTE_GROUP[lead] != 0 and not _returns(delta, byte_class, state, lead, todo, home):
            leaves |= BYTE_GROUP[lead]
    return leaves & groups


@kernel
def _loop_groups(delta: Array, byte_class: Array, ascii_classes: Array, todo: Array, home: Array, loops: Array) -> None:
    """The groups with which states loop. ``home``: all False."""
    for state in range(1, len(delta)):
        for c in ascii_classes:
            if delta[state, c] == state:
                home[state] = True
                loops[state] = ~_leaves(delta, byte_class, state, todo, home, NO_CHARACTER - 1, np.bool_(False))
                loops[state] &= NO_CHARACTER - 1
                home[state] = False
                break


@kernel
def _spread_groups(delta: Array, byte_class: Array, todo: Array, home: Array, loops: Array) -> None:
    """Find groups for the state that loops on most of them, and give them to all states that never leave each other with them.

    As long as that state is led out of these states, the groups that do so are given up and all begins again.
    """
    best, most = np.int64(0), 0
    for state in range(1, len(delta)):
        size, rest = 0, loops[state]
        while rest != 0:
            rest &= rest - 1
            size += 1
        if size > most:
            best, most = state, size
    if most == 0:
        return
    for state in range(1, len(delta)):
        home[state] = True
    groups = (NO_CHARACTER - 1) & ~_leaves(delta, byte_class, best, todo, home, NO_CHARACTER - 1, np.bool_(False))
    changed = True
    while changed:
        changed = False
        # Edges lead to higher numbers mostly: backwards, what is found out spreads at once.
        for state in range(len(delta) - 1, 0, -1):
            if home[state] and loops[state] & groups != groups:
                lost = _leaves(delta, byte_class, state, todo, home, groups, state != best)
                if lost != 0:
                    changed = True
                    if state == best:
                        groups &= ~lost
                        for other in range(1, len(delta)):
                            home[other] = True
                        break
                    home[state] = False
    for state in range(1, len(delta)):
        if home[state] and loops[state] & ~groups == 0:
            loops[state] = groups
