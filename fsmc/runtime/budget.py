"""Never cut off: which tokens still leave room to finish the text.

How many tokens a text needs from a configuration is told by one text that completes it, a *plan*: the shortest one in
bytes (`ShortestTexts`), spelled in as few tokens as can be. That is an upper bound of what is needed, and it is kept: the
configurations along a plan need no more than what is left of it, so that whoever has enough tokens once always has a
token that leaves enough. For small machines without calls the number is exact.

While tokens are plenty nothing of this is done: for each configuration it is found out once how many bytes are enough to end the
text after any token, not by the shortest endings but by some (`SomeTexts`), and every byte of them is a token.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.shortest import MAX_STEPS as SHORTEST_STEPS
from fsmc.compiler.automata.shortest import NO_ENDING, ShortestTexts, Steps
from fsmc.compiler.automata.some_texts import Recorded, SomeTexts
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tokens.spelling import fewest_tokens
from fsmc.compiler.tokens.stacks import ReturnStacks
from fsmc.compiler.tokens.token_ends import token_ends
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.compiler.tokens.walk import NOTHING, Recording, advance

if TYPE_CHECKING:
    from fsmc.compiler.grammar import CompiledGrammar
    from fsmc.compiler.schema.machine import SchemaMachine
    from fsmc.compiler.schema.sampling import InstanceSampler
    from fsmc.runtime.matcher import GrammarMatcher

NEVER = 1 << 60
"""In place of a number of tokens: no text is known that completes this one."""

MAX_EXACT_STATES = 256
"""Of a machine without calls, up to which plans are searched token by token."""
FOUND_IS_LONGER = 2
"""Where items or members that must differ are still to come, an ending of so many bytes is known to exist; the one that is found need not
be the shortest: so many times the bytes are asked for."""
MAX_WALKS = 2_000
"""Of the token trie, in one search token by token."""
MAX_HARD_TOKENS, MAX_HARD_IN_GROUP = 24, 6
"""Of those tokens after which no plan is known without trying each of them, so many are tried, and of those that lead to the same
state."""
MAX_HARD_PLANS = 2_000
"""Tokens of the plans behind those tried, after which no more are tried in one mask."""
MAX_HARD_STEPS = 1_000
"""States looked at to write texts out to their end, after which no more tokens are tried in one mask: some 0.2 ms each."""
MAX_REGULAR_STEPS = 400_000
"""States of a machine without calls that are looked at for a shortest text: no more than it has are, each once."""
MAX_STEPS = 10_000
"""States looked at in one search for an end that depends on what was read."""
MAX_SECONDS = 10.0
"""For one end that depends on what was read: an array of two thousand items that have to differ takes longer, and whoever else waits
for the same thread would wait as long."""
MAX_HARD_ENDS = 2
"""Places for which a plan is too hard to find, after which no more are looked for in one mask: each takes half a second."""
_MAX_PLANS, _MAX_TOO_HARD = 1 << 19, 256
_INSIDE_CHARACTER = 3
"""Bytes that complete a character which a token has begun."""

_TEXT_BYTES = [byte for byte in range(256) if byte not in (0xC0, 0xC1) and byte < 0xF5]
"""All that occur in UTF-8."""
_CONTINUATION = bytes(range(0x80, 0xC0))
"""Those of them that do not begin a character."""


Plan: TypeAlias = "tuple[int, ...] | None"
"""Tokens that complete the text, without the end token; None where none are known."""


class _Rest(NamedTuple):
    """What is left of a plan behind its first ``begin`` tokens: all places on it share it."""

    plan: tuple[int, ...]
    begin: int

    @property
    def n_left(self) -> int:
        return len(self.plan) - self.begin


_Place: TypeAlias = "tuple[int, int, Recording]"
"""Where a matcher stands: state, stack node, and what open recorded calls have read."""


class TokenBudget:
    """What is known of one grammar's shortest completions; shared by its matchers, safe under threads.

    excluded: ids of the trie that are not text for these matchers (stop tokens that have bytes).
    """

    def __init__(
        self,
        machine: RecursiveMachine,
        stacks: ReturnStacks,
        vocab: Vocabulary,
        trie: TokenTrie,
        excluded: npt.NDArray[np.int32],
    ) -> None:
        self.machine, self.stacks, self.trie, self.excluded = machine, stacks, trie, excluded
        self._data, self._offsets = vocab.token_bytes, vocab.token_offsets
        most = MAX_REGULAR_STEPS if machine.is_regular else SHORTEST_STEPS
        self.shortest = ShortestTexts(machine, stacks.top, _steps_of(machine), max_steps=most)
        spelled = trie.first[_TEXT_BYTES]
        self._usable = ~np.isin(trie.token_ids, excluded)
        n_usable = np.concatenate(([0], np.cumsum(self._usable)))[trie.token_start]
        is_token = (spelled >= 0) & (n_usable[spelled + 1] > n_usable[spelled])
        self._is_spelled = is_spelled = _spelled_by(bytes(np.array(_TEXT_BYTES, np.uint8)[is_token]))
        has_all, steps = bool(is_token.all()), self.shortest.steps
        self._counts_bytes = is_spelled(_CONTINUATION)
        self.some = SomeTexts(
            machine,
            stacks.top,
            steps if has_all else lambda state: [step for step in steps(state) if is_spelled(step[0])],
            _recorded_of(machine, is_spelled),
        )
        self._is_small = machine.is_regular and machine.n_states <= MAX_EXACT_STATES
        self._plans: dict[tuple[int, int, bool], _Rest | None] = {}
        self._written_out: dict[_Place, _Rest] = {}
        self._too_hard: dict[_Place, LimitExceeded] = {}
        self._edges: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._enough: dict[tuple[int, int], int] = {}
        self._lock = threading.RLock()
        schema = _schema_of(machine)
        self._sampler = None if schema is None else _sampler_of(schema)

    # ── plenty ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def enough(self, state: int, stack: int) -> int:
        """With so many tokens left, and the end token, every allowed token leaves enough. NEVER if that is not known."""
        known = self._enough.get((state, stack))
        if known is None:
            known = NEVER
            if self._counts_bytes:
                ends = token_ends(self.machine, self.stacks, self.trie, state, stack, only_ends=True).ends.tolist()
                try:
                    costs = [self._some_cost(q, top, bool(used)) for q, top, used in ends]
                    most = 1 + _INSIDE_CHARACTER + max(costs, default=0)
                    known = min(NEVER, most * (FOUND_IS_LONGER if self._records else 1))
                except LimitExceeded:
                    pass
            self._enough[state, stack] = known
        return known

    def _some_cost(self, state: int, stack: int, used: bool) -> int:
        """How many bytes some ending has."""
        found = self.some.cost(state, stack)
        return self._shortest_cost(state, stack, used) if found is None else found

    def _shortest_cost(self, state: int, stack: int, used: bool) -> int:
        """The same of the shortest ending; NEVER where one of its bytes is no token."""
        ending = self.shortest.ending(state, stack, used)
        return ending.cost if ending is NO_ENDING or self._is_spelled(ending.text) else NEVER

    def is_plenty(self, here: _Place, n: int) -> bool:
        """Whether every allowed token leaves enough of ``n``, the end token among them."""
        return n > self.enough(here[0], here[1])

    # ── plans ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, here: _Place) -> Plan:
        """A plan from where a matcher stands. It is kept for all places on it: they need no more than what is left of it."""
        state, stack, _ = here
        with self._lock:
            kept = self._written_out.get(here)
            known: list[Plan] = [] if kept is None else [kept.plan[kept.begin :]]
            too_hard: LimitExceeded | None = None
            try:
                known.append(self.plan_any(state, stack, False))
                if self._records:
                    known.append(self.plan_any(state, stack, True))
            except LimitExceeded as error:
                too_hard = error
            for candidate in sorted((plan for plan in known if plan is not None), key=len):
                plan, places = candidate, self._follow(here, candidate)
                if places is not None:
                    break
            else:
                if here in self._too_hard:
                    raise self._too_hard[here].with_traceback(None)
                try:
                    written = self._write_out(here)
                except LimitExceeded as error:  # nobody waits for it again
                    if len(self._too_hard) >= _MAX_TOO_HARD:
                        self._too_hard.clear()
                    self._too_hard[here] = error
                    raise
                if written is None and self._records:
                    written = self._by_tokens(here)
                if written is None:
                    if too_hard is not None:
                        raise too_hard
                    return None
                plan, places = written, self._follow(here, written)
            assert places is not None, "a plan leads to the end"
            if len(self._written_out) >= _MAX_PLANS:
                self._written_out.clear()
            for i, place in enumerate(places):
                rest, other = _Rest(plan, i), self._written_out.get(place)
                if other is None or other.n_left > rest.n_left:
                    self._written_out[place] = rest
                q, top, _ = place
                if not self._records:
                    other = self._plans.get((q, top, False))
                    if other is None or other.n_left > rest.n_left:
                        self._plans[q, top, False] = rest
            return plan

    def plan_any(self, state: int, stack: int, used: bool) -> Plan:
        """A plan on which at most one recorded call returns (none if one has: ``used``), whatever such calls have read."""
        key = (state, stack, used)
        with self._lock:
            if key in self._plans:
                kept = self._plans[key]
                return None if kept is None else kept.plan[kept.begin :]
            found: Plan = None
            if not self._is_small:
                ending = self.shortest.ending(state, stack, used)
                ids = None if ending is NO_ENDING else fewest_tokens(self.trie, ending.text, self.excluded)
                found = None if ids is None else tuple(ids)
            if found is None and not self._records:
                found = self._by_tokens((state, stack, NOTHING))
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = None if found is None else _Rest(found, 0)
            return found

    @property
    def _records(self) -> bool:
        return isinstance(self.machine, LazyRSM) and self.machine.has_recorded_frames

    def _after(self, here: _Place, token: int) -> _Place | None:
        """Where a token leads; None if it is not allowed."""
        state, stack, recording = here
        begin, end = int(self._offsets[token]), int(self._offsets[token + 1])
        state, stack, recording, n = advance(self.machine, self.stacks, state, stack, self._data, begin, end, recording)
        return (state, stack, recording) if n == end else None

    def _follow(self, here: _Place, plan: tuple[int, ...]) -> list[_Place] | None:
        """All places on a plan; None if it does not lead to the end from here."""
        places = [here]
        for token in plan:
            after = self._after(places[-1], token)
            if after is None:
                return None
            places.append(after)
        return places if self.shortest.may_end(places[-1][0], places[-1][1]) else None

    def _by_tokens(self, start: _Place) -> Plan:
        """The fewest tokens, searched token by token; None if there are none, or after MAX_WALKS configurations.

        Where calls are recorded only some tokens are looked at, and it may be more than the fewest.
        """
        before: dict[_Place, tuple[_Place, int] | None] = {start: None}
        queue, n_walks = deque([start]), 0
        while queue:
            here = queue.popleft()
            state, stack, recording = here
            if self.shortest.may_end(state, stack):
                plan: list[int] = []
                step = before[here]
                while step is not None:
                    plan.append(step[1])
                    step = before[step[0]]
                return tuple(reversed(plan))
            n_walks += 1
            if n_walks > MAX_WALKS:
                return None
            if (state, stack) not in self._edges:
                self._edges[state, stack] = self._edges_from(state, stack)
            for q, top, token in self._edges[state, stack]:
                after = self._after(here, token) if self._records else (q, top, recording)
                if after is not None and after not in before:
                    before[after] = here, token
                    queue.append(after)
        return None

    def _edges_from(self, state: int, stack: int) -> list[tuple[int, int, int]]:
        """Where tokens lead, and a token for each, or a few where calls are recorded: (state, stack, token)."""
        ends, group = token_ends(self.machine, self.stacks, self.trie, state, stack)
        usable = np.flatnonzero(self._usable & (group >= 0))
        usable = usable[np.argsort(group[usable], kind="stable")]
        starts = np.searchsorted(group[usable], np.arange(len(ends) + 1)).tolist()
        few, found = MAX_HARD_IN_GROUP if self._records else 1, []
        for i, (q, top, _) in enumerate(ends.tolist()):
            ranks = usable[starts[i] : min(starts[i] + few, starts[i + 1])]
            found += [(q, top, token) for token in self.trie.token_ids[ranks].tolist()]
        return found

    def _write_out(self, here: _Place) -> Plan:
        """A plan that depends on what recorded calls have read, and write; for machines of schemas."""
        if self._sampler is None:
            return None
        from fsmc.compiler.schema.walk import Walk

        state, stack, (text, starts) = here
        walk = Walk(bytearray(text), state, list(self.stacks.frames(stack)), list(starts))
        self._sampler.close(walk, 0)
        ids = fewest_tokens(self.trie, bytes(walk.text[len(text) :]), self.excluded)
        return None if ids is None else tuple(ids)

    # ── masks ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def tokens_within(self, here: _Place, plan: tuple[int, ...], n_left: int) -> npt.NDArray[np.int32]:
        """The ids of tokens after which ``n_left`` more complete the text; the first of ``plan`` is one. int32, in no order."""
        state, stack, _ = here
        ends, group = token_ends(self.machine, self.stacks, self.trie, state, stack)
        fits = np.zeros(len(ends) + 1, np.bool_)  # the last: that of tokens which are not allowed
        tried: list[int] = []
        n_hard = 0
        for i, (q, top, used) in enumerate(ends.tolist()):
            if n_hard >= MAX_HARD_ENDS and (q, top, bool(used)) not in self._plans:
                continue
            try:
                fits[i] = self._fits(q, top, bool(used), n_left)
            except LimitExceeded:
                n_hard += 1  # nobody knows how to finish after these tokens
                continue
            if not fits[i] and self._records and self.plan_any(q, top, bool(used)) is None:
                ranks = np.flatnonzero((group == i) & self._usable)[:MAX_HARD_IN_GROUP]
                tried += self.trie.token_ids[ranks].tolist()
        ids = self.trie.token_ids[fits[group] & self._usable]
        more, n_tokens = list(plan[:1]), 0
        before = 0 if self._sampler is None else self._sampler.n_steps
        for token in tried[:MAX_HARD_TOKENS]:
            needed = self._needed_after(here, token)
            if needed <= n_left:
                more.append(token)
            n_tokens += min(needed, n_left)
            n_steps = 0 if self._sampler is None else self._sampler.n_steps - before
            if n_tokens > MAX_HARD_PLANS or n_steps > MAX_HARD_STEPS:
                break
        return np.concatenate((ids, np.array(more, np.int32)))

    def _fits(self, state: int, stack: int, used: bool, n_left: int) -> bool:
        kept = self._plans.get((state, stack, used))
        if kept is not None:
            return kept.n_left <= n_left
        if self._counts_bytes and not self._is_small:
            found = self.some.cost(state, stack)
            if found is not None and found <= n_left:
                return True
            if self._shortest_cost(state, stack, used) <= n_left:
                return True
        plan = self.plan_any(state, stack, used)
        return plan is not None and len(plan) <= n_left

    def _needed_after(self, here: _Place, token: int) -> int:
        """How many tokens are known to complete the text after this one; NEVER where none are."""
        after = self._after(here, token)
        try:
            plan = None if after is None else self.plan(after)
        except LimitExceeded:
            plan = None
        return NEVER if plan is None else len(plan)


def _spelled_by(usable: bytes) -> Callable[[bytes], bool]:
    """Whether a text has only these bytes, each of which is a token. (No method: what asks it would hold its owner.)"""
    return lambda text: not text.translate(None, usable)


def _steps_of(machine: RecursiveMachine) -> Steps | None:
    schema = _schema_of(machine)
    if schema is None:
        return None
    from fsmc.compiler.schema.short_steps import short_steps

    return short_steps(schema)


def _sampler_of(schema: SchemaMachine) -> InstanceSampler:
    from fsmc.compiler.schema.sampling import InstanceSampler

    return InstanceSampler(schema, seed=0, max_steps=MAX_STEPS, max_seconds=MAX_SECONDS)


def _recorded_of(machine: RecursiveMachine, is_spelled: Callable[[bytes], bool]) -> Recorded | None:
    schema = _schema_of(machine)
    if schema is None:
        return None
    from fsmc.compiler.schema.distinct import PLAIN, DistinctItems

    return DistinctItems(schema, is_spelled) if is_spelled(PLAIN) else None


def _schema_of(machine: RecursiveMachine) -> SchemaMachine | None:
    if isinstance(machine, LazyRSM):
        from fsmc.compiler.schema.machine import SchemaMachine

        if isinstance(machine.builder, SchemaMachine):
            return machine.builder
    return None


_budgets: weakref.WeakKeyDictionary[CompiledGrammar, dict[frozenset[int], TokenBudget]] = weakref.WeakKeyDictionary()
_budgets_lock = threading.Lock()


def budget_of(grammar: CompiledGrammar, stacks: ReturnStacks, stop_ids: frozenset[int]) -> TokenBudget:
    """The budget of a grammar whose texts end with these tokens. stacks: the pool of its matchers."""
    excluded = frozenset(token for token in stop_ids if grammar.vocab.token(token))
    with _budgets_lock:
        known = _budgets.setdefault(grammar, {})
        budget = known.get(excluded)
        if budget is None or (budget.stacks is not stacks and not grammar.machine.is_regular):
            ids = np.array(sorted(excluded), np.int32)
            budget = known[excluded] = TokenBudget(grammar.machine, stacks, grammar.vocab, grammar.trie, ids)
        return budget


def keep_within(matcher: GrammarMatcher, row: npt.NDArray[np.int32], max_tokens: int) -> None:
    """Clear the bits of ``row``, a mask row of the matcher, of the tokens that do not leave enough of ``max_tokens``.

    Raises BudgetExceeded where so many are not known to be enough, before anything is written.
    """
    plan = matcher.plan_to_complete(max_tokens)
    n_end = 1 if matcher.stop_token_ids else 0
    ids = matcher.budget.tokens_within(matcher.place, plan, max_tokens - 1 - n_end)
    words = np.zeros_like(row)
    np.bitwise_or.at(words.view(np.uint32), ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))
    for token in matcher.stop_token_ids:
        words.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))
    row &= words
    for token in plan[:1]:  # a mask may leave it out: it may begin an item behind the one it ends, see `Position.waits`
        row.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))
