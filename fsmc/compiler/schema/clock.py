"""How long one piece of work on a schema may take."""

from __future__ import annotations

import time

from fsmc.compiler.errors import LimitExceeded

MAX_SECONDS = 60.0


class Clock:
    """A budget for one piece of work: deciding whether a schema allows anything, or making one row of its machine.

    Work whose size the schema decides asks `check` on its way, so that no schema, however made, holds a server up.

    >>> clock = Clock(max_seconds=0.0)
    >>> clock.check()
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.LimitExceeded: ...max_seconds=0 exceeded...
    """

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self.max_seconds = max_seconds
        self.restart()

    def restart(self) -> None:
        """Begin a new piece of work."""
        self._started = time.monotonic()

    @property
    def remaining(self) -> float:
        """Seconds left."""
        return self.max_seconds - (time.monotonic() - self._started)

    def check(self) -> None:
        """Raise LimitExceeded if the time is up."""
        if self.remaining <= 0:
            reached = self.max_seconds - self.remaining
            raise LimitExceeded(
                "max_seconds", float(self.max_seconds), reached, "raise the limit or simplify the schema"
            )
