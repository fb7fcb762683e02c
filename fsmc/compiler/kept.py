"""Results that are kept for whoever asks again, within a bound on their bytes: a server meets constraints without end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_ENTRY_BYTES = 300


class Kept(Generic[T]):
    """Values by keys, about those asked for last, of at most ``max_bytes``: half of it is for the newer generation, and when that is full
    the older one goes. Any number of threads may use it.

    >>> values = Kept[str](2000)
    >>> values.put("a", "first", 600); values.put("b", "second", 600); values.get("a"), values.get("b")
    ('first', 'second')
    >>> values.put("c", "third", 600); values.get("a"), values.get("b"), values.get("c"), values.nbytes
    (None, 'second', 'third', 1800)
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._newer: dict[Hashable, tuple[T, int]] = {}
        self._older: dict[Hashable, tuple[T, int]] = {}
        self._n_newer = self._n_older = 0

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept, about."""
        return self._n_newer + self._n_older

    def get(self, key: Hashable) -> T | None:
        """The value of a key, None if there is none."""
        known = self._newer.get(key)
        if known is None:
            known = self._older.get(key)
            if known is None:
                return None
            self.put(key, *known)
        return known[0]

    def put(self, key: Hashable, value: T, nbytes: int) -> None:
        """Keep a value of so many bytes, unless it is too large alone."""
        size = nbytes + _ENTRY_BYTES
        if size > self.max_bytes // 2:
            return
        if self._n_newer + size > self.max_bytes // 2:
            self._older, self._newer = self._newer, {}
            self._n_older, self._n_newer = self._n_newer, 0
        self._newer[key] = value, nbytes
        self._n_newer += size


def kept(max_bytes: int, nbytes: Callable[..., int]) -> Callable[[F], F]:
    """Keep the results, which are not None, of a function of hashable arguments: see `Kept`.

    nbytes: called with a result and the arguments, tells the bytes of both. The function's ``kept`` is what is kept.

    >>> @kept(4000, lambda text, n: n)
    ... def text_of(n):
    ...     print("made", n)
    ...     return "x" * n
    >>> [len(text_of(n)) for n in (100, 100, 5000, 5000, 100)]
    made 100
    made 5000
    made 5000
    [100, 100, 5000, 5000, 100]
    """

    def decorate(function: F) -> F:
        results = Kept[Any](max_bytes)

        @functools.wraps(function)
        def ask(*arguments: Hashable, **named: Hashable) -> Any:
            key = (ask, arguments, *named.items()) if named else arguments  # no argument is `ask` itself
            found = results.get(key)
            if found is None:
                found = function(*arguments, **named)
                results.put(key, found, nbytes(found, *arguments, *named.values()))
            return found

        ask.kept = results  # type: ignore[attr-defined]  # a function has any attributes, of which mypy knows nothing
        return cast(F, ask)

    return decorate
