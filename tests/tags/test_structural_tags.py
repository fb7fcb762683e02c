"""Structural tags: what is accepted, byte by byte, with the masks that go with it, and what is refused with its place."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import fsmc
from fsmc.compiler.schema.source import parse_json
from fsmc.compiler.tags.free_text import FirstOf
from tests.tokens.mask_oracles import row_tokens

TOKENS = [
    *(bytes([byte]) for byte in range(256)),
    *(b"<a>", b"</a>", b"<f", b"=1>", b'{"', b'"}', b'":', b"hi <", b"> ", b"}</", b"<<a", "é".encode(), b"a>1</a>"),
    *(b"<|call|>", b"<|end|>", b"<|other|>", b"</s>"),
]  # fmt: skip
CALL, END, OTHER, EOS = range(len(TOKENS) - 4, len(TOKENS))
VOCAB = fsmc.Vocabulary.from_tokens(TOKENS, eos_token_ids=[EOS], special_token_ids=[CALL, END, OTHER])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None, whitespace="compact")

OBJECT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}


def schema(value, **more):
    return {"type": "json_schema", "json_schema": value, **more}


def regex(pattern):
    return {"type": "regex", "pattern": pattern}


def const(value):
    return {"type": "const_string", "value": value}


def tag(begin, content, end):
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def sequence(*elements):
    return {"type": "sequence", "elements": list(elements)}


def either(*elements):
    return {"type": "or", "elements": list(elements)}


def triggered(*tags, triggers=("<a",), **more):
    return {"type": "triggered_tags", "triggers": list(triggers), "tags": list(tags), **more}


def grammar(text, syntax="ebnf"):
    return {"type": "grammar", "grammar": text, "syntax": syntax}


SUMS = 'root ::= term ("+" term)*\nterm ::= [0-9]+ | "(" root ")"'
DIGITS = tag("<a>", regex("[0-9]+"), "</a>")
TEXT = {"type": "any_text"}

CASES = [
    (const("a|b"), ["a|b"], ["a", "b", ""]),
    (regex("a+"), ["a", "aa"], ["", "b"]),
    (schema(OBJECT), ['{"x":1}'], [' {"x":1}', '{"x":1} ', "{}"]),
    (sequence(const("x="), schema({"type": "integer"}), const(";")), ["x=1;", "x=-20;"], ["x=1", "x=;", "x=1.5;"]),
    (sequence(schema({"type": "integer"}), const("é")), ["1é", "-2é"], ["1", "é"]),
    (schema({"type": "number"}), ["1", "1.5"], ["", "1x"]),
    (either(const("a"), schema({"type": "integer"})), ["a", "1"], ["a1", ""]),
    (TEXT, ["", "anything é <a>"], []),
    ({"type": "any_text", "excludes": ["no", "é"]}, ["", "on", "n"], ["no", "xnox", "é"]),
    (tag("<t>", TEXT, "</t>"), ["<t></t>", "<t>a</ t</t>"], ["<t></t></t>", "<t>", "<t></t>x"]),
    (tag("<t>", TEXT, ["</t>", "</a>"]), ["<t>x</t>", "<t>x</a>"], ["<t>x</a></t>", "<t>x"]),
    (sequence(tag("<t>", TEXT, "aa"), TEXT), ["<t>xaa", "<t>xaaa", "<t>aab"], ["<t>xa", "<t>"]),
    (sequence(TEXT, const("X")), ["X", "aX"], ["aXX", "aXb", "a"]),
    (triggered(DIGITS), ["", "x", "x<a>1</a>", "<a>1</a><a>2</a>é", "<", "<b"], ["<a", "<a>x", "x<a>1", "<ab"]),
    (triggered(DIGITS, at_least_one=True), ["<a>1</a>", "<a>1</a>x<a>2</a>"], ["", "x", "x<a>1</a>"]),
    (triggered(DIGITS, stop_after_first=True), ["", "x", "x<a>1</a>"], ["<a>1</a>x", "<a>1</a><a>1</a>"]),
    (triggered(DIGITS, at_least_one=True, stop_after_first=True), ["<a>1</a>"], ["", "x<a>1</a>", "<a>1</a>x"]),
    (triggered(DIGITS, excludes=["no"]), ["n", "<a>1</a>n"], ["no", "<a>1</a>no"]),
    (triggered(DIGITS, tag("<ab", const("c"), ""), triggers=["<a"]), ["<abc", "<a>1</a><abc!"], ["<a", "<ab", "<ac"]),
    (tag("<o>", triggered(DIGITS), "</o>"), ["<o>x<a>1</a>y</o>", "<o></o>"], ["<o>x", "<o></o></o>", "<o><a></o>"]),
    (triggered(tag("<a>", schema(OBJECT), "</a>")), ['hi<a>{"x":1}</a>', "hi"], ['<a>{"x":1}', "<a>{}</a>", "<a></a>"]),
    (
        {"type": "tags_with_separator", "tags": [DIGITS, tag("<b>", const("x"), "")], "separator": ", "},
        ["", "<a>1</a>", "<a>1</a>, <b>x, <a>2</a>"],
        ["<a>1</a>, ", "<a>1</a><b>x", ", "],
    ),
    (
        {
            "type": "tags_with_separator",
            "tags": [DIGITS],
            "separator": ",",
            "at_least_one": True,
            "stop_after_first": True,
        },
        ["<a>1</a>"],
        ["", "<a>1</a>,<a>1</a>"],
    ),
    ({"type": "optional", "content": const("a")}, ["", "a"], ["aa"]),
    ({"type": "plus", "content": schema(OBJECT)}, ['{"x":1}', '{"x":1}{"x":2}'], [""]),
    ({"type": "star", "content": DIGITS}, ["", "<a>1</a><a>2</a>"], ["<a>"]),
    ({"type": "repeat", "min": 1, "max": 2, "content": const("a")}, ["a", "aa"], ["", "aaa"]),
    ({"type": "repeat", "min": 2, "max": -1, "content": const("a")}, ["aa", "aaaa"], ["", "a"]),
    # Two schemas that may begin alike: what follows depends on which of them hold.
    (
        either(
            sequence(schema({"type": "integer"}), const("a")),
            sequence(schema({"type": "number", "minimum": 0}), const("b")),
        ),
        ["1a", "1b", "1.5b", "-1a"],
        ["1.5a", "-1b", "1", "1ab"],
    ),
    (
        either(
            tag("<a>", schema(OBJECT), "</a>"),
            tag("<a>", schema({"type": "object", "properties": {"x": {"type": "string"}}}), "</b>"),
        ),
        ['<a>{"x":1}</a>', '<a>{"x":""}</b>', "<a>{}</b>"],
        ['<a>{"x":1}</b>', '<a>{"x":""}</a>'],
    ),
    (tag("<a>", {"type": "grammar", "grammar": "root ::= [a-c]+"}, "</a>"), ["<a>abc</a>"], ["<a></a>", "<a>d</a>"]),
    (
        triggered(tag("<a>", grammar('root ::= "(" root ")" | "x"'), "</a>")),
        ["hi", "<a>x</a>", "<a>((x))</a>!<a>x</a>"],
        ["<a>((x)</a>", "<a>", "<a>x"],
    ),
    (
        sequence(grammar(SUMS), regex(";+"), schema({"type": "integer"})),
        ["1+2;3", "(1+(22));;-4", "12;0"],
        ["(1;2", "1+;2", "1+2;"],
    ),
    (grammar(SUMS), ["1", "(1)+2"], ["", "1+", "(1"]),
    (
        schema(
            {
                "type": "object",
                "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "e": {"enum": ["p", "q"]}},
                "required": ["s"],
            },
            style="qwen_xml",
        ),
        [
            "<parameter=s>\na < b\nc\n</parameter>\n",
            "<parameter=s>\n\n</parameter>\n<parameter=n>\n12\n</parameter>\n<parameter=e>\nq\n</parameter>\n",
        ],
        ["", "<parameter=n>\n1\n</parameter>\n", "<parameter=s>\nx\n</parameter>\n<parameter=n>\nx\n</parameter>\n"],
    ),
]


def accepts(grammar: fsmc.CompiledGrammar, text: str | bytes) -> bool:
    matcher = fsmc.GrammarMatcher(grammar)
    return matcher.accept_bytes(text if isinstance(text, bytes) else text.encode()) and matcher.is_completed()


@pytest.mark.parametrize(("format_", "good", "bad"), CASES, ids=[json.dumps(c[0])[:60] for c in CASES])
def test_accepts_and_rejects(format_, good: list[str], bad: list[str]) -> None:
    grammar = COMPILER.compile_structural_tag({"type": "structural_tag", "format": format_})
    for text in good:
        assert accepts(grammar, text), text
    for text in bad:
        assert not accepts(grammar, text), text


@pytest.mark.parametrize(("format_", "good", "bad"), CASES, ids=[json.dumps(c[0])[:60] for c in CASES])
def test_masks_allow_what_can_be_completed(format_, good: list[str], bad: list[str]) -> None:
    """A token is allowed iff its bytes are accepted one after the other; and every text that may begin can be completed: at
    each place something is allowed, or the text may end."""
    compiled = COMPILER.compile_structural_tag(format_)
    for text in good:
        matcher = fsmc.GrammarMatcher(compiled)
        for byte in text.encode():
            check_mask(matcher)
            forced = matcher.find_jump_forward_string()
            assert matcher.accept_bytes(bytes([byte]))
            assert not forced or forced.encode()[0] == byte
        check_mask(matcher)


def check_mask(matcher: fsmc.GrammarMatcher) -> None:
    vocab = matcher.grammar.vocab
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    matcher.fill_next_token_bitmask(mask)
    expected = []
    for token_id, token in enumerate(vocab.tokens):
        probe = matcher.fork()
        if token and probe.accept_bytes(token):
            expected.append(token_id)
    if matcher.is_completed():
        expected.append(EOS)
    assert row_tokens(np.asarray(mask[0])) == sorted(expected)
    assert expected


def test_form_with_structures() -> None:
    structures = [
        {"begin": "<f=a>", "schema": OBJECT, "end": "</f>"},
        {"begin": "<f=b>", "schema": json.dumps({"type": "null"}), "end": "</f>"},
    ]
    grammar = COMPILER.compile_structural_tag(
        json.dumps({"type": "structural_tag", "structures": structures, "triggers": ["<f="]})
    )
    for text in ("", "x", '<f=a>{"x":1}</f>', 'a <f=b>null</f> b <f=a>{"x":2}</f>'):
        assert accepts(grammar, text)
    for text in ("<f=", "<f=c>", "<f=a>null</f>", "<f=b>null"):
        assert not accepts(grammar, text)
    matcher = fsmc.GrammarMatcher(grammar)
    matcher.accept_bytes(b"x<f=")
    assert matcher.find_jump_forward_string() == ""
    matcher.accept_bytes(b"a")
    assert matcher.find_jump_forward_string() == '>{"x":'


# ── special tokens ───────────────────────────────────────────────────────────────────────────────────────────────────


def allowed(matcher: fsmc.GrammarMatcher) -> set[int]:
    mask = fsmc.allocate_token_bitmask(1, VOCAB.size)
    matcher.fill_next_token_bitmask(mask)
    return set(row_tokens(np.asarray(mask[0])))


def test_a_special_token_stands_where_its_name_does_and_nowhere_else() -> None:
    call = tag("<|call|>f\n", schema({"type": "string"}), "<|end|>")
    grammar = COMPILER.compile_structural_tag(triggered(call, triggers=["<|call|>"]))
    assert grammar.vocab.markers == (CALL, END)
    matcher = fsmc.GrammarMatcher(grammar)
    assert CALL in allowed(matcher) and not {END, OTHER} & allowed(matcher)
    assert matcher.accept_bytes("é<".encode()) and matcher.accept_token(CALL)
    assert matcher.find_jump_forward_string() == 'f\n"'
    assert allowed(matcher) == {ord("f")} and not matcher.accept_token(CALL)
    assert matcher.accept_bytes(b'f\n"x')
    assert not {CALL, END, OTHER} & allowed(matcher)  # a string holds no special tokens
    assert matcher.accept_bytes(b'<|end|>"')  # but their names, spelled out
    assert matcher.find_jump_forward_string() == "<|end|>"
    assert allowed(matcher) == {ord("<"), END}
    assert matcher.accept_token(END) and matcher.is_completed()
    assert accepts(grammar, 'x<|call|>f\n"y"<|end|>z')  # spelled out as well


def test_a_trigger_that_is_part_of_a_special_tokens_name() -> None:
    grammar = COMPILER.compile_structural_tag(triggered(tag("<|call|>f", const("x"), "<|end|>"), triggers=["<|c"]))
    matcher = fsmc.GrammarMatcher(grammar)
    assert matcher.accept_token(CALL) and matcher.find_jump_forward_string() == "fx<|end|>"
    assert matcher.accept_bytes(b"fx") and matcher.accept_token(END) and matcher.accept_bytes(b"hello")


def test_token_formats() -> None:
    call = tag({"type": "token", "token": "<|call|>"}, const("x"), {"type": "token", "token": END})
    grammar = COMPILER.compile_structural_tag(
        {"type": "token_triggered_tags", "trigger_tokens": ["<|call|>"], "tags": [call], "exclude_tokens": [OTHER]}
    )
    matcher = fsmc.GrammarMatcher(grammar)
    assert matcher.accept_bytes(b"<|call|>y") and CALL in allowed(matcher)
    assert OTHER not in allowed(matcher)
    assert matcher.accept_token(CALL) and matcher.accept_bytes(b"x")
    assert allowed(matcher) == {END} and matcher.accept_token(END) and matcher.is_completed()
    assert accepts(
        COMPILER.compile_structural_tag(sequence(const("a"), {"type": "token", "token": CALL})), b"a\xff\x00"
    )


def test_an_end_token_that_the_tag_names_is_part_of_the_text() -> None:
    vocab = fsmc.Vocabulary.from_tokens(TOKENS, eos_token_ids=[EOS, END], special_token_ids=[CALL, OTHER])
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_structural_tag(tag("<t>", regex("[0-9]+"), "<|end|>"))
    matcher = fsmc.GrammarMatcher(grammar)
    assert not matcher.accept_token(END) and matcher.accept_bytes(b"<t>12")
    assert END in allowed(matcher) and EOS not in allowed(matcher)
    assert matcher.accept_token(END) and matcher.is_completed() and matcher.is_terminated()
    matcher.rollback(1)
    assert not matcher.is_terminated() and matcher.accept_bytes(b"3<|end|>")
    assert not matcher.is_terminated() and matcher.accept_token(EOS) and matcher.is_terminated()


def test_index_file(tmp_path) -> None:
    call = tag("<|call|>f\n", schema(OBJECT), "<|end|>")
    grammar = COMPILER.compile_structural_tag(triggered(call, triggers=["<|call|>"]))
    grammar.save(tmp_path / "tag.fsmc")
    again = fsmc.CompiledGrammar.load(tmp_path / "tag.fsmc", VOCAB)
    assert again.kind == "structural_tag" and again.source == grammar.source and again.vocab.markers == (CALL, END)
    matcher = fsmc.GrammarMatcher(again)
    assert matcher.accept_token(CALL) and matcher.accept_bytes(b'f\n{"x":1}') and matcher.accept_token(END)
    with pytest.raises(fsmc.IndexFileError, match="another vocabulary"):
        fsmc.CompiledGrammar.load(tmp_path / "tag.fsmc", fsmc.Vocabulary.from_tokens([b"a"]))


# ── free text ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(30))
def test_free_text_is_text_without_the_strings(seed: int) -> None:
    rng = random.Random(seed)
    strings = ["".join(rng.choice("ab<é") for _ in range(rng.randrange(1, 4))) for _ in range(rng.randrange(1, 4))]
    grammar = COMPILER.compile_structural_tag({"type": "any_text", "excludes": strings})
    found = FirstOf(s.encode() for s in strings)
    for _ in range(100):
        text = "".join(rng.choice("ab<é") for _ in range(rng.randrange(8)))
        q, states = 0, []
        for byte in text.encode():
            q = found.step(q, byte)
            states.append(found.complete[q])
        assert accepts(grammar, text) == (not any(s in text for s in strings)) == (not any(states))


def test_an_end_that_may_be_missing() -> None:
    """As XGrammar has it: free text of which one end is empty runs to the first other end, or to the end of the text."""
    for ends in (["", "B"], ["B", ""]):
        grammar = COMPILER.compile_structural_tag({"type": "tag", "begin": "<a>", "content": TEXT, "end": ends})
        for text, expected in (
            ("<a>", 1),
            ("<a>xy", 1),
            ("<a>xB", 1),
            ("<a>B", 1),
            ("<a>xBB", 0),
            ("<a>xBy", 0),
            ("x", 0),
        ):
            assert accepts(grammar, text) == bool(expected), text


def test_no_end_at_all_leaves_free_text_to_what_follows() -> None:
    unended = {"type": "tag", "begin": "<a>", "content": TEXT, "end": ""}
    alone = COMPILER.compile_structural_tag(unended)
    assert accepts(alone, "<a>") and accepts(alone, "<a>x</a>y") and not accepts(alone, "x")
    followed = COMPILER.compile_structural_tag(
        {"type": "sequence", "elements": [unended, {"type": "tag", "begin": "<b>", "content": TEXT, "end": "</b>"}]}
    )
    assert (
        accepts(followed, "<a>x<b>y</b>") and not accepts(followed, "<a>x") and not accepts(followed, "<a>x<b>y</b>z")
    )
    triggered = {"type": "triggered_tags", "triggers": ["<a"], "tags": [unended]}
    with pytest.raises(fsmc.ConstraintError, match="nothing says where it ends"):
        COMPILER.compile_structural_tag(triggered)


@pytest.mark.parametrize("seed", range(30))
def test_the_first_occurrence_ends_free_text(seed: int) -> None:
    rng = random.Random(seed)
    end = "".join(rng.choice("ab") for _ in range(rng.randrange(1, 4)))
    grammar = COMPILER.compile_structural_tag(sequence(tag("", TEXT, end), regex("[ab]{0,2}")))
    for _ in range(60):
        text = "".join(rng.choice("ab") for _ in range(rng.randrange(8)))
        rest = text.partition(end)[2] if end in text else None
        assert accepts(grammar, text) == (rest is not None and len(rest) <= 2)


# ── what is wrong with a tag ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "structural_tag: must be an object"),
        ("{", "structural_tag: is read as JSON, and cannot be"),
        ({"type": "structural_tag"}, 'structural_tag: "format" is missing'),
        ({"type": "nothing"}, r"format.type: the type 'nothing' is none of const_string"),
        ({"type": "__init__"}, r"format.type: the type '__init__' is none of"),
        ({"type": ["x"]}, r"format.type: the type"),
        ({"type": "const_string"}, "format.value: is missing"),
        ({"type": "const_string", "value": "\ud800"}, "format.value: half a surrogate pair"),
        ({"type": "const_string", "value": "a", "vaule": 1}, "format.vaule: is not known here"),
        ({"type": "sequence", "elements": []}, "format.elements: at least one"),
        (sequence(const("a"), {"type": "or", "elements": "x"}), r"format.elements\[1\].elements: must be a list"),
        (tag("<a>", const("b"), 3), "format.end: must be a text"),
        (tag("<a>", const("b"), []), "format.end: at least one"),
        (triggered(tag("<b>", TEXT, "x")), r"format.tags\[0\].begin: begins with none of the triggers, '<b>'"),
        (triggered(DIGITS, triggers=["<a", "<"]), r"format.tags\[0\].begin: begins with 2 triggers"),
        (triggered(DIGITS, triggers=["<a", "x"]), r"format.triggers\[1\]: no tag begins with this trigger"),
        (triggered(DIGITS, triggers=[""]), r"format.triggers\[0\]: a trigger must not be empty"),
        (triggered(DIGITS, at_least_one=1), "format.at_least_one: must be true or false"),
        ({"type": "any_text", "excludes": [""]}, r"format.excludes\[0\]: must not be empty"),
        ({"type": "any_text", "max_tokens": 3}, "format.max_tokens: is not supported"),
        ({"type": "any_tokens"}, "any_tokens .* is not supported"),
        ({"type": "token", "token": "<|call"}, "is no special token of the vocabulary"),
        ({"type": "token", "token": 5}, "is no special token of the vocabulary"),
        ({"type": "repeat", "min": 2, "max": 1, "content": TEXT}, "format.max: is less than min"),
        (schema({}, style="glm_xml"), "format.style: the style 'glm_xml' is not supported"),
        (sequence(TEXT, schema({})), r"format.elements\[0\]: free text is followed by a JSON text"),
        (sequence(TEXT, TEXT), r"free text is followed by free text"),
        ({"type": "star", "content": TEXT}, "free text is followed by free text"),
        (either(TEXT, schema(OBJECT)), r"format.elements\[1\].json_schema: text that begins with '{' could be JSON"),
        (sequence(grammar(SUMS), const("+1")), r"format.elements\[0\]: the grammar may end or go on with '\+'"),
        (sequence(grammar(SUMS), const("1")), r"format.elements\[0\]: the grammar may end or go on with '1'"),
        (either(grammar(SUMS), const("(")), "text that begins with '\\(' could be JSON \\(or of a grammar\\)"),
        (sequence(schema({"type": "integer"}), regex("[0-9]")), "a number may be followed by '0'"),
        ({"structures": [], "triggers": []}, "triggers: at least one trigger"),
        ({"structures": [{"begin": "<a>", "schema": {}}], "triggers": ["<a"]}, r"structures\[0\].end: is missing"),
    ],
)
def test_errors_name_the_place(given, message: str) -> None:
    with pytest.raises(fsmc.ConstraintError, match=message):
        COMPILER.compile_structural_tag(given)


def test_errors_of_schemas_and_patterns() -> None:
    with pytest.raises(fsmc.SchemaError, match=r"format.content.json_schema#/properties/x/type: must be the name"):
        COMPILER.compile_structural_tag(tag("<a>", schema({"properties": {"x": {"type": "foo"}}}), "</a>"))
    with pytest.raises(fsmc.EmptyLanguageError, match=r"format.json_schema: the schema allows no value"):
        COMPILER.compile_structural_tag(schema({"allOf": [{"type": "string"}, {"type": "null"}]}))
    with pytest.raises(fsmc.PatternSyntaxError):
        COMPILER.compile_structural_tag(regex("(a"))
    with pytest.raises(fsmc.EmptyLanguageError):
        COMPILER.compile_structural_tag({"type": "sequence", "elements": [regex("a(?!a)a")]})


def test_schemas_with_identifiers_and_drafts_of_their_own() -> None:
    first = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "definitions": {"a": {"enum": ["old"]}},
    }
    second = {
        "$id": "https://example.org/s",
        "$ref": "https://example.org/s#/$defs/a",
        "$defs": {"a": {"enum": ["new"]}},
    }
    grammar = COMPILER.compile_structural_tag(either(tag("<1>", schema(first), ""), tag("<2>", schema(second), "")))
    assert accepts(grammar, '<1>"old"') and accepts(grammar, '<2>"new"')
    assert not accepts(grammar, '<1>"new"') and not accepts(grammar, '<2>"old"')


@pytest.mark.parametrize(
    "format_",
    [
        {"type": "repeat", "min": 0, "max": 10**9, "content": const("ab")},
        {"type": "repeat", "min": 10**9, "max": -1, "content": const("ab")},
        sequence(regex("(a|b)*a(a|b){25}"), const("c")),
    ],
    ids=["many", "at least many", "explosion"],
)
def test_hostile_tags_reach_a_limit(format_) -> None:
    with pytest.raises(fsmc.LimitExceeded):
        COMPILER.compile_structural_tag(format_)


def test_deep_tags_are_refused() -> None:
    deep = const("a")
    for _ in range(200):
        deep = sequence(deep)
    with pytest.raises(fsmc.ConstraintError, match="formats nest more than 100 deep"):
        COMPILER.compile_structural_tag(deep)
    with pytest.raises(fsmc.ConstraintError, match="nests too deeply to be read: formats may nest 100 deep"):
        COMPILER.compile_structural_tag("[" * 100_000)


def test_many_tools() -> None:
    tags = [tag(f"<f=tool_{i}>", schema({"type": "object", "required": [f"k{i}"]}), "</f>") for i in range(300)]
    grammar = COMPILER.compile_structural_tag(triggered(*tags, triggers=["<f="]))
    assert accepts(grammar, 'x<f=tool_299>{"k299":1}</f>') and not accepts(grammar, '<f=tool_299>{"k298":1}</f>')


def test_the_same_schema_in_two_branches() -> None:
    """What follows one schema from two places is looked at together: refused with the place, or both ways are open."""
    yes_no = schema({"type": "boolean"})
    two = either(yes_no, sequence(yes_no, const("yx")))
    with pytest.raises(fsmc.ConstraintError, match="could be JSON"):
        COMPILER.compile_structural_tag(sequence(two, grammar('root ::= "x" root "y" | "y"')))
    both = COMPILER.compile_structural_tag(sequence(two, const("yz"))).machine
    assert [both.matches(text) for text in (b"trueyz", b"trueyxyz", b"trueyx", b"true")] == [True, True, False, False]


def test_how_much_free_text_is_searched_for_is_an_argument(tmp_path) -> None:
    """And part of what an index file keeps."""
    thinking = sequence({"type": "any_text"}, const("</think>"))
    with pytest.raises(fsmc.LimitExceeded, match=r"max_sought=7 exceeded \(reached 8\)"):
        COMPILER.compile_structural_tag(thinking, max_sought=7)
    long = sequence({"type": "any_text", "excludes": ["x" * 100_000]}, const("."))
    with pytest.raises(fsmc.LimitExceeded, match="max_sought=100000 "):
        COMPILER.compile_structural_tag(long)
    recipe = COMPILER.compile_structural_tag(thinking, max_sought=8).recipe
    assert type(recipe).from_arrays(*recipe.to_arrays()) == recipe and recipe.max_sought == 8


@pytest.mark.parametrize(
    ("format_", "error", "message"),
    [
        (regex("("), fsmc.PatternSyntaxError, r"format.elements\[1\].pattern: the group has no closing"),
        (grammar("root ::= x"), fsmc.GrammarError, r"there is no rule 'x' \(format.elements\[1\]\)"),
        (schema("{"), fsmc.SchemaError, r"format.elements\[1\].json_schema#: not JSON"),
        (schema(1), fsmc.SchemaError, r"format.elements\[1\].json_schema#: a schema is an object or a boolean"),
    ],
)
def test_what_is_wrong_inside_of_a_part_says_where(format_, error, message: str) -> None:
    with pytest.raises(error, match=message):
        COMPILER.compile_structural_tag(sequence(const("x"), format_))


def test_a_tag_is_read_with_exact_numbers() -> None:
    """As text, and as a dict from `parse_json`, where they are Decimals."""
    text = '{"type": "json_schema", "json_schema": {"enum": [0.1000000000000000000001, 1e400]}}'
    for tag_ in (text, parse_json(text)):
        machine = COMPILER.compile_structural_tag(tag_).machine
        assert machine.matches(b"0.1000000000000000000001") and not machine.matches(b"0.1")
    with pytest.raises(fsmc.ConstraintError, match="'type' stands twice"):
        COMPILER.compile_structural_tag('{"type": "any_text", "type": "regex", "pattern": "a"}')
    with pytest.raises(fsmc.ConstraintError, match="no UTF-8 text"):
        COMPILER.compile_structural_tag(b'{"type": "\xff"}')
