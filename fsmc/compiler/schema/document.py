"""A schema as a document: drafts, identifiers, references, and the check that each keyword has a value of its type.

References go through the ``referencing`` library and whatever registry the caller gives; nothing is fetched. A *node* is a
subschema at a place, as an integer: equal nodes are the same subschema under the same base URI.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import referencing
import referencing.exceptions
import referencing.jsonschema

from fsmc.compiler.errors import LimitExceeded, SchemaError, UnsupportedSchemaError

DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
_SPECIFICATIONS = {
    4: referencing.jsonschema.DRAFT4,
    6: referencing.jsonschema.DRAFT6,
    7: referencing.jsonschema.DRAFT7,
    2019: referencing.jsonschema.DRAFT201909,
    2020: referencing.jsonschema.DRAFT202012,
}
MAX_DEPTH = 400
MAX_NODES = 1_000_000

_SCHEMA = ("not", "if", "then", "else", "additionalProperties", "additionalItems", "propertyNames", "contains",
           "unevaluatedProperties", "unevaluatedItems")  # fmt: skip
_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")


class SchemaDocument:
    """The nodes of one schema, all of which have been checked.

    schema: a dict, a bool, or JSON text. draft: 4, 6, 7, 2019 or 2020 where ``$schema`` does not say (default 2020).
    registry: a ``referencing.Registry`` of documents that references may name.

    Raises SchemaError (message, JSON pointer, keyword), LimitExceeded for more than ``max_nodes`` subschemas or nesting
    deeper than ``max_depth``.

    >>> document = SchemaDocument({"properties": {"a/b": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"minimum": 1}}})
    >>> a = document.child(document.root, "properties", "a/b")
    >>> document.pointer(a), document.value(document.resolve(a, "#/$defs/n"))
    ('/properties/a~1b', {'minimum': 1})
    """

    def __init__(
        self,
        schema: dict[str, Any] | bool | str,
        *,
        draft: int | None = None,
        registry: referencing.Registry[Any] | None = None,
        max_depth: int = MAX_DEPTH,
        max_nodes: int = MAX_NODES,
    ) -> None:
        if isinstance(schema, str):
            schema = parse_json(schema)
        if not isinstance(schema, (dict, bool)):
            raise SchemaError(f"a schema is an object or a boolean, not {_json_type(schema)}", "", "")
        if draft is not None and draft not in _SPECIFICATIONS:
            raise SchemaError(f"draft {draft} is not one of {', '.join(map(str, _SPECIFICATIONS))}", "", "$schema")
        self.max_nodes = max_nodes
        _check_depth(schema, max_depth)
        draft = _draft_of(schema, 2020 if draft is None else draft, "")
        specification = _SPECIFICATIONS[draft]
        resource: referencing.Resource[Any] = specification.create_resource(schema)
        base = resource.id() or ""
        known = referencing.jsonschema.EMPTY_REGISTRY if registry is None else registry
        self._registry = known.with_resource(base, resource)
        self._nodes: list[tuple[Any, Any, int, str]] = []
        self._ids: dict[tuple[int, str, tuple[str, ...]], int] = {}
        self._children: dict[tuple[int, tuple[str | int, ...]], int] = {}
        self._resolved: dict[tuple[int, str], int] = {}
        self._checked = 0
        self.dynamic = "$dynamicRef" in str(schema) or "$recursiveRef" in str(schema)
        self.root = self._intern(schema, self._registry.resolver(base), draft, "")
        self._check_all()

    def value(self, node: int) -> Any:
        """The subschema itself: a dict or a bool."""
        return self._nodes[node][0]

    def draft(self, node: int) -> int:
        """4, 6, 7, 2019 or 2020."""
        return self._nodes[node][2]

    def pointer(self, node: int) -> str:
        """Where the subschema stands: a JSON pointer (RFC 6901), after a URI if in another document."""
        return self._nodes[node][3]

    def child(self, node: int, *path: str | int) -> int:
        """The subschema at ``path`` below a node."""
        key = (node, path)
        known = self._children.get(key)
        if known is not None:
            return known
        value, resolver, draft, pointer = self._nodes[node]
        for step in path:
            value = value[step]
        pointer += "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
        known = self._children[key] = self._enter(value, resolver, draft, pointer)
        return known

    def resolve(self, node: int, reference: str) -> int:
        """The subschema that a reference in ``node`` names."""
        key = (node, reference)
        known = self._resolved.get(key)
        if known is None:
            resolver = self._nodes[node][1]
            try:
                found = resolver.lookup(reference)
            except (referencing.exceptions.Unresolvable, ValueError, AttributeError, TypeError) as error:
                raise SchemaError(
                    f"cannot resolve {reference!r}: there is no such place in the schema or the registry "
                    "(documents are never fetched; give a registry)",
                    self.pointer(node),
                    "$ref",
                ) from error
            draft = self._nodes[node][2]
            fragment = reference.partition("#")[2]
            same = reference.startswith("#") or found.resolver._base_uri == resolver._base_uri
            pointer = fragment if same and fragment.startswith("/") else reference
            known = self._resolved[key] = self._enter(found.contents, found.resolver, draft, pointer, entered=True)
        return known

    def resolve_dynamic(self, node: int) -> int:
        """The subschema that the ``$dynamicRef`` or ``$recursiveRef`` of ``node`` names, given how we got here."""
        schema, resolver, draft, _ = self._nodes[node]
        if "$recursiveRef" in schema:
            found = referencing.jsonschema.lookup_recursive_ref(resolver)
            return self._enter(found.contents, found.resolver, draft, "#", entered=True)
        return self.resolve(node, schema["$dynamicRef"])

    def _enter(self, value: Any, resolver: Any, draft: int, pointer: str, entered: bool = False) -> int:
        """The node of a value met on the way, under the base URI and the draft that its own $id and $schema set."""
        if isinstance(value, dict):
            draft = _draft_of(value, draft, pointer)
            identifier = value.get("id" if draft == 4 else "$id")
            if isinstance(identifier, str) and not (entered and self._is_root_of(value, resolver)):
                resolver = resolver.in_subresource(_SPECIFICATIONS[draft].create_resource(value))
        elif not isinstance(value, bool):
            raise SchemaError(f"a schema is an object or a boolean, not {_json_type(value)}", pointer, "")
        return self._intern(value, resolver, draft, pointer)

    def _is_root_of(self, value: Any, resolver: Any) -> bool:
        return self._registry.get(resolver._base_uri) is not None and self._registry[resolver._base_uri].contents is value

    def _intern(self, value: Any, resolver: Any, draft: int, pointer: str) -> int:
        scope: tuple[str, ...] = ()
        if self.dynamic:
            scope = tuple(uri for uri, _ in resolver.dynamic_scope())
        key = (id(value), resolver._base_uri, scope)
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._nodes)
            self._nodes.append((value, resolver, draft, pointer))
            if len(self._nodes) > self.max_nodes:
                raise LimitExceeded("max_nodes", self.max_nodes, len(self._nodes), "the schema has too many subschemas")
        return known

    # ── checking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_all(self) -> None:
        """Check every subschema that can be reached; checking one makes the nodes below it and those it refers to."""
        while self._checked < len(self._nodes):
            node = self._checked
            self._checked += 1
            value = self._nodes[node][0]
            if isinstance(value, dict):
                draft, pointer = self._nodes[node][2:]
                for keyword in value:
                    check = _CHECKS.get(keyword)
                    if check is not None and not check[0](value[keyword], draft):
                        raise SchemaError(
                            f"must be {check[1]}, not {_json_type(value[keyword])}", f"{pointer}/{keyword}", keyword
                        )
                for _ in self._below(node, value, draft):
                    pass

    def _below(self, node: int, schema: dict[str, Any], draft: int) -> Iterator[int]:
        """Every subschema directly below a node or referred to by it."""
        if "$ref" in schema:
            yield self.resolve(node, schema["$ref"])
            if draft <= 7:
                return
        if ("$dynamicRef" in schema and draft >= 2020) or ("$recursiveRef" in schema and draft == 2019):
            yield self.resolve_dynamic(node)
        for keyword in _SCHEMA:
            if keyword in schema:
                yield self.child(node, keyword)
        for keyword in _SCHEMAS:
            for i in range(len(schema.get(keyword, ()))):
                yield self.child(node, keyword, i)
        for keyword in _NAMED:
            for name in schema.get(keyword, ()):
                yield self.child(node, keyword, name)
        if "items" in schema:
            if isinstance(schema["items"], list):
                for i in range(len(schema["items"])):
                    yield self.child(node, "items", i)
            else:
                yield self.child(node, "items")
        for name, dependency in schema.get("dependencies", {}).items():
            if isinstance(dependency, (dict, bool)):
                yield self.child(node, "dependencies", name)


def schema_of(source: Any) -> dict[str, Any] | bool | str:
    """The schema of what users call one: a dict, a bool, JSON text, a pydantic model, a dataclass, a TypedDict or other type.

    Raises SchemaError for anything else.
    """
    if isinstance(source, (dict, bool, str)):
        return source
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError
    except ImportError as error:
        raise SchemaError("to compile a type, install pydantic; or give its JSON Schema as a dict", "", "") from error
    try:
        return TypeAdapter(source).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        raise SchemaError(f"{source!r} is neither a JSON Schema nor a type that pydantic understands", "", "") from error


def parse_json(text: str) -> Any:
    """JSON text with exact numbers. Raises SchemaError for what is not JSON: also NaN, Infinity and repeated members."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise SchemaError(f"the member {twice!r} stands twice in one object", "", "")
        return found

    def constant(name: str) -> Any:
        raise SchemaError(f"{name} is not JSON", "", "")

    try:
        return json.loads(text, parse_float=Decimal, parse_constant=constant, object_pairs_hook=members)
    except RecursionError as error:
        raise SchemaError("the text nests too deeply", "", "") from error
    except ValueError as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(f"not JSON: {error}", "", "") from error


