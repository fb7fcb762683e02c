"""``max_seconds`` of a structural tag is one limit on all that is done for it, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fsmc
from fsmc import jit
from fsmc.compiler.automata import subsets
from fsmc.compiler.cfg import nets
from fsmc.compiler.schema import clock as schema_clock
from fsmc.compiler.tags import clock as tag_clock

VOCAB = fsmc.Vocabulary.from_tokens([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])
LISTED = "".join(f'\nr{j} ::= "{j}" r{j} "y" | "z"' for j in range(50))
CONTENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "schemas": lambda i: {"type": "json_schema", "json_schema": {"properties": {f"x{i}": {"minimum": i}}}},
    "patterns": lambda i: {"type": "regex", "pattern": f"[a-z]{{{i}}}"},
    "items that differ": lambda i: {
        "type": "json_schema",
        "json_schema": {"type": "array", "uniqueItems": True, "items": {"enum": list(range(i + 3))}},
    },
    "large grammars": lambda i: {
        "type": "grammar",
        "grammar": "root ::= " + " | ".join(f"r{j}" for j in range(50 if i < 2 else 1)) + LISTED,
    },
    "grammars": lambda i: {"type": "grammar", "grammar": f'root ::= "a" root "b" | "{i}"'},
}
N = 200


def tag(content: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    tags = [{"type": "tag", "begin": f"<f{i}>", "content": content(i), "end": "</f>"} for i in range(N)]
    return {"type": "triggered_tags", "triggers": [f"<f{i}>" for i in range(N)], "tags": tags}


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A clock that goes on by a millisecond each time it is looked at."""
    n = [0]

    def look() -> float:
        n[0] += 1
        return n[0] / 1000

    for module in (jit, tag_clock, schema_clock, subsets, nets):
        monkeypatch.setattr(module, "working_seconds", look)
    yield n


@pytest.mark.parametrize("name", CONTENTS)
def test_one_clock_for_all_parts(name: str, ticks: list[int]) -> None:
    compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None, max_seconds=1_000)
    before = ticks[0]
    compiler.compile_structural_tag(tag(CONTENTS[name]))
    needed = (ticks[0] - before) / 1000
    assert needed > N / 1000  # each part looks at it
    for share in (0.05, 0.3, 0.6, 0.9):
        compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None, max_seconds=needed * share)
        with pytest.raises(fsmc.LimitExceeded) as error:
            compiler.compile_structural_tag(tag(CONTENTS[name]))
        assert error.value.name == "max_seconds" and error.value.limit == needed * share
        assert needed * share < error.value.reached < needed * share * 1.1 + 0.01


def test_what_is_made_later_has_its_own_time(ticks: list[int]) -> None:
    """Rows are made when a text gets there, each within the limit, however long ago the tag was compiled."""
    compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None, max_seconds=3)
    schema = {
        "type": "array",
        "items": {"anyOf": [{"type": "string", "pattern": "^a+$"}, {"type": "string", "format": "date"}]},
    }
    values = {"type": "json_schema", "json_schema": schema}
    pairs = {"type": "grammar", "grammar": 'root ::= "(" root ")" | "x" root | "."'}
    made = compiler.compile_structural_tag({"type": "sequence", "elements": [values, pairs]})
    ticks[0] += 10_000
    assert made.machine.matches(b'["aa", "2020-01-01"]' + b"(x" * 30 + b"." + b")" * 30)


def test_pieces_of_one_piece_of_work(ticks: list[int]) -> None:
    clock = schema_clock.Clock(max_seconds=1)
    clock.hold(0.0)
    ticks[0] += 2_000
    clock.restart()
    with pytest.raises(fsmc.LimitExceeded, match="max_seconds=1 "):
        clock.check()
    clock.release()
    clock.restart()
    clock.check()
