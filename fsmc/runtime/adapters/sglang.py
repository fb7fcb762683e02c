"""fsmc as SGLang's grammar backend: ``--grammar-backend fsmc``.

`register` is the entry point (group ``sglang.srt.plugins``). SGLang hands JSON Schema, regexes, EBNF and structural tags as text, asks
for the masks of a batch, walks trees of drafts with `accept_token` and `rollback`, and wraps grammars for models that think first.
Written against SGLang 0.5.23.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarRow,
    GrammarStats,
    InvalidGrammarObject,
)

from fsmc.compiler.grammar import CompiledGrammar
from fsmc.runtime.adapters.serving import compiled, engine_manager
from fsmc.runtime.batch import fill_bitmask_batch
from fsmc.runtime.bitmask import apply_token_bitmask_inplace
from fsmc.runtime.grammar_workers import InvalidGrammar
from fsmc.runtime.matcher import GrammarMatcher

_ANY_JSON = "$$ANY$$"

_EMBEDDED = {
    "json": lambda text: {"type": "json_schema", "json_schema": {} if text == _ANY_JSON else json.loads(text)},
    "regex": lambda text: {"type": "regex", "pattern": text},
    "ebnf": lambda text: {"type": "grammar", "grammar": text},
}
"""A request's constraint as a part of a structural tag."""


