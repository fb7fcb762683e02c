"""The reasoning gate: where the constraint begins, in whatever tokens the marker comes, and the way back over it."""

import itertools
import random

import numpy as np
import pytest

from fsmc.compiler.errors import BudgetExceeded
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.batch import fill_bitmask_batch
from fsmc.runtime.bitmask import allocate_token_bitmask, unpack_token_bitmask
from fsmc.runtime.constraint import Constraint
from fsmc.runtime.matcher import GrammarMatcher
from fsmc.runtime.reasoning import ReasoningGate

TOKENS = [
    b"<",
    b"/t>",
    b"</t>",
    b"</",
    b"t>",
    b">",
    b"t>[",
    b"t>]",
    b"x</t>[1",
    b"<</t",
    b"[",
    b"]",
    b"1",
    b"[1]",
    b"hm ",
    b"</t></t>",
]
EOS, THINK_END, PADDING = len(TOKENS), len(TOKENS) + 1, len(TOKENS) + 3
VOCAB = Vocabulary.from_tokens([*TOKENS, b"", b""], [EOS], [THINK_END], vocab_size=40)
GRAMMAR = GrammarCompiler(VOCAB, cache_dir=None).compile_regex(r"\[1{1,3}\]")
MARKER = b"</t>"


def gate_of(end="</t>", **options):
    return ReasoningGate(GrammarMatcher(GRAMMAR), end, **options)


def allowed(gate, left=None):
    mask = allocate_token_bitmask(1, 96)
    gate.fill_next_token_bitmask(mask, max_tokens=left)
    return set(np.flatnonzero(unpack_token_bitmask(mask[0], 96)).tolist())


def plain(text):
    """The constrained text of a whole text, None before the marker; found by `bytes.partition`."""
    _, marker, rest = text.partition(MARKER)
    return rest if marker else None


def test_it_has_the_methods_of_a_matcher():
    assert isinstance(gate_of(), Constraint) and isinstance(GrammarMatcher(GRAMMAR), Constraint)


def test_every_way_to_write_the_marker():
    """All sequences of up to four tokens: the gate is where the text says, and the mask says what is accepted."""
    for ids in itertools.product(range(len(TOKENS)), repeat=3):
        gate, text, taken = gate_of(), b"", 0
        for token in ids:
            rest = plain(text + TOKENS[token])
            possible = rest is None or GRAMMAR.machine.run(rest) is not None
            assert (token in allowed(gate)) == possible
            assert gate.accept_token(token) == possible
            if not possible:
                break
            text += TOKENS[token]
            taken += 1
            assert gate.is_reasoning == (rest is None)
            assert gate.is_completed() == (rest is not None and GRAMMAR.machine.matches(rest))
        assert gate.rollback_limit == taken


def test_the_border():
    """After the marker's last byte, not one token later: the same token is thought before and refused after."""
    gate = gate_of()
    assert gate.accept_token(14) and gate.accept_token(2) and not gate.is_reasoning
    assert not gate.accept_token(14) and allowed(gate) == {10, 13}
    gate = gate_of()
    assert gate.accept_token(3) and 7 not in allowed(gate) and 6 in allowed(gate)  # t>] and t>[
    assert not gate.accept_token(7) and gate.is_reasoning
    assert "goes on with b']'" in str(gate.rejection(7)) and "'['" in str(gate.rejection(7))
    assert gate.accept_token(6) and gate.find_jump_forward_string() == "1"
    gate = gate_of()
    assert gate.accept_token(9) and gate.accept_token(5) and not gate.is_reasoning  # "<</t>": the second < begins it
    gate = gate_of()
    assert not gate.accept_token(15) and gate.is_reasoning  # the second marker would be constrained text


def test_a_marker_of_token_ids():
    gate = gate_of([THINK_END])
    assert allowed(gate) == set(range(40))
    assert gate.accept_token(2) and gate.is_reasoning and gate.accept_bytes(b"</t>") and gate.is_reasoning
    assert gate.accept_token(THINK_END) and not gate.is_reasoning and allowed(gate) == {10, 13}
    gate = gate_of([0, 0, 1])
    assert [gate.accept_token(token) and gate.is_reasoning for token in (0, 0, 0, 1)] == [True, True, True, False]
    gate = gate_of([EOS, 0])  # an end token may be part of a marker
    assert gate.accept_token(EOS) and not gate.is_terminated() and gate.accept_token(0) and not gate.is_reasoning


