"""From and to the machines of `interegular`: FSMs over characters, with a symbol for "anything else".

Our machines read bytes, those read characters, so coming in each set of characters becomes its UTF-8 automaton, and going
out the bytes of each character are joined again. Both ways are exact on all text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.edges import character_edges, text_nfa
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.errors import LimitExceeded, MachineError
from fsmc.compiler.syntax.charclass import ANY, EMPTY, MAX_CODE_POINT, CharClass

MAX_SYMBOLS = 300_000


def from_interegular(fsm: Any, **limits: Any) -> DFA:
    """The minimal DFA over bytes of an ``interegular.FSM`` (``interegular.parse_pattern(pattern).to_fsm()``).

    ``limits`` are those of `determinize`. Raises MachineError if it is no such FSM or a symbol is not one character.

    >>> import interegular
    >>> from_interegular(interegular.parse_pattern("[^a]b").to_fsm()).matches("éb".encode())
    True
    """
    from interegular.fsm import FSM, anything_else

    if not isinstance(fsm, FSM):
        raise MachineError(f"an interegular FSM is needed, not {type(fsm).__name__}")
    try:
        return _from_fsm(fsm, anything_else, limits)
    except (AttributeError, KeyError, TypeError) as error:
        raise MachineError(f"the FSM is damaged: {type(error).__name__}: {error}") from error


def _from_fsm(fsm: Any, anything_else: Any, limits: dict[str, Any]) -> DFA:
    explicit: dict[Any, CharClass] = {}  # transition key → its characters
    else_key = None
    for key, symbols in fsm.alphabet.by_transition.items():
        for symbol in symbols:
            if symbol is anything_else:
                else_key = key
            elif not isinstance(symbol, str) or len(symbol) != 1:
                raise MachineError(f"symbol {symbol!r} of the FSM's alphabet is not one character")
        explicit[key] = CharClass.of(symbol for symbol in symbols if symbol is not anything_else)
    if else_key is not None:
        named = CharClass.from_ranges(span for chars in explicit.values() for span in chars.ranges)
        explicit[else_key] |= ANY - named
    number = {state: i for i, state in enumerate(fsm.states)}
    steps = []
    for state, row in fsm.map.items():
        by_target: dict[int, CharClass] = {}
        for key, target in row.items():
            by_target[number[target]] = by_target.get(number[target], EMPTY) | explicit[key]
        steps += [(number[state], chars, target) for target, chars in by_target.items()]
    accepting = [number[state] for state in fsm.finals]
    return minimize(determinize(text_nfa(steps, len(number), number[fsm.initial], accepting), **limits))


def to_interegular(dfa: DFA, *, max_symbols: int = MAX_SYMBOLS) -> Any:
    """The ``interegular.FSM`` of a machine of text; its states are those of ours between characters.

    Such an FSM names each character of its alphabet: here all but the largest set of characters that the machine treats
    alike, which is "anything else". Raises LimitExceeded if more than ``max_symbols`` are left to name, and MachineError if
    the machine accepts anything that is not UTF-8.

    >>> from fsmc.compiler.automata.nfa import thompson
    >>> from fsmc.compiler.syntax.regex import parse_regex
    >>> to_interegular(determinize(thompson(parse_regex("[^a]b")))).accepts("éb")
    True
    """
    from interegular.fsm import FSM, Alphabet, anything_else

    edges = character_edges(dfa)
    states, rows = np.unique(np.append(edges[:, [0, 3]].ravel(), dfa.start), return_inverse=True)
    # Between two cuts all characters behave alike; intervals with equal columns of targets are one symbol class.
    cuts = np.unique(np.concatenate([edges[:, 1], edges[:, 2] + 1, [0, 0xD800, 0xE000, MAX_CODE_POINT + 1]]))
    targets = np.full((len(states), len(cuts) - 1), -1, np.int32)
    spans = np.stack([rows[:-1:2], np.searchsorted(cuts, edges[:, 1]), np.searchsorted(cuts, edges[:, 2] + 1)], axis=1)
    for (row, first, end), target in zip(spans.tolist(), edges[:, 3].tolist(), strict=True):
        targets[row, first:end] = target
    columns, class_of = np.unique(targets, axis=1, return_inverse=True)
    class_of = class_of.reshape(-1)
    widths = np.diff(cuts) * (cuts[:-1] != 0xD800)  # surrogates are no characters
    n_characters = np.bincount(class_of, widths).astype(np.int64)
    largest = int(n_characters.argmax())
    n_symbols = int(n_characters.sum() - n_characters[largest])
    if n_symbols > max_symbols:
        raise LimitExceeded("max_symbols", max_symbols, n_symbols, "an interegular alphabet names them one by one")
    symbols: dict[Any, Any] = {anything_else: largest}
    for low, end, key in zip(cuts[:-1].tolist(), cuts[1:].tolist(), class_of.tolist(), strict=True):
        if key != largest and low != 0xD800:
            symbols.update((chr(code_point), key) for code_point in range(low, end))
    return FSM(
        alphabet=Alphabet(symbols),
        states=set(states.tolist()),
        initial=dfa.start,
        finals={state for state in states.tolist() if dfa.accepting[state]},
        map={
            state: {key: target for key, target in enumerate(row) if target >= 0}
            for state, row in zip(states.tolist(), columns.tolist(), strict=True)
        },
    )
