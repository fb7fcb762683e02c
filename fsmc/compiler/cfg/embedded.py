"""JSON values inside of a grammar: the machine of a schema, copied state by state into that of the grammar as texts get there.

The value is called like a terminal. The call that the schema's machine makes at its root and the one that the grammar makes are the same one: its
frame keeps both what the root waits for and where the grammar goes on. White space around the value is the grammar's own affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import Block
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED
from fsmc.compiler.errors import EmptyLanguageError, GrammarError, SchemaError, UnsupportedGrammarError
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.syntax.grammar_tree import Schema

_SPACE = b" \t\n\r"
_IN_NUMBERS = b"0123456789.eE+-"


class EmbeddedSchema:
    """One schema of a grammar. inner: its own machine, which is only copied from; first: the bytes that a value begins with, as bits."""

    def __init__(self, number: int, node: Schema, text: str, limits: dict[str, Any]) -> None:
        self.number, self.node, self.text = number, node, text
        try:
            self.inner = SchemaRecipe(node.text, TextOptions()).build(**limits).rsm
        except (SchemaError, EmptyLanguageError) as error:
            raise GrammarError(f"in the schema: {error}", text, node.span) from error
        row = self.inner.row(self.inner.start)
        self.codes = [0 if byte in _SPACE else int(row[byte]) for byte in range(256)]
        self.first = sum(1 << byte for byte, code in enumerate(self.codes) if code)
        self.follow = 0

    def check(self, follow: int, beside: int) -> None:
        """Take note of the bytes that may follow a value; refuse those that could go on with a number, and what may stand in its place.

        Two readings of which one is inside of a schema are not run as a set.
        """
        self.follow = follow
        both = self.first & beside
        if both:
            raise self.beside((both & -both).bit_length() - 1)
        may_be_number = any(self.codes[byte] for byte in b"-0123456789")
        if may_be_number and any(follow >> byte & 1 for byte in _IN_NUMBERS):
            raise self.unsupported("a number of the schema and what follows it cannot be told apart")

    def beside(self, byte: int) -> UnsupportedGrammarError:
        """The error where a byte begins a value, or something else."""
        return self.unsupported(f"with {chr(byte)!r} a value of the schema may begin, or something else")

    def unsupported(self, message: str) -> UnsupportedGrammarError:
        """An error at the place of the schema."""
        return UnsupportedGrammarError(message, self.text, self.node.span)


class Copier:
    """Builds the states of embedded schemas in ``rsm``. outcome: gives numbers to outcomes, whatever they are."""

    def __init__(self, rsm: LazyRSM, schemas: dict[int, EmbeddedSchema], outcome: Callable[[Any], int]) -> None:
        self.rsm, self.schemas, self.outcome = rsm, schemas, outcome
        self._blocks: dict[tuple[int, int], int] = {}

    def call(self, symbol: int, byte: int, below: int) -> int:
        """The code of the first byte of a value, with the stacks ``below`` to go on with after it."""
        schema = self.schemas[symbol]
        kind, target, frame = schema.inner.action(schema.codes[byte])
        assert kind == CALL and frame < RECORDED
        return self.rsm.call(self.state(symbol, target), self.rsm.new_frame(("root", symbol, frame, below)))

    def state(self, symbol: int, number: int) -> int:
        """The copy of a state of a schema's machine."""
        if number == 0:
            return 0
        inner = self.schemas[symbol].inner
        inner.row(number)  # what is built as a whole is a block from now on
        block = inner.block_of(number)
        if isinstance(block, Block):
            return number + self._block(symbol, block)
        return self.rsm.new_state(("copy", symbol, number))

    def build_row(self, state: int, symbol: int, number: int) -> None:
        """Copy a row."""
        codes, final = self._row(symbol, number, lambda target: self.state(symbol, target))
        listed: dict[int, int] = {}
        classes = bytes(listed.setdefault(code, len(listed)) for code in codes)
        self.rsm.set_row(state, self.rsm.class_map(classes), list(listed), final)

    def after(self, frame: tuple[Any, ...], symbol: int, outcome: int) -> tuple[int, int | None]:
        """Where it goes on after an outcome of a schema's component: (a state, None), or (0, stacks of the grammar)."""
        inner = self.schemas[symbol].inner
        target = inner.after_outcome(frame[2], outcome)
        if frame[0] == "inner":
            return self.state(symbol, target), None
        return 0, frame[3] if target and inner.final(target) >= 0 else None

    def record(self, symbol: int, number: int, text: bytes | None) -> int:
        """The state to go on in after a recorded call."""
        return self.state(symbol, self.schemas[symbol].inner.record(number, text))

    def _row(self, symbol: int, number: int, state: Callable[[int], int]) -> tuple[list[int], int]:
        """The codes of a state for each byte, and its outcome at the end."""
        rsm, schema = self.rsm, self.schemas[symbol]
        inner, known = schema.inner, {}
        final = inner.final(number)
        outcome = self.outcome(("json", symbol, final)) if final >= 0 else -1
        codes = []
        for byte, code in enumerate(inner.row(number).tolist()):
            if code == 0 and final >= 0 and schema.follow >> byte & 1:
                codes.append(rsm.exit_redo(outcome))
                continue
            if code not in known:
                if code >= 0:
                    known[code] = state(code)
                else:
                    kind, operand, frame = inner.action(code)
                    if kind == CALL:
                        records = frame >= RECORDED
                        own = rsm.new_frame(("inner", symbol, frame), records)
                        known[code] = rsm.call(state(operand), own)
                    else:
                        ended = self.outcome(("json", symbol, operand))
                        known[code] = rsm.exit(ended) if kind == EXIT else rsm.exit_redo(ended)
            codes.append(known[code])
        return codes, outcome

    def _block(self, symbol: int, block: Block) -> int:
        """Copy a component that calls nothing as a whole; what to add to the numbers of its states."""
        key = (symbol, block.first)
        if key not in self._blocks:
            inner = self.schemas[symbol].inner
            last = block.first
            while last < inner.n_states and inner.block_of(last) is block:
                last += 1
            rows, finals = [[0] * 256], [-1]
            for number in range(block.first, last):
                codes, final = self._row(symbol, number, lambda target: target - block.first + 1 if target else 0)
                rows.append(codes)
                finals.append(final)
            delta, byte_class = np.unique(np.array(rows, np.int32), axis=1, return_inverse=True)
            classes = byte_class.reshape(256).astype(np.uint8)
            offset = self.rsm.add_block(classes, np.ascontiguousarray(delta), np.array(finals, np.int32))
            self._blocks[key] = offset - block.first + 1
        return self._blocks[key]