def test_ending_while_thinking():
    gate = gate_of()
    assert gate.accept_token(14) and EOS in allowed(gate) and EOS not in allowed(gate, 99) and gate.accept_token(EOS)
    assert gate.is_terminated() and not gate.is_completed() and allowed(gate) == {EOS}
    assert (
        gate.accept_token(EOS) and not gate.accept_token(0) and not gate.accept_bytes(b"x") and gate.accept_bytes(b"")
    )
    gate.rollback(2)
    assert not gate.is_terminated() and gate.rollback_limit == 1


def test_ids_that_do_not_exist():
    gate = gate_of()
    assert gate.accept_token(PADDING) and not gate.accept_token(40) and not gate.accept_token(-1)
    assert "40" in str(gate.rejection(40))


def test_no_thinking():
    gate = gate_of(reasoning=False)
    assert not gate.is_reasoning and allowed(gate) == {10, 13} and gate.accept_token(13)
    gate.rollback(1)
    gate.reset()
    assert not gate.is_reasoning and gate.rollback_limit == 0


@pytest.mark.parametrize("end", ["</t>", b"</t>", [THINK_END], [3, 4]], ids=repr)
def test_random_lives_are_replays(end):
    rng = random.Random(repr(end))
    for _ in range(60):
        gate, entries = gate_of(end), []
        for _ in range(25):
            action = rng.random()
            if action < 0.6:
                token = rng.choice(sorted(allowed(gate)))
                was_terminated = gate.is_terminated()
                assert gate.accept_token(token)
                entries += [] if was_terminated else [token]
            elif action < 0.7:
                n = rng.randrange(gate.rollback_limit + 1)
                gate.rollback(n)
                del entries[len(entries) - n :]
            elif action < 0.8:
                other = gate.fork()
                if rng.random() < 0.5:
                    other.rollback(other.rollback_limit)
                else:
                    gate, other = other, gate
                    other.reset()
            elif action < 0.9:
                data = rng.choice([b"<", b"/t>", b"[1", b"", b"1]", b"hm</t>["])
                if gate.accept_bytes(data):
                    entries.append(data)
            else:
                token, was_terminated = rng.randrange(-2, 45), gate.is_terminated()
                is_allowed = token in allowed(gate)
                assert gate.accept_token(token) == is_allowed
                entries += [token] if is_allowed and not was_terminated else []
            fresh = gate_of(end)
            for entry in entries:
                assert fresh.accept_bytes(entry) if isinstance(entry, bytes) else fresh.accept_token(entry)
            assert gate.rollback_limit == fresh.rollback_limit == len(entries)
            for method in (
                "is_completed",
                "is_terminated",
                "find_jump_forward_string",
                "num_tokens_to_complete",
                "expected",
            ):
                assert getattr(gate, method)() == getattr(fresh, method)(), method
            assert gate.is_reasoning == fresh.is_reasoning and allowed(gate) == allowed(fresh)
        with pytest.raises(ValueError, match="cannot roll back"):
            gate.rollback(gate.rollback_limit + 1)
        gate.reset()
        assert gate.rollback_limit == 0 and gate.is_reasoning


@pytest.mark.parametrize("end", ["</t>", [THINK_END], [3, 4]], ids=repr)
def test_budgets(end):
    rng = random.Random(1)
    needed = gate_of(end).num_tokens_to_complete()
    assert needed == {"</t>": 1, "[17]": 1, "[3, 4]": 2}[str(end)] + 2
    with pytest.raises(BudgetExceeded):
        allowed(gate_of(end), needed - 1)
    for budget in range(needed, needed + 12):
        for _ in range(15):
            gate, left = gate_of(end), budget
            while not gate.is_terminated():
                may = allowed(gate, left)
                assert may and may <= allowed(gate)
                assert gate.accept_token(rng.choice(sorted(may)))
                left -= 1
            assert left >= 0 and gate.is_completed()


