"""The entry point in SGLang's group ``sglang.srt.plugins``: makes ``--grammar-backend fsmc`` known.

It loads with every SGLang process, also those that use another backend, so it imports nothing of fsmc until fsmc is asked for.
"""

from __future__ import annotations

from typing import Any

NAME = "fsmc"


def register() -> None:
    """Register the backend; doing so twice changes nothing."""
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend
    from sglang.srt.server_args import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices

    register_grammar_backend(NAME, _create)
    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])


def _create(*arguments: Any) -> Any:
    from fsmc.runtime.adapters.sglang import create

    return create(*arguments)
