"""Which keyword of a schema in a grammar stands in a text's way."""

from __future__ import annotations

import pytest

from fsmc.compiler.cfg.blame import blame
from fsmc.compiler.cfg.recipe import GrammarRecipe

CALLS = r"""start: "call " name "(" args ")" | "set " number ";"
name: /[a-z]+/
args: %json {
  "type": "object",
  "properties": {"age": {"type": "integer", "maximum": 150}},
  "required": ["age"], "additionalProperties": false
}
// a template, whose schema is there twice
list{x}: x ("," x)*
number: list{%json {"type": "integer", "minimum": 10, "maximum": 20}}
"""


def of(text: str, grammar: str = CALLS):
    recipe, data = GrammarRecipe(grammar), text.encode()
    machine = recipe.build()
    offset = next((n for n in range(len(data)) if machine.run(data[: n + 1]) is None), len(data))
    return blame(recipe, data, offset)


@pytest.mark.parametrize(
    ("text", "pointers", "line"),
    [
        ('call f({"age": 151})', ["/properties/age/maximum"], 3),
        ('call f({"age": "x"})', ["/properties/age/type"], 3),
        ("call f({})", ["/required"], 3),
        ('call f({"age": 1, "x": 1})', ["/additionalProperties"], 3),
        ("call f([])", ["/type"], 3),
        ("set 21;", ["/maximum"], 10),
        ("set 5;", ["/minimum", "/maximum"], 10),
        ("call 7", [], None),
        ('call f({"age": 1}}', [], None),
        ("call f(", [], None),
    ],
)
def test_keyword_and_line(text: str, pointers: list[str], line: int | None) -> None:
    found = of(text)
    assert ([keyword.pointer for keyword in found.keywords], found.line) == (pointers, line)
    assert found.complete


def test_a_schema_beside_which_not_every_value_can_stand() -> None:
    """The grammar with `true` in the schema's place would be refused: a value or the word, which begin alike."""
    grammar = 'start: value | "null" /[0-9]/\nvalue: %json {"type": "object", "maxProperties": 1}'
    found = of('{"a": 1, ', grammar)
    assert ([keyword.pointer for keyword in found.keywords], found.line) == (["/maxProperties"], 2)


def test_the_search_ends_in_time() -> None:
    recipe = GrammarRecipe(CALLS)
    assert not blame(recipe, b"call f([", 7, max_seconds=0).complete
