"""What an object may do next, given the members written so far.

What must hold of an object is a formula over `All` and `MinProps`. Its conjuncts ``All(K, f)`` never change: they become
one formula per class of keys (*static*). What is left, the *residual*, changes with each member, like Brzozowski's
derivative (1964) of a regular expression with each letter: `ObjectShape.derivative` says what has to hold of *this* member's
value (the atom `Member`) and of the rest for the residual to hold in the end. A place in the member order and the residual are
all that the machine has to remember. What arrays have in common with this stands in residual.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from fsmc.compiler.schema.atoms import All, MinProps
from fsmc.compiler.schema.bits import as_mask, bits
from fsmc.compiler.schema.cubes import Cube, propagate
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.exclusive import Exclusive
from fsmc.compiler.schema.formula import AND, ATOM, FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.key_space import KeySpace, enumerated_names, key_space
from fsmc.compiler.schema.next_keys import NextKeys
from fsmc.compiler.schema.object_facts import ObjectFacts, possible
from fsmc.compiler.schema.residual import Member, Shape

MANY_CLASSES = 4096
"""Masks of so many classes are made anew each time: a hundred thousand names with a bit each would fill the memory."""


class ObjectShape(Shape):
    """One object formula with what is watched beside it, and the order in which declared names may come.

    A *place* is an int. In schema order: the number of declared names that are behind us, n_names + 1 once an undeclared key has
    been written. In any order: the bit mask of the declared names already written.

    ``tracks``: whether the state has to hold the undeclared keys written, so that none comes twice.

    An object needs "a" or "b". Its residual is TRUE once one of them has come, and FALSE after an undeclared key (class 2),
    since in schema order those come last:

    >>> from fsmc.compiler.schema.atoms import OBJECT
    >>> from fsmc.compiler.schema.document import SchemaDocument
    >>> from fsmc.compiler.schema.keywords import Keywords
    >>> table = Formulas()
    >>> document = SchemaDocument({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    >>> keywords = Keywords(document, table)
    >>> must = keywords.expand_node(document.root, OBJECT)
    >>> shape = ObjectShape(must, (), ("a", "b"), False, table, Emptiness(keywords))
    >>> derivatives = [shape.derivative(shape.residual, 0, c) for c in (0, 1, 2)]
    >>> [table.show(shape.after_value(d, {}, shape.after(0, c))) for c, d in enumerate(derivatives)]
    ['true', 'true', 'false']
    """

    static: tuple[int, ...]
    required: int

    def __init__(
        self,
        must: int,
        watches: tuple[int, ...],
        order: tuple[str, ...],
        any_order: bool,
        table: Formulas,
        emptiness: Emptiness,
    ) -> None:
        super().__init__(watches, table, emptiness)
        payloads = map(table.payload, frozenset().union(*map(table.atoms, (must, *watches))))
        key_sets = {p.keys for p in payloads if isinstance(p, All)}
        listed = dict.fromkeys(order)
        names = (*listed, *sorted(set(enumerated_names(key_sets, table)) - listed.keys()))
        self._begin(key_space(names, key_sets, table), any_order)
        static = [TRUE] * self.keys.n_classes
        residual, required = [], 0
        classes_of = self.keys.mask_of.classes
        for part, atom, payload, sign in table.literals(must):
            if not isinstance(payload, All):
                residual.append(part)
            elif sign:
                value = payload.value
                for c in classes_of(payload.keys):
                    known = static[c]
                    static[c] = value if known == TRUE else table.conj((known, value))
            elif self._is_required(atom, payload):
                required |= self.mask(atom)
            else:
                residual.append(part)
        self.static, self.required = tuple(static), required
        exclusive = Exclusive(table, emptiness.domains, self.mask, self.declared_mask, required)
        self.residual = exclusive.rewritten(table.conj(residual))
        self.watches = tuple(map(exclusive.rewritten, watches))
        self.tracks = self._duplicates_matter()

    @classmethod
    def of_members(
        cls,
        keys: KeySpace,
        static: tuple[int, ...],
        required: int,
        any_order: bool,
        table: Formulas,
        emptiness: Emptiness,
    ) -> ObjectShape:
        """The shape of objects of which is asked what members of each class are (``static``) and which names come (a mask)."""
        shape = cls.__new__(cls)
        Shape.__init__(shape, (), table, emptiness)
        shape._begin(keys, any_order)
        shape.static, shape.required = static, required
        return shape

    def _begin(self, keys: KeySpace, any_order: bool) -> None:
        """All but what is asked."""
        self.keys, self.any_order = keys, any_order
        self.declared_mask = (1 << keys.n_names) - 1
        self.all_classes = (1 << keys.n_classes) - 1
        self.counts = 1 << keys.n_classes  # in `touched`: members are counted; the value being written is judged
        self._this = self.counts << 1
        self.residual, self.tracks = TRUE, False
        self.known_live = 0
        """Classes of which a member can have a value, of those asked for so far."""
        self.judged = 0
        self.states: dict[Hashable, Any] = {}  # see `ObjectState`
        self._mask: dict[int, int] = {}
        self._touched: dict[int, int] = {}
        self._normal: dict[tuple[int, Hashable], int] = {}
        self._derived: dict[tuple[int, int, int], int] = {}
        self._asked: dict[tuple[int, Hashable, int], int] = {}
        self._next_keys = NextKeys(self)

    def mask(self, atom: int) -> int:
        """The classes of keys that an `All` atom speaks of."""
        known = self._mask.get(atom)
        if known is None:
            payload = self.table.payload(atom)
            assert isinstance(payload, All)
            known = self.keys.mask_of[payload.keys]
            if self.keys.n_classes <= MANY_CLASSES:
                self._mask[atom] = known
        return known

    def touched(self, formula: int) -> int:
        """The classes that a formula speaks of, with a bit more each if members are counted and if it speaks of the value
        being written."""
        known = self._touched.get(formula)
        if known is None:
            if self.table.kind(formula) == ATOM:
                payload = self.table.payload(formula)
                counts = self._this if isinstance(payload, Member) else self.counts
                known = self.keys.mask_of[payload.keys] if isinstance(payload, All) else counts
            else:
                known = 0
                for part in self.table.arguments(formula):
                    known |= self.touched(part)
            self._touched[formula] = known
        return known

    def _is_required(self, atom: int, payload: All) -> bool:
        """``not All({name}, FALSE)``: the name has to come."""
        return payload.value == FALSE and self.is_declared_name(self.mask(atom))

    def is_declared_name(self, mask: int) -> bool:
        """Whether a set of classes is a single declared name."""
        return mask & (mask - 1) == 0 and 0 < mask <= self.declared_mask

    def _duplicates_matter(self) -> bool:
        """Whether writing an undeclared key twice could make a formula true that is false of the object.

        Where a key is written twice the last value counts. "Every such member is f" and "at most n members" can only get
        stronger by counting the first as well; "some member is not f" and "at least n members" get weaker.
        """
        return any(map(self._speaks_of_others, self.watches)) or self._weakened_by_one_more(self.residual)

    def _weakened_by_one_more(self, formula: int) -> bool:
        """Whether one undeclared member more might make a formula true."""
        table = self.table
        literal = table.literal(formula)
        if literal:
            if isinstance(table.payload(literal[0]), MinProps):
                return literal[1]
            return not literal[1] and bool(self.mask(literal[0]) & self.keys.others_mask)
        if table.kind(formula) in (AND, OR):
            return any(map(self._weakened_by_one_more, table.arguments(formula)))
        return self._speaks_of_others(formula)

    def _speaks_of_others(self, formula: int) -> bool:
        return bool(self.touched(formula) & (self.keys.others_mask | self.counts))

    # ── places ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def available(self, place: int) -> int:
        """Classes of which a member can still come."""
        n = self.keys.n_names
        if self.any_order:
            return (((1 << n) - 1) & ~place) | self.keys.others_mask
        declared = 0 if place > n else ((1 << n) - 1) & -(1 << place)
        return declared | self.keys.others_mask

    def after(self, place: int, c: int) -> int:
        """The place once a member of class ``c`` has been written."""
        n = self.keys.n_names
        if self.any_order:
            return place | 1 << c if c < n else place
        return c + 1 if c < n else n + 1

    def missing(self, place: int) -> int:
        """Required names that have not come yet."""
        return self.required & self.available(place)

    def live(self, classes: int) -> int:
        """Those of some classes of which a member can have a value at all."""
        new = classes & ~self.judged
        if new:
            static = self.static
            of_new = [(c, static[c]) for c in bits(new)]
            possible = {value for value in {value for _, value in of_new} if self.emptiness.satisfiable(value)}
            found = as_mask([c for c, value in of_new if value in possible], self.keys.n_classes)
            if self.emptiness.leaning:
                return classes & (self.known_live | found)
            self.judged |= new
            self.known_live |= found
        return classes & self.known_live

    # ── residuals ────────────────────────────────────────────────────────────────────────────────────────────────────

    def context(self, component: int, place: int) -> Hashable:
        """See `Shape`: which of the classes that it speaks of can still come; where members are counted, all is of interest."""
        touched = self.touched(component)
        return place if touched & self.counts else ~(self.available(place) & touched)

    def normal(self, formula: int, place: int) -> int:
        """The formula at this place, without atoms that the place already decides."""
        if formula in (TRUE, FALSE):
            return formula
        key = (formula, self.context(formula, place))
        known = self._normal.get(key)
        if known is None:
            if self.table.kind(formula) == AND:  # most parts have been met before
                parts = []
                for part in self.table.arguments(formula):
                    parts.append(self.normal(part, place))
                    if parts[-1] == FALSE:
                        break
                known = self.table.conj(parts)
            else:
                available = self.available(place)
                known = self.table.substitute(formula, lambda atom: self._settled(atom, available, place))
            self._normal[key] = known
        return known

    def _settled(self, atom: int, available: int, place: int) -> int:
        payload = self.table.payload(atom)
        if isinstance(payload, MinProps):
            return TRUE if payload.count <= self.missing(place).bit_count() else atom
        if not isinstance(payload, All):
            return atom
        open_classes = self.mask(atom) & available
        if not open_classes:
            return TRUE
        if payload.value == FALSE and open_classes & self.required and self.is_declared_name(open_classes):
            return FALSE
        negated, surely_empty = self.table.negate(payload.value), self.emptiness.surely_empty
        if all(surely_empty(self.table.conj((self.static[c], negated))) for c in bits(open_classes)):
            return TRUE
        return atom

    def reduced(self, residual: int, place: int) -> int:
        """The residual with all that follows from it at once, such as the names that have to come."""
        if residual in (TRUE, FALSE):
            return residual
        rest, cube = propagate(self.table, residual, self.facts(place))
        return self.table.conj((rest, *(atom if sign else self.table.negate(atom) for atom, sign in cube.items())))

    def satisfiable(self) -> bool:
        """Whether there is such an object at all."""
        return all(self.emptiness.satisfiable(self.static[c]) for c in bits(self.required)) and super().satisfiable()

    def easier(self, component: int, place: int) -> int:
        """See `Shape`: no more members come than have to, of those that can be told apart from the others."""
        touched = self.touched(component)
        if touched & self.counts:
            if touched & self._this:
                return component
            return TRUE if not self.missing(place) and self.closed(component) else component
        available = self.available(place)
        masks = {
            atom: self.mask(atom) & available
            for atom in self.table.atoms(component)
            if self.touched(atom) != self._this
        }
        absent, before = touched & ~(self.missing(place) | self.wanted(component, place) | self._this), -1
        while absent != before:
            before = absent
            for mask in masks.values():
                if mask & ~absent:
                    absent &= ~mask
        return self.table.substitute(component, lambda atom: TRUE if not masks.get(atom, ~absent) & ~absent else atom)

    def wanted(self, residual: int, place: int) -> int:
        """The names that have to come because one of the parts that have to hold says so."""
        wanted = 0
        for part in self.table.conjuncts(residual):
            literal = self.table.literal(part)
            if literal and not literal[1] and isinstance(self.table.payload(literal[0]), All):
                mask = self.mask(literal[0]) & self.available(place)
                wanted |= mask if self.is_declared_name(mask) else 0
        return wanted

    def facts(self, place: int, static: int = TRUE, found: Sequence[frozenset[int]] = ()) -> ObjectFacts:
        """See `Shape`."""
        return ObjectFacts(self, place, static, found)

    def components_of(self, formula: int) -> tuple[tuple[int, bool], ...]:
        """See `Shape`: parts that have a class in common belong together, and where members are counted all do."""
        known = self._components.get(formula)
        if known is None:
            parts = self.table.conjuncts(formula)
            counted = self.touched(formula) & self.counts
            owner: dict[int, int] = {}  # class → a part that speaks of it
            leader = list(range(len(parts)))

            def root(i: int) -> int:
                while leader[i] != i:
                    leader[i] = leader[leader[i]]
                    i = leader[i]
                return i

            for i, part in enumerate(parts):
                for c in bits(self.touched(part) | counted):
                    leader[root(owner.setdefault(c, i))] = root(i)
            groups: dict[int, list[int]] = {}
            for i, part in enumerate(parts):
                groups.setdefault(root(i), []).append(part)
            found = map(self.table.conj, groups.values())
            known = tuple((part, bool(self.touched(part) & self._this)) for part in found)
            self._components[formula] = known
        return known

    def closed(self, formula: int) -> bool:
        """Whether the formula holds if the object ends here."""

        def at_end(atom: int) -> int:
            return FALSE if isinstance(self.table.payload(atom), MinProps) else TRUE

        return self.table.substitute(formula, at_end) == TRUE

    def derivative(self, formula: int, place: int, c: int) -> int:
        """The formula before a member of class ``c``, in terms of that member's value and of the rest."""
        touched = self.touched(formula)
        if not touched & (1 << c | self.counts):
            return formula
        rest = self.available(self.after(place, c))
        key = (formula, rest & touched, c)
        known = self._derived.get(key)
        if known is None and self.table.kind(formula) == AND:
            parts = (self.derivative(part, place, c) for part in self.table.arguments(formula))
            known = self._derived[key] = self.table.conj(parts)
        elif known is None:

            def value_of(atom: int) -> int:
                payload = self.table.payload(atom)
                if isinstance(payload, MinProps):
                    return TRUE if payload.count == 1 else self.table.atom(MinProps(payload.count - 1))
                assert isinstance(payload, All)
                mask = self.mask(atom)
                if not mask >> c & 1:
                    return atom
                return self.table.conj((self.this_value(payload.value), atom if mask & rest else TRUE))

            known = self._derived[key] = self.table.substitute(formula, value_of)
        return known

    def asked_of(self, residual: int, place: int, c: int) -> int:
        """The strongest value formula for a next member of class ``c`` that leaves the rest possible; FALSE if none.

        What the residual asks of members of other classes has to be possible (see `allowed`).
        """
        static = self.static[c]
        if residual == FALSE or not self.emptiness.satisfiable(static):
            return FALSE
        part = self.part_about(residual, c)
        if part == TRUE:
            return static
        after = self.after(place, c)
        key = (part, self.context(part, after), c)
        known = self._asked.get(key)
        if known is None:
            derivative = self.normal(self.derivative(part, place, c), after)
            known = self._asked[key] = self.strongest(derivative, static, after)
        return known

    def part_about(self, residual: int, c: int) -> int:
        """Of the residual, what depends on whether a member of class ``c`` comes."""
        spoken = 1 << c | self.counts
        return self.table.conj(p for p, _ in self.components_of(residual) if self.touched(p) & spoken)

    def allowed(self, residual: int, place: int) -> int:
        """The classes that may come next, as a mask; in schema order none past a required name, and undeclared ones last."""
        return self._next_keys.allowed(residual, place)

    def _possible(self, cube: Cube, place: int) -> bool:
        """See `Shape`."""
        return possible(self, cube, place)
