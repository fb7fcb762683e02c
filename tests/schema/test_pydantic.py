"""Python types as schemas: pydantic models, dataclasses, TypedDicts and plain types, through pydantic's TypeAdapter."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

import fsmc
from fsmc.compiler.errors import SchemaError

pydantic = pytest.importorskip("pydantic", reason="types become schemas through pydantic")
typing_extensions = pytest.importorskip("typing_extensions", reason="pydantic wants its TypedDict before Python 3.12")

VOCAB = fsmc.Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), b""], eos_token_ids=[256])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(pydantic.BaseModel):
    x: int
    y: Annotated[float, pydantic.Field(ge=0)] = 0.0


class Shape(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    name: Annotated[str, pydantic.Field(pattern="^[a-z]+$", max_length=8)]
    points: Annotated[list[Point], pydantic.Field(min_length=1)]
    colour: Colour = Colour.RED
    inside: list[Shape] = pydantic.Field(default=[])


@dataclass
class Order:
    item: str
    count: Annotated[int, pydantic.Field(gt=0)]


class Options(typing_extensions.TypedDict):
    verbose: bool
    level: typing_extensions.NotRequired[Literal[1, 2, 3]]


CASES: list[tuple[Any, list[str], list[str]]] = [
    (
        Shape,
        [
            '{"name": "line", "points": [{"x": 1, "y": 0.5}, {"x": -2}]}',
            '{"name": "a", "points": [{"x": 1}], "colour": "blue", "inside": [{"name": "b", "points": [{"x": 0}]}]}',
        ],
        [
            '{"name": "Line", "points": [{"x": 1}]}',
            '{"name": "line", "points": []}',
            '{"name": "line", "points": [{"x": 1, "y": -1}]}',
            '{"name": "line", "points": [{"x": 1}], "colour": "green"}',
            '{"name": "line", "points": [{"x": 1}], "other": 1}',
        ],
    ),
    (Order, ['{"item": "tea", "count": 2}'], ['{"item": "tea"}', '{"item": "tea", "count": 0}']),
    (Options, ['{"verbose": true}', '{"verbose": false, "level": 3}'], ["{}", '{"verbose": true, "level": 4}']),
    (list[int], ["[1, 2]"], ['["a"]', "1"]),
    (Literal["yes", "no"], ['"yes"'], ['"maybe"']),
    (int | None, ["1", "null"], ['"1"']),
]


@pytest.mark.parametrize(("type_", "yes", "no"), CASES, ids=[str(getattr(c[0], "__name__", c[0])) for c in CASES])
def test_types(type_: Any, yes: list[str], no: list[str]) -> None:
    grammar = COMPILER.compile_json_schema(type_)
    assert [grammar.machine.matches(text.encode()) for text in yes + no] == [True] * len(yes) + [False] * len(no)
    adapter = pydantic.TypeAdapter(type_)
    for text in yes:
        adapter.validate_json(text)
    for text in no:
        with pytest.raises(pydantic.ValidationError):
            adapter.validate_json(text, strict=True)  # or it would read a number from a string


def test_what_a_model_writes_is_accepted() -> None:
    """In the layout of ``model_dump_json``, with and without an indent."""
    shape = Shape(name="line", points=[Point(x=1, y=2.5)], inside=[Shape(name="dot", points=[Point(x=0)])])
    compact = fsmc.GrammarCompiler(VOCAB, cache_dir=None, whitespace="compact").compile_json_schema(Shape)
    assert compact.machine.matches(shape.model_dump_json().encode())
    indented = fsmc.GrammarCompiler(VOCAB, cache_dir=None, indent=2).compile_json_schema(Shape)
    assert indented.machine.matches(json.dumps(shape.model_dump(mode="json"), indent=2).encode())


def test_a_model_on_disk(tmp_path) -> None:
    grammar = COMPILER.compile_json_schema(Shape)
    grammar.save(tmp_path / "shape.fsmc")
    loaded = fsmc.CompiledGrammar.load(tmp_path / "shape.fsmc", VOCAB)
    assert json.loads(loaded.source) == Shape.model_json_schema()
    assert loaded.machine.matches(CASES[0][1][1].encode())


@pytest.mark.parametrize("source", [print, 3, None, b"{}", [1]])
def test_what_is_no_type(source: Any) -> None:
    with pytest.raises(SchemaError, match="schema"):
        COMPILER.compile_json_schema(source)
