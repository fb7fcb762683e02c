"""Constraints combined: language by language against the two that they come from, masks without dead ends, shortest witnesses."""

from __future__ import annotations

import functools
import itertools
import json
import random
from typing import Any

import numpy as np
import pytest

import fsmc
from fsmc.compiler.automata.product_machine import ProductMachine
from fsmc.compiler.automata.rsm_product import BOTH, DFA_ONLY, EITHER, Analysis
from fsmc.compiler.schema.sampling import InstanceSampler
from tests.tokens.mask_oracles import row_tokens

VOCAB = fsmc.Vocabulary.from_tokens(
    [*(bytes([b]) for b in range(256)), b'":', b'{"', b"1,", b"],", b"[1", b'"}', b"", b"<|end|>"],
    eos_token_ids=[262],
    special_token_ids=[263],
)
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None, whitespace="compact")
TREE = {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}
SCHEMAS = [
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "additionalProperties": False,
    },
    {"type": "array", "items": {"type": ["integer", "string", "null"]}, "maxItems": 3},
    {"enum": [1, "x", [1], {"a": 2}]},
    {"type": "number"},
    TREE,
    {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}]},
]
PATTERNS = [".{0,12}", "[^a]*", ".*1.*", "(..)*", r"\[.*\]|x+", r"[\[\]0-9,]*", ".*[^5]"]
TEXTS = ["", "x", "xx", "[", "[1", "[1]", "[1,1", "ab", "1", "15", "[]", "[[]]", '"x"']


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_schema_and_pattern_side_by_side(schema, pattern: str) -> None:
    machine, dfa = COMPILER.compile_json_schema(schema).machine, COMPILER.compile_regex(pattern).dfa
    sampler = InstanceSampler(machine.builder, 1, max_length=12)
    texts = [*TEXTS, *(sampler.sample() for _ in range(30))]
    for combination in (BOTH, EITHER, DFA_ONLY):
        analysis = Analysis(machine, dfa, combination)
        product = ProductMachine(analysis)
        for text in texts:
            data = text.encode()
            assert product.rsm.matches(data) == combination.accepts(dfa.matches(data), machine.matches(data)), text
        shortest = analysis.shortest()
        assert (shortest is None) == product.is_empty
        if shortest is not None:
            assert product.rsm.matches(shortest)
            accepted = [text for text in texts if product.rsm.matches(text.encode())]
            assert all(len(shortest) <= len(text.encode()) for text in accepted)
            grammar = fsmc.CompiledGrammar(
                product.rsm, VOCAB, kind="x", source="", stats=fsmc.compiler.grammar.CompileStats()
            )
            walk_without_dead_ends(grammar)


def walk_without_dead_ends(grammar: fsmc.CompiledGrammar, seed: int = 1) -> None:
    """Random tokens, each mask equal to what is accepted byte by byte, and never empty before the end."""
    rng, matcher = random.Random(seed), fsmc.GrammarMatcher(grammar)
    mask = fsmc.allocate_token_bitmask(1, grammar.vocab.size)
    for _ in range(20):
        matcher.fill_next_token_bitmask(mask)
        allowed = [i for i in row_tokens(np.asarray(mask[0])) if i not in VOCAB.eos_token_ids]
        assert allowed == [i for i in range(262) if grammar.vocab.token(i) and matcher.fork().accept_token(i)]
        assert allowed or matcher.is_completed()
        if not allowed:
            return
        usual = [i for i in allowed if grammar.vocab.token(i) in b'[]{}",:1ab5'] or allowed
        assert matcher.accept_token(rng.choice(usual))


def test_operators_of_patterns() -> None:
    a, b = COMPILER.compile_regex("[ab]{1,3}"), COMPILER.compile_choice(["a", "ab", "c"])
    for text in ("", "a", "ab", "c", "bb", "abc", "aba"):
        data, in_a, in_b = text.encode(), a.machine.matches(text.encode()), b.machine.matches(text.encode())
        assert (a & b).machine.matches(data) == (in_a and in_b)
        assert (a | b).machine.matches(data) == (in_a or in_b)
        assert (a - b).machine.matches(data) == (in_a and not in_b)
        assert (~a).machine.matches(data) == (not in_a)
    assert (a + b).machine.matches(b"bac") and not (a + b).machine.matches(b"b")
    assert a.equivalent(a | (a & b)) and not a.equivalent(b)
    assert a.equivalent(b).witness in (b"b", b"c")
    assert (a & b).subset_of(a) and a.subset_of(b).witness == b"b"
    assert (a | b).dfa is not None and (a | b).build_index().n_rows


