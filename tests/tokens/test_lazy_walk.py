"""Walks, masks and matchers over machines made as they are walked, against the reference semantics."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from lazy_examples import Copying, DifferentItems, is_different_items, lazy_copy
from mask_oracles import allowed_by_rsm, real_vocabulary
from rsm_examples import EXAMPLES, sums
from test_walk import array, configurations, intern, short_texts, vocabulary_for

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.automata.tables import RECORDED
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.masks import LazyMasks
from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.compiler.tokens.walk import NOTHING, advance
from fsmc.runtime.matcher import GrammarMatcher

PIECES = [
    '{"',
    '":',
    '": "',
    '"a',
    '"b":',
    ', "',
    '","',
    '",',
    '"}',
    '"]',
    '"}]',
    "}}",
    "},{",
    "]}",
    "[[",
    "[{",
    "1,",
    ", ",
    ",-",
    ".5",
]
PIECES += [
    "12",
    "00",
    "e5",
    "tr",
    "rue",
    "null",
    "false",
    "ab",
    "abcd",
    "aaaaaaaa",
    "xyz",
    "\\",
    '\\"',
    "\\n",
    "\\u00",
    "é",
    "  ",
    "\n",
]
JSON_TOKENS = (
    [bytes([byte]) for byte in range(0x20, 0x7F)] + [piece.encode() for piece in PIECES] + [b"\xc3", b"\xa9", b"\xff"]
)
JSON_VOCAB = Vocabulary.from_tokens([*JSON_TOKENS, b""], eos_token_ids=[len(JSON_TOKENS)])

SCHEMAS = [
    True,
    {"type": "integer", "minimum": -3, "maximum": 120},
    {"type": "number", "multipleOf": 0.5, "exclusiveMaximum": 12},
    {"type": "string", "maxLength": 6},
    {"type": "string", "minLength": 3, "maxLength": 40},
    {"type": "string", "pattern": "^[a-c]+(xyz)?$", "maxLength": 5},
    {"type": "string", "minLength": 4},
    {"enum": ["a", "ab", 1, 12, None, {"a": [1]}]},
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3},
    {"type": "array", "prefixItems": [{"const": 1}, {"type": "boolean"}], "items": {"type": "array"}, "minItems": 2},
    {"type": "array", "contains": {"const": 12}, "items": {"type": "integer"}, "maxItems": 4},
    {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["b"], "additionalProperties": False},
    {"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "number"}, "minProperties": 1},
    {"type": "object", "patternProperties": {"^a": {"type": "boolean"}}, "propertyNames": {"maxLength": 4}},
    {"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "array", "items": {"type": "null"}}]},
    {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {"type": "null"}}},
    {"type": "object", "if": {"properties": {"a": {"const": True}}, "required": ["a"]}, "then": {"required": ["b"]}},
    {"not": {"type": ["object", "array", "string"]}},
    {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2}}},
    {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"enum": ["x", "xy"]}}, "additionalProperties": False},
]  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_advance_and_fill_follow_the_original(name):
    example = EXAMPLES[name]
    vocab = vocabulary_for(example)
    copying = Copying(example.machine)
    machine, masks = copying.machine, LazyMasks(copying.machine, TokenTrie.build(vocab))
    stacks = masks.stacks

    def copied(configuration):
        return Configuration(
            machine.new_state(configuration.state), tuple(machine.new_frame(frame) for frame in configuration.stack)
        )

    for there in sorted(configurations(example)):
        here = copied(there)
        node = intern(stacks, here.stack)
        assert masks.allowed_token_ids(here.state, node).tolist() == allowed_by_rsm(example.machine, vocab, there)
        for text in short_texts(example.alphabet, 2):
            state, stack, _, consumed = advance(machine, stacks, here.state, node, array(text))
            assert Configuration(state, stacks.frames(stack)) == copied(example.machine.run(text[:consumed], there))
            assert consumed == len(text) or example.machine.run(text[: consumed + 1], there) is None


def test_rows_are_kept_by_the_frames_they_depend_on():
    """Deep in nested lists, what lies below the innermost frames makes no new row."""
    machine = lazy_copy(sums())
    masks = LazyMasks(machine, TokenTrie.build(Vocabulary.from_tokens([b"1", b"]", b"]]", b",", b"1]"])))
    sizes = []
    for depth in range(1, 12):
        state, stack, _, _ = advance(machine, masks.stacks, machine.start, EMPTY_STACK, array(b"[" * depth + b"1"))
        assert len(masks.allowed_token_ids(state, stack)) == (5 if depth > 1 else 4)
        sizes.append(masks.n_rows)
    assert sizes[-1] == sizes[4] > sizes[0]


@pytest.mark.parametrize("split", [1, 2, 3, 100])
def test_recordings_follow_the_reference_however_the_text_is_cut(split):
    machine, stacks = DifferentItems().machine, ReturnStacks()
    for text in short_texts(b"ab,", 6):
        text = b"(" + text + b")"
        state, stack, recording, i = machine.start, EMPTY_STACK, NOTHING, 0
        while i < len(text):
            piece = text[i : i + split]
            state, stack, recording, consumed = advance(
                machine, stacks, state, stack, array(piece), recording=recording
            )
            i += consumed
            if consumed < len(piece):
                break
        assert (i == len(text)) == is_different_items(text)
        assert state == DEAD or Configuration(state, stacks.frames(stack)) == machine.run(text[:i])
        assert recording == NOTHING or stack != EMPTY_STACK


def instances(schema, machine, rng):
    """Texts that the machine accepts, found by random walks over bytes that lead on."""
    for _ in range(8):
        text, here = b"", machine.initial
        while len(text) < 60 and not (machine.is_complete(here) and rng.random() < 0.3):
            nexts = [byte for byte in b'{}[]",:-.0123abcxyz tfnul\\e' if machine.step(here, byte)]
            nexts += [byte for byte in range(0x80, 0x100) if machine.step(here, byte)] if rng.random() < 0.05 else []
            if not nexts:
                break
            text += bytes([rng.choice(nexts)])
            here = machine.run(text)
        yield text


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_masks_of_schemas_by_brute_force(number):
    """A bit is set iff the token's bytes can be read after the text so far."""
    layout = "compact" if number % 2 else "flexible"
    grammar = GrammarCompiler(JSON_VOCAB, cache_dir=None, whitespace=layout).compile_json_schema(SCHEMAS[number])
    reference = (
        GrammarCompiler(JSON_VOCAB, cache_dir=None, whitespace=layout).compile_json_schema(SCHEMAS[number]).machine
    )
    assert isinstance(reference, LazyRSM)
    for text in instances(SCHEMAS[number], reference, random.Random(number)):
        matcher = GrammarMatcher(grammar)
        for i in range(len(text) + 1):
            here = reference.run(text[:i])
            assert here is not None
            assert allowed(matcher) == [
                t for t, token in enumerate(JSON_TOKENS) if can_read(reference, text[:i], here, token)
            ]
            assert matcher.is_completed() == reference.is_complete(here)
            assert matcher.accept_bytes(text[i : i + 1])


