"""Where a text leaves a machine, and what could have stood there instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsmc.compiler.automata.dfa import DEAD

if TYPE_CHECKING:
    from fsmc.compiler.automata.dfa import DFA
    from fsmc.compiler.syntax.charclass import CharClass

CONTINUATION = range(0x80, 0xC0)
LEADS = ((range(0xC2, 0xE0), 1, 0xC0), (range(0xE0, 0xF0), 2, 0xE0), (range(0xF0, 0xF5), 3, 0xF0))
"""Lead bytes of characters of 2, 3 and 4 bytes: the bytes, how many continuation bytes follow, the value of the first."""

MAX_SHOWN_RANGES = 12


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of matching ``data``.

    matches: whether all of it is accepted. offset: bytes that could be read; ``len(data)`` if it matches or only ends too
    early. expected: the characters that may come at ``character_start`` (where the character holding the offending byte
    begins). may_end: whether the text could have ended there.
    """

    matches: bool
    offset: int
    character_start: int
    expected: CharClass
    may_end: bool


def explain(dfa: DFA, data: bytes) -> Verdict:
    """Run ``data`` and say where and why it stops.

    >>> from fsmc.compiler.automata.interop import from_interegular
    >>> import interegular
    >>> dfa = from_interegular(interegular.parse_pattern("[0-9]{2}é").to_fsm())
    >>> verdict = explain(dfa, b"12x")
    >>> verdict.offset, describe(verdict.expected)
    (2, 'é')
    """
    offset = read_length(dfa, data)
    matches = offset == len(data) and bool(dfa.accepting[dfa.run(data)])
    start = character_start(data, offset)
    state = dfa.run(data[:start])
    return Verdict(matches, offset, start, next_characters(dfa, state), bool(dfa.accepting[state]))


def read_length(dfa: DFA, data: bytes) -> int:
    """How many bytes can be read before no completion exists any more.

    DEAD is never left, so that the place can be found by bisection: O(n log n) table look-ups in the kernel instead of
    n calls from Python.
    """
    if dfa.run(data) != DEAD:
        return len(data)
    low, high = 0, len(data)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if dfa.run(data[:middle]) != DEAD else (low, middle)
    return low if dfa.start != DEAD else 0


def character_start(data: bytes, offset: int) -> int:
    """The last place at or before ``offset`` that lies between two characters.

    >>> character_start("né".encode(), 2), character_start("né".encode(), 3)
    (1, 3)
    """
    for place in range(offset - 1, max(offset - 4, -1), -1):
        if data[place] not in CONTINUATION:
            length = next((1 + more for leads, more, _ in LEADS if data[place] in leads), 1)
            return place if place + length > offset else offset
    return offset


def next_characters(dfa: DFA, state: int) -> CharClass:
    """The characters that may come next in ``state``, which must lie between two characters."""
    from fsmc.compiler.syntax.charclass import MAX_CODE_POINT, CharClass

    tails: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def tail(at: int, length: int) -> list[tuple[int, int]]:
        """Ranges of the number that ``length`` continuation bytes may spell from here."""
        if at == DEAD:
            return []
        if length == 0:
            return [(0, 0)]
        if (at, length) not in tails:
            ranges: list[tuple[int, int]] = []
            for digit, byte in enumerate(CONTINUATION):
                base = digit << 6 * (length - 1)
                for low, high in tail(step(at, byte), length - 1):
                    if ranges and ranges[-1][1] == base + low - 1:
                        ranges[-1] = (ranges[-1][0], base + high)
                    else:
                        ranges.append((base + low, base + high))
            tails[at, length] = ranges
        return tails[at, length]

    def step(at: int, byte: int) -> int:
        return int(dfa.delta[at, dfa.byte_class[byte]])

    ranges = [(byte, byte) for byte in range(0x80) if step(state, byte) != DEAD]
    for leads, length, first in LEADS:
        for lead in leads:
            base = (lead - first) << 6 * length
            ranges += [(base + low, base + high) for low, high in tail(step(state, lead), length)]
    return CharClass.from_ranges((low, min(high, MAX_CODE_POINT)) for low, high in ranges if low <= MAX_CODE_POINT)


def describe(chars: CharClass) -> str:
    """A character class as a person would write it, cut short if it has many ranges.

    >>> from fsmc.compiler.syntax.charclass import CharClass
    >>> describe(CharClass.of("0123456789.")), describe(CharClass.of("x")), describe(CharClass.of(""))
    ('[.0-9]', 'x', 'nothing')
    """
    if not chars:
        return "nothing"
    missing = ~chars
    if not missing:
        return "any character"
    if len(chars) == 1:
        return _show(chars.ranges[0][0])
    if len(missing.ranges) < len(chars.ranges):
        return f"[^{_show_ranges(missing)}]"
    return f"[{_show_ranges(chars)}]"


def _show_ranges(chars: CharClass) -> str:
    parts = []
    for low, high in chars.ranges[:MAX_SHOWN_RANGES]:
        codes = [low, high] if high - low > 1 else range(low, high + 1)
        shown = [f"\\{chr(code)}" if chr(code) in "-]^" else _show(code) for code in codes]
        parts.append(("-" if high - low > 1 else "").join(shown))
    return "".join(parts) + ("…" if len(chars.ranges) > MAX_SHOWN_RANGES else "")


def _show(code: int) -> str:
    """One character, escaped if it does not print."""
    character = chr(code)
    if character == " " or (character.isprintable() and character != "\\"):
        return character
    return character.encode("unicode_escape").decode("ascii")
