"""Masks of grammars, fsmc beside llguidance and XGrammar, in one run: the eight grammars of the tests, with texts that they derive.

    python benchmarks/grammars.py [--grammars json,sql] [--engines fsmc,llguidance,xgrammar] [--texts 100] [--record]

Each engine compiles each grammar once (in the syntax that it reads) and is then led through the same texts, token by token. First mask: from
the text of the grammar to the first mask. Between masks: the time of one mask, on the way; that of fsmc includes whatever is built and
computed when it is first met. All is CPU time. A text that an engine refuses counts up to there; its lexer may be another (llguidance takes the longest match).
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import ROOT, about_this_run, keep_record, percentile, read_encoder, read_vocabulary, show_table

import fsmc

sys.path.insert(0, str(ROOT / "tests"))
from grammar_examples import EXAMPLES, Example  # they lie with the tests
from grammar_oracles import Derivations

from fsmc.compiler.cfg.recipe import GrammarRecipe

MAX_SECONDS = 5.0
"""CPU seconds for the masks of one grammar; an engine that takes longer is led through fewer texts."""

WARM_UP = Example(
    ebnf='root ::= "(" root* ")" | "\\"" [^"]* "\\"" | word | [0-9]+ ","\nword ::= [a-z]+ ("-" word)? " "',
    lark="",
    accepted=('("a b c é"12,ab-c (12,))', '"text"', "(((12,)))", "(a-b-c word )"),
    rejected=(),
)

Compile = Callable[[Example], Any]
"""From a grammar to something that `start` knows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--grammars", default=",".join(EXAMPLES))
    parser.add_argument("--engines", default="fsmc,llguidance,xgrammar")
    parser.add_argument(
        "--texts", type=int, default=100, help="random derivations of each grammar, beside those of the tests"
    )
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json (default: Llama 3's)")
    parser.add_argument("--record", action="store_true", help="keep the figures in benchmarks/record")
    parser.add_argument("--record-dir", type=Path, help="keep them there")
    arguments = parser.parse_args()
    report = run(arguments.grammars.split(","), arguments.engines.split(","), arguments.texts, arguments.tokenizer)
    show(report)
    if arguments.record or arguments.record_dir:
        keep_record("grammars", report, arguments.record_dir)


def run(names: list[str], engines: list[str], n_texts: int, tokenizer: Path | None) -> dict[str, Any]:
    """All figures, by engine and grammar."""

    tokenizer, vocabulary = read_vocabulary(tokenizer)
    encoder = read_encoder(tokenizer)
    texts = {name: tokens_of(name, n_texts, encoder) for name in names}
    report: dict[str, Any] = {**about_this_run(["llguidance", "xgrammar"]), "engines": {}}
    for engine in engines:
        try:
            face = FACES[engine](vocabulary, tokenizer)
        except ImportError:
            print(f"{engine} is not installed: left out")
            continue
        warm_up = [encoder.encode(text, add_special_tokens=False).ids for text in WARM_UP.accepted]
        measure(face, WARM_UP, warm_up)  # kernels are there, as in a server
        figures = {name: measure(face, EXAMPLES[name], texts[name]) for name in names}
        every = [step for row in figures.values() for step in row.pop("steps")]
        report["engines"][engine] = {
            "grammars": figures,
            "all": {"masks": len(every), **between(every), "texts": sum(row["texts"] for row in figures.values())},
        }
    return report


def tokens_of(name: str, n_texts: int, encoder: Any) -> list[list[int]]:
    """The texts of a grammar as tokens: those of the tests, and random ones, the same in every run."""
    derivations = Derivations(GrammarRecipe(EXAMPLES[name].ebnf).tree, seed=7)
    texts = list(EXAMPLES[name].accepted) + [derivations.text(60).decode() for _ in range(n_texts)]
    return [encoder.encode(text[:2_000], add_special_tokens=False).ids for text in texts]


def measure(face: Any, example: Example, texts: list[list[int]]) -> dict[str, Any]:
    """Compile, then every text as long as ``MAX_SECONDS`` allow; CPU time of the thread, the garbage collector off."""
    gc.collect()
    gc.disable()
    steps: list[float] = []
    accepted = tried = 0
    try:
        began = time.thread_time()
        try:
            grammar = face.compile(example)
        except Exception as error:
            return {"refused": str(error)[:200], "steps": [], "texts": 0}
        face.fill(face.start(grammar))
        first = time.thread_time() - began
        for tokens in texts:
            if sum(steps) > MAX_SECONDS:
                break
            tried += 1
            matcher = face.start(grammar)
            for token in tokens:
                began = time.thread_time()
                face.fill(matcher)
                steps.append(time.thread_time() - began)
                if not face.accept(matcher, token):
                    break
            else:
                accepted += 1
    finally:
        gc.enable()
    return {"first_mask_ms": 1e3 * first, **between(steps), "texts": accepted, "of": tried, "steps": steps}


def between(steps: list[float]) -> dict[str, float]:
    """Microseconds between masks."""
    micro = [1e6 * step for step in steps]
    return {
        "mean_us": sum(micro) / max(len(micro), 1),
        "p50_us": percentile(micro, 50),
        "p99_us": percentile(micro, 99),
        "max_us": max(micro, default=0.0),
    }


def show(report: dict[str, Any]) -> None:
    rows = []
    for engine, figures in report["engines"].items():
        for name, row in [*figures["grammars"].items(), ("all", figures["all"])]:
            if "refused" in row:
                rows.append([f"{engine}: {name}", f"refused: {row['refused'][:40]}", *[None] * 5])
                continue
            texts = f"{row['texts']}" + (f" of {row['of']}" if "of" in row else "")
            rows.append(
                [
                    f"{engine}: {name}",
                    texts,
                    *(row.get(key) for key in ("first_mask_ms", "mean_us", "p50_us", "p99_us", "max_us")),
                ]
            )
    headings = ["", "texts", "first mask, ms", "mean, µs", "p50, µs", "p99, µs", "max, µs"]
    show_table("Masks of grammars", headings, rows)


class FsmcFace:
    def __init__(self, vocabulary: fsmc.Vocabulary, tokenizer: Path) -> None:
        self.compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None)
        self.mask = fsmc.allocate_token_bitmask(1, vocabulary.size)

    def compile(self, example: Example) -> Any:
        return self.compiler.compile_grammar(example.ebnf)

    def start(self, grammar: Any) -> Any:
        return fsmc.GrammarMatcher(grammar)

    def fill(self, matcher: Any) -> None:
        matcher.fill_next_token_bitmask(self.mask)

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept_token(token))


