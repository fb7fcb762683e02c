"""Where keys begin: states whose rows are made when a text gets inside a key.

A mask that ends with a key's opening quote need not know what may come behind it, and so the first mask of an object does
without the rows of its names, which are most of the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsmc.compiler.automata.recursion import Alike
from fsmc.compiler.schema.key_space import KeySpace

if TYPE_CHECKING:
    from fsmc.compiler.schema.machine import SchemaMachine


class LateKeys(Alike):
    """States behind the opening quote of a key. first: the first of them.

    required None: one state, before a key of the classes ``live``. Else one for each place in the order of the names, see
    `ScalarBlocks.keys_in_order`; at those where no key may come it is never used.
    """

    __slots__ = ("_free", "_keys", "_live", "_required", "first")

    def __init__(self, m: SchemaMachine, keys: KeySpace, live: int, required: int | None) -> None:
        assert keys.others is None, "of undeclared keys nothing is asked, but whether they may come"
        self._keys, self._live, self._required = keys, live, required
        self._free = m.scalars.first_free_key() if live >> keys.n_names else 0
        self.first = m.rsm.reserve(1 if required is None else keys.n_names + 1, self)

    def like(self, state: int) -> tuple[int, int]:
        """See `Alike`: undeclared keys may come behind the last required name."""
        place = state - self.first
        return (self._free if self._required is None or place >= self._required.bit_length() else 0), 0

    def build(self, m: SchemaMachine) -> None:
        """Make all of their rows."""
        if self._required is None:
            roots = [m.scalars.key(self._keys, self._live, frozenset())]
        else:
            roots = m.scalars.keys_in_order(self._keys, self._live, self._required)
        for state, root in enumerate(roots, self.first):
            if root:
                m.rsm.copy_row(state, root)
