"""A mask holds exactly the tokens that the matcher takes, in every place of texts under schemas of each kind of component."""

import contextlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fsmc

NAMES = {"type": "object", "properties": {"name": {"type": "string"}, "names": {"type": "integer"}, "id": {"const": 7}}}
CASES = {
    "one counted pattern, two callers": (
        {
            "$defs": {"p": {"type": "string", "pattern": "^[a-z]*$", "maxLength": 60}},
            "properties": {"a": {"items": {"$ref": "#/$defs/p"}}, "b": {"$ref": "#/$defs/p"}},
        },
        {"a": ["xy", "z"], "b": "xy"},
    ),
    "other keys": (NAMES, {"name": 'a "quoted" \\ é☃', "names": 3, "nam": [1.5e3], "id2": None}),
    "no other keys": ({**NAMES, "additionalProperties": False}, {"name": "x", "id": 7}),
    "required": ({**NAMES, "required": ["id"]}, {"name": "", "id": 7, "": True}),
    "key patterns": (
        {"patternProperties": {"^n": {"type": "number"}, "e$": {"minimum": 2}}, "properties": {"ne": {"const": 3}}},
        {"ne": 3, "nene": 2.5, "x": False, "e": "s"},
    ),
    "few other keys": (
        {"propertyNames": {"enum": ["n", "na", "id"]}, "properties": {"na": {"type": "null"}}},
        {"na": None, "n": [], "id": 1},
    ),
    "closed key patterns": (
        {"properties": {"abcd": True}, "patternProperties": {"^x": True}, "additionalProperties": False},
        {"abcd": 1, "x1": 2, "xab": 3},
    ),
    "tracked keys": ({"minProperties": 3, "properties": {"a": True}}, {"a": 1, "b": 2, "n": 3}),
    "names with escapes": (
        {"properties": {'q"é': True, "a\\b": True, "a\nb": True}},
        {"a\\": 1, 'q"': 2, "a": 3, 'q"ée': None, "a\t": 4},
    ),
    "strings": (
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "string", "maxLength": 4},
                    {"type": "string", "pattern": "^n[a-z]*$"},
                    {"type": "string", "format": "date"},
                    {"enum": ["name", "na me", 12]},
                ]
            },
        },
        ["nam", "2024-02-29", "nnnnnnnnn", "na me", 12],
    ),
    "long strings": (
        {"items": {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 30}, {"pattern": "^(ab)*[é]+.?$", "maxLength": 40}]}},
        ["a" * 27 + "é", "ab" * 13 + "éé", "é" * 25],
    ),
    "a counted pattern": ({"type": "string", "pattern": "a$", "maxLength": 30}, "b" * 29 + "a"),
    "counted patterns with an end": (
        {
            "items": {
                "anyOf": [
                    {"type": "string", "pattern": "a$", "maxLength": 30},
                    {"type": "string", "pattern": "[ab]{3}$", "maxLength": 30},
                    {"type": "string", "pattern": "^(ab)*c?.*b$", "maxLength": 30},
                ]
            }
        },
        ["b" * 29 + "a", "x" * 27 + "aba", "abc" + "é" * 20 + "aaaaaab"],
    ),
    "large counted patterns": (
        {"items": {"type": "string", "pattern": "^(\\S+ ){0,60}\\S+$", "minLength": 3, "maxLength": 40}},
        ["a nam " + "é" * 20 + " 12 x", "a" * 38],
    ),
    "numbers": ({"items": {"type": "number", "minimum": -3, "multipleOf": 0.5}}, [1, -2.5, 30.0, 0]),
    "recursion": ({"$ref": "#/$defs/t", "$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "type": ["array", "string"]}}}, [["n"], []]),
    "watched": (
        {"oneOf": [{"properties": {"n": {"type": "string"}, "a": {"minimum": 2}}}, {"properties": {"n": {"minLength": 2}, "a": {"type": "integer"}}}]},
        {"n": "nn", "a": 1},
    ),
}  # fmt: skip
PIECES = [
    "ab",
    "xab",
    "abcd",
    "bba",
    "xx",
    "a" * 13,
    "a" * 20,
    "a" * 29,
    "ab" * 8,
    "é" * 9 + '"',
    "é" * 20,
    "a" * 15 + '", "',
    '"na',
    'name"',
    '": "',
    '":',
    '", "',
    '"}',
    ' "n',
    "nam",
    'e":',
    '"id',
    "e☃",
    "12",
    "2.5",
    ", ",
    "[[",
    '"]',
    'd":',
]


def vocabulary() -> fsmc.Vocabulary:
    texts = [json.dumps(value, ensure_ascii=False).encode() for _, value in CASES.values()]
    cut = {text[i : i + n] for text in texts for n in (2, 3, 5, 8) for i in range(0, len(text), 2)}
    tokens = [bytes([byte]) for byte in range(256)] + sorted(cut | {piece.encode() for piece in PIECES})
    return fsmc.Vocabulary.from_tokens([*tokens, b""], eos_token_ids=[len(tokens)])


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("whitespace", ["flexible", "json"])
@pytest.mark.parametrize("name", CASES)
def test_masks_are_what_the_matcher_takes(name, whitespace, order):
    schema, value = CASES[name]
    vocab = vocabulary()
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None, whitespace=whitespace, property_order=order)
    grammar = compiler.compile_json_schema(schema)
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    text = json.dumps(value, ensure_ascii=False).encode()
    for _again in range(2):  # the second time from rows that are remembered
        matcher = fsmc.GrammarMatcher(grammar)
        for i in range(len(text) + 1):
            matcher.fill_next_token_bitmask(mask)
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()
            taken = [t for t in range(vocab.size) if matcher.fork().accept_token(t)]
            if name == "tracked keys":  # a token that ends one such key and begins the next may be left out
                assert set(allowed) <= set(taken) and {t for t in taken if t < 256} <= set(allowed), text[:i]
            else:
                assert allowed == taken, text[:i]
            assert matcher.accept_bytes(text[i : i + 1])
        assert matcher.is_completed()


