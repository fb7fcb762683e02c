"""What keywords ask of objects, as conditions on members. For how a rule is called see keyword_general.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fsmc.compiler.schema.atoms import STRING, All, Pattern
from fsmc.compiler.schema.conditions import every_member, min_members, one_of_names, present, this_name
from fsmc.compiler.schema.formula import FALSE, TRUE
from fsmc.compiler.schema.values import Number

if TYPE_CHECKING:
    from fsmc.compiler.schema.keywords import Keywords


def properties(k: Keywords, node: int, value: dict[str, Any], type_: str) -> int:
    """``properties``: of each name, that a member of that name satisfies its subschema, if there is one."""
    table = k.formulas
    asked = k.below_each(node, "properties", value)
    return table.conj([table.atom(All(this_name(table, name), f)) for name, f in asked if f != TRUE])


def pattern_properties(k: Keywords, node: int, value: dict[str, Any], type_: str) -> int:
    """``patternProperties``."""
    table = k.formulas
    return table.conj(every_member(table, table.atom(Pattern(p)), k.below(node, "patternProperties", p)) for p in value)


def additional_properties(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``additionalProperties``: of the keys that neither of the two above speaks of in the same subschema."""
    table, keyword = k.formulas, k.document.keyword
    patterns = [table.atom(Pattern(p)) for p in keyword(node, "patternProperties", ())]
    named = table.disj([one_of_names(table, keyword(node, "properties", ())), *patterns])
    return every_member(table, table.negate(named), k.below(node, "additionalProperties"))


def property_names(k: Keywords, node: int, value: Any, type_: str) -> int:
    """``propertyNames``: a key that does not satisfy the subschema would need an impossible value."""
    allowed = k.expand_node(k.document.child(node, "propertyNames"), STRING)
    return every_member(k.formulas, k.formulas.negate(allowed), FALSE)


def required(k: Keywords, node: int, value: list[str], type_: str) -> int:
    """``required``."""
    return _all_present(k, value)


def min_properties(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``minProperties``."""
    return min_members(k.formulas, int(value))


def max_properties(k: Keywords, node: int, value: Number, type_: str) -> int:
    """``maxProperties``: not one more."""
    return k.formulas.negate(min_members(k.formulas, int(value) + 1))


def dependent_required(k: Keywords, node: int, value: dict[str, list[str]], type_: str) -> int:
    """``dependentRequired``."""
    return k.formulas.conj(_if_present(k, name, _all_present(k, names)) for name, names in value.items())


def dependent_schemas(k: Keywords, node: int, value: dict[str, Any], type_: str) -> int:
    """``dependentSchemas``."""
    return k.formulas.conj(
        _if_present(k, name, k.expand_node(k.document.child(node, "dependentSchemas", name), type_)) for name in value
    )


def dependencies(k: Keywords, node: int, value: dict[str, Any], type_: str) -> int:
    """``dependencies``: what the two above are since 2019-09, in one keyword."""
    parts = []
    for name, dependency in value.items():
        if isinstance(dependency, list):
            consequence = _all_present(k, dependency)
        else:
            consequence = k.expand_node(k.document.child(node, "dependencies", name), type_)
        parts.append(_if_present(k, name, consequence))
    return k.formulas.conj(parts)


def _all_present(k: Keywords, names: Iterable[str]) -> int:
    return k.formulas.conj([present(k.formulas, name) for name in names])


def _if_present(k: Keywords, name: str, consequence: int) -> int:
    return k.formulas.disj([k.formulas.negate(present(k.formulas, name)), consequence])
