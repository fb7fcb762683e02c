"""A DFA's transitions as a list of edges: ranges of bytes, or, for a machine of UTF-8 text, ranges of characters.

Both are int32[n_edges, 4] with rows (source, low, high, target), sorted by source and then by low, inclusive, as long as
possible, without edges to DEAD. It is the layout of `NFA` and of `utf8_automaton`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DFA, frozen_array
from fsmc.compiler.automata.nfa import NFA, NO_GUARD
from fsmc.compiler.automata.range_table import to_range_table
from fsmc.compiler.errors import MachineError
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.utf8 import ENTRY, FINAL, utf8_automaton

Span = tuple[int, int, int]
"""(low, high, target): a range of code points, or of offsets into a block of them, and where it leads."""

_FORMS = (  # first byte of the range of lead bytes, last one, continuation bytes, first and last code point (RFC 3629)
    (0x00, 0x7F, 0, 0x0, 0x7F),
    (0xC0, 0xDF, 1, 0x80, 0x7FF),
    (0xE0, 0xEF, 2, 0x800, 0xFFFF),
    (0xF0, 0xF7, 3, 0x10000, 0x10FFFF),
)


def byte_edges(dfa: DFA) -> npt.NDArray[np.int32]:
    """The edges over bytes.

    >>> dfa = DFA.from_arrays(np.arange(256) >= 128, [[0, 1], [-1, -1]], [False, True], start=0)
    >>> byte_edges(dfa).tolist()
    [[1, 0, 127, 1], [1, 128, 255, 2]]
    """
    table = to_range_table(dfa)
    source = np.repeat(np.arange(dfa.n_states, dtype=np.int32), np.diff(table.offsets))
    return np.column_stack([source, table.ranges])


def character_edges(dfa: DFA) -> npt.NDArray[np.int32]:
    """The edges over characters (code points) between the states in which a character may start.

    Exact, and as many as there are ranges, not characters: blocks of 64, 64² and 64³ code points in which all lead to
    one state are never cut up. Raises MachineError if the machine accepts anything that is not well-formed UTF-8.

    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> from fsmc.compiler.automata.determinize import determinize
    >>> from fsmc.compiler.automata.nfa import thompson
    >>> character_edges(determinize(thompson(parse_regex("[α-ω]"))))[:, 1:3].tolist()
    [[945, 969]]
    """
    rows = byte_edges(dfa).tolist()
    bytes_of: dict[int, list[Span]] = {}
    for source, low, high, target in rows:
        bytes_of.setdefault(source, []).append((low, high, target))
    memo: dict[tuple[int, int], list[Span]] = {}

    def rest_of_character(state: int, n_bytes: int) -> list[Span]:
        """What follows ``state`` after ``n_bytes`` more continuation bytes, as offsets into the block of code points."""
        if n_bytes == 0:
            return [(0, 0, state)]
        if (state, n_bytes) not in memo:
            if dfa.accepting[state]:
                raise _not_text(state, "accepts inside a character")
            spans: list[Span] = []
            for low, high, target in bytes_of.get(state, ()):
                if not 0x80 <= low <= high <= 0xBF:
                    raise _not_text(state, f"takes bytes {low:02X}..{high:02X} inside a character")
                block = 64 ** (n_bytes - 1)
                _append(spans, low - 0x80, high - 0x80, block, rest_of_character(target, n_bytes - 1))
            memo[state, n_bytes] = spans
        return memo[state, n_bytes]

    def characters_of(state: int) -> list[Span]:
        spans: list[Span] = []
        n_covered = 0
        for low, high, target in bytes_of.get(state, ()):
            for lead_low, lead_high, n_bytes, first, last in _FORMS:
                a, b = max(low, lead_low), min(high, lead_high)
                if a > b:
                    continue
                n_covered += b - a + 1
                form: list[Span] = []
                _append(form, a - lead_low, b - lead_low, 64**n_bytes, rest_of_character(target, n_bytes))
                for span_low, span_high, _ in form:
                    if not first <= span_low <= span_high <= last or (span_low <= 0xDFFF and span_high >= 0xD800):
                        raise _not_text(state, f"takes an overlong form, a surrogate or a code point past {last:X}")
                _append(spans, 0, 0, 1, form)
        if n_covered != sum(high - low + 1 for low, high, _ in bytes_of.get(state, ())):
            raise _not_text(state, "takes a byte that starts no character")
        return spans

    edges: list[tuple[int, int, int, int]] = []
    seen, todo = {dfa.start}, [dfa.start]
    while todo:
        state = todo.pop()
        for low, high, target in characters_of(state):
            edges.append((state, low, high, target))
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return np.array(sorted(edges), np.int32).reshape(-1, 4)


def nfa_from_edges(
    edges: npt.NDArray[np.int32],
    epsilons: Iterable[tuple[int, int]],
    n_states: int,
    starts: Iterable[int],
    accepting: Iterable[int],
) -> NFA:
    """An NFA from rows of edges (disjoint for each source, in any order), epsilons, start states and accepting states.

    An NFA has one start, 0, and one final state, the last: both are added, and the states given are shifted by one. As in
    the NFAs of `thompson`, every state that can be reached should reach an accepting one; else `determinize` gives states
    that do not, and only `minimize` drops those.
    """
    final = n_states + 1
    shifted = np.add(edges, [1, 0, 0, 1], dtype=np.int32)
    links = (
        np.array([*((-1, q) for q in starts), *epsilons, *((q, n_states) for q in accepting)], np.int32).reshape(-1, 2)
        + 1
    )
    free = np.full((len(links), 3), NO_GUARD, np.int32)
    free[:, :2] = links[np.lexsort((links[:, 1], links[:, 0]))]
    ordered = np.ascontiguousarray(shifted[np.lexsort((shifted[:, 1], shifted[:, 0]))])
    return NFA(
        frozen_array("edges", ordered, np.int32, (None, 4)),
        frozen_array("epsilons", free, np.int32, (None, 3)),
        final + 1,
    )


def text_nfa(
    steps: Iterable[tuple[int, CharClass, int]],
    n_states: int,
    start: int,
    accepting: Iterable[int],
    epsilons: Iterable[tuple[int, int]] = (),
) -> NFA:
    """The NFA over bytes of a machine over characters: steps (source, characters, target), one class each.

    Steps from which no accepting state can be reached are left out.

    >>> nfa = text_nfa([(0, CharClass.of("ab"), 0), (0, CharClass.of("é"), 1)], n_states=2, start=0, accepting=[1])
    >>> nfa.matches("abé".encode()), nfa.matches(b"ab")
    (True, False)
    """
    steps, links, final = list(steps), list(epsilons), list(accepting)
    predecessors: dict[int, list[int]] = {}
    for source, target in [*links, *((source, target) for source, chars, target in steps if chars)]:
        predecessors.setdefault(target, []).append(source)
    live, todo = set(final), list(final)
    while todo:
        sources = [state for state in predecessors.get(todo.pop(), ()) if state not in live]
        live.update(sources)
        todo += sources
    links = [link for link in links if link[1] in live]
    rows = [np.empty((0, 4), np.int32)]
    size = n_states
    for source, chars, target in steps:
        if not chars or target not in live:
            continue
        automaton = utf8_automaton(chars)
        number = size - 1 + np.arange(automaton.n_states, dtype=np.int32)  # inner states 2, 3, … follow the entry
        number[ENTRY], number[FINAL] = size, target
        block = automaton.edges.copy()
        block[:, 0], block[:, 3] = number[block[:, 0]], number[block[:, 3]]
        rows.append(block)
        links.append((source, size))
        size += automaton.n_states - 1
    return nfa_from_edges(np.concatenate(rows), links, size, [start] if start in live else [], final)


def _append(spans: list[Span], first: int, last: int, block: int, inner: list[Span]) -> None:
    """Append ``inner``, offsets into one block, for each of the blocks number ``first`` to ``last``; join what touches."""
    if len(inner) == 1 and inner[0][:2] == (0, block - 1):  # whole blocks: one span for all of them
        copies = [[(first * block, (last + 1) * block - 1, inner[0][2])]]
    else:
        copies = [[(i * block + low, i * block + high, t) for low, high, t in inner] for i in range(first, last + 1)]
    for copy in copies:
        if spans and copy and spans[-1][2] == copy[0][2] and spans[-1][1] + 1 == copy[0][0]:
            copy[0] = (spans.pop()[0], *copy[0][1:])
        spans += copy


def _not_text(state: int, what: str) -> MachineError:
    return MachineError(
        f"the machine accepts bytes that are not UTF-8 (state {state} {what}): work on bytes, "
        "or intersect with algebra.all_text() first"
    )
