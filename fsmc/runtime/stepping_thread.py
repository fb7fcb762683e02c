"""The thread of an engine that steps by itself. Like the thread that fills masks, it must not keep the engine alive."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from fsmc.runtime.engine import Engine

IDLE_SECONDS = 0.01
"""A pause where requests wait for something that is not the engine's."""
_LOOK_AFTER_SECONDS = 0.2
"""How often a thread that has nothing to do looks whether anybody still holds its engine."""


class SteppingThread(threading.Thread):
    """An engine's thread: steps, or waits for something to do. While it waits it does not hold the engine."""

    def __init__(self, engine: ref[Engine], news: threading.Condition) -> None:
        super().__init__(daemon=True, name="fsmc-engine")
        self._engine, self._news = engine, news

    def run(self) -> None:
        while (engine := self._engine()) is not None:
            closed = False
            try:
                while not engine._closing and engine.step():
                    pass
                closed = engine._closing
            except BaseException:
                engine._end(closed=False)
                raise
            if closed:
                return engine._end(closed=True)
            with self._news:
                if engine._closing:
                    continue
                is_waiting = bool(engine._waiting)
                if not is_waiting:
                    del engine
                self._news.wait(IDLE_SECONDS if is_waiting else _LOOK_AFTER_SECONDS)

    def begin_to_end(self) -> None:
        """Its engine was told."""

    def wait_to_end(self, until: float) -> None:
        """It frees the tensors of an engine that nobody else holds."""
        self.join(max(until - time.monotonic(), 0))
