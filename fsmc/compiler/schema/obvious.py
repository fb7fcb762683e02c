"""Subschemas that plainly have a value, seen from their keywords alone: no formula is made of them, no machine built.

Whether there is a value has to be known of every subschema that a text may be led into. Of most it is plain: a type, a required
member that has one, an enumeration. What is not plain here is for emptiness.py, which is exact.
"""

from __future__ import annotations

from typing import Any

from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.keywords import ASKING, SPEAKING
from fsmc.compiler.schema.string_machines import pattern_expr
from fsmc.compiler.syntax.expr import surely_matches

MAX_DEPTH = 16
"""Subschemas inside each other that are looked into."""

_LENGTHS = frozenset(["minLength", "maxLength"])
_LOWER, _UPPER = frozenset(["minimum", "exclusiveMinimum"]), frozenset(["maximum", "exclusiveMaximum"])
_PLAIN_OBJECT = frozenset(["properties", "required", "additionalProperties"])
_PLAIN_ARRAY = frozenset(["items", "minItems", "maxItems", "uniqueItems", "additionalItems"])
_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
"""Of the values in an enumeration that surely have a type."""


class Obvious:
    """Answers for the subschemas of one document.

    >>> document = SchemaDocument({"type": "object", "properties": {"a": {"minLength": 1}}, "required": ["a"]})
    >>> Obvious(document).has_value(document.root)
    True

    "No" says nothing: of a member that has to be in itself, say, it is said as well.
    """

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._known: dict[int, bool] = {}
        self._depth = 0

    def has_value(self, node: int) -> bool:
        """Whether it is plain that the subschema has a value."""
        known = self._known.get(node)
        if known is not None:
            return known
        schema = self._document.value(node)
        if isinstance(schema, bool):
            return schema
        self._known[node] = False  # what turns up inside itself is not plain
        if self._depth < MAX_DEPTH:
            self._depth += 1
            self._known[node] = self._judge(node, schema)
            self._depth -= 1
        return self._known[node]

    def _judge(self, node: int, schema: dict[str, Any]) -> bool:
        document = self._document
        asking = schema.keys() & ASKING
        if "$ref" in asking:
            alone = len(asking) == 1 and "type" not in schema
            ignored = document.draft(node) <= 7  # everything beside it
            return (alone or ignored) and self.has_value(document.resolve(node, schema["$ref"]))
        names = schema.get("type")
        general = asking & SPEAKING[None]
        if not general:
            if names is None:
                return True  # null is a value, whatever is asked of others
            return any(
                self._of_type(node, schema, name, asking) for name in ([names] if isinstance(names, str) else names)
            )
        if len(asking) > 1:
            return False
        (keyword,) = general
        if keyword == "enum" or keyword == "const":
            values = schema["enum"] if keyword == "enum" else [schema["const"]]
            if names is None:
                return len(values) > 0
            return isinstance(names, str) and any(type(value) in _CLASSES.get(names, ()) for value in values)
        branches = schema[keyword]
        if names is not None or keyword not in ("anyOf", "allOf") or (keyword == "allOf" and len(branches) > 1):
            return False
        return any(self.has_value(document.child(node, keyword, i)) for i in range(len(branches)))

    def _of_type(self, node: int, schema: dict[str, Any], name: str, asking: set[str]) -> bool:
        """Whether there plainly is a value of one type; of those in ``asking`` no keyword speaks of all types."""
        asking = asking & SPEAKING[name]
        if not asking:
            return True
        if name == "object":
            return asking <= _PLAIN_OBJECT and self._some_object(node, schema)
        if name == "array":
            return asking <= _PLAIN_ARRAY and self._some_array(node, schema)
        if name == "string":
            if asking <= _LENGTHS:
                return "maxLength" not in schema or bool(schema.get("minLength", 0) <= schema["maxLength"])
            if len(asking) > 1:
                return False
            return "format" in asking or surely_matches(pattern_expr(schema["pattern"]))
        if len(asking) == 1 or asking <= _LOWER or asking <= _UPPER:
            return True
        low, high = schema.get("minimum"), schema.get("maximum")
        return len(asking) == 2 and type(low) is int and type(high) is int and low <= high

    def _some_object(self, node: int, schema: dict[str, Any]) -> bool:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name in properties:
                if not self._below(node, properties[name], "properties", name):
                    return False
            elif not self._below(node, others, "additionalProperties"):
                return False
        return True

    def _some_array(self, node: int, schema: dict[str, Any]) -> bool:
        least, items = schema.get("minItems", 0), schema.get("items", True)
        if not least:
            return True
        if isinstance(items, list) or (least > 1 and schema.get("uniqueItems")):
            return False
        return least <= schema.get("maxItems", least) and self._below(node, items, "items")

    def _below(self, node: int, schema: Any, *path: str | int) -> bool:
        """`has_value` of the subschema at ``path`` below a node."""
        if isinstance(schema, bool):
            return schema
        if schema.keys().isdisjoint(ASKING):
            return bool(schema.get("type") != [])
        return self.has_value(self._document.child(node, *path))
