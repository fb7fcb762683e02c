"""What a new process pays before its first whole index, as one JSON document on standard output.

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
    started = began = time.perf_counter()
    laps: dict[str, Any] = {}

    def lap(name: str) -> None:
        nonlocal started
        now = time.perf_counter()
        laps[name] = now - started
        started = now

    import fsmc

    lap("import fsmc")
    import fsmc.compiler.pipeline

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
    every_other_kernel(compiler)
    lap("all other kernels")
    laps["together"] = time.perf_counter() - began
    laps["of it compiling"] = compiling.seconds
    json.dump(laps, sys.stdout)


def every_other_kernel(compiler: Any) -> None:
    """Calls what a whole index does not need, so that the figures cover all kernels (but those for machines with calls,
    which a regex never makes)."""
    import numpy as np

    import fsmc
    from fsmc.compiler.automata.equivalence import difference_witness

    lazy = compiler.compile_regex(r"\b(?=.*[0-9])\w{8}\b|a{3,5}")
    whole = compiler.compile_regex("(a|b)*a(a|b){10}")
    whole.build_index()
    mask = fsmc.allocate_token_bitmask(1, compiler.vocab.size)
    for grammar in (lazy, whole):
        matcher = fsmc.GrammarMatcher(grammar)
        matcher.fill_next_token_bitmask(mask)
        matcher.accept_bytes(b"a")
        matcher.find_jump_forward_string()
        grammar.dfa.matches(b"a")
        grammar.jump_map.jump(grammar.dfa.start)
    logits = np.zeros((1, compiler.vocab.size), np.float32)
    fsmc.apply_token_bitmask_inplace(logits, mask)
    fsmc.apply_token_bitmask_inplace(logits.astype(np.float16), mask, indices=[0])
    difference_witness(lazy.dfa, lazy.dfa & ~whole.dfa)


class CompileClock:
    """Seconds that numba spends compiling from now on; what a kernel's callees take counts once, as part of it."""

    def __init__(self) -> None:
        from numba.core import event

        self.seconds, self.depth, self.began = 0.0, 0, 0.0
        clock = self

        class Listener(event.Listener):
            def on_start(self, _: Any) -> None:
                if clock.depth == 0:
                    clock.began = time.perf_counter()
                clock.depth += 1

            def on_end(self, _: Any) -> None:
                clock.depth -= 1
                if clock.depth == 0:
                    clock.seconds += time.perf_counter() - clock.began

        event.register("numba:compile", Listener())


if __name__ == "__main__":
    main()