def _draft_of(schema: Any, default: int, pointer: str) -> int:
    if not isinstance(schema, dict) or not isinstance(schema.get("$schema"), str):
        return default
    uri = schema["$schema"].rstrip("#").replace("https://json-schema.org/draft-0", "http://json-schema.org/draft-0")
    if uri in DRAFTS:
        return DRAFTS[uri]
    if uri in ("http://json-schema.org/schema", "https://json-schema.org/schema"):
        return default
    if "json-schema.org/draft-03" in uri:
        raise UnsupportedSchemaError("draft 3 is not supported", pointer, "$schema")
    return default  # a meta-schema of somebody's own: keywords mean what the default draft says


def _check_depth(schema: Any, max_depth: int) -> None:
    """Raise if containers nest deeper than ``max_depth``: level by level, without recursion."""
    level = [schema]
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise LimitExceeded("max_depth", max_depth, depth, "the schema nests too deeply")
        below = []
        for value in level:
            if isinstance(value, dict):
                below += [v for v in value.values() if isinstance(v, (dict, list))]
            elif isinstance(value, list):
                below += [v for v in value if isinstance(v, (dict, list))]
        level = below


def _json_type(value: Any) -> str:
    for type_, name in ((bool, "a boolean"), (str, "a string"), (dict, "an object"), ((list, tuple), "an array")):
        if isinstance(value, type_):  # type: ignore[arg-type]
            return name
    return "null" if value is None else "a number" if isinstance(value, (int, float, Decimal)) else type(value).__name__


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, Decimal):
        return value.is_finite() and -400 <= value.adjusted() <= 400
    return isinstance(value, int) and value.bit_length() < 1400 or isinstance(value, float) and value - value == 0


