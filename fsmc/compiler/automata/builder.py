"""What a machine that is made as it is walked (`LazyRSM`) asks of whoever makes it."""

from __future__ import annotations

from typing import Protocol


class Builder(Protocol):
    """Who knows what the keys mean."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about what the machine does not check."""

    def build_row(self, state: int) -> None:
        """Call ``set_row`` for the state."""

    def build_return(self, frame: int, outcome: int) -> None:
        """Call ``set_return`` for the frame and the outcome."""

    def behind_space(self, state: int) -> int:
        """See `RecursiveMachine.behind_space`; asked only of a machine that has ``space``."""

    def record(self, state: int, text: bytes | None) -> int:
        """The state to go on in, given the text that was read between a recorded call and its return to ``state``.

        None: a text that differs from all before, of which nothing is remembered; who asks so compares texts on his own.
        0 where it may not have been this text: the byte that ended it is then refused.
        """
