"""What a structural tag says: texts, patterns, schemas and free text, one after the other, repeated, or one of several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fsmc.compiler.automata.dfa import DFA

Node = "Text | Token | Pattern | Automaton | Schema | GrammarText | Free | Sequence | Choice | Repeat"


@dataclass(frozen=True, slots=True)
class Text:
    """A literal text."""

    value: str


@dataclass(frozen=True, slots=True)
class Token:
    """One token: a special token's name, or its id."""

    token: str | int
    place: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that matches a regular expression as a whole."""

    pattern: str
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """A text of a DFA."""

    dfa: DFA
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A JSON text, without white space around it. any_order, max_whitespace: None where the compiler's options hold."""

    schema: dict[str, Any] | bool | str
    place: str
    any_order: bool | None = None
    max_whitespace: int | None = None


@dataclass(frozen=True, slots=True)
class GrammarText:
    """A text of a grammar."""

    grammar: str
    syntax: Literal["ebnf", "lark"]
    place: str


@dataclass(frozen=True, slots=True)
class Free:
    """Any text in which none of the ``excludes`` occurs, and no trigger, but that a trigger begins one of the ``tags``.

    It ends where what follows it begins: at the first occurrence of the texts that may follow, or at the end. at_least_one:
    the text begins with a tag. stop_after_first: nothing comes after a tag.
    """

    place: str
    triggers: tuple[Text | Token, ...] = ()
    tags: tuple[Any, ...] = ()
    excludes: tuple[Text | Token, ...] = ()
    at_least_one: bool = False
    stop_after_first: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Several times; max None: any number."""

    content: Any
    min: int
    max: int | None


def nodes_of(node: Any) -> Iterator[Any]:
    """The node and all those in it."""
    yield node
    for part in _parts(node):
        yield from nodes_of(part)


def _parts(node: Any) -> tuple[Any, ...]:
    if isinstance(node, (Sequence, Choice)):
        return node.parts
    if isinstance(node, Repeat):
        return (node.content,)
    return (*node.triggers, *node.tags, *node.excludes) if isinstance(node, Free) else ()


def literals(node: Any) -> tuple[set[str], set[int | str]]:
    """The texts that a tag names, and the tokens."""
    texts, tokens = set(), set()
    for inner in nodes_of(node):
        if isinstance(inner, Text):
            texts.add(inner.value)
        elif isinstance(inner, Token):
            tokens.add(inner.token)
    return texts, tokens
