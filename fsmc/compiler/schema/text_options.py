"""How the JSON text that a schema's machine accepts is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How the JSON text is laid out.

    whitespace: "flexible" (up to ``max_whitespace`` characters wherever JSON allows white space), "compact" (none), or
    "json" (one space after a comma or colon, as ``json.dumps`` writes). indent: spaces per level, each member and item
    on a line of its own, as ``json.dumps(indent=…)``; overrides whitespace. property_order: "schema" (declared members in
    the order of `member_order`, others after them) or "any".
    """

    whitespace: Literal["flexible", "compact", "json"] = "flexible"
    max_whitespace: int = 40
    indent: int | None = None
    property_order: Literal["schema", "any"] = "schema"

    def __post_init__(self) -> None:
        for name, value, values in (
            ("whitespace", self.whitespace, ("flexible", "compact", "json")),
            ("property_order", self.property_order, ("schema", "any")),
        ):
            if value not in values:
                raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, values))}")
        for name, number, least in (("max_whitespace", self.max_whitespace, 1), ("indent", self.indent, 0)):
            if number is not None and number < least:
                raise ValueError(f"{name}={number} must be at least {least}")
