"""What an array may do next, given the items written so far: as objects.py does for members (they share residual.py).

The formula is over `El`, `Count` and `MinItems` with absolute indices. Conjuncts ``El(low, high, f)`` and ``MinItems`` never
change; the residual is derived item by item.
"""

from __future__ import annotations

from collections.abc import Sequence

from fsmc.compiler.schema.atoms import Count, El, MinItems, Unique
from fsmc.compiler.schema.cubes import Cube
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.placing import Placing, covers
from fsmc.compiler.schema.residual import Shape, ValueFacts


class ArrayShape(Shape):
    """One array formula with what is watched beside it. A *place* is the index of the next item, at most ``last``.

    From index ``last`` on no condition depends on the index any more.

    ``unique``: the items have to differ; ``compares``: whether they do matters otherwise. Then the state has to hold the
    items written (*seen*: formulas "equal to this value").

    At least one null is wanted among at most two items. Whether the first item has to be null is left open; the second has
    to be, if the first was not:

    >>> from fsmc.compiler.schema.atoms import ARRAY
    >>> from fsmc.compiler.schema.document import SchemaDocument
    >>> from fsmc.compiler.schema.keywords import Keywords
    >>> table = Formulas()
    >>> document = SchemaDocument({"contains": {"const": None}, "maxItems": 2})
    >>> keywords = Keywords(document, table)
    >>> shape = ArrayShape(keywords.expand_node(document.root, ARRAY), (), table, Emptiness(keywords))
    >>> table.show(shape.asked_of(shape.residual, 0))
    'true'
    >>> derivative = shape.derivative(shape.residual, 0)
    >>> (null,) = shape.watched_values((derivative,))
    >>> residual = shape.after_value(derivative, {null: False}, 1)
    >>> table.show(shape.asked_of(residual, 1)) == table.show(null)
    True
    """

    def __init__(self, must: int, watches: tuple[int, ...], table: Formulas, emptiness: Emptiness) -> None:
        super().__init__(watches, table, emptiness)
        payloads = {a: table.payload(a) for f in (must, *watches) for a in table.atoms(f)}
        self.static: list[El] = []
        self.least, self.most = 0, None  # type: int, int | None
        self.unique, self.unique_pointer = False, ""
        residual = []
        for part in table.conjuncts(must):
            literal = table.literal(part)
            payload = payloads[literal[0]] if literal else None
            if literal and literal[1] and isinstance(payload, El):
                self.static.append(payload)
            elif literal and literal[1] and isinstance(payload, Unique):
                self.unique, self.unique_pointer = True, payload.pointer
            elif literal and isinstance(payload, MinItems):
                if literal[1]:
                    self.least = max(self.least, payload.count)
                else:
                    self.most = payload.count - 1 if self.most is None else min(self.most, payload.count - 1)
            else:
                residual.append(part)
        self.residual = table.conj(residual)
        alternatives = frozenset().union(*(table.atoms(f) for f in (self.residual, *watches)))
        self.compares = any(isinstance(payloads[atom], Unique) for atom in alternatives)
        bounds = [self.least, 0 if self.most is None else self.most]
        bounds += [p.count for p in payloads.values() if isinstance(p, MinItems)]
        bounds += [b for p in payloads.values() if isinstance(p, El) for b in (p.low, p.high or 0)]
        self.last = max(bounds)
        self._single: dict[int, list[El]] = {}  # those of one index by the index: a thousand prefixItems stay linear
        self._long: list[El] = []
        for element in self.static:
            (self._single.setdefault(element.low, []) if element.high == element.low + 1 else self._long).append(
                element
            )
        self._static_at: dict[int, int] = {}
        self._asked: dict[tuple[int, int, frozenset[int]], int] = {}

    def static_at(self, place: int) -> int:
        """What every array asks of the item at ``place``."""
        known = self._static_at.get(place)
        if known is None:
            elements = (*self._single.get(place, ()), *self._long)
            known = self._static_at[place] = self.table.conj(e.value for e in elements if covers(e, place))
        return known

    def after(self, place: int) -> int:
        """The place after one more item."""
        return min(place + 1, self.last)

    def may_end(self, place: int) -> bool:
        """Whether the array is long enough to end here."""
        return place >= self.least

    def may_go_on(self, place: int) -> bool:
        """Whether one more item is not too many."""
        return self.most is None or place < self.most

    def facts(self, place: int, static: int = TRUE, found: Sequence[frozenset[int]] = ()) -> ValueFacts:
        """See `Shape`: of the items to come nothing is known."""
        return ValueFacts(self, static, found)

    def normal(self, formula: int, place: int) -> int:
        """The formula at this place, without atoms that the place already decides."""
        if formula in (TRUE, FALSE):
            return formula

        def settled(atom: int) -> int:
            payload = self.table.payload(atom)
            if isinstance(payload, El):
                return TRUE if payload.high is not None and payload.high <= place else atom
            if isinstance(payload, MinItems):
                if payload.count <= max(place, self.least):
                    return TRUE
                return FALSE if self.most is not None and payload.count > self.most else atom
            return atom

        return self.table.substitute(formula, settled)

    def closed(self, formula: int, place: int) -> bool:
        """Whether the formula holds if the array ends here."""

        def at_end(atom: int) -> int:
            payload = self.table.payload(atom)
            if isinstance(payload, MinItems):
                return TRUE if payload.count <= place else FALSE
            return FALSE if isinstance(payload, Count) else TRUE

        return self.table.substitute(formula, at_end) == TRUE

    @property
    def tracks(self) -> bool:
        """Whether the state has to hold the items written."""
        return self.unique or self.compares

    def derivative(self, formula: int, place: int, seen: frozenset[int] = frozenset()) -> int:
        """The formula before an item at ``place``, in terms of that item's value and of the rest."""
        table = self.table

        def value_of(atom: int) -> int:
            payload = table.payload(atom)
            if isinstance(payload, El):
                return table.conj((self.this_value(payload.value), atom)) if covers(payload, place) else atom
            if isinstance(payload, Unique):
                return table.conj((self.this_value(table.conj(map(table.negate, seen))), atom))
            if isinstance(payload, Count):
                now = self.this_value(payload.value)
                fewer = TRUE if payload.count == 1 else table.atom(Count(payload.value, payload.count - 1))
                # written so that "now" alone decides which of the two counts remains
                return table.conj((table.disj((table.negate(now), fewer)), table.disj((now, atom))))
            return atom

        return table.substitute(formula, value_of)

    def asked_of(self, residual: int, place: int, seen: frozenset[int] = frozenset()) -> int:
        """The strongest value formula for an item at ``place`` that leaves the rest possible; FALSE if none."""
        key = (residual, place, seen if self.tracks else frozenset())
        known = self._asked.get(key)
        if known is None:
            static = self.static_at(place)
            plenty = self.plenty(place, len(seen))
            if self.unique:
                static = self.table.conj((static, *map(self.table.negate, seen)))
            if not self.may_go_on(place) or not (plenty or self.emptiness.satisfiable(static)):
                known = FALSE
            else:
                after = self.after(place)
                known = self.strongest(self.normal(self.derivative(residual, place, seen), after), static, after)
            self._asked[key] = known
        return known

    def plenty(self, place: int, n_seen: int) -> bool:
        """Whether items have to differ, and there are more values for the one at ``place`` than can have been written."""
        count = 1 << (n_seen + 1).bit_length()  # not a new question for each item
        return self.unique and n_seen > 0 and self.emptiness.count_at_least(self.static_at(place), count)

    def possible(self, residual: int, place: int, seen: frozenset[int], count: int = 1) -> bool:
        """Whether at least ``count`` (1 or 2) values may come next."""
        if residual == TRUE and self.may_go_on(place) and self.plenty(place, len(seen) + count - 1):
            return True
        asked = self.asked_of(residual, place, seen)
        return self.emptiness.satisfiable(asked) if count == 1 else self.emptiness.count_at_least(asked, count)

    def _possible(self, cube: Cube, place: int) -> bool:
        """See `Shape`."""
        return Placing(self).possible(cube, place)
