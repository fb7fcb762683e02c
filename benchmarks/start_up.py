"""What a new process pays until its first mask under a JSON Schema: import, vocabulary, grammar, mask.

    python benchmarks/start_up.py [TOKENIZER.JSON] [--runs 7] [--record]

Each run is a process of its own, the engines take turns. A first round fills the disk caches (fsmc's kernels, vocabulary
and shared masks; Python's byte code) and is not counted; then each figure is the median over the runs, in wall milliseconds.
torch is not imported (XGrammar imports it, so it is not here); where scipy is installed numba imports it, some 200 ms.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from importlib import util
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "state": {"enum": ["on", "off"]}},
    "required": ["name"],
}
LAPS = ("import", "vocabulary", "grammar", "first mask")


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return json.dump(WORKERS[sys.argv[2]](sys.argv[3]), sys.stdout)
    from report import about_this_run, find_tokenizer, keep_record, read_vocabulary, show_table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", nargs="?", type=Path, help="a tokenizer.json (default: Llama 3's)")
    parser.add_argument("--runs", type=int, default=7, help="processes of each engine (default 7)")
    parser.add_argument("--record", nargs="?", type=Path, const=Path(), help="keep a record (in benchmarks/record)")
    arguments = parser.parse_args()
    tokenizer = arguments.tokenizer or find_tokenizer()
    read_vocabulary(tokenizer)  # here it can be said what is wrong with it
    names = [name for name in WORKERS if util.find_spec(name)]
    runs: dict[str, list[list[float]]] = {name: [] for name in names}
    for turn in range(arguments.runs + 1):
        for name in names:
            laps = one_run(name, tokenizer)
            if turn:
                runs[name].append(laps)
    report: dict[str, Any] = {**about_this_run(names), "scipy": util.find_spec("scipy") is not None, "milliseconds": {}}
    for name in names:
        columns = [statistics.median(column) for column in zip(*runs[name], strict=True)]
        report["milliseconds"][name] = dict(zip((*LAPS, "together"), columns, strict=True))
    show_table(
        f"Until the first mask, in ms (median of {arguments.runs} processes)",
        ("engine", *LAPS, "together"),
        [(name, *figures.values()) for name, figures in report["milliseconds"].items()],
    )
    if arguments.record is not None:
        keep_record("start_up", report, arguments.record if arguments.record.parts else None)


def one_run(name: str, tokenizer: Path) -> list[float]:
    """The laps of a new process, and their sum, in milliseconds."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, __file__, "--worker", name, str(tokenizer)]
    done = subprocess.run(
        command, env={**environment, "FSMC_QUIET": "1"}, stdout=subprocess.PIPE, text=True, check=True
    )
    laps = [1e3 * lap for lap in json.loads(done.stdout)]
    return [*laps, sum(laps)]


def fsmc_laps(tokenizer: str) -> list[float]:
    times = [time.perf_counter()]
    import fsmc
    import fsmc.compiler.pipeline
    import fsmc.runtime.matcher

    times.append(time.perf_counter())
    vocabulary = fsmc.Vocabulary.from_file(tokenizer)
    times.append(time.perf_counter())
    grammar = fsmc.GrammarCompiler(vocabulary).compile_json_schema(SCHEMA)
    times.append(time.perf_counter())
    fsmc.GrammarMatcher(grammar).fill_next_token_bitmask(fsmc.allocate_token_bitmask(1, vocabulary.size))
    times.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(times)]


def llguidance_laps(tokenizer: str) -> list[float]:
    times = [time.perf_counter()]
    import llguidance
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

    times.append(time.perf_counter())
    vocabulary = llguidance.LLTokenizer(tokenizer)
    times.append(time.perf_counter())
    matcher = llguidance.LLMatcher(vocabulary, json.dumps({"grammars": [{"json_schema": SCHEMA}]}))
    times.append(time.perf_counter())
    fill_next_token_bitmask(matcher, allocate_token_bitmask(1, vocabulary.vocab_size), 0)
    times.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(times)]


WORKERS = {"fsmc": fsmc_laps, "llguidance": llguidance_laps}

if __name__ == "__main__":
    main()
