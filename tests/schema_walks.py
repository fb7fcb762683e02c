"""Random generations under schemas, as an engine makes them: masks, tokens, forced text, until the end token.

    python tests/schema_walks.py TOKENIZER.JSON MASKBENCH.JSONL.GZ [--schemas 500] [--walks 20] [--order schema|any]

At every step some token has to be allowed, every allowed token has to be accepted, and what is written in the end has to be
valid by jsonschema. Prints what became of the walks; exits with 1 if one of them failed.
"""

from __future__ import annotations

import argparse
import collections
import decimal
import gzip
import json
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from schema_strategies import VALIDATORS, exact, python_patterns

import fsmc
from fsmc.compiler.errors import FsmcError
from fsmc.compiler.schema.document import SchemaDocument

CLOSING = (re.compile(rb"[]}]+"), re.compile(rb'"[]}]*'))
"""Tokens preferred once the text is long: those that end objects and arrays, or those that end strings (and begin them)."""


class Failure(AssertionError):
    """A dead end, an allowed token that is not accepted, or an invalid instance."""


def closing_tokens(vocabulary: fsmc.Vocabulary) -> np.ndarray:
    """int8[vocab_size]: which of `CLOSING` a token matches, else their number."""
    rank = np.full(vocabulary.size, len(CLOSING), np.int8)
    for i in range(vocabulary.size):
        for kind, pattern in enumerate(CLOSING):
            if pattern.fullmatch(vocabulary.token(i)):
                rank[i] = kind
    return rank


def walk(
    grammar: fsmc.CompiledGrammar, closing: np.ndarray, rng: random.Random, *, longest: int = 40, give_up: int = 400
) -> bytes | None:
    """One random generation; past ``longest`` tokens what closes is preferred. None if it has not ended after ``give_up``."""
    vocabulary = grammar.vocab
    matcher = fsmc.GrammarMatcher(grammar)
    mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
    ends = np.array(vocabulary.eos_token_ids)
    text = b""
    for step in range(give_up):
        matcher.fill_next_token_bitmask(mask)
        allowed = np.flatnonzero(np.unpackbits(mask[0].view(np.uint8), bitorder="little")[: vocabulary.size])
        following = allowed[~np.isin(allowed, ends)]
        if not len(allowed):
            raise Failure(f"dead end after {text!r}")
        if matcher.is_completed() != (len(following) < len(allowed)):
            raise Failure(f"an end token is allowed, or not, against is_completed: {text!r}")
        if matcher.is_completed() and (step >= longest or not len(following) or rng.random() < 0.2):
            return text
        jump = matcher.find_jump_forward_string().encode()
        if jump and rng.random() < 0.5:
            if not matcher.accept_bytes(jump):
                raise Failure(f"forced text {jump!r} is not accepted after {text!r}")
            text += jump
            continue
        if rng.random() < (0.97 if step >= longest else 0.3):
            kind = closing[following]
            kinds = np.unique(kind)
            following = following[kind == rng.choice(kinds[: max(1, np.count_nonzero(kinds < len(CLOSING)))])]
        token = int(rng.choice(following))
        if not matcher.accept_token(token):
            raise Failure(f"allowed token {vocabulary.token(token)!r} is not accepted after {text!r}")
        text += vocabulary.token(token)
    return None


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


def schemas(path: str, n: int, seed: int = 7) -> list[tuple[str, Any]]:
    """(id, schema): a random sample of a MaskBench file."""
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["id"], row["schema"]) for row in random.Random(seed).sample(rows, n)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("data")
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--walks", type=int, default=20)
    parser.add_argument("--order", choices=["schema", "any"], default="schema")
    parser.add_argument("--seconds", type=int, default=30, help="for one schema")
    arguments = parser.parse_args()
    vocabulary = fsmc.Vocabulary.from_file(arguments.tokenizer)
    compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json", property_order=arguments.order)
    closing = closing_tokens(vocabulary)
    counts: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    began = time.perf_counter()

    def too_long(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_long)
    for name, schema in schemas(arguments.data, arguments.schemas):
        rng = random.Random(name)
        signal.alarm(arguments.seconds)
        try:
            grammar = compiler.compile_json_schema(schema)
            counts["schemas walked"] += 1
            valid, strict = judge(schema), judge(schema, formats=True)
            for _ in range(arguments.walks):
                text = walk(grammar, closing, rng)
                if text is None:
                    counts["given up, too long"] += 1
                    continue
                try:
                    ok, also = valid(text), strict(text)
                except (re.error, RecursionError) as error:
                    counts[f"jsonschema raised {type(error).__name__}"] += 1
                    continue
                counts["ended, valid" if ok or also else "ended, INVALID"] += (
                    1  # a format may decide between alternatives
                )
                counts["of these, only without formats as jsonschema checks them"] += ok and not also
                if not ok and not also:
                    print("INVALID", name, text[:300])
        except Failure as failure:
            counts["FAILED"] += 1
            print("FAILED", name, str(failure)[:300])
        except TimeoutError:
            counts["schemas stopped by the clock"] += 1
        except FsmcError as error:
            refused[f"{type(error).__name__}: {str(error)[:100]}"] += 1
        finally:
            signal.alarm(0)
    print(
        json.dumps(
            {"order": arguments.order, **counts, "refused": refused.total(), "s": round(time.perf_counter() - began)}
        )
    )
    for message, n in refused.most_common(20):
        print(n, message)
    return bool(counts["FAILED"] + counts["ended, INVALID"])


if __name__ == "__main__":
    sys.exit(main())