def test_a_limit_leaves_the_machine_usable():
    """Keys whose states did not fit are refused each time they are asked for, and no other text is read wrongly for it."""
    names = {f"n{i}_{'abc'[i % 3] * 6}": {"type": "integer"} for i in range(12)}
    schema = {"properties": names, "required": list(names)[::3]}
    text = json.dumps(dict.fromkeys(names, 1)).encode()
    for limit in range(20, 460, 20):
        grammar = fsmc.GrammarCompiler(vocabulary(), cache_dir=None, max_states=limit).compile_json_schema(schema)
        reached = set()
        for _ in range(3):
            matcher = fsmc.GrammarMatcher(grammar)
            n = 0
            with contextlib.suppress(fsmc.LimitExceeded):
                while n < len(text) and matcher.accept_bytes(text[n : n + 1]):
                    n += 1
                assert n == len(text)
            reached.add(n)
        assert len(reached) == 1


def test_threads_that_share_a_grammar_see_the_same_masks():
    schema = {"items": {"type": "string", "maxLength": 60, "pattern": "^[ab]*(c|é)?[a-z]*$"}}
    vocab = vocabulary()
    compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    texts = [json.dumps(["ab" * n + "c" + "xyz" * n for n in range(k, 12, 2)]).encode() for k in range(4)]

    def masks(grammar, text):
        mask, matcher, found = fsmc.allocate_token_bitmask(1, vocab.size), fsmc.GrammarMatcher(grammar), []
        for byte in text:
            matcher.fill_next_token_bitmask(mask)
            found.append(mask.tobytes())
            assert matcher.accept_bytes(bytes([byte]))
        return found

    expected = [masks(compiler.compile_json_schema(schema), text) for text in texts]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(3):
            shared = compiler.compile_json_schema(schema)
            with ThreadPoolExecutor(4) as pool:
                assert list(pool.map(masks, [shared] * len(texts), texts)) == expected
    finally:
        sys.setswitchinterval(interval)
