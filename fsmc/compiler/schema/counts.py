"""How many different values satisfy a formula, as far as it matters to items that have to differ: exactly, or refused."""

from __future__ import annotations

from collections.abc import Iterator

from fsmc.compiler.automata.counting import count_strings, enumerate_strings
from fsmc.compiler.errors import LimitExceeded, UnsupportedSchemaError
from fsmc.compiler.schema.arrays import ArrayShape
from fsmc.compiler.schema.atoms import ARRAY, NUMBER, OBJECT, STRING, TYPES
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import FALSE, TRUE
from fsmc.compiler.schema.number_counts import number_count
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.strings import split_length, string_component

MAX_PRODUCT = 64
"""A bound on the length up to this is multiplied with the other conditions on a string; of a longer one lengths are counted."""

MAX_KEYS = 1000
"""Undeclared keys of a small class that are counted one by one."""


class Counts:
    """Numbers of values.

    A formula that a value satisfies which contains another such value holds of endlessly many: each can be put into a
    larger one. So a formula that turns up inside itself, on a way that can be completed, need not be followed.

    >>> from fsmc.compiler.schema.document import SchemaDocument
    >>> from fsmc.compiler.schema.machine import SchemaMachine
    >>> from fsmc.compiler.schema.text_options import TextOptions
    >>> machine = SchemaMachine(SchemaDocument({"enum": [[1], [2], {"a": None}]}), TextOptions())
    >>> counts, root = Counts(machine.emptiness), machine.keywords.schema(0)
    >>> counts.at_least(root, 3), counts.at_least(root, 4)
    (True, False)
    """

    def __init__(self, emptiness: Emptiness) -> None:
        self.emptiness, self.table, self.keywords = emptiness, emptiness.table, emptiness.keywords
        self._known: dict[int, tuple[int, int]] = {}  # formula → (how many, at most so many were counted)
        self._open: set[int] = set()

    def at_least(self, formula: int, count: int) -> bool:
        """Whether ``count`` different values satisfy the formula.

        Raises UnsupportedSchemaError for arrays of distinct items that are too hard to count, LimitExceeded for the rest.
        """
        return self._number(formula, count) >= count

    def _number(self, formula: int, limit: int) -> int:
        """How many values, counted up to ``limit``."""
        if limit <= 0 or not self.emptiness.satisfiable(formula):
            return 0
        if limit == 1 or formula in self._open:
            return limit
        number, counted = self._known.get(formula, (0, 0))
        if counted >= limit or number < counted:
            return min(number, limit)
        self._open.add(formula)
        try:
            found = 0
            for type_ in TYPES:
                typed = self.keywords.expand(formula, type_)
                if found < limit and typed != FALSE and self.emptiness.typed(typed, type_):
                    found += self._of_type(typed, type_, limit - found)
        except RecursionError as error:
            raise LimitExceeded("values inside each other that are counted", limit, limit) from error
        finally:
            self._open.discard(formula)
        if not self.emptiness.leaning:
            self._known[formula] = (min(found, limit), limit)
        return min(found, limit)

    def _of_type(self, formula: int, type_: str, limit: int) -> int:
        if type_ == STRING:
            return self._strings(formula, limit)
        if type_ == NUMBER:
            return number_count(formula, limit, self.table)
        if type_ == OBJECT:
            return self._objects(formula, limit)
        return self._arrays(formula, limit) if type_ == ARRAY else 1

    def _strings(self, formula: int, limit: int) -> int:
        if formula == TRUE:
            return limit
        rest, low, high = split_length(formula, self.table)
        if rest == TRUE and (high is None or high > 3):
            return limit  # of a million characters each
        component = string_component(formula if high is not None and high <= MAX_PRODUCT else rest, (), self.table)
        (size,) = component.sizes()
        if size is not None or high is None or high <= MAX_PRODUCT:
            return limit if size is None else min(size, limit)
        dfa = component.only()
        longest = min(high, (limit + low) * dfa.n_states)  # by then each length that occurs has occurred so often
        return min(sum(count_strings(dfa, longest)[low:]), limit)

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _objects(self, formula: int, limit: int) -> int:
        shape = ObjectShape(formula, (), (), False, self.table, self.emptiness)
        live = shape.live(shape.keys.others_mask) >> shape.keys.n_names
        few = [i for i, size in enumerate(shape.keys.sizes) if size is not None and size < limit and live >> i & 1]
        if few:  # keys of a small class are counted as if they were declared
            assert shape.keys.others is not None
            listed: list[str] = []
            for i in few:
                listed += [text.decode() for text in enumerate_strings(shape.keys.others.only(i))]
                if len(listed) > MAX_KEYS:
                    raise LimitExceeded("keys that are counted one by one", MAX_KEYS, len(listed))
            shape = ObjectShape(formula, (), tuple(listed), False, self.table, self.emptiness)
        return self._rest_of_object(shape, shape.at_start()[0], 0, limit, {})

    def _rest_of_object(
        self, shape: ObjectShape, residual: int, place: int, limit: int, known: dict[tuple[int, int], int]
    ) -> int:
        """How many ways there are to go on from a place; ``known`` is of one limit."""
        key = (residual, place)
        if key not in known:
            found = int(not shape.missing(place) and shape.closed(residual))
            ways: list[tuple[int, int, int]] = []  # (values, residual after one, place)
            for c in bits(shape.allowed(residual, place)):
                if found + sum(n for n, _, _ in ways) >= limit:
                    break
                if c >= shape.keys.n_names:
                    return limit  # as there are that many keys
                after = shape.after(place, c)
                derivative = shape.normal(shape.derivative(residual, place, c), after)
                for value, truth in self._cells(shape, derivative, shape.asked_of(residual, place, c)):
                    rest = shape.after_value(derivative, truth, after)
                    if shape.feasible(rest, after):
                        ways.append((self._number(value, limit), rest, after))
            if found + sum(n for n, _, _ in ways) < limit:  # else it is enough that each way has an end
                for n, rest, after in ways:
                    found += n * self._rest_of_object(shape, rest, after, limit, known)
            else:
                found = limit
            known[key] = min(found, limit)
        return known[key]

    def _cells(
        self, shape: ObjectShape | ArrayShape, derivative: int, asked: int
    ) -> Iterator[tuple[int, dict[int, bool]]]:
        """The values that are asked, told apart by what is watched of them: (their formula, what holds of them)."""
        cells: list[tuple[int, dict[int, bool]]] = [(asked, {})]
        for watched in shape.watched_values((derivative,)):
            split = []
            for value, truth in cells:
                for holds in (True, False):
                    part = self.table.conj((value, watched if holds else self.table.negate(watched)))
                    if self.emptiness.satisfiable(part):
                        split.append((part, {**truth, watched: holds}))
            cells = split
        return iter(cells)

    # ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _arrays(self, formula: int, limit: int) -> int:
        shape = ArrayShape(formula, (), self.table, self.emptiness)
        return self._rest_of_array(shape, shape.at_start()[0], 0, frozenset(), limit, set())

    def _rest_of_array(
        self,
        shape: ArrayShape,
        residual: int,
        place: int,
        seen: frozenset[int],
        limit: int,
        path: set[tuple[int, int, frozenset[int]]],
    ) -> int:
        here = (residual, place, seen)
        if here in path:
            return limit  # the way leads round and round, and to an end from each time
        found = int(shape.may_end(place) and shape.closed(residual, place))
        asked = shape.asked_of(residual, place, seen) if found < limit else FALSE
        if not self.emptiness.satisfiable(asked):
            return found
        after = shape.after(place)
        derivative = shape.normal(shape.derivative(residual, place, seen), after)
        ways: list[tuple[int, int, frozenset[int]]] = []
        for value, truth in self._cells(shape, derivative, asked):
            rest = shape.after_value(derivative, truth, after)
            if not shape.feasible(rest, after):
                continue
            n = self._number(value, limit)
            listed = self.emptiness.domains.of(value) if shape.tracks and n < limit else None
            if listed is not None:
                ways += [(1, rest, seen | {self.emptiness.domains.one_of([text])}) for text in listed]
            elif shape.tracks and n < limit:
                raise UnsupportedSchemaError(
                    "is not supported for arrays of few different items that are not listed, in arrays of distinct items",
                    shape.unique_pointer,
                    "uniqueItems",
                )
            else:
                ways.append((n, rest, seen))
        if found + sum(n for n, _, _ in ways) >= limit:
            return limit
        path.add(here)
        for n, rest, written in ways:
            if found < limit:
                found += n * self._rest_of_array(shape, rest, after, written, limit, path)
        path.discard(here)
        return min(found, limit)
