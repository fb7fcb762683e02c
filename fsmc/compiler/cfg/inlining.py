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
        try:
            changed = {caller: _with(nets[caller], symbol, net, small) for caller in callers[symbol]}
        except LimitExceeded as error:
            if error.name == "max_seconds":
                raise
            continue
        n_made += sum(len(made.rows) for made in changed.values())
        nets.update(changed)
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


def _with(net: Net, symbol: int, body: Net, limits: Limits) -> Net:
    """The net with a copy of ``body`` in place of each call of the symbol.

    Where the body may be empty the net has a way past it already. The copy is entered by a first letter only: with a second way past
    it, a rule in which this one is followed by the rule itself would begin with itself again.
    """
    draft = Draft(limits)
    draft.copy(net)
    draft.final = {place for place, is_final in enumerate(net.final) if is_final}
    for place, row in enumerate(net.rows):
        target = row.get(SYMBOL + symbol)
        if target is None:
            continue
        draft.edges[place] = [edge for edge in draft.edges[place] if edge[0] != SYMBOL + symbol]
        first = draft.copy(body)
        draft.edges[place] += [(letter, first + to) for letter, to in body.rows[0].items()]
        for end, is_final in enumerate(body.final):
            if is_final:
                draft.skips[first + end].append(target)
    return draft.to_net()
