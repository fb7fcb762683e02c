"""One decorator for every numba kernel: compiled once per machine, kept on disk, announced while it happens.

numba looks for a place to keep compiled code in ``NUMBA_CACHE_DIR``, then beside the source file, then in the user's
cache folder. Where none of them can be written it raises while the decorator runs, which would make *importing* fsmc
fail; such kernels go on without a disk cache instead.

numba compiles on one core. The first process on a machine therefore starts a helper that compiles what is needed last
(see `fsmc.kernels`), while it compiles what it needs itself, which is the list of all kernels from its beginning: they meet half
way, and no kernel is compiled by both. ``FSMC_COMPILE_ALONE=1`` keeps it from doing so.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import hashlib
import itertools
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core import cgutils, event, types
from numba.extending import intrinsic
from numba.np import arrayobj

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_F = TypeVar("_F", bound=Callable[..., Any])

KERNELS: dict[str, Any] = {}
"""Every kernel decorated so far, by ``module.name``."""


def working_seconds() -> float:
    """``time.perf_counter()`` less the time in which this process compiled kernels: what a limit on time is held against.

    On a machine where fsmc is new that takes longer than most patterns may, and says nothing about them.

    >>> working_seconds() <= working_seconds()
    True
    """
    spent, began = _compiling
    if _is_over:  # more than any limit has passed since the last call, also for what begins only now
        return _AGES * next(_calls)
    return (time.perf_counter() if began is None else began) - spent


_is_over = False
_AGES = 1e12
_calls = itertools.count(1)


def end_all_limits() -> None:
    """Whatever has a limit on its time has reached it: Python ends, and would not wait for a thread in the middle of a kernel."""
    global _is_over
    _is_over = True


_limit: ContextVar[tuple[float, float]] = ContextVar("limit", default=(math.inf, math.inf))


@contextlib.contextmanager
def time_limit(max_seconds: float) -> Iterator[None]:
    """What is built inside of the block has a limit on its time, in `working_seconds`, whatever limits it has itself: see `nearer_limit`.

    >>> with time_limit(5):
    ...     nearer_limit(60)[0]
    5
    """
    own = max_seconds, working_seconds() + max_seconds
    token = _limit.set(min(own, _limit.get(), key=lambda limit: limit[1]))
    try:
        yield
    finally:
        _limit.reset(token)


def nearer_limit(max_seconds: float) -> tuple[float, float]:
    """``max_seconds`` and when they will be over, or those of the `time_limit` around if that is sooner."""
    own = max_seconds, working_seconds() + max_seconds
    return min(own, _limit.get(), key=lambda limit: limit[1])


def exceeded(max_seconds: float, deadline: float) -> tuple[float, float] | None:
    """If ``deadline`` is over, in `working_seconds`, or the `time_limit` around: the limit in seconds, and how many were taken; else None.

    >>> exceeded(5, working_seconds() + 1) is None, exceeded(5, working_seconds() - 1)[0]
    (True, 5)
    """
    now, outer = working_seconds(), _limit.get()
    for limit, until in ((max_seconds, deadline), outer):
        if now > until:
            return limit, limit + now - until
    return None


_compiling: tuple[float, float | None] = 0.0, None
"""Seconds so far, and since when it happens now; one tuple, as other threads read it meanwhile."""


_compiling_lock = threading.Lock()
_n_compiling = 0
_collect_again = False


def _timed(compile_: Callable[..., Any], name: str, folder: str | None) -> Callable[..., Any]:
    """``compile_``, a dispatcher's method, with its time noted: compiling, or reading what is on disk, or waiting for another thread
    or process that is compiling the same.

    Python's search for garbage waits meanwhile: numba makes millions of small objects that live on, and to go through them
    again and again took a twelfth of the time.
    """

    def compile_and_note(signature: Any) -> Any:
        global _compiling, _n_compiling, _collect_again
        with _compiling_lock:
            _n_compiling += 1
            if _n_compiling == 1:
                _compiling = _compiling[0], time.perf_counter()
                _collect_again = gc.isenabled()
                gc.disable()
        try:
            with _claim(folder, name):
                return compile_(signature)
        finally:
            with _compiling_lock:
                _n_compiling -= 1
                spent, began = _compiling
                if _n_compiling == 0 and began is not None:
                    _compiling = spent + time.perf_counter() - began, None
                    if _collect_again:
                        gc.enable()

    return compile_and_note


@contextlib.contextmanager
def _claim(folder: str | None, name: str) -> Iterator[None]:
    """While the block runs, other processes with the same cache folder wait with this kernel; then they find it on disk.

    They wait for a minute at most. The system ends a claim with its process. Without ``fcntl`` (Windows) nobody waits.
    """
    descriptor = _claims.get(folder)
    if descriptor is None and folder is not None:
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            # Never closed: that would end all claims of this process.
            descriptor = os.open(os.path.join(folder, "fsmc-claims.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            descriptor = _claims.setdefault(folder, descriptor)
    if fcntl is None or descriptor is None:
        yield
        return
    place = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "big")
    deadline = time.monotonic() + 60
    is_mine = False
    while not is_mine and time.monotonic() < deadline:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            is_mine = True
        except (BlockingIOError, PermissionError):  # which of them, depends on the system
            time.sleep(0.01)
        except OSError:  # a file system without locks
            break
    try:
        yield
    finally:
        if is_mine:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)


_claims: dict[str | None, int] = {}


def kernel(function: _F) -> _F:
    """Compile ``function`` with numba on its first call: no Python objects, GIL released, cached on disk.

    >>> import numpy as np
    >>> from fsmc.jit import kernel
    >>> @kernel
    ... def total(numbers):
    ...     s = 0
    ...     for x in numbers:
    ...         s += x
    ...     return s
    >>> total.py_func(np.arange(4))
    np.int64(6)
    """
    # No kernel is called through a C function pointer, and none divides by zero: a tenth less to compile.
    options: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    dispatcher: Any
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache folder anywhere: compile again in each process
        dispatcher = numba.njit(**options)(function)
    name = f"{function.__module__}.{function.__qualname__}"
    dispatcher.compile = _timed(dispatcher.compile, name, dispatcher.stats.cache_path)
    KERNELS[name] = dispatcher
    return cast(_F, dispatcher)


def addresses_of(*arrays: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """int64[2 * n], for each array (contiguous) its address and its length, read-only.

    To hand a kernel an array takes a tenth of a microsecond, and the kernels of a step need some twenty; so they get the
    addresses, in one array that is made when the others are. Whoever calls must hold the arrays until the kernel returns.

    >>> addresses_of(np.zeros(3), np.zeros((5, 2)))[1::2].tolist()
    [3, 5]
    """
    numbers: list[int] = []
    for array in arrays:
        try:
            numbers.append(_address_of(_char_at(array)))  # a third of the time that numpy takes to tell
        except (TypeError, ValueError):  # read-only, or empty
            numbers.append(array.__array_interface__["data"][0])
        numbers.append(len(array))
    found = np.array(numbers, np.int64)
    found.setflags(write=False)
    return found


_address_of, _char_at = ctypes.addressof, cast(Any, ctypes.c_char.from_buffer)


_make_array: Any = arrayobj.make_array
_populate_array: Any = arrayobj.populate_array
_memcpy: Any = cgutils.raw_memcpy


def _typed_copy(_: Any, to: Any, source: Any, n_bytes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = context.get_value_type(types.voidptr)
        to, source, n_bytes = arguments
        _memcpy(builder, builder.inttoptr(to, pointer), builder.inttoptr(source, pointer), n_bytes, 1)
        return context.get_dummy_value()

    return types.void(to, source, n_bytes), generate


copy_bytes: Any = intrinsic(_typed_copy)
"""``copy_bytes(to, source, n)``, addresses and a number of bytes: memcpy, for kernels only."""


def _view(dtype: Any, n_axes: int) -> Any:
    """An intrinsic ``view(addresses, i)``, or ``view(addresses, i, width)``: the ``i``-th array of `addresses_of`.

    As intrinsics they are written into each caller. As kernels they were compiled anew for each literal ``i``, and each of
    those took a twentieth of a second of every first start.
    """
    array = types.Array(dtype, n_axes, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = _make_array(signature.args[0])(context, builder, arguments[0])
        twice = builder.shl(arguments[1], cgutils.intp_t(1))
        first = builder.gep(given.data, [twice])
        size = cgutils.intp_t(dtype.bitwidth // 8)
        shape, strides = [builder.load(builder.gep(first, [cgutils.intp_t(1)]))], [size]
        if n_axes == 2:
            shape.append(arguments[2])
            strides.insert(0, builder.mul(size, arguments[2]))
        made = _make_array(array)(context, builder)
        data = builder.inttoptr(builder.load(first), context.get_data_type(dtype).as_pointer())
        _populate_array(made, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return made._getvalue()

    def one_axis(_: Any, addresses: Any, i: Any) -> Any:
        return array(addresses, types.intp), generate

    def two_axes(_: Any, addresses: Any, i: Any, width: Any) -> Any:
        return array(addresses, types.intp, types.intp), generate

    return intrinsic(one_axis if n_axes == 1 else two_axes)


bytes_at: Any = _view(types.uint8, 1)
"""``bytes_at(addresses, i)``: the ``i``-th array of `addresses_of`, uint8[n]; for kernels only, like those below."""
ints_at: Any = _view(types.int32, 1)
"""The same for int32[n]."""
int_rows_at: Any = _view(types.int32, 2)
"""``int_rows_at(addresses, i, width)``: the same for int32[n, width]."""
longs_at: Any = _view(types.int64, 1)
"""The same for int64[n]."""
long_rows_at: Any = _view(types.int64, 2)
"""The same for int64[n, width]."""


class _CompileListener(event.Listener):
    """Calls ``report(name)`` whenever one of our kernels is really compiled (not loaded from the cache)."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.report = report

    def on_start(self, ev: Any) -> None:
        name = self.name_of(ev)
        if name in KERNELS:
            _start_helper(KERNELS[name])
            self.report(name)

    def on_end(self, ev: Any) -> None:
        if self.name_of(ev) in KERNELS and _announce is _print_progress and _on_terminal():
            sys.stderr.write("\r\x1b[K")  # it may have been the last one: how many there will be is not known
            sys.stderr.flush()

    @staticmethod
    def name_of(ev: Any) -> str:
        function = ev.data["dispatcher"].py_func
        return f"{function.__module__}.{function.__qualname__}"


