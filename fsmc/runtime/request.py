"""What is asked of the engine, what it answers, and the ticket in between; needs no torch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from fsmc.runtime.jumps import Jump
from fsmc.runtime.sampling_params import SamplingParams
from fsmc.runtime.text_stream import OnText

if TYPE_CHECKING:
    from fsmc.compiler.grammar import CompiledGrammar

FinishReason = Literal["stop", "length", "abort", "error"]


@runtime_checkable
class PendingGrammar(Protocol):
    """A grammar that may still be being compiled: what `GrammarManager.request` gives."""

    def poll(self) -> Any:
        """None, as long as it is not known; a `CompiledGrammar`; or an object whose ``message`` says why there is none."""

    def cancel(self) -> None: ...


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

    Raises TypeError or ValueError for what cannot be.
    """

    prompt: str | Sequence[int]
    grammar: CompiledGrammar | PendingGrammar | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    jump: Jump = "canonical"
    max_new_tokens: int = 256
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    never_cut_off: bool = False
    thinking_end: str | Sequence[int] | None = None
    on_text: OnText | None = None

    def __post_init__(self) -> None:
        if self.jump not in ("canonical", "exact", "off"):
            raise ValueError(f"jump={self.jump!r} must be 'canonical', 'exact' or 'off'")
        if not isinstance(self.max_new_tokens, int) or self.max_new_tokens < 0:
            raise ValueError(f"max_new_tokens={self.max_new_tokens!r} must be an integer of at least 0")
        if not isinstance(self.sampling, SamplingParams):
            raise TypeError(f"sampling must be SamplingParams, not {type(self.sampling).__name__}")
        if isinstance(self.stop, str):
            raise TypeError("stop must be a list of strings, not one string")


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

    def __init__(self, request: Request) -> None:
        self.request = request
        self.aborted = False
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
        """Wait for the response, which another thread's steps bring about. Raises TimeoutError."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"no response after {timeout} seconds")
        assert self._response is not None
        return self._response

    def finish(self, response: Response) -> None:
        """The engine's affair: only the first response counts."""
        if self._response is None:
            self._response = response
            self._done.set()
