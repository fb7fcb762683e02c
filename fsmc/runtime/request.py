"""What is asked of the engine, what it answers, and the ticket in between; needs no torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, Protocol, runtime_checkable

from fsmc.compiler.grammar import CompiledGrammar
from fsmc.runtime.arguments import described, integer, items, shown, text, token_ids, within
from fsmc.runtime.jumps import Jump
from fsmc.runtime.sampling_params import SamplingParams
from fsmc.runtime.text_stream import OnText

FinishReason = Literal["stop", "length", "abort", "error"]


@runtime_checkable
class PendingGrammar(Protocol):
    """A grammar that may still be being compiled: what `GrammarManager.request` gives."""

    def poll(self) -> Any:
        """None, as long as it is not known; a `CompiledGrammar`; or an object whose ``message`` says why there is none."""

    def cancel(self) -> None:
        """It is not wanted any more. Where the object also has a method ``release``, which others that share it survive (their
        next poll asks for the grammar again), a request that is aborted calls that instead."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One text to write.

    prompt: text, encoded with the special tokens that the tokenizer puts around a text, or token ids (of a chat template,
    say). grammar: what the text must match: a `CompiledGrammar`, or what `GrammarManager.request` gave, whose
    compilation may still be under way; None leaves the model free. jump: see `generation`. stop: strings that end the text and are not
    part of it. stop_token_ids: ids that do, besides the EOS ids of vocabulary and model.
    never_cut_off: choose only tokens after which the text can still be completed within ``max_new_tokens``. thinking_end:
    the text or the token ids that end the model's thinking, where the constraint begins (see `ReasoningGate`). on_text: called with each new
    piece of text and whether it was forced, by the thread that runs the engine.

    None for stop or stop_token_ids is none. Raises TypeError or ValueError, naming the field, for what cannot be; whether model and
    vocabulary have the ids is looked at by `Engine.submit`.
    """

    prompt: str | Sequence[int]
    grammar: CompiledGrammar | PendingGrammar | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    jump: Jump = "canonical"
    max_new_tokens: int = 256
    stop: Sequence[str] | None = ()
    stop_token_ids: Sequence[int] | None = ()
    never_cut_off: bool = False
    thinking_end: str | Sequence[int] | None = None
    on_text: OnText | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.jump, str) or self.jump not in ("canonical", "exact", "off"):
            raise ValueError(f"jump={shown(self.jump)} must be 'canonical', 'exact' or 'off'")
        if not isinstance(self.sampling, SamplingParams):
            raise TypeError(f"sampling must be SamplingParams, not {type(self.sampling).__name__}")
        if not isinstance(self.grammar, (CompiledGrammar, PendingGrammar, NoneType)):
            raise TypeError(
                f"grammar must be a CompiledGrammar, what GrammarManager.request gives, or None, not {described(self.grammar)}"
            )
        if not isinstance(self.never_cut_off, bool):
            raise TypeError(f"never_cut_off must be True or False, not {described(self.never_cut_off)}")
        if self.on_text is not None and not callable(self.on_text):
            raise TypeError(
                f"on_text must be a function of (text, whether it was forced), not {described(self.on_text)}"
            )
        prompt, what = self.prompt, "text or a list of token ids"
        if prompt is None:
            raise TypeError(f"prompt must be {what}, not None")
        prompt = text("prompt", prompt) if isinstance(prompt, str) else token_ids("prompt", prompt, what)
        stop = items("stop", self.stop, "a list of strings")
        for i, end_text in enumerate(stop):
            if not isinstance(end_text, str):
                raise TypeError(f"stop[{i}] must be a string, not {described(end_text)}")
        end = self.thinking_end
        if end is not None:
            if not isinstance(end, bytes):
                end = text("thinking_end", end) if isinstance(end, str) else token_ids("thinking_end", end, what)
            if not len(end):
                raise ValueError("thinking_end is empty: give the text or the token ids that end the thinking, or None")
        for name, value in (
            ("prompt", prompt),
            ("max_new_tokens", integer("max_new_tokens", self.max_new_tokens, 0)),
            ("stop", stop),
            ("stop_token_ids", token_ids("stop_token_ids", self.stop_token_ids)),
            ("thinking_end", end),
        ):
            object.__setattr__(self, name, value)
        least = self.sampling.min_new_tokens
        if least and self.never_cut_off:
            raise ValueError(
                f"never_cut_off lets the text end in time, min_new_tokens={shown(least)} may not let it: give one of them"
            )

    def check_ids(self, n_model_ids: int | None, vocab_size: int) -> None:
        """ValueError for a token id that the model, or its vocabulary, does not have; naming where it stands."""
        if n_model_ids is not None and not isinstance(self.prompt, str):
            within("prompt", self.prompt, n_model_ids, "the model")
        within("stop_token_ids", self.stop_token_ids or (), vocab_size)
        if self.thinking_end is not None and not isinstance(self.thinking_end, (str, bytes)):
            within("thinking_end", self.thinking_end, vocab_size)
        self.sampling.check_ids(vocab_size)


@dataclass(frozen=True, slots=True)
class Response:
    """What was written for a request, and what it took.

    text, token_ids: without the prompt and the token that ended it. finish_reason: "stop" (an end token, nothing but one
    may follow, or a stop string), "length" (``max_new_tokens``, or the model's context), "abort", or "error": then
    ``error`` says what happened, and the text is what there was until then.
    logprobs: of each sampled token, its place among ``token_ids`` and its log-probabilities, if they were wanted; tokens
    that came with a jump have none.
    forward_passes: in which the request had a part. sampled_tokens + jumped_tokens = len(token_ids); retokenized_tokens:
    old tokens that jumps replaced. computed_tokens: that the model read for it, of the prompt and its own;
    shared_tokens: whose keys and values came from the prefix cache. seconds: from its submission to its end;
    waiting_seconds: of it, until it was admitted (compiling its grammar, and waiting for a place); mask_seconds,
    jump_seconds: for filling its masks, and for finding forced text and retokenizing.
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason = "error"
    error: Exception | None = None
    logprobs: list[tuple[int, Any]] = field(default_factory=list)
    prompt_tokens: int = 0
    forward_passes: int = 0
    sampled_tokens: int = 0
    jumped_tokens: int = 0
    retokenized_tokens: int = 0
    computed_tokens: int = 0
    shared_tokens: int = 0
    mask_seconds: float = 0.0
    jump_seconds: float = 0.0
    waiting_seconds: float = 0.0
    seconds: float = 0.0


class Ticket:
    """A request on its way: ask for its response, or abort it. Of use in any thread."""

    def __init__(self, request: Request, stepper: Callable[[], int | None] = lambda: None) -> None:
        self.request = request
        self.aborted = False
        self._stepper = stepper  # tells which thread steps the engine
        self._response: Response | None = None
        self._done = threading.Event()

    def abort(self) -> None:
        """End it at the engine's next step, with the text that there is. Nothing happens if it has ended."""
        self.aborted = True

    @property
    def response(self) -> Response | None:
        """The response, or None as long as there is none."""
        return self._response

    def result(self, timeout: float | None = None) -> Response:
        """Wait for the response, which another thread's steps bring about. Raises TimeoutError; RuntimeError in a function that a step
        calls, which would wait for itself."""
        if not self._done.is_set() and self._stepper() == threading.get_ident():
            raise RuntimeError(
                "a function that a step of the engine calls cannot wait for another request: look at `response`"
            )
        if not self._done.wait(timeout):
            raise TimeoutError(f"no response after {timeout} seconds")
        assert self._response is not None
        return self._response

    def finish(self, response: Response) -> None:
        """The engine's affair: only the first response counts."""
        if self._response is None:
            self._response = response
            self._done.set()
            self._stepper = lambda: None  # whoever keeps what was answered does not keep the engine
