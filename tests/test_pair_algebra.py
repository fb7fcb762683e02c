"""Two constraints neither of which is regular: text by text against both, all short texts, masks without dead ends, errors that say where."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import numpy as np
import pytest

import fsmc
from fsmc.compiler import algebra
from fsmc.compiler.automata.rsm_product import BOTH, DFA_ONLY, Again, Analysis
from fsmc.compiler.schema.sampling import InstanceSampler
from tests.grammar_examples import EXAMPLES
from tests.test_constraint_algebra import COMPILER, VOCAB, walk_without_dead_ends
from tests.tokens.mask_oracles import row_tokens

OPERATIONS: dict[str, Callable[[bool, bool], bool]] = {
    "&": lambda a, b: a and b,
    "|": lambda a, b: a or b,
    "-": lambda a, b: a and not b,
}


def combined(sign: str, a: fsmc.CompiledGrammar, b: fsmc.CompiledGrammar, **limits: int) -> fsmc.CompiledGrammar | None:
    """The combination, None where it is empty."""
    functions = {"&": algebra.intersection, "|": algebra.union, "-": algebra.difference}
    try:
        return functions[sign](a, b, **limits)
    except fsmc.EmptyLanguageError:
        return None


def check(a: fsmc.CompiledGrammar, b: fsmc.CompiledGrammar, texts: list[bytes], walk: bool = True) -> None:
    """All three combinations on the texts, and beginnings of them; no dead ends; the shortest text."""
    for sign, accepts in OPERATIONS.items():
        made = combined(sign, a, b)
        right = {text: accepts(a.machine.matches(text), b.machine.matches(text)) for text in texts}
        for text, expected in right.items():
            assert (made is not None and made.machine.matches(text)) == expected, (sign, text)
        if made is not None:
            shortest = made.machine.builder.analysis.shortest()
            assert made.machine.matches(shortest)
            assert accepts(a.machine.matches(shortest), b.machine.matches(shortest))
            assert all(len(shortest) <= len(text) for text, expected in right.items() if expected)
            if walk:
                walk_without_dead_ends(made)


def samples(grammar: fsmc.CompiledGrammar, rng: random.Random, n: int) -> list[bytes]:
    """Texts that are walked at random, with some of their beginnings and endings."""
    found = []
    mask = fsmc.allocate_token_bitmask(1, VOCAB.size)
    for _ in range(n):
        matcher, text = fsmc.GrammarMatcher(grammar), b""
        while len(text) < 40 and not (matcher.is_completed() and rng.random() < 0.3):
            matcher.fill_next_token_bitmask(mask)
            allowed = [VOCAB.token(i) for i in row_tokens(np.asarray(mask[0])) if VOCAB.token(i)]
            if not allowed:
                break
            usual = [token for token in allowed if token in b'[]{}",:1ab5x()<>/'] or allowed
            closing = [token for token in usual if token in b'"]})>/1,'] if len(text) > 12 else []
            chosen = rng.choice(closing or usual)
            assert matcher.accept_bytes(chosen)
            text += chosen
        found += [text, text[:-1], text + b"]"]
    return found


# ── grammars of all kinds, all short texts ───────────────────────────────────────────────────────────────────────────


def random_grammar(rng: random.Random) -> str:
    """Rules over ( ) [ ] x, some of which nest in the middle."""
    forms = ['"(" {} ")"', '"[" {} "]"', '"x" {}', '{} "x"', '"x"', '""', '"[" {} ")"', '"(" {} ")" {}', '"x" {} "x"']
    rules = ["root", "a", "b"]
    lines = []
    for name in rules:
        bodies = [rng.choice(forms).format(*(rng.choice(rules) for _ in range(2))) for _ in range(rng.randint(1, 3))]
        last = rng.choice(['""', '"x"', '"()"'])
        lines.append(f"{name} ::= {' | '.join([*bodies, last])}")
    return "\n".join(lines)


SHORT = [bytes(text) for n in range(6) for text in itertools.product(b"()[]x", repeat=n)]


@pytest.mark.parametrize("seed", range(25))
def test_random_grammars_on_all_short_texts(seed: int) -> None:
    rng = random.Random(seed)
    a, b = (COMPILER.compile_grammar(random_grammar(rng)) for _ in range(2))
    if a.dfa is not None or b.dfa is not None:
        return
    texts = {text: (a.machine.matches(text), b.machine.matches(text)) for text in SHORT}
    for sign, accepts in OPERATIONS.items():
        try:
            made = combined(sign, a, b, max_pairs=1000)
        except (fsmc.ConstraintError, fsmc.LimitExceeded) as error:
            assert sign != "|" and re.search("in different orders|max_pairs=1000|a machine without end", str(error))
            continue
        wrong = [t for t, both in texts.items() if (made is not None and made.machine.matches(t)) != accepts(*both)]
        assert not wrong, (sign, wrong[:5])
        if made is not None:
            walk_without_dead_ends(made, seed)


def test_most_random_grammars_can_be_combined() -> None:
    n_combined = n_refused = 0
    for seed in range(25):
        rng = random.Random(seed)
        a, b = (COMPILER.compile_grammar(random_grammar(rng)) for _ in range(2))
        if a.dfa is None and b.dfa is None:
            try:
                combined("&", a, b, max_pairs=1000)
                n_combined += 1
            except (fsmc.ConstraintError, fsmc.LimitExceeded):
                n_refused += 1
    assert n_combined >= 5 and n_combined > n_refused


# ── JSON in a grammar, in schemas, in tags ───────────────────────────────────────────────────────────────────────────

JSON = r"""root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" (member ("," member)*)? "}"
member ::= string ":" value
array ::= "[" (value ("," value)*)? "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt])* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)?
"""
LISTS = 'root ::= "[" (root ("," root)*)? "]" | "{" "\\"a\\":" root "}" | [0-9]+'
TREE = {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}


def random_schema(rng: random.Random, depth: int = 2) -> dict[str, object]:
    kind = rng.choice(["array", "object", "tree", "any"] if depth else ["integer", "string", "enum"])
    if kind == "array":
        return {"type": "array", "items": random_schema(rng, depth - 1), "maxItems": rng.randint(1, 3)}
    if kind == "object":
        names = rng.sample(["a", "b", "c"], 2)
        properties = {name: random_schema(rng, depth - 1) for name in names}
        return {"type": "object", "properties": properties, "additionalProperties": rng.random() < 0.3}
    if kind == "any":
        return {"anyOf": [random_schema(rng, depth - 1), random_schema(rng, depth - 1)]}
    simple: dict[str, dict[str, object]] = {
        "tree": {"type": "array", "items": {"type": "array"}},
        "integer": {"type": "integer", "minimum": rng.randint(-5, 5)},
        "string": {"type": "string", "maxLength": rng.randint(0, 4)},
        "enum": {"enum": [1, "x", [1], {"a": []}]},
    }
    return simple[kind]


@pytest.mark.parametrize("grammar", [JSON, LISTS], ids=["json", "lists"])
@pytest.mark.parametrize("seed", range(6))
def test_random_schemas_and_grammars_of_json(grammar: str, seed: int) -> None:
    rng = random.Random(seed)
    schema, other = COMPILER.compile_json_schema(random_schema(rng)), COMPILER.compile_grammar(grammar)
    check(schema, other, [*samples(schema, rng, 8), *samples(other, rng, 8), b"", b"[[]", b'{"a":1}'])
    check(other, schema, samples(schema, rng, 4))


def tag(begin: str, schema: object, end: str = "</a>") -> dict[str, object]:
    return {"type": "tag", "begin": begin, "content": {"type": "json_schema", "json_schema": schema}, "end": end}


@pytest.mark.parametrize("seed", range(4))
def test_tags_with_schemas(seed: int) -> None:
    rng = random.Random(seed)
    tags = [tag(begin, random_schema(rng, 1)) for begin in ("<a>", "<b>", "<a>", "<ab>")]
    a = COMPILER.compile_structural_tag({"type": "or", "elements": [tags[0], tags[1], tag("<c>", TREE)]})
    b = COMPILER.compile_structural_tag({"type": "or", "elements": [tags[2], tags[3], tag("<c>", {"maxItems": 1})]})
    check(a, b, [*samples(a, rng, 8), *samples(b, rng, 8), b"<c>[[]]</a>", b"<c>[[],[]]</a>"])
    schema = COMPILER.compile_structural_tag({"type": "json_schema", "json_schema": TREE})
    check(schema, COMPILER.compile_json_schema({"type": "array", "maxItems": 1}), [b"[]", b"[[]]", b"[[],[]]", b"[1]"])


def test_free_text_with_calls_in_it() -> None:
    def calls(*begins: str) -> fsmc.CompiledGrammar:
        tags = [tag(begin, TREE) for begin in begins]
        return COMPILER.compile_structural_tag({"type": "triggered_tags", "triggers": ["<"], "tags": tags})

    a, b = calls("<a>", "<b>"), calls("<b>", "<c>")
    check(
        a,
        b,
        [b"", b"hi", b"x<a>[]</a>y", b"x<b>[[]]</a>y", b"<b>[]</a><c>[]</a>", b"<b>[]</a>z<b>[[],[]]</a>", b"<b>["],
    )


def test_inclusion_with_a_shortest_witness() -> None:
    grammar, anything = COMPILER.compile_grammar(JSON), COMPILER.compile_json_schema(True)
    trees = COMPILER.compile_json_schema(TREE)
    assert trees.subset_of(grammar) and trees.subset_of(anything) and not grammar.subset_of(trees)
    witness = anything.equivalent(grammar).witness
    assert witness is not None and anything.machine.matches(witness) != grammar.machine.matches(witness)
    narrow, wide = (COMPILER.compile_structural_tag(tag("<a>", {**TREE, "maxItems": n})) for n in (0, 1))
    assert narrow.subset_of(wide) and wide.subset_of(narrow).witness == b"<a>[[]]</a>"
    same = COMPILER.compile_grammar('root ::= "[" ( | root | root "," root) "]"')
    assert same.equivalent(trees) and (same & trees).equivalent(trees)


def test_products_go_on_being_combined() -> None:
    short = COMPILER.compile_json_schema(TREE) & COMPILER.compile_regex(".{0,9}")
    both = short & COMPILER.compile_grammar(LISTS)
    check(both, COMPILER.compile_json_schema({"type": "array", "maxItems": 1}), [b"[]", b"[[]]", b"[[],[]]", b"[1]"])


# ── where it ends ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sign", OPERATIONS)
def test_brackets_that_cross(sign: str) -> None:
    """aⁿbⁿcᵐ and aᵐbⁿcⁿ: what both allow is not even context-free, what either does is a grammar's."""
    a = COMPILER.compile_grammar('root ::= ab "c"*\nab ::= "a" ab "b" | ""')
    b = COMPILER.compile_grammar('root ::= "a"* bc\nbc ::= "b" bc "c" | ""')
    if sign != "|":
        with pytest.raises(fsmc.ConstraintError, match=r"in different orders, as in .a{9}b+.$"):
            combined(sign, a, b)
        return
    either = a | b
    for counts in itertools.product(range(12), repeat=3):
        text = b"".join(letter * n for letter, n in zip((b"a", b"b", b"c"), counts, strict=True))
        assert either.machine.matches(text) == (counts[0] == counts[1] or counts[1] == counts[2]), text
    assert not either.machine.matches(b"ba")
    walk_without_dead_ends(either, 1)


