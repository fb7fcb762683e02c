"""The keys of an object, in classes: each declared name is one, the others are told apart by the key sets in play.

Key sets are string formulas. Two keys that satisfy the same of them are treated alike, so an object needs to know only
the class of a key. Classes are numbered and sets of classes are bit masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.atoms import StrEnum
from fsmc.compiler.schema.bits import as_mask, bits
from fsmc.compiler.schema.formula import FALSE, TRUE, Formulas
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.string_machines import strings_that
from fsmc.compiler.schema.strings import string_component

MAX_KEY_CLASSES = 1 << 14
"""Of undeclared keys: n patterns make up to 2^n."""


UNDECLARED = 1 << 30
"""A key's component ends with the class of a declared name, or with this and the number of the other class: so that the machine
of undeclared keys is the same whatever names are declared."""


@dataclass(eq=False, slots=True)
class KeySpace:
    """Classes 0 … n_names - 1 are the declared names, those from n_names on the others, by their outcome in ``others``.

    mask_of: key set → bit mask of the classes in it. others: the machine over an undeclared key's content whose outcome
    is the class minus n_names (None: one class, any text). sizes: keys in each other class, None for infinitely many.
    """

    names: tuple[str, ...]
    mask_of: Masks
    others: OutcomeDFA | None
    sizes: tuple[int | None, ...]

    @property
    def n_names(self) -> int:
        """Number of declared names."""
        return len(self.names)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.names) + len(self.sizes)

    def class_of(self, key: str) -> int:
        """The class of an undeclared key."""
        if self.others is None:
            return self.n_names
        state = self.others.start
        for byte in key.encode():
            state = int(self.others.delta[state, self.others.byte_class[byte]])
        return self.n_names + int(self.others.outcome[state])

    def outcome(self, c: int) -> int:
        """The outcome of a key of class ``c``."""
        return c if c < self.n_names else UNDECLARED + c - self.n_names

    def class_after(self, outcome: int) -> int:
        """The class of a key with this outcome."""
        return outcome if outcome < UNDECLARED else outcome - UNDECLARED + self.n_names

    @property
    def others_mask(self) -> int:
        """All classes of undeclared keys."""
        return (1 << self.n_classes) - (1 << self.n_names)


class Masks(dict[int, int]):
    """Key set → bit mask of its classes. Those of enumerations are made when asked for: of a hundred thousand names with a
    bit each they would fill the memory."""

    def __init__(self, names: tuple[str, ...], table: Formulas) -> None:
        super().__init__()
        self.table, self.index = table, {name: i for i, name in enumerate(names)}

    def __missing__(self, keys: int) -> int:
        listed = self.table.listed(keys)
        if listed is None:
            raise KeyError(keys)
        return as_mask(map(self.index.__getitem__, listed), len(self.index))

    def classes(self, keys: int) -> Iterable[int]:
        """The classes in a key set."""
        listed = self.table.listed(keys)
        return bits(self[keys]) if listed is None else map(self.index.__getitem__, listed)


def key_space(names: tuple[str, ...], key_sets: Iterable[int], table: Formulas) -> KeySpace:
    """The classes that ``key_sets`` and the declared names make of all keys. ``names`` must hold every enumerated key.

    Raises LimitExceeded where the patterns' product is too large.

    With "id" declared and one pattern there are three classes: "id", other keys that match, and keys that do not. The pattern
    holds of the first two, bits 0 and 2 (or 1) of its mask.

    >>> from fsmc.compiler.schema.atoms import Pattern
    >>> table = Formulas()
    >>> pattern = table.atom(Pattern("^i"))
    >>> keys = key_space(("id",), [pattern], table)
    >>> keys.n_classes, keys.mask_of[pattern] == 1 << 0 | 1 << keys.class_of("in"), keys.class_of("x") != keys.class_of("in")
    (3, True, True)
    """
    n = len(names)
    sets = sorted({keys for keys in key_sets if keys != FALSE and table.listed(keys) is None})
    mask_of = Masks(names, table)
    mask_of[TRUE], mask_of[FALSE] = (1 << n) - 1, 0
    if not sets:
        return KeySpace(names, mask_of, None, (None,))
    for keys in sets:
        left_out = table.listed(keys, False)
        if left_out is not None:  # all other keys, as of additionalProperties
            mask_of[keys] = mask_of[TRUE] & ~as_mask(map(mask_of.index.__getitem__, left_out), n)
    asked = [keys for keys in sets if keys not in mask_of]
    if asked:
        mask_of.update(zip(asked, strings_that(asked, names, table), strict=True))

    def undeclared(atom: int) -> int:
        return atom if table.listed(atom) is None else FALSE

    rest = dict.fromkeys(sets, TRUE)
    rest.update((keys, table.substitute(keys, undeclared)) for keys in asked)
    watched = tuple(sorted({keys for keys in rest.values() if keys not in (TRUE, FALSE)}))
    if not watched:
        for keys in sets:
            mask_of[keys] |= (rest[keys] == TRUE) << n
        return KeySpace(names, mask_of, None, (None,))
    outside = table.negate(table.atom(StrEnum(frozenset(names)))) if names else TRUE
    others = string_component(outside, watched, table)
    column = {keys: i for i, keys in enumerate(watched)}
    n_others = len(others.vectors)
    if n_others > MAX_KEY_CLASSES:
        hint = "too many of the patterns for keys overlap"
        raise LimitExceeded("max_key_classes", MAX_KEY_CLASSES, n_others, hint)
    for keys in sets:
        kept = rest[keys]
        if kept == TRUE:
            mask_of[keys] |= (1 << n_others) - 1 << n
        elif kept != FALSE:
            table.clock.check()
            mask_of[keys] |= as_mask((i for i, v in enumerate(others.vectors) if v[column[kept]]), n_others) << n
    return KeySpace(names, mask_of, others, tuple(others.sizes()))


def enumerated_names(key_sets: Iterable[int], table: Formulas) -> Iterable[str]:
    """Every name that a key set lists."""
    for keys in key_sets:
        listed = table.listed(keys)
        if listed is not None:
            yield from listed
            continue
        for atom in table.atoms(keys):
            yield from table.listed(atom) or ()
