"""Constrained decoding of one sequence: mask, sample, accept, jump, retokenize, crop the cache, go on.

Jump-forward comes in two kinds (``jump=``):

"canonical"  What the constraint forces is appended as text, and the last tokens are cut afresh with it: the sampled
             token, the forced text and the corrected tokens are one forward pass. Fewest passes, and the tokens are
             those that the tokenizer would make. The text may differ from plain decoding, which, under a constraint,
             often spells a key letter by letter.
"exact"      The forced text's tokens are a draft: one forward pass gives the logits at each of them, each is chosen
             under its mask as if there were no draft, and the draft holds as far as the choices agree. The text of plain
             decoding, whatever the draft was (Leviathan et al., "Fast Inference from Transformers via Speculative
             Decoding", 2023, with the constraint as the draft model).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fsmc.compiler.errors import FsmcError, LimitExceeded, TokenRejected
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.retokenize import Retokenizer
from fsmc.runtime.arguments import token_ids, within
from fsmc.runtime.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from fsmc.runtime.cached_model import CachedModel
from fsmc.runtime.jumps import Jump, Jumps
from fsmc.runtime.matcher import GrammarMatcher
from fsmc.runtime.packed_model import n_ids_of
from fsmc.runtime.request import Request
from fsmc.runtime.sampling import Constrain, SamplingBatch
from fsmc.runtime.sampling_params import SamplingParams
from fsmc.runtime.text_stream import OnText, TextStream


@dataclass(frozen=True, slots=True)
class Generation:
    """What was generated, and what it took.

    text, token_ids: without the prompt and the EOS token. finish_reason: "stop" (EOS, nothing but EOS may follow, or a
    stop string) or "length" (``max_new_tokens`` or the model's context).
    forward_passes: of the model, the prompt's among them. sampled_tokens: chosen by the model. jumped_tokens: what
    jumps added to the number of tokens; sampled + jumped = len(token_ids). retokenized_tokens: old tokens that jumps
    replaced. seconds: of wall time, all in all; mask_seconds, jump_seconds: of it, for filling and applying masks, and
    for finding forced text and retokenizing.
    """

    text: str
    token_ids: list[int]
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    forward_passes: int
    sampled_tokens: int
    jumped_tokens: int
    retokenized_tokens: int
    mask_seconds: float
    jump_seconds: float
    seconds: float


def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int],
    grammar: CompiledGrammar | None = None,
    *,
    vocab: Vocabulary | None = None,
    jump: Jump = "canonical",
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int | None = None,
    stop: Sequence[str] = (),
    on_text: OnText | None = None,
) -> Generation:
    """Continue ``prompt`` under ``grammar``, greedily or by sampling, with jump-forward.

    model: a transformers causal language model. tokenizer: its tokenizer. prompt: text, encoded with the special tokens
    that the tokenizer puts around a text, or token ids (of a chat template, say). grammar: compiled for the tokenizer's
    vocabulary; None leaves the model free, and ``jump`` without effect. vocab: only without a grammar, to read the
    tokenizer once for many calls. temperature: 0 is greedy. top_p, seed: see `SamplingParams`. stop: strings that end the text
    and are not part of it. on_text: called with each new piece of text and whether it was forced; whole characters only.

    Raises ValueError for a prompt without tokens and for arguments out of range, LimitExceeded for a prompt that fills
    the model's context, FsmcError where the vocabulary has no token with which the constraint could go on.

    >>> import fsmc
    >>> from fsmc.runtime.toy_model import toy_model
    >>> model, tokenizer, vocab = toy_model()
    >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("the character is a (gardener|librarian).")
    >>> result = generate(model, tokenizer, "Who is it? ", grammar)
    >>> result.text[:19], result.finish_reason, result.forward_passes < len(result.token_ids)
    ('the character is a ', 'stop', True)
    """
    params = SamplingParams(temperature=temperature, top_p=top_p, seed=seed)
    asked = Request(prompt, grammar, params, jump, max_new_tokens, stop, on_text=on_text)  # which checks them
    vocab = grammar.vocab if grammar is not None else vocab or Vocabulary.from_huggingface(tokenizer)
    decoding: _Decoding
    ids = encode_prompt(tokenizer, asked.prompt, n_ids_of(model))
    session = (CachedModel(model), ids, vocab, asked.max_new_tokens)
    sampler, stream = SamplingBatch.of([params]), TextStream(on_text, asked.stop or ())
    if grammar is None:
        decoding = _Decoding(*session, sampler, stream)
    else:
        named = grammar.source if grammar.kind == "structural_tag" else ""
        retokenizer = Retokenizer.for_tokenizer(tokenizer, vocab, named)
        decoding = _ConstrainedDecoding(*session, sampler, stream, grammar, jump, retokenizer)
    return decoding.run()


class _Decoding:
    """One call of `generate` without a constraint: the tokens so far and the figures."""

    def __init__(
        self,
        model: CachedModel,
        prompt: list[int],
        vocab: Vocabulary,
        max_new_tokens: int,
        sampler: SamplingBatch,
        stream: TextStream,
    ) -> None:
        self.model, self.prompt, self.vocab, self.sampler, self.stream = model, prompt, vocab, sampler, stream
        self.max_new_tokens = max_new_tokens
        if model.max_length is not None and max_new_tokens:
            if len(prompt) >= model.max_length:
                raise LimitExceeded("max_position_embeddings", model.max_length, len(prompt), "use a shorter prompt")
            self.max_new_tokens = min(max_new_tokens, model.max_length - len(prompt))
        self.eos = frozenset(vocab.eos_token_ids) | eos_of(model.model)
        self.ids: list[int] = []
        self.stopped = False
        self.sampled_tokens = self.jumped_tokens = self.retokenized_tokens = 0
        self.mask_seconds = self.jump_seconds = 0.0

    def run(self) -> Generation:
        began = time.perf_counter()
        while not self.stopped and len(self.ids) < self.max_new_tokens:
            self._step()
        self.stopped = self.stopped or self._nothing_but_eos_may_follow()
        self.stream.close()
        return Generation(
            text=self.stream.text,
            token_ids=self.ids,
            finish_reason="stop" if self.stopped else "length",
            prompt_tokens=len(self.prompt),
            forward_passes=self.model.n_forward,
            sampled_tokens=self.sampled_tokens,
            jumped_tokens=self.jumped_tokens,
            retokenized_tokens=self.retokenized_tokens,
            mask_seconds=self.mask_seconds,
            jump_seconds=self.jump_seconds,
            seconds=time.perf_counter() - began,
        )

    def _step(self) -> None:
        self._sample([])

    def _nothing_but_eos_may_follow(self) -> bool:
        return False

    def _sample(self, draft: list[int]) -> None:
        """One forward pass: choose the next token behind each drafted one, as long as the choices are the draft."""
        rows = self.model.logits(self.prompt + self.ids + draft, 1 + len(draft))
        for row, drafted in zip(rows, [*draft, None], strict=True):
            token = self._choose(row)
            if token in self.eos:
                self.stopped = True
                return
            self.ids.append(token)
            if token == drafted:
                self.jumped_tokens += 1
            else:
                self.sampled_tokens += 1
            self.stopped = self.stream.add(self.vocab.text(token), forced=token == drafted)
            if self.stopped or token != drafted:
                return

    def _choose(self, logits: torch.Tensor) -> int:
        return self._pick(logits)

    def _pick(self, logits: torch.Tensor, constrain: Constrain | None = None) -> int:
        (sampled,) = self.sampler.sample(logits[None], constrain)
        if isinstance(sampled, FsmcError):
            raise sampled
        return sampled.token


class _ConstrainedDecoding(_Decoding):
    """One call of `generate` under a grammar: also where the constraint stands, and the forced text."""

    def __init__(
        self,
        model: CachedModel,
        prompt: list[int],
        vocab: Vocabulary,
        max_new_tokens: int,
        sampler: SamplingBatch,
        stream: TextStream,
        grammar: CompiledGrammar,
        jump: Jump,
        retokenizer: Retokenizer,
    ) -> None:
        super().__init__(model, prompt, vocab, max_new_tokens, sampler, stream)
        self.jump = jump
        self.matcher = GrammarMatcher(grammar, stop_token_ids=self.eos)
        self.jumps = Jumps(self.matcher, vocab, retokenizer, self.eos)
        self.mask = allocate_token_bitmask(1, vocab.size)

    def _step(self) -> None:
        if self.jump == "canonical":
            self._jump_forward()
        if self.stopped or self._nothing_but_eos_may_follow():
            self.stopped = True
        elif len(self.ids) < self.max_new_tokens:
            self._sample(self._draft() if self.jump == "exact" else [])

    def _choose(self, logits: torch.Tensor) -> int:
        """Mask, sample, accept."""
        began = time.perf_counter()
        self.matcher.fill_next_token_bitmask(self.mask)
        if not self.mask.any():
            raise FsmcError(
                f"after {self.stream.text[-40:]!r} the constraint goes on, but no token of the vocabulary does: "
                "its tokens cannot spell every text (are single bytes or characters missing?)"
            )
        self.mask_seconds += time.perf_counter() - began
        token = self._pick(logits, self._constrain)
        if not self.matcher.accept_token(token):
            raise TokenRejected(f"token {token} was chosen, but the mask does not allow it: are the logits NaN?")
        return token

    def _constrain(self, logits: torch.Tensor) -> None:
        began = time.perf_counter()
        apply_token_bitmask_inplace(logits, self.mask)
        self.mask_seconds += time.perf_counter() - began

    def _nothing_but_eos_may_follow(self) -> bool:
        return self.jumps.only_the_end_may_follow()

    def _draft(self) -> list[int]:
        """The tokens of the forced text, behind those that there are; as many as there is room for."""
        began = time.perf_counter()
        draft = self.jumps.draft(self.max_new_tokens - len(self.ids) - 1)
        self.jump_seconds += time.perf_counter() - began
        return draft

    def _jump_forward(self) -> None:
        """Append what the constraint forces, and cut the last tokens afresh."""
        began = time.perf_counter()
        jumped = self.jumps.jump(self.ids, self.max_new_tokens)
        if jumped is not None:
            self.jumped_tokens += len(jumped.ids) - len(self.ids)
            self.retokenized_tokens += len(self.ids) - jumped.kept
            self.ids = jumped.ids
            self.stopped = self.stream.add(jumped.forced, forced=True)
        self.jump_seconds += time.perf_counter() - began


def encode_prompt(tokenizer: Any, prompt: str | Sequence[int], n_ids: int | None = None) -> list[int]:
    """The ids of a prompt for a model that knows so many. TypeError or ValueError for what are none, and for no tokens at all."""
    if isinstance(prompt, str):
        encoded = tokenizer.encode(prompt)
        prompt = getattr(encoded, "ids", encoded)
    ids = token_ids("prompt", prompt, "text or a list of token ids")
    if n_ids is not None:
        within("prompt", ids, n_ids, "the model")
    if not ids:
        raise ValueError("the prompt has no tokens: a model needs at least one to begin with (its BOS token, say)")
    return list(ids)


def eos_of(model: Any) -> frozenset[int]:
    """The ids at which the model's own ``generate`` stops."""
    eos = model.generation_config.eos_token_id
    return frozenset() if eos is None else frozenset([eos] if isinstance(eos, int) else eos)
