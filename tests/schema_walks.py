"""Random generations under schemas, as an engine makes them: masks, tokens, forced text, until the end token.

    python tests/schema_walks.py TOKENIZER.JSON MASKBENCH.JSONL.GZ [--schemas 500] [--walks 20] [--order schema|any]
        [--out walks.jsonl] [--minutes 5]

At every step some token has to be allowed, an allowed token has to be accepted and one that is not allowed refused, and what
is written in the end has to be valid by jsonschema. With ``--out`` a line for each schema is appended to a file, and those
that have one are not walked again: so a long run may be made in slices. Prints what became of all walks; exits with 1 if
one of them failed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import decimal
import gzip
import json
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from schema_strategies import VALIDATORS, exact, python_patterns

import fsmc
from fsmc.compiler.automata.equivalence import shortest_string
from fsmc.compiler.errors import FsmcError
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.string_machines import pattern_dfa

INSIDE = (rb'"[]}]+', rb'"', rb'"[,:] ?"?', rb"[ -~]")
OUTSIDE = (rb"[]}]+", rb'""', rb'"', rb'[,:] ?"?', rb"[0-9]|true|false|null", rb"[ -~]")
"""Tokens that lead to an end, best first, inside strings and outside: those that end something, the shortest strings, those
that lead to the next member or item; short values; single characters."""

_N_INSIDE, _N_OUTSIDE = 3, 4
"""So many kinds of these end something, or go on, wherever they are allowed."""


class Failure(AssertionError):
    """A dead end, an allowed token that is not accepted or another that is, or an invalid instance."""


class Policy:
    """Which of the allowed tokens a walk takes. It sees masks, the text so far, and hints from the schema.

    At first anything goes, with a liking for the kinds of tokens above, all alike, and for texts of the schema (an unlikely
    find else). Past ``longest`` tokens the best kind is taken; where none ends anything, a token after which one does.
    """

    def __init__(self, vocabulary: fsmc.Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.tokens = [vocabulary.token(i) for i in range(vocabulary.size)]
        self.id_of = {token: i for i, token in reversed(list(enumerate(self.tokens))) if token}
        self.longest_token = max(map(len, self.id_of))
        self.ends = np.array(vocabulary.eos_token_ids)
        self.inside, self.outside = (
            [self._mask_of(i for i, t in enumerate(self.tokens) if re.fullmatch(p, t)) for p in patterns]
            for patterns in (INSIDE, OUTSIDE)
        )
        self.not_ends = ~self._mask_of(vocabulary.eos_token_ids)

    def _mask_of(self, ids: Iterator[int] | tuple[int, ...]) -> npt.NDArray[np.int32]:
        bits = np.zeros(32 * (-(-self.vocabulary.size // 32)), np.uint8)
        bits[list(ids)] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def ids(self, mask: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The tokens of a mask."""
        words = np.flatnonzero(mask)
        bits = np.unpackbits(mask[words].view(np.uint8).reshape(len(words), 4), axis=1, bitorder="little")
        word, bit = np.nonzero(bits)
        return words[word] * 32 + bit

    def planned(self, mask: npt.NDArray[np.int32], plan: bytes) -> int | None:
        """The longest allowed token with which ``plan`` begins."""
        for n in range(min(len(plan), self.longest_token), 0, -1):
            token = self.id_of.get(plan[:n])
            if token is not None and mask[token >> 5] >> (token & 31) & 1:
                return token
        return None

    def choose(
        self, matcher: fsmc.GrammarMatcher, mask: npt.NDArray[np.int32], rng: random.Random, in_string: bool, late: bool
    ) -> int:
        """One of the tokens of ``mask``, in which no end token is. in_string: whether the text ends inside a string."""
        kinds, n_ending = (self.inside, _N_INSIDE) if in_string else (self.outside, _N_OUTSIDE)
        found = [i for i, kind in enumerate(kinds) if (mask & kind).any()]
        chance = rng.random()
        if late and chance < 0.85:
            if not found or found[0] >= n_ending:
                token = self._toward_an_end(matcher, mask, rng, kinds, n_ending)
                if token is not None:
                    return token
            if found:
                mask = mask & kinds[found[0]]
        elif found and chance < (0.97 if late else 0.3):  # also when it is late: the way out may lead further in
            mask = mask & kinds[rng.choice(found)]
        return int(rng.choice(self.ids(mask)))

    def _toward_an_end(
        self,
        matcher: fsmc.GrammarMatcher,
        mask: npt.NDArray[np.int32],
        rng: random.Random,
        kinds: list[npt.NDArray[np.int32]],
        n_ending: int,
    ) -> int | None:
        """A token after which one that ends something is allowed, if a few tries find one."""
        following = fsmc.allocate_token_bitmask(1, self.vocabulary.size)
        for candidates in (mask & kinds[-1], mask):
            ids = self.ids(candidates)
            for token in {int(rng.choice(ids)) for _ in range(min(3, len(ids)))}:
                fork = matcher.fork()
                if not fork.accept_token(token):
                    raise Failure(f"allowed token {self.tokens[token]!r} is not accepted")
                fork.fill_next_token_bitmask(following)
                if fork.is_completed() or any((following[0] & kind).any() for kind in kinds[:n_ending]):
                    return token
        return None


