"""Walks over configurations against the reference semantics of recursive state machines."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from mask_oracles import allowed_by_rsm, compile_dfa
from rsm_examples import EXAMPLES, Example

from fsmc.compiler.automata.rsm import RSM, Configuration
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.tokens import mask_source, mask_walk, walk
from fsmc.compiler.tokens import stacks as stacks_module
from fsmc.compiler.tokens.mask_source import N_RANGES, Source, new_scratch
from fsmc.compiler.tokens.mask_walk import ids_in, walk_configuration
from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.compiler.tokens.walk import NOTHING, advance


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
    assert advance(machine, stacks, machine.start, EMPTY_STACK, array(b"[" * 60))[3] == 60
    with pytest.raises(LimitExceeded, match="max_nodes=100"):
        advance(machine, stacks, machine.start, EMPTY_STACK, array(b"[" * 120))


@pytest.mark.parametrize("name", EXAMPLES)
def test_advance_follows_the_reference(name):
    example = EXAMPLES[name]
    stacks = ReturnStacks()
    texts = short_texts(example.alphabet, 3) + [text + b"?" for text in example.accepted]
    for configuration in configurations(example):
        before = intern(stacks, configuration.stack)
        for text in texts:
            state, stack, _, consumed = advance(example.machine, stacks, configuration.state, before, array(text))
            there = example.machine.run(text[:consumed], configuration)
            assert Configuration(state, stacks.frames(stack)) == there
            assert consumed == len(text) or example.machine.step(there, text[consumed]) is None


def test_advance_without_calls_keeps_the_stack():
    machine = RSM.from_dfa(compile_dfa("a(bc)*"))
    after_a = machine.run(b"a").state
    assert advance(machine, ReturnStacks(), machine.start, 5, array(b"abcx")) == (after_a, 5, NOTHING, 3)
    assert advance(machine, ReturnStacks(), 0, 5, array(b"a")) == (0, 5, NOTHING, 0)


def allowed_ids(machine, stacks, trie, state, stack) -> tuple[int, list[int]]:
    """How many frames the mask of a configuration depends on, and the tokens it allows."""
    scratch = new_scratch(trie)
    n_frames = walk_configuration(machine, stacks, Source.of(trie, trie.tops), state, stack, scratch)
    n_ranges = scratch.view[N_RANGES]
    ranges = scratch.ranges[:n_ranges]
    assert (ranges[:, 0] < ranges[:, 1]).all() and (ranges[1:, 0] > ranges[:-1, 1]).all()
    n_tokens = int((ranges[:, 1] - ranges[:, 0]).sum())
    ids = ids_in(scratch.ranges, n_ranges, trie, n_tokens)
    others = ids_in(scratch.ranges, n_ranges, trie, trie.n_tokens - n_tokens, gaps=True)
    assert sorted([*ids, *others]) == sorted(trie.token_ids)
    return n_frames, sorted(ids.tolist())


@pytest.mark.parametrize("name", EXAMPLES)
def test_masks_follow_the_reference(name):
    example = EXAMPLES[name]
    vocab = vocabulary_for(example)
    trie, stacks = TokenTrie.build(vocab), ReturnStacks()
    met = configurations(example)
    met |= {Configuration(state) for state, _ in met}  # also inside a component without a caller: its exits are dead
    looked = set()
    for configuration in sorted(met):
        stack = intern(stacks, configuration.stack)
        n_frames, allowed = allowed_ids(example.machine, stacks, trie, configuration.state, stack)
        assert allowed == allowed_by_rsm(example.machine, vocab, configuration)
        looked.add(n_frames)
        n_kept = len(configuration.stack) - n_frames
        if n_kept >= 0:  # then the row is the same on any other stack with these frames on top
            for rest in [(), (0,), (*configuration.stack[:n_kept], 0)]:
                other = Configuration(configuration.state, (*rest, *configuration.stack[n_kept:]))
                assert allowed == allowed_by_rsm(example.machine, vocab, other)
    assert looked > {0, 1}


def test_threads_share_a_pool():
    machine = EXAMPLES["sums"].machine
    texts = [text for text in short_texts(b"[1,+", 6) if machine.run(text)]
    stacks = ReturnStacks()

    def run(order: list[bytes]) -> dict[bytes, tuple[int, int]]:
        return {text: advance(machine, stacks, machine.start, EMPTY_STACK, array(text))[:2] for text in order}

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, [texts, texts[::-1], texts[::2] + texts[1::2], texts]))
    assert all(result == results[0] for result in results)
    for text, (state, stack) in results[0].items():
        assert Configuration(state, stacks.frames(stack)) == machine.run(text)


def test_kernels_do_what_their_python_does(monkeypatch):
    example = EXAMPLES["sums"]
    machine, vocab = example.machine, Vocabulary.from_tokens([b"1", b"+1", b"1,", b"]", b"],[", b"1]]", b"[", b"[["])
    trie, stacks = TokenTrie.build(vocab), ReturnStacks()
    state, stack, _, _ = advance(machine, stacks, machine.start, EMPTY_STACK, array(b"[[1+1"))
    looked, new = allowed_ids(machine, stacks, trie, state, stack), new_scratch
    for module, names in ((stacks_module, ["push_node"]), (walk, ["after", "push_node", "_step", "_advance"]),
                          (mask_walk, ["after", "_add_range", "packed_groups", "_walk", "_list_ids"])):  # fmt: skip
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)

    # The kernels beneath those that read addresses; for these the arrays are at hand here.
    def advance_at(_machine, _stacks, *where):
        _, states, class_maps, actions, returns, _, _ = tables = machine.tables
        own = (tables.edges, states, class_maps, actions, returns, plain.nodes, plain._table, plain._count)
        return walk._advance(*own, *where)

    def mask_at(_machine, _stacks, _trie, _source, _scratch, registers):
        own = (*machine.tables[:6], plain.nodes)
        scratch, before = scratches[-1], registers.tolist()
        scratch.path[0, :2] = before[mask_source.STATE], before[mask_source.STACK]
        n_nodes = plain.nodes[before[mask_source.STACK], 2]
        status, _, _, lowest, n_ranges, *_ = mask_walk._walk(
            *own, trie.packed, trie.tops, scratch.ranges, scratch.path, before[mask_source.STACK], 0, -1, n_nodes, 0
        )
        registers[[N_RANGES, mask_source.LOOKED]] = n_ranges, n_nodes - lowest
        return status

    scratches = []
    monkeypatch.setitem(globals(), "new_scratch", lambda trie: scratches.append(new(trie)) or scratches[-1])
    monkeypatch.setattr(walk, "_advance_at", advance_at)
    monkeypatch.setattr(mask_walk, "_mask_at", mask_at)
    with np.errstate(over="ignore"):
        plain = ReturnStacks()
        plain_state, plain_stack, _, consumed = advance(machine, plain, machine.start, EMPTY_STACK, array(b"[[1+1"))
        assert (plain_state, plain.frames(plain_stack), consumed) == (state, stacks.frames(stack), 5)
        assert allowed_ids(machine, plain, trie, state, plain_stack) == looked
