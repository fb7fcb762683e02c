"""A small engine: many requests at once, each with a constraint of its own or none, in packed passes of one model.

It is what a serving engine does around the masks, in the open: continuous batching (a request joins and leaves between
any two passes), jump-forward, a prefix cache, masks that are filled while the model computes, and failures that stay with
the request that has them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, ref

import torch

from fsmc.compiler.errors import FsmcError
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.retokenize import Retokenizer
from fsmc.runtime.arguments import described, integer
from fsmc.runtime.bitmask import allocate_token_bitmask
from fsmc.runtime.choosing import choose_tokens
from fsmc.runtime.engine_row import Row
from fsmc.runtime.generation import encode_prompt, eos_of
from fsmc.runtime.jumps import Jumps
from fsmc.runtime.mask_thread import MaskThread
from fsmc.runtime.matcher import GrammarMatcher
from fsmc.runtime.packed_model import PackedModel, Part
from fsmc.runtime.prefix_cache import PrefixCache, common_prefix_length
from fsmc.runtime.python_end import ends_with_python
from fsmc.runtime.reasoning import ReasoningGate
from fsmc.runtime.request import PendingGrammar, Request, Response, Ticket
from fsmc.runtime.sampling import SamplingBatch
from fsmc.runtime.stepping_thread import IDLE_SECONDS, SteppingThread
from fsmc.runtime.whole_index import with_index

T = TypeVar("T")

WORTH_WAITING_FOR = 4
"""A request waits one pass for another that is just reading the same beginning, if that spares it so many tokens."""

_NOT_FROM_A_STEP = "a function of a request, called by a step, may submit and abort; it can neither step nor run"


class Step(NamedTuple):
    """One pass: how many rows, tokens and masks (a row has one, and one more for each drafted token) it had, and where the
    time went. mask_seconds: for filling masks and applying them, of the threads that did it; waiting_seconds: until the
    masks were there, after the model was done."""

    n_rows: int
    n_tokens: int
    n_masks: int
    seconds: float
    forward_seconds: float
    waiting_seconds: float
    mask_seconds: float


class Engine:
    """Runs a transformers causal model for any number of requests.

    tokenizer: the model's; vocab: its vocabulary at the model's width (None: read from the tokenizer). max_batch_size:
    requests that run at the same time; max_tokens_per_pass: what they bring to one pass together, so that long prompts are
    read in pieces; prefix_cache_bytes: of keys and values that requests share. on_step: called with each `Step`.

    `submit` and `Ticket.abort` may be called from any thread, also by a request's own functions. One thread steps at a time: whoever
    calls `run`, or the one that `start` makes. Nothing that a request carries is another's affair: what is wrong with it, or
    goes wrong with it, ends that request, with an error of its own.

    >>> import fsmc
    >>> from fsmc.runtime.toy_model import toy_model
    >>> model, tokenizer, vocab = toy_model()
    >>> compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    >>> engine = Engine(model, tokenizer, vocab)
    >>> names = [f"the (gardener|librarian) {i} is here" for i in range(3)]
    >>> responses = engine.run([Request("Who? ", compiler.compile_regex(name)) for name in names])
    >>> [response.text[-9:] for response in responses], responses[0].finish_reason
    (['0 is here', '1 is here', '2 is here'], 'stop')
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        vocab: Vocabulary | None = None,
        *,
        max_batch_size: int = 8,
        max_tokens_per_pass: int = 2048,
        prefix_cache_bytes: int = 1 << 28,
        on_step: Callable[[Step], None] | None = None,
    ) -> None:
        self.max_batch_size = integer("max_batch_size", max_batch_size, 1)
        self.max_tokens_per_pass = integer("max_tokens_per_pass", max_tokens_per_pass, 1)
        if vocab is not None and not isinstance(vocab, Vocabulary):
            raise TypeError(f"vocab must be a Vocabulary, not {described(vocab)}")
        if on_step is not None and not callable(on_step):
            raise TypeError(f"on_step must be a function of a Step, not {described(on_step)}")
        self.vocab = vocab if vocab is not None else Vocabulary.from_huggingface(tokenizer)
        self.model, self.tokenizer = PackedModel(model), tokenizer
        self.prefixes = PrefixCache(integer("prefix_cache_bytes", prefix_cache_bytes, 0))
        self.on_step = on_step
        self._eos = frozenset(self.vocab.eos_token_ids) | frozenset(t for t in eos_of(model) if t < self.vocab.size)
        self._retokenizers: WeakKeyDictionary[CompiledGrammar, Retokenizer] = WeakKeyDictionary()
        self._mask_thread = MaskThread()
        self._mask = allocate_token_bitmask(self.max_batch_size, self.vocab.size)
        self._waiting: list[Row] = []
        self._running: list[Row] = []
        self._sampling = SamplingBatch.of([])  # row by row what runs
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._step_lock = threading.Lock()
        self._stepper: int | None = None  # the thread that steps
        ends_with_python(self)

    # --------------------------------------------------------------------------------------------------- for callers

    def submit(self, request: Request) -> Ticket:
        """Put a request in the queue. Whatever may be wrong with it is told by its response, which is there at once for ids that
        the model or the vocabulary do not have. Raises TypeError for what is no `Request`, RuntimeError after `close`."""
        if not isinstance(request, Request):
            raise TypeError(f"the engine answers a Request, not {described(request)}")
        row = Row(Ticket(request, lambda: self._stepper), self.vocab)
        self._guarded(row, request.check_ids, self.model.n_ids, self.vocab.size)
        with self._news:
            if self._closing:
                raise RuntimeError("the engine is closed")
            if row.finish_reason is None:
                self._waiting.append(row)
                self._news.notify()
        if row.finish_reason is not None:
            row.respond()
        return row.ticket

    def run(
        self, requests: Iterable[Request], on_done: Callable[[int, Response], None] | None = None
    ) -> list[Response]:
        """Answer all these requests; the responses in their order. on_done: called with (place, response) as each ends.

        Raises what `submit` does, and what ``on_done`` raises; the requests that are not done then are aborted.
        """
        if self._stepper == threading.get_ident():
            raise RuntimeError(_NOT_FROM_A_STEP)
        tickets: list[Ticket] = []
        try:
            tickets += map(self.submit, requests)
            open_tickets = dict(enumerate(tickets))
            while open_tickets:
                for place, ticket in list(open_tickets.items()):
                    if ticket.response is not None:
                        del open_tickets[place]
                        if on_done is not None:
                            on_done(place, ticket.response)
                if not open_tickets:
                    break
                if self._thread is not None:
                    next(iter(open_tickets.values())).result()
                elif not self.step():
                    time.sleep(IDLE_SECONDS)
        except BaseException:
            for ticket in tickets:
                ticket.abort()
            raise
        return [ticket.result() for ticket in tickets]

    def start(self) -> Engine:
        """Step in a thread of its own from now on, until `close`, or until everything is answered and nobody holds the engine."""
        if self._thread is None:
            self._thread = SteppingThread(ref(self), self._news)
            ends_with_python(self._thread)
            self._thread.start()
        return self

    def close(self) -> None:
        """Abort what there is, and end the threads. From a function of a request, which a step calls: after that step."""
        self.begin_to_end()
        if self._stepper == threading.get_ident():
            return  # whoever steps answers what was aborted
        if self._thread is not None:
            self._thread.join()
        self.step()  # which answers what was aborted, and computes nothing
        self._mask_thread.close()

    def begin_to_end(self) -> None:
        """Take no more requests, and abort what there is at the next step."""
        with self._news:
            self._closing = True
            for row in [*self._running, *self._waiting]:
                row.ticket.abort()
            self._news.notify()

    def wait_to_end(self, until: float) -> None:
        """Python ends: wait for the step that is under way, whosever thread it is in; there will be no other."""
        if self._stepper != threading.get_ident():
            self._step_lock.acquire(timeout=max(until - time.monotonic(), 0))

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------------- one step

    def step(self) -> bool:
        """One pass of the model for all that run; False if there was nothing to compute (grammars may be compiling)."""
        if self._stepper == threading.get_ident():
            raise RuntimeError(_NOT_FROM_A_STEP)
        with self._step_lock:
            self._stepper = threading.get_ident()
            try:
                return self._step()
            finally:
                self._stepper = None

    def _step(self) -> bool:
        began = time.perf_counter()
        self._admit()
        for row in self._running:
            self._guarded(row, row.prepare)
            self._guarded(row, self._share_prefix, row)
        self._retire()
        rows = list(self._running)
        if not rows:
            return False
        parts = self._parts(rows)
        masks = self._mask_thread.start(lambda: self._fill_masks(rows))
        logits, forward_seconds = _timed(self._forward, rows, parts)
        _, waiting_seconds = _timed(masks.wait)
        self._keep_prefixes(rows)
        apply_seconds = choose_tokens(rows, logits, self._mask, self._sampling_of, self._guarded)
        self._retire()
        if self.on_step is not None:
            n_tokens = sum(len(part.ids) for part in parts)
            mask_seconds = sum(row.last_mask_seconds for row in rows) + apply_seconds
            seconds = time.perf_counter() - began
            n_masks = sum(row.last_n_masks for row in rows)
            self.on_step(Step(len(rows), n_tokens, n_masks, seconds, forward_seconds, waiting_seconds, mask_seconds))
        return True

    def _admit(self) -> None:
        """Let in what is ready, as many as there are places; what is not does not hold up those behind it."""
        with self._news:
            waiting = list(self._waiting)
        try:
            for row in waiting:
                if row.ticket.aborted:
                    row.finish_reason = "abort"
                    self._guarded(row, self._give_up, row, waiting)
                elif len(self._running) < self.max_batch_size and self._guarded(row, self._is_ready, row):
                    self._guarded(row, self._join, row)
                if row.finish_reason is not None:
                    row.respond()
        finally:  # also when a function of a request ends the program: who goes on stepping must not let in one twice
            with self._news:
                running = set(self._running)
                self._waiting = [row for row in self._waiting if row.finish_reason is None and row not in running]

    def _join(self, row: Row) -> None:
        sampling = self._sampling.merge(SamplingBatch.of([row.request.sampling]))
        row.admitted = time.perf_counter()
        self._running.append(row)
        self._sampling = sampling

    def _give_up(self, row: Row, waiting: Sequence[Row]) -> None:
        """Its grammar need not be compiled any more, on its account."""
        grammar = row.request.grammar
        if not isinstance(grammar, PendingGrammar):
            return
        if not any(other.request.grammar is grammar for other in waiting if not other.ticket.aborted):
            getattr(grammar, "release", grammar.cancel)()

    def _is_ready(self, row: Row) -> bool:
        """Whether its grammar is there, and nobody is just reading the same prompt, which it can then share."""
        if not row.n_prompt:
            grammar = row.request.grammar
            if grammar is not None and not isinstance(grammar, CompiledGrammar):
                outcome = grammar.poll()
                if outcome is None:
                    return False
                if not isinstance(outcome, CompiledGrammar):
                    why = getattr(outcome, "message", None) or f"the grammar's poll gave {described(outcome)}"
                    raise FsmcError(why) from getattr(outcome, "error", None)
                grammar = outcome
            self._open(row, grammar)
        known = self.prefixes.match_length(row.sequence)
        return all(
            other.is_prefilled or common_prefix_length(row.sequence, other.sequence) < known + WORTH_WAITING_FOR
            for other in self._running
        )

    def _open(self, row: Row, grammar: CompiledGrammar | None) -> None:
        stops = self._eos | frozenset(row.request.stop_token_ids or ())
        matcher: GrammarMatcher | ReasoningGate | None = None
        jumps = None
        if grammar is not None:
            if grammar.vocab.size != self.vocab.size:
                raise ValueError(f"a grammar for {grammar.vocab.size} tokens; this model's has {self.vocab.size}")
            if not self.vocab.has_tokens_of(grammar.vocab):
                raise ValueError("a grammar for other tokens than this model's: compile it for this engine's vocab")
            matcher = GrammarMatcher(with_index(grammar), stop_token_ids=stops)
            if row.request.thinking_end is not None:
                matcher = ReasoningGate(matcher, row.request.thinking_end)
            retokenizer = self._retokenizers.get(grammar)
            if retokenizer is None:
                named = grammar.source if grammar.kind == "structural_tag" else ""
                retokenizer = Retokenizer.for_tokenizer(self.tokenizer, grammar.vocab, named)
                self._retokenizers[grammar] = retokenizer
            row.vocab = grammar.vocab  # which has the special tokens that the grammar names
            jumps = Jumps(matcher, grammar.vocab, retokenizer, stops)
        prompt = encode_prompt(self.tokenizer, row.request.prompt, self.model.n_ids)
        row.open(prompt, self.model.max_length, matcher, jumps, stops)

    def _share_prefix(self, row: Row) -> None:
        """Copy what others have read of the same text: of the prompt at first, after a jump perhaps of more."""
        if row.finish_reason is None:
            row.shared_tokens += self.prefixes.extend(row.past, row.sequence)

    def _parts(self, rows: Sequence[Row]) -> list[Part]:
        """What each row brings to the pass: at least one token, and no more together than the pass may have."""
        parts: list[Part] = []
        room = self.max_tokens_per_pass - len(rows)
        n_logits = 0
        for row in rows:
            part = row.part(1 + max(room, 0))
            room -= len(part.ids) - 1
            row.first_logit, row.n_logits = n_logits, part.n_logits
            row.computed_tokens += len(part.ids)
            row.forward_passes += 1
            n_logits += part.n_logits
            parts.append(part)
        if n_logits > len(self._mask):
            self._mask = allocate_token_bitmask(n_logits, self.vocab.size)
        return parts

    def _fill_masks(self, rows: Sequence[Row]) -> None:
        """In the other thread: the masks of every row whose logits this pass gives."""
        for row in rows:
            row.last_mask_seconds, row.last_n_masks = 0.0, 0
            if row.matcher is not None and row.n_logits:
                self._guarded(row, row.fill_masks, self._mask, row.first_logit)

    def _forward(self, rows: Sequence[Row], parts: Sequence[Part]) -> torch.Tensor | None:
        """The logits wanted. A pass that fails (out of memory, say) is tried again row by row, and who fails alone ends."""
        try:
            return self.model.forward(parts)
        except Exception as error:
            if len(rows) == 1:
                rows[0].fail(error)
                return None
        alone = [self._guarded(row, self.model.forward, [part]) for row, part in zip(rows, parts, strict=True)]
        like = next((logits for logits in alone if logits is not None), None)
        if like is None:
            return None
        return torch.cat(
            [
                logits if logits is not None else like.new_zeros(part.n_logits, like.shape[1])
                for logits, part in zip(alone, parts, strict=True)
            ]
        )

    def _keep_prefixes(self, rows: Sequence[Row]) -> None:
        """What has just been read to the end of its prompt is there for others from now on."""
        for row in rows:
            if not row.is_prefilled and row.past.length >= row.n_prompt:
                row.is_prefilled = True
                self._guarded(row, self.prefixes.insert, row.sequence[: row.past.length], row.past)

    def _sampling_of(self, rows: Sequence[Row]) -> SamplingBatch:
        """The options of some of those that run."""
        if rows == self._running:
            return self._sampling
        return self._sampling.filter([self._running.index(row) for row in rows])

    def _retire(self) -> None:
        """Answer what has ended; the others move up."""
        if all(row.finish_reason is None for row in self._running):
            return
        for row in self._running:
            if row.finish_reason is not None:
                if row.error is None and row.past.length:
                    self._guarded(row, self.prefixes.insert, row.sequence[: row.past.length], row.past)
                row.respond()
        staying = [i for i, row in enumerate(self._running) if row.finish_reason is None]
        self._sampling = self._sampling.filter(staying)
        self._running = [self._running[i] for i in staying]

    def _guarded(self, row: Row, function: Callable[..., T], *arguments: Any) -> T | None:
        """Call something for one row; what it raises ends that row, and nothing else."""
        try:
            return function(*arguments)
        except (KeyboardInterrupt, SystemExit):  # which mean this thread
            raise
        except BaseException as error:  # CancelledError, say, out of a function of the request
            row.fail(error)
            return None

    def _end(self, closed: bool) -> None:
        """Its thread ends: nobody must wait for ever."""
        with self._news:
            self._closing = True
            rows = [*self._running, *self._waiting]
            self._running, self._waiting, self._sampling = [], [], SamplingBatch.of([])
        for row in rows:
            if row.finish_reason is None:
                if closed:
                    row.finish_reason = "abort"
                    self._guarded(row, self._give_up, row, [])
                else:
                    row.fail(RuntimeError("the engine ended before this request"))
            row.respond()
        self._mask_thread.close()


def _timed(function: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    began = time.perf_counter()
    return function(*arguments), time.perf_counter() - began
