"""Putting rules into their callers, so that only real recursion calls."""

from __future__ import annotations

import heapq

from fsmc.compiler.cfg.nets import SYMBOL, Draft, Limits, Net
from fsmc.compiler.errors import LimitExceeded

MAX_PLACES = 600
"""Places of a net that others were put into,"""
MAX_TOTAL_PLACES = 100_000
"""and of all those that were made on the way: what is left then calls."""
_MAX_DETERMINED = 5_000


def inline(nets: dict[int, Net], root: int, limits: Limits) -> None:
    """Put nets that do not call themselves into their callers, the smallest first, as long as these stay small; drop what is not
    called any more."""
    callers: dict[int, set[int]] = {symbol: set() for symbol in nets}
    for symbol, net in nets.items():
        for called in net.symbols() & nets.keys():
            callers[called].add(symbol)
    heap = [(_cost(nets, callers, symbol), symbol) for symbol in nets if symbol != root]
    heapq.heapify(heap)
    small = limits._replace(max_states=min(limits.max_states, _MAX_DETERMINED))
    n_made = 0
    while heap and n_made < MAX_TOTAL_PLACES:
        cost, symbol = heapq.heappop(heap)
        if symbol not in nets:
            continue
        now = _cost(nets, callers, symbol)
        if now > cost:
            heapq.heappush(heap, (now, symbol))
            continue
        net = nets[symbol]
        if symbol in callers[symbol] or any(
            len(nets[caller].rows) + len(net.rows) > MAX_PLACES
            or len(nets[caller].rows) + _calls(nets[caller], symbol) * len(net.rows) > MAX_PLACES
            for caller in callers[symbol]
        ):
            continue
        together = {symbol: net}
        if len(callers[symbol]) == 1:  # those that the same rule calls go into it at once: it is made anew each time
            (caller,) = callers[symbol]
            room = MAX_PLACES - len(nets[caller].rows) - _calls(nets[caller], symbol) * len(net.rows)
            while heap and (other := heap[0][1]) in nets and callers[other] == {caller} != {other}:
                room -= _calls(nets[caller], other) * len(nets[other].rows)
                if room < 0:
                    break
                together[heapq.heappop(heap)[1]] = nets[other]
        try:
            changed = {caller: _with(nets[caller], together, small) for caller in callers[symbol]}
        except LimitExceeded as error:
            if error.name == "max_seconds":
                raise
            continue
        n_made += sum(len(made.rows) for made in changed.values())
        nets.update(changed)
        for symbol, net in together.items():
            for called in net.symbols() & nets.keys():
                callers[called].discard(symbol)
                callers[called] |= callers[symbol]
            del nets[symbol], callers[symbol]
    reached, pending = {root}, [root]
    while pending:
        for called in nets[pending.pop()].symbols() & nets.keys():
            if called not in reached:
                reached.add(called)
                pending.append(called)
    for symbol in nets.keys() - reached:
        del nets[symbol]


def _calls(net: Net, symbol: int) -> int:
    return sum(SYMBOL + symbol in row for row in net.rows)


def _cost(nets: dict[int, Net], callers: dict[int, set[int]], symbol: int) -> int:
    return len(nets[symbol].rows) * max(1, len(callers[symbol]))


def _with(net: Net, bodies: dict[int, Net], limits: Limits) -> Net:
    """The net with a copy of the body in place of each call of one of the symbols.

    Where a body may be empty the net has a way past it already. The copy is entered by a first letter only: with a second way past
    it, a rule in which this one is followed by the rule itself would begin with itself again.
    """
    draft = Draft(limits)
    draft.copy(net)
    draft.final = {place for place, is_final in enumerate(net.final) if is_final}
    for place, row in enumerate(net.rows):
        called = [letter for letter in row if letter - SYMBOL in bodies]
        if called:
            draft.edges[place] = [edge for edge in draft.edges[place] if edge[0] - SYMBOL not in bodies]
        for letter in called:
            body, target = bodies[letter - SYMBOL], row[letter]
            first = draft.copy(body)
            draft.edges[place] += [(letter, first + to) for letter, to in body.rows[0].items()]
            for end, is_final in enumerate(body.final):
                if is_final:
                    draft.skips[first + end].append(target)
    return draft.to_net()
