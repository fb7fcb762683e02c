"""How the cost of a JSON Schema grows with its size: compiling, the first mask, and walking a whole instance.

    python benchmarks/growth.py [TOKENIZER.JSON] [--only TEXT] [--record FILE]

Each subject is a family of schemas with one size, and for each an instance. The instance is walked as a generation would be:
a mask and a token at a time, tokens being the longest that fit. No disk cache; the compiler is new for each row, the kernels
are warm, times are those of the processor. "order" is the growth of compiling and first mask between this row and the one
before, log(time ratio) / log(size ratio): 1 is linear. It is shown where both took more than 20 ms. Rows where they take over
two seconds are marked. The walk is given for each token, since instances grow with their schemas.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import read_vocabulary

import fsmc

LIMIT_SECONDS = 2.0
GIVE_UP_SECONDS = 20.0
"""No larger size of a subject is tried after a row that took longer."""

MAX_TOKENS = 5_000
"""Of a longer instance only so many are walked."""

SHOWN_FROM_SECONDS = 0.02
LINE = "{:28} {:>6} {:>11} {:>11} {:>9} {:>7} {:>11} {:>8} {:>6} {}"
VALUES = ({"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "array", "items": {"type": "number"}})
EXAMPLES = ("some words", 42, True, [1, 2.5])

Case = tuple[Any, Any, dict[str, Any]]
"""Schema, instance, options of the compiler."""


def members(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """n declared members of different types, and an object that has all of them."""
    names = [f"member_{i}" for i in range(n)]
    return {k: VALUES[i % 4] for i, k in enumerate(names)}, {k: EXAMPLES[i % 4] for i, k in enumerate(names)}


def shuffled(value: dict[str, Any]) -> dict[str, Any]:
    items = list(value.items())
    random.Random(1).shuffle(items)
    return dict(items)


def optional(n: int) -> Case:
    declared, value = members(n)
    return {"type": "object", "properties": declared, "additionalProperties": False}, value, {}


def optional_any_order(n: int) -> Case:
    schema, value, _ = optional(n)
    return schema, shuffled(value), {"property_order": "any"}


def required(n: int) -> Case:
    declared, value = members(n)
    return {"type": "object", "properties": declared, "required": list(declared)}, value, {}


def required_any_order(n: int) -> Case:
    schema, value, _ = required(n)
    return schema, shuffled(value), {"property_order": "any"}


def required_undeclared(n: int) -> Case:
    names = [f"member_{i}" for i in range(n)]
    return {"type": "object", "required": names}, dict.fromkeys(names, 1), {}


def alternatives(keyword: str, n: int) -> Case:
    """Objects told apart by a constant, each with members of its own; the last alternative is the instance's."""
    branches = [
        {
            "type": "object",
            "properties": {
                "kind": {"const": f"kind_{i}"},
                "size": {"type": "integer"},
                f"only_{i}": {"type": "string"},
            },
            "required": ["kind", f"only_{i}"],
            "additionalProperties": False,
        }
        for i in range(n)
    ]
    return {keyword: branches}, {"kind": f"kind_{n - 1}", "size": 3, f"only_{n - 1}": "x"}, {}


def tagged_last(keyword: str, n: int) -> Case:
    """As `alternatives`, but the constant comes last: all alternatives stay open until then."""
    branches = [
        {
            "type": "object",
            "properties": {"size": {"type": "integer", "minimum": i}, "name": {"type": "string"}, "kind": {"const": i}},
            "required": ["size", "kind"],
        }
        for i in range(n)
    ]
    return {keyword: branches}, {"size": n, "name": "x", "kind": n - 1}, {}


def untagged(n: int) -> Case:
    """anyOf of objects that differ in their required members only."""
    branches = [
        {"type": "object", "properties": {f"m{i}": {"type": "integer"}}, "required": [f"m{i}"]} for i in range(n)
    ]
    return {"anyOf": branches}, {f"m{n - 1}": 1}, {}


