"""What references lead to: pointers into the document at hand, identifiers, anchors, dynamic anchors, other documents.

Pointers into the document at hand are followed here; every other reference goes through the ``referencing`` library, the
registry that the caller gives, and the official meta-schemas. Nothing is fetched.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import referencing
import referencing.exceptions
import referencing.jsonschema

from fsmc.compiler.errors import SchemaError
from fsmc.compiler.schema.checks import (
    DEPENDENCIES,
    DYNAMIC,
    ITEMS,
    KEYWORDS,
    NAMED,
    NOTHING,
    REFERENCE,
    REGEX,
    REGEXES,
    SCHEMA,
    SCHEMAS,
    UNDECLARED,
)
from fsmc.compiler.schema.resources import (
    RECURSIVE,
    Context,
    Resource,
    Scope,
    Trail,
    declared_draft,
    dynamic_anchors,
    identifier,
    kind_below,
    official_uri,
    pointer_text,
    step_into,
)
from fsmc.compiler.schema.source import json_type, quoted

SPECIFICATIONS = {
    4: referencing.jsonschema.DRAFT4,
    6: referencing.jsonschema.DRAFT6,
    7: referencing.jsonschema.DRAFT7,
    2019: referencing.jsonschema.DRAFT201909,
    2020: referencing.jsonschema.DRAFT202012,
}

Place = tuple[Any, Context, Trail]
"""A subschema, the context that it is read in, and the way to it."""


class References:
    """The resources of one schema, and what the references in them name.

    draft: where ``$schema`` does not say. declared: whether somebody said so (see `checks.UNDECLARED`). registry: of further
    documents. dynamic: whether dynamic anchors are looked for, and
    dynamic scopes kept apart; most schemas need neither. ``first``: the context of the root.

    >>> refs = References({"$defs": {"n": {"type": "null"}}}, 2020, None, dynamic=False)
    >>> value, context, trail = refs.target("#/$defs/n", refs.first, ("", "$ref"))
    >>> value, pointer_text(trail)
    ({'type': 'null'}, '/$defs/n')
    """

    def __init__(
        self,
        schema: Any,
        draft: int,
        registry: referencing.Registry[Any] | None,
        *,
        dynamic: bool,
        declared: bool = True,
    ) -> None:
        self._dynamic, self._given_registry = dynamic, registry
        self._keywords = KEYWORDS if declared else UNDECLARED
        self._registry: referencing.Registry[Any] | None = None
        self._resources: dict[tuple[int, str], Resource] = {}
        self._contexts: dict[tuple[Resource, int, Scope], Context] = {}
        self._targets: dict[tuple[Context, str], Place] = {}
        uri = None
        if isinstance(schema, dict):
            draft = declared_draft(schema, draft, "")
            uri = identifier(schema, draft)
        self.first = self._context_in(self._resource(schema, urldefrag(uri)[0] if uri else "", draft, ""), draft, ())

    # ── contexts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def context_of(self, value: dict[str, Any], context: Context, trail: Trail) -> Context:
        """The context inside a subschema, as its own identifier and ``$schema`` set it."""
        if value is context.resource.root:
            return context
        draft = declared_draft(value, context.draft, trail)
        uri = identifier(value, draft)
        if uri is not None:
            uri = urldefrag(urljoin(context.resource.uri, uri))[0]
            return self._context_in(self._resource(value, uri, draft, trail), draft, context.scope)
        return context if draft == context.draft else self._context_in(context.resource, draft, context.scope)

    def _resource(self, root: Any, uri: str, draft: int, trail: Trail) -> Resource:
        key = (id(root), uri)
        known = self._resources.get(key)
        if known is None:
            dynamic = dynamic_anchors(root, draft) if self._dynamic else {}
            known = self._resources[key] = Resource(root, uri, draft, trail, dynamic)
        return known

    def _context_in(self, resource: Resource, draft: int, scope: Scope) -> Context:
        """The context of a resource entered from a dynamic scope."""
        if resource.dynamic:
            declared = dict(scope)
            new = [(name, resource) for name in resource.dynamic if name not in declared]
            scope = tuple(sorted([*scope, *new], key=lambda entry: entry[0]))
        key = (resource, draft, scope)
        known = self._contexts.get(key)
        if known is None:
            known = self._contexts[key] = Context(resource, draft, scope, self._keywords[draft])
        return known

    # ── targets ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def target(self, reference: str, context: Context, trail: Trail) -> Place:
        """What a reference names. ``trail``: of its keyword, for errors."""
        known = self._targets.get((context, reference))
        if known is None:
            resource = context.resource
            uri, fragment = resource.uri, reference[1:]
            if not reference.startswith("#"):
                uri, fragment = urldefrag(urljoin(resource.uri, reference))
            inside, anchored = context, None
            if uri != resource.uri or (fragment and not fragment.startswith("/")):
                inside, anchored = self._look_up(uri, fragment, reference, context, trail)
            if anchored is None:
                known = self._at_pointer(unquote(fragment), inside, reference, trail)
            else:
                known = (anchored, inside, f"{inside.resource.uri}#{fragment}")
            if not isinstance(known[0], (dict, bool)):
                found = json_type(known[0])
                raise SchemaError(
                    f"{quoted(reference)} names {found}, which is not a schema", pointer_text(trail), trail[-1]
                )
            self._targets[context, reference] = known
        return known

    def dynamic_target(self, schema: dict[str, Any], context: Context, trail: Trail) -> Place:
        """What the ``$dynamicRef`` or ``$recursiveRef`` of a subschema names: the outermost of the resources entered on the way
        that declares the anchor, if the reference leads to a dynamic anchor at all."""
        reference = schema["$dynamicRef"] if context.draft >= 2020 else "#"
        place = self.target(reference, context, (trail, "$dynamicRef" if context.draft >= 2020 else "$recursiveRef"))
        name = RECURSIVE if context.draft == 2019 else urldefrag(reference)[1]
        if place[1].resource.dynamic.get(name) is place[0]:
            outermost = dict(context.scope).get(name)
            if outermost is not None:
                inside = self._context_in(outermost, outermost.draft, context.scope)
                return outermost.dynamic[name], inside, f"{outermost.uri}#{name}"
        return place

    def foreign_documents(self) -> dict[str, tuple[int, Any]]:
        """URI → (draft, contents) of what references named in the given registry: with it the schema stands alone."""
        if self._given_registry is None:
            return {}
        own = self._with_root(referencing.jsonschema.EMPTY_REGISTRY).crawl()
        found = {}
        for (_, uri), resource in self._resources.items():
            looked_up = resource.trail == f"{uri}#" and not _is_official(uri)
            if looked_up and uri not in own:
                found[uri] = (resource.draft, resource.root)
        return found

    def _at_pointer(self, pointer: str, context: Context, reference: str, where: Trail) -> Place:
        """Follow a JSON pointer from the root of a resource, entering the resources embedded on the way."""
        value, trail = context.resource.root, context.resource.trail
        below: int | None = SCHEMA  # what ``value`` is: a subschema, or an array or object of them; None: unknown
        for raw in pointer.split("/")[1:]:
            if below == SCHEMA and isinstance(value, dict):
                context = self.context_of(value, context, trail)
            step = raw.replace("~1", "/").replace("~0", "~") if "~" in raw else raw
            inner, step_taken = step_into(value, step, reference, where)
            if below == SCHEMA and isinstance(value, dict):
                kind = kind_below(step, context.draft)
                if kind == ITEMS:
                    kind = SCHEMAS if isinstance(inner, list) else SCHEMA
                below = None if kind in (NOTHING, REFERENCE, DYNAMIC, REGEX) else kind
            else:
                below = SCHEMA if below in (SCHEMAS, NAMED, REGEXES, DEPENDENCIES) else None
            value, trail = inner, (trail, step_taken)
        return value, context, trail

    def _look_up(self, uri: str, fragment: str, reference: str, context: Context, where: Trail) -> tuple[Context, Any]:
        """The context of the resource that a URI names; with a plain-name fragment also the subschema that it names."""
        try:
            retrieved = self._retrieve(uri)
            contents = retrieved.value.contents
            anchored = None
            if fragment and not fragment.startswith("/"):
                anchor = retrieved.registry.anchor(official_uri(uri), fragment).value
                anchored = anchor.resource.contents
        except (LookupError, referencing.exceptions.Unresolvable, ValueError, AttributeError, TypeError) as error:
            raise SchemaError(
                f"cannot resolve {quoted(reference)}: there is no such place in the schema or the registry "
                "(documents are never fetched; give a registry)",
                pointer_text(where),
                where[-1],
            ) from error
        draft = declared_draft(contents, context.draft, where) if isinstance(contents, dict) else context.draft
        resource = self._resource(contents, uri, draft, f"{uri}#")
        return self._context_in(resource, draft, context.scope), anchored

    def _with_root(self, registry: referencing.Registry[Any]) -> referencing.Registry[Any]:
        root = self.first.resource
        resource = SPECIFICATIONS[self.first.draft].create_resource(root.root)
        with_root: referencing.Registry[Any] = registry.with_resource(root.uri, resource)
        return with_root

    def _retrieve(self, uri: str) -> Any:
        if self._registry is None:
            known = referencing.jsonschema.EMPTY_REGISTRY if self._given_registry is None else self._given_registry
            self._registry = self._with_root(known)
        if _is_official(uri):
            return _official_registry().get_or_retrieve(official_uri(uri))
        retrieved = self._registry.get_or_retrieve(uri)
        self._registry = retrieved.registry
        return retrieved


def _is_official(uri: str) -> bool:
    """Whether a URI names a meta-schema, which is always at hand."""
    return "json-schema.org/" in uri and official_uri(uri) in _official_registry()


def _official_registry() -> Any:
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # late: few schemas refer to one

    return REGISTRY
