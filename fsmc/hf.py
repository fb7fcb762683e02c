"""``fsmc.hf.generate(model, tokenizer, prompts, json_schema=...)``: transformers' generate under a constraint, in one line."""

from __future__ import annotations

from fsmc.runtime.adapters.hf_batching import ConstrainedBatching, generate_batch
from fsmc.runtime.adapters.hf_generate import compiler_for, generate, jump_forward

__all__ = ["ConstrainedBatching", "compiler_for", "generate", "generate_batch", "jump_forward"]
