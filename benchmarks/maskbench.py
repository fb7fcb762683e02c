"""Time to first mask and time between masks on real JSON Schemas, and who is right: fsmc beside its peers.

    python benchmarks/maskbench.py [SCHEMAS] [--tokenizer FILE] [--engines fsmc,llguidance] [--n 300] [--record]

SCHEMAS holds rows of MaskBench's form, a schema with valid and invalid instances (default: the development set in ../shared,
if it is there). For every schema: compile it, then walk each instance token by token, a mask and a token at a time. TTFM,
time to first mask, is compiling, a new matcher and the first mask; TBM, time between masks, is one mask and one token taken.
A schema is passed when all its valid instances are accepted and all others rejected, within the time limit.

Each engine runs in a process of its own, all pinned to one and the same processor, one after the other. No cache on disk is
read, and nothing of one schema is kept for another but what the library shares by itself. What crashes or hangs is counted,
and the process started anew after that schema. Times are wall clock: run it on an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines import ENGINES, Engine
from report import (
    about_this_run,
    check_tokenizer,
    find_tokenizer,
    give_up,
    keep_record,
    percentile,
    read_schemas,
    show_table,
)

GRACE_SECONDS = 10
"""A schema that does not even end when asked to is given so much longer."""


class OutOfTime(Exception):
    pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", nargs="?", type=Path, help="a .jsonl(.gz) file, or a folder of .json files")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json (default: Llama 3's)")
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"of {', '.join(ENGINES)} (default: all)")
    parser.add_argument("--n", type=int, default=0, help="only so many schemas, always the same random choice")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for one schema (default 30)")
    parser.add_argument("--failures", action="store_true", help="list what failed")
    parser.add_argument("--record", nargs="?", type=Path, const=Path(), help="keep a record (in benchmarks/record)")
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    tokenizer = arguments.tokenizer or find_tokenizer()
    if arguments.worker:
        name, file = arguments.worker
        return work(name, tokenizer, Path(file), arguments.limit)

    rows = read_schemas(arguments.schemas, arguments.n)
    check_tokenizer(tokenizer)
    names = [name for name in arguments.engines.split(",") if is_installed(name)]
    results = {name: run_engine(name, tokenizer, rows, arguments.limit) for name in names}
    report = {
        **about_this_run([ENGINES[name][1].replace("_", "-") for name in names if not name.startswith("fsmc")]),
        "schemas": len(rows),
        "instances": sum(len(row["tests"]) for row in rows),
        "limit_seconds": arguments.limit,
        "engines": {name: summary(result) for name, result in results.items()},
        "beside llguidance": beside(results),
    }
    show(report)
    if arguments.failures:
        for name, result in results.items():
            for row in result:
                if not is_passed(row):
                    print(name, row["id"], row.get("error") or row.get("wrong") or row.get("ended"))
    if arguments.record is not None:
        keep_record("maskbench", report, arguments.record if arguments.record.parts else None)


def is_installed(name: str) -> bool:
    if name not in ENGINES:
        give_up(f"no engine {name!r}: choose of {', '.join(ENGINES)}")
    found = importlib.util.find_spec(ENGINES[name][1]) is not None
    if not found:
        print(f"{name} is not installed (pip install '.[bench]'): left out", file=sys.stderr)
    return found


# ── a process for each engine ────────────────────────────────────────────────────────────────────────────────────────


def run_engine(name: str, tokenizer: Path, rows: list[dict[str, Any]], limit: float) -> list[dict[str, Any]]:
    """What each row came to, from a process for this engine; a row that ends it costs only itself."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        while len(results) < len(rows):
            file, errors = Path(folder) / "rows.jsonl", Path(folder) / "errors.txt"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows[len(results) :]))
            ready = False
            for line in lines_of(name, tokenizer, file, errors, limit):
                if line is None:
                    break
                ready = True
                if "id" in line:
                    results.append(line)
                    show_progress(name, results, len(rows))
            if len(results) < len(rows):
                if not ready:
                    raise SystemExit(f"{name} did not start:\n{errors.read_text(errors='replace')[-2000:]}")
                ended = "timeout" if line is None else "crash"
                results.append({"id": rows[len(results)]["id"], "ended": ended, "tbm": []})
    print(file=sys.stderr)
    return results


