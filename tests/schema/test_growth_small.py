"""What `benchmarks/growth.py` measures, small and without a clock: how many states an instance takes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.machine import SchemaMachine, TextOptions

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
