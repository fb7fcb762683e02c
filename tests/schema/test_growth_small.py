"""What `benchmarks/growth.py` measures, small and without a clock: how many states an instance takes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.text_options import TextOptions

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "growth.py"
LINEAR = {
    "optional members": (50, 200),
    "optional members, any order": (50, 200),
    "required members, any order": (50, 200),
    "required members": (20, 80),
    "anyOf, told apart by a tag": (10, 40),
    "oneOf, told apart by a tag": (10, 40),
    "enum of strings": (50, 200),
    "maxLength": (1000, 4000),
    "maxItems": (50, 200),
    "nested references": (10, 40),
    "kilobytes of description": (10, 40),
}


@pytest.fixture(scope="module")
def growth() -> ModuleType:
    spec = importlib.util.spec_from_file_location("growth", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(BENCHMARK.parent))
        spec.loader.exec_module(module)
    return module


def states(case: tuple[object, object, dict[str, str]]) -> int:
    """How many states there are once the instance has been read, which has to be accepted."""
    schema, value, options = case
    rsm = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="json", **options)).rsm  # type: ignore[arg-type]
    assert rsm.matches(json.dumps(value).encode())
    return rsm.n_states


@pytest.mark.parametrize("subject", LINEAR)
def test_states_grow_with_the_schema(growth: ModuleType, subject: str) -> None:
    family, (small, large) = growth.SUBJECTS[subject][0], LINEAR[subject]
    assert states(family(large)) <= 1.3 * large / small * states(family(small))


def test_every_subject_accepts_its_instance(growth: ModuleType) -> None:
    for name, (family, sizes) in growth.SUBJECTS.items():
        assert states(family(sizes[0])) > 0, name


def chain(n: int) -> tuple[object, object, dict[str, str]]:
    """Each name asks for the next."""
    names = [f"k{i}" for i in range(n)]
    needs = {names[i]: {"required": [names[i + 1]], "properties": {names[i + 1]: {"minimum": i}}} for i in range(n - 1)}
    declared = {name: {"type": "integer"} for name in names}
    return {"type": "object", "properties": declared, "dependentSchemas": needs}, dict.fromkeys(names, n), {}


def pairs(n: int) -> tuple[object, object, dict[str, str]]:
    """Rules about members of their own."""
    rules = [
        {"if": {"required": [f"k{i}"]}, "then": {"required": [f"t{i}"]}, "else": {"required": [f"e{i}"]}}
        for i in range(n)
    ]
    names = [*(f"k{i}" for i in range(n)), *(f"t{i}" for i in range(n))]
    return {"type": "object", "properties": {k: {} for k in names}, "allOf": rules}, dict.fromkeys(names, 1), {}


def steps(case: tuple[object, object, dict[str, str]]) -> int:
    """How many formulas are made until the instance has been read."""
    schema, value, options = case
    machine = SchemaMachine(SchemaDocument(schema), TextOptions(whitespace="json", **options))  # type: ignore[arg-type]
    assert machine.rsm.matches(json.dumps(value).encode())
    return machine.table.n_steps


@pytest.mark.parametrize(
    "subject",
    [
        "anyOf, told apart by a tag",
        "oneOf, told apart by a tag",
        "anyOf, tag last",
        "oneOf, tag last",
        "if/then per choice",
    ],
)
def test_alternatives_are_not_compared_with_each_other(growth: ModuleType, subject: str) -> None:
    family = growth.SUBJECTS[subject][0]
    assert steps(family(80)) <= 1.3 * 4 * steps(family(20))


@pytest.mark.parametrize("family", [chain, pairs])
def test_conditions_on_each_other_cost_a_look_at_each_for_each_member(
    family: Callable[[int], tuple[object, object, dict[str, str]]],
) -> None:
    assert steps(family(60)) <= 1.3 * 9 * steps(family(20))