def lines_of(name: str, tokenizer: Path, file: Path, errors: Path, limit: float) -> Iterator[dict[str, Any] | None]:
    """The worker's lines; None at last if it said nothing for too long."""
    command = [
        sys.executable,
        __file__,
        "--worker",
        name,
        str(file),
        "--tokenizer",
        str(tokenizer),
        "--limit",
        str(limit),
    ]
    environment = {**os.environ, "FSMC_QUIET": "1"}
    pipes: Any = {"stdout": subprocess.PIPE, "text": True}
    with errors.open("w") as log, subprocess.Popen(command, env=environment, stderr=log, **pipes) as worker:
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            assert worker.stdout is not None
            for line in worker.stdout:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        patience = 600.0  # until it is ready: kernels may have to be compiled
        while True:
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                worker.kill()
                yield None
                return
            if not line:
                return
            if line.startswith("{"):
                yield json.loads(line)
                patience = limit + GRACE_SECONDS


def show_progress(name: str, results: list[dict[str, Any]], n: int) -> None:
    if sys.stderr.isatty() or len(results) == n:
        print(f"\r{name}: {len(results)} of {n} schemas", end="", file=sys.stderr, flush=True)


# ── in that process ──────────────────────────────────────────────────────────────────────────────────────────────────


def work(name: str, tokenizer: Path, file: Path, limit: float) -> None:
    """Walk all rows of the file, and print a line of JSON for each."""
    import tokenizers

    import fsmc

    lines = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    vocabulary = fsmc.Vocabulary.from_file(tokenizer)
    encoder = tokenizers.Tokenizer.from_file(str(tokenizer))
    began = time.perf_counter()
    engine = ENGINES[name][2](vocabulary, tokenizer)
    print(json.dumps({"ready": time.perf_counter() - began}), file=lines, flush=True)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    gc.collect()
    gc.freeze()  # what serving engines do once they are up; for all engines alike
    for row in rows:
        print(json.dumps(walk_in_time(engine, encoder, row, limit)), file=lines, flush=True)


def walk_in_time(engine: Engine, encoder: Any, row: dict[str, Any], limit: float) -> dict[str, Any]:
    def stop(*_: Any) -> None:
        raise OutOfTime

    result: dict[str, Any] = {"id": row["id"], "tbm": []}
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        walk(engine, encoder, row, result)
    except OutOfTime:
        result["ended"] = "timeout"
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, 0)
    return result


def walk(engine: Engine, encoder: Any, row: dict[str, Any], result: dict[str, Any]) -> None:
    """Compile the schema and walk its instances: fills ``ttfm`` and ``tbm`` (µs), ``error``, ``wrong``."""
    began = time.perf_counter()
    try:
        grammar = engine.compile(row["schema"])
    except OutOfTime:
        raise
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"[:300]
        return
    spent = time.perf_counter() - began
    for test in row["tests"]:
        tokens = encoder.encode(json.dumps(test["data"], ensure_ascii=False), add_special_tokens=False).ids
        began = time.perf_counter()
        matcher = engine.start(grammar)
        spent += time.perf_counter() - began
        accepted, failed = True, ""
        try:
            for token in tokens:
                began = time.perf_counter()
                accepted = engine.step(matcher, token)
                seconds = time.perf_counter() - began
                if "ttfm" not in result:
                    result["ttfm"] = round(1e6 * (spent + seconds), 1)
                else:
                    result["tbm"].append(round(1e6 * seconds, 1))
                if not accepted:
                    break
            accepted = accepted and engine.is_complete(matcher)
        except OutOfTime:
            raise
        except Exception as error:
            accepted, failed = not test["valid"], f"{type(error).__name__}: {error}"[:200]
        if accepted != test["valid"]:
            result.setdefault("wrong", []).append(failed or ("invalid accepted" if accepted else "valid rejected"))


# ── what it came to ──────────────────────────────────────────────────────────────────────────────────────────────────


