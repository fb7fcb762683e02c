"""The classes of keys, against every key set judged key by key."""

import random

import pytest

from fsmc.compiler.schema.atoms import Pattern, StrEnum
from fsmc.compiler.schema.formula import TRUE, Formulas
from fsmc.compiler.schema.key_space import key_space
from fsmc.compiler.schema.string_machines import string_holds

OTHERS = ("x", "ax", "bb", "zc", "zz")


def random_key_set(table: Formulas, names: tuple[str, ...], rng: random.Random, depth: int) -> int:
    kind = rng.randrange(7)
    if kind < 2 or depth == 0:
        return table.atom(StrEnum(frozenset(rng.sample(names, rng.randint(1, len(names))))))
    if kind == 2:
        return table.atom(Pattern(rng.choice(["^a", "b", "c$", "x"])))
    if kind == 3:
        return table.negate(random_key_set(table, names, rng, depth - 1))
    if kind == 4:
        return TRUE
    parts = [random_key_set(table, names, rng, depth - 1) for _ in range(2)]
    return table.conj(parts) if kind == 5 else table.disj(parts)


@pytest.mark.parametrize("seed", range(100))
def test_a_mask_holds_the_classes_of_the_keys_in_the_set(seed: int) -> None:
    rng, table = random.Random(seed), Formulas()
    names = tuple("abcde"[: rng.randint(1, 5)])
    sets = [random_key_set(table, names, rng, 2) for _ in range(rng.randint(1, 4))]
    keys = key_space(names, sets, table)
    for key_set in sets:
        mask = keys.mask_of[key_set]
        for c, text in [*enumerate(names), *((keys.class_of(text), text) for text in OTHERS)]:
            assert mask >> c & 1 == string_holds(key_set, text, table), (text, table.show(key_set))
