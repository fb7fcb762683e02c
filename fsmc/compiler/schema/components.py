"""What a value's first byte calls: for each type that the value may have, the component that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fsmc.compiler.errors import LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema import any_order, plain_objects
from fsmc.compiler.schema.atoms import ARRAY, NUMBER, OBJECT, STRING, Integer, NumEnum, StrEnum
from fsmc.compiler.schema.formula import FALSE, TRUE
from fsmc.compiler.schema.object_state import ObjectState
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.outcomes import Reading, what_to_watch
from fsmc.compiler.schema.plain_objects import is_plain
from fsmc.compiler.schema.positions import ArrayStart, ArrayState, ObjectStart

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine

Parts: TypeAlias = "list[tuple[Reading, dict[int, list[int]]]]"
"""For each type of a value: how the caller reads the outcome, and target → first bytes."""


def parts_of(m: SchemaMachine, must: int, watches: tuple[int, ...], depth: int, plentiful: bool) -> Parts:
    """Those of a value of which ``must`` holds; see `SchemaMachine.value_parts`, which keeps them."""
    table = m.table
    parts: Parts = []
    for type_ in m.keywords.types_of(must):
        if type_ == OBJECT and not watches and not plentiful:
            shape = m.shapes.of_members(must, m.options.property_order == "any")
            if shape is not None:
                few = shape.keys.n_classes <= any_order.MAX_CLASSES
                if shape.required & ~shape.live(shape.all_classes if few else shape.required) == 0:
                    parts.append(((), {_object(m, shape, depth): [ord("{")]}))
                continue
        wanted = m.keywords.expand(must, type_)
        if plentiful:
            wanted = _plentiful(m, wanted, type_)
        if wanted == FALSE or not m.emptiness.typed(wanted, type_):
            continue
        asked = [m.keywords.expand(watch, type_) for watch in watches]
        watched, reading = what_to_watch(table, wanted, asked)
        first_bytes: dict[int, list[int]] = {}
        for byte, target in component(m, type_, wanted, watched, (must, *watches), depth).items():
            first_bytes.setdefault(target, []).append(byte)
        parts.append((reading, first_bytes))
    return parts


def component(
    m: SchemaMachine, type_: str, must: int, watches: tuple[int, ...], of: tuple[int, ...], depth: int
) -> dict[int, int]:
    """First byte → state after it, of the component for one type. of: the value formulas that it comes from."""
    order = m.order.of(of) if type_ == OBJECT else ()
    if must == TRUE and type_ in m.any_start and not watches and not order:
        return m.any_start[type_]
    if type_ == OBJECT:
        shape = m.shapes.object(must, watches, order, m.options.property_order == "any")
        return {ord("{"): _object(m, shape, depth)}
    if type_ == ARRAY:
        array = m.shapes.array(must, watches)
        return {ord("["): m.gap(ArrayStart(ArrayState(array, *array.at_start(), 0, depth)))}
    return m.scalars.value(type_, must, watches)


def _object(m: SchemaMachine, shape: ObjectShape, depth: int) -> int:
    """The state after ``{``."""
    if not shape.keys.n_names and shape.static == (TRUE,) and is_plain(shape, shape.residual, shape.watches):
        if OBJECT in m.any_start:
            return m.any_start[OBJECT][ord("{")]
    residual, watched = shape.at_start()
    residual = shape.reduced(residual, 0)
    if m.options.indent is None and is_plain(shape, residual, watched):
        if shape.keys.n_classes <= (any_order.MAX_CLASSES if shape.any_order else plain_objects.MAX_CLASSES):
            return m.plain_start(shape, None)
    return m.gap(ObjectStart(ObjectState.of(shape, residual, watched, 0, depth)))


def _plentiful(m: SchemaMachine, wanted: int, type_: str) -> int:
    """``wanted`` of free strings and numbers, a few of them left out or not; FALSE for all other values.

    Zero is left out: after ``0``, of integers, and after ``0e``, there is no other number to come.
    """
    table = m.table
    if type_ not in (STRING, NUMBER):
        return FALSE
    for part in table.conjuncts(wanted):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        excludes = literal is not None and not literal[1] and isinstance(payload, (StrEnum, NumEnum))
        if not excludes and not isinstance(payload, Integer):
            return FALSE
    if type_ == NUMBER:
        zero = m.keywords.expand(m.keywords.const(0), NUMBER)
        return table.conj((wanted, table.negate(zero)))
    return wanted


def make_start(m: SchemaMachine, must: int, type_: str) -> None:
    """Make what a text needs that begins a value of one type, of which ``must`` holds."""
    try:
        wanted = m.keywords.expand(must, type_)
        if wanted != FALSE and m.emptiness.typed(wanted, type_):
            component(m, type_, wanted, (), (must,), 0)
    except (LimitExceeded, UnsupportedSchemaError) as error:
        m.keywords.locate(error, must)
        raise
