"""Walks over configurations against the reference semantics of recursive state machines."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from mask_oracles import allowed_by_rsm, compile_dfa
from rsm_examples import EXAMPLES, Example

from fsmc.compiler.automata.rsm import RSM, Configuration
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tokens import walk
from fsmc.compiler.tokens.byte_groups import loop_groups
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.compiler.tokens.walk import EMPTY_STACK, ReturnStacks, fill


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def short_texts(alphabet: bytes, longest: int) -> list[bytes]:
    return [bytes(text) for n in range(longest + 1) for text in product(alphabet, repeat=n)]


def vocabulary_for(example: Example) -> Vocabulary:
    """All short texts over the machine's alphabet, and pieces of accepted texts."""
    pieces = {text[i : i + n] for text in example.accepted for n in (5, 9, 30) for i in range(0, len(text), 3)}
    return Vocabulary.from_tokens([*short_texts(example.alphabet, 3), *sorted(pieces), b"", example.alphabet[:1]])


def configurations(example: Example) -> set[Configuration]:
    """Those that accepted texts pass through, and all that a few bytes reach."""
    met = {example.machine.run(text[:n]) for text in example.accepted for n in range(len(text))}
    met |= {example.machine.run(text) for text in short_texts(example.alphabet, 4)}
    return {configuration for configuration in met if configuration is not None}


def intern(stacks: ReturnStacks, frames: tuple[int, ...]) -> int:
    stack = EMPTY_STACK
    for frame in frames:
        stack = stacks.push(stack, frame)
    return stack


def test_equal_stacks_are_one_node():
    stacks = ReturnStacks()
    first = {frames: intern(stacks, frames) for n in range(5) for frames in product(range(4), repeat=n)}
    assert len(set(first.values())) == len(first) == len(stacks)  # 341 nodes: the pool has grown several times
    for frames, node in first.items():
        assert stacks.frames(node) == frames and intern(stacks, frames) == node
    assert len(stacks) == len(first)


def test_a_pool_has_a_limit():
    stacks = ReturnStacks(max_nodes=100)
    machine = EXAMPLES["balanced_brackets"].machine
    assert stacks.advance(machine, machine.start, EMPTY_STACK, array(b"[" * 60))[2] == 60
    with pytest.raises(LimitExceeded, match="max_nodes=100"):
        stacks.advance(machine, machine.start, EMPTY_STACK, array(b"[" * 120))


@pytest.mark.parametrize("name", EXAMPLES)
def test_advance_follows_the_reference(name):
    example = EXAMPLES[name]
    stacks = ReturnStacks()
    texts = short_texts(example.alphabet, 3) + [text + b"?" for text in example.accepted]
    for configuration in configurations(example):
        before = intern(stacks, configuration.stack)
        for text in texts:
            state, stack, consumed = stacks.advance(example.machine, configuration.state, before, array(text))
            there = example.machine.run(text[:consumed], configuration)
            assert Configuration(state, stacks.frames(stack)) == there
            assert consumed == len(text) or example.machine.step(there, text[consumed]) is None


def test_advance_without_calls_keeps_the_stack():
    machine = RSM.from_dfa(compile_dfa("a(bc)*"))
    after_a = machine.run(b"a").state
    assert ReturnStacks().advance(machine, machine.start, 5, array(b"abcx")) == (after_a, 5, 3)
    assert ReturnStacks().advance(machine, 0, 5, array(b"a")) == (0, 5, 0)


@pytest.mark.parametrize("name", EXAMPLES)
def test_fill_follows_the_reference(name):
    example = EXAMPLES[name]
    vocab = vocabulary_for(example)
    trie, stacks = TokenTrie.build(vocab), ReturnStacks()
    loops = loop_groups(example.machine.delta, example.machine.byte_class)
    row = np.full((trie.n_tokens + 31) // 32, -1, np.int32)
    n_looked = 0
    met = configurations(example)
    met |= {Configuration(state) for state, _ in met}  # also inside a component without a caller: its exits are dead
    for configuration in sorted(met):
        looked, n_allowed = fill(
            example.machine, stacks, trie, loops, configuration.state, intern(stacks, configuration.stack), row
        )
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: trie.n_tokens]
        allowed = sorted(trie.token_ids[bits == 1].tolist())
        assert allowed == allowed_by_rsm(example.machine, vocab, configuration) and len(allowed) == n_allowed
        n_looked += looked
        if not looked:  # then the row is the same on any other stack
            for stack in [(), (0,), (*configuration.stack, 0)]:
                assert allowed == allowed_by_rsm(example.machine, vocab, Configuration(configuration.state, stack))
    assert n_looked


def test_threads_share_a_pool():
    machine = EXAMPLES["sums"].machine
    texts = [text for text in short_texts(b"[1,+", 6) if machine.run(text)]
    stacks = ReturnStacks()

    def run(order: list[bytes]) -> dict[bytes, tuple[int, int]]:
        return {text: stacks.advance(machine, machine.start, EMPTY_STACK, array(text))[:2] for text in order}

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, [texts, texts[::-1], texts[::2] + texts[1::2], texts]))
    assert all(result == results[0] for result in results)
    for text, (state, stack) in results[0].items():
        assert Configuration(state, stacks.frames(stack)) == machine.run(text)


def test_kernels_do_what_their_python_does(monkeypatch):
    example = EXAMPLES["sums"]
    machine, vocab = example.machine, Vocabulary.from_tokens([b"1", b"+1", b"1,", b"]", b"],[", b"1]]", b"[", b"[["])
    trie, stacks = TokenTrie.build(vocab), ReturnStacks()
    loops = loop_groups(machine.delta, machine.byte_class)
    row, plain_row = np.empty(1, np.int32), np.empty(1, np.int32)
    state, stack, _ = stacks.advance(machine, machine.start, EMPTY_STACK, array(b"[[1+1"))
    looked = fill(machine, stacks, trie, loops, state, stack, row)
    for name in ("_push", "_advance", "_advance_regular", "_fill"):
        monkeypatch.setattr(walk, name, getattr(walk, name).py_func)
    with np.errstate(over="ignore"):
        plain = ReturnStacks()
        plain_state, plain_stack, consumed = plain.advance(machine, machine.start, EMPTY_STACK, array(b"[[1+1"))
    assert (plain_state, plain.frames(plain_stack), consumed) == (state, stacks.frames(stack), 5)
    assert fill(machine, plain, trie, loops, state, plain_stack, plain_row) == looked
    assert plain_row.tolist() == row.tolist()
    regular = RSM.from_dfa(compile_dfa("ab"))
    assert plain.advance(regular, regular.start, EMPTY_STACK, array(b"ax"))[2] == 1
