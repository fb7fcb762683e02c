"""What happens to the threads at work when Python ends: they come to a stop first.

Python stops a daemon thread wherever it is when it next needs the interpreter. Inside C++ (the model) or a compiled kernel that
aborts the process, and its exit code is lost. So whatever has such a thread is known here and asked to end, before that.
"""

from __future__ import annotations

import atexit
import os
import time
from typing import Protocol
from weakref import WeakSet

LAST_SECONDS = 10.0
"""How long Python's end waits for a pass, or a compilation, that is under way."""


class AtWork(Protocol):
    """Something whose threads run compiled code."""

    def begin_to_end(self) -> None:
        """Take no more work, and give up what can be given up. Must not wait."""

    def wait_to_end(self, until: float) -> None:
        """Return when no thread is at work, or at this time of `time.monotonic`."""


_at_work: WeakSet[AtWork] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_at_work.clear)  # the threads are the parent's


def ends_with_python(thing: AtWork) -> None:
    """Have it asked to end when Python does, if it is still there."""
    _at_work.add(thing)


@atexit.register
def _end() -> None:
    things, until = list(_at_work), time.monotonic() + LAST_SECONDS
    for thing in things:
        thing.begin_to_end()
    for thing in things:
        thing.wait_to_end(until)