class LLGuidanceFace:
    def __init__(self, vocabulary: fsmc.Vocabulary, tokenizer: Path) -> None:
        import llguidance
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        self.library, self._fill = llguidance, fill_next_token_bitmask
        self.tokenizer = llguidance.LLTokenizer(str(tokenizer), eos_token=vocabulary.eos_token_ids[0])
        self.mask = allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, example: Example) -> Any:
        from llguidance.gbnf_to_lark import gbnf_to_lark

        matcher = self.library.LLMatcher(self.tokenizer, self.library.grammar_from("lark", gbnf_to_lark(example.ebnf)))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, grammar: Any) -> Any:
        return grammar.deep_copy()

    def fill(self, matcher: Any) -> None:
        self._fill(matcher, self.mask, 0)

    def accept(self, matcher: Any, token: int) -> bool:
        if not int(self.mask[0, token // 32]) >> token % 32 & 1:
            return False
        return bool(matcher.consume_token(token))


class XGrammarFace:
    def __init__(self, vocabulary: fsmc.Vocabulary, tokenizer: Path) -> None:
        import xgrammar

        self.library = xgrammar
        stops = list(vocabulary.eos_token_ids)
        info = xgrammar.TokenizerInfo(vocabulary.tokens, vocab_size=vocabulary.size, stop_token_ids=stops)
        self.mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, example: Example) -> Any:
        return self.compiler.compile_grammar(example.ebnf)

    def start(self, grammar: Any) -> Any:
        return self.library.GrammarMatcher(grammar)

    def fill(self, matcher: Any) -> None:
        matcher.fill_next_token_bitmask(self.mask)

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept_token(token))


FACES: dict[str, Callable[[fsmc.Vocabulary, Path], Any]] = {
    "fsmc": FsmcFace,
    "llguidance": LLGuidanceFace,
    "xgrammar": XGrammarFace,
}

if __name__ == "__main__":
    main()
