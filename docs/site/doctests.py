"""Docstrings for the site: examples at a Python prompt become blocks of code, arguments get lines of their own."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Fences the examples of every docstring, so that Markdown does not take ``>>>`` for a quotation."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Blocks that begin with ``>>>`` end at the next empty line; ``name: …`` after a full stop begins a paragraph."""
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith(">>>"):
            blocks.append(f"```pycon\n{block}\n```")
        else:
            blocks.append(re.sub(r"(?<=[.:])\n(?=[a-z_]+(?:, [a-z_]+)*: )", "\n\n", block))
    return "\n\n".join(blocks)
