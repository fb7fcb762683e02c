"""Random schemas that use every keyword, random instances for them, and `jsonschema` as the oracle.

Names, strings and numbers come from small alphabets, so that instances often meet the conditions of their schema.
Instances are in canonical form: no 1.0, no exponents, no needless escapes.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from typing import Any

import jsonschema

from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.automata.tables import RECORDED

NAMES = ["a", "b", "c", "aa", "ab", 'q"é']
STRINGS = ["", "a", "b", "aa", "ab", "ba", "abc", "é", "\n", 'a"', "😀b", "bbbb"]
NUMBERS = [-3, -1, 0, 1, 2, 3, 4, 6, 10, -0.5, 0.5, 1.5, 0.1, 0.25, 2.75, -1.25, 100]
PATTERNS = ["^a", "b$", "a", "^a*$", "^[ab]{1,2}$", "^(?!b)", "^.$", "[^a]", "^(aa|b)*$", "é|^$", "^a(?=b)", "\\bb"]
DIVISORS = [1, 2, 3, 0.5, 0.1, 1.5, 0.25]
VALIDATORS = {
    4: jsonschema.Draft4Validator,
    6: jsonschema.Draft6Validator,
    7: jsonschema.Draft7Validator,
    2019: jsonschema.Draft201909Validator,
    2020: jsonschema.Draft202012Validator,
}


def random_value(rng: random.Random, depth: int = 2) -> Any:
    """A JSON value over the small alphabets."""
    kind = rng.random()
    if kind < 0.22:
        return rng.choice(STRINGS)
    if kind < 0.5 or depth == 0:
        return rng.choice(NUMBERS) if rng.random() < 0.7 else rng.choice([None, True, False])
    if kind < 0.72:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {name: random_value(rng, depth - 1) for name in rng.sample(NAMES, rng.choice([0, 1, 1, 2, 2, 3]))}


class SchemaMaker:
    """Makes schemas of one draft. References are used only where an object or array stands between, or downwards."""

    def __init__(self, rng: random.Random, draft: int = 2020, definitions: int = 2) -> None:
        self.rng, self.draft, self.definitions = rng, draft, definitions
        self.place = "$defs" if draft >= 2019 else "definitions"

    def root(self, depth: int = 3) -> Any:
        """A whole schema, with definitions."""
        schema = self.schema(depth, -1)
        if isinstance(schema, bool):
            return schema
        used = json.dumps(schema)
        names = range(self.definitions)
        parts = {f"d{i}": self.schema(max(depth - 1, 1), i) for i in names}
        if any(f"d{i}" in used for i in names):
            schema[self.place] = parts
        return schema

    def schema(self, depth: int, level: int) -> Any:
        """A schema. level: unguarded references go to definitions of a higher number only; None where any may be used."""
        rng = self.rng
        if rng.random() < 0.08:
            if self.draft == 4:
                return {} if rng.random() < 0.6 else {"not": {}}
            return rng.choice([True, True, False, {}])
        references = range(self.definitions) if level is None else range(level + 1, self.definitions)
        if (level is None or references) and rng.random() < 0.1:
            targets = [f"#/{self.place}/d{i}" for i in references] + (["#"] if level is None else [])
            reference = {"$ref": rng.choice(targets)}
            if self.draft <= 7 or rng.random() < 0.5:
                return reference
            return {**self.body(depth, level), **reference}
        return self.body(depth, level)

    def body(self, depth: int, level: int | None) -> dict[str, Any]:
        """A schema object without a reference."""
        rng = self.rng
        result: dict[str, Any] = {}
        kind = rng.choice(["object"] * 7 + ["array"] * 5 + ["string"] * 3 + ["number"] * 3 + ["literal"])
        if depth == 0:
            kind = rng.choice(["string", "number", "literal"])
        if rng.random() < 0.08:
            values = [random_value(rng) for _ in range(rng.randrange(1, 4))]
            result.update({"const": values[0]} if self.draft >= 6 and rng.random() < 0.4 else {"enum": unique(values)})
        elif rng.random() < 0.6 or kind == "literal":
            types = {kind} if kind != "literal" else {rng.choice(["null", "boolean"])}
            if kind == "number" and rng.random() < 0.5:
                types = {"integer"}
            while rng.random() < 0.2:
                types.add(rng.choice(["null", "boolean", "string", "number", "integer", "array", "object"]))
            result["type"] = sorted(types) if len(types) > 1 or rng.random() < 0.05 else types.pop()
        rules = {"object": self.object_rules, "array": self.array_rules, "string": self.string_rules}.get(kind)
        rules = rules or (self.number_rules if kind == "number" else None)
        if rules is not None:
            result.update(rules(depth, level))
        if rng.random() < 0.15:
            result.update(rng.choice([self.string_rules, self.number_rules])(depth, level))
        if depth > 0 and rng.random() < 0.35:
            result.update(self.combination(depth - 1, level))
            if rng.random() < 0.3:
                result.update(self.combination(depth - 1, level))
        if self.draft >= 2020 and depth > 0 and rng.random() < 0.15:  # jsonschema's reading of 2019-09's is not ours
            name = "unevaluatedProperties" if kind != "array" else "unevaluatedItems"
            result[name] = rng.choice([False, False, self.schema(0, None)])
        items = list(result.items())
        rng.shuffle(items)
        return dict(items)

    def combination(self, depth: int, level: int | None) -> dict[str, Any]:
        rng = self.rng
        several = [self.schema(depth, level) for _ in range(rng.choice([1, 2, 2, 3]))]
        choices: list[Callable[[], dict[str, Any]]] = [
            lambda: {"allOf": several},
            lambda: {"anyOf": several},
            lambda: {"oneOf": several},
            lambda: {"oneOf": several},
            lambda: {"not": several[0]},
        ]
        if self.draft >= 7:
            branches = {"then": self.schema(depth, level), "else": self.schema(depth, level)}
            if rng.random() < 0.4:
                del branches[rng.choice(["then", "else"])]
            choices += [lambda: {"if": several[0], **branches}] * 2
        return rng.choice(choices)()

    def object_rules(self, depth: int, level: int | None) -> dict[str, Any]:
        rng, value = self.rng, lambda: self.schema(depth - 1, None)
        result: dict[str, Any] = {}
        if rng.random() < 0.75:
            result["properties"] = {name: value() for name in rng.sample(NAMES, rng.choice([1, 2, 2, 3, 4]))}
        if rng.random() < 0.4:
            result["required"] = rng.sample(NAMES, rng.choice([1, 1, 2]))
        if rng.random() < 0.4:
            result["additionalProperties"] = False if rng.random() < 0.5 else value()
        if rng.random() < 0.25:
            result["patternProperties"] = {p: value() for p in rng.sample(PATTERNS, rng.choice([1, 1, 2]))}
        if self.draft >= 6 and rng.random() < 0.12:
            names = self.string_rules(0, None) if rng.random() < 0.7 else {"enum": rng.sample(NAMES, 3)}
            result["propertyNames"] = names if rng.random() < 0.8 else {"not": names}
        if rng.random() < 0.12:
            result["minProperties"] = rng.choice([0, 1, 2, 3])
        if rng.random() < 0.12:
            result["maxProperties"] = rng.choice([0, 1, 2, 3])
        if rng.random() < 0.15:
            needs = {name: rng.sample(NAMES, rng.choice([1, 2])) for name in rng.sample(NAMES, rng.choice([1, 2]))}
            result["dependentRequired" if self.draft >= 2019 else "dependencies"] = needs
        if rng.random() < 0.12 and depth > 0:
            schemas = {name: self.schema(depth - 1, level) for name in rng.sample(NAMES, rng.choice([1, 2]))}
            result["dependentSchemas" if self.draft >= 2019 else "dependencies"] = schemas
        return result

    def array_rules(self, depth: int, level: int | None) -> dict[str, Any]:
        rng, value = self.rng, lambda: self.schema(depth - 1, None)
        result: dict[str, Any] = {}
        if self.draft >= 2020:
            if rng.random() < 0.35:
                result["prefixItems"] = [value() for _ in range(rng.choice([1, 2, 2, 3]))]
            if rng.random() < 0.6:
                result["items"] = value()
        elif rng.random() < 0.4:
            result["items"] = [value() for _ in range(rng.choice([1, 2, 2, 3]))]
            if rng.random() < 0.5:
                result["additionalItems"] = value()
        elif rng.random() < 0.6:
            result["items"] = value()
        if self.draft >= 6 and rng.random() < 0.3:
            result["contains"] = value()
            if self.draft >= 2019 and rng.random() < 0.5:
                result["minContains"] = rng.choice([0, 1, 2, 2])
            if self.draft >= 2019 and rng.random() < 0.4:
                result["maxContains"] = rng.choice([0, 1, 2])
        if rng.random() < 0.25:
            result["minItems"] = rng.choice([0, 1, 2, 3])
        if rng.random() < 0.25:
            result["maxItems"] = rng.choice([0, 1, 2, 3])
        if rng.random() < 0.1:
            result["uniqueItems"] = rng.random() < 0.9
            if rng.random() < 0.7:  # mostly of scalars: other items are refused
                result["items"] = rng.choice([{"type": ["string", "null"]}, {"type": "integer"}, {"enum": STRINGS[:3]}])
        return result

    def string_rules(self, depth: int, level: int | None) -> dict[str, Any]:
        rng, result = self.rng, {}
        if rng.random() < 0.35:
            result["minLength"] = rng.choice([0, 1, 2, 3])
        if rng.random() < 0.35:
            result["maxLength"] = rng.choice([0, 1, 2, 3, 70])
        if rng.random() < 0.4:
            result["pattern"] = rng.choice(PATTERNS)
        return result

    def number_rules(self, depth: int, level: int | None) -> dict[str, Any]:
        rng, result = self.rng, {}
        if rng.random() < 0.5:
            result["minimum"] = rng.choice(NUMBERS)
        if rng.random() < 0.5:
            result["maximum"] = rng.choice(NUMBERS)
        if rng.random() < 0.15:
            result["exclusiveMinimum"] = rng.choice(NUMBERS) if self.draft >= 6 else True
        if rng.random() < 0.15:
            result["exclusiveMaximum"] = rng.choice(NUMBERS) if self.draft >= 6 else True
        if rng.random() < 0.3:
            result["multipleOf"] = rng.choice(DIVISORS)
        if self.draft == 4:
            for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
                if bound not in result:
                    result.pop(flag, None)
        return result


def unique(values: list[Any]) -> list[Any]:
    """The values without repetitions."""
    return list({json.dumps(exact(v), sort_keys=True, default=str): v for v in values}.values())


# ── instances ────────────────────────────────────────────────────────────────────────────────────────────────────────


def literals(schema: Any) -> Iterator[Any]:
    """Values that a schema speaks of: constants, bounds and their neighbours."""
    if isinstance(schema, list):
        for part in schema:
            yield from literals(part)
    elif isinstance(schema, dict):
        for key, part in schema.items():
            if key == "const":
                yield part
            elif key == "enum":
                yield from part
            elif isinstance(part, (int, float)) and not isinstance(part, bool):
                yield from (part, part - 1, part + 1) if isinstance(part, int) else (part,)
            yield from literals(part)


class InstanceMaker:
    """Makes instances that have a chance to be valid under a schema, and near misses."""

    def __init__(self, rng: random.Random, schema: Any) -> None:
        self.rng, self.schema = rng, schema
        self.literals = list(literals(schema)) or [None]

    def instance(self) -> Any:
        return self.like(self.schema, 5)

    def like(self, schema: Any, depth: int) -> Any:
        """A value that looks like what a subschema asks for."""
        rng = self.rng
        if depth == 0 or not isinstance(schema, dict) or rng.random() < 0.06:
            return rng.choice(self.literals) if rng.random() < 0.3 else random_value(rng, min(depth, 2))
        if "const" in schema and rng.random() < 0.8:
            return schema["const"]
        if schema.get("enum") and rng.random() < 0.8:
            return rng.choice(schema["enum"])
        if "$ref" in schema and rng.random() < 0.8:
            return self.like(self.target(schema["$ref"]), depth - 1)
        parts = [p for k in ("allOf", "anyOf", "oneOf") for p in schema.get(k, ())]
        parts += [schema[k] for k in ("if", "then", "else", "not") if k in schema]
        parts += list(schema.get("dependentSchemas", {}).values())
        if parts and rng.random() < 0.45:
            part = self.like(rng.choice(parts), depth - 1)
            if not isinstance(part, dict) or "properties" not in schema:
                return part
            return {**part, **self.object_like(schema, depth)}
        types = schema.get("type") or guess(schema)
        kind = rng.choice(types) if isinstance(types, list) else types
        if kind == "object":
            return self.object_like(schema, depth)
        if kind == "array":
            return self.array_like(schema, depth)
        if kind == "string":
            return rng.choice([v for v in self.literals if isinstance(v, str)] * 2 + STRINGS)
        if kind in ("number", "integer"):
            return rng.choice([v for v in self.literals if isinstance(v, (int, float))] * 2 + NUMBERS)
        if kind in ("null", "boolean"):
            return None if kind == "null" else rng.random() < 0.5
        return random_value(rng, min(depth, 2))

    def object_like(self, schema: Any, depth: int) -> dict[str, Any]:
        rng = self.rng
        declared = schema.get("properties", {})
        wanted = [name for name in declared if rng.random() < 0.55]
        wanted += [name for name in schema.get("required", ()) if rng.random() < 0.92]
        while rng.random() < 0.35:
            wanted.append(rng.choice([*NAMES, "d", "z"]))
        others = schema.get("additionalProperties", True)
        return {name: self.like(declared.get(name, others), depth - 1) for name in dict.fromkeys(wanted)}

    def array_like(self, schema: Any, depth: int) -> list[Any]:
        prefix = schema.get("prefixItems", [])
        items = schema.get("items", True)
        if isinstance(items, list):
            prefix, items = items, schema.get("additionalItems", True)
        n = self.rng.choice([0, 1, 2, 3, len(prefix), schema.get("minItems", 1), schema.get("maxItems", 2)])
        rest = [items, items, schema.get("contains", items)]
        return [self.like(prefix[i] if i < len(prefix) else self.rng.choice(rest), depth - 1) for i in range(n)]

    def target(self, reference: str) -> Any:
        found = self.schema
        for part in reference.split("/")[1:]:
            found = found[part]
        return found

    def mutated(self, value: Any) -> Any:
        """The value with one small change somewhere."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.8:
            name = rng.choice(list(value))
            change = rng.random()
            if change < 0.55:
                return {**value, name: self.mutated(value[name])}
            rest = {k: v for k, v in value.items() if k != name}
            if change < 0.75:
                return rest
            return {**(value if change < 0.9 else rest), rng.choice(NAMES): random_value(rng, 1)}
        if isinstance(value, list) and value and rng.random() < 0.8:
            i = rng.randrange(len(value))
            change = rng.random()
            if change < 0.5:
                return [*value[:i], self.mutated(value[i]), *value[i + 1 :]]
            if change < 0.7:
                return value[:i] + value[i + 1 :]
            return [*value[:i], rng.choice([value[i], random_value(rng, 1)]), *value[i:]]
        return rng.choice(self.literals) if rng.random() < 0.4 else random_value(rng, 1)