def test_operators_of_schemas() -> None:
    objects = COMPILER.compile_json_schema({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}})
    small = COMPILER.compile_json_schema({"properties": {"a": {"maximum": 5}}})
    values = ['{"a":4}', '{"a":9}', '{"a":1}', "{}", '{"a":"x"}', "[]", "7", '{"b":1,"c":2}']
    for text in values:
        data = text.encode()
        in_a, in_b = objects.machine.matches(data), small.machine.matches(data)
        assert (objects & small).machine.matches(data) == (in_a and in_b), text
        assert (objects | small).machine.matches(data) == (in_a or in_b), text
        assert (objects - small).machine.matches(data) == (in_a and not in_b), text
        assert (~objects).machine.matches(data) == (not in_a), text
    assert not (~objects).machine.matches(b"x")  # the JSON texts of other values
    assert (objects & small).subset_of(objects) and (objects & small).kind == "json_schema"
    witness = objects.subset_of(small).witness
    assert witness is not None and objects.machine.matches(witness) and not small.machine.matches(witness)
    assert json.loads(witness)["a"] > 5
    assert objects.equivalent(~~objects)
    with pytest.raises(fsmc.EmptyLanguageError):
        objects & ~objects


INTEGER = {"type": "integer"}


def closed(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


OPEN = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}
LISTS = {"type": "array", "items": INTEGER}


