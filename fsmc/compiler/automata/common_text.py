"""Whether several DFAs agree on a text: their product (Rabin and Scott, 1959), searched breadth first and not built.

Most questions of this kind have a short text for an answer, found after some hundred tuples of states, where the product
itself, made machine by machine, may have a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fsmc.compiler.automata.dfa import DFA, Array
from fsmc.jit import addresses_of, bytes_at, int_rows_at, kernel

MAX_STATES = 300_000
"""States in the tuples that are looked at, together, before the search is given up."""

MAX_COUNTED = 64
"""The greatest ``low`` with which the search is made again where the texts it met are too short; tuples are then as many times more."""

_FIRST_TUPLES = 1000
_NONE, _FOUND, _TOO_SHORT, _TOO_MANY = range(4)


def have_common_text(
    machines: Sequence[tuple[DFA, bool]], low: int = 0, high: int | None = None, max_states: int = MAX_STATES
) -> bool | None:
    """Whether a text of ``low`` to ``high`` characters (UTF-8) is accepted by each machine given with True and by none of the others.

    None if that was not found out: tuples of more than ``max_states`` states were met, or only texts shorter than a ``low`` that is
    above MAX_COUNTED.

    >>> from fsmc.compiler.schema.format_machine import machine
    >>> words, digits = machine("[a-z0-9]*"), machine(".*[0-9]{3}.*")
    >>> have_common_text([(words, True), (digits, True)]), have_common_text([(words, False), (words, True)])
    (True, False)
    >>> have_common_text([(words, True), (digits, True)], 0, 2), have_common_text([(digits, True)], 5, 5)
    (False, True)
    """
    if high is not None and low > high:
        return False
    arrays = [array for dfa, _ in machines for array in (dfa.delta, dfa.byte_class, dfa.accepting)]
    addresses = addresses_of(*arrays)
    widths = np.array([dfa.n_classes for dfa, _ in machines], np.int64)
    starts = np.array([dfa.start for dfa, _ in machines], np.int32)
    wanted = np.array([sign for _, sign in machines], np.bool_)
    longest = np.iinfo(np.int64).max if high is None else high
    max_tuples = max_states // len(machines)
    n_tuples, counted = min(_FIRST_TUPLES, max_tuples), 0
    while True:
        tuples = np.empty((n_tuples, len(machines) + 1), np.int32)
        slots = np.full(1 << (2 * n_tuples).bit_length(), -1, np.int32)
        answer = _search(addresses, widths, starts, wanted, low, longest, counted, tuples, slots)
        if answer == _TOO_SHORT and counted == low:
            return False
        if answer == _TOO_SHORT and low <= MAX_COUNTED:
            counted = low  # the tuples are told apart by how much of that they have
        elif answer == _TOO_MANY and n_tuples < max_tuples:
            n_tuples = max_tuples
        else:
            return {_NONE: False, _FOUND: True}.get(answer)


@kernel
def _search(
    addresses: Array, widths: Array, starts: Array, wanted: Array, low: int, high: int, counted: int,
    tuples: Array, slots: Array,
) -> int:  # fmt: skip
    """One of the answers above: _TOO_SHORT if texts of fewer than ``low`` characters were met, and none that fits.

    Tuples are met in the order of their characters, those of one number together: first what the bytes that continue a character
    lead to, then what all others do. So the first text that leads to a tuple is one of the shortest. tuples: int32[capacity,
    n_machines + 1], the last column the characters, where there are fewer than ``counted``, or that number; slots: int32, a power
    of two of them, all -1: a hash table of tuple numbers with linear probing.
    """
    n_machines = len(starts)
    apart = np.empty(256, np.int64)  # bytes that some machine tells apart, or that the count does
    n_apart = 0
    for byte in range(256):
        known = False
        for i in range(n_apart):
            known = (byte & 0xC0 == 0x80) == (apart[i] & 0xC0 == 0x80)
            m = 0
            while known and m < n_machines:
                byte_class = bytes_at(addresses, 3 * m + 1)
                known = byte_class[byte] == byte_class[apart[i]]
                m += 1
            if known:
                break
        if not known:
            apart[n_apart] = byte
            n_apart += 1
    mask = len(slots) - 1
    following = np.zeros(n_machines + 1, np.int32)
    for m in range(n_machines):
        following[m] = starts[m]
    n_found, count = 0, 0
    first, end = 0, 0  # the tuples of the texts of one character less
    q, i = 0, n_apart  # as if the start had just been led to
    inside = False  # whether bytes that continue a character are being read
    too_short = False
    while True:
        hashed = np.int64(0)
        for m in range(n_machines + 1):
            hashed = (hashed ^ np.int64(following[m])) * np.int64(0x9E3779B97F4A7C1)
        slot = (hashed >> 20) & mask
        new = True
        while new and slots[slot] >= 0:
            new = False
            for m in range(n_machines + 1):
                if tuples[slots[slot], m] != following[m]:
                    new = True
                    break
            if new:
                slot = (slot + 1) & mask
        if new:
            if n_found == len(tuples):
                return _TOO_MANY
            slots[slot] = n_found
            for m in range(n_machines + 1):
                tuples[n_found, m] = following[m]
            n_found += 1
            accepted = True
            for m in range(n_machines):
                if (bytes_at(addresses, 3 * m + 2)[following[m]] != 0) != wanted[m]:
                    accepted = False
                    break
            if accepted:
                if count >= low:
                    return _FOUND
                too_short = True
        alive = False
        while not alive:  # the next tuple that a byte leads to
            i += 1
            if i >= n_apart:
                i = 0
                q += 1
                if not inside and q >= end:  # all of them have been led on from: what continues a character of these?
                    inside, first, q = True, end, end
                if inside and q >= n_found:
                    inside, q, end = False, first, n_found
                    count += 1
                    if first == end or count > high:
                        return _TOO_SHORT if too_short else _NONE
            byte = apart[i]
            alive = (byte & 0xC0 == 0x80) == inside
            m = 0
            while alive and m < n_machines:
                delta, byte_class = int_rows_at(addresses, 3 * m, widths[m]), bytes_at(addresses, 3 * m + 1)
                following[m] = delta[tuples[q, m], byte_class[byte]]
                alive = following[m] != 0 or not wanted[m]
                m += 1
            following[n_machines] = min(count, counted)
