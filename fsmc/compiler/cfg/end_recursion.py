"""Recursion at the beginning or the end of rules only lists things: it is turned into loops of nets."""

from __future__ import annotations

from fsmc.compiler.cfg.nets import SYMBOL, Draft, Limits, Net, components


def without_left_recursion(nets: dict[int, Net], entered: set[int], limits: Limits) -> dict[int, Net]:
    """The same languages with no rule that begins with itself, through whichever others; only of rules that are still called, or in
    ``entered``."""
    graph = {
        symbol: [letter - SYMBOL for letter in net.rows[0] if letter - SYMBOL in nets] for symbol, net in nets.items()
    }
    called = set(entered)
    for net in nets.values():
        rows = net.rows if any(0 in row.values() for row in net.rows) else net.rows[1:]
        called.update(letter - SYMBOL for row in rows for letter in row if letter >= SYMBOL)
    loops = [members for members in components(graph) if len(members) > 1 or members[0] in graph[members[0]]]
    inside = {member: i for i, members in enumerate(loops) for member in members}
    for symbol, begun in graph.items():
        called.update(other for other in begun if inside.get(other, -1) != inside.get(symbol, -2))
    changed = {symbol: net for symbol, net in nets.items() if symbol not in inside}
    for members in loops:
        for wanted in called.intersection(members):
            changed[wanted] = _from_the_left(wanted, members, nets, limits)
    return changed


def _from_the_left(wanted: int, members: list[int], nets: dict[int, Net], limits: Limits) -> Net:
    """A rule of a loop of rules that begin with each other, read from the left."""
    draft = Draft(limits)
    begin = draft.place()
    inside = set(members)
    first: dict[int, int] = {}
    after: dict[int, int] = {}  # rule → a place from which those after it, where it begins others, are reached
    for member in members:
        first[member] = draft.copy(nets[member])
        after[member] = draft.place()
    for member in members:
        start = draft.place()  # the beginning of the rule, to which nothing leads back
        draft.skips[begin].append(start)
        for letter, target in nets[member].rows[0].items():
            if letter - SYMBOL in inside:
                draft.skips[after[letter - SYMBOL]].append(first[member] + target)
            else:
                draft.edges[start].append((letter, first[member] + target))
        for place, is_final in enumerate(nets[member].final):
            if is_final:
                draft.skips[first[member] + place].append(after[member])
    net = nets[wanted]
    draft.final = {first[wanted] + place for place, is_final in enumerate(net.final) if is_final}
    if net.final[0]:
        draft.final.add(begin)
    return draft.to_net(begin)


def without_end_recursion(nets: dict[int, Net], limits: Limits) -> dict[int, Net]:
    """The same languages without calls among the rules, where each such call is the last thing in its rule; else the nets as they are."""
    for net in nets.values():
        for row in net.rows:
            if any(letter - SYMBOL in nets and not net.is_end(target) for letter, target in row.items()):
                return nets
    changed = {}
    for wanted in nets:
        draft = Draft(limits)
        first = {symbol: draft.copy(net) for symbol, net in nets.items()}
        for symbol, net in nets.items():
            for place, row in enumerate(net.rows):
                here = first[symbol] + place
                kept = []
                for letter, target in row.items():
                    if letter - SYMBOL in nets:
                        draft.skips[here].append(first[letter - SYMBOL])
                    else:
                        kept.append((letter, first[symbol] + target))
                draft.edges[here] = kept
                if net.final[place]:
                    draft.final.add(here)
        changed[wanted] = draft.to_net(first[wanted])
    return changed