@pytest.mark.parametrize(
    ("one", "other", "is_subset", "is_superset"),
    [
        (closed(a=INTEGER), closed(a={**INTEGER, "maximum": 3}), False, True),
        (closed(a=INTEGER), closed(a=INTEGER), True, True),
        (closed(a=INTEGER), closed(a={"allOf": [INTEGER, {"type": "number"}]}), True, True),
        (closed(a={"enum": ["x", "y"]}), closed(a={"enum": ["x", "z"]}), False, False),
        (closed(a=INTEGER, b=INTEGER), closed(a=INTEGER), False, False),
        (OPEN, closed(a=INTEGER), False, True),
        (closed(a=closed(b=INTEGER)), closed(a=closed(b={**INTEGER, "minimum": 5})), False, True),
        ({"type": "object", "minProperties": 2}, closed(a=INTEGER), False, False),
        (LISTS, {**LISTS, "uniqueItems": True}, False, True),
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("layout", [{"whitespace": "compact"}, {}, {"indent": 2}], ids=json.dumps)
def test_inclusion_of_objects(one, other, is_subset: bool, is_superset: bool, layout) -> None:
    compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None, **layout)
    a, b = compiler.compile_json_schema(one), compiler.compile_json_schema(other)
    for result, x, y, expected in (
        (a.subset_of(b), a, b, is_subset),
        (b.subset_of(a), b, a, is_superset),
    ):
        assert bool(result) == expected
        if not expected:
            assert x.machine.matches(result.witness) and not y.machine.matches(result.witness)
            json.loads(result.witness)
    for result in (a.equivalent(b), b.equivalent(a)):
        assert bool(result) == (is_subset and is_superset)
        assert result or a.machine.matches(result.witness) != b.machine.matches(result.witness)


def test_witnesses_of_objects_are_short() -> None:
    a, b = (COMPILER.compile_json_schema(closed(a={**INTEGER, **more})) for more in ({}, {"maximum": 3}))
    assert a.subset_of(b).witness == a.equivalent(b).witness == b'{"a":4}'


ORDERS = [
    {"type": "object", "properties": dict.fromkeys(names, INTEGER), "required": required, **more}
    for names in ("ab", "cba")
    for required in (["a", "b"], ["b"])
    for more in ({}, {"additionalProperties": False}, {"minProperties": 3})
]


def test_witnesses_are_in_the_order_of_the_first_schema() -> None:
    """Also where both together have another: pairs of schemas that differ in order, and in what they ask for."""
    nested = [{"type": "array", "items": {"type": "object", "properties": {"x": schema}}} for schema in ORDERS[::7]]
    no_list = {"type": "object", "required": ["shape", "size"]}
    described = {"type": "object", "properties": {"size": {"type": "object"}, "shape": {}}, "required": ["shape"]}
    pairs = [*itertools.product(ORDERS, ORDERS[::3]), *itertools.product(nested, nested), (no_list, described)]
    n_witnesses = 0
    compiled = functools.cache(lambda text: COMPILER.compile_json_schema(text))
    for one, other in pairs:
        try:
            a, b = compiled(json.dumps(one)), compiled(json.dumps(other))
        except fsmc.EmptyLanguageError:  # three members of two names
            continue
        witness = a.subset_of(b).witness
        if witness is not None:
            n_witnesses += 1
            assert a.machine.matches(witness) and not b.machine.matches(witness), (one, other, witness)
    assert n_witnesses > 10


UNIQUE = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}
DIFFERENT = {"type": "array", "uniqueItems": True, "items": {"type": "string"}, "minItems": 3}


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        (UNIQUE, r"\[[0-9,]*\]"),
        (UNIQUE, r"\[([^,]*,){0,2}[^,]*\]"),
        (DIFFERENT, r'\[("[a-c]*",?)*\]'),
        (DIFFERENT, r"\[.{0,11}\]"),
        ({"type": "object", "minProperties": 2}, "(ab)*"),
    ],
    ids=json.dumps,
)
def test_a_text_shows_why_not_where_it_cannot_be_told_exactly(schema: Any, pattern: str) -> None:
    a, b = COMPILER.compile_json_schema(schema), COMPILER.compile_regex(pattern)
    with pytest.raises(fsmc.ConstraintError, match="cannot be combined"):
        a - b
    included, equal = (compare(b, max_searched=1000).witness for compare in (a.subset_of, a.equivalent))
    assert included is not None and a.machine.matches(included) and not b.machine.matches(included)
    assert equal is not None and a.machine.matches(equal) != b.machine.matches(equal)


def test_what_has_few_texts_is_told_with_values_that_differ() -> None:
    unique = COMPILER.compile_json_schema(UNIQUE)
    some, wrong = (COMPILER.compile_regex(pattern) for pattern in (r"\[(1,2|3|2,1)\]", r"\[(1,2|3|2,2)\]"))
    assert some.subset_of(unique) and wrong.subset_of(unique).witness == b"[2,2]"
    tag = {"type": "tag", "begin": "<", "end": ">", "content": {"type": "json_schema", "json_schema": UNIQUE}}
    tagged = COMPILER.compile_structural_tag(tag)
    assert tagged.subset_of(COMPILER.compile_regex(r"<\[[1-9,]*\]>")).witness == b"<[0]>"
    assert COMPILER.compile_regex(r"<\[[12](,[12])?\]>").subset_of(tagged).witness == b"<[1,1]>"
    few = COMPILER.compile_json_schema(
        {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "contains": {"const": 1}}
    )
    witness = few.subset_of(unique).witness
    assert witness is not None and len(set(json.loads(witness))) < len(json.loads(witness))


def test_what_is_not_told() -> None:
    a, b = COMPILER.compile_json_schema(UNIQUE), COMPILER.compile_regex(r"\[.*\]")
    with pytest.raises(fsmc.ConstraintError, match=r"cannot be combined.*; no text .* was found .* max_searched=200 "):
        a.subset_of(b, max_searched=200)
    witness = a.equivalent(b, max_searched=200).witness  # the other way
    assert b.machine.matches(witness) and not a.machine.matches(witness)