_STRING_PARTS = re.compile(rb'\\.|"', re.DOTALL)


def ends_in_string(text: bytes) -> bool:
    r"""Whether a JSON text that was begun ends inside a string.

    >>> ends_in_string(b'{"a'), ends_in_string(b'{"a"'), ends_in_string(b'"a\\"')
    (True, False, True)
    """
    return bool(sum(part == b'"' for part in _STRING_PARTS.findall(text)) % 2)


def walk(
    grammar: fsmc.CompiledGrammar,
    policy: Policy,
    rng: random.Random,
    *,
    hints: list[str] | tuple[str, ...] = (),
    longest: int = 40,
    give_up: int = 1500,
) -> bytes | None:
    """One random generation; past ``longest`` tokens what leads to an end is taken. None if there is none after ``give_up``.

    hints: texts that are tried where a string begins; the tokens are allowed ones all the same.
    """
    matcher = fsmc.GrammarMatcher(grammar)
    mask = fsmc.allocate_token_bitmask(1, grammar.vocab.size)
    text, plan = b"", b""
    for step in range(give_up):
        matcher.fill_next_token_bitmask(mask)
        allowed = mask[0] & policy.not_ends
        going_on = bool(allowed.any())
        may_end = bool((mask[0] & ~policy.not_ends).any())
        if not going_on and not may_end:
            raise Failure(f"dead end after {text!r}")
        if matcher.is_completed() != may_end:
            raise Failure(f"an end token is allowed, or not, against is_completed: {text!r}")
        late = step >= longest
        if may_end and (late or not going_on or rng.random() < 0.2):
            return text
        _refuses_others(matcher, mask[0], policy, rng, text)
        jump = matcher.find_jump_forward_string().encode()
        if jump and rng.random() < 0.5:
            if not matcher.accept_bytes(jump):
                raise Failure(f"forced text {jump!r} is not accepted after {text!r}")
            text, plan = text + jump, b""
            continue
        in_string = ends_in_string(text)
        if not plan and (late or text.endswith((b'"', b" ", b"["))) and rng.random() < (0.3 if late else 0.7):
            plan = _plan(matcher, hints, in_string, rng)
        token = policy.planned(allowed, plan) if plan else None
        plan = plan[len(policy.tokens[token]) :] if token is not None else b""
        if token is None:
            token = policy.choose(matcher, allowed, rng, in_string, late)
        if not matcher.accept_token(token):
            raise Failure(f"allowed token {policy.tokens[token]!r} is not accepted after {text!r}")
        text += policy.tokens[token]
    return None


def _plan(
    matcher: fsmc.GrammarMatcher, hints: list[str] | tuple[str, ...], in_string: bool, rng: random.Random
) -> bytes:
    """The rest of a string, or another scalar, that may stand here."""
    for hint in rng.sample(hints, min(10, len(hints))):
        rest = hint.encode("utf-8", "replace")
        if in_string == hint.startswith('"') and matcher.fork().accept_bytes(rest[in_string:]):
            return rest[in_string:]
    return b""


def _refuses_others(
    matcher: fsmc.GrammarMatcher, mask: npt.NDArray[np.int32], policy: Policy, rng: random.Random, text: bytes
) -> None:
    """Try one token at random that is not allowed."""
    token = rng.randrange(len(policy.tokens))
    if not mask[token >> 5] >> (token & 31) & 1 and matcher.fork().accept_token(token):
        raise Failure(f"token {policy.tokens[token]!r} is accepted though it is not allowed, after {text!r}")


def hints_in(schema: Any) -> list[str]:
    """Scalars of a schema as JSON text: names of properties, all in enumerations, bounds, shortest matches of patterns."""
    found: dict[Any, None] = {}
    level = [schema]
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                for keyword in ("properties", "required", "enum"):
                    if isinstance(value.get(keyword), (dict, list)):
                        found |= dict.fromkeys(part for part in value[keyword] if isinstance(part, (str, int, float)))
                patterns = [value.get("pattern"), *dict(value.get("patternProperties") or ())]
                found |= dict.fromkeys(_shortest_match(p) for p in patterns if isinstance(p, str))
                found |= dict.fromkeys(bound for bound in value.values() if isinstance(bound, (int, float)))
                below += value.values()
            elif isinstance(value, list):
                below += value
        level = below
    return [json.dumps(scalar, ensure_ascii=False) for scalar in found]


def _shortest_match(pattern: str) -> str:
    with contextlib.suppress(FsmcError):
        return (shortest_string(pattern_dfa(pattern)) or b"").decode()
    return ""


