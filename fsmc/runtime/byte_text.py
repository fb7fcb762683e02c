"""Bytes that may come next, as text for messages."""

from __future__ import annotations

from collections.abc import Iterable


def describe_bytes(live: Iterable[int], may_end: bool) -> str:
    """Bytes that may come next as readable text: ASCII as characters, first bytes of longer ones as code point ranges.

    >>> describe_bytes(b"+0123456789", may_end=True)
    "'+', '0'–'9' or the end of the text"
    >>> describe_bytes([0x0A, 0xC3, 0xE7, 0xE8], may_end=False)
    "'\\\\n', some of U+00C0–U+00FF or some of U+7000–U+8FFF"
    >>> describe_bytes([0x80, 0x81, 0xBF], may_end=False)
    'byte 80–81 or byte bf'
    """
    runs: list[list[int]] = []
    for byte in live:
        if runs and byte == runs[-1][1] + 1 and byte not in (0x80, 0xC2, 0xE0, 0xF0, 0xF5):
            runs[-1][1] = byte
        else:
            runs.append([byte, byte])
    items = []
    for low, high in runs:
        if low < 0x80:
            items.append(f"{chr(low)!r}–{chr(high)!r}" if low < high else repr(chr(low)))
        elif 0xC2 <= low < 0xF5:
            items.append(f"some of U+{_code_points(low)[0]:04X}–U+{_code_points(high)[1]:04X}")
        else:  # inside a character, or no text at all
            items.append(f"byte {low:02x}–{high:02x}" if low < high else f"byte {low:02x}")
    if may_end:
        items.append("the end of the text")
    return " or ".join(filter(None, [", ".join(items[:-1]), *items[-1:]])) or "nothing"


def _code_points(first_byte: int) -> tuple[int, int]:
    """The first and last code point whose UTF-8 form begins with ``first_byte`` (C2–F4; RFC 3629)."""
    if first_byte < 0xE0:
        return (first_byte & 0x1F) << 6, (first_byte & 0x1F) << 6 | 0x3F
    if first_byte < 0xF0:
        return max((first_byte & 0x0F) << 12, 0x800), (first_byte & 0x0F) << 12 | 0xFFF
    return max((first_byte & 0x07) << 18, 0x10000), min((first_byte & 0x07) << 18 | 0x3FFFF, 0x10FFFF)
