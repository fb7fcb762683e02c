"""What the states and outcomes of a grammar's machine are in the words of the grammar: for people who look at it."""

from __future__ import annotations

import numpy as np

from fsmc.compiler.cfg.machine import GrammarMachine

WITHOUT_NAME = "text"
"""What a character class in the middle of a rule is called."""
SCHEMA = "JSON value"
_MAX_NAMES = 4
_MAX_LITERAL = 24  # bytes


def rule_of_state(machine: GrammarMachine, state: int) -> str:
    """The rules whose text a state is inside of.

    >>> from fsmc.compiler.cfg.recipe import GrammarRecipe
    >>> rsm = GrammarRecipe('root ::= "(" root ")" | number\\nnumber ::= [0-9]+ "."').build()
    >>> [rule_of_state(rsm.builder, rsm.step(rsm.initial, byte).state) for byte in b"(1"]
    ['root', 'number']
    """
    key = machine.rsm.state_key(state)
    if isinstance(key, int):
        return _names(machine, _bases(machine, key))
    terminal = machine.terminal_of(state)
    return SCHEMA if terminal is None else _names(machine, [terminal])


def rule_of_outcome(machine: GrammarMachine, outcome: int) -> str:
    """The rules that are complete with an outcome, or that go on in their caller."""
    key = machine.outcome_key(outcome)
    if isinstance(key, int):
        return f"{_names(machine, _bases(machine, key))}, or more of it"
    return SCHEMA if isinstance(key, tuple) else _names(machine, sorted(key or ()))


def _bases(machine: GrammarMachine, stacks: int) -> list[int]:
    """The symbols at the ends of the stacks of a set."""
    found: set[int] = set()
    pending, seen = [stacks], {stacks}
    while pending:
        for place, rest in machine.sets.entries[pending.pop()]:
            if place < 0:
                found.add(-1 - place)
            elif rest not in seen:
                seen.add(rest)
                pending.append(rest)
    return sorted(found)


def _names(machine: GrammarMachine, symbols: list[int]) -> str:
    names = list(dict.fromkeys(_name(machine, symbol) for symbol in symbols))
    return " | ".join(names[:_MAX_NAMES]) + (" …" if len(names) > _MAX_NAMES else "")


def _name(machine: GrammarMachine, symbol: int) -> str:
    """A rule's name; of what has none, the text that it begins with."""
    network = machine.network
    name = network.names[symbol if symbol < len(network.names) else network.root]
    if name and not name.startswith("%"):
        return name
    if symbol not in network.terminals:
        return SCHEMA if symbol in network.schemas else WITHOUT_NAME
    dfa = network.terminals[symbol].dfa
    state, text = dfa.start, bytearray()
    while not dfa.accepting[state] and len(text) < _MAX_LITERAL:
        live = np.flatnonzero(dfa.delta[state][dfa.byte_class])
        if len(live) != 1:
            break
        text.append(live[0])
        state = int(dfa.delta[state, dfa.byte_class[live[0]]])
    begins = text.decode("utf-8", "ignore") + ("" if dfa.accepting[state] else "…")
    return f"'{begins}'" if text else WITHOUT_NAME
