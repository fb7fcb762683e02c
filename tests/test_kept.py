"""What is kept between constraints is bounded in bytes."""

from __future__ import annotations

import random
import threading

from fsmc.compiler.kept import Kept, kept
from fsmc.compiler.schema import string_machines


def test_never_more_than_the_bound_and_the_last_ones_are_there() -> None:
    values, rng = Kept[int](100_000), random.Random(1)
    for i in range(5_000):
        values.put(i, i, rng.choice((10, 500, 4_000, 60_000)))
        assert values.nbytes <= 100_000
        assert values.get(i) in (i, None)
    values.put("a", 1, 10)
    for i in range(300):
        values.put(i, i, 700)
        assert values.get("a") == 1, "what is asked for stays"
    values.clear()
    assert values.get("a") is None and values.nbytes == 0


def test_threads() -> None:
    @kept(20_000, lambda text, n: n)
    def text_of(n: int) -> str:
        return "x" * n

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(2_000):
            n = rng.randrange(400)
            wrong.extend([n] if len(text_of(n)) != n else [])

    wrong: list[int] = []
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and text_of.kept.nbytes <= 3 * 20_000  # type: ignore[attr-defined]


def test_machines_of_patterns() -> None:
    before = string_machines._DFAS
    string_machines._DFAS = Kept(1 << 20)
    try:
        for i in range(40):
            string_machines.pattern_dfa(f"^x{i}[a-z]{{1,900}}$")
        assert 0 < string_machines._DFAS.nbytes <= 1 << 20
    finally:
        string_machines._DFAS = before


def test_arguments_by_name_are_told_from_pairs() -> None:
    @kept(10_000, lambda *_: 1)
    def shown(a: object, b: object = None) -> tuple[object, object]:
        return a, b

    assert shown(1, ("b", 2)) == (1, ("b", 2)) and shown(1, b=2) == (1, 2) and shown(a=1, b=2) == (1, 2)