def test_batches():
    gates = [gate_of(), gate_of(), None, gate_of([THINK_END])]
    assert gates[0].accept_token(3) and gates[1].accept_token(2)
    for budgets in (None, [9, 4, None, 4]):
        batch = allocate_token_bitmask(4, 40)
        fill_bitmask_batch(gates, batch, max_tokens=budgets)
        for row, gate in enumerate(gates):
            if gate is not None:
                single = np.zeros_like(batch)
                gate.fill_next_token_bitmask(single, row, budgets[row] if budgets else None)
                assert (batch[row] == single[row]).all()
    with pytest.raises(BudgetExceeded):
        fill_bitmask_batch(gates, batch, max_tokens=[0, 9, None, 9])


@pytest.mark.parametrize("end", ["", b"", [], [40], [-1]])
def test_markers_that_are_none(end):
    with pytest.raises(ValueError, match="marker"):
        gate_of(end)
    with pytest.raises(TypeError):
        gate_of([b"x"])


@pytest.mark.parametrize("end", [None, 5, [1.5], ["</t>"]])
def test_a_marker_of_another_kind(end):
    with pytest.raises(TypeError, match=r"is a text, as '</think>', or a list of token ids, not"):
        ReasoningGate(GrammarMatcher(GRAMMAR), end)


PIECES = Vocabulary.from_tokens(
    [*(bytes([b]) for b in b"</tinka "), b"</", b"think", b">", b"k></", b"a</th", b"t", b""], eos_token_ids=[14]
)


@pytest.mark.parametrize("end", ["</think>", "</t</think>", "aaat", (0, 1, 0, 1, 2)], ids=repr)
def test_a_budget_is_kept_from_the_middle_of_the_marker(end):
    """Where a piece of the marker was written, what is left of it may take more tokens than the whole."""
    grammar = GrammarCompiler(PIECES, cache_dir=None).compile_regex("a{1,2}")
    gate = ReasoningGate(GrammarMatcher(grammar), end)
    mask = allocate_token_bitmask(1, PIECES.size)
    needed = gate.num_tokens_to_complete()
    for seed in range(400):
        rng = random.Random(seed)
        gate.reset()
        left = needed + rng.randrange(6)
        while not gate.is_terminated():
            assert gate.num_tokens_to_complete() <= left
            is_far = gate.is_far_from(left)
            gate.fill_next_token_bitmask(mask, max_tokens=left)
            may = np.flatnonzero(unpack_token_bitmask(mask[0], PIECES.size)).tolist()
            gate.fill_next_token_bitmask(mask)
            every = np.flatnonzero(unpack_token_bitmask(mask[0], PIECES.size)).tolist()
            assert may and set(may) <= set(every)
            assert not is_far or set(every) - set(gate.stop_token_ids) <= set(may)
            parts = [t for t in may if PIECES.token(t) and PIECES.token(t) in b"</think>"]
            assert gate.accept_token(rng.choice(parts if parts and rng.random() < 0.7 else may))
            left -= 1
        assert left >= 0 and gate.is_completed()


def test_no_token_is_kept_from_a_budget_that_allows_it():
    """Against a search: a token is allowed where some continuation completes the text in what is left, spelled as the gate counts."""
    grammar = GrammarCompiler(PIECES, cache_dir=None).compile_regex("a")
    mask = allocate_token_bitmask(1, PIECES.size)
    gate = ReasoningGate(GrammarMatcher(grammar), "</think>")
    for left in range(gate.num_tokens_to_complete(), 12):
        gate.fill_next_token_bitmask(mask, max_tokens=left)
        may = set(np.flatnonzero(unpack_token_bitmask(mask[0], PIECES.size)).tolist())
        for token in range(PIECES.size - 1):
            after = gate.fork()
            after.accept_token(token)
            assert (token in may) == (after.num_tokens_to_complete() <= left - 1), (left, token)


def test_a_marker_that_no_tokens_spell_is_said_when_it_matters():
    vocab = Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    gate = ReasoningGate(GrammarMatcher(GrammarCompiler(vocab, cache_dir=None).compile_regex("a")), "c")
    assert gate.accept_token(0)
    with pytest.raises(ValueError, match="no tokens of this vocabulary spell b'c'"):
        gate.num_tokens_to_complete()
    with pytest.raises(ValueError, match="between 1 and 4096"):
        gate_of("x" * 5000)


