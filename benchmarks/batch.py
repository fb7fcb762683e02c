"""Masks of a whole batch in one call: fsmc, XGrammar's batch filling, llguidance's parallel executor.

    python benchmarks/batch.py [TOKENIZER.JSON] [--data FILE] [--rows 1,16,64,256] [--schemas 64] [--record]

The requests are real schemas, mixed, each somewhere in the middle of a JSON string of a valid instance. From there every
request writes its instance on: at each step the masks of the whole batch are filled, which is what is timed (wall clock:
several threads work), and each request takes its own next token, which is not. "cold": in the first round no mask of these
grammars was ever asked for; "warm": the later rounds, which walk the same texts again. "fsmc, one by one" is
a loop over the same matchers. All engines see the same requests, take turns in every round, and may use all processors.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines import ENGINES, Engine
from maskbench import is_installed, is_passed, run_engine
from report import about_this_run, keep_record, percentile, read_encoder, read_schemas, read_vocabulary, show_table

import fsmc

Request = tuple[int, int]
"""Number of the schema; at which token of its text it starts."""

SECONDS_TO_COMPILE = 2.0
"""Schemas that take an engine longer are left out: some take XGrammar minutes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", nargs="?", type=Path, help="a tokenizer.json (default: Llama 3's)")
    parser.add_argument("--data", type=Path, help="rows of MaskBench's form (default: the set beside the checkout)")
    parser.add_argument("--rows", default="1,16,64,256", help="batch sizes")
    parser.add_argument("--schemas", type=int, default=64, help="how many schemas (XGrammar compiles 2 a second)")
    parser.add_argument("--engines", default="fsmc,llguidance,xgrammar", help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--steps", type=int, default=8, help="tokens that each request writes")
    parser.add_argument("--rounds", type=int, default=5, help="the first is cold, the others warm")
    parser.add_argument("--record", nargs="?", type=Path, const=Path(), help="keep a record (in benchmarks/record)")
    arguments = parser.parse_args()

    tokenizer, vocabulary = read_vocabulary(arguments.tokenizer)
    rows = read_schemas(arguments.data)
    names = [name for name in arguments.engines.split(",") if is_installed(name)]
    schemas, texts = usable(rows, names, tokenizer, vocabulary, arguments.schemas, arguments.steps)
    engines = {name: ENGINES[name][2](vocabulary, tokenizer) for name in names}
    if not schemas:
        raise SystemExit("no schema that all engines compile and whose instance they all accept")
    print(f"{len(schemas)} schemas, {vocabulary.size:,} tokens, {os.cpu_count()} processors", file=sys.stderr)

    figures = []
    for n_rows in map(int, arguments.rows.split(",")):
        requests = choose(texts, vocabulary, n_rows, arguments.steps)
        figures.append(
            {"rows": n_rows, **measure(engines, schemas, texts, requests, arguments.steps, arguments.rounds)}
        )
    report = {
        **about_this_run([engine.package for engine in engines.values()]),
        "schemas": len(schemas),
        "steps": arguments.steps,
        "batches": figures,
    }
    show(report)
    if arguments.record is not None:
        keep_record("batch", report, arguments.record if arguments.record.parts else None)


def usable(
    rows: list[dict[str, Any]], names: list[str], tokenizer: Path, vocabulary: fsmc.Vocabulary, n: int, steps: int
) -> tuple[list[Any], list[list[int]]]:
    """The first n schemas (of a fixed random order) that every engine compiles in time, and of each the tokens of a valid
    instance which every engine accepts and which has a string in it."""

    encoder = read_encoder(tokenizer)
    candidates, texts = [], []
    random.Random(1).shuffle(rows)
    for row in rows:
        for test in row["tests"]:
            text = encoder.encode(json.dumps(test["data"], ensure_ascii=False), add_special_tokens=False).ids
            if test["valid"] and places_in_strings(text, vocabulary, steps):
                candidates.append({**row, "tests": [test]})
                texts.append(text)
                break
        if len(candidates) == 2 * n:
            break
    for name in names:
        results = run_engine(name, tokenizer, candidates, SECONDS_TO_COMPILE)
        passed = [i for i, result in enumerate(results) if is_passed(result)]
        candidates, texts = [candidates[i] for i in passed], [texts[i] for i in passed]
    return [row["schema"] for row in candidates[:n]], texts[:n]


def places_in_strings(text: list[int], vocabulary: fsmc.Vocabulary, steps: int) -> list[int]:
    """Where, in tokens, the text so far ends inside a JSON string, with enough tokens to come."""
    inside, escaped, places = False, False, []
    for i, token in enumerate(text[: max(len(text) - steps, 0)]):
        if inside:
            places.append(i)
        for byte in vocabulary.token(token):
            if escaped:
                escaped = False
            elif byte == ord("\\"):
                escaped = True
            elif byte == ord('"'):
                inside = not inside
    return places


def choose(texts: list[list[int]], vocabulary: fsmc.Vocabulary, n_rows: int, steps: int) -> list[Request]:
    """Every schema equally often, at random places in strings."""
    rng = random.Random(2)
    order = list(range(len(texts)))
    rng.shuffle(order)
    chosen = [order[i % len(order)] for i in range(n_rows)]
    return [(schema, rng.choice(places_in_strings(texts[schema], vocabulary, steps))) for schema in chosen]


def measure(
    engines: dict[str, Engine],
    schemas: list[Any],
    texts: list[list[int]],
    requests: list[Request],
    steps: int,
    rounds: int,
) -> dict[str, Any]:
    """Microseconds of a fill, of each engine: the first round's mean and slowest, the others' median of means and 90th
    percentile."""
    grammars = {name: [engine.compile(schema) for schema in schemas] for name, engine in engines.items()}
    fillers: dict[str, Callable[[list[Any]], Any]] = {}
    for name, engine in engines.items():
        filler = engine.batch_filler(len(requests))
        if filler is not None:
            fillers[name] = filler
    ways = [(name, name) for name in fillers]
    if "fsmc" in engines:
        ways.append(("fsmc, one by one", "fsmc"))
        one_by_one_mask = fsmc.allocate_token_bitmask(len(requests), engines["fsmc"].vocabulary.size)  # type: ignore[attr-defined]  # fsmc's engine has one

    def one_by_one(matchers: list[Any]) -> None:
        for row, matcher in enumerate(matchers):
            matcher.fill_next_token_bitmask(one_by_one_mask, row)

    taken: dict[str, list[list[float]]] = {way: [] for way, _ in ways}
    gc.collect()
    gc.freeze()
    for _round in range(rounds):
        for way, name in ways:
            engine, fill = engines[name], fillers[name] if way == name else one_by_one
            matchers = []
            for schema, place in requests:
                matcher = engine.start(grammars[name][schema])
                for token in texts[schema][:place]:
                    engine.accept(matcher, token)
                matchers.append(matcher)
            seconds = []
            for step in range(steps):
                began = time.perf_counter()
                fill(matchers)
                seconds.append(time.perf_counter() - began)
                for (schema, place), matcher in zip(requests, matchers, strict=True):
                    engine.accept(matcher, texts[schema][place + step])
            taken[way].append(seconds)
    gc.unfreeze()
    return {
        "microseconds": {
            way: {
                # one by one comes after the batch, so that it is never cold
                "cold": 1e6 * statistics.mean(lap[0]) if way in engines else None,
                "cold slowest": 1e6 * max(lap[0]) if way in engines else None,
                "warm": 1e6 * statistics.median(statistics.mean(seconds) for seconds in lap[1:]),
                "warm p90": 1e6 * percentile([x for seconds in lap[1:] for x in seconds], 90),
            }
            for way, lap in taken.items()
        }
    }


def show(report: dict[str, Any]) -> None:
    rows = []
    for batch in report["batches"]:
        ours = batch["microseconds"].get("fsmc")
        for way, figures in batch["microseconds"].items():
            ratios = [ours[k] / figures[k] if ours and figures[k] else None for k in ("cold", "warm")]
            rows.append((way, batch["rows"], *figures.values(), *ratios))
    headings = ("", "rows", "cold, µs", "slowest", "warm, µs", "p90", "fsmc : this, cold", "warm")
    show_table(f"filling the masks of a batch, wall microseconds; {report['machine']}", headings, rows)


if __name__ == "__main__":
    main()
