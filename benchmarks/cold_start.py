"""What a new process pays before its first whole index, in CPU seconds, as one JSON document on standard output.

    python benchmarks/cold_start.py TOKENIZER.JSON

Kernels are compiled by numba on first use and kept on disk (NUMBA_CACHE_DIR chooses where), so run it twice: once with
an empty folder, once with what the first run left there. `benchmarks/index.py` does.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> None:
    started = began = time.process_time()
    laps: dict[str, Any] = {}

    def lap(name: str) -> None:
        nonlocal started
        now = time.process_time()
        laps[name] = now - started
        started = now

    import fsmc

    lap("import fsmc")
    import fsmc.compiler.pipeline
    import fsmc.kernels

    lap("import the compiler")
    compiling = CompileClock()
    vocabulary = fsmc.Vocabulary.from_file(sys.argv[1])
    lap("read tokenizer")
    fsmc.TokenTrie.build(vocabulary)
    lap("token trie")
    compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None)
    compiler.compile_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").build_index()
    lap("first index (date)")
    compiler.compile_regex(r"\w{1,16}").build_index()
    lap("first \\w")
    fsmc.kernels.use_every_kernel()
    lap("all other kernels")
    laps["together"] = time.process_time() - began
    laps["of it compiling"] = compiling.seconds
    json.dump(laps, sys.stdout)


class CompileClock:
    """CPU seconds that numba spends compiling from now on; what a kernel's callees take counts once, as part of it."""

    def __init__(self) -> None:
        from numba.core import event

        self.seconds, self.depth, self.began = 0.0, 0, 0.0
        clock = self

        class Listener(event.Listener):
            def on_start(self, _: Any) -> None:
                if clock.depth == 0:
                    clock.began = time.process_time()
                clock.depth += 1

            def on_end(self, _: Any) -> None:
                clock.depth -= 1
                if clock.depth == 0:
                    clock.seconds += time.process_time() - clock.began

        event.register("numba:compile", Listener())


if __name__ == "__main__":
    main()
