"""Two grammars as one: a text of either, or one of the first and then one of the second.

The symbols stand side by side, and the new root begins as the old ones do. What can be read in more than one way (`aⁿbⁿ` before `a*`) is run as a set,
like all else in grammars.
"""

from __future__ import annotations

import dataclasses

from fsmc.compiler.automata.determinize import MAX_BYTES, MAX_SECONDS, MAX_STATES
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.cfg.nets import SYMBOL, Draft, Limits, Net
from fsmc.compiler.cfg.rules import Network
from fsmc.compiler.cfg.terminals import Terminal


def of_dfa(dfa: DFA) -> Network:
    """The network of one terminal. The DFA is not empty."""
    found = Network()
    found.names = [""]
    found.terminals[0] = Terminal((MAX_STATES, MAX_BYTES, MAX_SECONDS), dfa=dfa)
    found.root_nullable = bool(dfa.accepting[dfa.start])
    return found


def union(a: Network, b: Network) -> Network:
    """The network of what either allows.

    >>> import numpy as np
    >>> from fsmc.compiler.cfg.machine import GrammarMachine
    >>> from fsmc.compiler.cfg.recipe import GrammarRecipe
    >>> brackets = GrammarRecipe('root ::= "(" root ")" | "x"').build().builder.network
    >>> dfa = DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [True, True], start=0)
    >>> machine = GrammarMachine(union(brackets, of_dfa(dfa))).rsm
    >>> [machine.matches(text) for text in (b"((x))", b"x", b")", b"", b"((")]
    [True, True, True, True, False]
    """
    found, roots = _side_by_side(a, b)
    found.root_nullable = a.root_nullable or b.root_nullable
    draft = _draft()
    start, end = draft.place(), draft.place()
    for root in roots:
        _write(draft, found, root, start, end)
    draft.final.add(end)
    return _with_root(found, draft)


def concatenation(a: Network, b: Network) -> Network:
    """The network of a text of ``a``, followed by one of ``b``.

    >>> from fsmc.compiler.cfg.machine import GrammarMachine
    >>> from fsmc.compiler.cfg.recipe import GrammarRecipe
    >>> pairs = GrammarRecipe('root ::= "a" root "b" | ""').build().builder.network
    >>> machine = GrammarMachine(concatenation(pairs, pairs)).rsm
    >>> [machine.matches(text) for text in (b"", b"aabbab", b"ab", b"aab", b"ababab")]
    [True, True, True, False, False]
    """
    found, roots = _side_by_side(a, b)
    found.root_nullable = a.root_nullable and b.root_nullable
    draft = _draft()
    start = draft.place()
    for root, network in zip(roots, (a, b), strict=True):
        end = draft.place()
        _write(draft, found, root, start, end)
        if network.root_nullable:
            draft.skips[start].append(end)
        start = end
    draft.final.add(start)
    return _with_root(found, draft)


def _draft() -> Draft:
    return Draft(Limits.new(MAX_STATES, MAX_BYTES, MAX_SECONDS))


def _side_by_side(a: Network, b: Network) -> tuple[Network, tuple[int, int]]:
    """The symbols of both, those of ``b`` behind those of ``a``; and the two roots."""
    shift = len(a.names)
    found = Network()
    found.text, found.notes = f"{a.text}\n{b.text}", [*a.notes, *(note for note in b.notes if note not in a.notes)]
    found.names = [*a.names, *b.names]
    found.nets = dict(a.nets)
    found.terminals = {**a.terminals, **{shift + symbol: terminal for symbol, terminal in b.terminals.items()}}
    found.schemas = dict(a.schemas)
    for symbol, net in b.nets.items():
        rows = [{_shifted(letter, shift): target for letter, target in row.items()} for row in net.rows]
        found.nets[shift + symbol] = Net(rows, net.final)
    behind = len(a.text) + 1
    for symbol, schema in b.schemas.items():
        start, end = schema.span
        found.schemas[shift + symbol] = dataclasses.replace(schema, span=(behind + start, behind + end))
    return found, (a.root, shift + b.root)


def _shifted(letter: int, shift: int) -> int:
    return letter if letter < SYMBOL else letter + shift


def _write(draft: Draft, found: Network, root: int, start: int, end: int) -> None:
    """Write a root's texts, but for the empty one, into the new root: in place if nothing calls it, so that sums of sums do not nest."""
    net = found.nets.get(root)
    if net is None or any(root in other.symbols() for other in found.nets.values()):
        draft.edges[start].append((SYMBOL + root, end))
        return
    first = draft.copy(net)
    draft.edges[start] += draft.edges[first]
    for place, is_final in enumerate(net.final):
        if is_final:
            draft.skips[first + place].append(end)
    del found.nets[root]


def _with_root(found: Network, draft: Draft) -> Network:
    found.root = len(found.names)
    found.names.append("")
    found.nets[found.root] = draft.to_net()
    return found
