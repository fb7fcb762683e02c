"""Machines for people: a readable table, and a drawing in Graphviz's language. `svg` draws without Graphviz."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.automata.tables import CALL, EXIT, RECORDED

MAX_DUMPED_STATES = 200


@dataclass(frozen=True, slots=True)
class Edge:
    """All bytes of ``source`` that do the same thing: ``label`` writes them as ranges.

    ``target`` is the next state, or None for an exit; ``action`` is "" or says what call or exit it is; ``frame`` is the
    return frame that a call pushes, else None.
    """

    source: int
    target: int | None
    label: str
    action: str = ""
    frame: int | None = None


def edges_of(machine: DFA | RecursiveMachine, states: Iterable[int] | None = None) -> list[Edge]:
    """The edges of the given states (default: all), without those to DEAD, in the order of their first bytes.

    >>> dfa = DFA.from_arrays(np.arange(256) < 128, [[-1, 1], [1, -1]], [False, True], start=0)
    >>> for edge in edges_of(dfa):
    ...     print(edge.source, edge.label, edge.target)
    1 00-7F 2
    2 80-FF 2
    """
    edges = []
    for state in range(machine.n_states) if states is None else states:
        if isinstance(machine, DFA):
            row = machine.delta[state, machine.byte_class]
        elif machine.is_built(state):
            row = machine.row(state)
        else:
            continue
        entries, first = np.unique(row, return_index=True)
        for entry in entries[np.argsort(first)].tolist():
            label = byte_ranges(np.flatnonzero(row == entry).tolist())
            if entry > DEAD:
                edges.append(Edge(state, entry, label))
            elif entry < DEAD and isinstance(machine, RecursiveMachine):
                kind, operand, frame = machine.action(entry)
                if kind == CALL:
                    edges.append(Edge(state, operand, label, f"call, frame {_frame_name(frame)}", frame))
                else:
                    redo = "" if kind == EXIT else ", same byte again"
                    edges.append(Edge(state, None, label, f"exit {operand}{redo}"))
    return edges


def byte_ranges(values: Iterable[int]) -> str:
    """Sorted byte values as ranges: printable ASCII as itself (quoted where it would mislead), others as two hex digits.

    >>> byte_ranges([*b" -019abc", 128, 129, 255])
    "' ' '-' 0 1 9 a-c 80 81 FF"
    """
    ranges: list[list[int]] = []
    for value in values:
        if ranges and ranges[-1][1] + 1 == value:
            ranges[-1][1] = value
        else:
            ranges.append([value, value])
    words = []
    for low, high in ranges:
        words += [_byte_name(low)] if low == high else [_byte_name(low), _byte_name(high)]
        if high > low + 1:
            words[-2:] = ["-".join(words[-2:])]
    return " ".join(words)


def dump(machine: DFA | RecursiveMachine, max_states: int = MAX_DUMPED_STATES) -> str:
    """The machine as a table: one line for each state and target; ``>`` marks the start, ``*`` accepting states.

    Of an RSM or a `LazyRSM`, ``*k`` marks states in which the text may end with outcome k, and the return frames follow. Beyond
    ``max_states`` states the table says how many are left out.

    >>> dfa = DFA.from_arrays(np.arange(256) == ord("a"), [[0, 1], [0, 2], [0, 1]], [False, True, False], start=2)
    >>> print(dump(dfa))
    DFA with 4 states (0 is DEAD) and 2 byte classes; > start, * accepting
      >  1  00-` b-FF  → 2
            a          → 3
         2  00-` b-FF  → 2
            a          → 3
       * 3  00-` b-FF  → 2
            a          → 1
    """
    if isinstance(machine, DFA):
        kind, legend = "DFA", f"and {machine.n_classes} byte classes; > start, * accepting"
    elif isinstance(machine, RSM):
        kind, legend = "RSM", f"and {machine.n_classes} byte classes; > start, *k may end with outcome k"
    else:
        kind, legend = "LazyRSM", "so far; > start, *k may end with outcome k, ? not built"
    lines = [f"{kind} with {machine.n_states} states (0 is DEAD) {legend}"]
    shown = range(1, min(machine.n_states, max_states + 1))
    edges = edges_of(machine, shown)
    width = max((len(edge.label) for edge in edges), default=0)
    digits = len(str(machine.n_states - 1))
    marks = {state: _final_mark(machine, state) for state in shown}
    mark_width = max(map(len, marks.values()), default=0)
    by_state: dict[int, list[Edge]] = {state: [] for state in shown}
    for edge in edges:
        by_state[edge.source].append(edge)
    for state, outgoing in by_state.items():
        head = f"{'>' if state == machine.start else ' '}{marks[state]:>{mark_width}} {state:>{digits}}"
        cells = [f"{edge.label:<{width}}  {_destination(edge)}" for edge in outgoing] or [""]
        heads = [head, *[" " * len(head)] * (len(cells) - 1)]
        lines += [f"  {head}  {cell}".rstrip() for head, cell in zip(heads, cells, strict=True)]
    if machine.n_states - 1 > len(shown):
        lines.append(f"  … and {machine.n_states - 1 - len(shown)} more states")
    if isinstance(machine, RecursiveMachine):
        for frame, known in groupby(machine.known_returns(), key=itemgetter(0)):
            returns = ", ".join(f"outcome {outcome}: {target or 'DEAD'}" for _, outcome, target in known)
            lines.append(f"  frame {_frame_name(frame)} returns on {returns}")
    return "\n".join(lines)


def to_dot(machine: DFA | RecursiveMachine) -> str:
    """The state diagram for Graphviz: ``dot -Tsvg``. DEAD is not drawn; calls are dashed, where they return dotted.

    Of a `LazyRSM` both views show what is built so far, and build nothing.

    >>> print(to_dot(DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0)))
    digraph machine {
      rankdir=LR; node [shape=circle]; entry [shape=point];
      2 [shape=doublecircle];
      entry -> 1;
      1 -> 2 [label="00-FF"];
    }
    """
    lines = ["digraph machine {", "  rankdir=LR; node [shape=circle]; entry [shape=point];"]
    shapes = {"*": "shape=doublecircle", "?": "style=dotted"}
    for state in range(1, machine.n_states):
        if mark := _final_mark(machine, state):
            lines.append(f"  {state} [{shapes[mark[0]]}];")
    if machine.start != DEAD:
        lines.append(f"  entry -> {machine.start};")
    returns: dict[int, list[tuple[int, int]]] = {}
    if isinstance(machine, RecursiveMachine):
        for frame, outcome, target in machine.known_returns():
            returns.setdefault(frame, []).append((outcome, target))
    for edge in edges_of(machine):
        label = _dot_string(f"{edge.label} / {edge.action}" if edge.action else edge.label)
        if edge.target is None:
            exit_node = _dot_string(f"{edge.source} {edge.action}")
            lines.append(f"  {exit_node} [shape=plaintext, label={_dot_string(edge.action)}];")
            lines.append(f"  {edge.source} -> {exit_node} [label={_dot_string(edge.label)}];")
        elif edge.frame is None:
            lines.append(f"  {edge.source} -> {edge.target} [label={label}];")
        else:
            lines.append(f"  {edge.source} -> {edge.target} [label={label}, style=dashed];")
            for outcome, target in returns.get(edge.frame, ()):
                if target != DEAD:
                    lines.append(f'  {edge.source} -> {target} [label="outcome {outcome}", style=dotted];')
    return "\n".join([*dict.fromkeys(lines), "}"])  # several calls may return to one state with the same outcome


def _byte_name(byte: int) -> str:
    if not 0x20 <= byte < 0x7F:
        return f"{byte:02X}"
    return repr(chr(byte)) if chr(byte) in " -'\"\\" else chr(byte)


def _final_mark(machine: DFA | RecursiveMachine, state: int) -> str:
    if isinstance(machine, DFA):
        return "*" if machine.accepting[state] else ""
    if not machine.is_built(state):
        return "?"
    return f"*{machine.final(state)}" if machine.final(state) >= 0 else ""


def _frame_name(frame: int) -> str:
    return f"{frame & ~RECORDED}, recorded" if frame >= RECORDED else str(frame)


def _destination(edge: Edge) -> str:
    return " ".join(part for part in (edge.action, "" if edge.target is None else f"→ {edge.target}") if part)


def _dot_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
