"""``fsmc.hf.generate(model, tokenizer, prompts, json_schema=...)``: transformers' generate under a constraint, in one line."""

from __future__ import annotations

from fsmc.runtime.adapters.hf_generate import compiler_for, generate, jump_forward

__all__ = ["compiler_for", "generate", "jump_forward"]
