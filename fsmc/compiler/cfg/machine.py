"""From a network to its recursive state machine, built as it is walked.

A state of the machine is a set of stacks (stack_sets.py): all ways in which the text since the innermost open call may stand in the rules. Where
a byte can only begin rules that are called here, the machine calls too: the frame keeps the places after them, and the callee's state knows only
which symbols were begun, so that it is the same whoever called. Where a byte begins a call in one reading and goes on in another, the set holds both,
with their stacks. So a deterministic grammar pushes and pops as a hand-written parser would, and the rest is run exactly, as sets.

A callee exits with the set of symbols that are complete. Where it could go on as well, and the byte may follow in its caller, it exits with the whole
set as the outcome: the caller puts it on top of its own stacks, and both readings go on in one state, one frame lower.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from fsmc.compiler.automata.byte_groups import ASCII_GROUPS
from fsmc.compiler.automata.lazy_rsm import MAX_BYTES, MAX_STATES, LazyRSM
from fsmc.compiler.cfg.embedded import Copier, EmbeddedSchema
from fsmc.compiler.cfg.place_classes import PlaceClasses
from fsmc.compiler.cfg.places import Places
from fsmc.compiler.cfg.rules import Network
from fsmc.compiler.cfg.stack_sets import EMPTY, StackSets
from fsmc.compiler.errors import LimitExceeded
from fsmc.jit import nearer_limit, working_seconds

MAX_STACK_SETS = 2_000_000
MAX_DEPTH_OF_FRAMES = 4
"""A terminal is called from stacks of at most so many places; deeper ones call the outermost rule first, or stay in the set."""
_MAX_OPEN = 10_000
"""Rules that one byte may begin, each inside of the other,"""
_MAX_SEEN_THROUGH = 200
"""and those of them that are looked through for terminals that are called alone."""

ROOT = -1
"""The outcome of the whole text: nobody takes it."""


class GrammarMachine:
    """Builds the machine of a network; implements the builder protocol of `LazyRSM`. rsm: the machine.

    max_seconds: for each row. max_stack_sets: of all sets of stacks; a grammar that is read in ever more ways reaches it, with `LimitExceeded`.
    """

    def __init__(
        self,
        network: Network,
        *,
        max_states: int = MAX_STATES,
        max_bytes: int = MAX_BYTES,
        max_seconds: float = 60.0,
        max_stack_sets: int = MAX_STACK_SETS,
    ) -> None:
        self.network = network
        limits = {"max_states": max_states, "max_bytes": max_bytes, "max_seconds": max_seconds}
        schemas = {
            symbol: EmbeddedSchema(symbol, node, network.text, limits) for symbol, node in network.schemas.items()
        }
        self.places = Places(network, {symbol: schema.codes for symbol, schema in schemas.items()})
        for symbol, schema in schemas.items():
            schema.check(self.places.follow[symbol], self.places.beside(symbol))
        places = self.places
        self.max_seconds = max_seconds
        self._limit, self._deadline = max_seconds, math.inf
        self._classes = PlaceClasses(places)
        self.sets = StackSets(max_stack_sets, places.is_end.__getitem__, places.takes_in, self._check_time)
        self.rsm = LazyRSM(self, max_states=max_states, max_bytes=max_bytes)
        self._copier = Copier(self.rsm, schemas, self._outcome)
        self._blocks: dict[int, int] = {}  # terminal → what to add to its places
        self._outcomes: dict[Any, int] = {}
        self._outcome_keys: dict[int, Any] = {}
        self._here: dict[int, tuple[int, tuple[tuple[int, int, bool], ...]]] = {}
        root = network.root
        self._root = len(network.names)  # a symbol that nothing follows
        start = self.sets.of(((places.start[root], self.sets.base(self._root)),))
        if network.root_nullable:
            start = self.sets.union(start, self.sets.base(self._root))
        self.rsm.start = self._state(start)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the grammar: rules that nothing uses, and the like."""
        return tuple(self.network.notes)

    # ── what LazyRSM asks for ────────────────────────────────────────────────────────────────────────────────────────

    def build_row(self, state: int) -> None:
        """Make the row of a set of stacks: an edge for each class of bytes that its places tell apart."""
        self._limit, self._deadline = nearer_limit(self.max_seconds)
        stacks = self.rsm.state_key(state)
        if isinstance(stacks, tuple):
            self._copier.build_row(state, *stacks[1:])
            return
        entries, complete = self._reached(stacks)
        classes = self._classes.of({place for place, _ in entries}, self._follow(complete))
        codes: list[int] = []
        seen = -1
        for byte, number in enumerate(classes):
            if number > seen:  # classes are numbered by their first bytes
                seen = number
                codes.append(self._edge(stacks, entries, complete, byte))
        loops = 0
        if state in codes:
            for bit, members in ASCII_GROUPS.items():
                if all(codes[classes[byte]] == state for byte in members):
                    loops |= bit
        self.rsm.set_row(state, self.rsm.class_map(classes), codes, self._outcome(complete) if complete else -1, loops)

    def build_return(self, frame: int, outcome: int) -> None:
        """Find where a caller goes on: in the places after the symbols that are complete, or in the callee's set on top of its own."""
        self._limit, self._deadline = nearer_limit(self.max_seconds)
        key = self._outcome_keys[outcome]
        if isinstance(key, tuple):
            target, after = self._copier.after(self.rsm.frame_key(frame), key[1], key[2])
            self.rsm.set_return(frame, outcome, target if after is None else self._state(after))
            return
        below = dict(self.rsm.frame_key(frame))
        stacks = EMPTY
        if isinstance(key, int):
            stacks = self.sets.grafted(key, below)
        else:
            for symbol in key:
                stacks = self.sets.union(stacks, below[symbol])
        self.rsm.set_return(frame, outcome, self._state(stacks))

    def behind_space(self, state: int) -> int:
        """No white space is known apart."""
        raise AssertionError("the machine has no white space of its own")

    def record(self, state: int, text: bytes | None) -> int:
        """Of embedded schemas only, see `LazyRSM`."""
        key = self.rsm.state_key(state) if state else None
        return 0 if key is None else self._copier.record(key[1], key[2], text)

    # ── states ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _state(self, stacks: int) -> int:
        """The state of a set of stacks; that of the terminal's block where it is a place in a called terminal."""
        entries = self.sets.entries[stacks]
        if len(entries) == 1:
            place, rest = entries[0]
            symbol = self.places.terminal_of[place] if place >= 0 else -1
            if symbol >= 0 and rest == self.sets.base(symbol):
                return place + self._block(symbol)
        return self.rsm.new_state(stacks)

    def _block(self, symbol: int) -> int:
        """Add a terminal as a block that exits when it is complete; what to add to its places."""
        known = self._blocks.get(symbol)
        if known is not None:
            return known
        dfa = self.network.terminals[symbol].dfa
        start = self.places.terminal_start(symbol) - dfa.start  # the place of state 0, if it had one
        outcome, name = self._terminal_outcome(symbol)
        follow = np.array([self.places.follow[symbol] >> byte & 1 for byte in range(256)], np.uint8)
        pairs, byte_class = np.unique(dfa.byte_class.astype(np.int64) * 2 + follow, return_inverse=True)
        targets = dfa.delta[:, pairs >> 1].astype(np.int32)
        codes = targets.copy()
        accepting = dfa.accepting[:, None]
        follows = (pairs & 1).astype(bool)[None, :]
        codes[accepting & follows & (targets == 0)] = self.rsm.exit_redo(outcome)
        is_end = np.array([self.places.is_end[start + state] for state in range(dfa.n_states)])
        is_end[0] = False
        codes[is_end[targets]] = self.rsm.exit(outcome)
        base = self.sets.base(symbol)
        for state in np.flatnonzero((accepting & follows & (targets != 0)).any(axis=1)).tolist():
            both = follows[0] & (targets[state] != 0)
            codes[state, both] = self.rsm.exit_redo(self._outcome(self.sets.of(((start + state, base),))))
            name = None
        codes[0] = 0
        final = np.where(dfa.accepting, outcome, -1).astype(np.int32)
        offset = self.rsm.add_block(byte_class.reshape(256).astype(np.uint8), codes, final, name)
        self._blocks[symbol] = offset - start
        return offset - start

    def terminal_of(self, state: int) -> int | None:
        """The terminal whose block a state is of; None for other states."""
        known = self.places.terminal_of
        places = ((symbol, state - add) for symbol, add in self._blocks.items())
        return next((symbol for symbol, place in places if 0 < place < len(known) and known[place] == symbol), None)

    def outcome_key(self, outcome: int) -> Any:
        """What an outcome stands for: a set of complete symbols, a set of stacks, or ("json", symbol, outcome); None for that of the whole text."""
        return self._outcome_keys.get(outcome)

    def _terminal_outcome(self, symbol: int) -> tuple[int, Any]:
        """The outcome of a complete terminal: a number made of what it is, so that masks are shared by all grammars that have it."""
        key = frozenset([symbol])
        dfa = self.network.terminals[symbol].dfa
        follow = self.places.follow[symbol].to_bytes(32, "little")
        parts = (dfa.byte_class.tobytes(), dfa.delta.tobytes(), dfa.accepting.tobytes(), follow)
        digest = hashlib.blake2b(b"".join(parts), digest_size=16).digest()
        number = int.from_bytes(digest[:4], "little") & 0x3FFFFFFF | 0x20000000
        if key in self._outcomes or number in self._outcome_keys:
            return self._outcome(key), None
        self._outcomes[key], self._outcome_keys[number] = number, key
        return number, ("grammar terminal", digest)

    def _outcome(self, key: Any) -> int:
        """The number of an outcome: a set of complete symbols, a set of stacks to go on with, or ("json", symbol, outcome) of a schema."""
        if isinstance(key, frozenset) and self._root in key:
            return 0
        known = self._outcomes.get(key)
        if known is None:
            known = 1 + len(self._outcomes)
            while known in self._outcome_keys:
                known += 1
            self._outcomes[key] = known
            self._outcome_keys[known] = key
        return known

    def _reached(self, stacks: int) -> tuple[list[tuple[int, int]], frozenset[int]]:
        """What may be on top, (place, rest), now or when what is above it ends here; and the symbols that may be complete."""
        found, complete, pending, seen = [], set(), [stacks], {stacks}
        final = self.places.final
        while pending:
            for entry in self.sets.entries[pending.pop()]:
                place, rest = entry
                if place < 0:
                    complete.add(-1 - place)
                    continue
                found.append(entry)
                if final[place] and rest not in seen:
                    seen.add(rest)
                    pending.append(rest)
        return found, frozenset(complete)

    def _follow(self, complete: frozenset[int]) -> int:
        """The bytes that may follow symbols, as bits."""
        follow = 0
        for symbol in complete:
            if symbol != self._root:
                follow |= self.places.follow[symbol]
        return follow

    # ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _edge(self, stacks: int, entries: list[tuple[int, int]], complete: frozenset[int], byte: int) -> int:
        """The code of what a byte does in a set of stacks. entries, complete: see `_reached`."""
        sets, rsm = self.sets, self.rsm
        direct, calls = self._moves(entries, byte)
        follows = self._follow(complete) >> byte & 1
        if direct == EMPTY and not calls:
            return rsm.exit_redo(self._outcome(complete)) if follows else 0
        if follows:
            return rsm.exit_redo(self._outcome(stacks))
        if direct == EMPTY and self._copier.schemas:
            leaves = self._terminals(calls, byte) or {}
            if leaves.keys() <= self._copier.schemas.keys() and len(leaves) == 1:
                ((symbol, rest),) = leaves.items()
                return self._copier.call(symbol, byte, rest)
        if direct == EMPTY:
            below, inside = self._called(calls, byte)
            if any(place >= 0 for place, _ in sets.entries[inside]):
                return rsm.call(self._state(inside), rsm.new_frame(tuple(sorted(below.items()))))
            after = EMPTY
            for place, _ in sets.entries[inside]:
                after = sets.union(after, below[-1 - place])
        else:
            after = direct
            for symbol, rest in calls.items():
                after = sets.union(after, self._entered(symbol, byte, rest))
        after_entries = sets.entries[after]
        if after_entries[0][0] < 0 and all(place < 0 for place, _ in after_entries):
            complete = frozenset(-1 - place for place, _ in after_entries)
            if self._root not in complete:
                return rsm.exit(self._outcome(complete))
        return self._state(after)

    def _moves(self, entries: list[tuple[int, int]], byte: int) -> tuple[int, dict[int, int]]:
        """What a byte does: the stacks that go on without a call; symbol called → the stacks after it.

        A call at the very end of what is known is no call: it goes on with the same stacks.
        """
        sets, starts = self.sets, self.places.start
        direct = EMPTY
        calls: dict[int, int] = {}
        pending = entries
        begun: set[tuple[int, int]] = set()
        while pending:
            if len(pending) > 100:
                self._check_time()
            at_end = []
            for place, rest in pending:
                target, called = self._here.get(place << 8 | byte) or self._find_here(place, byte)
                if target:
                    direct = sets.union(direct, sets.push(target, rest))
                for symbol, after, is_net in called:
                    below = sets.push(after, rest)
                    if symbol < 0:  # a terminal that this byte completes
                        direct = sets.union(direct, below)
                    elif is_net and below == rest:
                        entry = (starts[symbol], rest)
                        if entry not in begun:
                            begun.add(entry)
                            at_end.append(entry)
                    else:
                        calls[symbol] = sets.union(calls.get(symbol, EMPTY), below)
            pending = at_end
        return direct, calls

    def _find_here(self, place: int, byte: int) -> tuple[int, tuple[tuple[int, int, bool], ...]]:
        """What a byte does in a place: the next one, or 0; and (symbol, place after it, whether it is a net) of the symbols that it may
        begin. The symbol is -1 for a terminal that it also completes."""
        places = self.places
        called = []
        for symbol, after in places.calls[place]:
            if places.first(symbol) >> byte & 1:
                is_net = symbol in self.network.nets
                ends = not is_net and symbol not in places.schema_codes and places.is_end[places.entry(symbol, byte)]
                called.append((-1 if ends else symbol, after, is_net))
        found = places.targets[place][places.classes[place][byte]], tuple(called)
        self._here[place << 8 | byte] = found
        return found

    def _called(self, calls: dict[int, int], byte: int) -> tuple[dict[int, int], int]:
        """What to call where a byte only begins symbols: symbol → stacks after it, and the set inside.

        Terminals if nothing else begins, so that whoever gets to one is in the same state; else the symbols called here.
        """
        sets = self.sets
        terminals = self._terminals(calls, byte)
        if terminals is not None and max(map(sets.depth.__getitem__, terminals.values())) <= MAX_DEPTH_OF_FRAMES:
            calls = terminals
        inside = EMPTY
        for symbol in calls:
            inside = sets.union(inside, self._entered(symbol, byte, sets.base(symbol)))
        return calls, inside

    def _terminals(self, calls: dict[int, int], byte: int) -> dict[int, int] | None:
        """The terminals that begin, innermost in the calls, with the stacks after them; None if a byte of a rule itself is read."""
        sets, places = self.sets, self.places
        found: dict[int, int] = {}
        pending = list(calls.items())
        n = 0
        while pending:
            symbol, below = pending.pop()
            if symbol not in self.network.nets:
                found[symbol] = sets.union(found.get(symbol, EMPTY), below)
                continue
            direct, inner = self._moves([(places.start[symbol], below)], byte)
            if direct != EMPTY:
                return None
            pending += inner.items()
            n += 1
            if n > _MAX_SEEN_THROUGH:
                return None
        return found

    def _entered(self, symbol: int, byte: int, below: int) -> int:
        """The stacks inside a symbol after its first byte, on top of ``below``."""
        sets, places = self.sets, self.places
        inside: list[int] = []
        pending = [(symbol, below, 0)]
        seen = {(symbol, below)}
        while pending:
            symbol, below, n_open = pending.pop()
            if symbol in self._copier.schemas:
                raise self._copier.schemas[symbol].beside(byte)
            if symbol in self.network.terminals:
                inside.append(sets.push(places.entry(symbol, byte), below))
                continue
            if n_open > _MAX_OPEN:
                raise LimitExceeded("max_open", _MAX_OPEN, n_open, "rules begin with each other more deeply than that")
            direct, calls = self._moves([(places.start[symbol], below)], byte)
            inside.append(direct)
            for entry in calls.items():
                if entry not in seen:
                    seen.add(entry)
                    pending.append((*entry, n_open + 1))
            if not len(seen) & 0xFF:
                self._check_time()
        return sets.union_of(inside)

    def _check_time(self) -> None:
        late = working_seconds() - self._deadline
        if late > 0:
            raise LimitExceeded("max_seconds", self._limit, self._limit + late, "for one step of the text")
