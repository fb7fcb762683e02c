"""The list of all kernels with the types of their arguments, so that they can be compiled in any order, by any process.

``kernels.txt`` has a line for each, in the order in which a first use needs them: ``module function argument-types``.
``python -m fsmc.kernels > fsmc/kernels.txt`` writes it anew, and a test compares. A kernel that is missing from the list is
compiled when it is called, like any numba function.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from numba.core import types
from numba.core.dispatcher import Dispatcher

from fsmc.jit import KERNELS

LIST = Path(__file__).with_suffix(".txt")


def compile_kernels(lines: Iterable[str]) -> None:
    """Compile the kernels of ``lines``, as they stand in the list, or load them if they are on disk.

    >>> compile_kernels([])
    """
    for line in lines:
        module, function, arguments = line.split(" ", 2)
        importlib.import_module(module)
        signature = eval(arguments, {"__builtins__": {}}, vars(types))
        KERNELS[f"{module}.{function}"].compile(signature)


def listed_kernels() -> list[str]:
    """The lines of the list.

    >>> len(listed_kernels()) > 30
    True
    """
    return LIST.read_text().splitlines()


def lines_for_helper(lines: list[str]) -> list[str]:
    """The same lines in the order in which a helper takes them: the larger part that is needed last, its longest kernels first so
    that only short ones are left where two processes meet; then the other part from its end.

    >>> sorted(lines_for_helper(listed_kernels())) == sorted(listed_kernels())
    True
    """
    lengths = [_length(line) for line in lines]
    first = next(i for i in range(len(lines) + 1) if sum(lengths[:i]) >= 0.4 * sum(lengths))
    later = sorted(zip(lengths[first:], lines[first:], strict=True), reverse=True)
    return [line for _, line in later] + lines[:first][::-1]


def _length(line: str) -> int:
    """Bytes of Python's code of a kernel and of all that it calls: near enough in proportion to the time to compile them."""
    module, name, _ = line.split(" ", 2)
    importlib.import_module(module)
    functions = {KERNELS[f"{module}.{name}"].py_func}
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        used = map(function.__globals__.get, function.__code__.co_names)
        callees = {value.py_func for value in used if isinstance(value, Dispatcher)} - functions
        functions |= callees
        waiting += callees
    return sum(len(function.__code__.co_code) for function in functions)


def line_of(module: str, function: str, arguments: tuple[Any, ...]) -> str:
    """The line of a kernel for numba types of its arguments; `compile_kernels` reads it.

    >>> line_of("fsmc.jit", "f", (types.int64, types.Array(types.int32, 1, "C")))
    "fsmc.jit f (int64, Array(int32, 1, 'C', False, aligned=True))"
    """
    return f"{module} {function} {arguments!r}"


def use_every_kernel() -> None:
    """Compile small patterns and schemas, walk them and mask logits, so that each kernel is called with its usual types.

    >>> use_every_kernel()
    """
    import numpy as np

    import fsmc
    from fsmc.compiler.automata.equivalence import difference_witness
    from fsmc.compiler.warm_up import warm_up_any_order, warm_up_schemas

    warm_up_schemas()  # first, so that the helper, which begins at the end, serves those who compile patterns as well
    vocab = fsmc.Vocabulary.from_tokens([bytes([byte]) for byte in range(256)] + [b"ab", b""], eos_token_ids=[257])
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    whole = compiler.compile_regex("(a|b)*a(a|b){10}")
    whole.build_index()
    lazy = compiler.compile_regex(r"\b(?=.*[0-9])\w{8}\b|a{3,5}")
    for grammar in (whole, lazy):
        matcher = fsmc.GrammarMatcher(grammar)
        matcher.fill_next_token_bitmask(mask)
        matcher.accept_bytes(b"a")
        matcher.find_jump_forward_string()
        grammar.machine.matches(b"a")
        grammar.jump_map.jump(grammar.machine.start)
        if grammar.dfa is not None:
            difference_witness(grammar.dfa, grammar.dfa & ~grammar.dfa)
    logits = np.zeros((1, vocab.size), np.float32)
    fsmc.apply_token_bitmask_inplace(logits, mask)
    fsmc.apply_token_bitmask_inplace(logits.astype(np.float16), mask, indices=[0])
    fsmc.fill_bitmask_batch([matcher, None], fsmc.allocate_token_bitmask(2, vocab.size))
    matcher.fill_next_token_bitmask(mask, max_tokens=matcher.num_tokens_to_complete())
    fsmc.ReasoningGate(matcher, "ab").fill_next_token_bitmask(mask)
    warm_up_schemas()
    warm_up_any_order()


def kernels_in_use() -> list[str]:
    """What the list should be: a line for each kernel that `use_every_kernel` calls, in that order.

    Kernels that only other kernels call are not among them: they are compiled with their callers. To be called in a
    process that has run no kernel yet.
    """
    # Every module with kernels, so that KERNELS is whole.
    import fsmc.compiler.automata.equivalence
    import fsmc.compiler.tokens.masks
    import fsmc.compiler.warm_up
    import fsmc.jumpforward.jump_map
    import fsmc.runtime.batch
    import fsmc.runtime.bitmask
    import fsmc.runtime.matcher  # noqa: F401

    lines: list[str] = []
    depth = 0

    def recorded(name: str, compile_: Any) -> Any:
        def compile_and_note(arguments: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                return compile_(arguments)
            finally:
                depth -= 1
                if depth == 0:
                    module, function = name.rsplit(".", 1)
                    lines.append(line_of(module, function, tuple(arguments)))

        return compile_and_note

    for name, dispatcher in KERNELS.items():
        dispatcher.compile = recorded(name, dispatcher.compile)
    use_every_kernel()
    return lines


@contextlib.contextmanager
def _only_one(folder: str) -> Iterator[IO[str] | None]:
    """Hold the folder's lock, or None where another process holds it (on systems without ``flock`` nobody does)."""
    with open(Path(folder) / "fsmc-kernels.lock", "w") as lock:
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield None
                return
        yield lock


def main() -> None:
    """With a folder: what the helper of `fsmc.jit` does, all kernels in its order, unless another helper is at it.
    Without: print what the list should be."""
    os.environ["FSMC_COMPILE_ALONE"] = os.environ["FSMC_QUIET"] = "1"
    if not sys.argv[1:]:
        print("\n".join(kernels_in_use()))
        return
    with _only_one(sys.argv[1]) as lock:
        if lock:
            compile_kernels(lines_for_helper(listed_kernels()))


if __name__ == "__main__":
    main()
