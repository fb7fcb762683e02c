"""Random instances of a schema: a walk through its machine that always ends.

The walk prefers what is natural to read: declared names, letters and digits, texts that end soon. When the text gets
long, or nests deeply, it takes the shortest way to an end (see `ending`).
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.tables import CALL, EXIT
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.schema.bits import bits
from fsmc.compiler.schema.counted_blocks import CountedBlock
from fsmc.compiler.schema.ending import ShortEnding
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.positions import AfterRoot, ArrayStart, ArrayState
from fsmc.compiler.schema.walk import Move, Walk, Walker
from fsmc.jit import exceeded, working_seconds

MAX_STEPS = 100_000
ALL_STEPS = 10
"""So many times ``max_steps`` in all the searches of one end."""
FIRST_STEPS, RANDOM_MOVES = 1_000, 60
"""Of the search for an end: the bound on the first attempt, and what is written at random between attempts."""

END_OF = {ord("}"): 0.15, ord("]"): 0.3, ord('"'): 0.12}
END_OF_NUMBER = 0.5
DECLARED = 0.9
NEXT_NAME = 0.6
"""How likely, where there is a choice: that an object, array, string or number ends; that a key is a declared name; that
it is the next one in their order, or the one after it, and so on."""


class InstanceSampler:
    """Draws valid instances of a schema at random, laid out as its machine is, with no white space that can be left out.

    machine: of the schema. seed: the same one gives the same instances. max_length: in bytes; a text that has got so long
    is ended the shortest way. max_depth: objects and arrays inside each other beyond which the same happens to them.
    Both may be exceeded where the schema leaves no choice. max_steps: of the search for a way to an end; max_seconds: for writing one
    out. More raises LimitExceeded.

    >>> from fsmc.compiler.schema.recipe import SchemaRecipe
    >>> sampler = InstanceSampler(SchemaRecipe({"enum": [["a"], {"b": None}]}).build(), seed=1)
    >>> sorted({sampler.sample() for _ in range(50)})
    ['["a"]', '{"b":null}']
    """

    def __init__(
        self,
        machine: SchemaMachine,
        seed: int | None = None,
        *,
        max_length: int = 400,
        max_depth: int = 8,
        max_steps: int = MAX_STEPS,
        max_seconds: float = math.inf,
    ) -> None:
        self.walker = Walker(machine)
        self.max_seconds = max_seconds
        self.max_length, self.max_depth, self.max_steps = max_length, max_depth, max_steps
        self.n_steps = 0
        """States looked at so far to find ends."""
        self._rng = np.random.default_rng(seed)

    def sample(self) -> str:
        """One more instance. Raises LimitExceeded where the shortest way to an end takes more than ``max_steps`` to find."""
        walk = self.walker.start()
        nested: list[int] = []  # how many calls were open before each open object and array
        while len(walk.text) < self.max_length:
            move = self._choose(walk, len(nested) < self.max_depth)
            if move is None:
                return walk.text.decode()
            opened = len(walk.stack)
            self.walker.do(walk, move)
            while nested and nested[-1] >= len(walk.stack):
                nested.pop()
            if len(walk.stack) > opened and move.text in (b"{", b"["):
                if len(nested) == self.max_depth:
                    self.close(walk, opened)
                else:
                    nested.append(opened)
        self.close(walk, 0)
        return walk.text.decode()

    def close(self, walk: Walk, depth: int) -> None:
        """Take the shortest way on until only ``depth`` calls are open, or with 0 to the end of the text.

        Where it is hard to find (members in any order, of which some sets will do and others not) the text goes on at
        random for a while: that brings it nearer to an end, too.
        """
        began = working_seconds()
        steps, most = min(FIRST_STEPS, self.max_steps), self.n_steps + ALL_STEPS * self.max_steps
        while len(walk.stack) > depth or (depth == 0 and self.walker.rsm.final(walk.state) < 0):
            if over := exceeded(self.max_seconds, began + self.max_seconds):
                hint = "many items or members that have to differ: allow fewer, or ask for no budget"
                raise LimitExceeded("max_seconds", *over, hint)
            self._fill(walk)
            search = ShortEnding(self.walker, walk, depth)
            try:
                moves = search.run(steps)
            except LimitExceeded:
                if steps == self.max_steps or self.n_steps > most:
                    raise
                steps = min(2 * steps, self.max_steps)
                for _ in range(RANDOM_MOVES):
                    if len(walk.stack) > depth and (move := self._choose(walk, False)):
                        self.walker.do(walk, move)
                continue
            finally:
                self.n_steps += search.n_steps
            if self.n_steps > most:
                hint = "each way to an end led to where it is as far again"
                raise LimitExceeded("max_steps", self.max_steps, self.n_steps - most + self.max_steps, hint)
            for move in moves:
                self.walker.do(walk, move)

    def _fill(self, walk: Walk) -> None:
        """Make a string as long as it has to be: the search would try everything that may stand at each of its places."""
        block = self.walker.rsm.state_key(walk.state)
        if isinstance(block, CountedBlock):
            for _ in range(4 * block.string.counted.minimum):
                groups = self.walker.groups(walk.state)
                if any(code < 0 for code, _ in groups):
                    break
                weights = [_WEIGHT[group[0]] for _, group in groups]
                code, group = groups[self._draw(np.array(weights))]
                self.walker.do(walk, Move(self._one_of(group), code))

    def _choose(self, walk: Walk, may_nest: bool) -> Move | None:
        """A move at random; None at the end of the text."""
        rsm, rng = self.walker.rsm, self._rng
        moves: list[Move] = []
        weights: list[float] = []
        for code, group in self.walker.groups(walk.state):
            if code > 0:
                moves.append(Move(self._one_of(group), code))
                weight = _EXPONENT if set(group) <= set(b"eE") else float(_WEIGHT[list(group)].max())
                weights.append(_MINUS_ZERO if group == b"0" and _MINUS.search(walk.text) else weight)
                continue
            kind, operand, frame = rsm.action(code)
            if kind == CALL:
                named = self._name(frame, walk.state)
                if named is not None:
                    return named
                moves.append(Move(self._one_of(group), code))
                weights.append(1.0 if may_nest or group not in (b"{", b"[") else 1e-9)
            elif rsm.after_outcome(walk.stack[-1], operand):
                end = END_OF.get(group[0], 1.0) if kind == EXIT else END_OF_NUMBER
                if rng.random() < end:
                    return Move(group[:1] if kind == EXIT else b"", code)
                moves.append(Move(group[:1] if kind == EXIT else b"", code))
                weights.append(_LATE_END)
        if not moves:
            assert not walk.stack and rsm.final(walk.state) >= 0, f"a dead end after {bytes(walk.text)!r}"
            return None
        return moves[self._draw(np.array(weights))]

    def _name(self, frame: int, state: int) -> Move | None:
        """A declared name, if a call with this frame reads keys and one is wanted."""
        o = self.walker.object_of(frame, state)
        if o is None:
            return None
        n_names = o.shape.keys.n_names
        allowed = list(bits(self.walker.machine.allowed_keys(o)))
        names = [c for c in allowed if c < n_names]
        if not names or (len(names) < len(allowed) and self._rng.random() > DECLARED):
            return None
        if o.shape.any_order:
            return self.walker.name(o, frame, names[int(self._rng.integers(len(names)))])
        skipped = int(self._rng.geometric(NEXT_NAME)) - 1
        return self.walker.name(o, frame, names[min(skipped, len(names) - 1)])

    def _one_of(self, group: bytes) -> bytes:
        return group if len(group) == 1 else bytes([group[self._draw(_WEIGHT[list(group)])]])

    def _draw(self, weights: npt.NDArray[np.float64]) -> int:
        sums = np.cumsum(weights)
        return int(np.searchsorted(sums, self._rng.random() * sums[-1], side="right"))


def short_text(machine: SchemaMachine, max_steps: int = MAX_STEPS) -> bytes:
    """Some instance, as short as it is easily found. Raises LimitExceeded.

    >>> from fsmc.compiler.schema.recipe import SchemaRecipe
    >>> short_text(SchemaRecipe({"type": "array", "minItems": 2, "uniqueItems": True, "items": {"type": "integer"}}).build())
    b'[0,1]'
    """
    sampler = InstanceSampler(machine, seed=0, max_steps=max_steps)
    walk = sampler.walker.start()
    sampler.close(walk, 0)
    return bytes(walk.text)


def short_array(machine: SchemaMachine, wanted: int, depth: int = 0, max_steps: int = MAX_STEPS) -> bytes:
    """Some array that satisfies an array formula, as short as it is easily found. Raises LimitExceeded, UnsupportedSchemaError."""
    shape = machine.shapes.array(wanted, ())
    start = machine.state(ArrayStart(ArrayState(shape, *shape.at_start(), 0, depth)))
    walk = Walk(bytearray(b"["), start, [machine.rsm.new_frame((AfterRoot(), ()), False)])
    InstanceSampler(machine, seed=0, max_steps=max_steps).close(walk, 0)
    return bytes(walk.text)


def _weights() -> npt.NDArray[np.float64]:
    """How natural each byte is in a text."""
    weights = np.full(256, 0.002)
    weights[0x20:0x7F] = 0.02
    weights[0x80:0xC0] = 1.0  # inside a character
    weights[list(b"aeiounrstl")] = 2.0
    for byte in b"abcdefghijklmnopqrstuvwxyz0123456789":
        weights[byte] = max(weights[byte], 1.0)
    weights[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ ")] = 0.2
    return weights


_WEIGHT = _weights()
_EXPONENT, _LATE_END, _MINUS_ZERO = 0.05, 0.2, 1e-3
"""How natural an exponent is beside digits; an end although the coin said that the text goes on; and -0 beside -1."""

_MINUS = re.compile(rb"(?:^|[\[ :,\n])-$")
"""A text that ends where a negative number begins (or what looks like one in a string: it is only what is preferred)."""