def conditions(n: int) -> Case:
    """allOf of if/then about one member: the usual way to write what depends on a choice."""
    rules = [
        {"if": {"properties": {"kind": {"const": f"kind_{i}"}}}, "then": {"required": [f"only_{i}"]}} for i in range(n)
    ]
    declared = {
        "kind": {"enum": [f"kind_{i}" for i in range(n)]},
        **{f"only_{i}": {"type": "string"} for i in range(n)},
    }
    schema = {"type": "object", "properties": declared, "required": ["kind"], "allOf": rules}
    return schema, {"kind": f"kind_{n - 1}", f"only_{n - 1}": "x"}, {}


def enumeration(n: int) -> Case:
    rng = random.Random(n)
    values = [f"{rng.choice(('north', 'south', 'east'))}-{rng.randrange(10**9)}-{i}" for i in range(n)]
    return {"enum": values}, values[-1], {}


def enumeration_of_numbers(n: int) -> Case:
    return {"enum": [17 * i for i in range(n)]}, 17 * (n - 1), {}


def enumeration_of_objects(n: int) -> Case:
    values = [{"id": i, "name": f"name {i}", "tags": [f"t{i % 7}", i % 5 == 0]} for i in range(n)]
    return {"enum": values}, values[-1], {}


def enumeration_of_arrays(n: int) -> Case:
    values = [[i, f"name {i}", [i % 3, None]] for i in range(n)]
    return {"enum": values}, values[-1], {}


def enumeration_narrowed(n: int) -> Case:
    """Beside conditions that each string has to be asked about."""
    schema, value, _ = enumeration(n)
    return {**schema, "pattern": "^[a-z]+-[0-9]", "maxLength": 40}, value, {}


def enumeration_excluded(n: int) -> Case:
    return {"type": "string", "not": enumeration(n)[0]}, "east-1", {}


def numbers_excluded(n: int) -> Case:
    return {"type": "integer", "minimum": 0, "not": enumeration_of_numbers(n)[0]}, 17 * n, {}


def constants(keyword: str, n: int) -> Case:
    """An enumeration written as alternatives: strings and numbers."""
    values = [f"value {i}" if i % 2 else i for i in range(n)]
    return {keyword: [{"const": v, "title": f"the {i}th"} for i, v in enumerate(values)]}, values[-1], {}


def long_constant(n: int) -> Case:
    """n kilobytes of string."""
    value = "words and numbers 123 \n" * (45 * n)
    return {"const": value}, value, {}


