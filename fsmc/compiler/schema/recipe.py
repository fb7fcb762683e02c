"""All that the machine of a schema is made from, and how an index file keeps it.

The machine itself is made as it is walked, so that there is little to store: an index file holds the schema, and loading
it compiles the schema anew, which takes about as long as reading the machine would.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import referencing
import referencing.jsonschema

from fsmc.compiler.errors import LimitExceeded, SchemaError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.references import SPECIFICATIONS
from fsmc.compiler.schema.source import MAX_DEPTH, parse_json, schema_of
from fsmc.compiler.schema.text_options import TextOptions


@dataclass(frozen=True)
class SchemaRecipe:
    """A schema and how to read it; see `GrammarCompiler.compile_json_schema` for the fields.

    >>> recipe = SchemaRecipe({"multipleOf": 0.1}, TextOptions(whitespace="compact"))
    >>> SchemaRecipe.from_arrays(*recipe.to_arrays()).text
    '{"multipleOf": 0.1}'
    """

    schema: dict[str, Any] | bool | str
    options: TextOptions = field(default_factory=TextOptions)
    draft: int | None = None
    unique_items: Literal["exact", "ignore"] = "exact"
    registry: referencing.Registry[Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.unique_items not in ("exact", "ignore"):
            raise ValueError(f"unique_items={self.unique_items!r} must be 'exact' or 'ignore'")
        object.__setattr__(self, "schema", schema_of(self.schema))

    @cached_property
    def document(self) -> SchemaDocument:
        """The schema, read and checked."""
        return SchemaDocument(self.schema, draft=self.draft, registry=self.registry)

    def build(self, **limits: Any) -> SchemaMachine:
        """A machine of the schema. limits: ``max_seconds``, ``max_states``, ``max_bytes`` of `SchemaMachine`."""
        ignore = self.unique_items == "ignore"
        return SchemaMachine(self.document, self.options, ignore_unique_items=ignore, **limits)

    @cached_property
    def text(self) -> str:
        """The schema as JSON text: as it was given, or written with every number exact."""
        return self.schema if isinstance(self.schema, str) else exact_json(self.schema)

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[np.uint8]], dict[str, str]]:
        """What `from_arrays` needs: texts as UTF-8 bytes, and settings. Documents of a registry are kept as they were used.

        Raises SchemaError where a schema that was given as a dict holds what is not JSON (in an annotation, say).
        """
        arrays = {"schema.text": _bytes_of(self.text)}
        foreign = self.document.foreign_documents()
        if foreign:
            arrays["schema.documents"] = _bytes_of(exact_json({uri: list(known) for uri, known in foreign.items()}))
        settings = {"options": asdict(self.options), "draft": self.draft, "unique_items": self.unique_items}
        return arrays, {"schema": json.dumps(settings)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[np.uint8]], metadata: dict[str, str]) -> SchemaRecipe:
        """The recipe again. Raises KeyError, TypeError or ValueError for what `to_arrays` did not make."""
        settings = json.loads(metadata["schema"])
        registry = None
        if "schema.documents" in arrays:
            documents = parse_json(_text_of(arrays["schema.documents"]))
            registry = referencing.jsonschema.EMPTY_REGISTRY.with_resources(
                (uri, SPECIFICATIONS[draft].create_resource(contents)) for uri, (draft, contents) in documents.items()
            )
        return cls(
            _text_of(arrays["schema.text"]),
            TextOptions(**settings["options"]),
            settings["draft"],
            settings["unique_items"],
            registry,
        )


def exact_json(value: Any) -> str:
    """A value as JSON text; Decimals keep every digit, as `parse_json` reads them. Raises SchemaError if it is not JSON.

    >>> from decimal import Decimal
    >>> exact_json({"maximum": [Decimal("1E+400"), Decimal("1.10"), 0.1]})
    '{"maximum": [1E+400, 1.10, 0.1]}'
    """
    try:
        try:
            return json.dumps(value, allow_nan=False)
        except TypeError:  # there are Decimals in it
            return _exact_json(value)
    except RecursionError as error:
        hint = "the schema nests too deeply: name parts in $defs"
        raise LimitExceeded("max_depth", MAX_DEPTH, MAX_DEPTH + 1, hint) from error
    except ValueError as error:
        raise SchemaError(f"cannot be stored as JSON: {error}", "", "") from error


def _exact_json(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_exact_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_exact_json, value)) + "]"
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"cannot be stored as JSON: {error}", "", "") from error


def _bytes_of(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _text_of(array: npt.NDArray[np.uint8]) -> str:
    return array.tobytes().decode("utf-8", "surrogatepass")