def is_passed(row: dict[str, Any]) -> bool:
    return not any(key in row for key in ("error", "wrong", "ended"))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of schemas, and microseconds.

    >>> summary([{"id": "a", "ttfm": 9.0, "tbm": [1.0, 3.0]}, {"id": "b", "tbm": [], "error": "no"}])["passed"]
    1
    """
    return {
        "passed": sum(map(is_passed, rows)),
        "invalid accepted": sum("invalid accepted" in row.get("wrong", ()) for row in rows),
        "valid rejected": sum("valid rejected" in row.get("wrong", ()) for row in rows),
        "compile errors": sum("error" in row for row in rows),
        "timeouts": sum(row.get("ended") == "timeout" for row in rows),
        "crashes": sum(row.get("ended") == "crash" for row in rows),
        **times(rows),
    }


def times(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Microseconds, and how many masks there were.

    >>> times([{"id": "a", "ttfm": 9.0, "tbm": [1.0, 3.0]}])["TBM"]["avg"]
    2.0
    """
    tbm = [x for row in rows for x in row["tbm"]]
    ttfm = [row["ttfm"] for row in rows if "ttfm" in row]
    return {
        "TTFM": {f"p{p}": percentile(ttfm, p) for p in (50, 90, 99)} | {"max": max(ttfm, default=0.0)},
        "TBM": {
            "p50": percentile(tbm, 50),
            "avg": sum(tbm) / max(len(tbm), 1),
            "p99": percentile(tbm, 99),
            "max": max(tbm, default=0.0),
        },
        "masks": len(tbm) + len(ttfm),
    }


def beside(results: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """For each engine its times and llguidance's on the schemas that both compile: what one of them refuses is mostly what is hard.

    >>> rows = [{"id": "a", "ttfm": 9.0, "tbm": [1.0]}, {"id": "b", "ttfm": 90.0, "tbm": [10.0]}]
    >>> both = beside({"fsmc": rows, "llguidance": [rows[0], {"id": "b", "tbm": [], "error": "no"}]})
    >>> both["fsmc"]["schemas"], both["fsmc"]["its"]["TTFM"]["max"]
    (1, 9.0)
    """
    compared: dict[str, Any] = {}
    base = {row["id"]: row for row in results.get("llguidance", ()) if "ttfm" in row}
    for name, rows in results.items():
        both = [row for row in rows if "ttfm" in row and row["id"] in base]
        if both and name != "llguidance":
            theirs = times([base[row["id"]] for row in both])
            compared[name] = {"schemas": len(both), "its": times(both), "llguidance's": theirs}
    return compared


def ratios(its: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """``its`` times in ``theirs``.

    >>> ratios({"TTFM": {"p50": 1.0}, "TBM": {"p50": 1.0}}, {"TTFM": {"p50": 2.0}, "TBM": {"p50": 0}})
    ['0.50×', '–']
    """
    pairs = [(its[kind][key], theirs[kind][key]) for kind in ("TTFM", "TBM") for key in theirs[kind]]
    return [f"{mine / other:.2f}×" if other else "–" for mine, other in pairs]


def show(report: dict[str, Any]) -> None:
    """One table of counts and one of times; below each time its ratio to llguidance's, on all schemas and on those that both compile."""
    engines = report["engines"]
    n = report["schemas"]
    counts = ("passed", "invalid accepted", "valid rejected", "compile errors", "timeouts", "crashes")
    rows: list[list[Any]] = []
    for name, figures in engines.items():
        share = f"{figures['passed']:,} ({figures['passed'] / max(n, 1):.1%})"
        rows.append([ENGINES[name][0], share, *(figures[count] for count in counts[1:])])
    title = f"{n:,} schemas with {report['instances']:,} instances; {report['machine']}"
    show_table(title, ("", *counts), rows)

    rows = []
    base = engines.get("llguidance")
    for name, figures in engines.items():
        rows.append([ENGINES[name][0], *figures["TTFM"].values(), *figures["TBM"].values()])
        if base and name != "llguidance":
            rows.append(["  : llguidance", *ratios(figures, base)])
            same = report["beside llguidance"].get(name)
            if same:
                label = f"  : llguidance, the {same['schemas']:,} that both compile"
                rows.append([label, *ratios(same["its"], same["llguidance's"])])
    headings = (
        "µs",
        *(f"TTFM {k}" for k in ("p50", "p90", "p99", "max")),
        *(f"TBM {k}" for k in ("p50", "avg", "p99", "max")),
    )
    show_table("time to first mask, time between masks, microseconds", headings, rows)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
