"""What requests ask for, in the words of the engines: OpenAI's ``response_format``, vLLM's ``structured_outputs``, SGLang's
sampling parameters. Exactly one constraint comes out, with what the request says about its layout.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fsmc.compiler.errors import ConstraintError, type_of
from fsmc.compiler.one_constraint import OF_ENGINES, SCHEMA_KEYWORDS, WRAPPERS, refuse_others

Kind = Literal["json_schema", "regex", "choice", "grammar", "structural_tag"]

_SGLANG = ("json_schema", "regex", "ebnf", "structural_tag")
_VLLM = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
_VLLM_OPTION_KINDS = {
    "disable_any_whitespace": ("json", "json_object", "structural_tag"),
    "disable_additional_properties": ("json", "json_object"),
}
_VLLM_OPTIONS = ("disable_any_whitespace", "disable_additional_properties", "disable_fallback", "whitespace_pattern")
_RESPONSE_FORMATS = ("text", "json_object", "json_schema", "structural_tag", "grammar", "regex")
_TAG_FORMATS = ("const_string", "any_text", "sequence", "or", "tag", "triggered_tags", "tags_with_separator")
"""Formats of structural tags that stand by themselves."""
_JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

_ANY_WHITESPACE = (r"[ \n\t]*", r"[\n\t ]*", r"[ \t\n\r]*", r"[\n\r\t ]*", r"\s*", r"[\s]*")
"""White-space patterns that mean what flexible layout does."""

_ANY_JSON = "$$ANY$$"
"""SGLang's schema of any JSON text."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """kind and value: what to compile, and by which method of `GrammarCompiler`. layout: options that differ from the
    compiler's own. syntax: of a grammar, if it was said."""

    kind: Kind
    value: Any
    layout: Mapping[str, Any] = field(default_factory=dict)
    syntax: str | None = None


def read_constraint(request: Any) -> Constraint:
    """The constraint that a request's dict (or the object that an engine makes of it) asks for.

    Understood: a ``response_format``, a ``structured_outputs`` or SGLang's parameters, by themselves or as the member of that
    name in a larger dict; what OpenAI's Responses API has as ``text.format`` in its place; a JSON Schema or a type for pydantic; a list of choices. Raises ConstraintError with the place,
    also for none or several constraints at once.

    >>> read_constraint({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null"}}}).value
    {'type': 'null'}
    >>> read_constraint({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "null"}, "strict": True}}}).value
    {'type': 'null'}
    >>> read_constraint({"structured_outputs": {"choice": ["a", "b"]}})
    Constraint(kind='choice', value=['a', 'b'], layout={}, syntax=None)
    >>> read_constraint({"regex": "a+", "ebnf": "root ::= 'a'"})
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.ConstraintError: only one of json_schema, regex, ebnf, structural_tag can be set, not regex and ebnf
    """
    if isinstance(request, type):
        return Constraint("json_schema", request)
    request = _as_dict(request)
    if isinstance(request, (list, tuple)):
        return Constraint("choice", list(request))
    if not isinstance(request, dict):
        raise ConstraintError(f"a constraint is a dict, not {type_of(request)}")
    wrapped = [name for name in WRAPPERS if request.get(name) is not None]
    text = _as_dict(request.get("text"))
    if isinstance(text, dict) and text.get("format") is not None:  # else it is a prompt
        request = {**request, "text.format": text["format"]}
        wrapped.append("text.format")
    if len(wrapped) > 1:
        raise ConstraintError(f"only one of {', '.join(WRAPPERS)}, text.format can be set, not {' and '.join(wrapped)}")
    if wrapped:
        refuse_others(request, wrapped, names=OF_ENGINES)
        if request.get("type") in (*_RESPONSE_FORMATS, *_TAG_FORMATS, *_JSON_TYPES):
            raise ConstraintError(f"exactly one constraint must be set, not {wrapped[0]} and type")
        if "structures" in request and "triggers" in request:
            raise ConstraintError(f"exactly one constraint must be set, not {wrapped[0]} and structures")
        inner = _as_dict(request[wrapped[0]])
        if not isinstance(inner, dict):
            raise ConstraintError(f"must be an object, not {type_of(inner)}", wrapped[0])
        readers = dict.fromkeys(("response_format", "text.format"), _response_format)
        readers["structured_outputs"] = _structured_outputs
        return readers.get(wrapped[0], _sampling_params)(inner, wrapped[0])
    if _is_response_format(request):
        return _response_format(request, "response_format")
    said = {name for name, given in request.items() if given is not None}
    if "type" in said:
        refuse_others(request, ["a JSON Schema's type"], names=OF_ENGINES)
    of_schema = [name for name in SCHEMA_KEYWORDS[1:] if name in said]
    if of_schema:
        refuse_others(request, [f"a JSON Schema's {of_schema[0]}"], names=OF_ENGINES)
    for name in OF_ENGINES:
        if name in said:
            refuse_others(request, [name, *_SGLANG, *_VLLM], names=OF_ENGINES)
            break
    vllm = said & ({*_VLLM, *_VLLM_OPTIONS} - set(_SGLANG))  # what only vLLM says
    if vllm:
        sglang = said & (set(_SGLANG) - set(_VLLM))
        if sglang:
            raise ConstraintError(f"{min(vllm)} is vLLM's and {min(sglang)} is SGLang's: only one can be set")
        return _structured_outputs(request, "structured_outputs")
    if any(name in request for name in _SGLANG):
        return _sampling_params(request, "")
    if any(name in request for name in ("type", *SCHEMA_KEYWORDS)):
        return Constraint("json_schema", request)
    if not said:
        raise ConstraintError(
            "nothing is asked for: exactly one constraint must be set, as {'regex': ...}, {'json_schema': ...} or a response_format; "
            "for any JSON text compile_json_schema({})"
        )
    older = sorted(name for name in said if str(name).startswith("guided_"))
    if older:
        what = f"'{older[0][7:]}': ..."
        raise ConstraintError(f"is an older name of vLLM's: write {{'structured_outputs': {{{what}}}}}", older[0])
    if not said.intersection(_SGLANG):
        hint = "a JSON Schema by itself goes to compile_json_schema"
        raise ConstraintError(f"one of {', '.join(_SGLANG)} must be set, and none is; {hint}")
    return _sampling_params(request, "")


