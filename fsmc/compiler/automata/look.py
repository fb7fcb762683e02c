"""Look-around, exactly and anywhere: guards are compiled away before the subset construction.

A look asks about the text only, so wherever it stands, the language stays regular. The parts:

1. The *joint* machine is a DFA that reads the text from its start and runs all look-behinds at once; its state says which
   of them hold here. ``\\A`` is one bit of it.
2. A look-ahead becomes the minimal DFA of its body followed by anything; ``\\Z`` is the language of the empty rest. Its
   states are *obligations* on the rest of the text (see `obligations`), with complements for negative looks.
3. At each joint state a guard has a value: a list of alternative sets of obligations under which it holds. No alternative: it
   is shut; the empty set: it is open. A look-behind that holds a look-ahead has obligations in its value as well.
4. The NFA is unfolded into threads with those values (see `look_product`), a plain NFA.

Inner looks come first: a look's body is unfolded with the values of the looks inside it, so nesting needs no other rule.
Everything works on *symbols*, the byte intervals that no range of any body tells apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.look_product import Threads, unfold
from fsmc.compiler.automata.minimize import refine
from fsmc.compiler.automata.nfa import NFA, NO_GUARD, thompson
from fsmc.compiler.automata.obligations import EMPTY, FALSE, Obligations
from fsmc.compiler.automata.range_table import RangeTable, fill_columns
from fsmc.compiler.automata.subsets import (
    ACCEPTS_ALL,
    FINAL,
    READS,
    Limits,
    PlainNFA,
    Subsets,
    construct_subsets,
    offsets_by_source,
)
from fsmc.compiler.syntax.expr import Expr, Look, TextEnd, TextStart

_Values = list[list[int]]
"""By joint state: the alternative sets of obligations under which a guard holds."""


def determinize_guarded(nfa: NFA, limits: Limits) -> RangeTable:
    """The DFA of an NFA with guards. Its states need not reach acceptance."""
    bodies: dict[Expr, NFA] = {}
    _collect_bodies(nfa, bodies, limits)
    starts_here = np.zeros(257, np.bool_)
    starts_here[[0, 256]] = True
    for each in (nfa, *bodies.values()):
        starts_here[each.edges[:, 1]] = True
        starts_here[each.edges[:, 2] + 1] = True
    bounds = np.flatnonzero(starts_here).astype(np.int32)

    looks = _Looks(bodies, bounds, limits)
    for guard in nfa.guards:
        looks.resolve(guard)
    table = looks.run(nfa)
    ranges = table.ranges.copy()
    ranges[:, 0] = bounds[table.ranges[:, 0]]
    ranges[:, 1] = bounds[table.ranges[:, 1] + 1] - 1
    return RangeTable(table.offsets, ranges, table.accepting, table.start)


def _collect_bodies(nfa: NFA, bodies: dict[Expr, NFA], limits: Limits) -> None:
    """The NFAs of the bodies of all looks, however deep."""
    for guard in nfa.guards:
        if isinstance(guard, Look) and guard.body not in bodies:
            body = bodies[guard.body] = thompson(guard.body, max_states=limits.max_states)
            _collect_bodies(body, bodies, limits)


class _Looks:
    """Values of guards, inner ones first, over a joint machine that grows with each look-behind."""

    def __init__(self, bodies: dict[Expr, NFA], bounds: npt.NDArray[np.int32], limits: Limits) -> None:
        self._bodies, self._limits = bodies, limits
        n_symbols = len(bounds) - 1
        self._symbol_of_byte = np.repeat(np.arange(n_symbols, dtype=np.int32), np.diff(bounds))
        self._obligations = Obligations(n_symbols)
        self._values: dict[Expr, _Values] = {}
        # Joint state 0: nothing has been read yet. 1: something has. Look-behinds refine this.
        self._joint = np.ones((2, n_symbols), np.int32)

    def resolve(self, guard: Expr) -> None:
        """Find the values of a guard at all joint states, and those of the guards inside it before."""
        if guard in self._values:
            return
        match guard:
            case TextStart():
                values: _Values = [[EMPTY] if state == 0 else [] for state in range(len(self._joint))]
            case TextEnd():
                no_symbol = np.zeros((2, self._obligations.n_symbols), np.int32)
                states = self._obligations.add_machine(no_symbol, np.array([False, True]))
                values = [self._alternatives(int(states[1]))] * len(self._joint)
            case Look(body, ahead, True):
                positive = Look(body, ahead, False)
                self.resolve(positive)
                values = [self._obligations.negate(sets) for sets in self._values[positive]]
            case Look(body, ahead, False):
                nfa = self._bodies[body]
                for inner in nfa.guards:
                    self.resolve(inner)
                values = self._look_ahead(nfa) if ahead else self._look_behind(nfa)
            case _:
                raise AssertionError(f"not a guard: {guard}")
        self._values[guard] = values

    def run(self, nfa: NFA) -> RangeTable:
        """The machine, over symbols, of the whole text."""
        threads = self._unfold(nfa, nfa.edges, nfa.epsilons, nfa.n_states, joint_starts=1)
        return self._construct(threads, self._fulfilled_in(threads, nfa.final)).table

    def _look_ahead(self, body: NFA) -> _Values:
        """Minimal machine of the body, then anything: from the body's end on, only its own obligations are left."""
        last = self._obligations.n_symbols - 1
        edges = np.concatenate([body.edges, np.array([[body.final, 0, 255, body.final]], np.int32)])
        threads = self._unfold(body, edges, body.epsilons, body.n_states, joint_starts=len(self._joint))
        is_open = (threads.states[:, 1] == body.final) & (threads.states[:, 2] == EMPTY)
        subsets = self._construct(threads, self._fulfilled_in(threads, body.final), is_open)
        blocks = refine(subsets.table, subsets.table.accepting.astype(np.int32))
        _, first, block = np.unique(blocks, return_index=True, return_inverse=True)
        delta = block.astype(np.int32)[fill_columns(subsets.table, last + 1)[first]]
        states = self._obligations.add_machine(delta, subsets.table.accepting[first])
        return [self._alternatives(int(state)) for state in states[block[subsets.starts]]]

    def _look_behind(self, body: NFA) -> _Values:
        """Refine the joint machine: its states become sets of threads of anything, then the body."""
        n_symbols = self._obligations.n_symbols
        edges = np.concatenate([np.array([[0, 0, 255, 0]], np.int32), body.edges + np.array([1, 0, 0, 1], np.int32)])
        epsilons = np.concatenate(
            [np.array([[0, 1, NO_GUARD]], np.int32), body.epsilons + np.array([1, 1, 0], np.int32)]
        )
        threads = self._unfold(body, edges, epsilons, body.n_states + 1, joint_starts=1, first_keeps_joint=True)
        subsets = self._construct(threads, threads.states[:, 1] == body.final + 1)

        labels: dict[tuple[int, tuple[int, ...]], int] = {(-1, ()): 0}
        initial = np.zeros(subsets.table.n_states, np.int32)
        keys: list[tuple[int, tuple[int, ...]]] = [(-1, ())]
        members = threads.states[subsets.pool[: subsets.offsets[-1]]].tolist()
        offsets = subsets.offsets.tolist()
        for state in range(1, subsets.table.n_states):
            own = members[offsets[state] : offsets[state + 1]]
            (joint,) = (joint for joint, nfa_state, _ in own if nfa_state == 0)
            found = (obligations for _, nfa_state, obligations in own if nfa_state == body.final + 1)
            keys.append((joint, tuple(self._obligations.weakest(found))))
            initial[state] = labels.setdefault(keys[-1], len(labels))
        blocks = refine(subsets.table, initial)
        blocks[0] = blocks.max() + 1  # DEAD, which a joint machine never reaches, goes last, the start first
        order = np.unique(blocks[1:], return_index=True)[1] + 1
        order.sort()
        number = np.zeros(int(blocks[0]) + 1, np.int32)
        number[blocks[order]] = np.arange(len(order))
        self._joint = number[blocks[fill_columns(subsets.table, n_symbols)[order]]]
        was = [keys[state][0] for state in order.tolist()]
        for guard, values in self._values.items():
            self._values[guard] = [values[joint] for joint in was]
        return [list(keys[state][1]) for state in order.tolist()]

    def _alternatives(self, obligation: int) -> list[int]:
        return [] if obligation == FALSE else [self._obligations.intern([obligation])]

    def _unfold(
        self,
        nfa: NFA,
        edges: npt.NDArray[np.int32],
        epsilons: npt.NDArray[np.int32],
        n_states: int,
        *,
        joint_starts: int,
        first_keeps_joint: bool = False,
    ) -> Threads:
        symbols = edges.copy()
        symbols[:, 1:3] = self._symbol_of_byte[edges[:, 1:3]]
        starts = np.zeros((joint_starts, 3), np.int32)
        starts[:, 0] = np.arange(joint_starts)
        values = [self._values[guard] for guard in nfa.guards]
        return unfold(
            symbols, epsilons, n_states, self._joint, values, self._obligations, starts, first_keeps_joint, self._limits
        )

    def _fulfilled_in(self, threads: Threads, final: int) -> npt.NDArray[np.bool_]:
        """bool by thread: it is in the final state and owes nothing that an empty rest does not fulfil."""
        by_set = np.array([self._obligations.is_fulfilled(number) for number in range(self._obligations.n_sets)])
        fulfilled: npt.NDArray[np.bool_] = (threads.states[:, 1] == final) & by_set[threads.states[:, 2]]
        return fulfilled

    def _construct(
        self, threads: Threads, final: npt.NDArray[np.bool_], accepts_all: npt.NDArray[np.bool_] | None = None
    ) -> Subsets:
        n_threads = len(threads.states)
        edge_offsets = offsets_by_source(threads.edges[:, 0], n_threads)
        marks = (edge_offsets[1:] > edge_offsets[:-1]) * np.uint8(READS) + final * np.uint8(FINAL)
        if accepts_all is not None:
            marks += accepts_all * np.uint8(ACCEPTS_ALL)
        epsilon_offsets = offsets_by_source(threads.epsilons[:, 0], n_threads)
        plain = PlainNFA(
            edge_offsets,
            threads.edges,
            epsilon_offsets,
            threads.epsilons[:, 1].copy(),
            marks.astype(np.uint8),
            threads.starts,
        )
        return construct_subsets(plain, self._limits)
