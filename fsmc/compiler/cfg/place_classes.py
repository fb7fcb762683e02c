"""Which bytes the places of a grammar tell apart: the columns of a row, before any of its edges is made.

A map of the 256 bytes to classes has a number; maps that were combined once are not combined again. Most sets of stacks differ
in what lies below and share the places on top, so that their columns are known.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from fsmc.compiler.cfg.places import Places


class PlaceClasses:
    """The maps of bytes to classes of sets of places. places: those of the whole grammar."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._ids: dict[bytes, int] = {}
        self._maps: list[bytes] = []
        self._combined: dict[tuple[int, int], int] = {}
        self._of_place: dict[int, int] = {}
        self._of_follow: dict[int, int] = {}
        self._id(bytes(256))

    def of(self, places: AbstractSet[int], follow: int) -> bytes:
        """The class of each byte, numbered by their first bytes, where any of ``places`` may read next, or a byte of ``follow`` (bits) end what is
        complete."""
        combined = 0
        for place in places:
            combined = self._combine(combined, self._of_one(place))
        if follow:
            known = self._of_follow.get(follow)
            if known is None:
                bits = bytes(follow >> byte & 1 for byte in range(256))
                known = self._of_follow[follow] = self._id(bits)
            combined = self._combine(combined, known)
        return self._maps[combined]

    def _of_one(self, place: int) -> int:
        """The map of one place, with the beginnings of what it calls."""
        known = self._of_place.get(place)
        if known is None:
            places = self._places
            known, pending, seen = 0, [place], {place}
            while pending:
                current = pending.pop()
                known = self._combine(known, self._id(places.classes[current], places.targets[current]))
                for symbol, _ in places.calls[current]:
                    if symbol in places.schema_codes:
                        codes = places.schema_codes[symbol]
                        numbers = {code: number for number, code in enumerate(dict.fromkeys(codes))}
                        known = self._combine(known, self._id(bytes(map(numbers.__getitem__, codes))))
                        continue
                    start = places.start.get(symbol) or places.terminal_start(symbol)
                    if start not in seen:
                        seen.add(start)
                        pending.append(start)
            self._of_place[place] = known
        return known

    def _id(self, classes: bytes, targets: list[int] | None = None) -> int:
        """The number of a map; classes with the same target are one."""
        numbers: dict[int, int] = {}
        if targets is not None:
            classes = bytes(numbers.setdefault(targets[c], len(numbers)) for c in classes)
        else:
            classes = bytes(numbers.setdefault(c, len(numbers)) for c in classes)
        known = self._ids.get(classes)
        if known is None:
            known = self._ids[classes] = len(self._maps)
            self._maps.append(classes)
        return known

    def _combine(self, a: int, b: int) -> int:
        """The map that tells apart what either does."""
        if a == b or b == 0:
            return a
        if a == 0:
            return b
        key = (a, b) if a < b else (b, a)
        known = self._combined.get(key)
        if known is None:
            numbers: dict[tuple[int, int], int] = {}
            pairs = zip(self._maps[a], self._maps[b], strict=True)
            known = self._combined[key] = self._id(bytes(numbers.setdefault(pair, len(numbers)) for pair in pairs))
        return known
