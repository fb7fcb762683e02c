"""Each idea of the compiler switched off: what is it worth? On real schemas with one valid instance each, all in one run.

    python benchmarks/ablation.py [TOKENIZER.JSON] [--schemas PATH] [--n 60] [--record [FOLDER]]

Every variant walks the same texts with the same tokens and must fill the same masks, or the run stops. Times are those of the
thread. The ideas, and how they are switched off here:

- *compression*: forced text is not jumped over, each of its tokens is a pass of the model and a mask.
- *sharing*: masks inside strings, numbers and formats are walked for each schema anew, not once for a vocabulary.
- *rests*: tokens that leave a component, or begin with white space, are walked one by one, not by what is left of them.
- *blocks*: masks are not split into what stays inside a component and what leaves it: the whole trie is walked from each state.
- *memory*: no mask is remembered. Without blocks as well, that is plain masking.
- *laziness*: before the first mask the whole machine is built, as far as it goes within ``--max-states``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from report import RECORD, about_this_run, keep_record, percentile, read_schemas, read_vocabulary, show_table

import fsmc
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.tables import CALL, RECORDED
from fsmc.compiler.tokens import lazy_masks, rests

MAX_BYTES = 1000
"""Of a longer text only so many are walked."""

LazyMasks = lazy_masks.LazyMasks
Switch = Callable[[], Any]


# ── switching off ────────────────────────────────────────────────────────────────────────────────────────────────────


def patched(owner: Any, name: str, value: Any) -> Switch:
    return lambda: mock.patch.object(owner, name, value)


def without_sharing() -> Any:
    made = LazyMasks.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        self._shared = {}

    return mock.patch.object(LazyMasks, "__init__", init)


def source_without_space(self: Any, state: int, scratch: Any) -> Any:
    """`LazyMasks._source`, but white space is walked like anything else."""
    block = self.machine.block_of(state)
    if isinstance(block, lazy_masks.Block):
        return self._source_in(block, state, scratch)
    if block is not None and (block.counted(state) or block.like(state)[0]):
        return block
    return self._whole


@contextmanager
def without_rests() -> Iterator[None]:
    with mock.patch.object(rests, "FEW_EXITS", 1 << 40), mock.patch.object(LazyMasks, "_source", source_without_space):
        yield


def find_anew(self: Any, state: int, stack: int) -> Any:
    """`LazyMasks._find`, but nothing is known from before."""
    forget(self)
    return self._compute(state, stack)


def forget(masks: Any) -> None:
    for known in (masks.asked, masks._rows, masks._older, masks._depths):
        known.clear()


@contextmanager
def without_memory() -> Iterator[None]:
    with mock.patch.object(LazyMasks, "_find", find_anew), mock.patch.object(LazyMasks, "_ask", lambda *_: None):
        yield


without_blocks = patched(LazyMasks, "_source", lambda self, state, scratch: self._whole)

VARIANTS: dict[str, tuple[Switch, ...]] = {
    "all ideas": (),
    "no sharing": (without_sharing,),
    "no rests": (without_rests,),
    "no blocks": (without_blocks,),
    "no memory": (without_memory,),
    "no blocks, no memory": (without_blocks, without_memory),
}


def build_whole(machine: RecursiveMachine, max_states: int) -> bool:
    """Build every state that any text can reach; False if there were more than ``max_states``, or texts are compared.

    By component: what its entry reaches, the outcomes of its exits, who calls it. A new outcome goes to all callers, a new caller gets
    all outcomes.
    """
    reached: dict[int, set[int]] = {machine.start: {machine.start}}
    outcomes: dict[int, set[int]] = {machine.start: set()}
    callers: dict[int, list[tuple[int, int]]] = {machine.start: []}
    todo = [(machine.start, machine.start)]
    complete = True

    def arrive(entry: int, state: int) -> None:
        if state and state not in reached[entry]:
            reached[entry].add(state)
            todo.append((entry, state))

    while todo:
        if machine.n_states > max_states or sum(map(len, reached.values())) > 4 * max_states:
            return False
        entry, state = todo.pop()
        codes = machine.row(state)
        for code in set(codes[codes != 0].tolist()):
            if code > 0:
                arrive(entry, code)
                continue
            kind, operand, frame = machine.action(code)
            if kind == CALL:
                if frame >= RECORDED:
                    complete = False
                    continue
                callee = operand
                if callee not in reached:
                    reached[callee], outcomes[callee], callers[callee] = {callee}, set(), []
                    todo.append((callee, callee))
                if (entry, frame) not in callers[callee]:
                    callers[callee].append((entry, frame))
                    for outcome in list(outcomes[callee]):
                        arrive(entry, machine.after_outcome(frame, outcome))
            elif operand not in outcomes[entry]:
                outcomes[entry].add(operand)
                for caller, frame in list(callers[entry]):
                    arrive(caller, machine.after_outcome(frame, operand))
    return complete


# ── walking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Texts:
    """Texts as tokens: at each place the longest that fits."""

    def __init__(self, vocabulary: fsmc.Vocabulary) -> None:
        self.ids = {token: i for i, token in enumerate(vocabulary.tokens) if token and len(token) <= 16}

    def next_token(self, text: bytes, at: int) -> bytes:
        return next(text[at : at + n] for n in range(16, 0, -1) if text[at : at + n] in self.ids)


def walk(grammar: Any, text: bytes, texts: Texts, jump: bool) -> dict[str, Any]:
    """One text, a mask and a token at a time: seconds of each mask and of each jump, and a digest of all masks."""
    matcher, mask = fsmc.GrammarMatcher(grammar), fsmc.allocate_token_bitmask(1, grammar.vocab.size)
    masks: list[float] = []
    rest: list[float] = []
    digest, at, n_forced = hashlib.sha256(), 0, 0
    text = text[:MAX_BYTES]
    while at < len(text):
        if jump:
            begun = time.thread_time()
            forced = matcher.find_jump_forward_string().encode()
            fits = matcher.accept_bytes(forced)
            rest.append(time.thread_time() - begun)
            if not fits or forced[: len(text) - at] != text[at : at + len(forced)]:
                raise SystemExit(f"{forced!r} is forced at byte {at} of {text[:80]!r}, which is not what is there")
            n_forced += min(len(forced), len(text) - at)
            at += len(forced)
            if at >= len(text):
                break
        token = texts.next_token(text, at)
        begun = time.thread_time()
        matcher.fill_next_token_bitmask(mask)
        filled = time.thread_time()
        fits = matcher.accept_token(texts.ids[token])
        rest.append(time.thread_time() - filled)
        if not fits:
            raise SystemExit(f"{token!r} is refused at byte {at} of {text[:80]!r}")
        masks.append(filled - begun)
        digest.update(mask)
        at += len(token)
    return {"masks": masks, "rest": rest, "digest": digest.hexdigest(), "forced": n_forced, "bytes": len(text)}


def first_valid(row: dict[str, Any]) -> str | None:
    return next((json.dumps(test["data"]) for test in row["tests"] if test["valid"]), None)


def usable(rows: list[dict[str, Any]], compiler: fsmc.GrammarCompiler, n: int) -> list[tuple[dict[str, Any], bytes]]:
    """The first n schemas that compile and accept their first valid instance."""
    found: list[tuple[dict[str, Any], bytes]] = []
    for row in rows:
        text = first_valid(row)
        if text is None or len(found) == n:
            continue
        try:
            if compiler.compile_json_schema(row["schema"]).machine.matches(text.encode()):
                found.append((row["schema"], text.encode()))
        except fsmc.FsmcError:
            continue
    return found


def masks_table(cases: list[Any], vocabulary: fsmc.Vocabulary, texts: Texts) -> list[dict[str, Any]]:
    """Masks that are met for the first time, and again, where the machine is there already, by variant."""
    found, expected = [], None
    for name, switches in VARIANTS.items():
        new: list[float] = []
        known: list[float] = []
        digests: list[str] = []
        lazy_masks._shared.clear()  # what grammars share is made anew, with this variant's ideas
        with ExitStack() as off:
            for switch in switches:
                off.enter_context(switch())
            for schema, text in cases:
                grammar = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json").compile_json_schema(
                    schema
                )
                walk(grammar, text, texts, jump=False)  # builds the states
                masks = grammar.masks
                masks._sources.clear()
                if masks._shared is not lazy_masks._shared[masks.trie]:
                    masks._shared.clear()
                forget(masks)
                first, again = (walk(grammar, text, texts, jump=False) for _ in range(2))
                new += first["masks"]
                known += again["masks"]
                digests += [first["digest"], again["digest"]]
        expected = expected or digests
        if digests != expected:
            raise SystemExit(f"{name}: other masks than with all ideas")
        found.append(
            {
                "variant": name,
                "new_median_us": 1e6 * percentile(new, 50),
                "new_mean_us": 1e6 * sum(new) / len(new),
                "new_p99_us": 1e6 * percentile(new, 99),
                "again_median_us": 1e6 * percentile(known, 50),
                "again_mean_us": 1e6 * sum(known) / len(known),
                "masks": len(new),
            }
        )
    return found


PLACES = {
    "inside a string": b'{"a": "x',
    "inside a string in an array": b'{"a": "x", "b": ["y',
    "before a value": b'{"a": ',
    "before an item": b'{"a": "x", "b": [',
}


def places_table(vocabulary: fsmc.Vocabulary) -> list[dict[str, Any]]:
    """The mask of a place, met for the first time but for what grammars share: µs, the median of 50."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "string"}}},
        "required": ["a", "b"],
    }
    found: list[dict[str, Any]] = [{"place": place} for place in PLACES]
    for name, switches in VARIANTS.items():
        lazy_masks._shared.clear()
        with ExitStack() as off:
            for switch in switches:
                off.enter_context(switch())
            grammar = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_json_schema(schema)
            mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
            for row, text in zip(found, PLACES.values(), strict=True):
                seconds = []
                for _ in range(50):
                    forget(grammar.masks)
                    matcher = fsmc.GrammarMatcher(grammar)
                    matcher.accept_bytes(text)
                    begun = time.thread_time()
                    matcher.fill_next_token_bitmask(mask)
                    seconds.append(time.thread_time() - begun)
                row[name] = 1e6 * percentile(seconds, 50)
    return found