def large_constant(n: int) -> Case:
    """An object that nests and has n leaves."""
    value = {f"group {i}": {"id": i, "tags": ["a", "b", {"deep": [i]}]} for i in range(n // 4)}
    return {"const": value}, value, {}


def overlapping_patterns(n: int) -> Case:
    """patternProperties of which every combination holds of some key."""
    letters = "abcdefghijklmnopqrst"[:n]
    return {"patternProperties": {c: {"minimum": i} for i, c in enumerate(letters)}}, {letters: n}, {}


def separate_patterns(n: int) -> Case:
    """patternProperties of which no two hold of the same key."""
    patterns = {f"^p{i}_[a-z]+$": {"minimum": i} for i in range(n)}
    return {"patternProperties": patterns, "additionalProperties": False}, {f"p{n - 1}_x": n}, {}


def length(n: int) -> Case:
    return {"type": "string", "maxLength": n}, "twenty characters ab" * min(n // 20, 500), {}


def length_and_pattern(n: int) -> Case:
    return {"type": "string", "minLength": n // 2, "maxLength": n, "pattern": "^([a-z]+ ?)*$"}, "words " * (n // 8), {}


def items(n: int) -> Case:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": n // 2, "maxItems": n}
    return schema, list(range(n)), {}


def distinct_items(n: int) -> Case:
    return {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, list(range(n)), {}


def positions(n: int) -> Case:
    return (
        {"type": "array", "prefixItems": [VALUES[i % 2] for i in range(n)], "items": False},
        [EXAMPLES[i % 2] for i in range(n)],
        {},
    )


def references(n: int) -> Case:
    definitions: dict[str, Any] = {
        f"d{i}": {"type": "object", "properties": {"next": {"$ref": f"#/$defs/d{i + 1}"}}, "required": ["next"]}
        for i in range(n)
    }
    definitions[f"d{n}"] = {"type": "integer"}
    value: Any = 7
    for _ in range(n):
        value = {"next": value}
    return {"$ref": "#/$defs/d0", "$defs": definitions}, value, {}


def chain_of_references(n: int) -> Case:
    definitions: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(n)}
    definitions[f"d{n}"] = {"type": "integer"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}, 7, {}


def described(n: int) -> Case:
    """n kilobytes, nearly all of it descriptions."""
    text = "What this member means, in many words. " * 25
    names = [f"member_{i}" for i in range(n)]
    schema = {
        "type": "object",
        "description": text,
        "properties": {k: {"type": "string", "description": text, "examples": ["x"]} for k in names},
        "required": names[:5],
    }
    return schema, dict.fromkeys(names[:20], "x"), {}


SUBJECTS: dict[str, tuple[Callable[[int], Case], tuple[int, ...]]] = {
    "optional members": (optional, (10, 100, 1000, 10_000, 100_000)),
    "optional members, any order": (optional_any_order, (10, 100, 1000)),
    "required members": (required, (10, 100, 1000)),
    "required members, any order": (required_any_order, (10, 100, 1000)),
    "required, undeclared": (required_undeclared, (10, 100, 1000)),
    "anyOf, told apart by a tag": (lambda n: alternatives("anyOf", n), (2, 10, 40, 100)),
    "oneOf, told apart by a tag": (lambda n: alternatives("oneOf", n), (2, 10, 40, 100)),
    "anyOf, tag last": (lambda n: tagged_last("anyOf", n), (2, 10, 40, 100)),
    "oneOf, tag last": (lambda n: tagged_last("oneOf", n), (2, 10, 40, 100)),
    "anyOf, required members": (untagged, (2, 10, 40, 100)),
    "if/then per choice": (conditions, (2, 10, 40, 100)),
    "enum of strings": (enumeration, (100, 1000, 10_000, 100_000)),
    "enum of integers": (enumeration_of_numbers, (100, 1000, 10_000, 100_000)),
    "enum of objects": (enumeration_of_objects, (10, 100, 1000)),
    "enum of arrays": (enumeration_of_arrays, (10, 100, 1000)),
    "enum beside a pattern": (enumeration_narrowed, (100, 1000, 10_000)),
    "not one of an enum": (enumeration_excluded, (100, 1000, 10_000)),
    "not one of these integers": (numbers_excluded, (100, 1000, 10_000)),
    "anyOf of constants": (lambda n: constants("anyOf", n), (10, 100, 1000, 10_000)),
    "oneOf of constants": (lambda n: constants("oneOf", n), (10, 100, 1000, 10_000)),
    "kilobytes of constant": (long_constant, (10, 100, 1000)),
    "leaves of a constant": (large_constant, (10, 100, 1000, 10_000)),
    "patterns that overlap": (overlapping_patterns, (2, 4, 6, 8, 10, 12)),
    "patterns that do not": (separate_patterns, (10, 100, 300)),
    "maxLength": (length, (10, 1000, 100_000)),
    "maxLength with a pattern": (length_and_pattern, (40, 400, 4000)),
    "maxItems": (items, (10, 100, 1000, 10_000)),
    "uniqueItems": (distinct_items, (10, 100, 1000)),
    "prefixItems": (positions, (10, 100, 1000)),
    "nested references": (references, (1, 10, 100)),
    "chained references": (chain_of_references, (1, 10, 100)),
    "kilobytes of description": (described, (40, 400, 4000)),
}


def tokens(text: bytes, ids: dict[bytes, int], longest: int) -> list[int]:
    """The text as tokens, each the longest that fits."""
    found, i = [], 0
    while i < len(text):
        size = next(n for n in range(min(longest, len(text) - i), 0, -1) if text[i : i + n] in ids)
        found.append(ids[text[i : i + size]])
        i += size
    return found


def measure(case: Case, vocabulary: fsmc.Vocabulary, ids: dict[bytes, int]) -> dict[str, Any]:
    """Seconds of each part for one schema."""
    schema, value, options = case
    text = json.dumps(value).encode()
    sequence = tokens(text[: 16 * MAX_TOKENS], ids, 16)[:MAX_TOKENS]
    compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json", **options)
    start = time.process_time()
    grammar = compiler.compile_json_schema(schema)
    compiled = time.process_time()
    matcher = fsmc.GrammarMatcher(grammar)
    mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(mask)
    first = time.process_time()
    slowest = 0.0
    for token in sequence:
        begun = time.process_time()
        matcher.fill_next_token_bitmask(mask)
        if not int(mask[0, token // 32]) >> token % 32 & 1 or not matcher.accept_token(token):
            raise SystemExit(f"the instance is not accepted: at {vocabulary.token(token)!r} in {text[:80]!r}")
        slowest = max(slowest, time.process_time() - begun)
    if len(sequence) < MAX_TOKENS and not matcher.is_completed():
        raise SystemExit(f"the instance is not complete: {text[:80]!r}")
    walked = time.process_time()
    return {
        "compile": compiled - start,
        "first mask": first - compiled,
        "walk": walked - first,
        "tokens": len(sequence),
        "slowest": slowest,
        "states": grammar.machine.n_states,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", nargs="?", help="tokenizer.json; without one, all single bytes and some words")
    parser.add_argument("--only", default="", help="subjects whose name contains this")
    parser.add_argument("--record", type=Path, help="write all figures to this file as JSON")
    arguments = parser.parse_args()
    if arguments.tokenizer:
        _, vocabulary = read_vocabulary(Path(arguments.tokenizer))
    else:
        words = [
            b"member",
            b"kind",
            b'": "',
            b'", "',
            b": ",
            b", ",
            b"true",
            b"some words",
            b"twenty",
            b"abc",
            b"12",
            b"}",
        ]
        vocabulary = fsmc.Vocabulary.from_tokens([bytes([b]) for b in range(256)] + words + [b""], eos_token_ids=[268])
    ids = {token: i for i in range(vocabulary.size) if (token := vocabulary.token(i))}
    measure(optional(10), vocabulary, ids)  # kernels loaded

    heads = ("subject", "size", "compile ms", "first mask", "us/token", "tokens", "slowest ms", "states", "order", "")
    print(LINE.format(*heads))
    rows: list[dict[str, Any]] = []
    for name, (family, sizes) in SUBJECTS.items():
        if arguments.only not in name:
            continue
        before: tuple[int, float] | None = None
        for size in sizes:
            figures = measure(family(size), vocabulary, ids)
            took = figures["compile"] + figures["first mask"]
            order = ""
            if before is not None and min(took, before[1]) > SHOWN_FROM_SECONDS:
                order = f"{math.log(took / before[1]) / math.log(size / before[0]):.2f}"
            before = (size, took)
            compiled, first, slowest = (f"{1000 * figures[k]:.1f}" for k in ("compile", "first mask", "slowest"))
            each = f"{1e6 * figures['walk'] / max(figures['tokens'], 1):.0f}"
            mark = "over 2 s" if took > LIMIT_SECONDS else ""
            counts = (figures["tokens"], slowest, figures["states"], order, mark)
            print(LINE.format(name, size, compiled, first, each, *counts), flush=True)
            rows.append({"subject": name, "size": size, **figures})
            if took + figures["walk"] > GIVE_UP_SECONDS:
                break
    if arguments.record:
        arguments.record.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
