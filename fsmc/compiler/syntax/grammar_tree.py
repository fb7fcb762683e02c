"""The tree of a context-free grammar: what both syntaxes, EBNF and Lark, are read into.

Whatever is visibly regular is an `Expr` already (literals, classes, regexes); five nodes put such pieces and references to rules together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fsmc.compiler.syntax.expr import Expr

Span = tuple[int, int]
"""Where in the text something stands: start and end, in characters."""


@dataclass(frozen=True, slots=True)
class Node:
    """Base of the nodes."""


@dataclass(frozen=True, slots=True)
class Leaf(Node):
    """A regular piece. alone: it holds assertions (looks, anchors), which see its own text only, so that it is never merged with others."""

    expr: Expr
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Ref(Node):
    """A rule by its name."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Schema(Node):
    """A JSON value that is valid under a JSON Schema, given as text."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Seq(Node):
    """The parts, one after the other; no parts is the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """Any one of the branches."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Times(Node):
    """``minimum`` to ``maximum`` copies of the body; None: no bound."""

    body: Node
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A name, what it stands for, and where the name is defined. is_terminal: of Lark, a name in capitals."""

    name: str
    body: Node
    span: Span
    is_terminal: bool = False


@dataclass(frozen=True, slots=True)
class GrammarTree:
    """A grammar as it was read. rules: by name, in the order of the text. notes: what a user should know about how it was read."""

    text: str
    rules: dict[str, Rule]
    start: str
    notes: tuple[str, ...] = field(default=())


def seq(parts: list[Node]) -> Node:
    """The parts in sequence, without needless nesting."""
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def choice(branches: list[Node]) -> Node:
    """Any of the branches, without needless nesting."""
    return branches[0] if len(branches) == 1 else Choice(tuple(branches))


def times(body: Node, minimum: int, maximum: int | None) -> Node:
    """Copies of the body. Of ``x*?`` and the like, however many signs there are, one remains."""
    if minimum == maximum == 1:
        return body
    if isinstance(body, Times) and _is_sign(body.minimum, body.maximum) and _is_sign(minimum, maximum):
        one = maximum == body.maximum == 1
        minimum, maximum, body = min(minimum, body.minimum), 1 if one else None, body.body
    return Times(body, minimum, maximum)


def _is_sign(minimum: int, maximum: int | None) -> bool:
    """Whether bounds are those of ``? * +``."""
    return minimum <= 1 and (maximum is None or maximum == 1)


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with other children."""
    if isinstance(node, Seq):
        return Seq(tuple(map(change, node.parts)))
    if isinstance(node, Choice):
        return Choice(tuple(map(change, node.branches)))
    if isinstance(node, Times):
        return Times(change(node.body), node.minimum, node.maximum)
    return node