def judge(schema: Any, formats: bool = False) -> Callable[[bytes], bool]:
    """text → whether jsonschema finds it valid, under the draft by which fsmc reads the schema."""
    document = SchemaDocument(schema)
    validator = VALIDATORS[document.draft(document.root)]
    checker = validator.FORMAT_CHECKER if formats else None
    oracle = validator(python_patterns(exact(schema)), format_checker=checker)

    def valid(text: bytes) -> bool:
        with decimal.localcontext() as context:
            context.prec = 3000
            return bool(oracle.is_valid(whole(json.loads(text, parse_float=Decimal))))

    return valid


def whole(value: Any) -> Any:
    """Decimals without a fraction as ints, which jsonschema takes for integers."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    if isinstance(value, list):
        return [whole(v) for v in value]
    return {k: whole(v) for k, v in value.items()} if isinstance(value, dict) else value


def schemas(path: str, n: int | None = None, seed: int = 7) -> list[tuple[str, Any]]:
    """(id, schema): a random sample of a MaskBench file; None: all of it, in random order."""
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["id"], row["schema"]) for row in random.Random(seed).sample(rows, len(rows) if n is None else n)]


class _Clock(Exception):
    pass


def walk_schema(
    name: str, schema: Any, compiler: fsmc.GrammarCompiler, policy: Policy, n_walks: int, seconds: int
) -> dict[str, Any]:
    """Walk until ``n_walks`` generations have ended: counts of what became of them, and what failed or stopped it.

    seconds: of processor time, for the schema as a whole.
    """
    counts: collections.Counter[str] = collections.Counter()
    result: dict[str, Any] = {"id": name, "counts": counts, "failures": []}
    rng = random.Random(name)
    doing = "compiling"

    def too_long(*_: object) -> None:
        raise _Clock(doing)

    began = time.process_time()
    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        grammar = compiler.compile_json_schema(schema)
        hints = hints_in(schema)
        valid, strict = judge(schema), judge(schema, formats=True)
        for _ in range(2 * n_walks):
            doing = "walking"
            text = walk(grammar, policy, rng, hints=hints, longest=rng.choice((5, 40, 150)))
            if text is None:
                counts["given up, too long"] += 1
                continue
            doing = "judging"
            try:
                ok = valid(text) or strict(text)  # a format may decide between alternatives
            except (re.error, RecursionError) as error:
                ok = True
                counts[f"not judged: jsonschema raised {type(error).__name__}"] += 1
            counts["ended"] += 1
            if not ok:
                counts["INVALID"] += 1
                result["failures"].append(f"invalid: {text[:2000]!r}")
            if counts["ended"] == n_walks:
                break
    except Failure as failure:
        counts["FAILED"] += 1
        result["failures"].append(str(failure)[:2000])
    except _Clock as clock:
        result["stopped"] = f"after {seconds} s, {clock}"
    except FsmcError as error:
        result["refused" if doing == "compiling" else "refused on the way"] = f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    result["seconds"] = round(time.process_time() - began, 2)
    return result


def report(results: list[dict[str, Any]], order: str) -> bool:
    """Print what became of all walks; whether none failed."""
    counts: collections.Counter[str] = collections.Counter()
    for result in results:
        counts.update(result["counts"])
        if result["counts"].get("ended"):
            counts["schemas walked"] += 1
        for why in ("stopped", "refused", "refused on the way"):
            if why in result:
                counts[f"schemas {why}"] += 1
                print(why.upper(), result["id"], result[why])
        for failure in result["failures"]:
            print("FAILED", result["id"], failure[:400])
    seconds = round(sum(result["seconds"] for result in results))
    print(json.dumps({"order": order, "schemas": len(results), **counts, "cpu_s": seconds}))
    return not counts["FAILED"] + counts["INVALID"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("data")
    parser.add_argument("--schemas", type=int, default=500, help="on which walks end")
    parser.add_argument("--walks", type=int, default=20, help="that end, for each schema")
    parser.add_argument("--order", choices=["schema", "any"], default="schema")
    parser.add_argument("--whitespace", choices=["flexible", "compact", "json"], default="json")
    parser.add_argument("--seconds", type=int, default=60, help="of processor time, for one schema")
    parser.add_argument("--out", type=Path, help="append a line for each schema; skip those that have one")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after these; --out keeps what was done")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    if arguments.out is not None and arguments.out.exists():
        results = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    done = {result["id"] for result in results}
    policy = Policy(fsmc.Vocabulary.from_file(arguments.tokenizer))
    compiler = fsmc.GrammarCompiler(
        policy.vocabulary, cache_dir=None, whitespace=arguments.whitespace, property_order=arguments.order
    )
    began = time.monotonic()
    walked = sum(bool(result["counts"].get("ended")) for result in results)
    for name, schema in schemas(arguments.data):
        if walked >= arguments.schemas or time.monotonic() - began > 60 * arguments.minutes:
            break
        if name in done:
            continue
        result = walk_schema(name, schema, compiler, policy, arguments.walks, arguments.seconds)
        results.append(result)
        walked += bool(result["counts"].get("ended"))
        if arguments.out is not None:
            with arguments.out.open("a") as out:
                out.write(json.dumps(result) + "\n")
    return not report(results, arguments.order)


if __name__ == "__main__":
    sys.exit(main())