def _is_response_format(request: dict[str, Any]) -> bool:
    type_ = request.get("type")
    if "format" in request and type_ == "structural_tag":
        return True
    if "structures" in request and "triggers" in request:
        return True
    return isinstance(type_, str) and type_ not in _JSON_TYPES


# ── OpenAI ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _response_format(value: dict[str, Any], place: str) -> Constraint:
    type_ = value.get("type", "structural_tag" if "structures" in value else None)
    if type_ == "text":
        refuse_others(value, ["text"], place)
        return Constraint("structural_tag", {"type": "any_text"})
    if type_ == "json_object":
        refuse_others(value, ["json_object", "schema"], place)
        schema = value.get("schema")  # as llama.cpp and others have it
        return Constraint("json_schema", {"type": "object"} if schema is None else schema)
    if type_ == "json_schema":
        where = f"{place}.json_schema"
        name = "json_schema" if value.get("json_schema") is not None else "schema"
        refuse_others(value, [name, *(["schema_"] if name == "schema" else [])], place)
        described = value["json_schema"] if name == "json_schema" else value if "schema" in value else None
        if not isinstance(described, dict):
            raise ConstraintError('is missing: {"name": ..., "schema": {...}}', where)
        name = "schema" if described.get("schema") is not None else "schema_"
        schema = described.get(name)
        if schema is None:
            raise ConstraintError("is missing", f"{where}.schema")
        refuse_others(described, [name], where)
        return Constraint("json_schema", schema)
    if type_ == "regex":
        name = "regex" if value.get("regex") is not None else "pattern"
        refuse_others(value, [name], place)
        return Constraint("regex", _text(value, name, place))
    if type_ == "grammar":
        name = "grammar" if value.get("grammar") is not None else "definition"
        refuse_others(value, [name], place)
        described = value.get("grammar", value)
        if isinstance(described, dict) and "definition" in described:
            refuse_others(described, ["definition"], f"{place}.grammar")
            syntax = described.get("syntax")
            if syntax not in (None, "lark", "ebnf", "regex"):
                raise ConstraintError(f"{syntax!r} is none of lark, ebnf, regex", f"{place}.grammar.syntax")
            text = _text(described, "definition", f"{place}.grammar")
            return Constraint("regex", text) if syntax == "regex" else Constraint("grammar", text, syntax=syntax)
        return Constraint("grammar", _text(value, "grammar", place))
    if type_ == "structural_tag" or isinstance(type_, str):
        is_format = type_ != "structural_tag"
        if is_format and type_ not in _TAG_FORMATS:
            raise ConstraintError(f"{type_!r} is none of {', '.join(_RESPONSE_FORMATS)}", f"{place}.type")
        return Constraint("structural_tag", value)
    raise ConstraintError(f"must be one of {', '.join(_RESPONSE_FORMATS)}", f"{place}.type")