def test_the_limit_of_rollback_holds_before_the_gate_and_over_it():
    gate = ReasoningGate(GrammarMatcher(GRAMMAR, max_rollback_tokens=2), "</t>")
    for token in (14, 14, 14):
        gate.accept_token(token)
    assert gate.rollback_limit == 2
    gate.rollback(2)
    assert gate.rollback_limit == 0
    for token in (14, 2, 13):
        gate.accept_token(token)
    assert gate.rollback_limit == 2
    gate.rollback(2)
    assert gate.is_reasoning and gate.rollback_limit == 0
    with pytest.raises(ValueError, match="cannot roll back"):
        gate.rollback(1)


@pytest.mark.parametrize("stops", [[14, 8], [14, 9], [14, 8, 2], [14, 8, 9, 13]], ids=repr)
def test_tokens_that_end_a_text_write_nothing_of_the_marker(stops):
    grammar = GrammarCompiler(PIECES, cache_dir=None).compile_regex("a{1,2}")
    gate = ReasoningGate(GrammarMatcher(grammar, stop_token_ids=stops), "</think>")
    needed = gate.num_tokens_to_complete()
    for seed in range(60):
        gate.reset()
        left, rng = needed + seed % 5, random.Random(seed)
        while not gate.is_terminated():
            mask = allocate_token_bitmask(1, PIECES.size)
            gate.fill_next_token_bitmask(mask, max_tokens=left)
            may = np.flatnonzero(unpack_token_bitmask(mask[0], PIECES.size)).tolist()
            assert may and gate.accept_token(rng.choice(may))
            left -= 1
        assert left >= 0 and gate.is_completed()


def test_a_marker_that_only_end_tokens_spell():
    grammar = GrammarCompiler(PIECES, cache_dir=None).compile_regex("a")
    stops = [i for i in range(PIECES.size) if b">" in PIECES.token(i)]
    gate = ReasoningGate(GrammarMatcher(grammar, stop_token_ids=stops), "</think>")
    with pytest.raises(ValueError, match="without those that end a text spell"):
        gate.num_tokens_to_complete()


def test_what_is_no_matcher_and_no_budget():
    with pytest.raises(TypeError, match="before a GrammarMatcher, not a CompiledGrammar"):
        ReasoningGate(GRAMMAR, "</t>")
    with pytest.raises(TypeError, match="before a GrammarMatcher, not a ReasoningGate"):
        ReasoningGate(gate_of(), "</t>")
    for budget in (50.5, True, "50"):
        with pytest.raises(TypeError, match="max_tokens must be an integer"):
            gate_of().fill_next_token_bitmask(allocate_token_bitmask(1, 96), max_tokens=budget)


def test_an_end_token_that_would_end_the_marker_too():
    """It ends the text, as before any other marker; and what cannot be completed afterwards is only not allowed."""
    vocab = Vocabulary.from_tokens([b"xaa", b"ab", b"x", b"a", b"b", b""], [5])
    grammar = GrammarCompiler(vocab, cache_dir=None).compile_regex("(ab|ba)x*")
    gate = ReasoningGate(GrammarMatcher(grammar, stop_token_ids=[0, 5]), "x")
    mask = allocate_token_bitmask(1, vocab.size)
    gate.fill_next_token_bitmask(mask)
    assert int(mask[0, 0]) == 0b111111 and gate.fork().accept_token(0)


def test_a_budget_where_some_tokens_lead_nowhere():
    vocab = Vocabulary.from_tokens([b"bx", b"xa", b"ax", b"ba", b"ab", b""], [5])
    gate = ReasoningGate(GrammarMatcher(GrammarCompiler(vocab, cache_dir=None).compile_regex("[abx]a")), "b")
    mask = allocate_token_bitmask(1, vocab.size)
    for n_tokens in (gate.num_tokens_to_complete(), 1000):
        gate.fill_next_token_bitmask(mask, max_tokens=n_tokens)
        assert not mask[0, 0] >> 0 & 1 and mask[0, 0] >> 4 & 1  # bx: no token is "a"; ab: xa and ba are