def test_references_stay_in_their_own_schema() -> None:
    first = COMPILER.compile_json_schema({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}})
    second = COMPILER.compile_json_schema({"$ref": "#/$defs/x", "$defs": {"x": {"minimum": 3}}})
    both = first & second
    assert both.machine.matches(b"3") and not both.machine.matches(b"2") and not both.machine.matches(b"3.5")
    third = COMPILER.compile_json_schema({"items": [{"const": 1}]}, draft=7)
    assert (third - first).machine.matches(b"[1]") and not (third - first).machine.matches(b"[2]")


def test_is_my_pattern_my_schemas_format() -> None:
    pattern = COMPILER.compile_regex(r'"[0-9]{4}-[0-9]{2}-[0-9]{2}"')
    date = COMPILER.compile_json_schema({"type": "string", "format": "date"})
    assert date.subset_of(pattern)
    witness = pattern.subset_of(date).witness
    assert witness is not None and pattern.machine.matches(witness) and not date.machine.matches(witness)
    assert len(witness) == 12 and not pattern.equivalent(date)
    integer = COMPILER.compile_json_schema({"type": "integer"})
    assert COMPILER.compile_regex("[1-9][0-9]*").subset_of(integer)
    assert COMPILER.compile_regex("[0-9]{2}").subset_of(integer).witness == b"00"


def test_a_combination_with_a_pattern_is_within_it() -> None:
    """Told by the patterns alone, however hard the other part is; also the other way, where it is not so."""
    tree, short = COMPILER.compile_json_schema(TREE), COMPILER.compile_regex(".{0,20}")
    for narrow, wide in ((r"\[{0,2}\]{0,2}", r"\[*\]*"), (".{0,9}", ".{0,12}")):
        a, b = tree & COMPILER.compile_regex(narrow), COMPILER.compile_regex(wide)
        assert a.subset_of(b, max_pairs=0) and not b.subset_of(a)
    assert (tree & short).subset_of(COMPILER.compile_regex("[^x]*"))  # more than the pattern says
    assert (tree & short).subset_of(COMPILER.compile_regex(r"\[\]|.{0,5}")).witness == b"[[[]]]"
    assert (tree | short).subset_of(short).witness is not None