def compression_table(cases: list[Any], vocabulary: fsmc.Vocabulary, texts: Texts) -> list[dict[str, Any]]:
    """Passes of the model and time of the constraint per text, with jumps and without."""
    found = []
    for name, jump in (("compressed", True), ("no compression", False)):
        compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json")
        walks = [walk(compiler.compile_json_schema(schema), text, texts, jump) for schema, text in cases]
        n_bytes, passes = sum(w["bytes"] for w in walks), sum(len(w["masks"]) for w in walks)
        found.append(
            {
                "variant": name,
                "bytes": n_bytes,
                "forced_percent": 100 * sum(w["forced"] for w in walks) / n_bytes,
                "passes": passes,
                "passes_per_text": passes / len(walks),
                "constraint_ms_per_text": 1e3 * sum(sum(w["masks"]) + sum(w["rest"]) for w in walks) / len(walks),
            }
        )
    return found


def laziness_table(cases: list[Any], vocabulary: fsmc.Vocabulary, max_states: int) -> list[dict[str, Any]]:
    """From the schema to the first mask, and the states that were built."""
    found = []
    for name, whole in (("lazy", False), ("no laziness", True)):
        seconds, states, not_whole = [], [], 0
        for schema, _ in cases:
            compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json")
            begun = time.thread_time()
            grammar = compiler.compile_json_schema(schema)
            if whole:
                not_whole += not build_whole(grammar.machine, max_states)
            mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
            fsmc.GrammarMatcher(grammar).fill_next_token_bitmask(mask)
            seconds.append(time.thread_time() - begun)
            states.append(grammar.machine.n_states)
        found.append(
            {
                "variant": name,
                "median_ms": 1e3 * percentile(seconds, 50),
                "mean_ms": 1e3 * sum(seconds) / len(seconds),
                "p99_ms": 1e3 * percentile(seconds, 99),
                "median_states": int(percentile(states, 50)),
                "most_states": max(states),
                "not_whole": not_whole,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path, nargs="?", help="a tokenizer.json of Llama 3")
    parser.add_argument("--schemas", type=Path, help="rows of MaskBench's form (see docs/benchmarks.md)")
    parser.add_argument("--n", type=int, default=60, help="so many schemas")
    parser.add_argument("--max-states", type=int, default=20_000, help="where building a whole machine stops")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, metavar="FOLDER", help="keep the figures there")
    options = parser.parse_args()
    _, vocabulary = read_vocabulary(options.tokenizer)
    texts = Texts(vocabulary)
    compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json")
    cases = usable(read_schemas(options.schemas, 3 * options.n), compiler, options.n)
    if not cases:
        raise SystemExit("none of the schemas compiles and accepts its first valid instance")
    for schema, text in cases[:10]:  # kernels and what all schemas share
        walk(compiler.compile_json_schema(schema), text, texts, jump=True)
    report = about_this_run() | {
        "schemas": len(cases),
        "max_states": options.max_states,
        "masks": masks_table(cases, vocabulary, texts),
        "places": places_table(vocabulary),
        "compression": compression_table(cases, vocabulary, texts),
        "laziness": laziness_table(cases, vocabulary, options.max_states),
    }
    for name in ("masks", "places", "compression", "laziness"):
        rows = report[name]
        show_table(f"{name}, {len(cases)} schemas", list(rows[0]), [list(row.values()) for row in rows])
    if options.record:
        keep_record("ablation", report, options.record)


if __name__ == "__main__":
    main()