def test_what_differs_and_what_is_too_large() -> None:
    unique = COMPILER.compile_json_schema({"type": "array", "uniqueItems": True})
    with pytest.raises(fsmc.ConstraintError, match="uniqueItems"):
        unique & COMPILER.compile_grammar(JSON)
    tree, json_texts = COMPILER.compile_json_schema(TREE), COMPILER.compile_grammar(JSON)
    with pytest.raises(fsmc.LimitExceeded, match="max_pairs=10 "):
        algebra.intersection(tree, json_texts, max_pairs=10)
    assert algebra.intersection(tree, json_texts).subset_of(tree)


def test_how_far_brackets_may_cross_is_an_argument() -> None:
    a = COMPILER.compile_grammar('root ::= ab "c"*\nab ::= "a" ab "b" | ""')
    b = COMPILER.compile_grammar('root ::= "a"* bc\nbc ::= "b" bc "c" | ""')
    with pytest.raises(fsmc.ConstraintError, match=r"in different orders, as in .a{4}b+.$"):
        algebra.intersection(a, b, max_crossed=3)


AMBIGUOUS = [
    'root ::= root root | "x" | "()"',
    'root ::= root root root | "x"',
    'root ::= root "x" root | "(" root ")" | ""',
]


@pytest.mark.parametrize("grammar", AMBIGUOUS)
@pytest.mark.parametrize("pattern", ["[x(]*", "(..)*"])
def test_ambiguous_grammars_beside_patterns(grammar: str, pattern: str) -> None:
    """What a rule leaves to its caller may begin the same rule again, any number of times."""
    a, b = COMPILER.compile_grammar(grammar), COMPILER.compile_regex(pattern)
    if a.dfa is not None:
        pytest.fail("it is meant to be no regular one")
    for sign, accepts in OPERATIONS.items():
        for one, other in ((a, b), (b, a)):
            made = combined(sign, one, other)
            for text in SHORT:
                expected = accepts(one.machine.matches(text), other.machine.matches(text))
                assert (made is not None and made.machine.matches(text)) == expected, (sign, text)
    outside = (~a).machine
    assert all(outside.matches(text) != a.machine.matches(text) for text in SHORT)
    assert not a.subset_of(COMPILER.compile_regex("y*")) and a.subset_of(COMPILER.compile_regex("[x()]*"))


