"""What an object has to remember between its members, one of each kind.

An object's states are looked up many times for each member: where its key begins, where its value does, and behind it. So there
is one object for each, compared by identity, which keeps what was found out about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fsmc.compiler.schema.atoms import MinProps
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.formula import TRUE
from fsmc.compiler.schema.objects import ObjectShape
from fsmc.compiler.schema.outcomes import Truth


@dataclass(slots=True, eq=False)
class ObjectState:
    """What an object has to remember: its shape, residual, what is watched, the place in the order, its depth. There is one
    of each (`of`), so that they are compared and looked up as fast as can be; never changed but for what is kept in it.

    ``seen``: the undeclared keys written, where the shape tracks them. ``pending``: another one was written, which is not
    known here; see `LazyRSM` on recorded frames.
    """

    shape: ObjectShape
    residual: int
    watches: tuple[int, ...]
    place: int
    depth: int
    seen: frozenset[str]
    pending: bool
    may_end: bool
    """Whether ``}`` may stand here."""
    key_code: int | None = 0
    """What `SchemaMachine.key_code` found; 0: not asked yet."""
    _derivatives: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        shape: ObjectShape,
        residual: int,
        watches: tuple[int, ...],
        place: int,
        depth: int,
        seen: frozenset[str] = frozenset(),
        pending: bool = False,
    ) -> ObjectState:
        """The one state with these properties."""
        key = (residual, watches, place, depth, seen, pending)
        known: ObjectState | None = shape.states.get(key)
        if known is None:
            may_end = not shape.missing(place) and shape.closed(residual)
            known = shape.states[key] = cls(shape, residual, watches, place, depth, seen, pending, may_end)
        return known

    @property
    def outcome(self) -> Truth:
        """The truth of what is watched if the object ends here."""
        return tuple(map(self.shape.closed, self.watches))

    def left_in(self, c: int) -> int | None:
        """How many keys of an undeclared class were not written yet, as far as written ones are tracked; None: infinitely many."""
        keys = self.shape.keys
        size = keys.sizes[c - keys.n_names]
        return None if size is None else max(0, size - sum(keys.class_of(key) == c for key in self.seen))

    def enough_keys(self) -> bool:
        """Whether as many members may follow as have to, if the next one is an undeclared one: of few keys each comes once."""
        shape, table = self.shape, self.shape.table
        needed = 0
        for part in table.conjuncts(self.residual):
            literal = table.literal(part)
            payload = table.payload(literal[0]) if literal and literal[1] else None
            if isinstance(payload, MinProps):
                needed = max(needed, payload.count)
        if needed <= 1:
            return True
        room = shape.live(shape.available(self.place) & shape.declared_mask).bit_count() if shape.any_order else 0
        for c in bits(shape.live(shape.keys.others_mask)):
            left = self.left_in(c)
            if left is None:
                return True
            room += left
        return room >= needed

    def with_key(self, seen: frozenset[str], pending: bool) -> ObjectState:
        """The state once an undeclared key is pending, or known."""
        return ObjectState.of(self.shape, self.residual, self.watches, self.place, self.depth, seen, pending)

    def derivatives(self, c: int) -> tuple[int, ...]:
        """Of the residual and of what is watched, in terms of the value of a member of class ``c`` and of the rest."""
        if self.residual == TRUE and not self.watches:
            return (TRUE,)
        known = self._derivatives.get(c)
        if known is None:
            shape, place = self.shape, self.place
            after = shape.after(place, c)
            known = self._derivatives[c] = tuple(
                [shape.normal(shape.derivative(f, place, c), after) for f in (self.residual, *self.watches)]
            )
        return known

    def after_member(self, c: int, watched: tuple[int, ...], truth: Truth) -> ObjectState | None:
        """The state after a member of class ``c``, of whose value ``truth`` holds of ``watched``; None if it cannot go on."""
        shape, place = self.shape, self.shape.after(self.place, c)
        residual, *watches = self.derivatives(c)
        if watched:
            known = dict(zip(watched, truth, strict=True))
            residual, *watches = (shape.after_value(d, known, place) for d in (residual, *watches))
        residual = shape.reduced(residual, place)
        if residual != TRUE and not shape.feasible(residual, place):
            return None
        return ObjectState.of(shape, residual, tuple(watches), place, self.depth, self.seen, self.pending)
