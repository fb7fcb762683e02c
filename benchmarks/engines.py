"""fsmc and its peers behind one face, so that every benchmark asks all of them the same.

An engine reads the tokenizer once. `compile` makes a grammar of a JSON Schema (and raises what the library raises),
`start` a matcher at the beginning of a text, `step` computes the mask of what may come next and takes one token if it is
in it, `is_complete` says whether the text may end. None of them reads a cache that is keyed by the schema.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsmc


class Engine(ABC):
    """One library, ready for a vocabulary."""

    package: str
    """The name under which it is installed."""

    @abstractmethod
    def compile(self, schema: Any) -> Any:
        """A grammar; any exception means that the schema is not supported."""

    @abstractmethod
    def start(self, grammar: Any) -> Any:
        """A matcher at the beginning of a text."""

    @abstractmethod
    def step(self, matcher: Any, token: int) -> bool:
        """Mask, then take the token; False if it is not allowed."""

    @abstractmethod
    def accept(self, matcher: Any, token: int) -> bool:
        """Take the token without a mask."""

    @abstractmethod
    def is_complete(self, matcher: Any) -> bool:
        """Whether the text may end here."""

    def batch_filler(self, n_rows: int) -> Callable[[list[Any]], Any] | None:
        """A function that computes the masks of so many matchers in one call, and returns them; None if there is none."""
        return None


class Fsmc(Engine):
    package = "fsmc"

    def __init__(self, vocabulary: fsmc.Vocabulary, tokenizer: Path, property_order: Any = "schema") -> None:
        self.vocabulary = vocabulary
        self.mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
        self.compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, property_order=property_order)
        matcher = self.start(self.compile({"type": "boolean"}))  # kernels loaded, as they are in a server
        matcher.fill_next_token_bitmask(self.mask)
        matcher.accept_bytes(b"true")

    def compile(self, schema: Any) -> Any:
        return self.compiler.compile_json_schema(schema)

    def start(self, grammar: Any) -> Any:
        return fsmc.GrammarMatcher(grammar)

    def step(self, matcher: Any, token: int) -> bool:
        matcher.fill_next_token_bitmask(self.mask)
        return bool(matcher.accept_token(token))

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept_token(token))

    def is_complete(self, matcher: Any) -> bool:
        return bool(matcher.is_completed())

    def batch_filler(self, n_rows: int) -> Callable[[list[Any]], Any]:
        mask = fsmc.allocate_token_bitmask(n_rows, self.vocabulary.size)
        fsmc.fill_bitmask_batch([None] * n_rows, mask)  # kernel and threads are there, as they are in a server

        def fill(matchers: list[Any]) -> Any:
            fsmc.fill_bitmask_batch(matchers, mask)
            return mask

        return fill


class LLGuidance(Engine):
    package = "llguidance"

    def __init__(self, vocabulary: fsmc.Vocabulary, tokenizer: Path) -> None:
        import llguidance
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        self.library, self.fill = llguidance, fill_next_token_bitmask
        self.tokenizer = llguidance.LLTokenizer(str(tokenizer), eos_token=vocabulary.eos_token_ids[0])
        self.mask = allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, schema: Any) -> Any:
        matcher = self.library.LLMatcher(self.tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, grammar: Any) -> Any:
        return grammar.deep_copy()

    def step(self, matcher: Any, token: int) -> bool:
        self.fill(matcher, self.mask, 0)
        if int(self.mask[0, token // 32]) >> token % 32 & 1:
            return bool(matcher.consume_token(token))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return False

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.consume_token(token))

    def is_complete(self, matcher: Any) -> bool:
        return bool(matcher.is_accepting())

    def batch_filler(self, n_rows: int) -> Callable[[list[Any]], Any]:
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask_par

        executor = self.library.LLExecutor()
        mask = allocate_token_bitmask(n_rows, self.tokenizer.vocab_size)

        def fill(matchers: list[Any]) -> Any:
            fill_next_token_bitmask_par(executor, [(matcher, row) for row, matcher in enumerate(matchers)], mask)
            return mask

        return fill


class XGrammar(Engine):
    package = "xgrammar"

    def __init__(self, vocabulary: fsmc.Vocabulary, tokenizer: Path, flexible: bool = True) -> None:
        import xgrammar

        self.library, self.flexible = xgrammar, flexible
        stops = list(vocabulary.eos_token_ids)
        info = xgrammar.TokenizerInfo(vocabulary.tokens, vocab_size=vocabulary.size, stop_token_ids=stops)
        self.mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.vocab_size = info.vocab_size
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, schema: Any) -> Any:
        return self.compiler.compile_json_schema(
            json.dumps(schema), any_whitespace=self.flexible, strict_mode=not self.flexible
        )

    def start(self, grammar: Any) -> Any:
        return self.library.GrammarMatcher(grammar, terminate_without_stop_token=True)

    def step(self, matcher: Any, token: int) -> bool:
        matcher.fill_next_token_bitmask(self.mask)
        return bool(matcher.accept_token(token))

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept_token(token))

    def is_complete(self, matcher: Any) -> bool:
        return bool(matcher.is_terminated() or matcher.is_completed())

    def batch_filler(self, n_rows: int) -> Callable[[list[Any]], Any]:
        import os

        # By default it takes half of the machine's threads, which is one of two.
        batch = self.library.BatchGrammarMatcher(max_threads=os.cpu_count() or 1)
        mask = self.library.allocate_token_bitmask(n_rows, self.vocab_size)

        def fill(matchers: list[Any]) -> Any:
            batch.batch_fill_next_token_bitmask(matchers, mask)
            return mask

        return fill


class OutlinesCore(Engine):
    """It has no machine for schemas: it makes a regex of one and a whole index of that, where it can."""

    package = "outlines-core"

    def __init__(self, vocabulary: fsmc.Vocabulary, tokenizer: Path) -> None:
        import outlines_core
        from outlines_core.json_schema import build_regex_from_schema

        self.library, self.to_regex = outlines_core, build_regex_from_schema
        tokens: dict[bytes, list[int]] = {}
        for token in range(vocabulary.size):
            text = vocabulary.token(token)
            if text:
                tokens.setdefault(text, []).append(token)
        self.vocabulary = outlines_core.Vocabulary(vocabulary.eos_token_ids[0], tokens)

    def compile(self, schema: Any) -> Any:
        return self.library.Index(self.to_regex(json.dumps(schema)), self.vocabulary)

    def start(self, grammar: Any) -> Any:
        return self.library.Guide(grammar)

    def step(self, matcher: Any, token: int) -> bool:
        allowed = token in matcher.get_tokens()
        if allowed:
            matcher.advance(token)
        return allowed

    def accept(self, matcher: Any, token: int) -> bool:
        return self.step(matcher, token)

    def is_complete(self, matcher: Any) -> bool:
        return bool(matcher.is_finished())


ENGINES: dict[str, tuple[str, str, Callable[[fsmc.Vocabulary, Path], Engine]]] = {
    "fsmc": ("fsmc, schema order", "fsmc", Fsmc),
    "fsmc-any": ("fsmc, any order", "fsmc", lambda v, t: Fsmc(v, t, "any")),
    "llguidance": ("llguidance", "llguidance", LLGuidance),
    "xgrammar": ("XGrammar, flexible", "xgrammar", XGrammar),
    "xgrammar-strict": ("XGrammar, strict", "xgrammar", lambda v, t: XGrammar(v, t, flexible=False)),
    "outlines-core": ("outlines-core", "outlines_core", OutlinesCore),
}
"""By name: the title in tables, the module that must be there, and what makes the engine."""