def test_long_witnesses() -> None:
    long = COMPILER.compile_json_schema({"type": "string", "minLength": 1100})
    assert long.subset_of(COMPILER.compile_regex('"[a-z]*"')).witness.count(b'"') == 2
    deep = COMPILER.compile_grammar('root ::= "(" root ")" | "x"')
    assert len(deep.subset_of(COMPILER.compile_regex(".{0,200}")).witness) == 201


def test_a_length_for_a_grammar_of_json() -> None:
    """Ways out are settled by their lengths, each once: with 60 places for each of a grammar's it took more than the minute that it may."""
    texts, short = COMPILER.compile_grammar(EXAMPLES["json"].ebnf), COMPILER.compile_regex(".{0,60}")
    both = texts & short
    rng = random.Random(1)
    anything = COMPILER.compile_json_schema({})
    sampler = InstanceSampler(anything.machine.builder, 1, max_length=20)
    n_long = 0
    for _ in range(150):
        data = f"[{', '.join(sampler.sample() for _ in range(rng.randint(1, 8)))}]".encode()
        data = data if rng.random() < 0.7 else data[: rng.randrange(len(data) + 1)]
        assert both.machine.matches(data) == (texts.machine.matches(data) and short.machine.matches(data)), data
        n_long += len(data.decode(errors="replace")) > 60
    assert n_long
    assert both.machine.matches(b"[" * 30 + b"]" * 30) and not both.machine.matches(b"[" * 30 + b"1" + b"]" * 30)
    matcher = fsmc.GrammarMatcher(both)
    assert (
        matcher.accept_bytes(b"[" * 29)
        and matcher.accept_bytes(b"[")
        and matcher.find_jump_forward_string() == "]" * 30
    )
    assert [(texts - short).machine.matches(b"[%b]" % (b" " * n)) for n in (58, 59)] == [False, True]
    few = COMPILER.compile_regex(".{0,8}")
    assert (texts & few).subset_of(few)


@pytest.mark.parametrize("seed", range(10))
def test_ways_out_are_the_shortest(seed: int) -> None:
    """As they are found step by step from their definition, until nothing changes."""
    rng = random.Random(seed)
    machine = COMPILER.compile_grammar(random_grammar(rng)).machine
    dfa = COMPILER.compile_regex(rng.choice([".{0,4}", "[x()]{0,5}", "(..){0,2}", r"x{0,3}[()\[]{0,3}"])).dfa
    assert dfa is not None
    analysis = Analysis(machine, dfa, rng.choice([BOTH, DFA_ONLY]))
    settled, naive = analysis._ways, {place: {} for place in analysis._ways}
    analysis._ways, is_new = naive, True
    while is_new:
        is_new = False
        for place in naive:
            is_again = isinstance(place, Again)
            found = {} if is_again else {analysis.end(place): 0}
            for move in analysis.redone(*place) if is_again else analysis.moves(place):
                analysis._merge(found, analysis.through(move), 0)
            is_new |= found != naive[place]
            naive[place] = found
    assert naive == settled
