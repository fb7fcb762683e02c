"""Threads that compile, and the jobs they are given: what the grammar manager stands on."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from fsmc.compiler.grammar import CompiledGrammar
from fsmc.jit import end_all_limits
from fsmc.runtime.python_end import ends_with_python

log = logging.getLogger("fsmc")

IDLE_SECONDS = 30.0
"""After which a thread without work ends; the next job starts another."""


@dataclass(frozen=True)
class InvalidGrammar:
    """In place of a grammar that there is none of: a constraint that was refused, took too long, was given up, or got lost.

    message: for whoever sent the request. reason: "refused", "timeout", "cancelled", or "lost" (a worker or a rank died: the same
    request may succeed another time). error: the exception, where there was one.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
    >>> with fsmc.GrammarManager(fsmc.GrammarCompiler(vocab, cache_dir=None)) as manager:
    ...     invalid = manager.request("regex", "a(").wait()
    >>> invalid.reason, invalid.message.partition(",")[0]
    ('refused', 'the group has no closing )')
    """

    message: str
    reason: str = "refused"
    error: BaseException | None = field(default=None, repr=False, compare=False)


Outcome = CompiledGrammar | InvalidGrammar


@dataclass(eq=False)
class Job:
    """One compilation, for all requests that want its result.

    outcome is written last, once, and read without a lock. n_waiting: requests that still want it. nbytes: of the text it is made from.
    """

    key: Hashable
    kind: str
    label: str
    compile: Callable[[], CompiledGrammar] | None
    outcome: Outcome | None = None
    n_waiting: int = 0
    hits: int = 0
    seconds: float = 0.0
    nbytes: int = 0
    thread: threading.Thread | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, outcome: Outcome) -> None:
        """Say how it ended, unless that is known."""
        if self.outcome is None:
            self.compile = None
            self.outcome = outcome
            self.done.set()

    def run(self) -> None:
        """Compile; nothing that can be wrong with a constraint, and nothing a compiler raises, gets out of here."""
        function = self.compile
        if function is None:
            return
        began = time.perf_counter()
        try:
            outcome: Outcome = function()
        except Exception as error:
            outcome = InvalidGrammar(str(error) or type(error).__name__, "refused", _alone(error))
        self.seconds = time.perf_counter() - began
        self.finish(outcome)


def _alone(error: Exception) -> Exception:
    """An error that is kept, without the frames that it came through, which hold all they worked on, and what it was raised in."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class CompileThreads:
    """Threads that run jobs in the order in which they came; started when there is work.

    max_workers: how many at a time (default: half of the processors, at least one). A thread whose job nobody waits for any
    more does not count, up to as many again: a compilation that is given up must not keep others waiting. on_done: called
    in the thread after each job.
    """

    def __init__(self, max_workers: int | None, on_done: Callable[[Job], None]) -> None:
        self.max_workers = max(1, (os.cpu_count() or 1) // 2) if max_workers is None else max_workers
        self.lock = threading.Lock()
        self.closed = False
        self._on_done = on_done
        self._wake = threading.Condition(self.lock)
        self._waiting: deque[Job] = deque()
        self._running: dict[threading.Thread, Job | None] = {}
        ends_with_python(self)

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    @property
    def n_running(self) -> int:
        return sum(job is not None for job in list(self._running.values()))

    def put(self, job: Job) -> None:
        """Have a job done."""
        with self.lock:
            if self.closed:
                return job.finish(InvalidGrammar("the grammar manager was closed", "cancelled"))
            self._waiting.append(job)
            self._start_threads()
            self._wake.notify()

    def give_up(self, job: Job) -> bool:
        """Take back a job that has not begun; whether it had not."""
        with self.lock:
            try:
                self._waiting.remove(job)
            except ValueError:
                self._start_threads()  # the thread that runs it does not count any more
                return False
            return True

    def look_after(self) -> None:
        """Start threads in place of those that died, and end their jobs."""
        with self.lock:
            self._start_threads()

    def close(self) -> None:
        """Take no more jobs, give up those that wait; threads end after the job they run."""
        with self.lock:
            self.closed = True
            for job in self._waiting:
                job.finish(InvalidGrammar("the grammar manager was closed", "cancelled"))
            self._waiting.clear()
            self._wake.notify_all()

    def begin_to_end(self) -> None:
        """Take no more jobs; those that run reach their limits now."""
        self.close()
        if self.n_running:
            end_all_limits()

    def wait_to_end(self, until: float) -> None:
        """Python ends: wait for the jobs that run."""
        while self.n_running and time.monotonic() < until:
            time.sleep(0.001)

    def _start_threads(self) -> None:
        for thread, job in list(self._running.items()):
            if not thread.is_alive():
                del self._running[thread]
                if job is not None:
                    job.finish(InvalidGrammar("the thread that compiled this constraint died: send it again", "lost"))
        busy = sum(job is None or job.n_waiting > 0 for job in self._running.values())
        idle = sum(job is None for job in self._running.values())
        n_new = min(len(self._waiting) - idle, self.max_workers - busy, 2 * self.max_workers - len(self._running))
        for _ in range(n_new):
            thread = threading.Thread(target=self._work, daemon=True, name="fsmc-compile")
            self._running[thread] = None
            thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        job: Job | None = None
        try:
            while True:
                with self.lock:
                    self._running[me] = job = None
                    while not self._waiting:
                        if self.closed or (not self._wake.wait(IDLE_SECONDS) and not self._waiting):
                            return
                    job = self._waiting.popleft()
                    self._running[me] = job
                    job.thread = me
                job.run()
                self._on_done(job)
        except BaseException as error:  # whatever ends a thread: SystemExit, an error of ours in on_done
            log.error("a compile thread died: %r", error)
            if job is not None:
                job.finish(InvalidGrammar(f"the thread that compiled this constraint died ({error!r})", "lost", error))
                self._on_done(job)
        finally:
            with self.lock:
                self._running.pop(me, None)
                if self._waiting and not self.closed:
                    self._start_threads()
