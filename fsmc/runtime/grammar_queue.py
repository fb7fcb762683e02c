"""Requests whose grammars are not ready, beside a scheduler: looked at in each step, none holds up another."""

from __future__ import annotations

import time
from typing import Any

from fsmc.runtime.grammar_workers import InvalidGrammar, Outcome
from fsmc.runtime.manager import GrammarManager, PendingGrammar
from fsmc.runtime.ranks import RankAgreement, RankFailure


class GrammarQueue:
    """The requests that wait for their grammars. For one scheduler thread.

    manager: who compiles. ranks: with whom to agree about what is ready (None: nobody). Every request that was added comes out of
    `take_ready` once, with its grammar or its own error, unless it was aborted.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    >>> with fsmc.GrammarManager(fsmc.GrammarCompiler(vocab, cache_dir=None)) as manager:
    ...     queue = GrammarQueue(manager)
    ...     queue.add("first", "regex", "a+")
    ...     queue.add("second", "regex", "(")
    ...     outcomes = {}
    ...     while len(queue):
    ...         outcomes.update(queue.take_ready())
    >>> outcomes["first"], type(outcomes["second"]).__name__
    (<CompiledGrammar: regex 'a+', 3 states>, 'InvalidGrammar')
    """

    def __init__(self, manager: GrammarManager, ranks: RankAgreement | None = None) -> None:
        self.manager, self.ranks = manager, ranks
        self._waiting: dict[str, PendingGrammar] = {}
        self._failure: str | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def add(self, name: str, kind: str, source: Any, *, timeout: float | None = None, **options: Any) -> None:
        """Have a grammar compiled for the request ``name``, see `GrammarManager.request`. ValueError if it waits already."""
        if name in self._waiting:
            raise ValueError(f"the request {name!r} waits already")
        self._waiting[name] = self.manager.request(kind, source, timeout=timeout, **options)

    def abort(self, name: str) -> bool:
        """Forget a request; whether it waited. With ranks: on all of them before the next `take_ready`."""
        pending = self._waiting.pop(name, None)
        if pending is not None:
            pending.cancel()
        return pending is not None

    def take_ready(self) -> list[tuple[str, Outcome]]:
        """The requests whose grammars are there or will never be, in the order in which they came; they wait no longer.

        Does not wait for a compilation; on a later pipeline stage, for those that the first stage says are ready. With ranks it
        waits for the others to call it, and where one of them is gone all requests fail.
        """
        if not self._waiting:
            return []
        if self._failure is not None:
            return self._all_lost(self._failure)
        known = {name: outcome for name, pending in self._waiting.items() if (outcome := pending.poll()) is not None}
        if self.ranks is not None:
            ready = [name for name, outcome in known.items() if not isinstance(outcome, InvalidGrammar)]
            failed = {name: o.message for name, o in known.items() if isinstance(o, InvalidGrammar)}
            try:
                all_ready, any_failed = self.ranks.agree(ready, failed)
            except RankFailure as error:
                self._failure = str(error)
                return self._all_lost(self._failure)
            if self.ranks.follows:
                self._catch_up(all_ready, known)
            known = {name: known[name] for name in all_ready if name in known} | {
                name: _failed(message, known.get(name)) for name, message in any_failed.items() if name in self._waiting
            }
        taken = [(name, known[name]) for name in self._waiting if name in known]
        for name, outcome in taken:
            pending = self._waiting.pop(name)
            if isinstance(outcome, InvalidGrammar):
                pending.cancel()  # it may be in the works here
        return taken

    def _catch_up(self, names: set[str], known: dict[str, Outcome]) -> None:
        """Wait for what the first stage has and this one has not."""
        until = time.monotonic() + self.ranks.timeout if self.ranks else 0
        for name in names - known.keys():
            if name in self._waiting:
                outcome = self._waiting[name].wait(max(0.0, until - time.monotonic()))
                known[name] = outcome or InvalidGrammar(
                    "the first pipeline stage has it, this one not in time", "timeout"
                )

    def _all_lost(self, message: str) -> list[tuple[str, Outcome]]:
        lost: list[tuple[str, Outcome]] = []
        for name in list(self._waiting):
            self.abort(name)
            lost.append((name, InvalidGrammar(message, "lost")))
        return lost


def _failed(message: str, here: Outcome | None) -> InvalidGrammar:
    return here if isinstance(here, InvalidGrammar) else InvalidGrammar(message, "refused")
