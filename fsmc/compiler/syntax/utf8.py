"""From characters to bytes: a class as the smallest automaton over its UTF-8 encodings.

UTF-8 (RFC 3629) writes the low 6 bits of a code point in the last byte, the next 6 in the byte before, and so on; the
first byte tells the length and holds the rest. So a block of 64 code points that starts at a multiple of 64 shares all
bytes but the last, a block of 64² all but the last two. One recursion over such blocks therefore builds the automaton:
an empty block has no edge, a full block is one shared node, and a mixed block is cut into its 64 sub-blocks.

Nodes are *hash-consed*: a node is the tuple of its edges, and equal tuples are one node. Built from the leaves up
without cycles, that is already the minimal automaton. ``\\w`` has 734 ranges, and 310 nodes here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fsmc.compiler.kept import kept
from fsmc.compiler.syntax.charclass import CharClass, Range

ENTRY, FINAL = 0, 1

_FORMS = (  # first and last code point, code points per value of the first byte, first byte of code point 0
    (0x0, 0x7F, 1, 0x00),
    (0x80, 0x7FF, 64, 0xC0),
    (0x800, 0xFFFF, 64**2, 0xE0),
    (0x10000, 0x10FFFF, 64**3, 0xF0),
)

_Edges = tuple[tuple[int, int, int], ...]  # (low byte, high byte, target), sorted, maximal


@dataclass(frozen=True, slots=True, eq=False)
class Utf8Automaton:
    """Minimal acyclic byte automaton. State 0 is the entry, state 1 the only final one; it has no outgoing edges.

    ``edges`` is int32[n_edges, 4]: rows (source, low byte, high byte, target), sorted by source and then by byte, with
    disjoint byte ranges per source. Read-only.
    """

    edges: np.ndarray
    n_states: int


@kept(1 << 25, lambda automaton, chars: int(automaton.edges.nbytes) + 150 * len(chars.ranges))
def utf8_automaton(chars: CharClass) -> Utf8Automaton:
    """The automaton of exactly the UTF-8 encodings of the characters in ``chars``, each one character long.

    The empty class gives no edges and two states. Results are cached and shared.

    >>> for source, low, high, target in utf8_automaton(CharClass.from_ranges([(0x61, 0x7A), (0x3B1, 0x3C9)])).edges:
    ...     print(f"{source} --{low:02X}..{high:02X}--> {target}")
    0 --61..7A--> 1
    0 --CE..CE--> 2
    0 --CF..CF--> 3
    2 --B1..BF--> 1
    3 --80..89--> 1
    """
    nodes: dict[_Edges, int] = {}  # edges of a node → its number, counted from 2
    entry: list[tuple[int, int, int]] = []
    for first, last, size, lead in _FORMS:
        clipped = [(max(low, first), min(high, last)) for low, high in chars.ranges if low <= last and high >= first]
        entry += _block_edges(clipped, 0, size, lead, nodes)
    rows = [(ENTRY, *edge) for edge in entry]
    rows += [(number, *edge) for edges, number in nodes.items() for edge in edges]
    edges = np.array(rows, dtype=np.int32).reshape(-1, 4)
    edges.flags.writeable = False
    return Utf8Automaton(edges, len(nodes) + 2)


def _block_edges(ranges: list[Range], base: int, size: int, first_byte: int, nodes: dict[_Edges, int]) -> _Edges:
    """Edges of the node for ``ranges``, all of which lie in one block that starts at ``base``.

    The block consists of sub-blocks of ``size`` code points (a power of 64); byte ``first_byte + i`` enters the i-th.
    """
    if size == 1:
        return tuple((first_byte + low - base, first_byte + high - base, FINAL) for low, high in ranges)
    edges: list[tuple[int, int, int]] = []
    mixed: list[Range] = []  # the pieces met so far of the sub-block number mixed_index

    def add(first: int, last: int, target: int) -> None:
        if edges and edges[-1][2] == target and edges[-1][1] == first_byte + first - 1:
            edges[-1] = (edges[-1][0], first_byte + last, target)
        else:
            edges.append((first_byte + first, first_byte + last, target))

    def close_mixed() -> None:
        if mixed:
            add(mixed_index, mixed_index, _node(mixed, base + mixed_index * size, size, nodes))
            mixed.clear()

    mixed_index = -1
    for low, high in ranges:
        while low <= high:
            index = (low - base) // size
            start = base + index * size
            if index != mixed_index:
                close_mixed()
                mixed_index = index
            if low == start and high >= start + size - 1:
                last = (high + 1 - base) // size - 1
                add(index, last, _node([(start, start + size - 1)], start, size, nodes))
                low = base + (last + 1) * size
            else:
                piece_end = min(high, start + size - 1)
                mixed.append((low, piece_end))
                low = piece_end + 1
    close_mixed()
    return tuple(edges)


def _node(ranges: list[Range], base: int, n_code_points: int, nodes: dict[_Edges, int]) -> int:
    """Number of the node that reads the continuation bytes of ``ranges`` within a block of ``n_code_points``."""
    return nodes.setdefault(_block_edges(ranges, base, n_code_points // 64, 0x80, nodes), len(nodes) + 2)
