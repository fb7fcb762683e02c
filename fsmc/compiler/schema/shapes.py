"""The shapes of one machine's objects and arrays, each made once.

Most objects ask of their members by name and of nothing else. Their shapes are taken straight from the keywords; of the others
what the keywords ask is first put into a formula (see objects.py).
"""

from __future__ import annotations

import weakref
from types import MethodType
from typing import Any

from fsmc.compiler.schema.arrays import ArrayShape
from fsmc.compiler.schema.atoms import Schema
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import ATOM, TRUE
from fsmc.compiler.schema.key_space import key_space
from fsmc.compiler.schema.keywords import ASKING, Keywords
from fsmc.compiler.schema.objects import ObjectShape

_OF_MEMBERS = frozenset(["properties", "required", "additionalProperties"])


class Shapes:
    """Shapes by what they have to hold; answers `Emptiness` whether there are such objects and arrays.

    >>> from fsmc.compiler.schema.document import SchemaDocument
    >>> from fsmc.compiler.schema.formula import Formulas
    >>> document = SchemaDocument({"properties": {"a": {"type": "null"}}, "required": ["b"], "additionalProperties": False})
    >>> keywords = Keywords(document, Formulas())
    >>> shape = Shapes(keywords, Emptiness(keywords)).of_members(keywords.schema(document.root), any_order=False)
    >>> shape.keys.names, shape.required, [keywords.formulas.show(f) for f in shape.static]
    (('a', 'b'), 2, ['Schema(node=1)', 'false', 'false'])
    """

    def __init__(self, keywords: Keywords, emptiness: Emptiness) -> None:
        self._keywords, self._table, self._emptiness = keywords, keywords.formulas, emptiness
        self._objects: dict[tuple[Any, ...], ObjectShape] = {}
        self._arrays: dict[tuple[int, tuple[int, ...]], ArrayShape] = {}
        self._plain: dict[tuple[int, bool], ObjectShape | None] = {}
        this = weakref.proxy(self)  # what asks back must not keep this: a machine that is dropped is gone at once
        emptiness.of_object = MethodType(Shapes._some_object, this)
        emptiness.of_array = MethodType(Shapes._some_array, this)

    def __del__(self) -> None:
        for shape in self._objects.values():
            shape.states.clear()  # which hold the shape

    def object(self, must: int, watches: tuple[int, ...], order: tuple[str, ...], any_order: bool) -> ObjectShape:
        """The shape of objects of which a formula over their atoms holds."""
        key = (must, watches, order, any_order)
        shape = self._objects.get(key)
        if shape is None:
            shape = self._objects[key] = ObjectShape(must, watches, order, any_order, self._table, self._emptiness)
        return shape

    def array(self, must: int, watches: tuple[int, ...]) -> ArrayShape:
        """The same for arrays."""
        shape = self._arrays.get((must, watches))
        if shape is None:
            shape = self._arrays[must, watches] = ArrayShape(must, watches, self._table, self._emptiness)
        return shape

    def of_members(self, must: int, any_order: bool) -> ObjectShape | None:
        """The shape of the objects that satisfy a value formula, if that is a subschema that only asks what members are and which of
        them come. None: it has to be found in another way."""
        key = (must, any_order)
        if key not in self._plain:
            self._plain[key] = self._of_members(must, any_order)
        return self._plain[key]

    def _of_members(self, must: int, any_order: bool) -> ObjectShape | None:
        keywords, table = self._keywords, self._table
        payload = table.payload(must) if table.kind(must) == ATOM else None
        if not isinstance(payload, Schema):
            return None
        node = keywords.referred(payload.node)
        schema = keywords.document.value(node)
        if isinstance(schema, bool) or not ASKING & schema.keys() <= _OF_MEMBERS:
            return None
        types = schema.get("type", "object")
        if types != "object" and (isinstance(types, str) or "object" not in types):
            return None
        others = keywords.below(node, "additionalProperties") if "additionalProperties" in schema else TRUE
        static = dict(keywords.below_each(node, "properties", schema.get("properties", {})))
        due = schema.get("required", ())
        for name in due:
            static.setdefault(name, others)
        names = tuple(static)
        required = 0
        if due:
            place = {name: i for i, name in enumerate(names)}
            for name in due:
                required |= 1 << place[name]
        of_classes = (*static.values(), others)
        key = (names, of_classes, required, any_order)
        shape = self._objects.get(key)
        if shape is None:
            shape = self._objects[key] = ObjectShape.of_members(
                key_space(names, (), table), of_classes, required, any_order, table, self._emptiness
            )
        return shape

    def _some_object(self, formula: int) -> bool:
        return self.object(formula, (), (), True).satisfiable()

    def _some_array(self, formula: int) -> bool:
        return self.array(formula, ()).satisfiable()
