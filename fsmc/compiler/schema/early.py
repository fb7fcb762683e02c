"""Refusals at once: of parts that a text need not have, and that would else be refused only when a text gets there.

The machine of a schema is made as texts walk through it, and so would be the discovery that some optional member asks for
more than can be done. Most keywords can always be done. Of the others, those that look as if they could not are tried when
the schema is compiled, each in the value that it applies to: what `SchemaMachine` makes for the first byte of such a value is made now.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fsmc.compiler.errors import UnsupportedSchemaError
from fsmc.compiler.schema.atoms import ARRAY, NUMBER, OBJECT, STRING
from fsmc.compiler.schema.components import make_start
from fsmc.compiler.schema.number_machines import MAX_REMAINDERS
from fsmc.compiler.schema.values import to_decimal

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine


_TYPE_OF = {
    "multipleOf": NUMBER,
    "pattern": STRING,
    "uniqueItems": ARRAY,
    "minContains": ARRAY,
    "maxContains": ARRAY,
    "unevaluatedItems": ARRAY,
    "patternProperties": OBJECT,
    "unevaluatedProperties": OBJECT,
}
"""The keywords that may be more than can be done, and what they speak of."""


MAX_FEW = 1 << 10
"""Values of items that have to differ, in arrays that have to: more than this are plenty."""


def refuse_early(machine: SchemaMachine) -> None:
    """Raise UnsupportedSchemaError or LimitExceeded for what no text could get through.

    What depends on several members or items at once, or on the items already written, still shows only on the way.
    """
    document = machine.keywords.document
    noted = [(name, value) for name, value in document.noted_values() if name in _TYPE_OF]
    if not noted:
        return
    divisors = {to_decimal(value) for name, value in noted if name == "multipleOf"}
    product = 1
    for divisor in divisors:  # whatever of them apply to one number: its machine has no more remainders than this
        _, digits, exponent = divisor.as_tuple()
        assert isinstance(exponent, int)
        product *= max(1, int("".join(map(str, digits))) * 10 ** max(exponent, 0) * max(1, 2 - exponent))
    ignored = machine.keywords.ignore_unique_items

    def is_doubtful(keyword: str, value: Any) -> bool:
        if keyword == "multipleOf":
            return product > MAX_REMAINDERS
        if keyword == "uniqueItems":
            return value is True and not ignored
        return value is not True

    def is_doubtful_of(type_: str, keyword: str, value: Any) -> bool:
        return _TYPE_OF.get(keyword) == type_ and is_doubtful(keyword, value)

    for type_ in sorted({_TYPE_OF[name] for name, value in noted if is_doubtful(name, value)}):
        for node in document.values_with(partial(is_doubtful_of, type_)):
            machine.table.clock.restart()
            formula = machine.keywords.schema(node)
            make_start(machine, formula, type_)
            if type_ == ARRAY and not ignored:
                _refuse_nested(machine, formula)


def _refuse_nested(machine: SchemaMachine, formula: int) -> None:
    """Raise UnsupportedSchemaError where arrays that have to differ have items that have to, and these few values: which array was not
    written before is not found out then (see `Placing`)."""
    keywords, shapes = machine.keywords, machine.shapes
    outer = shapes.array(keywords.expand(formula, ARRAY), ())
    inner = shapes.array(keywords.expand(outer.static_at(outer.last), ARRAY), ())
    if not outer.unique or not inner.unique or inner.most == 0:
        return
    enough = 2 + min(MAX_FEW if inner.most is None else inner.most, MAX_FEW)
    if not machine.emptiness.count_at_least(inner.static_at(inner.last), enough):
        raise UnsupportedSchemaError(
            "is not supported for arrays inside an array that has it too, where their items have few values",
            inner.unique_pointer,
            "uniqueItems",
        )
