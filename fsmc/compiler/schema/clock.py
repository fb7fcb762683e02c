"""How long one piece of work on a schema may take, and how large the machines may become that it makes on its way."""

from __future__ import annotations

from fsmc.compiler.automata.determinize import MAX_BYTES, MAX_SECONDS, MAX_STATES
from fsmc.compiler.automata.subsets import Limits
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import exceeded, nearer_limit, working_seconds


class Clock:
    """A budget for one piece of work: deciding whether a schema allows anything, or making one row of its machine.

    Work whose size the schema decides asks `check` on its way, so that no schema, however made, holds a server up; what it
    builds stays within `limits`.

    >>> clock = Clock(max_seconds=0.0)
    >>> clock.check()
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.LimitExceeded: ...max_seconds=0 exceeded...
    """

    def __init__(
        self, max_seconds: float = MAX_SECONDS, max_states: int = MAX_STATES, max_bytes: int = MAX_BYTES
    ) -> None:
        self.max_seconds, self.max_states, self.max_bytes = max_seconds, max_states, max_bytes
        self._is_held = False
        self.restart()

    def restart(self) -> None:
        """Begin a new piece of work."""
        if not self._is_held:
            self._started = working_seconds()

    def hold(self, started: float) -> None:
        """Take all that comes, until `release`, for one piece of work that began at ``started``."""
        self._started, self._is_held = started, True

    def release(self) -> None:
        """Pieces of work are such by themselves again."""
        self._is_held = False

    @property
    def remaining(self) -> float:
        """Seconds left."""
        left = self.max_seconds - (working_seconds() - self._started)
        return nearer_limit(left)[1] - working_seconds()

    def limits(self) -> Limits:
        """What one machine may still use."""
        return Limits(self.max_states, self.max_bytes, self.max_seconds, self._started)

    def check(self) -> None:
        """Raise LimitExceeded if the time is up."""
        if over := exceeded(float(self.max_seconds), self._started + self.max_seconds):
            raise LimitExceeded("max_seconds", *over, "raise max_seconds or simplify the schema")
