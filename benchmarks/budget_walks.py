"""Never cut off, on real JSON Schemas: random texts under random budgets all end complete and in time.

    python benchmarks/budget_walks.py [SCHEMAS] [--tokenizer FILE|smollm2] [--walks 2000] [--seed 0] [--no-compare] [--record]

Each walk takes a schema at random (default: the development set of MaskBench in ../shared, if it is there) and a budget, which is
the least number of tokens known to be enough plus 0 to 50. At every step a token is drawn from those that the mask under
what is left of the budget allows. Ends with an error unless every walk ends complete, valid for its machine, and in budget.
Times are CPU time of one fill; under a budget this small nearly every fill has to look for endings. For comparison the
same texts are walked again with a budget of 100,000 tokens and with none.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from report import about_this_run, figure, given, keep_record, percentile, read_schemas, read_vocabulary, show_table

import fsmc
from fsmc.runtime.bitmask import unpack_token_bitmask

PLENTY = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", nargs="?", type=Path)
    parser.add_argument("--tokenizer", help="a tokenizer.json, or smollm2 (default: Llama 3's)")
    parser.add_argument("--walks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-compare", action="store_true", help="walk under small budgets only")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    rows = read_schemas(options.schemas)
    if options.tokenizer == "smollm2":
        from fsmc.runtime.models import load_vocabulary  # which needs torch

        source, vocab = Path("smollm2"), given(lambda: load_vocabulary("smollm2"))
    else:
        source, vocab = read_vocabulary(options.tokenizer and Path(options.tokenizer))
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    rng = random.Random(options.seed)
    seconds: dict[str, list[float]] = {"small budget": [], f"budget of {PLENTY:,}": [], "no budget": []}
    refused, wrong, walks, lengths = [], [], 0, []
    while walks < options.walks:
        row = rng.choice(rows)
        try:
            grammar = compiler.compile_json_schema(row["schema"])
        except fsmc.FsmcError as error:
            refused.append((row["id"], str(error)))
            continue
        walks += 1
        try:
            tokens = walk(grammar, mask, rng, seconds["small budget"])
        except Exception as error:  # whatever it is, it is counted
            wrong.append((row["id"], f"{type(error).__name__}: {error}"))
            continue
        lengths.append(len(tokens))
        if not grammar.machine.matches(b"".join(map(vocab.token, tokens[:-1]))):
            wrong.append((row["id"], "not a text of the machine"))
        for name, budget in () if options.no_compare else ((f"budget of {PLENTY:,}", PLENTY), ("no budget", None)):
            again(compiler.compile_json_schema(row["schema"]), mask, tokens, budget, seconds[name])
    for name, message in wrong:
        print(f"{name}: {message}")
    table = [
        [name, len(each), *(1e6 * percentile(each, p) for p in (50, 90, 99, 100)), 1e6 * float(np.mean(each or [0]))]
        for name, each in seconds.items()
    ]
    show_table("µs of CPU a fill", ["", "fills", "p50", "p90", "p99", "max", "mean"], table, figure)
    found: dict[str, Any] = {
        **about_this_run(),
        "tokenizer": source.parent.name or str(source),
        "walks": walks,
        "wrong": wrong,
        "refused": sorted(set(refused)),
        "tokens": int(np.sum(lengths)),
        "fills": table,
    }
    if options.record:
        keep_record("budget_walks" if source.exists() else f"budget_walks-{source}", found)
    if wrong:
        sys.exit(f"{len(wrong)} of {walks} walks were not complete or not in budget")
    print(f"{walks} walks, all complete and in budget")


def walk(grammar: fsmc.CompiledGrammar, mask: Any, rng: random.Random, seconds: list[float]) -> list[int]:
    """A random text in a random budget; AssertionError if it is not complete in time."""
    matcher, tokens = fsmc.GrammarMatcher(grammar), []
    left = matcher.num_tokens_to_complete() + rng.choice([0, 0, 1, 2, 3, 5, 10, 20, 50])
    while not matcher.is_terminated():
        began = time.thread_time()
        matcher.fill_next_token_bitmask(mask, max_tokens=left)
        seconds.append(time.thread_time() - began)
        allowed = np.flatnonzero(unpack_token_bitmask(mask[0], grammar.vocab.size))
        assert len(allowed), "no token is left"
        token = int(rng.choice(allowed))
        assert matcher.accept_token(token), "an allowed token is rejected"
        tokens.append(token)
        left -= 1
    assert left >= 0, "over budget"
    return tokens


def again(
    grammar: fsmc.CompiledGrammar, mask: Any, tokens: list[int], budget: int | None, seconds: list[float]
) -> None:
    """The same text on a new machine, with this budget."""
    matcher = fsmc.GrammarMatcher(grammar)
    for i, token in enumerate(tokens):
        began = time.thread_time()
        matcher.fill_next_token_bitmask(mask, max_tokens=None if budget is None else budget - i)
        seconds.append(time.thread_time() - began)
        matcher.accept_token(token)


if __name__ == "__main__":
    main()
