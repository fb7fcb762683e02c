"""The JSON text of a value, with its members in the order in which one machine wants them.

Two schemas that are combined have an order of their own, which respects both; a text of the combination is then not always one of the
first schema alone, although its value is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fsmc.compiler.automata.recursion import Reading
from fsmc.compiler.automata.tables import CALL
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.walk import Walker

_PIECE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[ \t\n\r]+|[^"{}\[\],: \t\n\r]+', re.DOTALL)


@dataclass(slots=True)
class _Object:
    """An object's text: its members, each as its key and all that stands between that and the comma or brace, and what stands before each
    and after the last (brackets, commas, white space), which stays where it is."""

    gaps: list[bytes] = field(default_factory=list)
    members: list[tuple[bytes, list[bytes | _Object]]] = field(default_factory=list)

    def pieces(self, ranks: Mapping[str, int]) -> Iterator[bytes | _Object]:
        """All but the first gap, the members by their ranks; those that have none come last."""
        members = self.members
        if ranks:
            members = sorted(members, key=lambda member: ranks.get(json.loads(member[0]), len(ranks)))
        for (key, rest), gap in zip(members, self.gaps[1:], strict=True):
            yield key
            yield from rest
            yield gap


def rearranged(machine: SchemaMachine, text: bytes) -> bytes | None:
    """A JSON text of the same value in the order of ``machine``, with all else as it is; None where the machine allows none.

    >>> from fsmc.compiler.schema.recipe import SchemaRecipe
    >>> schema = {"properties": {"a": True, "b": {"items": {"properties": {"x": True, "y": True}}}}}
    >>> rearranged(SchemaRecipe(schema).build(), b'{"c": 0, "b": [{"y": 1, "x": 2}], "a": 3}')
    b'{"a": 3, "b": [{"x": 2, "y": 1}], "c": 0}'
    """
    walker, rsm = Walker(machine), machine.rsm
    written, reading = bytearray(), Reading(rsm.initial)
    waiting: list[Iterator[bytes | _Object]] = [iter(_pieces(text))]
    while waiting:
        piece = next(waiting[-1], None)
        if piece is None:
            waiting.pop()
            continue
        for byte in piece if isinstance(piece, bytes) else piece.gaps[0]:
            written.append(byte)
            after = rsm.read(reading, written, len(written) - 1)
            if after is None:
                return None
            reading = after
        if isinstance(piece, _Object):
            waiting.append(piece.pieces(_ranks(walker, reading.here.state)))
    return bytes(written) if rsm.is_complete(reading.here) else None


def _ranks(walker: Walker, state: int) -> Mapping[str, int]:
    """The places of the declared names in the order of an object that has just been entered; none where any order will do."""
    code = walker.rsm.code(state, ord('"'))
    if code < 0:
        kind, _, frame = walker.rsm.action(code)
        o = walker.object_of(frame, state) if kind == CALL else None
        if o is not None and not o.shape.any_order:
            return o.shape.keys.mask_of.index
    return {}


def _pieces(text: bytes) -> list[bytes | _Object]:
    """A JSON text in pieces."""
    whole: list[bytes | _Object] = []
    pieces, inside, gap = whole, _Object(), b""
    opened: list[tuple[list[bytes | _Object], _Object, bool]] = []
    in_array = True  # so that nothing around the whole is a gap
    for found in _PIECE.finditer(text):
        piece = found[0]
        if gap and not piece.startswith(b'"'):
            gap += piece
        elif gap:
            inside.gaps.append(gap)
            pieces, gap = [], b""
            inside.members.append((piece, pieces))
        elif piece in b"{[":
            opened.append((pieces, inside, in_array))
            in_array = piece == b"["
            if in_array:
                pieces.append(piece)
            else:
                pieces.append(inside := _Object())
                gap = piece
        elif in_array or piece not in b",}":
            pieces.append(piece)
        else:
            while isinstance(space := pieces[-1], bytes) and space.isspace():
                gap = space + gap
                pieces.pop()
            gap += piece
        if (in_array and piece == b"]") or gap.endswith(b"}"):
            if gap:
                inside.gaps.append(gap)
            gap = b""
            pieces, inside, in_array = opened.pop()
    return whole
