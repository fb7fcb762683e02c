"""fsmc as a structured-output backend of vLLM: ``--structured-outputs-config '{"backend": "fsmc"}'``; see `vllm_plugin`.

vLLM checks a request in its front end and compiles it in the engine, where it asks for masks row by row, validates drafts without moving,
and rolls back what it tried. Written against vLLM 0.32 and 0.33.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from fsmc.compiler.errors import ConstraintError, FsmcError
from fsmc.compiler.inputs import read_constraint
from fsmc.runtime.adapters.serving import compiled, engine_manager
from fsmc.runtime.grammar_workers import InvalidGrammar
from fsmc.runtime.manager import GrammarManager
from fsmc.runtime.matcher import GrammarMatcher

_LAYOUT_MARK = "$fsmc"
"""A schema or tag whose request says something of white space travels as ``{"$fsmc": {"disable_any_whitespace": true}, "of": ...}``: the
engine is handed nothing but a text."""


@dataclass
class FsmcGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # vLLM's types are not installed
    """One request under a grammar."""

    matcher: GrammarMatcher = field(repr=False)
    vocab_size: int

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Take tokens; those after the end do not count. False at the first that is not allowed, with those before it taken."""
        for token in tokens:
            if self.matcher.is_terminated():
                break
            if not self.matcher.accept_token(token):
                _log().error("request %s: %s", request_id, self.matcher.rejection(token))
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The prefix that could be taken, up to the end of the text; nothing moves."""
        probe, n = self.matcher.fork(), 0
        while n < len(tokens) and not probe.is_terminated() and probe.accept_token(tokens[n]):
            n += 1
        return tokens[:n]

    def rollback(self, num_tokens: int) -> None:
        self.matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        self.matcher.fill_next_token_bitmask(bitmask, batch_index)

    def is_terminated(self) -> bool:
        return self.matcher.is_terminated()

    def reset(self) -> None:
        self.matcher.reset()


@dataclass
class FsmcBackend(StructuredOutputBackend):  # type: ignore[misc]
    """Compiles what requests ask for; vLLM calls from threads of its own."""

    def __post_init__(self) -> None:
        self.manager = engine_manager(self.tokenizer, self.vocab_size, None, warm=True)

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: Iterable[int] | None = None,
    ) -> FsmcGrammar:
        """A request's grammar. stop_token_ids: what ends its text (None: the vocabulary's end tokens). Raises ValueError with our
        message; what is wrong was told in the front end, unless only the machine shows it (no text is possible, a limit)."""
        kind, source = _wanted(request_type, grammar_spec)
        if kind == "constraint":
            source = _with_config(source, self.vllm_config)
        outcome = compiled(self.manager, kind, source)
        if isinstance(outcome, InvalidGrammar):
            raise ValueError(outcome.message)
        known = [token for token in stop_token_ids or () if 0 <= token < self.vocab_size]
        return FsmcGrammar(GrammarMatcher(outcome, known or None), self.vocab_size)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """int32[max_num_seqs, ceil(vocab_size / 32)], everything allowed."""
        pinned = torch.cuda.is_available()
        return torch.full((max_num_seqs, -(-self.vocab_size // 32)), -1, dtype=torch.int32, pin_memory=pinned)

    def destroy(self) -> None:
        self.manager.close()


def _wanted(request_type: StructuredOutputOptions, spec: str) -> tuple[str, Any]:
    """The kind of constraint and what it is compiled from; what has JSON in it goes with its options, as "constraint"."""
    name = request_type.name
    if name in ("JSON", "STRUCTURAL_TAG"):
        return "constraint", _with_options(name.lower(), spec)
    if name == "JSON_OBJECT":
        return "constraint", {"json": '{"type": "object"}'}
    if name == "CHOICE":
        return "choice", json.loads(spec)
    kinds = {"REGEX": "regex", "GRAMMAR": "grammar"}
    if name not in kinds:
        raise ValueError(f"structured outputs of the kind {name} are not known to fsmc")
    return kinds[name], spec


def _with_options(name: str, text: str) -> dict[str, Any]:
    """What a request asks for, ``{"json": schema, "whitespace_pattern": ...}``, with the options that travelled inside its text."""
    if isinstance(text, str) and text.startswith(f'{{"{_LAYOUT_MARK}"'):
        wrapped = json.loads(text)
        if set(wrapped) == {_LAYOUT_MARK, "of"} and isinstance(wrapped[_LAYOUT_MARK], dict):
            return {name: wrapped["of"], **wrapped[_LAYOUT_MARK]}
    return {name: text}


def _with_config(request: dict[str, Any], vllm_config: Any) -> dict[str, Any]:
    """The engine's own settings, where the request does not say otherwise."""
    config = vllm_config.structured_outputs_config
    if config.disable_any_whitespace:
        request = {"disable_any_whitespace": True, **request}
    if config.disable_additional_properties and "json" in request:
        request = {"disable_additional_properties": True, **request}
    return {"structured_outputs": request}


def validate(structured_outputs: Any, manager: GrammarManager) -> None:
    """Check a request in the front end, in milliseconds: FsmcError with the place for what would be refused.

    What a request says of white space and of further members is put where the engine will find it.
    """
    asked = {
        name: value
        for name in ("json", "regex", "choice", "grammar", "json_object", "structural_tag", *_OPTIONS)
        if (value := getattr(structured_outputs, name, None)) not in (None, False)
    }
    for name in ("json", "structural_tag"):  # parameters that are used again
        if name in asked:
            asked.update(_with_options(name, asked[name]))
    constraint = read_constraint({"structured_outputs": asked})
    outcome = manager.validate("constraint", {"structured_outputs": asked})
    if outcome is not None:
        raise outcome.error if isinstance(outcome.error, FsmcError) else ConstraintError(outcome.message)
    options = {name: asked[name] for name in _OPTIONS if name in asked}
    if options and constraint.kind in ("json_schema", "structural_tag"):
        name = "structural_tag" if constraint.kind == "structural_tag" else "json"
        given = asked.get(name, {"type": "object"})
        given = json.loads(given) if isinstance(given, str) else given
        setattr(structured_outputs, name, json.dumps({_LAYOUT_MARK: options, "of": given}))
        structured_outputs.json_object = None
        for option in _OPTIONS:
            setattr(structured_outputs, option, None if option == "whitespace_pattern" else False)


_OPTIONS = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")


def _log() -> Any:
    from vllm.logger import init_logger

    return init_logger("fsmc")
