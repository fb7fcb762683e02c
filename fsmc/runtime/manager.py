"""The grammars of a server: compiled in background threads, once for all requests that want the same, kept within bounds."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fsmc.compiler.errors import FsmcError, LimitExceeded
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.lazy_masks import LazyMasks
from fsmc.jit import working_seconds
from fsmc.runtime.grammar_workers import CompileThreads, InvalidGrammar, Job, Outcome
from fsmc.runtime.whole_index import MAX_INDEX_STATES, with_index

DEFAULT_TIMEOUT = 60.0
VALIDATION_SECONDS = 0.05
_ENTRY_BYTES = 2_000
_MEASURE_SECONDS, _MEASURE_SHARE = 0.5, 0.02
"""After so long a request has all that is kept measured again, as grammars grow while texts walk through them; later where it would take a larger
share of the time."""
_LABEL = 60


class PendingGrammar:
    """A grammar that was asked for: `poll` costs nothing and never waits, `wait` does."""

    __slots__ = ("_ask", "_deadline", "_job", "_lock", "_manager", "_outcome", "_released", "_timeout")

    def __init__(self, manager: GrammarManager, ask: Callable[[], Job], timeout: float) -> None:
        self._manager, self._ask, self._timeout = manager, ask, timeout
        self._job = job = ask()
        self._lock = threading.RLock()  # several threads may poll, and only one of them may give it up
        self._released = False
        self._deadline = working_seconds() + timeout
        self._outcome: Outcome | None = job.outcome

    def __repr__(self) -> str:
        return f"<PendingGrammar: {self._job.kind} {self._job.label}: {self._outcome or 'not ready'}>"

    def poll(self) -> Outcome | None:
        """The grammar, or the `InvalidGrammar` that says why there is none; None as long as it is not known."""
        return self._outcome or self._look()

    def _look(self) -> Outcome | None:
        with self._lock:
            if self._outcome is not None:
                return self._outcome
            if self._released:
                self._released, given_up = False, self._job
                self._job = self._ask()
                if self._job is not given_up:
                    self._deadline = working_seconds() + self._timeout
            job = self._job
            if job.outcome is None and job.thread is not None and not job.thread.is_alive():
                self._manager.look_after()
            self._outcome = job.outcome
            if self._outcome is None and working_seconds() >= self._deadline:
                text = (
                    f"compiling this constraint took more than {self._timeout:g} seconds: simplify it, or raise timeout"
                )
                self._give_up(InvalidGrammar(text, "timeout"))
            return self._outcome

    def wait(self, seconds: float | None = None) -> Outcome | None:
        """The same, after at most so many seconds (None: until it is known, which is no later than the request's timeout)."""
        until = None if seconds is None else time.monotonic() + seconds
        while (outcome := self.poll()) is None:
            left = self._deadline - working_seconds()
            if until is not None:
                left = min(left, until - time.monotonic())
                if time.monotonic() >= until:
                    return None
            self._job.done.wait(min(max(left, 0), 0.5))  # at times it is looked whether the thread still lives
        return outcome

    def cancel(self) -> None:
        """Give it up: others that wait for the same are not affected, and a compilation that nobody waits for does not begin."""
        with self._lock:
            if self.poll() is None:
                self._give_up(InvalidGrammar("the request was cancelled", "cancelled"))

    def release(self) -> None:
        """The same as `cancel` as long as nobody polls: the next poll, of another who shares this object, asks for the grammar again."""
        with self._lock:
            if not self._released and self.poll() is None:
                self._released = True
                self._manager.leave(self._job)

    def _give_up(self, outcome: InvalidGrammar) -> None:
        self._outcome = outcome
        self._manager.leave(self._job)


@dataclass(frozen=True)
class GrammarStats:
    """One grammar that a manager keeps: of what kind, from what, how long that took, how often it was asked for again; states
    and masks so far, bytes in memory; whether the disk cache had it; the message if there is none."""

    kind: str
    source: str
    compile_seconds: float
    hits: int
    n_states: int
    n_masks: int
    nbytes: int
    from_cache: bool
    error: str | None


class GrammarManager:
    """Compiles constraints in background threads. Safe to use from any thread.

    compiler: for the vocabulary, with its options; its disk cache lies below what is kept in memory. max_workers: threads
    (default: half of the processors). max_bytes: of the grammars kept in memory, with the states and masks that they have come
    to have; beyond it those that were asked for longest ago are dropped. That is looked at when a request comes, every half a second or less
    often, and whenever `nbytes` or `stats` is asked: between two looks grammars may grow beyond it. timeout: seconds after which a request is given up, without those of compiling kernels.
    max_waiting: compilations that may wait for a thread; more are refused at once. max_index_states: machines without calls (patterns,
    choices) of at most so many states get the masks of all of them at once; 0: none does.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    >>> with GrammarManager(fsmc.GrammarCompiler(vocab, cache_dir=None)) as manager:
    ...     first, second = manager.request("regex", "a*b"), manager.request("regex", "a*b")
    ...     first.wait() is second.wait(), manager.stats()[0].hits, manager.validate("regex", "a{2,1}").reason
    (True, 1, 'refused')
    """

    def __init__(
        self,
        compiler: GrammarCompiler,
        *,
        max_workers: int | None = None,
        max_bytes: int = 1 << 30,
        timeout: float = DEFAULT_TIMEOUT,
        max_waiting: int = 10_000,
        max_index_states: int = MAX_INDEX_STATES,
    ) -> None:
        if not hasattr(compiler, "compile_regex"):
            raise TypeError(f"compiler must be a GrammarCompiler, not {type(compiler).__name__}")
        _check_number("max_workers", 1 if max_workers is None else max_workers, 1)
        _check_number("max_bytes", max_bytes, 0)
        _check_number("max_waiting", max_waiting, 0)
        _check_number("max_index_states", max_index_states, 0)
        _check_number("timeout", timeout, 0, is_whole=False)
        self.compiler, self.max_bytes, self.timeout, self.max_waiting = compiler, max_bytes, timeout, max_waiting
        self.max_index_states = max_index_states
        self.n_requests = self.n_compilations = self.n_evictions = 0
        self._threads = CompileThreads(max_workers, self._keep)
        self._lock = threading.Lock()
        self._jobs: OrderedDict[Hashable, Job] = OrderedDict()  # also those that run; those asked for last at the end
        self._sizes: dict[Hashable, int] = {}  # of what is kept, as last measured
        self._total = 0
        self._measure_again = time.monotonic() + _MEASURE_SECONDS

    def __enter__(self) -> GrammarManager:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads; requests that wait get an `InvalidGrammar`. Grammars that were made stay usable."""
        self._threads.close()

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def request(self, kind: str, source: Any, *, timeout: float | None = None, **options: Any) -> PendingGrammar:
        """Ask for a grammar; returns at once, and raises nothing for what is wrong with the constraint.

        kind: "regex", "json_schema", "choice" … : what the compiler has a ``compile_…`` for. source, options: what that takes. One that
        is ready, or being compiled for somebody else, is shared; failures are remembered too, but for those that may be
        different another time. TypeError or ValueError for a timeout that is no number of seconds.
        """
        seconds = self.timeout if timeout is None else timeout
        _check_number("timeout", seconds, -math.inf, is_whole=False)
        try:
            read = self._read(kind, source, options)
        except Exception as error:
            job = Job(None, str(kind), "", None)
            job.finish(InvalidGrammar(str(error) or type(error).__name__, "refused", error))
            return PendingGrammar(self, lambda: job, seconds)
        return PendingGrammar(self, lambda: self._job_of(kind, *read), seconds)

    def _job_of(
        self, kind: str, key: Hashable, function: Callable[[], CompiledGrammar], label: str, nbytes: int
    ) -> Job:
        """The compilation of this constraint, which one more waits for from now on."""
        is_new = False
        with self._lock:
            self.n_requests += 1
            known = self._jobs.get(key)
            if known is not None:
                self._jobs.move_to_end(key)
                known.hits += 1
                known.n_waiting += known.outcome is None
                job = known
            else:
                job = Job(
                    key, kind, label, lambda: with_index(function(), self.max_index_states), n_waiting=1, nbytes=nbytes
                )
                is_new = self._threads.n_waiting < self.max_waiting
                if is_new:
                    self._jobs[key] = job
                    self.n_compilations += 1
                else:
                    job.finish(InvalidGrammar(f"{self.max_waiting} constraints wait to be compiled: try later", "lost"))
        if is_new:
            self._threads.put(job)
        elif job.outcome is not None:
            self._count(job)
        return job

    def validate(self, kind: str, source: Any, **options: Any) -> InvalidGrammar | None:
        """What would be refused, found out in milliseconds and without a thread; None if nothing was found.

        A pattern is read, not made into a machine. The machine of a JSON Schema is made as texts walk through it, so that
        reading the schema is all; that, and the machines of other kinds, get 50 milliseconds. Reading takes a millisecond or two for each
        thousand characters of a grammar, less of the others.
        """
        quick = copy.copy(self.compiler)
        quick.bound(VALIDATION_SECONDS)
        try:
            if kind == "regex":
                from fsmc.compiler.syntax.regex import parse_regex

                if not isinstance(source, str):
                    raise TypeError(f"a pattern is a str, not {type(source).__name__}")
                parse_regex(source, options.pop("flavor", "python"), options.pop("flags", 0))
                if options:
                    raise TypeError(f"a pattern has no option {next(iter(options))!r}")
            else:
                _, function, _, _ = self._read(kind, source, options, quick)
                function()
        except LimitExceeded as error:
            return None if error.name == "max_seconds" else InvalidGrammar(str(error), "refused", error)
        except Exception as error:
            return InvalidGrammar(str(error) or type(error).__name__, "refused", error)
        return None

    def _read(
        self, kind: str, source: Any, options: dict[str, Any], compiler: GrammarCompiler | None = None
    ) -> tuple[Hashable, Callable[[], CompiledGrammar], str, int]:
        """The key of a constraint, which carries its kind; how to compile it; a short text to know it by; the bytes of all its text.

        What is not text is taken as JSON text now, so that nobody changes it while it waits. The key has a digest of the text.
        """
        compile_ = getattr(compiler or self.compiler, f"compile_{kind}", None) if isinstance(kind, str) else None
        if compile_ is None:
            kinds = sorted(name[8:] for name in dir(self.compiler) if name.startswith("compile_"))
            raise ValueError(f"there is no kind of constraint {kind!r}: it is one of {', '.join(kinds)}")
        given: Any = source
        if kind == "json_schema":
            from fsmc.compiler.schema.recipe import exact_json
            from fsmc.compiler.schema.source import schema_of

            given = schema_of(source)
            given = text = given if isinstance(given, str) else exact_json(given)
        elif isinstance(source, str):
            text = source
        else:
            try:
                text = json.dumps(source if not isinstance(source, (set, tuple)) else list(source))
                given = json.loads(text)
            except (TypeError, ValueError, RecursionError):
                text, given = "", source  # a machine, say: equal only to itself
        is_text = isinstance(source, str) or kind == "json_schema"
        identity: Hashable = (None, _Itself(source))
        if text:
            identity = is_text, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        names = tuple((name, _hashable(options[name])) for name in sorted(options))
        shown = text or type(source).__name__
        label = shown if len(shown) <= _LABEL else shown[: _LABEL - 1] + "…"
        return (kind, identity, names), lambda: compile_(given, **options), label, sys.getsizeof(text)

    # ── what threads and requests tell ───────────────────────────────────────────────────────────────────────────────

    def leave(self, job: Job) -> None:
        """A request does not wait for the job any more."""
        with self._lock:
            job.n_waiting -= 1
            is_wanted = job.n_waiting > 0 or job.outcome is not None
            if not is_wanted and self._jobs.get(job.key) is job and job.thread is None:
                del self._jobs[job.key]
        if not is_wanted and self._threads.give_up(job):
            job.finish(InvalidGrammar("nobody waited for it any more", "cancelled"))

    def look_after(self) -> None:
        """End the jobs of threads that died."""
        self._threads.look_after()
        with self._lock:
            for key, job in list(self._jobs.items()):
                if isinstance(job.outcome, InvalidGrammar) and job.outcome.reason == "lost":
                    del self._jobs[key]

    def _keep(self, job: Job) -> None:
        if isinstance(job.outcome, InvalidGrammar) and not isinstance(
            job.outcome.error, (FsmcError, TypeError, ValueError)
        ):
            with self._lock:
                self._jobs.pop(job.key, None)  # memory ran out, or a fault of ours: another time it may succeed
        else:
            self._count(job)

    def _count(self, job: Job) -> None:
        """Note how large a job has become, and make room if all together are too large; now and then measure them all."""
        size = _size(job)
        with self._lock:
            if self._jobs.get(job.key) is job:
                self._total += size - self._sizes.get(job.key, 0)
                self._sizes[job.key] = size
            self._evict()
            is_due = time.monotonic() > self._measure_again
        if is_due:
            self._measure()

    def _measure(self) -> None:
        began = time.monotonic()
        with self._lock:
            self._measure_again = began + 60  # nobody else meanwhile
            kept = list(self._jobs.items())
        sizes = {key: _size(job) for key, job in kept if job.outcome is not None}
        with self._lock:
            now = time.monotonic()
            self._measure_again = now + max(_MEASURE_SECONDS, (now - began) / _MEASURE_SHARE)
            self._sizes.update(sizes)  # what got ready meanwhile has been measured then
            self._sizes = {key: size for key, size in self._sizes.items() if key in self._jobs}
            self._total = sum(self._sizes.values())
            self._evict()

    def _evict(self) -> None:
        """Drop what was asked for longest ago, until the rest is within the bound; not what is being compiled. With the lock held."""
        left, dropped = self._total, []
        for key in self._jobs:
            if left <= self.max_bytes:
                break
            if key in self._sizes:
                left -= self._sizes[key]
                dropped.append(key)
        for key in dropped:
            del self._jobs[key], self._sizes[key]
        self._total = left
        self.n_evictions += len(dropped)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def n_waiting(self) -> int:
        """Compilations that wait for a thread."""
        return self._threads.n_waiting

    @property
    def n_running(self) -> int:
        """Compilations that run."""
        return self._threads.n_running

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept, measured now, and within ``max_bytes``."""
        self._measure()
        return self._total

    def stats(self) -> list[GrammarStats]:
        """Of every grammar that is kept, the one asked for last at the end; what has grown too large is dropped first."""
        self._measure()
        with self._lock:
            jobs = [job for job in self._jobs.values() if job.outcome is not None]
        return [_stats(job) for job in jobs]


class _Itself:
    """A key that only the same object equals; it keeps the object, so that no other one gets its identity."""

    __slots__ = ("it",)

    def __init__(self, it: object) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.it is self.it


def _hashable(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return _Itself(value)
    return type(value), value


def _size(job: Job) -> int:
    """Bytes that an outcome holds, about: a grammar has its text; an error may have it, and quote it in its message."""
    if isinstance(job.outcome, CompiledGrammar):
        return _ENTRY_BYTES + job.nbytes + job.outcome.nbytes
    return _ENTRY_BYTES + 2 * job.nbytes


def _check_number(name: str, value: Any, least: float, *, is_whole: bool = True) -> None:
    kinds = (int, np.integer) if is_whole else (int, float, np.integer, np.floating)
    if not isinstance(value, kinds) or isinstance(value, bool):
        what = "an integer" if is_whole else "a number of seconds"
        raise TypeError(f"{name} must be {what}, not {value!r}")
    if not value >= least:  # nor not-a-number
        raise ValueError(f"{name}={value} must be {'a number' if least == -math.inf else f'at least {least}'}")


def _stats(job: Job) -> GrammarStats:
    grammar = job.outcome
    if isinstance(grammar, InvalidGrammar):
        return GrammarStats(job.kind, job.label, job.seconds, job.hits, 0, 0, _size(job), False, grammar.message)
    assert grammar is not None
    masks = grammar.masks
    return GrammarStats(
        job.kind,
        job.label,
        job.seconds,
        job.hits,
        grammar.machine.n_states,
        masks.n_rows if isinstance(masks, LazyMasks) else int(masks.n_rows),
        _size(job),
        grammar.stats.from_cache,
        None,
    )
