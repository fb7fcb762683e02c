"""From the content of a string to its JSON text: the one canonical way to escape."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import Array
from fsmc.compiler.kept import kept
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.jit import kernel

_SHORT = {0x08: ord("b"), 0x09: ord("t"), 0x0A: ord("n"), 0x0C: ord("f"), 0x0D: ord("r"), 0x22: 0x22, 0x5C: 0x5C}
"""Characters with an escape of two bytes → its second byte (RFC 8259, section 7; the solidus needs none)."""

_SPECIAL = np.array([*range(0x20), 0x22, 0x5C])
_LETTERS = np.array([_SHORT.get(byte, 0) for byte in _SPECIAL.tolist()])
_OWN = np.array(sorted({*_SHORT.values(), *b"0123456789abcdef", ord("u")}))

_encode = json.JSONEncoder(ensure_ascii=False).encode


def json_spelling(text: str) -> bytes:
    r"""The text of a JSON string between its quotes, in the canonical form of `escape_json`.

    >>> json_spelling('say "é"\n\x1f')
    b'say \\"\xc3\xa9\\"\\n\\u001f'
    """
    return _encode(text)[1:-1].encode()


@kept(1 << 26, lambda dfa, content: int(dfa.nbytes + content.nbytes))
def escape_json(content: OutcomeDFA) -> OutcomeDFA:
    r"""The machine over JSON text between the quotes, from that over content: each character in its one canonical form.

    Quote, backslash and control characters are escaped, by two bytes (``\n``) where there is such an escape, else as
    ``\u001f`` with lower-case digits; all others stand for themselves. Source: RFC 8259, section 7.

    >>> from fsmc.compiler.schema.word_machine import word_machine
    >>> text = escape_json(word_machine({b'"': 0, b"\n": 1}, ((True,), (False,))))
    >>> text.run(rb"\""), text.run(rb"\n"), text.run(rb"\u000a")
    ((True,), (False,), None)
    """
    classes = np.empty(256, np.uint8)
    delta = _escaped(content.delta, content.byte_class, _SPECIAL, _LETTERS, _OWN, classes)
    outcome = np.full(len(delta), -1, np.int32)
    outcome[: content.n_states] = content.outcome
    return OutcomeDFA(classes, delta, outcome, content.start, content.vectors)


@kernel
def _escaped(
    content: Array, byte_class: Array, special: Array, letters: Array, own: Array, classes: Array
) -> npt.NDArray[np.int32]:
    """The table of `escape_json`, and in ``classes`` (uint8[256], written) its byte classes.

    The states are those of the content, then those inside an escape, one of each kind for each different row of what the escaped
    characters lead to: most states have the same. The kinds: after ``\\``, after u, u0, u00, u000, u001. special: the escaped
    characters; letters: of each, what follows the backslash, 0 for ``u``; own: bytes that stand for themselves in an escape.
    """
    n, n_special = len(content), len(special)
    group = np.full(n, -1, np.int64)
    first_of = np.empty(n, np.int64)  # the first state of each group
    n_slots = 4
    while n_slots < 2 * n:
        n_slots *= 2
    slots = np.full(n_slots, -1, np.int64)
    g = 0
    for q in range(n):
        hashed, some = np.int64(0), False
        for k in range(n_special):
            target = content[q, byte_class[special[k]]]
            some = some or target != 0
            hashed = (hashed ^ np.int64(target)) * np.int64(0x9E3779B97F4A7C1)
        if not some:
            continue
        slot = (hashed >> 20) & (n_slots - 1)
        while group[q] < 0:
            if slots[slot] < 0:
                slots[slot] = g
                first_of[g] = q
                g += 1
                group[q] = g - 1
                break
            other = first_of[slots[slot]]
            same = True
            for k in range(n_special):
                if content[other, byte_class[special[k]]] != content[q, byte_class[special[k]]]:
                    same = False
                    break
            if same:
                group[q] = slots[slot]
            slot = (slot + 1) & (n_slots - 1)

    plain = np.ones(256, np.bool_)
    for k in range(n_special):
        plain[special[k]] = False
    alone = np.zeros(256, np.bool_)
    for k in range(len(own)):
        alone[own[k]] = True
    number = np.full(257, -1, np.int64)  # by class of the content; the last is that of what does not stand for itself
    columns = np.empty(256, np.int64)  # of each class: its class in the content, -1 where it leads nowhere
    n_classes = 0
    for byte in range(256):
        of = np.int64(byte_class[byte]) if plain[byte] else np.int64(256)
        if alone[byte] or number[of] < 0:
            columns[n_classes] = of if of < 256 else -1
            if not alone[byte]:
                number[of] = n_classes
            classes[byte] = n_classes
            n_classes += 1
        else:
            classes[byte] = number[of]

    delta = np.zeros((n + 6 * g, n_classes), np.int32)
    backslash, u, zero, one = classes[0x5C], classes[117], classes[48], classes[49]
    for q in range(n):
        for c in range(n_classes):
            if columns[c] >= 0:
                delta[q, c] = content[q, columns[c]]
        if group[q] >= 0:
            delta[q, backslash] = n + group[q]
    for j in range(g):
        long0 = long1 = False
        for k in range(n_special):
            target = content[first_of[j], byte_class[special[k]]]
            if letters[k] != 0:
                delta[n + j, classes[letters[k]]] = target
                continue
            high, low = special[k] >> 4, special[k] & 15
            digit = 48 + low if low < 10 else 87 + low
            delta[n + (4 + high) * g + j, classes[digit]] = target
            long0 = long0 or (high == 0 and target != 0)
            long1 = long1 or (high == 1 and target != 0)
        if long0:
            delta[n + 3 * g + j, zero] = n + 4 * g + j
        if long1:
            delta[n + 3 * g + j, one] = n + 5 * g + j
        if long0 or long1:
            delta[n + j, u] = n + g + j
            delta[n + g + j, zero] = n + 2 * g + j
            delta[n + 2 * g + j, zero] = n + 3 * g + j
    return delta
