"""What an object may do next, given the members written so far.

What must hold of an object is a formula over `All` and `MinProps`. Its conjuncts ``All(K, f)`` never change: they become
one formula per class of keys (*static*). What is left, the *residual*, changes with each member, like Brzozowski's
derivative (1964) of a regular expression with each letter: `ObjectShape.derivative` says what has to hold of *this* member's
value (the atom `Member`) and of the rest for the residual to hold in the end. A place in the member order and the residual are
all that the machine has to remember. What arrays have in common with this stands in residual.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fsmc.compiler.schema.atoms import All, MinProps
from fsmc.compiler.schema.cubes import Cube
from fsmc.compiler.schema.emptiness import Emptiness
from fsmc.compiler.schema.formula import AND, FALSE, OR, TRUE, Formulas
from fsmc.compiler.schema.key_space import KeySpace, enumerated_names, key_space
from fsmc.compiler.schema.residual import Shape


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
        self.any_order = any_order
        payloads = {a: table.payload(a) for f in (must, *watches) for a in table.atoms(f)}
        key_sets = [p.keys for p in payloads.values() if isinstance(p, All)]
        listed = dict.fromkeys(order)
        names = tuple(listed) + tuple(sorted(set(enumerated_names(key_sets, table)) - set(listed)))
        self.keys: KeySpace = key_space(names, key_sets, table)
        self.mask: dict[int, int] = {a: self.keys.mask_of[p.keys] for a, p in payloads.items() if isinstance(p, All)}

        static = [TRUE] * self.keys.n_classes
        residual, required = [], 0
        for part in table.conjuncts(must):
            literal = table.literal(part)
            payload = payloads[literal[0]] if literal else None
            if literal and literal[1] and isinstance(payload, All):
                for c in _bits(self.mask[literal[0]]):
                    static[c] = table.conj((static[c], payload.value))
            elif literal and not literal[1] and isinstance(payload, All) and self._is_required(literal[0], payload):
                required |= self.mask[literal[0]]
            else:
                residual.append(part)
        self.static = tuple(static)
        self.required = required
        self.residual = table.conj(residual)
        self.tracks = self._duplicates_matter()
        self._normal: dict[tuple[int, int], int] = {}
        self._derived: dict[tuple[int, int, int], int] = {}
        self._asked: dict[tuple[int, int, int], int] = {}

    def _is_required(self, atom: int, payload: All) -> bool:
        """``not All({name}, FALSE)``: the name has to come."""
        return payload.value == FALSE and self._is_declared_name(self.mask[atom])

    def _is_declared_name(self, mask: int) -> bool:
        """Whether a set of classes is a single declared name."""
        return mask & (mask - 1) == 0 and 0 < mask < 1 << self.keys.n_names

    def _duplicates_matter(self) -> bool:
        """Whether writing an undeclared key twice could make a formula true that is false of the object.

        Where a key is written twice the last value counts. "Every such member is f" and "at most n members" can only get
        stronger by counting the first as well; "some member is not f" and "at least n members" get weaker.
        """
        others = self.keys.others_mask
        table = self.table

        def negative(formula: int) -> bool:
            literal = table.literal(formula)
            if literal:
                if isinstance(table.payload(literal[0]), MinProps):
                    return literal[1]
                return not literal[1] and bool(self.mask[literal[0]] & others)
            if table.kind(formula) in (AND, OR):
                return any(map(negative, table.arguments(formula)))
            return speaks_of_others(formula)

        def speaks_of_others(formula: int) -> bool:
            return any(self.mask.get(atom, others) & others for atom in table.atoms(formula))

        return any(map(speaks_of_others, self.watches)) or negative(self.residual)

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

    def choices(self, place: int) -> Iterator[int]:
        """Classes that may come next: never past a required name, undeclared ones last (in schema order)."""
        available = self.available(place)
        if self.any_order:
            yield from _bits(available)
            return
        declared = available & ((1 << self.keys.n_names) - 1)
        for c in _bits(declared):
            yield c
            if self.required >> c & 1:
                return
        yield from _bits(available & self.keys.others_mask)

    def missing(self, place: int) -> int:
        """Required names that have not come yet."""
        return self.required & self.available(place)

    # ── residuals ────────────────────────────────────────────────────────────────────────────────────────────────────

    def normal(self, formula: int, place: int) -> int:
        """The formula at this place, without atoms that the place already decides."""
        if formula in (TRUE, FALSE):
            return formula
        key = (formula, place)
        known = self._normal.get(key)
        if known is None:
            available = self.available(place)
            known = self._normal[key] = self.table.substitute(
                formula, lambda atom: self._settled(atom, available, place)
            )
        return known

    def _settled(self, atom: int, available: int, place: int) -> int:
        payload = self.table.payload(atom)
        if isinstance(payload, MinProps):
            return TRUE if payload.count <= self.missing(place).bit_count() else atom
        if not isinstance(payload, All):
            return atom
        open_classes = self.mask[atom] & available
        if not open_classes:
            return TRUE
        negated = self.table.negate(payload.value)
        if all(self.emptiness.surely_empty(self.table.conj((self.static[c], negated))) for c in _bits(open_classes)):
            return TRUE
        return atom

    def closed(self, formula: int) -> bool:
        """Whether the formula holds if the object ends here."""

        def at_end(atom: int) -> int:
            return FALSE if isinstance(self.table.payload(atom), MinProps) else TRUE

        return self.table.substitute(formula, at_end) == TRUE

    def derivative(self, formula: int, place: int, c: int) -> int:
        """The formula before a member of class ``c``, in terms of that member's value and of the rest."""
        if formula in (TRUE, FALSE):
            return formula
        key = (formula, place, c)
        known = self._derived.get(key)
        if known is None:
            rest = self.available(self.after(place, c))

            def value_of(atom: int) -> int:
                payload = self.table.payload(atom)
                if isinstance(payload, MinProps):
                    return TRUE if payload.count == 1 else self.table.atom(MinProps(payload.count - 1))
                assert isinstance(payload, All)
                mask = self.mask[atom]
                if not mask >> c & 1:
                    return atom
                return self.table.conj((self.this_value(payload.value), atom if mask & rest else TRUE))

            known = self._derived[key] = self.table.substitute(formula, value_of)
        return known

    def asked_of(self, residual: int, place: int, c: int) -> int:
        """The strongest value formula for a next member of class ``c`` that leaves the rest possible; FALSE if none."""
        key = (residual, place, c)
        known = self._asked.get(key)
        if known is None:
            static = self.static[c]
            if not self.emptiness.satisfiable(static):
                known = FALSE
            elif residual == TRUE:
                known = static
            else:
                after = self.after(place, c)
                known = self.strongest(self.normal(self.derivative(residual, place, c), after), static, after)
            self._asked[key] = known
        return known

    def _implied(self, cube: Cube, place: int) -> Callable[[int], int] | None:
        """See `Shape`. What is known of a member: ``value[c]``, if there is one of class c; ``needs[c]``, of one there has to be."""
        table, emptiness = self.table, self.emptiness
        available = self.available(place)
        present = self.missing(place)
        limits: dict[int, list[int]] = {}
        needs: dict[int, list[int]] = {}
        for atom, sign in cube.items():
            payload = table.payload(atom)
            if not isinstance(payload, All):
                continue
            mask = self.mask[atom] & available
            if sign:
                for c in _bits(mask):
                    limits.setdefault(c, []).append(payload.value)
            elif self._is_declared_name(mask):
                present |= mask
                needs.setdefault(mask.bit_length() - 1, []).append(table.negate(payload.value))
        value = {c: table.conj((self.static[c], *limits.get(c, ()))) for c in {*limits, *needs}}
        for c in value:
            if present >> c & 1 and not emptiness.satisfiable(table.conj((value[c], *needs.get(c, ())))):
                return None

        def implied(atom: int) -> int:
            payload = table.payload(atom)
            if not isinstance(payload, All):
                return atom
            mask = self.mask[atom] & available
            if not any(mask >> c & 1 for c in value):
                return atom
            negated = table.negate(payload.value)
            if all(emptiness.surely_empty(table.conj((value.get(c, self.static[c]), negated))) for c in _bits(mask)):
                return TRUE
            c = mask.bit_length() - 1
            if mask & (mask - 1) == 0 and present & mask:
                whole = table.conj((value.get(c, self.static[c]), *needs.get(c, ()), payload.value))
                if emptiness.surely_empty(whole):
                    return FALSE
            return atom

        return implied

    # ── can all of these literals hold at once? ──────────────────────────────────────────────────────────────────────

    def _possible(self, cube: Cube, place: int) -> bool:
        """See `Shape`: what declared names must have is put together, then a member is searched for each other wish."""
        table, satisfiable = self.table, self.emptiness.satisfiable
        available, n = self.available(place), self.keys.n_names
        limits: dict[int, list[int]] = {}
        wanted: list[tuple[int, int]] = []
        least, most = 0, None
        for atom, sign in cube.items():
            payload = self.table.payload(atom)
            if isinstance(payload, MinProps):
                if sign:
                    least = max(least, payload.count)
                else:
                    most = payload.count - 1 if most is None else min(most, payload.count - 1)
            elif isinstance(payload, All):
                mask = self.mask[atom] & available
                if sign:
                    for c in _bits(mask):
                        limits.setdefault(c, []).append(payload.value)
                else:
                    wanted.append((mask, table.negate(payload.value)))

        def value(c: int) -> int:
            return table.conj((self.static[c], *limits.get(c, ())))

        members = {c: value(c) for c in _bits(self.missing(place))}
        several = []
        for mask, what in wanted:
            if self._is_declared_name(mask):
                c = mask.bit_length() - 1
                members[c] = table.conj((members.get(c, value(c)), what))
            else:
                several.append((mask, what))
        if not all(satisfiable(f) for f in members.values()):
            return False

        def place_rest(i: int, members: dict[int, int], extra: tuple[tuple[int, int], ...]) -> bool:
            """Find a member for each of ``several[i:]``: one that is there anyhow, a declared one, or an undeclared one."""
            if most is not None and len(members) + len(extra) > most:
                return False
            if i == len(several):
                return self._enough(least, most, members, len(extra), available, value)
            mask, what = several[i]
            for c in _bits(mask & ((1 << n) - 1)):
                together = table.conj((members.get(c, value(c)), what))
                if satisfiable(together) and place_rest(i + 1, {**members, c: together}, extra):
                    return True
            for j, (c, f) in enumerate(extra):
                together = table.conj((f, what))
                if mask >> c & 1 and satisfiable(together):
                    if place_rest(i + 1, members, (*extra[:j], (c, together), *extra[j + 1 :])):
                        return True
            for c in _bits(mask & available & self.keys.others_mask):
                size = self.keys.sizes[c - n]
                used = sum(other == c for other, _ in extra)
                if (size is None or used < size) and satisfiable(table.conj((value(c), what))):
                    if place_rest(i + 1, members, (*extra, (c, table.conj((value(c), what))))):
                        return True
            return False

        return place_rest(0, members, ())

    def _enough(
        self,
        least: int,
        most: int | None,
        members: dict[int, int],
        n_extra: int,
        available: int,
        value: Callable[[int], int],
    ) -> bool:
        """Whether ``least`` members can be reached."""
        if most is not None and least > most:
            return False
        reach = len(members) + n_extra
        if reach >= least:
            return True
        n = self.keys.n_names
        for c in _bits(available & ((1 << n) - 1)):
            if c not in members and self.emptiness.satisfiable(value(c)):
                reach += 1
                if reach >= least:
                    return True
        for c in _bits(available & self.keys.others_mask):
            if self.emptiness.satisfiable(value(c)):
                size = self.keys.sizes[c - n]
                if size is None:
                    return True
                reach += size
        return (
            reach >= least
        )  # keys of a finite class that ``extra`` uses may be counted twice; `SchemaMachine` sees it when it is used up


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
