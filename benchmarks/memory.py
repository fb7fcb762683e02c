"""Memory of compiled grammars: how large each becomes by compiling and walking, and what a process with all of them takes.

    python benchmarks/memory.py [SCHEMAS] [--tokenizer FILE] [--n 1000] [--order any] [--record]

Real schemas (rows of MaskBench's form) are compiled in one process, with default limits, and their instances walked token by
token, a mask for each; all grammars are kept. "Bytes of a grammar" are those that Python and numpy allocated meanwhile and
still hold: the machine as far as it was built, its masks, its return stacks. What is shared by all (kernels, vocabulary,
components ready-made, their masks) counts for whichever schema needed it first, so that the median is without it. The resident
set is that of a second process, since counting takes memory itself.

The aims: the median below 200 KiB, 1,000 schemas below 2 GiB.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from engines import Fsmc
from maskbench import walk_in_time
from report import about_this_run, check_tokenizer, find_tokenizer, keep_record, percentile, read_schemas, show_table

MAX_MEDIAN_BYTES = 200 << 10
MAX_RESIDENT_BYTES = 2 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", nargs="?", type=Path, help="a .jsonl(.gz) file, or a folder of .json files")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json (default: Llama 3's)")
    parser.add_argument("--n", type=int, default=1000, help="how many schemas (default 1000)")
    parser.add_argument("--order", choices=("schema", "any"), default="schema", help="of an object's members")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for one schema (default 30)")
    parser.add_argument("--record", nargs="?", type=Path, const=Path(), help="keep a record (in benchmarks/record)")
    parser.add_argument("--worker", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    tokenizer = arguments.tokenizer or find_tokenizer()
    if arguments.worker:
        what, file = arguments.worker
        return work(what == "sizes", tokenizer, Path(file), arguments.order, arguments.limit)

    rows = read_schemas(arguments.schemas, arguments.n)
    check_tokenizer(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = ["--tokenizer", str(tokenizer), "--order", arguments.order, "--limit", str(arguments.limit)]
        found = {}
        for what in ("resident", "sizes"):
            command = [sys.executable, __file__, "--worker", what, str(file), *options]
            done = subprocess.run(
                command, env={**os.environ, "FSMC_QUIET": "1"}, stdout=subprocess.PIPE, text=True, check=True
            )
            found[what] = json.loads(done.stdout)
    sizes = [row["bytes"] for row in found["sizes"]["grammars"]]
    largest = sorted(found["sizes"]["grammars"], key=lambda row: -row["bytes"])[:5]
    report = {
        **about_this_run(),
        "schemas": len(rows),
        "order": arguments.order,
        "compiled": len(sizes),
        "grammar bytes": {f"p{p}": percentile(sizes, p) for p in (50, 90, 99)} | {"max": max(sizes, default=0)},
        "resident bytes": {key: found["resident"][key] for key in ("before", "after", "most")},
        "largest": largest,
    }
    show(report)
    if arguments.record is not None:
        keep_record("memory", report, arguments.record if arguments.record.parts else None)


def work(counted: bool, tokenizer: Path, file: Path, order: str, limit: float) -> None:
    """Compile and walk all rows; print what was counted, or the resident set, as JSON."""
    import tokenizers

    import fsmc

    lines, sys.stdout = sys.stdout, sys.stderr
    vocabulary = fsmc.Vocabulary.from_file(tokenizer)
    encoder = tokenizers.Tokenizer.from_file(str(tokenizer))
    engine = KeepingFsmc(vocabulary, tokenizer, order)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    engine.kept.clear()
    gc.collect()
    before = resident_bytes()
    if counted:
        tracemalloc.start()
    grammars: list[dict[str, Any]] = []
    held = 0
    for row in rows:
        n_kept = len(engine.kept)
        walk_in_time(engine, encoder, row, limit)
        if counted:
            gc.collect()
            now = tracemalloc.get_traced_memory()[0]
            if len(engine.kept) > n_kept:
                grammars.append({"id": row["id"], "bytes": now - held})
            held = now
        gc.freeze()  # what is kept need not be looked through again
    report = {"grammars": grammars, "before": before, "after": resident_bytes(), "most": most_resident_bytes()}
    print(json.dumps(report), file=lines)


class KeepingFsmc(Fsmc):
    """It keeps every grammar."""

    def __init__(self, vocabulary: Any, tokenizer: Path, property_order: Any) -> None:
        self.kept: list[Any] = []
        super().__init__(vocabulary, tokenizer, property_order)

    def compile(self, schema: Any) -> Any:
        grammar = super().compile(schema)
        self.kept.append(grammar)
        return grammar


def resident_bytes() -> int | None:
    """What of this process is in memory now; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def most_resident_bytes() -> int | None:
    """The most that ever was in memory."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def show(report: dict[str, Any]) -> None:
    def kib(n: int | None) -> float | None:
        return None if n is None else n / 1024

    def verdict(value: int | None, limit: int) -> str:
        return "–" if value is None else "kept" if value < limit else "MISSED"

    sizes, resident = report["grammar bytes"], report["resident bytes"]
    title = f"{report['compiled']:,} of {report['schemas']:,} schemas compiled and walked, {report['order']} order"
    rows = [["a grammar", *map(kib, sizes.values()), f"p50 < 200 KiB: {verdict(sizes['p50'], MAX_MEDIAN_BYTES)}"]]
    show_table(f"{title}; KiB", ("", *sizes, "aim"), rows)
    aim = f"most < 2 GiB: {verdict(resident['most'], MAX_RESIDENT_BYTES)}"
    show_table("the process; KiB", ("", *resident, "aim"), [["resident", *map(kib, resident.values()), aim]])
    largest = ", ".join(f"{row['id']} {row['bytes'] / (1 << 20):.1f} MiB" for row in report["largest"])
    print(f"largest: {largest}")


if __name__ == "__main__":
    main()