class FsmcGrammar(BaseGrammarObject):  # type: ignore[misc]  # SGLang has no types
    """One request under a grammar."""

    def __init__(self, grammar: CompiledGrammar, kind: str, text: str, stats: GrammarStats) -> None:
        super().__init__()
        self.matcher = GrammarMatcher(grammar)
        self.kind, self.text, self.grammar_stats = kind, text, stats

    def __repr__(self) -> str:
        return f"FsmcGrammar({self.kind} {self.text[:80]!r}, {self.matcher!r})"

    def copy(self) -> FsmcGrammar:
        """A fresh start under the same grammar: what SGLang keeps is a pattern for requests."""
        stats = GrammarStats(
            schema_count=self.grammar_stats.schema_count,
            ebnf_size=self.grammar_stats.ebnf_size,
            is_cache_hit=True,
            dispatch_type=self.kind,
            compilation_time=self.grammar_stats.compilation_time,
        )
        return FsmcGrammar(self.matcher.grammar, self.kind, self.text, stats)

    # ------------------------------------------------------------------------------------------------------------ tokens

    def accept_token(self, token: int) -> None:
        """Take a token; after the end nothing counts. ValueError, the one type that ends only the request, says what was allowed."""
        if self.matcher.is_terminated():
            return
        if not self.matcher.accept_token(token):
            raise ValueError(f"{self.matcher.rejection(token)} ({self.kind} {self.text[:200]!r})")
        self.current_token = token

    def rollback(self, k: int) -> None:
        self.matcher.rollback(k)

    def is_terminated(self) -> bool:
        return self.matcher.is_terminated()

    # ------------------------------------------------------------------------------------------------------------- masks

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        return _allocate(vocab_size, batch_size)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        self.matcher.fill_next_token_bitmask(vocab_mask, idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """All rows in one call; those of wrapped grammars, which may still think, by themselves."""
        ours = [entry for entry in entries if isinstance(entry.grammar, FsmcGrammar)]
        fill_bitmask_batch([entry.grammar.matcher for entry in ours], vocab_mask, [entry.row for entry in ours])
        for entry in entries:
            if not isinstance(entry.grammar, FsmcGrammar):
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        apply_token_bitmask_inplace(logits, vocab_mask)

    # ------------------------------------------------------------------------------- jump-forward, for forks that call it

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        forced = self.matcher.find_jump_forward_string()
        return ([], forced) if forced else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        return helper[1], -1

    def jump_and_retokenize(self, old_output_ids: list[int], new_output_ids: list[int], next_state: int) -> None:
        """From the old output to the new: back to where they part, and on. ValueError, and nothing has changed, if that is refused."""
        same = 0
        while same < min(len(old_output_ids), len(new_output_ids)) and old_output_ids[same] == new_output_ids[same]:
            same += 1
        probe = self.matcher.fork()
        probe.rollback(len(old_output_ids) - same)
        for token in new_output_ids[same:]:
            if not probe.accept_token(token):
                raise ValueError(str(probe.rejection(token)))
        self.matcher = probe


class FsmcGrammarBackend(BaseGrammarBackend):  # type: ignore[misc]
    """Compiles what requests ask for. SGLang keeps the results and calls from its own threads."""

    def __init__(self, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None, **layout: Any) -> None:
        super().__init__()
        self.manager = engine_manager(tokenizer, vocab_size, eos_token_ids, warm=True, **layout)

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        schema = "{}" if key_string == _ANY_JSON else key_string
        return self._compile("json", key_string, "json_schema", schema)

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        return self._compile("regex", key_string, "regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        return self._compile("ebnf", key_string, "grammar", key_string)

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        return self._compile("structural_tag", key_string, "structural_tag", key_string)

    def _compile(self, dispatched: str, text: str, kind: str, source: str) -> BaseGrammarObject:
        outcome = compiled(self.manager, kind, source)
        if isinstance(outcome, InvalidGrammar):
            return InvalidGrammarObject(outcome.message)
        stats = GrammarStats(dispatch_type=dispatched)
        if dispatched == "ebnf":
            stats.ebnf_size = len(text)
        return FsmcGrammar(outcome, dispatched, text, stats)

    # ------------------------------------------------------------------------------------------------------------- masks

    allocate_vocab_mask = staticmethod(lambda vocab_size, batch_size, device: _allocate(vocab_size, batch_size))
    move_vocab_mask = staticmethod(FsmcGrammar.move_vocab_mask)
    apply_vocab_mask = staticmethod(FsmcGrammar.apply_vocab_mask)

    # -------------------------------------------------------------------------------------------------- models that think

    @property
    def is_support_token_filter(self) -> bool:
        return True

    @staticmethod
    def set_token_filter(
        vocab_mask: torch.Tensor,
        token_ids: Sequence[int],
        batch_idx: int,
        is_allowed: bool = True,
        reset_vocab_mask: bool = True,
    ) -> None:
        """Allow these tokens in a row, or forbid them; with ``reset_vocab_mask`` all others are the opposite."""
        row = vocab_mask[batch_idx]
        if reset_vocab_mask:
            row.fill_(0 if is_allowed else -1)
        for token in token_ids:
            bit = 1 << token % 32
            bit = bit - (1 << 32) if token % 32 == 31 else bit
            row[token // 32] = row[token // 32] | bit if is_allowed else row[token // 32] & ~bit

    def compile_framed_grammar(
        self, grammar: BaseGrammarObject, frame: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> BaseGrammarObject | None:
        """The constraint inside a frame of the model's turn; None where structural tags of fsmc have no such frame."""
        embed = _EMBEDDED.get(grammar.kind)
        content = embed(grammar.text) if embed else json.loads(grammar.text).get("format")
        if content is None:
            return None
        framed = self._compile("structural_tag", text := json.dumps(frame(content)), "structural_tag", text)
        return None if isinstance(framed, InvalidGrammarObject) else framed


def _allocate(vocab_size: int, batch_size: int) -> torch.Tensor:
    """int32[batch_size, ceil(vocab_size / 32)], everything allowed; pinned where there is a GPU to copy it to."""
    return torch.full((batch_size, -(-vocab_size // 32)), -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())


def create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None) -> Any:
    """SGLang's factory. A backend that is not SGLang's own has to wrap itself for models that think first."""
    from sglang.srt.runtime_context import get_serving

    serving = get_serving()
    layout: dict[str, Any] = {}
    if serving.constrained_json_disable_any_whitespace:
        layout["whitespace"] = "json"
    elif serving.constrained_json_max_whitespace_cnt is not None:
        layout["max_whitespace"] = serving.constrained_json_max_whitespace_cnt
    backend = FsmcGrammarBackend(tokenizer, vocab_size, eos_token_ids, **layout)
    if not serving.reasoning_parser:
        return backend
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    strict = serving.enable_strict_thinking
    return ReasonerGrammarBackend(backend, parser, tokenizer, enable_strict_thinking=strict)
