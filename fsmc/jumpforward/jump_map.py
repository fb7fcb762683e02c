"""Forced text: where only one byte can follow, nobody need ask the model.

A state is *forced* when the text may not end there and exactly one byte leads on. A chain of forced states is one jump
(the "compressed FSM" of Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs", 2024). From
a character boundary the jump is the longest common prefix, in whole characters, of everything that may follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA, Array
from fsmc.compiler.automata.recursion import Configuration, RecursiveMachine
from fsmc.compiler.automata.rsm import CALL, EXIT, RSM
from fsmc.compiler.automata.tables import RECORDED
from fsmc.compiler.errors import MachineError
from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks
from fsmc.compiler.tokens.walk import FREE, MAX_JUMP_BYTES, N_TEXT_BYTES, Jump, jump_on_stack
from fsmc.jit import kernel

ASK_STACK = -2
"""Values FREE (-1) and this of ``next_byte`` where the state alone forces nothing: FREE with any stack; ASK_STACK where an exit or the end
of the text is possible, so that what is left depends on the return frames."""


class JumpForwardMap:
    """The forced byte of every state of a machine, and how far the jump from it reaches.

    source: a `DFA`, an `RSM`, a `LazyRSM`, or whatever has such a ``machine`` (a compiled grammar); else MachineError.
    max_bytes: of one jump. The arrays are empty for a `LazyRSM`, whose states are not known yet: its jumps are found from
    the configuration, and the rows on the way built.

    next_byte: int16[n_states], the forced byte, or FREE (-1) or ASK_STACK (-2, only in machines with calls).
    next_state: int32[n_states], the state after it; 0 where no byte is forced, or an exit is (the caller's frame knows).
    length: int32[n_states], the bytes forced from here to the last character boundary, as far as the state alone tells.
    inside_character: bool[n_states], whether the text so far ends inside a character.

    A jump may end on an accepting state, but never passes through one. In a trimmed DFA forced states form no cycle;
    where they do form one, since no text can be completed there, its states count as free.

    >>> text = b"name: "
    >>> delta = np.zeros((8, 256), np.int32)
    >>> delta[np.arange(1, 7), list(text)] = np.arange(2, 8)
    >>> delta[7, list(b"ab")] = 7
    >>> dfa = DFA.from_arrays(np.arange(256), delta, np.arange(8) == 7, start=1)
    >>> jumps = JumpForwardMap(dfa)
    >>> jumps.jump(dfa.start), jumps.jump(dfa.run(b"name")), jumps.jump(dfa.run(text))
    ((b'name: ', 7), (b': ', 7), (b'', 7))
    """

    def __init__(self, source: Any, *, max_bytes: int = MAX_JUMP_BYTES) -> None:
        machine = getattr(source, "machine", source)
        if isinstance(machine, DFA):
            machine = RSM.from_dfa(machine)
        if not isinstance(machine, RecursiveMachine):
            raise MachineError(
                f"a JumpForwardMap needs a DFA, an RSM or a compiled grammar, not {type(source).__name__}"
            )
        self.machine: RecursiveMachine = machine
        self.max_bytes = max_bytes
        self._stacks = ReturnStacks()
        n_states = machine.n_states if isinstance(machine, RSM) else 0
        self.next_byte: npt.NDArray[np.int16] = np.empty(n_states, np.int16)
        self.next_state: npt.NDArray[np.int32] = np.zeros(n_states, np.int32)
        self.length: npt.NDArray[np.int32] = np.full(n_states, -1, np.int32)
        self.inside_character: npt.NDArray[np.bool_] = np.empty(n_states, np.bool_)
        if isinstance(machine, RSM):
            class_byte = np.zeros(machine.n_classes, np.int32)
            text_class = machine.byte_class[:N_TEXT_BYTES]
            class_byte[text_class] = np.arange(N_TEXT_BYTES)
            others = np.zeros(machine.n_classes, np.bool_)  # classes with a byte that does not continue a character
            others[machine.byte_class[:0x80]] = others[machine.byte_class[0xC0:]] = True
            _find_forced(
                machine.delta,
                machine.actions,
                machine.final_outcome,
                np.bincount(text_class, minlength=machine.n_classes).astype(np.int32),
                class_byte,
                others,
                self.next_byte,
                self.next_state,
                self.inside_character,
            )
            _measure(self.next_byte, self.next_state, self.inside_character, self.length, np.empty(n_states, np.int32))
        for array in (self.next_byte, self.next_state, self.length, self.inside_character):
            array.flags.writeable = False

    @property
    def forced_share(self) -> float:
        """The share of states that force a byte whatever the stack, DEAD not counted; 0 for an empty machine."""
        return float((self.next_byte >= 0).sum() / max(1, len(self.next_byte) - 1))

    def jump(self, state: int) -> tuple[bytes, int]:
        """The forced bytes from ``state`` to the last character boundary, and the state there.

        From a state inside a character the jump may complete it; b"" where nothing, or no whole character, is forced.
        Raises MachineError for a state that does not exist, and for a machine with calls, where the answer needs the
        stack: `jump_from` takes it.
        """
        if not self.machine.is_regular:
            raise MachineError("this machine has calls: jump_from(configuration) takes the stack as well")
        jump = self.follow(Configuration(state))
        return jump.text, jump.state

    def forced_bytes(self, configuration: Configuration | int) -> bytes:
        """All bytes that are forced from a state (or configuration), even if the last ones only begin a character.

        >>> delta = np.zeros((8, 256), np.int32)
        >>> delta[[1, 2, 3, 4, 5, 6, 6], list("白天头".encode()[:5] + b"\\xa9\\xb4")] = [2, 3, 4, 5, 6, 7, 7]
        >>> jumps = JumpForwardMap(DFA.from_arrays(np.arange(256), delta, np.arange(8) == 7, start=1))
        >>> jumps.jump(1), jumps.forced_bytes(1)
        ((b'\\xe7\\x99\\xbd', 4), b'\\xe7\\x99\\xbd\\xe5\\xa4')
        """
        jump = self.follow(configuration if isinstance(configuration, tuple) else Configuration(configuration))
        return jump.text + jump.rest

    def jump_from(self, configuration: Configuration) -> tuple[bytes, Configuration]:
        """As `jump`, from a configuration to a configuration."""
        jump = self.follow(configuration)
        return jump.text, Configuration(jump.state, self._stacks.frames(jump.stack))

    def follow(self, configuration: Configuration) -> Jump:
        """The jump from a configuration, through calls and returns.

        It ends where a recorded call returns (see `LazyRSM`): what may follow depends on the text that was read.
        """
        machine, (state, stack) = self.machine, configuration
        if not 0 <= state < machine.n_states:
            raise MachineError(f"state {state} does not exist; there are {machine.n_states} states")
        if not all(0 <= frame & ~RECORDED < machine.n_frames for frame in stack):
            raise MachineError(f"frames {stack} name one that does not exist; there are {machine.n_frames} frames")
        node = EMPTY_STACK
        for frame in stack:
            node = self._stacks.push(node, frame)
        return self.follow_on_stack(self._stacks, state, node)

    def follow_on_stack(self, stacks: ReturnStacks, state: int, stack: int) -> Jump:
        """As `follow`, with a stack of the pool ``stacks``."""
        return jump_on_stack(self.machine, stacks, state, stack, self.next_byte, max_bytes=self.max_bytes)


@kernel
def _find_forced(
    delta: Array,
    actions: Array,
    final_outcome: Array,
    class_size: Array,
    class_byte: Array,
    others: Array,
    next_byte: Array,
    next_state: Array,
    inside_character: Array,
) -> None:
    """Fill the last three arrays, state by state. ``others``: which classes hold a byte outside 80–BF.

    With calls, a state that has two edges is still forced if the frames leave only one of them; but not if two of its
    bytes are plain or calls, which are live with any stack.
    """
    n_states, n_classes = delta.shape
    regular = len(actions) == 0
    for q in range(n_states):
        n_bytes, n_sure, sole, continues = 0, 0, 0, True
        for c in range(n_classes):
            e = delta[q, c]
            if e == DEAD or class_size[c] == 0:
                continue
            n_bytes += class_size[c]
            sole = c
            continues = continues and not others[c]
            if e > 0 or actions[-1 - e, 0] == CALL:
                n_sure += class_size[c]
        may_end = final_outcome[q] >= 0
        inside_character[q] = continues and n_bytes > 0 and not may_end
        next_byte[q] = FREE
        if n_bytes == 1 and not may_end:
            e = delta[q, sole]
            if e > 0:
                next_byte[q], next_state[q] = class_byte[sole], e
            elif actions[-1 - e, 0] == CALL:
                next_byte[q], next_state[q] = class_byte[sole], actions[-1 - e, 1]
            elif actions[-1 - e, 0] == EXIT:
                next_byte[q] = class_byte[sole]
            else:
                next_byte[q] = ASK_STACK
        elif not regular and n_sure <= 1 and n_bytes > 0:
            next_byte[q] = ASK_STACK


@kernel
def _measure(next_byte: Array, next_state: Array, inside_character: Array, length: Array, path: Array) -> None:
    """Fill ``length``, which holds -1 everywhere. Each state is put on the path once: linear time.

    While a state is on the path its length is -2, so that a chain that runs into itself is seen as a cycle.
    """
    for start in range(len(next_byte)):
        n = 0
        q = start
        while length[q] == -1:
            length[q] = -2
            path[n] = q
            n += 1
            if next_byte[q] >= 0 and next_state[q] != DEAD:
                q = next_state[q]
        closed = n > 0 and next_byte[path[n - 1]] >= 0 and length[next_state[path[n - 1]]] == -2
        while closed:  # q and all states after it on the path are a cycle
            n -= 1
            p = path[n]
            next_byte[p], next_state[p], length[p] = FREE, DEAD, 0
            closed = p != q
        while n > 0:
            n -= 1
            q = path[n]
            length[q] = 0
            if next_byte[q] >= 0:
                after = next_state[q]  # DEAD after an exit: a value ends at a character boundary
                if length[after] > 0:
                    length[q] = 1 + length[after]
                elif not inside_character[after]:
                    length[q] = 1
