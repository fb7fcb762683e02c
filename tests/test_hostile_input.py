"""Bad and hostile input ends in one of fsmc's own errors, with a message that can be printed, in bounded time."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

import fsmc
from fsmc.compiler.errors import FsmcError

VOCAB = fsmc.Vocabulary.from_tokens([bytes([i]) for i in range(256)] + [b""], eos_token_ids=[256])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)


def _nested(depth, leaf, wrap):
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "pattern",
    [
        "((a{1000}){1000}){1000}",
        "((a{0,1000}){0,1000}){0,1000}",
        "a{%s}" % ("9" * 5000),
        "a" * 10_000_000,
        "(" * 10_000_000,
        "(?:" * 100_000 + "a" + ")" * 100_000,
        "(?=" * 10_000 + "a" + ")" * 10_000 + "a",
        r"(\w{1,100}\d){50}",
        "a.{500000}b",
        r"\N{" + "A" * 100_000 + "}",
        "a\ud800",
    ],
    ids=lambda pattern: ascii(pattern[:20]),
)
def test_hostile_patterns_are_refused_at_once(pattern):
    start = time.process_time()
    with pytest.raises(FsmcError) as caught:
        COMPILER.compile_regex(pattern)
    assert time.process_time() - start < 5
    assert len(str(caught.value).encode()) < 1000  # printable, also where the pattern is not


@pytest.mark.parametrize("anchor", ["^", "$", r"\b", "(?m)^"])
def test_an_assertion_said_again_and_again_costs_nothing(anchor):
    grammar = COMPILER.compile_regex(anchor + anchor[-2:].strip(")") * 50_000 + "a?")
    assert grammar.stats.nfa_states < 1000


def test_many_look_aheads_keep_to_the_clock():
    compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None, max_seconds=0.5)
    start = time.process_time()
    with pytest.raises(fsmc.LimitExceeded, match="max_"):
        compiler.compile_regex("".join(f"(?=.*{c})" for c in "abcdefghijklmnopqrst") + ".*")
    assert time.process_time() - start < 10


@pytest.mark.parametrize("pattern", [b"a", None, 5, ["a"]])
def test_a_pattern_is_a_str(pattern):
    with pytest.raises(TypeError, match="a pattern is a str"):
        COMPILER.compile_regex(pattern)


@pytest.mark.parametrize("flags", [1 << 20, 1 << 200, -1])
def test_unknown_flags_are_not_ignored(flags):
    with pytest.raises(ValueError, match="flags"):
        COMPILER.compile_regex("a", flags=flags)


@pytest.mark.parametrize(
    "damage", [{"map": {0: {0: 99}}}, {"initial": 77}, {"finals": {99}}, {"map": None}, {"alphabet": None}]
)
def test_damaged_machines_of_interegular(damage):
    interegular = pytest.importorskip("interegular")
    fsm = interegular.parse_pattern("ab").to_fsm()
    for name, value in damage.items():
        object.__setattr__(fsm, name, value)
    with pytest.raises(fsmc.MachineError, match="damaged"):
        COMPILER.compile_fsm(fsm)


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "schema",
    [
        "[" * 5_000_000,
        '{"not":' * 1_600_000 + "true" + "}" * 1_600_000,
        '{"enum":[' + "[" * 1_000_000 + "1" + "]" * 1_000_000 + "]}",
        '{"minimum": NaN}',
        '{"minimum": 1e%s}' % ("9" * 100),
        '{"type": "integer", "minimum": %s}' % ("9" * 5000),
        {"type": "integer", "minimum": 10**5000},
        {"$ref": "#/" + "a/" * 1_000_000},
        {"const": float("nan")},
        {"const": b"x"},
        {"enum": {1, 2}},
        {"properties": {1: {}}},
        {1: {}},
        {"minimum": b"1"},
        _nested(180, {"type": "string", "minLength": 3, "maxLength": 2}, lambda inner: {"allOf": [inner]}),
        {"required": ("a",)},
        {"multipleOf": 10**300},
        {"type": "array", "contains": {"type": "null"}, "minContains": 10**12},
        {"$ref": "#/$defs/\ud800\0"},
        {"patternProperties": {"(a": {}}},
        {"items": {"pattern": "(a|b)*a(a|b){25}c", "type": "string"}},
        _nested(100_000, {"type": "integer"}, lambda inner: {"not": inner}),
        {"enum": _nested(100_000, 1, lambda inner: [inner])},
    ],
    ids=lambda schema: ascii(str(schema)[:20]) if isinstance(schema, str) else None,
)
def test_hostile_schemas_are_refused_at_once(schema):
    start = time.process_time()
    with pytest.raises(FsmcError) as caught:
        COMPILER.compile_json_schema(schema)
    assert time.process_time() - start < 5
    assert len(str(caught.value).encode()) < 1000


@pytest.mark.parametrize(
    ("schema", "accepted"),
    [
        ({"maxLength": 10**300}, b'"a"'),
        ({"maxItems": 10**300, "maxProperties": 10**300}, b"[]"),
        ({"uniqueItems": True, "contains": {"type": "string"}, "maxItems": 10**12}, b'["a",1]'),
        ({"not": {"uniqueItems": True}, "maxItems": 10**12}, b"[1,1]"),
        ({"minLength": 10**300, "minItems": 10**300}, b"1"),
        ({"minimum": -1e-390, "multipleOf": 0.5}, b"1.5"),
        ({"properties": {"a\0b": {"type": "null"}}, "required": ["a\0b"], "type": "object"}, b'{"a\\u0000b":null}'),
        ({"enum": ["\0\x7f\u2028\U0010ffff"]}, '"\\u0000\x7f\u2028\U0010ffff"'.encode()),
    ],
    ids=["maxLength", "maxItems", "unique", "repeated", "minimal", "tiny", "NUL in a key", "odd characters"],
)
def test_extreme_values_mean_what_they_say(schema, accepted):
    assert COMPILER.compile_json_schema(schema).machine.matches(accepted)


@pytest.mark.parametrize("keyword", ["not", "allOf", "if"])
def test_a_dict_that_applies_itself_in_place_is_refused(keyword):
    schema = {}
    schema[keyword] = [schema] if keyword == "allOf" else schema
    with pytest.raises(fsmc.compiler.errors.SchemaError, match="lead back here"):
        COMPILER.compile_json_schema({"items": schema})


def test_an_impossible_member_far_down_is_found():
    step = {"type": "object", "required": ["a"]}
    definitions = {f"d{i}": {**step, "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(1000)}
    with pytest.raises(fsmc.EmptyLanguageError, match=r"nothing satisfies #/\$defs/d1000$"):
        COMPILER.compile_json_schema({"$ref": "#/$defs/d0", "$defs": {**definitions, "d1000": False}})


def test_numbers_of_numpy():
    numpy = pytest.importorskip("numpy")
    assert COMPILER.compile_json_schema({"enum": [numpy.float64(1.5)]}).machine.matches(b"1.5")
    with pytest.raises(fsmc.compiler.errors.SchemaError, match=r"#/minimum: .* not a Python int64"):
        COMPILER.compile_json_schema({"minimum": numpy.int64(5)})


def test_arguments_of_the_wrong_type():
    with pytest.raises(TypeError, match=r"a referencing\.Registry, not dict"):
        COMPILER.compile_json_schema({}, registry={})
    with pytest.raises(TypeError, match="max_seconds must be a number"):
        fsmc.GrammarCompiler(VOCAB, max_seconds=None)


def test_a_cyclic_dict_is_refused():
    schema = {"type": "object"}
    schema["properties"] = {"a": schema}
    try:
        grammar = COMPILER.compile_json_schema(schema)
    except FsmcError:
        return
    assert grammar.machine.matches(b'{"a":{"a":{}}}')  # or it means what it says


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "prefixItems"])
def test_references_that_double_at_each_step(keyword):
    definitions = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
    schema = {"$defs": {**definitions, "d60": {"type": "integer"}}, "$ref": "#/$defs/d0"}
    start = time.process_time()
    with contextlib.suppress(FsmcError):
        fsmc.GrammarMatcher(COMPILER.compile_json_schema(schema)).find_jump_forward_string()
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"type": "integer", "multipleOf": i} for i in range(1, 2000)]},
        {"type": "object", "patternProperties": {c: {"minimum": ord(c)} for c in "abcdefghijklmn"}},
        {"anyOf": [{"type": "object", "required": [f"k{i}"]} for i in range(3000)], "minProperties": 3},
        {"type": "array", "contains": {"type": "integer"}, "minContains": 10**6, "maxContains": 10**7},
    ],
    ids=["oneOf", "patternProperties", "anyOf", "contains"],
)
def test_what_takes_long_keeps_to_the_clock(schema):
    compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None, max_seconds=1)
    mask = fsmc.allocate_token_bitmask(1, VOCAB.size)
    start = time.process_time()
    try:
        matcher = fsmc.GrammarMatcher(compiler.compile_json_schema(schema))
        for text in (b"", b"{", b'"', b"["):
            matcher.accept_bytes(text)
            matcher.fill_next_token_bitmask(mask)
    except fsmc.LimitExceeded as error:
        assert "exceeded" in str(error)
    assert time.process_time() - start < 20


# ── a megabyte of grammar, of choices, of tags ────────────────────────────────────────────────────────────────────────

BIG = "a" * 1_000_000


def _tag(begin="<t>", end="</t>", content=None):
    return {"type": "tag", "begin": begin, "content": content or {"type": "any_text"}, "end": end}


@pytest.mark.parametrize(
    ("compile_it", "limit"),
    [
        (lambda c: c.compile_grammar(f'root ::= "{BIG}"'), "max_states"),
        (lambda c: c.compile_grammar(f'root ::= "(" root ")" | "{BIG}"'), "max_states"),
        (lambda c: c.compile_grammar(f"root ::= /{BIG}/"), "max_states"),
        (lambda c: c.compile_grammar(f'start: "(" start ")" | "{BIG}"'), "max_states"),
        (lambda c: c.compile_grammar('root ::= "ab"{0,1000000}'), "max_bytes"),
        (lambda c: c.compile_regex(BIG), "max_states"),
        (lambda c: c.compile_structural_tag(_tag(begin=BIG)), "max_states"),
        (lambda c: c.compile_structural_tag({"type": "const_string", "value": BIG}), "max_states"),
        (lambda c: c.compile_structural_tag(_tag(end=BIG)), "max_sought"),
        (lambda c: c.compile_structural_tag({"type": "any_text", "excludes": [BIG, "b"]}), "max_sought"),
        (
            lambda c: c.compile_structural_tag(
                {"type": "any_text", "excludes": [chr(i) + 300 * "a" for i in range(300)]}
            ),
            "max_edges",
        ),
    ],
    ids=["ebnf", "recursion", "regex", "lark", "repeat", "pattern", "begin", "const", "end", "excludes", "many"],
)
def test_a_text_of_a_megabyte_is_refused_with_the_limit_that_it_reaches(compile_it, limit):
    compiler = fsmc.GrammarCompiler(VOCAB, cache_dir=None)
    with pytest.raises(fsmc.LimitExceeded) as caught:
        compile_it(compiler)
    assert caught.value.name == limit and len(str(caught.value)) < 300


def test_a_text_just_below_the_limit_is_compiled():
    text = BIG[:200_000] + "b"
    assert COMPILER.compile_regex(text).machine.n_states == len(text) + 2
    machine = COMPILER.compile_grammar(f'root ::= "{text}"').machine
    assert (
        machine.n_states == len(text) + 2 and machine.matches(text.encode()) and not machine.matches(text[1:].encode())
    )


def _accepts(grammar, text):
    matcher = fsmc.GrammarMatcher(grammar)
    return matcher.accept_bytes(text.encode()) and matcher.is_completed()


def test_choices_and_constants_of_a_megabyte():
    assert _accepts(COMPILER.compile_choice([BIG, "b"]), BIG)
    for schema in ({"const": BIG}, {"enum": [BIG, "b"]}):
        grammar = COMPILER.compile_json_schema(schema)
        assert _accepts(grammar, f'"{BIG}"') and not _accepts(grammar, f'"{BIG[1:]}"')


@pytest.mark.parametrize("n", [30, 5000])
def test_rules_that_begin_the_next_one(n):
    rules = "".join(f'\nr{i} ::= "x{i}" r{i + 1}' for i in range(n))
    machine = COMPILER.compile_grammar(f'root ::= r0{rules}\nr{n} ::= "(" r{n} ")" | "e"').machine
    text = "".join(f"x{i}" for i in range(n)).encode()
    assert machine.matches(text + b"((e))") and not machine.matches(text + b"((e)")
    assert not machine.matches(text[:-1] + b"((e))")


def test_many_small_rules():
    rules = "".join(f'\nr{i} ::= "x{i}" [a-z]+ | "(" root ")"' for i in range(1500))
    machine = COMPILER.compile_grammar(f"root ::= {' | '.join(f'r{i}' for i in range(1500))}{rules}").machine
    assert machine.matches(b"((x1499abc))") and not machine.matches(b"((x1500abc)")


def test_errors_cut_long_names():
    with pytest.raises(fsmc.GrammarError, match="there is no rule 'aaa") as caught:
        COMPILER.compile_grammar(f"root ::= {BIG}")
    assert len(str(caught.value)) < 1000


# ── vocabularies and files ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tokens", [None, 5, "abc", b"abc", {"a": 1}, [[b"a"]], [b"a", 5]])
def test_tokens_are_a_list_of_bytes(tokens):
    with pytest.raises(TypeError, match="token"):
        fsmc.Vocabulary.from_tokens(tokens)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "device"])
def test_files_without_end_are_not_read(tmp_path, make):
    path = tmp_path / "tokenizer.json"
    make(path)
    with pytest.raises(fsmc.VocabularyError, match="regular file"):
        fsmc.Vocabulary.from_file(path)
    with pytest.raises(fsmc.IndexFileError, match="regular file"):
        fsmc.CompiledGrammar.load(path, VOCAB)
    with pytest.raises(OSError, match="regular file"):
        COMPILER.compile_regex("a").save(path)


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_names_that_no_file_can_have(name):
    with pytest.raises(fsmc.VocabularyError, match="cannot be read"):
        fsmc.Vocabulary.from_file(name)


def test_a_token_id_beyond_64_bits(tmp_path):
    path = tmp_path / "tokenizer.json"
    model = {"type": "BPE", "vocab": {"a": 1 << 70}, "merges": []}
    level = {"type": "ByteLevel"}
    path.write_text(json.dumps({"model": model, "decoder": level, "pre_tokenizer": level, "added_tokens": []}))
    with pytest.raises(fsmc.VocabularyError, match="not a token id"):
        fsmc.Vocabulary.from_file(path)


# ── misuse ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["ab", None, 5, [97]])
def test_accept_bytes_takes_bytes(text):
    matcher = fsmc.GrammarMatcher(COMPILER.compile_regex("ab"))
    with pytest.raises(TypeError, match="bytes"):
        matcher.accept_bytes(text)


def test_a_compiler_and_a_file_want_a_vocabulary(tmp_path):
    COMPILER.compile_regex("a").save(tmp_path / "a.fsmc")
    with pytest.raises(TypeError, match="Vocabulary"):
        fsmc.CompiledGrammar.load(tmp_path / "a.fsmc", None)
    with pytest.raises(TypeError, match="Vocabulary"):
        fsmc.GrammarCompiler(["a"])


@pytest.mark.parametrize("command", ["match a <&-", "match a - <&-", "sample '[a-z]{5}' -n 10000000 | head -1"])
def test_closed_streams(command):
    line = f"{sys.executable} -m fsmc {command}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr and "fault" not in done.stderr