def test_any_machine_with_a_pattern() -> None:
    tag = {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": TREE}, "end": "<|end|>"}
    grammar = COMPILER.compile_structural_tag({"type": "triggered_tags", "triggers": ["<a"], "tags": [tag]})
    short = grammar & COMPILER.compile_regex(".{0,20}")
    assert short.machine.matches(b"hi<a>[[]]<|end|>") and not short.machine.matches(b"hello you<a>[[]]<|end|>")
    assert not short.machine.matches(b"hi<a>[[]]")
    assert short.vocab.markers == grammar.vocab.markers
    walk_without_dead_ends(short)
    long = grammar - COMPILER.compile_regex(".{0,20}")
    assert long.machine.matches(b"hello you<a>[[]]<|end|>") and not long.machine.matches(b"hi<a>[]<|end|>")


def test_one_after_the_other() -> None:
    label, value = COMPILER.compile_regex("[a-z]+: "), COMPILER.compile_json_schema(TREE)
    line = label + value
    assert line.machine.matches(b"x: [[]]") and not line.machine.matches(b"x: ") and not line.machine.matches(b"[]")
    walk_without_dead_ends(line)
    spaced = fsmc.GrammarCompiler(VOCAB, cache_dir=None).compile_json_schema(TREE)
    both = spaced + spaced
    for text in (" [ ]\n[]", "[][]", "[[]] []  "):
        assert both.machine.matches(text.encode())
    assert not both.machine.matches(b"[]")
    with pytest.raises(fsmc.ConstraintError, match="a number may be followed by '0'"):
        COMPILER.compile_json_schema({"type": "integer"}) + COMPILER.compile_regex("[0-9]")


def test_what_cannot_be_combined() -> None:
    schema = COMPILER.compile_json_schema(TREE)
    product = schema & COMPILER.compile_regex(".{0,9}")
    with pytest.raises(fsmc.ConstraintError, match="different vocabularies"):
        schema & fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a"]), cache_dir=None).compile_regex("a")
    with pytest.raises(fsmc.ConstraintError, match="lay out JSON differently"):
        schema & fsmc.GrammarCompiler(VOCAB, cache_dir=None).compile_json_schema(TREE)
    with pytest.raises(fsmc.ConstraintError, match="uniqueItems"):
        COMPILER.compile_json_schema({"type": "array", "uniqueItems": True}) & COMPILER.compile_regex(".*")
    with pytest.raises(fsmc.EmptyLanguageError, match="allows no text at all"):
        schema & COMPILER.compile_regex("x+")
    with pytest.raises(fsmc.MachineError, match="cannot be saved"):
        product.save("x.fsmc")
    with pytest.raises(fsmc.LimitExceeded, match="max_pairs=10"):
        Analysis(schema.machine, COMPILER.compile_regex(".{0,40}").dfa, BOTH, max_pairs=10)


def test_combined_schemas_are_saved(tmp_path) -> None:
    first, second = COMPILER.compile_json_schema({"type": "integer"}), COMPILER.compile_json_schema({"minimum": 3})
    (first & second).save(tmp_path / "x.fsmc")
    again = fsmc.CompiledGrammar.load(tmp_path / "x.fsmc", VOCAB)
    assert again.machine.matches(b"3") and not again.machine.matches(b"2")


def test_sequences_of_sequences() -> None:
    """What was put together with ``+`` is put together again, on either side; recursive grammars too."""
    schema = COMPILER.compile_json_schema({"type": "object", "maxProperties": 0})
    dash, nested = COMPILER.compile_regex("-+"), COMPILER.compile_grammar('root ::= "(" root ")" | "."')
    for whole in ((schema + dash) + schema, schema + (dash + schema)):
        assert whole.machine.matches(b"{}--{}") and not whole.machine.matches(b"{}{}")
    framed = (dash + nested) + dash
    assert framed.machine.matches(b"--((.))-") and not framed.machine.matches(b"-((.)-")


@pytest.mark.parametrize("other", ["x", {"type": "string"}, None])
def test_only_compiled_constraints_are_combined(other: Any) -> None:
    a = COMPILER.compile_regex("a*")
    for combine in (
        lambda: a & other,
        lambda: a | other,
        lambda: a - other,
        lambda: a + other,
        lambda: a.equivalent(other),
    ):
        with pytest.raises(TypeError, match="compile it first"):
            combine()


@pytest.mark.parametrize(
    "rules", ['root ::= item+\nitem ::= item item | [x(] root? ")"?', 'root ::= "a" root "a" | "b" root "b" | [ab]?']
)
def test_what_no_grammar_need_have_is_refused_at_once(rules: str) -> None:
    """Machines that have no end: what they do not allow, and what they have in common, is not looked for until a limit is reached."""
    ambiguous, pairs = COMPILER.compile_grammar(rules), COMPILER.compile_regex("([ab(x].)*")
    nested = COMPILER.compile_grammar('root ::= [ab(x] root [ab(x] | ""')
    for combine in (
        lambda: ~ambiguous,
        lambda: pairs - ambiguous,
        lambda: ambiguous & nested,
        lambda: nested - ambiguous,
    ):
        with pytest.raises(fsmc.ConstraintError, match="a machine without end"):
            combine()
    some = COMPILER.compile_regex("[ab(x]{0,3}") - ambiguous  # but this has few texts
    for text in map("".join, itertools.chain.from_iterable(itertools.product("ab(x", repeat=n) for n in range(4))):
        assert some.machine.matches(text.encode()) != ambiguous.machine.matches(text.encode()), text
    assert ambiguous.subset_of(pairs).witness is not None and ambiguous.equivalent(pairs).witness is not None
    assert ambiguous.equivalent(ambiguous)


def test_an_earlier_walk_does_not_count() -> None:
    """Stacks that are deep already say nothing of a combination with few texts."""
    palindromes = COMPILER.compile_grammar('root ::= "a" root "a" | "b" root "b" | ""')
    assert palindromes.machine.matches(b"ab" * 50 + b"ba" * 50)
    rest = COMPILER.compile_regex("[ab]{0,4}") - palindromes
    assert rest.machine.matches(b"ab") and not rest.machine.matches(b"abba")