def guess(schema: dict[str, Any]) -> Any:
    """A type that the keywords of a schema speak of."""
    if {"properties", "required", "additionalProperties", "patternProperties", "minProperties"} & schema.keys():
        return "object"
    if {"items", "prefixItems", "contains", "minItems", "maxItems"} & schema.keys():
        return "array"
    if {"minLength", "maxLength", "pattern"} & schema.keys():
        return "string"
    return "number" if {"minimum", "maximum", "multipleOf"} & schema.keys() else None


# ── the oracle ───────────────────────────────────────────────────────────────────────────────────────────────────────


def exact(value: Any) -> Any:
    """Floats as exact decimals: for jsonschema 0.3 is then a multiple of 0.1."""
    if isinstance(value, float):
        number = Decimal(repr(value))  # int(1e308) would be another number
        return int(number) if value.is_integer() else number
    if isinstance(value, list):
        return [exact(v) for v in value]
    if isinstance(value, dict):
        return {k: exact(v) for k, v in value.items()}
    return value


def python_patterns(schema: Any) -> Any:
    r"""The schema with ``$`` in patterns as ``\Z``: Python's ``$`` matches before a last line feed too, ECMA's does not."""
    if isinstance(schema, list):
        return [python_patterns(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: python_patterns(part) for key, part in schema.items()}
    if isinstance(result.get("pattern"), str):
        result["pattern"] = _ends_at_the_end(result["pattern"])
    if isinstance(result.get("patternProperties"), dict):
        result["patternProperties"] = {_ends_at_the_end(p): s for p, s in result["patternProperties"].items()}
    return result


def _ends_at_the_end(pattern: str) -> str:
    return _DOLLARS.sub(lambda part: r"\Z" if part[0] == "$" else part[0], pattern)


_DOLLARS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


def validator(schema: Any, draft: int) -> Callable[[Any], bool]:
    """instance → whether jsonschema finds it valid."""
    oracle = VALIDATORS[draft](python_patterns(exact(schema)))

    def valid(instance: Any) -> bool:
        with localcontext() as context:
            context.prec = 2000  # numbers are random digits, and sometimes many
            return bool(oracle.is_valid(exact(instance)))

    return valid


# ── running the machine ──────────────────────────────────────────────────────────────────────────────────────────────


class Walk:
    """A text read byte by byte, in a form that can branch; like `RecursiveMachine.run`, recorded calls are kept account of."""

    __slots__ = ("here", "machine", "starts", "text")

    def __init__(self, machine: LazyRSM) -> None:
        self.machine, self.here = machine, machine.initial
        self.starts: tuple[int, ...] = ()
        self.text = b""

    def feed(self, data: bytes) -> Walk | None:
        """The walk after more bytes, None where one is not allowed."""
        walk: Walk | None = self
        for byte in data:
            walk = walk and walk._feed(byte)
        return walk

    def _feed(self, byte: int) -> Walk | None:
        after = Walk(self.machine)
        after.here, after.starts, after.text = self.here, self.starts, self.text + bytes([byte])
        consumed = False
        while not consumed:
            before = after.here
            here, consumed = self.machine._move(before, byte)
            if len(here.stack) > len(before.stack) and here.stack[-1] >= RECORDED:
                after.starts = (*after.starts, len(self.text))
            if here.state != DEAD and len(here.stack) < len(before.stack) and before.stack[-1] >= RECORDED:
                text = after.text[after.starts[-1] : len(self.text) + consumed]
                after.starts = after.starts[:-1]
                here = Configuration(self.machine.record(here.state, text), here.stack)
            if here.state == DEAD:
                return None
            after.here = here
        return after

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return self.machine.is_complete(self.here)

    def bytes(self) -> list[int]:
        """All bytes that may come next."""
        return [byte for byte in self.machine.row(self.here.state).nonzero()[0].tolist() if self._feed(byte)]


def sample(machine: LazyRSM, rng: random.Random, longest: int = 60, patience: int = 400) -> bytes | None:
    """A random accepted text; closing is preferred past ``longest`` bytes. None if it has not ended after ``patience`` more.

    Raises AssertionError at a dead end: a text that can neither end nor go on.
    """
    walk = Walk(machine)
    while True:
        n = len(walk.text)
        if walk.complete and (n > longest or rng.random() < 0.3):
            return walk.text
        following = walk.bytes()
        if not following:
            assert walk.complete, f"dead end after {walk.text!r}"
            return walk.text
        if n > longest + patience:
            return None
        likely = [b for b in following if b in b'{}[]":,-0123456789ablnrtuefsc']
        if n > longest:
            likely = [b for b in following if b in b'}]"'] or [b for b in following if b in b"ntf0"] or likely
        choice = rng.choice(likely if likely and rng.random() < 0.97 else following)
        after = walk._feed(choice)
        assert after is not None
        walk = after


def accepts_in_some_order(machine: LazyRSM, value: Any, comma: str = ", ", colon: str = ": ") -> bool:
    """Whether the text of ``value`` is accepted with the members of its objects in one order or another."""
    return any(walk.complete for walk in _in_some_order(Walk(machine), value, comma.encode(), colon.encode()))


def _in_some_order(walk: Walk, value: Any, comma: bytes, colon: bytes) -> Iterator[Walk]:
    met: set[tuple[Configuration, frozenset[str]]] = set()

    def members(walk: Walk, left: frozenset[str], first: bool) -> Iterator[Walk]:
        if (walk.here, left) in met and not walk.starts:
            return  # another order led here, and nothing but the configuration matters
        met.add((walk.here, left))
        if not left:
            if end := walk.feed(b"}"):
                yield end
        for name in sorted(left):
            key = json.dumps(name, ensure_ascii=False).encode()
            if after := walk.feed((b"" if first else comma) + key + colon):
                for done in _in_some_order(after, value[name], comma, colon):
                    yield from members(done, left - {name}, False)

    def items(walk: Walk, i: int) -> Iterator[Walk]:
        if i == len(value):
            if end := walk.feed(b"]"):
                yield end
        elif after := walk.feed(comma if i else b""):
            for done in _in_some_order(after, value[i], comma, colon):
                yield from items(done, i + 1)

    if isinstance(value, dict):
        if start := walk.feed(b"{"):
            yield from members(start, frozenset(value), True)
    elif isinstance(value, list):
        if start := walk.feed(b"["):
            yield from items(start, 0)
    elif end := walk.feed(json.dumps(value, ensure_ascii=False).encode()):
        yield end


def shuffled(rng: random.Random, value: Any) -> Any:
    """The value with the members of its objects in random order."""
    if isinstance(value, dict):
        return {k: shuffled(rng, value[k]) for k in rng.sample(list(value), len(value))}
    return [shuffled(rng, v) for v in value] if isinstance(value, list) else value


# ── smaller failures ─────────────────────────────────────────────────────────────────────────────────────────────────


def shrunk(value: Any, fails: Callable[[Any], bool]) -> Any:
    """A smaller value that still fails: parts are left out, or replaced by their own parts, as long as that works."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(value):
            if fails(smaller):
                value, changed = smaller, True
                break
    return value


def _smaller(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
        for name in value:
            yield {k: v for k, v in value.items() if k != name}
        for name, part in value.items():
            trivial = [] if part in (True, {}) else [True, {}]
            yield from ({**value, name: smaller} for smaller in itertools.chain(trivial, _smaller(part)))
    elif isinstance(value, list):
        yield from value
        for i in range(len(value)):
            yield value[:i] + value[i + 1 :]
        for i, part in enumerate(value):
            yield from ([*value[:i], smaller, *value[i + 1 :]] for smaller in _smaller(part))
