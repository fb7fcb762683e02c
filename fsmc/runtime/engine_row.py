"""One request while the engine writes it: its tokens, where its constraint stands, and what it took so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from fsmc.compiler.errors import BudgetExceeded, FsmcError, LimitExceeded, TokenRejected
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.bitmask import allocate_token_bitmask
from fsmc.runtime.jumps import Jumps
from fsmc.runtime.packed_model import KeyValueRow, Part
from fsmc.runtime.request import FinishReason, Response, Ticket
from fsmc.runtime.sampling import History, Sampled, TokenLogprobs
from fsmc.runtime.text_stream import TextStream

FIRST_DRAFT, LONGEST_DRAFT = 8, 64
"""Tokens of forced text that exact jumps put before the model in one pass."""


class Row:
    """A request from its submission to its response.

    Invariant: ``past`` holds keys and values of the first ``past.length`` tokens of ``sequence`` (prompt and output),
    behind them perhaps those of a draft, which count only until the draft is judged.
    """

    def __init__(self, ticket: Ticket, vocab: Vocabulary) -> None:
        self.ticket, self.request, self.vocab = ticket, ticket.request, vocab
        self.submitted, self.admitted = time.perf_counter(), 0.0
        self.sequence: list[int] = []
        self.n_prompt = 0
        self.past = KeyValueRow()
        self.stream = TextStream(self.request.on_text, self.request.stop or ())
        self.matcher: Any = None
        self.jumps: Jumps | None = None
        self.stop_token_ids: frozenset[int] = frozenset()
        self.max_new_tokens = self.request.max_new_tokens
        self.is_prefilled = False
        self.draft: list[int] = []
        self.draft_length = FIRST_DRAFT
        self.finish_reason: FinishReason | None = None
        self.error: Exception | None = None
        self.logprobs: list[tuple[int, TokenLogprobs]] = []
        self.forward_passes = self.sampled_tokens = self.jumped_tokens = self.retokenized_tokens = 0
        self.computed_tokens = self.shared_tokens = 0
        self.mask_seconds = self.jump_seconds = self.last_mask_seconds = 0.0
        self.last_n_masks = 0
        self.first_logit = self.n_logits = 0  # of this pass

    def open(
        self, prompt: Sequence[int], max_length: int | None, matcher: Any, jumps: Jumps | None, stops: Iterable[int]
    ) -> None:
        """Everything is there: the ids of the prompt, the model's context, the constraint.

        Raises LimitExceeded for a prompt that fills the context, BudgetExceeded for a budget that no text fits in.
        """
        self.sequence, self.n_prompt = list(prompt), len(prompt)
        self.matcher, self.jumps, self.stop_token_ids = matcher, jumps, frozenset(stops)
        if max_length is not None and self.max_new_tokens:
            if len(prompt) >= max_length:
                raise LimitExceeded("max_position_embeddings", max_length, len(prompt), "use a shorter prompt")
            self.max_new_tokens = min(self.max_new_tokens, max_length - len(prompt))
        if self.request.never_cut_off:
            if matcher is None:
                raise ValueError("never_cut_off needs a grammar: without one nothing says when a text is complete")
            row = allocate_token_bitmask(1, self.vocab.size)
            try:
                matcher.fill_next_token_bitmask(row, 0, self.max_new_tokens + 1)
            except BudgetExceeded as error:  # in the request's words: the end token needs no room of its own
                raise BudgetExceeded(self.max_new_tokens, error.needed - 1, "max_new_tokens", False) from None

    @property
    def n_output(self) -> int:
        return len(self.sequence) - self.n_prompt

    @property
    def history(self) -> History:
        ids = self.sequence
        return History(ids[: self.n_prompt], ids[self.n_prompt :], sorted(self.stop_token_ids))

    def prepare(self) -> None:
        """Take the text that is forced here. It may turn out that the model need not be asked any more."""
        if self.ticket.aborted:
            self.finish_reason = "abort"
            return
        began = time.perf_counter()
        self.draft = []
        if self.jumps is not None:
            if self.request.jump == "canonical":
                self._jump(self.jumps)
            if self.finish_reason is None and self.jumps.only_the_end_may_follow():
                self.finish_reason = "stop"
        if self.finish_reason is None and self.n_output >= self.max_new_tokens:
            self.finish_reason = "stop" if self.request.never_cut_off and self.matcher.is_completed() else "length"
        if self.finish_reason is None and self.jumps is not None and self.request.jump == "exact":
            self.draft = self.jumps.draft(min(self.max_new_tokens - self.n_output - 1, self.draft_length))
            self.draft_length = max(self.draft_length, 1)
        self.jump_seconds += time.perf_counter() - began

    def _jump(self, jumps: Jumps) -> None:
        """Append what the constraint forces; of the tokens that are cut afresh, keys and values are forgotten."""
        ids = self.sequence[self.n_prompt :]
        n_entries = self.matcher.rollback_limit
        jumped = jumps.jump(ids, self.max_new_tokens)
        if jumped is None:
            return
        room = self.max_new_tokens - len(jumped.ids) + 1
        # The tokenizer's spelling may be too long, or hold what ends this request's text: then the model spells it.
        if not self.stop_token_ids.isdisjoint(jumped.ids[jumped.kept :]) or (
            self.request.never_cut_off
            and not self.matcher.is_far_from(room)
            and self.matcher.num_tokens_to_complete() > room
        ):
            self.matcher.rollback(self.matcher.rollback_limit - n_entries)
            return
        self.sequence[self.n_prompt :] = jumped.ids
        self.past.length = min(self.past.length, self.n_prompt + jumped.kept)
        self.jumped_tokens += len(jumped.ids) - len(ids)
        self.retokenized_tokens += len(ids) - jumped.kept
        self.logprobs = [(place, logprobs) for place, logprobs in self.logprobs if place < jumped.kept]
        if self.stream.add(jumped.forced, forced=True):
            self.finish_reason = "stop"

    def part(self, room: int) -> Part:
        """What to bring to a pass that has room for so many tokens: all that is new, or a first piece of a long prompt."""
        new = self.sequence[self.past.length : self.past.length + room]
        if self.past.length + len(new) < len(self.sequence):
            self.draft = []
            return Part(self.past, new, 0)
        self.draft = self.draft[: room - len(new)]
        return Part(self.past, new + self.draft, 1 + len(self.draft))

    def fill_masks(self, mask: Any, first: int) -> None:
        """Write what is allowed next, and behind each drafted token, into rows of ``mask`` from ``first`` on."""
        began = time.thread_time()
        matcher = self.matcher.fork() if self.draft else self.matcher
        for i, drafted in enumerate([*self.draft, None]):
            room = self.max_new_tokens - self.n_output - i + 1  # the end token needs no room of its own
            matcher.fill_next_token_bitmask(mask, first + i, room if self.request.never_cut_off else None)
            self.last_n_masks += 1
            row = mask[first + i]
            if drafted is not None and row[drafted // 32] >> drafted % 32 & 1 and matcher.accept_token(drafted):
                continue
            if row.tobytes() == bytes(row.nbytes):  # a fifth of the time that numpy's any takes between two passes
                raise FsmcError(
                    f"after {self.stream.text[-40:]!r} the constraint goes on, but no token of the vocabulary does: "
                    "its tokens cannot spell every text (are single bytes or characters missing?)"
                )
            break  # what was drafted will not be chosen, so that nobody looks at the rows behind it
        self.last_mask_seconds = time.thread_time() - began
        self.mask_seconds += self.last_mask_seconds

    def take(self, sampled: Sampled | FsmcError, place: int) -> bool:
        """Append a chosen token; ``place`` counts those of this pass. Whether the next one of the draft is to be judged."""
        if isinstance(sampled, FsmcError):
            raise sampled
        token = sampled.token
        if self.matcher is not None and not self.matcher.accept_token(token):
            raise TokenRejected(f"token {token} was chosen, but the mask does not allow it")
        if token in self.stop_token_ids:
            self.finish_reason = "stop"
            return False
        if sampled.logprobs is not None:
            self.logprobs.append((self.n_output, sampled.logprobs))
        self.sequence.append(token)
        as_drafted = place < len(self.draft) and token == self.draft[place]
        if as_drafted:
            self.jumped_tokens += 1
        else:
            self.sampled_tokens += 1
        if self.stream.add(self.vocab.text(token), forced=as_drafted):
            self.finish_reason = "stop"
        return as_drafted and self.finish_reason is None

    def settle(self) -> None:
        """Forget what the pass computed beyond the tokens that hold, and always the last: it has yet to be read.

        A draft that held is followed by a longer one, one that did not by one as long as its good part: a model that spells
        forced text in its own way is not asked about the tokenizer's spelling over and over.
        """
        if self.draft and self.finish_reason is None:
            n_good = len(self.sequence) - 1 - (self.past.length - len(self.draft))
            self.draft_length = n_good if n_good < len(self.draft) else min(2 * self.draft_length, LONGEST_DRAFT)
        self.past.length = min(self.past.length, max(len(self.sequence) - 1, 0))

    def fail(self, error: BaseException) -> None:
        if not isinstance(error, Exception):  # CancelledError, say: a response tells it, and must not be one
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self.finish_reason, self.error = "error", error

    def respond(self) -> None:
        """Give the ticket its response."""
        try:
            self.stream.close()
        except BaseException as error:  # of the request's own on_text
            if self.error is None:
                self.fail(error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        finally:
            self._answer()

    def _answer(self) -> None:
        now = time.perf_counter()
        self.ticket.finish(
            Response(
                text=self.stream.text,
                token_ids=self.sequence[self.n_prompt :],
                finish_reason=self.finish_reason or "error",
                error=self.error,
                logprobs=self.logprobs,
                prompt_tokens=self.n_prompt,
                forward_passes=self.forward_passes,
                sampled_tokens=self.sampled_tokens,
                jumped_tokens=self.jumped_tokens,
                retokenized_tokens=self.retokenized_tokens,
                computed_tokens=self.computed_tokens,
                shared_tokens=self.shared_tokens,
                mask_seconds=self.mask_seconds,
                jump_seconds=self.jump_seconds,
                waiting_seconds=(self.admitted or now) - self.submitted,
                seconds=now - self.submitted,
            )
        )
