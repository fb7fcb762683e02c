"""Small schemas in which conditions on one object, or one array, interact as much as they can, and all small instances.

Values are null, 1 and 2, keys are a, b, ab and c: so every instance can be tried, and conditions contradict each other often.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

KEYS = ["a", "b", "ab", "c"]
PATTERNS = ["^a", "b$", "^[ab]$", "^(?!a)", "^[ac]$", "^a?$"]
_ABSENT = object()

OBJECTS: list[dict[str, Any]] = [
    {key: value for key, value in zip(KEYS, values, strict=True) if value is not _ABSENT}
    for values in itertools.product([_ABSENT, None, 1, 2], repeat=4)
]
ARRAYS: list[list[Any]] = [list(items) for n in range(5) for items in itertools.product([None, 1, 2], repeat=n)]

Leaf = Callable[[random.Random, int], dict[str, Any]]


def value_schema(rng: random.Random) -> Any:
    """A condition on a member's value, or an item."""
    choices: list[Any] = [True, True, False, {"type": "null"}, {"type": "integer"}, {"const": 1}, {"enum": [1, 2]}]
    choices += [{"enum": [2, None]}, {"not": {"const": 1}}, {"minimum": 2}, {"type": "array"}]
    return rng.choice(choices)


def object_schema(rng: random.Random, depth: int) -> dict[str, Any]:
    """A few keywords for objects."""
    names = lambda n: rng.sample(KEYS, n)  # noqa: E731
    makers: dict[str, Callable[[], Any]] = {
        "properties": lambda: {name: value_schema(rng) for name in names(rng.choice([1, 2, 3]))},
        "required": lambda: names(rng.choice([1, 1, 2])),
        "additionalProperties": lambda: rng.choice([False, value_schema(rng)]),
        "unevaluatedProperties": lambda: rng.choice([False, value_schema(rng)]),
        "patternProperties": lambda: {p: value_schema(rng) for p in rng.sample(PATTERNS, rng.choice([1, 2]))},
        "propertyNames": lambda: rng.choice(
            [
                {"enum": names(3)},
                {"pattern": rng.choice(PATTERNS)},
                {"maxLength": 1},
                {"not": {"pattern": rng.choice(PATTERNS)}},
            ]
        ),
        "minProperties": lambda: rng.choice([1, 2, 2, 3]),
        "maxProperties": lambda: rng.choice([0, 1, 2, 2, 3]),
        "dependentRequired": lambda: {name: names(rng.choice([1, 2])) for name in names(rng.choice([1, 2]))},
        "dependentSchemas": lambda: {names(1)[0]: mixed(rng, max(depth - 1, 0), object_schema)},
    }
    chosen = rng.sample([*sorted(makers), "properties", "required"], rng.choice([1, 1, 2, 2, 3, 4]))
    return {
        keyword: makers[keyword]() for keyword in dict.fromkeys(chosen) if keyword != "dependentSchemas" or depth > 0
    }


def array_schema(rng: random.Random, depth: int) -> dict[str, Any]:
    """A few keywords for arrays."""
    result: dict[str, Any] = {}
    keywords = ["prefixItems", "items", "contains", "contains", "minItems", "maxItems", "unevaluatedItems"]
    for keyword in rng.sample(keywords, rng.choice([1, 2, 2, 3, 4])):
        if keyword == "prefixItems":
            result[keyword] = [value_schema(rng) for _ in range(rng.choice([1, 2, 3]))]
        elif keyword in ("minItems", "maxItems"):
            result[keyword] = rng.choice([0, 1, 2, 3])
        else:
            result[keyword] = value_schema(rng)
        if keyword == "contains" and rng.random() < 0.5:
            result["minContains"] = rng.choice([0, 1, 2, 2, 3])
        if keyword == "contains" and rng.random() < 0.5:
            result["maxContains"] = rng.choice([0, 1, 1, 2])
    return result


def mixed(rng: random.Random, depth: int, leaf: Leaf) -> dict[str, Any]:
    """Leaves under allOf, anyOf, oneOf, not and if."""
    if depth == 0 or rng.random() < 0.2:
        return leaf(rng, depth)
    keyword = rng.choice(["allOf", "anyOf", "oneOf", "oneOf", "not", "if", "beside"])
    if keyword in ("allOf", "anyOf", "oneOf"):
        return {keyword: [mixed(rng, depth - 1, leaf) for _ in range(rng.choice([2, 2, 3]))]}
    if keyword == "beside":
        return {**leaf(rng, depth), **mixed(rng, depth - 1, leaf)}
    result = {keyword: mixed(rng, depth - 1, leaf)}
    if keyword == "if":
        result |= {branch: mixed(rng, depth - 1, leaf) for branch in ("then", "else") if rng.random() < 0.8}
    return result
