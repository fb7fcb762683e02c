"""Where strings lead in an NFA, beside a reading of each string by itself."""

from __future__ import annotations

import random

import pytest

import fsmc
from fsmc.compiler.tags.clock import TagClock
from fsmc.compiler.tags.reached import Reached

Edges = list[tuple[int, int, int, int]]


def one_by_one(edges: Edges, epsilons: list[tuple[int, int]], starts: tuple[int, ...], string: bytes) -> set[int]:
    def closed(states: set[int]) -> set[int]:
        while more := {t for s, t in epsilons if s in states} - states:
            states = states | more
        return states

    here = closed(set(starts))
    for byte in string:
        here = closed({t for s, low, high, t in edges if s in here and low <= byte <= high})
    return here


def test_what_is_shared_changes_nothing() -> None:
    rng = random.Random(5)
    for _ in range(60):
        n = rng.randint(2, 8)
        edges = []
        for _ in range(rng.randint(1, 20)):
            low = rng.randint(97, 100)
            edges.append((rng.randrange(n), low, min(100, low + rng.choice([0, 0, 1, 3])), rng.randrange(n)))
        epsilons = [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randint(0, 5))]
        reached = Reached(edges, epsilons, TagClock(60.0))
        for _ in range(20):
            starts = tuple(rng.sample(range(n), rng.randint(1, 2)))
            string = bytes(rng.choices(b"abcd", k=rng.randint(0, 5)))
            assert reached.after(starts, string) == one_by_one(edges, epsilons, starts, string)


def test_the_clock_is_looked_at() -> None:
    clock = TagClock(60.0)
    reached = Reached([(0, 97, 98, q) for q in range(1000)], [(q, 0) for q in range(1000)], clock)
    clock.max_seconds = 0.0
    with pytest.raises(fsmc.LimitExceeded, match="max_seconds"):
        for length in range(200):
            reached.after((0,), b"a" * length)


def test_work_grows_with_the_bytes_of_the_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states that are read while the tags of n triggers are linked: were each read by itself, 4 n would take 16 times as many."""
    read = [0]
    look = Reached._look
    monkeypatch.setattr(Reached, "_look", lambda self, n: (read.__setitem__(0, read[0] + n), look(self, n))[1])
    vocab = fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    counts = []
    for n in (100, 400):
        content = {"type": "json_schema", "json_schema": {"type": "null"}}
        tags = [{"begin": f"<f{i:03}>", "content": content, "end": "</f>"} for i in range(n)]
        tag = {"type": "triggered_tags", "triggers": [tag["begin"] for tag in tags], "tags": tags}
        read[0] = 0
        machine = compiler.compile_structural_tag(tag).machine
        assert machine.matches(b"a<f007>null</f>") and not machine.matches(b"a<f007>0</f>")
        counts.append(read[0])
    assert counts[1] < 5 * counts[0]


def test_a_tag_is_built_within_its_seconds() -> None:
    compiler = fsmc.GrammarCompiler(
        fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1]), cache_dir=None, max_seconds=0.0
    )
    with pytest.raises(fsmc.LimitExceeded, match="max_seconds"):
        compiler.compile_structural_tag({"type": "const_string", "value": "a"})
