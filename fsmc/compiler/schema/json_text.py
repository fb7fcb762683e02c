"""From the content of a string to its JSON text: the one canonical way to escape."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fsmc.compiler.schema.outcome_dfa import OutcomeDFA

_SHORT = {0x08: ord("b"), 0x09: ord("t"), 0x0A: ord("n"), 0x0C: ord("f"), 0x0D: ord("r"), 0x22: 0x22, 0x5C: 0x5C}
"""Characters with an escape of two bytes → its second byte (RFC 8259, section 7; the solidus needs none)."""

_encode = json.JSONEncoder(ensure_ascii=False).encode


def json_spelling(text: str) -> bytes:
    r"""The text of a JSON string between its quotes, in the canonical form of `escape_json`.

    >>> json_spelling('say "é"\n\x1f')
    b'say \\"\xc3\xa9\\"\\n\\u001f'
    """
    return _encode(text)[1:-1].encode()


@lru_cache(maxsize=256)
def escape_json(content: OutcomeDFA) -> OutcomeDFA:
    r"""The machine over JSON text between the quotes, from that over content: each character in its one canonical form.

    Quote, backslash and control characters are escaped, by two bytes (``\n``) where there is such an escape, else as
    ``\u001f`` with lower-case digits; all others stand for themselves. Source: RFC 8259, section 7.

    >>> from fsmc.compiler.schema.word_machine import word_machine
    >>> text = escape_json(word_machine({b'"': 0, b"\n": 1}, ((True,), (False,))))
    >>> text.run(rb"\""), text.run(rb"\n"), text.run(rb"\u000a")
    ((True,), (False,), None)
    """
    n = content.n_states
    special = [*range(0x20), 0x22, 0x5C]
    targets = content.delta[:, content.byte_class[special]]  # [n, 34]: the state after each escaped character
    has_escape = targets.any(axis=1)
    distinct, group = _distinct_rows(targets[has_escape])
    hexadecimal = b"0123456789abcdef"
    own = sorted({*_SHORT.values(), *hexadecimal, ord("u")})
    slot = np.zeros(256, np.int64)
    slot[own] = np.arange(1, len(own) + 1)
    plain = np.ones(256, np.bool_)
    plain[special] = False
    both = content.byte_class.astype(np.int64) * 2 + plain
    both = both * 64 + slot
    _, first, byte_class = np.unique(both, return_index=True, return_inverse=True)
    classes = byte_class.reshape(256).astype(np.uint8)
    g = len(distinct)
    # states: content | after \ | after \u | after \u0 | after \u00 | after \u000 | after \u001
    delta = np.zeros((n + 6 * g, len(first)), np.int32)
    delta[:n] = np.where(plain[first], content.delta[:, content.byte_class[first]], 0)
    base = [n + k * g for k in range(6)]
    delta[np.flatnonzero(has_escape), classes[0x5C]] = base[0] + group
    index = {byte: i for i, byte in enumerate(special)}
    rows = np.arange(g)
    for byte, letter in _SHORT.items():
        delta[base[0] + rows, classes[letter]] = distinct[:, index[byte]]
    for high in (0, 1):
        for low in range(16):
            byte = 16 * high + low
            if byte not in _SHORT:
                delta[base[4 + high] + rows, classes[hexadecimal[low]]] = distinct[:, index[byte]]
    long = [delta[base[4] : base[4] + g].any(axis=1), delta[base[5] : base[5] + g].any(axis=1)]
    delta[base[3] + rows[long[0]], classes[ord("0")]] = base[4] + rows[long[0]]
    delta[base[3] + rows[long[1]], classes[ord("1")]] = base[5] + rows[long[1]]
    some = rows[long[0] | long[1]]
    delta[base[0] + some, classes[ord("u")]] = base[1] + some
    delta[base[1] + some, classes[ord("0")]] = base[2] + some
    delta[base[2] + some, classes[ord("0")]] = base[3] + some
    outcome = np.concatenate((content.outcome, np.full(6 * g, -1, np.int32)))
    return OutcomeDFA(classes, delta, outcome, content.start, content.vectors)


def _distinct_rows(rows: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """(the distinct rows, for each row which of them it is). Most are equal, and sorting them took longest of all."""
    number: dict[bytes, int] = {}
    data, width = rows.tobytes(), rows.itemsize * rows.shape[1]
    group = [number.setdefault(data[i : i + width], len(number)) for i in range(0, len(data), width)]
    distinct = np.frombuffer(b"".join(number), np.int32).reshape(-1, rows.shape[1])
    return distinct, np.array(group, np.int64)
