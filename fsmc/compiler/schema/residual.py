"""What an object or an array has still to do: the part of the algorithm that both share.

A formula over members (items) is followed along the text like a regular expression by its derivatives (Brzozowski 1964).
Before each value the formula is rewritten in terms of *this* value and of the rest (`derivative`, which the subclasses
define); once it is known what holds of the value, what is left is the *residual* (`after_value`). Two questions are asked of
a residual: can it still be made true (`feasible`), and what does that take of the next value (`strongest`).

Both first take the formula apart into *components*, conjunctions that speak of different members: each can be made true
whatever becomes of the others, so it is answered by itself, and remembered. Then a tag (`Domains`) settles what it can: where
it is known, most alternatives are. What is still open is searched for its cubes: ways of making it true.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.cofactors import Cofactors
from fsmc.compiler.schema.cubes import Cube, Facts, cubes
from fsmc.compiler.schema.domains import Domain
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas

MAX_OUTCOME_CUBES = 5_000


@dataclass(frozen=True, slots=True)
class Member:
    """An atom: the value being written (a member's or an item's) satisfies the value formula ``value``."""

    value: int


class Shape(ABC):
    """An object or array formula that has to hold, with what is watched beside it.

    watches: formulas over the same type, of which the caller wants to know whether they hold. residual: what has to hold
    and changes with the members or items; what never changes is kept apart by the subclasses. A *place* is an int that says
    how far the object or array has come.
    """

    residual: int

    def __init__(self, watches: tuple[int, ...], table: Formulas, emptiness: Emptiness) -> None:
        self.watches, self.table, self.emptiness = watches, table, emptiness
        self._feasible: dict[Hashable, bool] = {}
        self._components: dict[int, tuple[tuple[int, bool], ...]] = {}

    @abstractmethod
    def normal(self, formula: int, place: int) -> int:
        """The formula at this place, without atoms that the place already decides."""

    @abstractmethod
    def _possible(self, cube: Cube, place: int) -> bool:
        """Whether members or items can still come from this place that make every literal true."""

    @abstractmethod
    def facts(self, place: int, static: int = TRUE, found: Sequence[frozenset[int]] = ()) -> ValueFacts:
        """What is known before a cube is begun: of the value being written ``static``. found: see `ValueFacts`."""

    def components_of(self, formula: int) -> tuple[tuple[int, bool], ...]:
        """The formula as a conjunction of others that can be made true independently: (formula, whether it speaks of the
        value being written)."""
        return ((formula, self._speaks(formula)),)

    def context(self, component: int, place: int) -> Hashable:
        """Of the place, all that matters to a component."""
        return place

    def easier(self, component: int, place: int) -> int:
        """A formula that implies the component, to be tried first."""
        return component

    def at_start(self) -> tuple[int, tuple[int, ...]]:
        """(residual, watches) before anything is written."""
        return self.normal(self.residual, 0), tuple(self.normal(watch, 0) for watch in self.watches)

    def satisfiable(self) -> bool:
        """Whether there is such an object or array at all."""
        return self.feasible(self.at_start()[0], 0)

    # ── one value ────────────────────────────────────────────────────────────────────────────────────────────────────

    def watched_values(self, derivatives: tuple[int, ...]) -> tuple[int, ...]:
        """The value formulas on whose truth for this value the derivatives depend, sorted."""
        if all(derivative in (TRUE, FALSE) for derivative in derivatives):
            return ()
        payloads = map(self.table.payload, frozenset().union(*map(self.table.atoms, derivatives)))
        return tuple(sorted(p.value for p in payloads if isinstance(p, Member)))

    def after_value(self, derivative: int, truth: dict[int, bool], place: int) -> int:
        """The residual after a value, once it is known which of `watched_values` hold of it. place: the one after it."""

        def value_of(atom: int) -> int:
            payload = self.table.payload(atom)
            return (TRUE if truth[payload.value] else FALSE) if isinstance(payload, Member) else atom

        return self.normal(self.table.substitute(derivative, value_of), place)

    def this_value(self, formula: int) -> int:
        """The formula over members "the value being written satisfies ``formula``"."""
        return formula if formula in (TRUE, FALSE) else self.table.atom(Member(formula))

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def feasible(self, residual: int, place: int) -> bool:
        """Whether an object or array with this residual can be completed from this place."""
        return residual != FALSE and all(self._can_hold(part, place) for part, _ in self.components_of(residual))

    def _can_hold(self, component: int, place: int) -> bool:
        key = (component, self.context(component, place))
        known = self._feasible.get(key)
        if known is None:
            easier = self.easier(component, place)
            known = easier not in (FALSE, component) and self.feasible(easier, place)
            if not known:
                ways = cubes(self.table, component, lambda: self.facts(place))
                known = any(self._possible(cube, place) for cube in ways)
            if known or not self.emptiness.leaning:
                self._feasible[key] = known
        return known

    def strongest(self, derivative: int, static: int, place: int) -> int:
        """The strongest formula for this value that leaves the rest possible; at least ``static``. FALSE if there is none.
        place: the one after the value.

        Raises LimitExceeded where more than ``MAX_OUTCOME_CUBES`` ways of going on differ in what they ask of the value.
        """
        if derivative == FALSE:
            return FALSE
        asked = TRUE
        for part, speaks in self.components_of(derivative):
            if speaks:
                assert asked == TRUE, "parts that speak of the same value are one component"
                asked = part
            elif not self._can_hold(part, place):
                return FALSE
        return static if asked == TRUE else self.table.conj((static, self._asked_by_tag(asked, static, place)))

    def _asked_by_tag(self, formula: int, static: int, place: int) -> int:
        """`strongest` apart from ``static``: tag by tag where the formula asks for tags of the value."""
        table = self.table
        free: list[int] = []  # the tags with which everything is possible, and those with which nothing is
        barred: list[int] = []
        asking: list[tuple[int, int]] = []
        tags = self._tags(formula)
        if len(tags) < 2:
            return self._asked_in_all(formula, static, place)
        value = TRUE
        for value, rest in self._by_tag(formula, tags):
            of_tag = table.conj((static, value))
            if self.emptiness.satisfiable(of_tag):
                asked = self._asked_in_all(rest, of_tag, place)
                if asked in (TRUE, FALSE):
                    (free if asked == TRUE else barred).append(value)
                else:
                    asking.append((value, asked))
        if not asking and (not free or not barred):
            return TRUE if free else FALSE
        more = [table.conj(both) for both in asking]
        if value in free:  # the last: none of the tags
            others = (value for value in (*barred, *(value for value, _ in asking)))
            return table.disj((*more, table.conj(map(table.negate, others))))
        return table.disj((*more, *free))

    def attainable(self, derivative: int, static: int, place: int) -> bool:
        """Whether `strongest` is satisfiable: whether one value leaves the rest possible, which the first way may show."""
        if derivative == FALSE or not self.emptiness.satisfiable(static):
            return False
        asked = TRUE
        for part, speaks in self.components_of(derivative):
            if speaks:
                asked = part
            elif not self._can_hold(part, place):
                return False
        if asked == TRUE:
            return True
        easier = self.easier(asked, place)
        if easier not in (FALSE, asked) and self.attainable(easier, static, place):
            return True
        tags = self._tags(asked)
        for value, rest in self._by_tag(asked, tags) if len(tags) > 1 else [(TRUE, asked)]:
            of_tag = self.table.conj((static, value))
            if self.emptiness.satisfiable(of_tag) and self._some_way(rest, of_tag, place):
                return True
        return False

    def _some_way(self, formula: int, static: int, place: int) -> bool:
        """Whether the formula can be made true with a value that satisfies ``static``."""
        if not self._speaks(formula):
            return self.feasible(formula, place)
        ways = cubes(self.table, formula, lambda: self.facts(place, static))
        return any(self._possible(cube, place) for cube in ways)

    def _speaks(self, formula: int) -> bool:
        """Whether it speaks of the value being written."""
        return any(isinstance(self.table.payload(atom), Member) for atom in self.table.atoms(formula))

    def _asked_in_all(self, formula: int, static: int, place: int) -> int:
        """`strongest` apart from ``static``: what each way to make the formula true asks of the value."""
        if not self._speaks(formula):
            return TRUE if self.feasible(formula, place) else FALSE
        found: list[frozenset[int]] = []
        for cube in cubes(self.table, formula, lambda: self.facts(place, static, found)):
            if self._possible(cube, place):
                here = frozenset(self._here(cube))
                if not here:
                    return TRUE  # nothing is asked of the value: no other way could ask less
                found.append(here)
                if len(found) > MAX_OUTCOME_CUBES:
                    raise LimitExceeded("alternatives of one value", MAX_OUTCOME_CUBES, len(found))
        return self.table.disj(map(self.table.conj, found))

    def _here(self, cube: Cube) -> Iterator[int]:
        """What a cube asks of the value being written: value formulas."""
        for atom, sign in cube.items():
            payload = self.table.payload(atom)
            if isinstance(payload, Member):
                yield payload.value if sign else self.table.negate(payload.value)

    # ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tags(self, formula: int) -> dict[int, tuple[int, Domain]]:
        """The atoms that ask for a tag of the value being written: (what they ask, its domain)."""
        tags = {}
        for atom in self.table.atoms(formula):
            payload = self.table.payload(atom)
            domain = self.emptiness.domains.of(payload.value) if isinstance(payload, Member) else None
            if domain:
                tags[atom] = (payload.value, domain)
        return tags

    def _by_tag(self, formula: int, tags: dict[int, tuple[int, Domain]]) -> Iterator[tuple[int, int]]:
        """For each tag, and then for the values that have none: (the formula of the values, what is left of ``formula``)."""
        cofactors = Cofactors(self.table, formula, frozenset(tags))
        for true, value in self.cells(tags):
            yield value, cofactors.of(true)
        yield self.no_tag(tags), cofactors.of(frozenset())

    def cells(self, tags: dict[int, tuple[int, Domain]]) -> list[tuple[frozenset[int], int]]:
        """The values that tags list, grouped by the tags that they have: (the tags that hold, the formula of the values).

        tags: atom → (a value formula, its domain).
        """
        having: dict[str, list[int]] = {}
        for atom in sorted(tags):
            for text in tags[atom][1]:
                having.setdefault(text, []).append(atom)
        groups: dict[tuple[int, ...], list[str]] = {}
        for text, atoms in having.items():
            groups.setdefault(tuple(atoms), []).append(text)
        found = []
        for holding, texts in groups.items():
            value, domain = tags[holding[0]]
            exact = len(holding) == 1 and len(domain) == len(texts)
            found.append((frozenset(holding), value if exact else self.emptiness.domains.one_of(texts)))
        return found

    def no_tag(self, tags: dict[int, tuple[int, Domain]]) -> int:
        """The value formula "none of these tags"."""
        return self.table.conj(self.table.negate(value) for value, _ in tags.values())


class ValueFacts(Facts):
    """What is known of the value being written: ``static``, and what literals ask of it.

    found: what complete cubes asked of it; whatever asks for as much adds nothing, and is refuted.
    """

    def __init__(self, shape: Shape, static: int, found: Sequence[frozenset[int]]) -> None:
        self.table, self.emptiness = shape.table, shape.emptiness
        self._value, self._found = static, found
        self._here: frozenset[int] = frozenset()
        self._news = False
        self._judging: list[tuple[int, Member]] = []

    def assume(self, literals: Cube) -> bool:
        """See `Facts`."""
        table, here = self.table, set()
        for atom, sign in literals.items():
            payload = table.payload(atom)
            if isinstance(payload, Member):
                here.add(payload.value if sign else table.negate(payload.value))
        self._news = bool(here)
        if not here:
            return True
        self._here |= here
        if any(known <= self._here for known in self._found):
            return False
        self._value = table.conj((self._value, *here))
        return self.emptiness.satisfiable(self._value)

    def watch(self, atoms: Iterable[int]) -> None:
        """See `Facts`."""
        self._judging = [(atom, p) for atom in atoms if isinstance(p := self.table.payload(atom), Member)]

    def consequences(self) -> dict[int, int]:
        """See `Facts`."""
        decided: dict[int, int] = {}
        if self._news:
            table, surely_empty = self.table, self.emptiness.surely_empty
            for atom, payload in self._judging:
                if surely_empty(table.conj((self._value, table.negate(payload.value)))):
                    decided[atom] = TRUE
                elif surely_empty(table.conj((self._value, payload.value))):
                    decided[atom] = FALSE
        return decided
