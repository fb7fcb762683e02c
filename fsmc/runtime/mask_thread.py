"""A thread that fills masks while the model computes: both leave Python's lock alone most of the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from fsmc.runtime.python_end import ends_with_python

_LOOK_AFTER_SECONDS = 0.2
"""How often one who waits looks whether the thread is still there."""


class Job:
    """A function that is being called elsewhere; see `MaskThread`."""

    def __init__(self, function: Callable[[], None], thread: threading.Thread) -> None:
        self._function: Callable[[], None] | None = function
        self._thread = thread
        # Not an Event: whoever dies inside one may leave its lock taken. A bare lock is released in one step.
        self._done = threading.Lock()
        self._done.acquire()
        self._succeeded = False

    def run(self) -> None:
        """The thread's part."""
        function = self._function
        assert function is not None
        try:
            function()
            self._succeeded = True
        except BaseException:  # who waits calls the function again, and meets the error where it can be dealt with
            pass
        finally:
            del function  # what it refers to is freed by who waits: a daemon thread that is freeing tensors when Python ends aborts it
            self._done.release()

    def wait(self) -> None:
        """Return when the function has been called. If that failed, or the thread died before, it is called here."""
        while not self._done.acquire(timeout=_LOOK_AFTER_SECONDS) and self._thread.is_alive():
            pass
        function, self._function = self._function, None
        if not self._succeeded and function is not None:
            function()


class MaskThread:
    """One daemon thread, started when first needed, and anew if it has died.

    >>> thread, done = MaskThread(), []
    >>> thread.start(lambda: done.append(1)).wait()
    >>> done
    [1]
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        ends_with_python(self)

    def start(self, function: Callable[[], None]) -> Job:
        """Have ``function`` called; calling it twice must do no harm."""
        if self._thread is None or not self._thread.is_alive():
            self._jobs = SimpleQueue()
            self._thread = threading.Thread(target=_work, args=(self._jobs,), daemon=True, name="fsmc-masks")
            self._thread.start()
        job = Job(function, self._thread)
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        self._jobs.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def begin_to_end(self) -> None:
        """End the thread after the job that it has."""
        self._jobs.put(None)

    def wait_to_end(self, until: float) -> None:
        """Python ends: wait for the thread."""
        if (thread := self._thread) is not None:
            thread.join(max(until - time.monotonic(), 0))

    def __del__(self) -> None:
        """Nobody can ask it for anything any more: let the thread end."""
        self._jobs.put(None)


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.run()
        del job  # or the last one would be held while waiting for the next
