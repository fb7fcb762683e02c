"""Jumps through machines made as they are walked, against all texts of finite schemas and against the definition."""

from __future__ import annotations

import json

import pytest
from lazy_examples import Copying, DifferentItems
from rsm_examples import EXAMPLES
from test_jump_map import common_prefix, forced_by_definition, spelled_names, whole_characters

from fsmc.compiler.automata.counting import enumerate_strings, is_finite
from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.jump_map import JumpForwardMap
from fsmc.runtime.matcher import GrammarMatcher

VOCAB = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), b""], eos_token_ids=[256])

FINITE = [
    {"enum": ["größe", "größte", "gross"]},
    {"const": {"a": [True, {"b": None}], "größe": "白天"}},
    {"enum": ["12", "120", "1200"]},
    {"enum": ["白天", "白头"]},
    {"type": "object", "properties": {"name": {"enum": ["x", "xy"]}, "n": {"const": False}}, "required": ["name", "n"],
     "additionalProperties": False},
    {"type": "array", "prefixItems": [{"const": "ab"}, {"enum": [True, None]}], "items": False, "minItems": 1},
    {"type": "object", "properties": {"kind": {"enum": ["é", "è"]}, "ok": {"type": "boolean"}}, "required": ["kind"],
     "additionalProperties": False},
]  # fmt: skip


@pytest.mark.parametrize("schema", FINITE, ids=json.dumps)
@pytest.mark.parametrize("whitespace", ["compact", "json"])
def test_longest_common_prefix_of_all_completions(schema, whitespace):
    grammar = GrammarCompiler(VOCAB, cache_dir=None, whitespace=whitespace).compile_json_schema(schema)
    dfa = grammar.machine.flatten(8)
    assert is_finite(dfa)
    texts = list(enumerate_strings(dfa))
    assert 1 <= len(texts) <= 10
    for prefix in {text[:i] for text in texts for i in range(len(text) + 1)}:
        common = common_prefix([text[len(prefix) :] for text in texts if text.startswith(prefix)])
        here = grammar.machine.run(prefix)
        assert grammar.jump_map.forced_bytes(here) == common
        text, target = grammar.jump_map.jump_from(here)
        assert (text, target) == (whole_characters(prefix, common), grammar.machine.run(prefix + text))
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_bytes(prefix)
        inside = whole_characters(b"", prefix) != prefix
        assert matcher.find_jump_forward_string() == ("" if inside else text.decode())


@pytest.mark.parametrize("original", [*(example.machine for example in EXAMPLES.values()), spelled_names()])
def test_the_same_jumps_as_in_the_original(original):
    copying = Copying(original)
    jumps = JumpForwardMap(copying.machine)
    assert len(jumps.next_byte) == 0 and jumps.forced_share == 0
    met, n_jumps = {original.initial: copying.machine.initial}, 0
    for _ in range(7):
        for there, here in list(met.items()):
            assert jumps.forced_bytes(here) == forced_by_definition(original, there)
            n_jumps += jumps.forced_bytes(here) != b""
            for byte in b'[],+01(<={;}"name:\xc3\xa9':
                after = original.step(there, byte)
                if after is not None and len(after.stack) < 4:
                    met[after] = copying.machine.step(here, byte)
    assert n_jumps or original is not spelled_names


def test_a_jump_ends_where_a_recorded_call_returns():
    machine = DifferentItems().machine
    jumps = JumpForwardMap(machine)
    assert jumps.jump_from(machine.initial) == (b"(", machine.run(b"("))
    assert jumps.jump_from(machine.run(b"(a")) == (b"", machine.run(b"(a"))

    schema = {"type": "array", "items": {"enum": ["xa", "xb"]}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
    matcher = GrammarMatcher(GrammarCompiler(VOCAB, cache_dir=None, whitespace="compact").compile_json_schema(schema))
    text = ""
    while forced := matcher.find_jump_forward_string():
        text += forced
        assert matcher.accept_bytes(forced.encode())
    assert text == '["x'
    assert matcher.accept_bytes(b"a")
    rest = ""
    while forced := matcher.find_jump_forward_string():
        rest += forced
        assert matcher.accept_bytes(forced.encode())
    assert rest == '","xb"]'


def test_a_long_jump_and_its_limit():
    grammar = GrammarCompiler(VOCAB, cache_dir=None, whitespace="compact").compile_json_schema(
        {"const": ["x" * 5000] * 3}
    )
    text = json.dumps(["x" * 5000] * 3, separators=(",", ":")).encode()
    assert JumpForwardMap(grammar).jump_from(grammar.machine.initial)[0] == text
    with pytest.raises(LimitExceeded, match="max_bytes=10000"):
        JumpForwardMap(grammar, max_bytes=10_000).follow(Configuration(grammar.machine.start))
