"""Eight constraints of different kinds and a prompt for each, as the adapters for transformers are asked with."""

from __future__ import annotations

from typing import Any

NAME = {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"name": NAME}, "required": ["name"], "additionalProperties": False},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 1, "maxItems": 3},
    {"enum": ["fox", "owl", None]},
    {"type": "integer", "minimum": -5, "maximum": 5},
    {"type": "boolean"},
    {"anyOf": [{"type": "null"}, NAME]},
    {"type": "object", "properties": {"a": {"const": 1}, "b": {"type": "boolean"}}, "required": ["a", "b"]},
    {"type": "string", "maxLength": 6},
]
PROMPTS = [f"{'The form: ' * (1 + i % 3)}number {i}\nAnswer: " for i in range(8)]
