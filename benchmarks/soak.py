"""The engine and the grammar manager under everything that goes wrong in a server, for minutes; what it leaves behind.

    python benchmarks/soak.py [MINUTES] [--requests N] [--bad 0.3] [--model toy] [--record]

Batches of requests with schemas and regexes, known and new, 30% of them bad: no schema at all, patterns that cannot be read,
schemas that nothing satisfies, a pattern that reaches its limit. Some are aborted at a random moment, some have a callback
or a processor that raises, and now and then a thread is killed: one that compiles, or the one that fills masks. Every request
must end with a text that its grammar accepts, cut off or whole, or with an error of its own; otherwise the script
fails. Memory is the process's resident set after each round, printed and, at the end, compared with the first third.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from report import about_this_run, given, keep_record

import fsmc

STUCK_SECONDS = 120.0

BAD: tuple[tuple[str, Any], ...] = (
    ("json_schema", {"type": "no such type"}),
    ("json_schema", '{"type": '),
    ("json_schema", {"type": "string", "pattern": "(a"}),
    ("json_schema", {"allOf": [{"type": "string"}, {"type": "number"}]}),
    ("json_schema", {"$ref": "#/nowhere"}),
    ("regex", "a{5,2}"),
    ("regex", "(a|b)*a(a|b){20}"),  # reaches max_states
    ("regex", "a(?!a)a"),
    ("regex", 17),
    ("no such kind", "a"),
)


def good(rng: random.Random) -> tuple[str, Any]:
    """One of a few that all ask for again and again, or a new one."""
    n = rng.randrange(6) if rng.random() < 0.7 else rng.randrange(10**6)
    if rng.random() < 0.5:
        return "regex", rf"item {n} is (red|green|blue), [a-z]{{1,{1 + n % 9}}}\."
    properties = {
        f"key_{n}": {"type": "boolean"},
        "size": {"enum": ["small", "large"]},
        "note": {"type": "string", "maxLength": 9},
    }
    return "json_schema", {"type": "object", "properties": properties, "required": list(properties)}


def oops(*_: Any) -> Any:
    raise RuntimeError("a caller's mistake")


class Soak:
    """Rounds of requests on one engine, and what became of them."""

    def __init__(self, loaded: Any, bad_share: float, seed: int = 0) -> None:
        import torch

        torch.set_num_threads(1)
        self.rng, self.bad_share = random.Random(seed), bad_share
        compiler = fsmc.GrammarCompiler(loaded.vocab, cache_dir=None, whitespace="json", max_states=20_000)
        self.manager = fsmc.GrammarManager(compiler, max_bytes=32 << 20, timeout=30)
        self.engine = fsmc.Engine(loaded.model, loaded.tokenizer, loaded.vocab, prefix_cache_bytes=8 << 20).start()
        self.ends: Counter[str] = Counter()
        self.faults: list[str] = []

    def warm_up(self) -> None:
        """Have the kernels ready: a thread that is killed while numba compiles leaves numba's lock taken for ever."""
        from fsmc.compiler.warm_up import warm_up_schemas

        warm_up_schemas()
        for kind, source in BAD:
            self.manager.request(kind, source).wait()
        self.round(40, kills=False)
        self.ends.clear()

    def round(self, n: int, kills: bool = True) -> None:
        """Ask n requests at once, and wait for all."""
        rng, asked = self.rng, []
        for _ in range(n):
            is_bad = rng.random() < self.bad_share
            kind, source = rng.choice(BAD) if is_bad else good(rng)
            pending = self.manager.request(kind, source)
            breaks = rng.random() < 0.05
            sampling = fsmc.SamplingParams(
                temperature=rng.choice((0.0, 1.0)), processors=[oops] if breaks and rng.random() < 0.5 else []
            )
            request = fsmc.Request(
                f"request {rng.randrange(4)}: " * rng.randint(1, 6), pending, sampling,
                rng.choice(("canonical", "exact", "off")), rng.choice((5, 60)),
                on_text=oops if breaks and not sampling.processors else None,
            )  # fmt: skip
            asked.append((is_bad, breaks, pending, self.engine.submit(request)))
        aborted = set()
        n_open, since = n, time.monotonic()
        while now_open := sum(ticket.response is None for *_, ticket in asked):
            time.sleep(0.01)
            if now_open < n_open:
                n_open, since = now_open, time.monotonic()
            if time.monotonic() - since > STUCK_SECONDS:
                faulthandler.dump_traceback(all_threads=True)
                sys.exit(f"{n_open} requests do not end; above is where the threads stand")
            if rng.random() < 0.2:
                ticket = rng.choice(asked)[-1]
                ticket.abort()
                aborted.add(ticket)
            if kills and rng.random() < 0.02:
                kill(rng.choice(("fsmc-masks", "fsmc-compile")))
        for is_bad, breaks, pending, ticket in asked:
            self._judge(is_bad, breaks or ticket in aborted, pending, ticket.result(0))

    def _judge(self, is_bad: bool, is_disturbed: bool, pending: Any, response: Any) -> None:
        self.ends[response.finish_reason] += 1
        grammar = pending.poll()
        was_lost = "died" in str(response.error)  # its compile thread was killed
        if is_bad and response.finish_reason not in ("error", "abort"):
            self.faults.append(f"{pending}: a bad constraint gave {response.text!r}")
        if not is_bad and response.finish_reason == "error" and not (is_disturbed or was_lost):
            self.faults.append(f"{pending}: {response.error!r}")
        if response.finish_reason == "stop" and not grammar.machine.matches(response.text.encode()):
            self.faults.append(f"{pending}: {response.text!r} does not match")
        if response.text and not fsmc.GrammarMatcher(grammar).accept_bytes(response.text.encode()):
            self.faults.append(f"{pending}: {response.text!r} is no beginning of a match")

    def close(self) -> None:
        self.engine.close()
        self.manager.close()


