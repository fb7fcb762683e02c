"""JSON values that are valid under a schema, inside of a grammar in Lark's syntax."""

from __future__ import annotations

import pytest
from tokens.mask_oracles import row_tokens

import fsmc
from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.errors import GrammarError, UnsupportedGrammarError

OBJECT = (
    '{"type": "object", "properties": {"x": {"type": "array", "items": {"type": "number"}, "uniqueItems": true}}, '
    '"required": ["x"], "additionalProperties": false}'
)
CASES = [
    ('start: "<" %json {"type": "integer"} ">"', ["<12>", "<-1>"], ["<>", "<1.5>", "<12", "<1>>", "<1 >"]),
    (
        f'start: ("a" %json {OBJECT} "|")+',
        ['a{"x":[1,2]}|', 'a{ "x" : [] }|a{"x":[3]}|'],
        ['a{"x":[1,1]}|', "a{}|", 'a{"x":[1]', 'a{"x":[1|', 'a{"x":[1]}}|'],
    ),
    ('start: x\nx: "(" x ")" | %json {"type": ["string", "null"]}', ['("a")', "null", "((null))"], ["(1)", '("a"', '"a")']),
    (
        'start: NAME "=" (NUM | "[" NUM ("," NUM)* "]" | v)\nv: %json {"enum": [true, "b"]}\n'
        'NUM: /[0-9]+/\nNAME: /[a-z]+/\n%ignore " "',
        ["a = 15", 'b=[1, 2 ]', 'b= "b" ', "c=true"],
        ["a=", "a=[1 2]", "a=1 5", "a=null", "a=tru"],
    ),
    ("start: %json true", ['[1,{"a":2}]', "1", '"a"'], ["", "[", "1,"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "accepted", "rejected"), CASES, ids=range(len(CASES)))
def test_embedded_schemas(text: str, accepted: list[str], rejected: list[str]) -> None:
    machine = GrammarRecipe(text).build()
    assert [t for t in accepted if not machine.matches(t.encode())] == []
    assert [t for t in rejected if machine.matches(t.encode())] == []


@pytest.mark.parametrize(("text", "accepted", "rejected"), CASES, ids=range(len(CASES)))
def test_masks_through_embedded_schemas(text: str, accepted: list[str], rejected: list[str]) -> None:
    pieces = {t[i:j].encode() for t in accepted for i in range(len(t)) for j in range(i + 1, min(i + 5, len(t) + 1))}
    vocab = fsmc.Vocabulary.from_tokens([*sorted(pieces), b""], eos_token_ids=[len(pieces)])
    text = text.replace(', "uniqueItems": true', "")  # masks do not know which items were read, see `LazyRSM`
    grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_grammar(text)
    mask = fsmc.allocate_token_bitmask(1, vocab.size)
    for t in accepted:
        matcher = fsmc.GrammarMatcher(grammar)
        for i in range(len(t) + 1):
            matcher.fill_next_token_bitmask(mask)
            allowed = set(row_tokens(mask[0])) - {len(pieces)}
            assert allowed == {k for k, piece in enumerate(sorted(pieces)) if matcher.fork().accept_bytes(piece)}
            assert i == len(t) or matcher.accept_bytes(t[i : i + 1].encode())
        assert matcher.is_completed()


def test_what_is_refused() -> None:
    for text, kind, says in (
        ('start: %json {"type": "number"} "5"', UnsupportedGrammarError, "cannot be told apart"),
        ('start: %json {"type": "string"} | "\\"x"', UnsupportedGrammarError, "or something else"),
        ('start: %json {"type": "strin"}', GrammarError, "in the schema: #/type"),
        ("start: %json false", GrammarError, "in the schema"),
        ("start: %json {", GrammarError, "after %json comes a JSON Schema"),
    ):
        with pytest.raises(kind, match=says) as caught:
            GrammarRecipe(text).build()
        assert (caught.value.line, caught.value.column) == (1, 8)
