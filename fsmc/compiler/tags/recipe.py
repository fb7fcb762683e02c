"""All that the machine of a structural tag is made from, and how an index file keeps it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.errors import ConstraintError, GrammarError
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.tags.clock import TagClock
from fsmc.compiler.tags.embedded import Embedded
from fsmc.compiler.tags.free_text import MAX_SOUGHT
from fsmc.compiler.tags.language import Marker, tag_language
from fsmc.compiler.tags.machine import TagMachine
from fsmc.compiler.tags.reading import nested_too_deeply, read_tag, text_of
from fsmc.compiler.tags.tree import GrammarText, Schema, literals


@dataclass(frozen=True)
class TagRecipe:
    """A structural tag and the special tokens that it names.

    tag: JSON text. names: marker ids, ascending, with their names; the k-th is letter k of the language. max_sought: bytes of the texts that end one
    free text, or that it excludes.

    >>> recipe = TagRecipe('{"type": "regex", "pattern": "a+"}', TextOptions())
    >>> TagRecipe.from_arrays(*recipe.to_arrays()).build().matches(b"aa")
    True
    """

    tag: str
    options: TextOptions
    names: tuple[tuple[int, bytes], ...] = ()
    max_sought: int = MAX_SOUGHT

    @classmethod
    def of(
        cls,
        tag: Any,
        options: TextOptions,
        special_texts: Mapping[int, bytes],
        special_ids: Iterable[int],
        max_sought: int = MAX_SOUGHT,
        clock: TagClock | None = None,
    ) -> TagRecipe:
        """That of a tag as users write it (see `read_tag`), for a vocabulary's special tokens. clock: what is looked at on the way."""
        dump = getattr(tag, "model_dump", None)
        tag = dump() if callable(dump) else tag
        if isinstance(tag, bytes):
            tag = text_of(tag)
        if not isinstance(tag, str):
            tag = _as_json(tag)
        tree = read_tag(tag) if clock is None else read_tag(tag, clock.check)
        texts, tokens = literals(tree)
        special = frozenset(special_ids)
        named = {i for i in tokens if isinstance(i, int) and i in special}
        named |= {i for i, name in special_texts.items() if name.decode("utf-8", "replace") in tokens}
        encoded = [text.encode() for text in texts]
        named |= {i for i, name in special_texts.items() if any(name in text for text in encoded)}
        recipe = cls(tag, options, tuple((i, special_texts.get(i, b"")) for i in sorted(named)), max_sought)
        recipe.__dict__["tree"] = tree
        return recipe

    @cached_property
    def tree(self) -> Any:
        """The tag, read."""
        return read_tag(self.tag)

    @property
    def text(self) -> str:
        """The tag as JSON text."""
        return self.tag

    @property
    def marker_ids(self) -> tuple[int, ...]:
        """The special tokens that are letters of the language."""
        return tuple(i for i, _ in self.names)

    def build(
        self, *, regex_limits: Mapping[str, Any] | None = None, clock: TagClock | None = None, **limits: Any
    ) -> RSM | LazyRSM:
        """The machine: a plain DFA where the tag has no JSON schema, else one that grows. Arguments: as of `build_with_notes`."""
        return self.build_with_notes(regex_limits=regex_limits, clock=clock, **limits)[0]

    def build_with_notes(
        self, *, regex_limits: Mapping[str, Any] | None = None, clock: TagClock | None = None, **limits: Any
    ) -> tuple[RSM | LazyRSM, tuple[str, ...]]:
        """The machine, and what a user should know of the tag: parts that have no text, so that no text goes there.

        limits: of `SchemaMachine`; its ``max_seconds`` are those of the whole. clock: what is left of them (default: all).
        """
        clock = TagClock(limits.get("max_seconds", MAX_SECONDS)) if clock is None else clock
        with clock.as_a_whole():
            return self._build(regex_limits or {}, clock, limits)

    def _build(
        self, regex_limits: Mapping[str, Any], clock: TagClock, limits: dict[str, Any]
    ) -> tuple[RSM | LazyRSM, tuple[str, ...]]:
        markers: dict[str | int, Marker] = {}
        for k, (token_id, name) in enumerate(self.names):
            markers[token_id] = (name, k)
            if name:
                markers[name.decode("utf-8", "replace")] = (name, k)
        language = tag_language(
            self.tree,
            markers,
            partial(grammar_machine, clock=clock),
            max_sought=self.max_sought,
            clock=clock,
            **regex_limits,
        )
        if not language.calls:
            return RSM.from_dfa(language.dfa), language.notes
        schemas = [called for called in language.calls if isinstance(called, Schema)]
        machine = TagMachine(language, self._layout(schemas), clock=clock, **limits)
        return machine.handed_over(), machine.notes

    def _layout(self, schemas: Iterable[Schema]) -> TextOptions:
        """The options, as the tag's schemas change them: for all of them alike."""
        changes: dict[str, Any] = {}
        listed = list(schemas)
        if any(schema.any_order for schema in listed):
            changes["property_order"] = "any"
        most = {schema.max_whitespace for schema in listed if schema.max_whitespace is not None}
        if most:
            least = min(most)
            changes |= {"max_whitespace": least} if least else {"whitespace": "compact"}
        return TextOptions(**{**asdict(self.options), **changes})

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[np.uint8]], dict[str, str]]:
        """What `from_arrays` needs."""
        settings = {
            "options": asdict(self.options),
            "names": [(i, name.decode("utf-8", "surrogateescape")) for i, name in self.names],
            "max_sought": self.max_sought,
        }
        return {"tag.text": np.frombuffer(self.tag.encode(), np.uint8)}, {"tag": json.dumps(settings)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> TagRecipe:
        """The recipe again. Raises KeyError, TypeError or ValueError for what `to_arrays` did not make."""
        settings = json.loads(metadata["tag"])
        names = tuple((int(i), name.encode("utf-8", "surrogateescape")) for i, name in settings["names"])
        return cls(
            arrays["tag.text"].tobytes().decode(),
            TextOptions(**settings["options"]),
            names,
            settings.get("max_sought", MAX_SOUGHT),
        )


def grammar_machine(node: GrammarText, clock: TagClock) -> DFA | Embedded:
    """The machine of a grammar, made in what is left of the time: a DFA if it is regular. Raises what reading a grammar raises."""
    from fsmc.compiler.cfg.machine import GrammarMachine
    from fsmc.compiler.cfg.recipe import GrammarRecipe

    try:
        machine = GrammarRecipe(node.grammar, node.syntax).build(max_seconds=clock.remaining)
    except GrammarError as error:
        raise error.placed(node.place) from None
    if isinstance(machine, RSM):
        return machine.to_dfa()
    assert isinstance(machine.builder, GrammarMachine)
    machine.builder.max_seconds = clock.max_seconds  # of the rows that are made later, each
    return Embedded(machine, node.place)


class _HasDecimals(Exception):
    """Numbers that are written digit by digit."""


def _as_json(tag: Any) -> str:
    """A tag as JSON text: types for pydantic that stand for schemas become schemas."""
    from fsmc.compiler.schema.recipe import exact_json
    from fsmc.compiler.schema.source import schema_of

    def default(value: Any) -> Any:
        if isinstance(value, type):
            return schema_of(value)
        if isinstance(value, Decimal):
            raise _HasDecimals
        raise TypeError(f"a {type(value).__name__} is not JSON")

    try:
        return json.dumps(tag, default=default, ensure_ascii=False)
    except RecursionError as error:
        raise nested_too_deeply() from error
    except _HasDecimals:
        return exact_json(tag)
    except (TypeError, ValueError) as error:
        raise ConstraintError(f"cannot be written as JSON: {error}", "structural_tag") from error