# ── vLLM ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _structured_outputs(value: dict[str, Any], place: str) -> Constraint:
    unknown = [name for name in value if name not in (*_VLLM, *_VLLM_OPTIONS) and not str(name).startswith("_")]
    if unknown:
        raise ConstraintError(
            f"is not known here (known: {', '.join((*_VLLM, *_VLLM_OPTIONS))})", f"{place}.{unknown[0]}"
        )
    name = _only_one(value, _VLLM, place)
    given = value[name]
    for option in ("disable_any_whitespace", "disable_additional_properties", "disable_fallback"):
        if not isinstance(value.get(option), (bool, type(None))):
            raise ConstraintError(f"must be true or false, not {type_of(value[option])}", f"{place}.{option}")
    layout = _layout(value, place)
    for option, kinds in _VLLM_OPTION_KINDS.items():
        if value.get(option) and name not in kinds:
            raise ConstraintError(f"goes with {', '.join(kinds)}, not with {name}", f"{place}.{option}")
    if name in ("json", "json_object"):
        schema = given if name == "json" else {"type": "object"}
        if name == "json_object" and given is not True:
            raise ConstraintError("must be true, or left out", f"{place}.json_object")
        if value.get("disable_additional_properties"):
            schema = _schema(schema, f"{place}.json")
            try:
                schema = _closed(schema)
            except RecursionError:
                raise ConstraintError("nests too deeply, or holds itself", f"{place}.{name}") from None
        return Constraint("json_schema", schema, layout)
    if name == "structural_tag":
        return Constraint("structural_tag", given, layout)
    if name == "choice":
        return Constraint("choice", given)
    text = _text(value, name, place)
    return Constraint("regex" if name == "regex" else "grammar", text)


def _layout(value: dict[str, Any], place: str) -> dict[str, Any]:
    pattern = value.get("whitespace_pattern")
    if pattern is None and not value.get("disable_any_whitespace"):
        return {}
    if not isinstance(pattern, (str, type(None))):
        raise ConstraintError(f"must be a text, not {type_of(pattern)}", f"{place}.whitespace_pattern")
    if pattern and value.get("disable_any_whitespace"):
        raise ConstraintError("allows white space, and disable_any_whitespace none", f"{place}.whitespace_pattern")
    if pattern == "" or value.get("disable_any_whitespace"):
        return {"whitespace": "compact"}
    if pattern in _ANY_WHITESPACE:
        return {"whitespace": "flexible"}
    raise ConstraintError(
        f"{pattern!r} is not supported: '' (none), {_ANY_WHITESPACE[0]!r}, or disable_any_whitespace",
        f"{place}.whitespace_pattern",
    )


def _closed(schema: Any) -> Any:
    """The schema with ``additionalProperties: false`` in each object that lists properties and says nothing of others."""
    if isinstance(schema, list):
        return [_closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {
        key: {name: _closed(inner) for name, inner in value.items()}
        if key in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
        and isinstance(value, dict)
        else value
        if key in ("enum", "const", "default", "examples")
        else _closed(value)
        for key, value in schema.items()
    }
    if ("properties" in schema or "patternProperties" in schema) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


# ── SGLang ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sampling_params(value: dict[str, Any], place: str) -> Constraint:
    """Other parameters (temperature and so on) may stand beside the constraint."""
    name = _only_one(value, _SGLANG, place)
    refuse_others(value, [name], place, names=(*WRAPPERS, *OF_ENGINES))
    given = value[name]
    if name == "json_schema":
        return Constraint("json_schema", {} if given == _ANY_JSON else given)
    if name == "structural_tag":
        return Constraint("structural_tag", given)
    return Constraint(
        "regex" if name == "regex" else "grammar", _text(value, name, place), syntax="ebnf" if name == "ebnf" else None
    )


# ── what all share ───────────────────────────────────────────────────────────────────────────────────────────────────


def _only_one(value: dict[str, Any], names: tuple[str, ...], place: str) -> str:
    given = [name for name in names if value.get(name) is not None]
    if len(given) > 1:
        raise ConstraintError(f"only one of {', '.join(names)} can be set, not {' and '.join(given)}", place)
    if not given:
        raise ConstraintError(f"one of {', '.join(names)} must be set, and none is", place)
    return given[0]


def _text(value: dict[str, Any], name: str, place: str) -> str:
    where = f"{place}.{name}".lstrip(".")
    found = value.get(name)
    if not isinstance(found, str):
        raise ConstraintError(f"must be a text, not {type_of(found)}", where)
    if not found.strip() and name != "regex":
        raise ConstraintError("is empty", where)
    return found


def _schema(schema: Any, place: str) -> Any:
    """A schema as a dict."""
    if isinstance(schema, str):
        try:
            return json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise ConstraintError(f"is not JSON: {error}", place) from error
    return schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema


def _as_dict(value: Any) -> Any:
    """Objects that engines make of such dicts, as dicts again."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(by_alias=True, exclude_none=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return value
