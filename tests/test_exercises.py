"""Answers to the exercises of the lessons in examples/: test_exercise_N_M is the answer to exercise N.M."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fsmc
from fsmc.compiler.automata.algebra import reverse
from fsmc.compiler.automata.counting import count_strings
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.equivalence import difference_witness
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.regex import parse_regex
from fsmc.compiler.syntax.utf8 import ENTRY, FINAL, utf8_automaton
from fsmc.research import ConditionedModel, HiddenMarkovModel, TokenMachine
from fsmc.runtime.bitmask import unpack_token_bitmask

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@cache
def lesson(number: int) -> dict[str, Any]:
    """Everything that a lesson defines."""
    (path,) = EXAMPLES.glob(f"{number:02}_*.py")
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(path))


def machine_of(pattern: str) -> DFA:
    return minimize(determinize(thompson(parse_regex(pattern))))


def test_every_exercise_has_an_answer() -> None:
    asked = {
        number
        for path in EXAMPLES.glob("[0-9][0-9]_*.py")
        for number in re.findall(r"^# Exercise (\d+\.\d+): ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    answered = {name[14:].replace("_", ".") for name in globals() if name.startswith("test_exercise_")}
    assert asked == answered
    assert {int(number.split(".")[0]) for number in asked} == set(range(1, 11))


def test_exercise_1_1() -> None:
    """One state for each symbol that is counted, one for after it: nothing has to be remembered but how many were read."""
    for n in range(1, 5):
        assert machine_of(f"(a|b){{{n - 1}}}a(a|b)*").n_states - 1 == n + 1


def test_exercise_1_2() -> None:
    def reads(dfa: DFA, text: bytes) -> int:
        state = dfa.start
        for n, byte in enumerate(text):
            state = dfa.delta[state, dfa.byte_class[byte]]
            if state == DEAD:
                return n
        return len(text)

    dfa = machine_of("(ab|ac)*d")
    assert [reads(dfa, text) for text in (b"abd", b"abx", b"ad", b"", b"dd")] == [3, 2, 1, 0, 1]


def test_exercise_1_3() -> None:
    """abc is ab and c, or a and bc. The DFA knows one: it is deterministic, so a text has one path; how it was meant is lost."""
    ways = [(x, y) for x in ("ab", "a") for y in ("c", "bc") if x + y == "abc"]
    assert len(ways) == 2 and machine_of("(ab|a)(c|bc)").matches(b"abc")


def test_exercise_2_1() -> None:
    """One: all begin with C3. Six: ASCII, two bytes, and of three bytes those after E0, E1 to EC, ED (no surrogates), EE and EF."""

    def n_sequences(characters: CharClass) -> int:
        automaton = utf8_automaton(characters)
        ways = {FINAL: 1}

        def count(state: int) -> int:
            if state not in ways:
                ways[state] = sum(count(target) for source, _, _, target in automaton.edges.tolist() if source == state)
            return ways[state]

        return count(ENTRY)

    assert n_sequences(CharClass.from_ranges([(0xE0, 0xFF)])) == 1
    assert n_sequences(CharClass.from_ranges([(0, 0xD7FF), (0xE000, 0xFFFF)])) == 6


def test_exercise_2_2() -> None:
    counts = count_strings(machine_of("(?s:.)"), 4, unit="bytes")
    assert counts == [0, 128, 0x800 - 0x80, 0x10000 - 0x800 - 0x800, 0x110000 - 0x10000]
    assert sum(counts) == 1_112_064


def test_exercise_3_1() -> None:
    assert machine_of("(a|b)*").equivalent(machine_of("(a*b*)*"))
    assert machine_of("(ab)*a").equivalent(machine_of("a(ba)*"))


def test_exercise_3_2() -> None:
    for pattern in ("cats?|bats?|rats?", "(a|b)*a(a|b)", "(ab|ba)*"):
        raw, smallest = determinize(thompson(parse_regex(pattern))), machine_of(pattern)
        twice = reverse(reverse(raw))
        assert twice.n_states == smallest.n_states and twice.equivalent(smallest)


def test_exercise_3_3() -> None:
    day = "(0[1-9]|[12][0-9])"
    calendar = machine_of(f"(0[13578]|1[02])/({day}|3[01])|(0[469]|11)/({day}|30)|02/{day}")
    careful = lesson(3)["careful"]
    assert difference_witness(careful, calendar) == b"02/30"
    assert sum(count_strings(careful - calendar, 5)) == 12 * 31 - 366


def mask_by_hand(dfa: DFA, state: int, vocabulary: fsmc.Vocabulary) -> list[int]:
    return [i for i, text in enumerate(vocabulary.tokens) if text and dfa.run(text, state) != DEAD]


def test_exercise_4_1() -> None:
    vocabulary = lesson(4)["vocabulary"]
    for pattern in ("[0-9]+-[0-9]*", "caf.", "T(12|31)*"):
        grammar = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex(pattern)
        matcher, mask = fsmc.GrammarMatcher(grammar), fsmc.allocate_token_bitmask(1, vocabulary.size)
        matcher.fill_next_token_bitmask(mask)
        allowed = unpack_token_bitmask(mask[0], vocabulary.size).nonzero()[0].tolist()
        assert allowed == mask_by_hand(grammar.dfa, grammar.dfa.start, vocabulary)


def test_exercise_4_2() -> None:
    """All of them; and one for each first byte that tokens have."""
    trie = fsmc.TokenTrie.build(lesson(4)["vocabulary"])

    def visited(dfa: DFA) -> int:
        position, states, n = 0, [dfa.start], 0
        while position < trie.n_nodes:
            n += 1
            del states[trie.depth[position] :]
            states.append(dfa.run(bytes([trie.byte[position]]), states[-1]))
            position = position + 1 if states[-1] != DEAD else int(trie.end[position])
        return n

    every_byte = DFA.from_arrays(np.zeros(256, int), [[0]], [True], start=0)
    assert visited(every_byte) == trie.n_nodes
    assert visited(machine_of("T")) == (trie.first >= 0).sum()


def test_exercise_4_3() -> None:
    """Where the vocabulary cannot spell what the machine wants. One that has all single bytes always can."""
    vocabulary = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    matcher = fsmc.GrammarMatcher(fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex("ac"))
    mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
    assert matcher.accept_token(0)
    matcher.fill_next_token_bitmask(mask)
    assert not mask.any()


def test_exercise_5_1() -> None:
    """Twice: for the t of yesterday and the p of nope."""
    compiler = fsmc.GrammarCompiler(lesson(5)["vocabulary"], cache_dir=None)
    matcher = fsmc.GrammarMatcher(compiler.compile_regex("(yes|yesterday) and (no|nope)"))
    text, written, asked = "yesterday and nope", "", ""
    while written != text:
        if forced := matcher.find_jump_forward_string():
            matcher.accept_bytes(forced.encode())
            written += forced
            continue
        asked += text[len(written)]
        assert matcher.accept_bytes(asked[-1].encode())
        written += asked[-1]
    assert asked == "tp"


def test_exercise_5_2() -> None:
    for pattern, share in (("abcdefg", 1.0), ("[ab]{4}", 0.0)):
        dfa = machine_of(pattern)
        length = fsmc.JumpForwardMap(dfa).length
        live = [q for q in range(1, dfa.n_states) if not dfa.accepting[q]]
        assert dfa.n_states - 1 >= 5 and (length[live] > 0).mean() == share


def test_exercise_6_1() -> None:
    """na and me become name."""
    names = lesson(6)
    old = names["encode"]("na")
    again = fsmc.retokenize(names["encode"], names["vocabulary"], old, "me")
    assert again.kept == 0 and names["pieces"](again.ids) == ["name"]


def test_exercise_6_2() -> None:
    """Less often: tokens begin with spaces, and do not end with them."""
    names = lesson(6)
    encode, outcome = names["encode"], {True: [], False: []}
    for text in names["corpus"][:4]:
        for cut in range(1, len(text)):
            a, b = text[:cut], text[cut:]
            outcome[a.endswith(" ")].append(encode(a) + encode(b) == encode(text))
    assert np.mean(outcome[True]) < np.mean(outcome[False])


def test_exercise_7_1() -> None:
    """Five: three objects and two arrays."""
    names = lesson(7)
    machine = names["compiler"].compile_json_schema(names["tree"]).machine
    configuration = machine.run(b'{"value":1,"children":[{"value":2,"children":[{"value":')
    assert len(configuration.stack) == 5


def test_exercise_7_2() -> None:
    """By the same number for each level: it counts what is open, and each level needs the same few states."""
    sizes = [minimize(lesson(7)["lists"].flatten(n)).n_states for n in range(1, 6)]
    assert len(set(np.diff(sizes).tolist())) == 1 and sizes[1] > sizes[0]


def test_exercise_7_3() -> None:
    sides = [{"properties": {name: {"type": "string"}}} for name in "ab"]
    schema = {
        "type": "object",
        "properties": {"a": True, "b": True},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    machine = lesson(7)["compiler"].compile_json_schema({**schema, "oneOf": sides}).machine
    for a, b in itertools.product(('"x"', "1", "[]"), repeat=2):
        assert machine.matches(f'{{"a":{a},"b":{b}}}'.encode()) == ((a == '"x"') != (b == '"x"'))


def test_exercise_8_1() -> None:
    """Twelve: four for each person, two brackets and a comma, and the end. One more changes nothing at first."""
    names = lesson(8)
    book = {"type": "array", "items": names["person"], "minItems": 2}
    grammar = names["compiler"].compile_json_schema(book)
    matcher = fsmc.GrammarMatcher(grammar)
    needed = matcher.num_tokens_to_complete()
    assert needed == 2 * 4 + 3 + 1
    with pytest.raises(fsmc.BudgetExceeded):
        matcher.fill_next_token_bitmask(fsmc.allocate_token_bitmask(1, grammar.vocab.size), max_tokens=needed - 1)
    masks = fsmc.allocate_token_bitmask(2, grammar.vocab.size)
    for i in range(2):
        matcher.fill_next_token_bitmask(masks, i, max_tokens=needed + i)
    assert (masks[0] == masks[1]).all()


def test_exercise_8_2() -> None:
    def fits(matcher: fsmc.GrammarMatcher, draft: list[int]) -> int:
        other = matcher.fork()
        return sum(1 for _ in itertools.takewhile(other.accept_token, draft))

    names = lesson(8)
    matcher = fsmc.GrammarMatcher(names["compiler"].compile_json_schema(names["person"]))
    for draft in ([0, 1, 4, 7, 5], [0, 2, 4, 5, 6], [3], [], [0, 4, 5]):
        assert fits(matcher, draft) == matcher.fork().validate_tokens(draft)


def masked_and_exact(pattern: str, model: HiddenMarkovModel, texts: list[tuple[int, ...]]) -> tuple[list, list]:
    """Probabilities of the texts, under the mask at each step and given that the text is valid."""
    vocabulary = lesson(9)["vocabulary"]
    dfa = machine_of(pattern)
    machine = TokenMachine.of(dfa, vocabulary)
    exact = ConditionedModel(machine, model, max(map(len, texts)), "live")
    masked = []
    for text in texts:
        probability = 1.0
        for i, token in enumerate(text):
            state, distribution = machine.run(text[:i]), model.next_token_distribution(text[:i])
            allowed = [t for t in range(vocabulary.size) if machine.step(state, t)]
            probability *= distribution[token] / distribution[allowed].sum()
        masked.append(probability)
    return masked, [float(np.exp(exact.text_log_probability(text))) for text in texts]


def test_exercise_9_1() -> None:
    """For those that forbid in the first step only, say: behind each allowed token everything fits, so that h is 1."""
    names = lesson(9)
    rng = np.random.default_rng(0)
    for _ in range(5):
        following = rng.dirichlet(np.ones(5), 5)
        model = HiddenMarkovModel.from_bigrams(rng.dirichlet(np.ones(5)), following)
        texts = [(a, *rest) for a in (names["A"], names["B"]) for rest in itertools.product(range(4), repeat=2)]
        masked, exact = masked_and_exact("[ab][abxy]*", model, texts)
        assert masked == pytest.approx(exact)


def test_exercise_9_2() -> None:
    """The model nearly always begins with a and then never ends; the constraint wants one letter and the end."""
    first = [0.999, 0.001, 0, 0, 0]
    following = [[0, 0, 1 - 1e-6, 0, 1e-6], [0, 0, 0, 0, 1], *[[0.2] * 5] * 2, [0, 0, 0, 0, 1]]
    names = lesson(9)
    model = HiddenMarkovModel.from_bigrams(first, following)
    masked, exact = masked_and_exact("a|b", model, [(names["A"], names["EOS"]), (names["B"], names["EOS"])])
    assert masked[0] == pytest.approx(0.999) and exact[0] < 0.001


def test_exercise_9_3() -> None:
    """One that gives every token the same probability: words of one length have then the same weight."""
    dfa = machine_of("(?=.*b)[ab]{3}")
    machine = TokenMachine.of(dfa, lesson(9)["vocabulary"])
    exact = ConditionedModel(machine, HiddenMarkovModel([1.0], [[1.0]], [[0.2] * 5]), 4)
    probabilities = [
        np.exp(exact.text_log_probability((*word, 4)))
        for word in itertools.product((0, 1), repeat=3)
        if dfa.matches(b"".join(lesson(9)["TOKENS"][token] for token in word))
    ]
    assert len(probabilities) == sum(count_strings(dfa, 3)) == 7
    assert probabilities == pytest.approx([1 / 7] * 7)


def engine_and_requests() -> tuple[Any, Any, Any]:
    for module in ("torch", "transformers"):
        pytest.importorskip(module, reason="the engine needs it")
    from fsmc.runtime.toy_model import toy_model

    model, tokenizer, vocab = toy_model(n_layers=2, hidden_size=64)
    return fsmc.Engine(model, tokenizer, vocab), fsmc.GrammarCompiler(vocab, cache_dir=None), fsmc.Request


def test_exercise_10_1() -> None:
    """No: rows are packed, but each attends to its own past only."""
    engine, compiler, request = engine_and_requests()
    patterns = ["[a-z]{5,9}", "(silver|golden) fox", "[0-9]{3}", "a{2,8}b"]
    (alone,) = engine.run([request("Who? ", compiler.compile_regex(patterns[0]))])
    together = engine.run([request("Who? ", compiler.compile_regex(pattern)) for pattern in patterns])
    assert together[0].text == alone.text and re.fullmatch(patterns[0], alone.text)


def test_exercise_10_2() -> None:
    """None: there is nothing to ask."""
    engine, compiler, request = engine_and_requests()
    (response,) = engine.run([request("Who? ", compiler.compile_regex("the silver fox"))])
    assert response.text == "the silver fox" and response.forward_passes == 0