def _is_size(value: Any, draft: int) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_TYPES = frozenset("null boolean integer number string array object".split())
_SIZE = (_is_size, "a whole number of at least 0")
_NUMBER = (lambda v, d: _is_number(v), "a finite number of reasonable size")
_OBJECT = (lambda v, d: isinstance(v, dict), "an object of subschemas")
_STRING = (lambda v, d: isinstance(v, str), "a string")
_LIST = (lambda v, d: isinstance(v, list) and len(v) > 0, "a non-empty array of subschemas")
_CHECKS: dict[str, tuple[Any, str]] = {
    "$ref": _STRING,
    "$dynamicRef": _STRING,
    "type": (
        lambda v, d: isinstance(v, str) and v in _TYPES or isinstance(v, list) and all(isinstance(t, str) and t in _TYPES for t in v),
        "the name of a type, or an array of them (null, boolean, integer, number, string, array, object)",
    ),
    "enum": (lambda v, d: isinstance(v, list), "an array of values"),
    "properties": _OBJECT,
    "patternProperties": _OBJECT,
    "dependentSchemas": _OBJECT,
    "dependencies": (
        lambda v, d: isinstance(v, dict) and all(isinstance(x, (dict, bool, str)) or _is_names(x) for x in v.values()),
        "an object of subschemas or arrays of names",
    ),
    "dependentRequired": (lambda v, d: isinstance(v, dict) and all(map(_is_names, v.values())), "an object of arrays of names"),
    "required": (lambda v, d: _is_names(v) or d == 4 and isinstance(v, bool), "an array of names"),
    "allOf": _LIST,
    "anyOf": _LIST,
    "oneOf": _LIST,
    "prefixItems": _LIST,
    "pattern": _STRING,
    "format": _STRING,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": (lambda v, d: isinstance(v, bool) or _is_number(v), "a number"),
    "exclusiveMaximum": (lambda v, d: isinstance(v, bool) or _is_number(v), "a number"),
    "multipleOf": (lambda v, d: _is_number(v) and v > 0, "a number greater than 0"),
    "uniqueItems": (lambda v, d: isinstance(v, bool), "a boolean"),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"), _SIZE
    ),
}
