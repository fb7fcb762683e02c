"""All places of a network in one numbering, with what each may read, call and end."""

from __future__ import annotations

from functools import cached_property

from fsmc.compiler.cfg.nets import SYMBOL
from fsmc.compiler.cfg.rules import Network

_MAX_PAIRS = 300
"""Pairs of places looked at when asking whether one place takes in another; beyond, it is taken not to."""

ALL_BYTES = (1 << 256) - 1


class Places:
    """Place 0 is none. Those of a net are numbered from ``first[symbol]`` on, its start first; those of a terminal when it is first entered.

    next: byte → place, for each place, as a list by byte class; classes: the class of each byte. calls: (symbol, the place after it).
    final: whether the symbol may end here; is_end: whether nothing else can happen.
    """

    def __init__(self, network: Network, schema_codes: dict[int, list[int]]) -> None:
        self.network, self.schema_codes = network, schema_codes
        self.classes: list[bytes] = [bytes(256)]
        self.targets: list[list[int]] = [[0]]
        self.calls: list[tuple[tuple[int, int], ...]] = [()]
        self.final: list[bool] = [False]
        self.is_end: list[bool] = [False]
        self.terminal_of: list[int] = [-1]
        self.start: dict[int, int] = {}
        self._takes_in: dict[tuple[int, int], bool] = {}
        self._first: dict[int, int] = {}
        self._read: dict[int, int] = {}
        for symbol, net in network.nets.items():
            first = self.start[symbol] = len(self.final)
            for place, row in enumerate(net.rows):
                listed: dict[int, int] = {0: 0}
                classes = bytearray(256)
                for letter, target in row.items():
                    if letter < SYMBOL:
                        classes[letter] = listed.setdefault(first + target, len(listed))
                self.classes.append(bytes(classes))
                self.targets.append(list(listed))
                self.calls.append(
                    tuple((letter - SYMBOL, first + target) for letter, target in row.items() if letter >= SYMBOL)
                )
                self.final.append(net.final[place])
                self.is_end.append(net.is_end(place))
                self.terminal_of.append(-1)

    def terminal_start(self, symbol: int) -> int:
        """The place at the beginning of a terminal."""
        known = self.start.get(symbol)
        if known is None:
            dfa = self.network.terminals[symbol].dfa
            offset = len(self.final) - 1  # state 0, dead, has no place of its own
            known = self.start[symbol] = offset + dfa.start
            classes = dfa.byte_class.tobytes()
            accepting = dfa.accepting.tolist()
            for state, row in enumerate(dfa.delta.tolist()):
                if state == 0:
                    continue
                self.classes.append(classes)
                self.targets.append([target and offset + target for target in row])
                self.calls.append(())
                self.final.append(accepting[state])
                self.is_end.append(accepting[state] and not any(row))
                self.terminal_of.append(symbol)
        return known

    def entry(self, symbol: int, byte: int) -> int:
        """The place in a terminal after its first byte, or 0."""
        start = self.terminal_start(symbol)
        return self.targets[start][self.classes[start][byte]]

    def first(self, symbol: int) -> int:
        """The bytes with which a symbol may begin, as bits."""
        known = self._first.get(symbol)
        if known is None:
            if symbol in self.network.nets:
                self._find_first(symbol)
            elif symbol in self.schema_codes:
                self._first[symbol] = sum(1 << byte for byte, code in enumerate(self.schema_codes[symbol]) if code)
            else:
                self._first[symbol] = self._read_in(self.terminal_start(symbol))
            known = self._first[symbol]
        return known

    def first_of(self, place: int) -> int:
        """The bytes that may be read next in a place, without leaving its symbol."""
        bits = self._read_in(place)
        for symbol, _ in self.calls[place]:
            bits |= self.first(symbol)
        return bits

    def _find_first(self, symbol: int) -> None:
        """Find ``first`` of a net and of all nets that it may begin with: what each reads itself, handed on to those that begin with it."""
        bits: dict[int, int] = {}
        callers: dict[int, list[int]] = {}
        pending = [symbol]
        while pending:
            net = pending.pop()
            if net in bits:
                continue
            start = self.start[net]
            bits[net] = self._read_in(start)
            for called, _ in self.calls[start]:
                if called in self.network.nets and called not in self._first:
                    callers.setdefault(called, []).append(net)
                    pending.append(called)
                else:
                    bits[net] |= self.first(called)
        pending = list(bits)
        while pending:
            net = pending.pop()
            for caller in callers.get(net, ()):
                if bits[net] & ~bits[caller]:
                    bits[caller] |= bits[net]
                    pending.append(caller)
        self._first.update(bits)

    def _read_in(self, place: int) -> int:
        """The bytes that a place reads itself, as bits."""
        known = self._read.get(place)
        if known is None:
            targets, known = self.targets[place], 0
            if any(targets):
                known = sum(1 << byte for byte, number in enumerate(self.classes[place]) if targets[number])
            self._read[place] = known
        return known

    def beside(self, schema: int) -> int:
        """The bytes with which something else may begin where a schema's value may, as bits."""
        bits = 0
        for place, calls in enumerate(self.calls):
            if any(symbol == schema for symbol, _ in calls):
                bits |= self._read_in(place)
                for symbol, _ in calls:
                    bits |= self.first(symbol) if symbol != schema else 0
        return bits

    @cached_property
    def follow(self) -> dict[int, int]:
        """The bytes that may follow each symbol somewhere, as bits."""
        follow = dict.fromkeys((*self.network.nets, *self.network.terminals, *self.schema_codes), 0)
        ends: dict[int, set[int]] = {}  # symbols at the end of which others end
        for symbol, net in self.network.nets.items():
            for place in range(self.start[symbol], self.start[symbol] + len(net.rows)):
                for called, after in self.calls[place]:
                    follow[called] |= self.first_of(after)
                    if self.final[after]:
                        ends.setdefault(symbol, set()).add(called)
        pending = [symbol for symbol in ends if follow[symbol]]
        while pending:
            symbol = pending.pop()
            for called in ends.get(symbol, ()):
                if follow[symbol] & ~follow[called]:
                    follow[called] |= follow[symbol]
                    pending.append(called)
        return follow

    def takes_in(self, below: int, above: int) -> bool:
        """Whether what may follow ``above`` and then ``below`` is just what may follow ``below``: so after ``x ("," x)*`` in itself."""
        known = self._takes_in.get((below, above))
        if known is None:
            known = self._takes_in[below, above] = (
                self.terminal_of[below] < 0 and self.terminal_of[above] < 0 and self._compare(below, above)
            )
        return known

    def _compare(self, below: int, above: int) -> bool:
        first = frozenset([(True, above)] + ([(False, below)] if self.final[above] else []))
        pending = [(first, below)]
        seen = set(pending)
        while pending:
            mixed, place = pending.pop()
            if any(not is_above and self.final[p] for is_above, p in mixed) != self.final[place]:
                return False
            moves: dict[int, set[tuple[bool, int]]] = {}
            for is_above, p in mixed:
                for letter, target in self._letters(p):
                    reached = moves.setdefault(letter, set())
                    reached.add((is_above, target))
                    if is_above and self.final[target]:
                        reached.add((False, below))
            single = dict(self._letters(place))
            if moves.keys() != single.keys():
                return False
            for letter, reached in moves.items():
                pair = (frozenset(reached), single[letter])
                if pair not in seen:
                    seen.add(pair)
                    pending.append(pair)
            if len(seen) > _MAX_PAIRS:
                return False
        return True

    def _letters(self, place: int) -> list[tuple[int, int]]:
        targets = self.targets[place]
        found = [(byte, targets[number]) for byte, number in enumerate(self.classes[place]) if targets[number]]
        return found + [(SYMBOL + symbol, after) for symbol, after in self.calls[place]]