def kill(name: str) -> None:
    """Have a thread of this name raise SystemExit."""
    for thread in threading.enumerate():
        if thread.name == name and thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
            return


def resident_megabytes() -> float:
    gc.collect()
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text())
    return int(found[1]) / 1024 if found else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("--requests", type=int, help="so many, instead of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bad", type=float, default=0.3, help="share of bad constraints")
    parser.add_argument("--model", default="toy", help="'toy', 'smollm2', a folder or a .gguf file")
    parser.add_argument("--record", nargs="?", type=Path, const=Path(), help="keep a record (in benchmarks/record)")
    arguments = parser.parse_args()
    os.environ.setdefault("FSMC_QUIET", "1")
    from fsmc.runtime.models import load_model
    from fsmc.runtime.toy_model import toy_model

    loaded = (
        toy_model(n_layers=2, hidden_size=64)
        if arguments.model == "toy"
        else given(lambda: load_model(arguments.model))
    )
    soak = Soak(loaded, arguments.bad, arguments.seed)
    soak.warm_up()
    began, asked, memory = time.monotonic(), 0, []
    while asked < arguments.requests if arguments.requests else time.monotonic() - began < 60 * arguments.minutes:
        n = min(50, (arguments.requests or 10**9) - asked)
        soak.round(n)
        asked += n
        memory.append(resident_megabytes())
        ends = ", ".join(f"{count} {reason}" for reason, count in sorted(soak.ends.items()))
        print(f"{time.monotonic() - began:5.0f} s, {asked:,} requests: {ends}; {memory[-1]:.0f} MB", flush=True)
    soak.close()
    third = memory[len(memory) // 3]
    kept = (
        f"{soak.manager.nbytes / 2**20:.0f} MB of grammars, {soak.engine.prefixes.n_bytes / 2**20:.0f} MB of prefixes"
    )
    print(f"memory: {third:.0f} MB after a third, {memory[-1]:.0f} MB at the end ({memory[-1] - third:+.0f}); {kept}")
    for fault in soak.faults[:20]:
        print(f"FAULT: {fault}")
    if arguments.record is not None:
        report = {
            **about_this_run(["torch", "transformers"]),
            "requests": asked,
            "ends": dict(soak.ends),
            "memory MB": memory,
        }
        keep_record("soak", report | {"faults": soak.faults}, arguments.record if arguments.record.parts else None)
    if soak.faults:
        sys.exit(f"{len(soak.faults)} faults")
    print(f"all {asked:,} requests ended as they should")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that were killed may have left native ones behind, over which C++ would abort