def can_read(machine, text, here, token):
    """Whether ``token`` can be read after ``text``, which leads to ``here``: from the start where what was read matters."""
    if any(frame >= RECORDED for frame in here.stack):
        return machine.run(text + token) is not None
    return machine.run(token, here) is not None


def allowed(matcher):
    """The ids of the tokens with bytes that the mask allows."""
    row = np.zeros(-(-JSON_VOCAB.size // 32), np.int32)
    matcher.fill_next_token_bitmask(row)
    ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    return ids[ids < len(JSON_TOKENS)].tolist()


def test_masks_of_schemas_over_a_real_vocabulary():
    vocab = real_vocabulary()
    compiler = GrammarCompiler(vocab, cache_dir=None)
    rng = random.Random(0)
    quoted = [t for t in range(vocab.size) if b'"' in vocab.token(t)]
    for schema in SCHEMAS[3:7] + SCHEMAS[11:15]:
        grammar = compiler.compile_json_schema(schema)
        machine, matcher = grammar.machine, GrammarMatcher(grammar)
        row = np.zeros(-(-vocab.size // 32), np.int32)
        for text in list(instances(schema, machine, rng))[:3]:
            matcher.reset()
            for i in range(0, len(text), 3):
                matcher.fill_next_token_bitmask(row)
                bits = np.unpackbits(row.view(np.uint8), bitorder="little")
                sample = rng.sample(np.flatnonzero(bits).tolist(), min(100, int(bits.sum())))
                here = machine.run(text[:i])
                for t in sample + rng.sample(range(vocab.size), 100) + rng.sample(quoted, 100):
                    token = vocab.token(t)
                    if t not in matcher.stop_token_ids:
                        can_follow = token != b"" and can_read(machine, text[:i], here, token)
                        assert bool(bits[t]) == can_follow, (schema, text[:i], token)
                assert matcher.accept_bytes(text[i : i + 3])


def test_threads_share_a_grammar():
    schema = {
        "type": "object",
        "properties": {name: {"type": "array", "items": {"enum": ["x", 1, name]}} for name in "abcdefgh"},
        "additionalProperties": {"type": "string", "maxLength": 20},
    }
    values = [{name: ["x", 1, name] for name in "abcdefgh"[i:]} | {f"k{i}": "v" * i} for i in range(8)]
    texts = [json.dumps(value, separators=(",", ":")).encode() for value in values]

    def lives(grammar, order):
        found = {}
        for text in order:
            matcher = GrammarMatcher(grammar)
            rows = []
            for byte in text:
                rows.append(tuple(allowed(matcher)))
                assert matcher.accept_bytes(bytes([byte]))
            found[text] = (rows, matcher.is_completed(), matcher.find_jump_forward_string())
        return found

    compiler = GrammarCompiler(JSON_VOCAB, cache_dir=None, whitespace="compact")
    expected = lives(compiler.compile_json_schema(schema), texts)
    shared = compiler.compile_json_schema(schema)
    rng = random.Random(0)
    with ThreadPoolExecutor(32) as pool:
        orders = [rng.sample(texts, len(texts)) for _ in range(32)]
        for found in pool.map(lambda order: lives(shared, order), orders):
            assert found == expected


def test_a_matcher_stays_where_it_is_when_a_limit_is_reached():
    grammar = GrammarCompiler(JSON_VOCAB, cache_dir=None, whitespace="compact").compile_json_schema(
        {"type": "array", "items": {"type": "string", "maxLength": 50}}
    )
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_bytes(b"[")
    before, row = matcher.configuration, allowed(matcher)
    machine = grammar.machine
    machine.max_states, limit = machine.n_states, machine.max_states
    for _ in range(2):
        with pytest.raises(LimitExceeded, match="max_states"):
            matcher.accept_bytes(b'"' + b"x" * 50 + b'"')
        assert matcher.configuration == before and allowed(matcher) == row
    machine.max_states = limit
    assert matcher.accept_bytes(b'"' + b"x" * 50 + b'"]') and matcher.is_completed()
