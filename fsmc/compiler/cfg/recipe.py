"""All that the machine of a grammar is made from, which is what an index file keeps of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.determinize import MAX_BYTES, MAX_SECONDS, MAX_STATES
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.cfg.machine import GrammarMachine
from fsmc.compiler.cfg.nets import Limits
from fsmc.compiler.cfg.rules import network
from fsmc.compiler.errors import EmptyLanguageError, GrammarError, LimitExceeded, stack_exceeded, type_of
from fsmc.compiler.syntax.ebnf import parse_ebnf
from fsmc.compiler.syntax.grammar_tree import GrammarTree
from fsmc.compiler.syntax.lark import parse_lark

Syntax = Literal["ebnf", "lark"]

MAX_TEXT = 16_000_000
"""Characters of a grammar."""

_EBNF_RULE = re.compile(r"^[ \t]*[A-Za-z_][A-Za-z0-9_.-]*\s*::=", re.M)


def syntax_of(text: str) -> Syntax:
    """Which syntax a grammar is in: EBNF has ``::=``, Lark has ``:``.

    >>> syntax_of('root ::= "a"'), syntax_of('start: "a"')
    ('ebnf', 'lark')
    """
    return "ebnf" if _EBNF_RULE.search(text) else "lark"


@dataclass(frozen=True)
class GrammarRecipe:
    """A grammar's text and how to read it. syntax: None to find out. start: the first rule (None: ``root`` in EBNF, ``start`` in Lark).

    >>> recipe = GrammarRecipe('root ::= "(" root ")" | "x"')
    >>> recipe.build().matches(b"((x))"), GrammarRecipe.from_arrays(*recipe.to_arrays()) == recipe
    (True, True)
    """

    text: str
    syntax: Syntax | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"a grammar is a str, not {type(self.text).__name__}")
        if self.syntax not in (None, "ebnf", "lark"):
            raise ValueError(f"syntax={self.syntax!r} must be 'ebnf', 'lark' or None")
        object.__setattr__(self, "text", self.text.removeprefix("\ufeff"))  # a byte order mark, of a file
        if self.start is not None and not isinstance(self.start, str):
            raise TypeError(f"start is the name of a rule, not {type_of(self.start)}")
        if self.start == "":
            raise ValueError("start='' names no rule: give a name, or None for root (EBNF) or start (Lark)")
        if len(self.text) > MAX_TEXT:
            raise LimitExceeded("max_text", MAX_TEXT, len(self.text), "characters of a grammar")
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            raise GrammarError("the grammar holds a lone surrogate", self.text, (error.start, error.end)) from None

    @cached_property
    def tree(self) -> GrammarTree:
        """The grammar, read and checked."""
        if not self.text.strip():
            what = 'the grammar is empty: give at least root ::= "…" (EBNF) or start: "…" (Lark)'
            raise GrammarError(what, self.text, (0, 0))
        try:
            if (self.syntax or syntax_of(self.text)) == "ebnf":
                return parse_ebnf(self.text, start=self.start or "root")
            return parse_lark(self.text, start=self.start or "start")
        except RecursionError:
            raise stack_exceeded() from None

    def build(
        self, *, max_states: int = MAX_STATES, max_bytes: int = MAX_BYTES, max_seconds: float = MAX_SECONDS
    ) -> RSM | LazyRSM:
        """The machine of the grammar: a plain one without calls where the grammar is regular, else one that is made as it is walked."""
        return self.build_with_notes(max_states=max_states, max_bytes=max_bytes, max_seconds=max_seconds)[0]

    def build_with_notes(
        self, *, max_states: int = MAX_STATES, max_bytes: int = MAX_BYTES, max_seconds: float = MAX_SECONDS
    ) -> tuple[RSM | LazyRSM, tuple[str, ...]]:
        """The machine, and what a user should know of the grammar: rules that nothing uses or that derive no text."""
        limits = Limits.new(max_states, max_bytes, max_seconds)
        try:
            found = network(self.tree, limits)
        except RecursionError:
            raise stack_exceeded() from None
        if found.root in found.terminals:
            dfa = found.terminals[found.root].dfa
            if dfa.is_empty:
                raise EmptyLanguageError("the grammar matches no text at all, so nothing could be generated")
            return RSM.from_dfa(dfa), tuple(found.notes)
        machine = GrammarMachine(found, max_states=max_states, max_bytes=max_bytes, max_seconds=max_seconds)
        return machine.rsm, machine.notes

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
        """What `from_arrays` needs: the text as UTF-8 bytes, and the settings."""
        text = np.frombuffer(self.text.encode(), np.uint8)
        return {"grammar.text": text}, {"syntax": self.syntax or "", "start": self.start or ""}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]], metadata: dict[str, str]) -> GrammarRecipe:
        """The recipe again. Raises KeyError or ValueError for what `to_arrays` did not make."""
        text = arrays["grammar.text"].tobytes().decode()
        return cls(text, metadata["syntax"] or None, metadata["start"] or None)  # type: ignore[arg-type]  # checked there