@contextlib.contextmanager
def on_compile(report: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, call ``report(kernel name)`` for each kernel that numba starts to compile.

    >>> with on_compile(print):
    ...     pass
    """
    global _announce
    previous, _announce = _announce, report
    try:
        yield
    finally:
        _announce = previous


def _on_terminal() -> bool:
    return not os.environ.get("FSMC_QUIET") and sys.stderr is not None and sys.stderr.isatty()


def _print_progress(name: str) -> None:
    """The default report: a line on a terminal while it lasts, one line in a log, nothing with FSMC_QUIET set."""
    global _n_compiled
    _n_compiled += 1
    if _on_terminal():
        short = name.rsplit(".", 1)[-1].lstrip("_")
        sys.stderr.write(f"\r\x1b[Kfsmc: compiling kernels, once per machine: {_n_compiled} so far, now {short}")
        sys.stderr.flush()
    elif _n_compiled == 1 and sys.stderr is not None and not os.environ.get("FSMC_QUIET"):
        sys.stderr.write("fsmc: compiling kernels, once per machine (some seconds)\n")
        sys.stderr.flush()


def _start_helper(dispatcher: Any) -> None:
    """Once in a process: compile the other kernels in the background, into the same folder as ``dispatcher``'s."""
    global _helper_started
    folder = dispatcher.stats.cache_path
    if _helper_started or folder is None or (os.cpu_count() or 1) < 2 or os.environ.get("FSMC_COMPILE_ALONE"):
        return
    _helper_started = True
    if getattr(sys, "frozen", False) or not sys.executable:
        return  # there is no interpreter to start
    command = [sys.executable, "-m", "fsmc.kernels", folder]
    none = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        helper = subprocess.Popen(command, stdin=none, stdout=none, stderr=none)
        atexit.register(helper.kill)  # what it has compiled by then is on disk


_helper_started = False
_n_compiled = 0
_announce: Callable[[str], None] = _print_progress
_register: Any = event.register
_register("numba:compile", _CompileListener(lambda name: _announce(name)))
