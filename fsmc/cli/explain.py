"""Where a text leaves a machine, and what could have stood there instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsmc.compiler.automata.recursion import Configuration

if TYPE_CHECKING:
    from fsmc.compiler.automata.recursion import RecursiveMachine
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
    begins). may_end: whether the text could have ended there. configuration: of the machine there.
    """

    matches: bool
    offset: int
    character_start: int
    expected: CharClass
    may_end: bool
    configuration: Configuration


def explain(machine: RecursiveMachine, data: bytes) -> Verdict:
    """Run ``data`` and say where and why it stops.

    >>> from fsmc.compiler.automata.interop import from_interegular
    >>> from fsmc.compiler.automata.rsm import RSM
    >>> import interegular
    >>> machine = RSM.from_dfa(from_interegular(interegular.parse_pattern("[0-9]{2}é").to_fsm()))
    >>> verdict = explain(machine, b"12x")
    >>> verdict.offset, describe(verdict.expected)
    (2, 'é')
    """
    offset, end = read(machine, data)
    matches = offset == len(data) and machine.is_complete(end)
    start = character_start(data, offset)
    here = read(machine, data[:start])[1]
    return Verdict(matches, offset, start, next_characters(machine, here), machine.is_complete(here), here)


def read(machine: RecursiveMachine, data: bytes) -> tuple[int, Configuration]:
    """How many bytes can be read before no completion exists any more, and where the machine is after them."""
    import numpy as np

    from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks
    from fsmc.compiler.tokens.walk import advance

    stacks = ReturnStacks()
    state, stack, _, n = advance(machine, stacks, machine.start, EMPTY_STACK, np.frombuffer(data, np.uint8))
    return n, Configuration(state, stacks.frames(stack))


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


def next_characters(machine: RecursiveMachine, here: Configuration) -> CharClass:
    """The characters that may come next at a place, which must lie between two characters."""
    from fsmc.compiler.syntax.charclass import MAX_CODE_POINT, CharClass

    tails: dict[tuple[Configuration, int], list[tuple[int, int]]] = {}

    def tail(at: Configuration | None, length: int) -> list[tuple[int, int]]:
        """Ranges of the number that ``length`` continuation bytes may spell from here."""
        if at is None:
            return []
        if length == 0:
            return [(0, 0)]
        if (at, length) not in tails:
            ranges: list[tuple[int, int]] = []
            for digit, byte in enumerate(CONTINUATION):
                base = digit << 6 * (length - 1)
                for low, high in tail(machine.step(at, byte), length - 1):
                    if ranges and ranges[-1][1] == base + low - 1:
                        ranges[-1] = (ranges[-1][0], base + high)
                    else:
                        ranges.append((base + low, base + high))
            tails[at, length] = ranges
        return tails[at, length]

    ranges = [(byte, byte) for byte in range(0x80) if machine.step(here, byte) is not None]
    for leads, length, first in LEADS:
        for lead in leads:
            base = (lead - first) << 6 * length
            ranges += [(base + low, base + high) for low, high in tail(machine.step(here, lead), length)]
    return CharClass.from_ranges((low, min(high, MAX_CODE_POINT)) for low, high in ranges if low <= MAX_CODE_POINT)


def next_texts(machine: RecursiveMachine, here: Configuration, at_most: int = 6, max_bytes: int = 80) -> list[str]:
    """What may come next in a JSON text: whole strings, literals and marks, without white space; [] if that is too much.

    That is more than ``at_most``, or one longer than ``max_bytes``. A comma stands with what comes after it.
    """
    ways: list[tuple[bytes, Configuration]] = [(b"", here)]
    done: list[str] = []
    while ways:
        text, at = ways.pop()
        if text[-1:] in (b"}", b"]", b":", b"{", b"[") or (text.count(b'"') == 2 and text.endswith(b'"')):
            done.append(text.decode())
            continue
        following = _without_white_space(machine, at)
        if text and (machine.is_complete(at) or any(byte in b",]}" for byte, _ in following)):
            done.append(text.decode())  # a literal or number ends here
            following = [entry for entry in following if entry[0] not in b",]}"]
        ways += [(text + bytes([byte]), after) for byte, after in following]
        if len(ways) + len(done) > at_most or len(text) > max_bytes:
            return []
    return sorted(done)


def _without_white_space(machine: RecursiveMachine, at: Configuration) -> list[tuple[int, Configuration]]:
    """(byte, configuration after it) of each byte that may come; no white space unless nothing else may."""
    live = [(byte, after) for byte in range(256) if (after := machine.step(at, byte)) is not None]
    return [entry for entry in live if entry[0] not in b" \t\n\r"] or live


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
