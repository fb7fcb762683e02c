"""What a machine does with a text, step by step: bytes, and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fsmc.cli.tokenizer import shown
from fsmc.compiler.automata.recursion import Configuration
from fsmc.jumpforward.jump_map import JumpForwardMap
from fsmc.runtime.byte_text import describe_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsmc.compiler.automata.recursion import RecursiveMachine
    from fsmc.compiler.grammar import CompiledGrammar


@dataclass(frozen=True, slots=True)
class ByteStep:
    """Before one byte. byte: None at the end of the text. state, depth: the machine's state, the open calls. allowed: how many
    of the 256 bytes may come, ``expected`` which. may_end: whether the text may end here. forced: what has to come. read:
    whether this byte may."""

    at: int
    byte: int | None
    state: int
    depth: int
    allowed: int
    expected: str
    may_end: bool
    forced: bytes
    read: bool


@dataclass(frozen=True, slots=True)
class TokenStep:
    """Before one token. token_id: None at the end of the text. allowed: how many tokens may come; ``examples`` of them
    that are text. read:
    how many of its bytes may come; all, if the token is allowed."""

    at: int
    token_id: int | None
    token: bytes
    state: int
    depth: int
    allowed: int
    examples: list[str]
    may_end: bool
    forced: bytes
    read: int

    @property
    def is_allowed(self) -> bool:
        """Whether it may come."""
        return self.token_id is not None and self.read == len(self.token)


def byte_steps(machine: RecursiveMachine, data: bytes) -> list[ByteStep]:
    """One step for each byte that can be read, and one for the place where it ends: the failing byte, or the end.

    >>> from fsmc.cli.machine import Source
    >>> steps = byte_steps(Source("ab[0-9]", "python", 0).machine(), b"abc")
    >>> [(step.expected, step.forced, step.read) for step in steps]
    [("'a'", b'ab', True), ("'b'", b'b', True), ("'0'–'9'", b'', False)]
    """
    from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks
    from fsmc.compiler.tokens.walk import NOTHING, advance

    jumps, stacks = JumpForwardMap(machine), ReturnStacks()
    array = np.frombuffer(data, np.uint8)
    state, stack, recording = machine.start, EMPTY_STACK, NOTHING
    live_of: dict[Configuration, list[int]] = {}
    steps: list[ByteStep] = []
    for at in range(len(data) + 1):
        here = Configuration(state, stacks.frames(stack))
        if here not in live_of:
            live_of[here] = [byte for byte in range(256) if machine.step(here, byte) is not None]
        live, may_end = live_of[here], machine.is_complete(here)
        if at < len(data):
            after = advance(machine, stacks, state, stack, array, at, at + 1, recording)
        read = at < len(data) and after[3] == at + 1
        steps.append(
            ByteStep(
                at,
                data[at] if at < len(data) else None,
                state,
                len(here.stack),
                len(live),
                describe_bytes(live, may_end),
                may_end,
                jumps.follow_on_stack(stacks, state, stack).text,
                read,
            )
        )
        if not read:
            break
        state, stack, recording = after[:3]
    return steps


def token_steps(grammar: CompiledGrammar, ids: Sequence[int], n_examples: int = 6) -> list[TokenStep]:
    """One step for each token that is allowed, and one for where that ends: the first that is not, or the end of the text.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"ab", b"1", b"2", b""], eos_token_ids=[4])
    >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ab[0-9]")
    >>> [(step.allowed, step.examples, step.is_allowed) for step in token_steps(grammar, [1, 0])]
    [(2, ['ab', 'a'], True), (2, ['1', '2'], False)]
    """
    from fsmc.runtime.bitmask import allocate_token_bitmask
    from fsmc.runtime.matcher import GrammarMatcher

    vocab = grammar.vocab
    matcher, mask = GrammarMatcher(grammar), allocate_token_bitmask(1, vocab.size)
    steps: list[TokenStep] = []
    at = 0
    for token_id in [*ids, None]:
        matcher.fill_next_token_bitmask(mask)
        allowed = np.flatnonzero(np.unpackbits(np.asarray(mask[0]).view(np.uint8), bitorder="little"))
        token = b"" if token_id is None else vocab.text(token_id)
        here = matcher.configuration
        step = TokenStep(
            at,
            token_id,
            token,
            here.state,
            len(here.stack),
            len(allowed),
            shown((vocab.text(i) for i in allowed.tolist() if i not in vocab.eos_token_ids), n_examples),
            matcher.is_completed(),
            matcher.find_jump_forward_string().encode(),
            matcher.longest_prefix(token),
        )
        steps.append(step)
        if token_id is None or not step.is_allowed:
            break
        matcher.accept_bytes(token)
        at += len(token)
    return steps
