"""One limit on the time of all that is done for a structural tag: reading it, its language, its grammars and its machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import exceeded, nearer_limit, working_seconds


class TagClock:
    """Runs from when it is made.

    >>> TagClock(0.0).check()
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.LimitExceeded: max_seconds=0 exceeded...
    """

    def __init__(self, max_seconds: float) -> None:
        self.max_seconds, self.started = max_seconds, working_seconds()

    @property
    def remaining(self) -> float:
        """Seconds left, for a part that has a limit of its own."""
        left = self.max_seconds - (working_seconds() - self.started)
        return max(0.0, nearer_limit(left)[1] - working_seconds())

    def check(self) -> None:
        """Raise LimitExceeded if the time is up."""
        if over := exceeded(self.max_seconds, self.started + self.max_seconds):
            raise LimitExceeded("max_seconds", *over, "raise the limit or simplify the structural tag")

    @contextmanager
    def as_a_whole(self) -> Iterator[None]:
        """A part that has used up what was left for it is told as the whole."""
        try:
            yield
        except LimitExceeded as error:
            if error.name == "max_seconds":
                error.limit, error.reached = self.max_seconds, working_seconds() - self.started
            raise
