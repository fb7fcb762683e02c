"""The rows before values of which nothing is watched: every first byte calls the component of its type.

Members and items of the same kind have the same such row but for where they go on, so what it is made of is found out once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fsmc.compiler.schema.scalar_blocks import WHITE_SPACE

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine


class ValueStarts(NamedTuple):
    """The states after a first byte, the place of a class map, and for each of its classes which of these states it leads to, counted
    from 1; 0 for none. The last class is white space."""

    targets: list[int]
    class_map: int
    columns: list[int]


def set_value(m: SchemaMachine, state: int, must: int, frame: int, space_frame: int) -> None:
    """`SchemaMachine.set_spaced` before a value of which ``must`` holds; ``frame`` is pushed by every call."""
    starts = m.starts.get(must)
    if starts is None:
        known = m.starts_of_type.get(m.keywords.type_alone(must))
        starts = m.starts[must] = known or value_starts(m, must)
    rsm = m.rsm
    calls = [0, *[rsm.new_call(target, frame) for target in starts.targets]]
    codes = [calls[i] for i in starts.columns]
    rsm.set_row(state + 1, starts.class_map, codes)
    if m.options.whitespace == "json":
        m.set_one_space(state)
        return
    if m.space and starts.targets:
        codes[-1] = rsm.new_call(m.space, space_frame)
    rsm.set_row(state, starts.class_map, codes)


def value_starts(m: SchemaMachine, must: int) -> ValueStarts:
    """What the rows before such a value are made of."""
    targets: list[int] = []
    columns = [0]
    byte_class = bytearray(256)
    for _, first_bytes in m.value_parts(must, ()):
        for target, listed in first_bytes.items():
            targets.append(target)
            columns.append(len(targets))
            for byte in listed:
                byte_class[byte] = len(targets)
    for byte in WHITE_SPACE:
        byte_class[byte] = len(columns)
    return ValueStarts(targets, m.rsm.class_map(byte_class), [*columns, 0])
