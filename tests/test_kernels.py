"""The list of kernels is whole and true, and what it says is compiled where it should be."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import fsmc
from fsmc.jit import kernel, working_seconds
from fsmc.kernels import listed_kernels

PACKAGE = Path(fsmc.__file__).parent


def python(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_list_is_what_a_process_uses() -> None:
    assert python("-m", "fsmc.kernels").splitlines() == listed_kernels()


def test_every_kernel_is_listed_or_compiled_with_one_that_is() -> None:
    """Else the helper would leave it to whoever calls it first."""
    seen = python(
        "-c",
        "from fsmc.jit import KERNELS\n"
        "from fsmc.kernels import kernels_in_use\n"
        "def name(kernel):\n"
        "    return kernel.py_func.__module__ + '.' + kernel.py_func.__name__\n"
        "kernels_in_use()\n"
        "for kernel in KERNELS.values():\n"
        "    f = kernel.py_func\n"
        "    used = [f.__globals__.get(n) for n in f.__code__.co_names]\n"
        "    print(name(kernel), *[name(k) for k in used if hasattr(k, 'py_func')])\n",
    )
    calls = {name: callees for name, *callees in map(str.split, seen.splitlines())}
    reached = {".".join(line.split(" ")[:2]) for line in listed_kernels()}
    waiting = list(reached)
    while waiting:
        for callee in calls[waiting.pop()]:
            if callee not in reached:
                reached.add(callee)
                waiting.append(callee)
    assert set(calls) == reached
    decorated = sum(path.read_text().count("\n@kernel\n") for path in PACKAGE.rglob("*.py"))
    assert len(calls) == decorated


@pytest.mark.parametrize("alone", ["", "1"])
def test_a_helper_compiles_what_was_not_asked_for(tmp_path, alone: str) -> None:
    """Unless it is forbidden. The helper begins with what is needed late, and is stopped with the process."""
    script = (
        "import time\n"
        "from pathlib import Path\n"
        "from fsmc.kernels import compile_kernels, lines_for_helper, listed_kernels\n"
        "lines = listed_kernels()\n"
        "compile_kernels(lines[:1])\n"
        "name = lines_for_helper(lines)[0].split(' ')[1]\n"
        f"deadline = time.monotonic() + {2 if alone else 120}\n"
        f"while not (found := list(Path({str(tmp_path)!r}).rglob(f'*.{{name}}-*.nbi'))) and time.monotonic() < deadline:\n"
        "    time.sleep(0.05)\n"
        "print(bool(found))\n"
    )
    found = python("-c", script, NUMBA_CACHE_DIR=str(tmp_path), FSMC_COMPILE_ALONE=alone)
    assert found.strip() == str(not alone)


def test_no_kernel_is_compiled_by_two_processes_at_once(tmp_path: Path) -> None:
    """Who comes second waits, and reads from disk what the first has compiled; also a kernel that another one calls."""
    module = (
        "import sys, time\n"
        "from numba.core import types\n"
        "from fsmc.jit import KERNELS, kernel, on_compile\n"
        "@kernel\n"
        "def inner(n):\n"
        "    return n * 2\n"
        "@kernel\n"
        "def outer(n):\n"
        "    return inner(n) + 1\n"
        "@kernel\n"
        "def other(n):\n"
        "    return inner(n) + 2\n"
        "def report(name):\n"
        "    print(name, flush=True)\n"
        "    if name.endswith('inner'):\n"
        "        time.sleep(1.5)\n"
        "if __name__ == '__main__':\n"
        "    import shared_kernels\n"
        "    with on_compile(report):\n"
        "        getattr(shared_kernels, sys.argv[1]).compile((types.int64,))\n"
    )
    (tmp_path / "shared_kernels.py").write_text(module)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "FSMC_COMPILE_ALONE": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(PACKAGE.parent)]),
    }
    command = [sys.executable, str(tmp_path / "shared_kernels.py")]
    both = [
        subprocess.Popen([*command, name], env=environment, stdout=subprocess.PIPE, text=True)
        for name in ("outer", "other", "outer")
    ]
    compiled = sorted("".join(process.communicate()[0] for process in both).split())
    assert [process.returncode for process in both] == [0, 0, 0]
    assert compiled.count("shared_kernels.inner") == 1
    assert compiled.count("shared_kernels.outer") == compiled.count("shared_kernels.other") == 1


def test_compiling_kernels_is_no_work_of_the_pattern() -> None:
    """Limits on time are held against a clock that stands meanwhile, in all threads."""

    @kernel
    def plus_one(number):  # type: ignore[no-untyped-def]
        return number + 1

    compile_, began = plus_one.compile, threading.Event()  # type: ignore[attr-defined]
    spent = []

    def slowly(signature: object) -> object:
        began.set()
        time.sleep(0.5)
        return original(signature)

    original = compile_.__closure__[0].cell_contents
    compile_.__closure__[0].cell_contents = slowly

    def other() -> None:
        began.wait()
        now, work = time.perf_counter(), working_seconds()
        time.sleep(0.2)
        spent.append((time.perf_counter() - now, working_seconds() - work))

    thread = threading.Thread(target=other)
    thread.start()
    now, work = time.perf_counter(), working_seconds()
    assert plus_one(1) == 2
    spent.append((time.perf_counter() - now, working_seconds() - work))
    thread.join()
    (other_time, other_work), (own_time, own_work) = spent
    assert own_time - own_work >= 0.5 and other_time - other_work >= 0.19
    before = working_seconds()
    time.sleep(0.01)
    assert working_seconds() - before >= 0.01, "it goes on"
