"""Free text without some strings, up to the first occurrence of others: the strings are excluded from the text alone.

What ends the text is no part of it, and may hold or complete what is excluded: with "]" excluded, the text of ``[abc]`` up to "]" is "abc";
with "ab" excluded, that of ``xabc`` up to "abc" is "x". So once an excluded string is complete, the text must be over: only an end that has
begun before may still come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tags.free_text import MAX_SOUGHT, FirstOf

MAX_LATE = 50_000
"""States in which an end has begun before an excluded string was complete."""


class Excluding:
    """States are numbers from 0, the start; `DEAD` is none.

    An excluded string is complete in late states, and ``complete`` names for all the ends that are complete without one before them. lengths[q]: of
    the beginning of a string that state q stands for. check: as `FirstOf` has it. Raises LimitExceeded for more than ``max_sought`` bytes of strings.

    >>> found = Excluding([b"abc"], [b"ab"])
    >>> q = 0
    >>> for byte in b"xabc":
    ...     q = found.step(q, byte)
    >>> found.complete[q], found.step(found.step(0, 97), 98) in found.late, found.step(found.step(found.step(0, 97), 98), 120)
    (frozenset({b'abc'}), True, -1)
    """

    DEAD = -1

    def __init__(
        self,
        ends: Iterable[bytes],
        excluded: Iterable[bytes],
        max_sought: int = MAX_SOUGHT,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._ends = frozenset(ends)
        refused = frozenset(excluded) - self._ends  # one that is an end as well ends the text where it stands
        self._check = check
        self._all = FirstOf({*refused, *self._ends}, max_sought, check=check)
        self._sought = FirstOf(self._ends, max_sought, check=check) if refused else self._all
        self._n = len(self._all.lengths)
        self.lengths = list(self._all.lengths)
        self.complete = [strings & self._ends for strings in self._all.complete]
        self.late: dict[int, tuple[int, int]] = {}
        """State → the state of the ends alone, and the bytes since an excluded string was complete."""
        self._late: dict[tuple[int, int], int] = {}
        self._instead: dict[int, int] = {}  # state of all strings in which an excluded one is complete → late state
        if refused:
            self._find_late()

    def _find_late(self) -> None:
        ends_of = [0] * self._n  # of each state of all strings the state of the ends alone
        for string in self._all.strings:
            q = e = 0
            for byte in string:
                q, e = self._all.step(q, byte), self._sought.step(e, byte)
                ends_of[q] = e
        self._instead = {q: self.DEAD for q, found in enumerate(self._all.complete) if found and not self.complete[q]}
        refused, todo, seen = set(self._instead), [0], {0}
        for q in todo:  # grows as it goes: only what a text can reach
            if not q & 0xFF:
                self._check()
            if self.complete[q]:
                continue
            if q not in self.late:
                for _, _, after in self._all.row(q):
                    if after in refused:
                        self._instead[after] = self._late_state(ends_of[after], 0)
            more = {after for _, _, after in self.row(q)} - seen
            seen |= more
            todo += more

    def _late_state(self, e: int, since: int) -> int:
        """The state in which an end that has begun before can still come; DEAD if none has."""
        strings = frozenset(end for end in self._sought.complete[e] if len(end) > since)
        if not strings and (self._sought.complete[e] or self._sought.lengths[e] <= since):
            return self.DEAD
        state = self._late.get((e, since))
        if state is None:
            if len(self.late) >= MAX_LATE:
                what = "states of ends of free text that hold what is excluded"
                raise LimitExceeded("max_late", MAX_LATE, len(self.late) + 1, what)
            state = self._late[e, since] = len(self.lengths)
            self.late[state] = (e, since)
            self.lengths.append(self._sought.lengths[e])
            self.complete.append(strings)
        return state

    def step(self, q: int, byte: int) -> int:
        """The state after one more byte."""
        if q == self.DEAD:
            return q
        if q in self.late:
            e, since = self.late[q]
            return self._late_state(self._sought.step(e, byte), since + 1)
        after = self._all.step(q, byte)
        return self._instead.get(after, after)

    def row(self, q: int) -> list[tuple[int, int, int]]:
        """(low, high, state): where bytes lead, as ranges; those of `DEAD` are left out."""
        if q in self.late:
            e, since = self.late[q]
            row = [(low, high, self._late_state(after, since + 1)) for low, high, after in self._sought.row(e)]
        else:
            row = [(low, high, self._instead.get(after, after)) for low, high, after in self._all.row(q)]
        return [edge for edge in row if edge[2] != self.DEAD]
