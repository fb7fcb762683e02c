"""Why a schema allows no value: a smallest set of keywords that no value satisfies together."""

from __future__ import annotations

from fsmc.compiler.errors import FsmcError, place_text
from fsmc.compiler.schema.atoms import TYPES
from fsmc.compiler.schema.emptiness import Emptiness

_Piece = tuple[int, str]  # a node and a keyword in it, "" where the node itself is false


def contradiction(emptiness: Emptiness, node: int) -> str:
    """A sentence that names the parts of an unsatisfiable subschema that cannot hold at once, by JSON pointer.

    Keywords are left out one by one as long as the rest still allows nothing (deletion of constraints, as in the search
    for a minimal unsatisfiable core); references and allOf are opened, and a required member is looked into.
    """
    document = emptiness.keywords.document
    try:
        core = _core(emptiness, _pieces(emptiness, node), {node})
    except FsmcError:
        core = []
    names = [place_text(document.pointer(n) + (f"/{keyword}" if keyword else "")) for n, keyword in core]
    if not names:
        return f"{place_text(document.pointer(node))} asks for what cannot be"
    if len(names) == 1:
        return f"nothing satisfies {names[0]}"
    return f"{', '.join(names[:-1])} and {names[-1]} contradict each other"


def _pieces(emptiness: Emptiness, node: int) -> list[_Piece]:
    document = emptiness.keywords.document
    schema = document.value(node)
    if isinstance(schema, bool):
        return [] if schema else [(node, "")]
    alone = document.draft(node) <= 7 and "$ref" in schema
    return [(node, keyword) for keyword in (("$ref",) if alone else schema)]


def _core(emptiness: Emptiness, pieces: list[_Piece], seen: set[int]) -> list[_Piece]:
    """``seen``: the subschemas looked into, since a schema may require itself."""
    while True:
        for piece in list(pieces):
            rest = [p for p in pieces if p != piece]
            if _empty(emptiness, rest):
                pieces = rest
        opened: list[_Piece] = []
        for piece in pieces:
            opened += _opened(emptiness, piece)
        if opened == pieces:
            inner = _required_member(emptiness, pieces, seen)
            if inner is None:
                return pieces
            opened = inner
        pieces = opened


def _empty(emptiness: Emptiness, pieces: list[_Piece]) -> bool:
    keywords, table = emptiness.keywords, emptiness.table
    if any(not keyword for _, keyword in pieces):
        return True
    return not any(
        emptiness.typed(table.conj([keywords.keyword(node, keyword, type_) for node, keyword in pieces]), type_)
        for type_ in TYPES
    )


def _opened(emptiness: Emptiness, piece: _Piece) -> list[_Piece]:
    """The keywords behind a reference or in the branches of allOf."""
    node, keyword = piece
    document = emptiness.keywords.document
    if keyword == "$ref":
        return _pieces(emptiness, document.resolve(node, document.value(node)["$ref"])) or [piece]
    if keyword == "allOf":
        branches = [document.child(node, "allOf", i) for i in range(len(document.value(node)["allOf"]))]
        return [p for branch in branches for p in _pieces(emptiness, branch)] or [piece]
    return [piece]


def _required_member(emptiness: Emptiness, pieces: list[_Piece], seen: set[int]) -> list[_Piece] | None:
    """The keywords of a required member's value, where that alone is impossible."""
    document = emptiness.keywords.document
    required = {name for node, keyword in pieces if keyword == "required" for name in document.value(node)["required"]}
    for node, keyword in pieces:
        if keyword == "properties":
            for name in document.value(node)["properties"]:
                child = document.child(node, "properties", name)
                if name in required and child not in seen:
                    seen.add(child)
                    inner = _pieces(emptiness, child)
                    if inner and _empty(emptiness, inner):
                        return inner
    return None
