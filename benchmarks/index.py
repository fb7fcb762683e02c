"""Time from a pattern to the masks of all its states, beside outlines-core, on the Llama 3 vocabulary.

    python benchmarks/index.py [TOKENIZER.JSON] [--skip-slow] [--record] [--markdown]

Every repetition compiles afresh: no disk cache, no state kept but what belongs to the process (kernels, the byte
automata of character classes) or to the vocabulary (its trie; its time is printed by itself). outlines-core gets the
same tokens and the same pattern, and starts from its own vocabulary object. Both run on one thread, and what is measured
is CPU time, so that a busy machine does not decide. What a new process pays on top stands below the table: with kernels
on disk, and with nothing on disk.

Both sides' masks are compared in the first state and along random walks, and a third engine judges where they differ.
Where a pattern uses \\w, \\d or \\s the two libraries mean slightly different characters (Python's definition against
Rust's), so there only tokens of plain ASCII text are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import about_this_run, keep_record, read_vocabulary
from rich.console import Console
from rich.table import Table

from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary

HERE = Path(__file__).resolve().parent
FREE = r"[\w\d\s]{1,16}"
PATTERNS: dict[str, str] = {
    "e-mail": r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?",
    "phone": r"\+?\d{1,4}?[-.\s]?\(?\d{1,3}?\)?[-.\s]?\d{1,4}[-.\s]?\d{1,4}[-.\s]?\d{1,9}",
    "date": r"([1-9]|0[1-9]|[12][0-9]|3[01])(\.|-|/)([1-9]|0[1-9]|1[0-2])(\.|-|/)([0-9][0-9]|19[0-9][0-9]|20[0-9][0-9])"
    r"|([0-9][0-9]|19[0-9][0-9]|20[0-9][0-9])(\.|-|/)([1-9]|0[1-9]|1[0-2])(\.|-|/)([1-9]|0[1-9]|[12][0-9]|3[01])",
    "IPv4": r"((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
    "URL": r"(https?:\/\/)?([\da-z\.-]+)\.([a-z\.]{2,6})([\/\w \.-]*)*\/?",
    "SSN": r"\d{3}-\d{2}-\d{4}",
    "JSON string": r'"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"',
    "character profile": r"\{\n"
    rf'  "name": "{FREE}",\n'
    r'  "class": "(wizard|knight|rogue|bard|healer)",\n'
    rf'  "home town": "{FREE}",\n'
    r'  "level": [0-9]{1,2},\n'
    r'  "weapon": \{\n'
    rf'    "kind": "{FREE}",\n'
    rf'    "made of": "{FREE}",\n'
    r'    "weight": [0-9]{1,2}\.[0-9]{0,2}\n'
    r"  \},\n"
    r'  "status": "(alive|missing|deceased)",\n'
    rf'  "secret": "{FREE}"\n'
    r"\}",
}
ALONE: dict[str, str] = {
    ".{0,1000}": r".{0,1000}",
    "(a|b)*a(a|b){14}": r"(a|b)*a(a|b){14}",
    r"\w{0,1000}": r"\w{0,1000}",
}
"""Patterns that outlines-core cannot finish in reasonable time or memory: fsmc by itself."""

SLOW = {"character profile"}
STAGES = ("parse", "nfa", "determinize", "minimize", "masks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", nargs="?", type=Path, help="a Llama 3 tokenizer.json")
    parser.add_argument("--skip-slow", action="store_true", help="leave out outlines-core's minute on the profile")
    parser.add_argument("--repeat", type=int, default=7, help="repetitions of fsmc; the median counts (default 7)")
    parser.add_argument("--record", action="store_true", help="also write benchmarks/record/index-DATE.json")
    parser.add_argument("--markdown", action="store_true", help="print the README's table as well")
    arguments = parser.parse_args()

    tokenizer, vocabulary = read_vocabulary(arguments.tokenizer)
    TokenTrie.build(vocabulary)  # kernels
    trie_seconds = timed(lambda: TokenTrie.build(vocabulary))[0]
    peer = outlines_core_vocabulary(vocabulary)
    whole_index(PATTERNS["e-mail"], vocabulary)  # kernels, and the trie that all later runs share

    rows = []
    for name, pattern in {**PATTERNS, **ALONE}.items():
        row = measure(name, pattern, vocabulary, arguments.repeat)
        if peer and name in PATTERNS and not (name in SLOW and arguments.skip_slow):
            compare(row, pattern, vocabulary, peer)
        print_progress(row)
        rows.append(row)
    cold = {title: cold_start(tokenizer, fresh_kernels=fresh) for title, fresh in COLD_STARTS}
    report = {
        **about_this_run(["outlines-core"] if peer else []),
        "vocabulary": {"size": vocabulary.size, "trie_seconds": trie_seconds},
        "patterns": rows,
        "cold": cold,
    }
    show(report)
    if arguments.markdown:
        print(markdown(report))
    if arguments.record:
        keep_record("index", report)


def whole_index(pattern: str, vocabulary: Vocabulary) -> tuple[float, dict[str, float], CompiledGrammar]:
    """Compile and index as a user would: (seconds in all, seconds of each stage, the grammar with its index)."""
    began = time.process_time()
    grammar = GrammarCompiler(vocabulary, cache_dir=None).compile_regex(pattern)
    compiled = time.process_time()
    grammar.build_index()
    done = time.process_time()
    return done - began, {**grammar.stats.seconds, "masks": done - compiled}, grammar


def measure(name: str, pattern: str, vocabulary: Vocabulary, repeat: int) -> dict[str, Any]:
    whole_index(pattern, vocabulary)  # the byte automata of this pattern's classes
    runs = [whole_index(pattern, vocabulary) for _ in range(repeat)]
    grammar = runs[0][2]
    index = grammar.build_index()
    return {
        "name": name,
        "seconds": statistics.median(seconds for seconds, *_ in runs),
        "stages": {stage: min(stages[stage] for _, stages, _ in runs) for stage in STAGES},
        "states": grammar.stats.states,
        "raw_states": grammar.stats.raw_states,
        "rows": index.n_rows,
        "mask_bytes": index.nbytes,
    }


def outlines_core_vocabulary(vocabulary: Vocabulary) -> Any:
    """The same tokens in outlines-core's own object, or None where it is not installed."""
    try:
        import outlines_core
    except ImportError:
        print("outlines-core is not installed (pip install '.[bench]'): fsmc alone", file=sys.stderr)
        return None
    tokens: dict[bytes, list[int]] = {}
    for token in range(vocabulary.size):
        text = vocabulary.token(token)
        if text:
            tokens.setdefault(text, []).append(token)
    return outlines_core.Vocabulary(vocabulary.eos_token_ids[0], tokens)


def compare(row: dict[str, Any], pattern: str, vocabulary: Vocabulary, peer: Any) -> None:
    """Time outlines-core and compare masks: adds its seconds, the ratio and what was compared to the row."""
    import outlines_core

    seconds, theirs = timed(lambda: outlines_core.Index(pattern, peer))
    if seconds < 2:
        seconds = statistics.median(
            [seconds, *(timed(lambda: outlines_core.Index(pattern, peer))[0] for _ in range(2))]
        )
    grammar = whole_index(pattern, vocabulary)[2]
    row["outlines_core_seconds"] = seconds
    row["ratio"] = seconds / row["seconds"]
    row["masks_compared"] = walk_both(pattern, grammar, theirs)


def walk_both(pattern: str, grammar: CompiledGrammar, theirs: Any) -> dict[str, int]:
    """Random walks through both machines at once: mask rows compared, tokens that one side only allows, who is right.

    A third engine judges the first tokens of each difference: the module ``regex`` (which transformers needs) knows
    whether a text can still become a match. outlines-core's search stops at the first alternative that matches, so that
    it misses texts: ``1.1.1999`` where the pattern offers two digits before four.
    """
    import regex

    dfa, index, vocabulary = grammar.dfa, grammar.build_index(), grammar.vocab
    assert dfa is not None
    judge = regex.compile(pattern)
    ascii_only = any(escape in pattern for escape in (r"\w", r"\d", r"\s"))
    plain = {
        token
        for token, text in enumerate(vocabulary.tokens)
        if text and all(9 <= byte <= 13 or 32 <= byte < 127 for byte in text)
    }
    rng = random.Random(0)
    found = {"rows": 0, "differ": 0, "judged_for_fsmc": 0, "judged_for_outlines_core": 0}
    for _walk in range(20):
        text, ours, other = b"", dfa.start, theirs.get_initial_state()
        for _step in range(12):
            eos = set(vocabulary.eos_token_ids)
            mine = set(map(int, index.allowed_token_ids(ours))) - eos
            peers = set(theirs.get_allowed_tokens(other) or ()) - eos
            if ascii_only:
                mine, peers = mine & plain, peers & plain
            found["rows"] += 1
            found["differ"] += len(mine ^ peers)
            for token in sorted((mine ^ peers) & plain)[:MAX_JUDGED]:
                longer = (text + vocabulary.token(token)).decode()
                possible = judge.fullmatch(longer, partial=True) is not None
                found["judged_for_fsmc" if possible == (token in mine) else "judged_for_outlines_core"] += 1
            if not mine & peers:
                break
            token = rng.choice(sorted(mine & peers))
            text += vocabulary.token(token)
            ours, other = dfa.run(vocabulary.token(token), ours), theirs.get_next_state(other, token)
    return found


MAX_JUDGED = 20


COLD_STARTS = (("kernels on disk", False), ("nothing on disk", True))


def cold_start(tokenizer: Path, fresh_kernels: bool) -> dict[str, Any]:
    """What a new process pays, from `benchmarks/cold_start.py`."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FSMC_CACHE_DIR": folder, "FSMC_QUIET": "1"}
        if fresh_kernels:
            environment["NUMBA_CACHE_DIR"] = str(Path(folder) / "numba")
        command = [sys.executable, str(HERE / "cold_start.py"), str(tokenizer)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def show(report: dict[str, Any]) -> None:
    console = Console(width=150)
    console.print(
        f"\n{report['machine']}; vocabulary of {report['vocabulary']['size']:,} ids, ", end="", highlight=False
    )
    console.print(f"its trie built in {report['vocabulary']['trie_seconds'] * 1e3:.1f} ms", highlight=False)
    table = Table(title="pattern to whole index, CPU milliseconds, kernels loaded (stages: best run, totals: median)")
    table.add_column("pattern")
    for heading in (*STAGES, "fsmc", "outlines-core", "ratio", "raw", "states", "rows", "MB"):
        table.add_column(heading, justify="right")
    for row in report["patterns"]:
        measured = "outlines_core_seconds" in row
        table.add_row(
            row["name"],
            *(f"{row['stages'][stage] * 1e3:.1f}" for stage in STAGES),
            f"[bold]{row['seconds'] * 1e3:.1f}[/]",
            f"{row['outlines_core_seconds'] * 1e3:,.0f}" if measured else "–",
            f"[bold]{row['ratio']:,.0f}×[/]" if measured else "–",
            f"{row['raw_states']:,}",
            f"{row['states']:,}",
            f"{row['rows']:,}",
            f"{row['mask_bytes'] / 1e6:.2f}",
        )
    console.print(table)
    for row in report["patterns"]:
        if "masks_compared" in row:
            console.print(f"masks of {row['name']}: {comparison(row['masks_compared'])}", highlight=False)
    table = Table(title="what a new process pays, CPU seconds")
    for heading in ("", *next(iter(report["cold"].values()))):
        table.add_column(heading)
    for title, figures in report["cold"].items():
        table.add_row(
            title, *(f"{value:.2f}" if isinstance(value, float) else str(value) for value in figures.values())
        )
    console.print(table)


def markdown(report: dict[str, Any]) -> str:
    """The table of the README."""
    lines = ["| pattern | outlines-core, ms | fsmc, ms | times faster | states | distinct masks | MB of masks |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for row in report["patterns"]:
        measured = "outlines_core_seconds" in row
        cells = (
            f"`{row['name']}`".replace("|", "\\|") if row["name"] in ALONE else row["name"],
            f"{row['outlines_core_seconds'] * 1e3:,.0f}" if measured else "–",
            f"{row['seconds'] * 1e3:,.1f}",
            f"{row['ratio']:,.0f}" if measured else "–",
            f"{row['states']:,}",
            f"{row['rows']:,}",
            f"{row['mask_bytes'] / 1e6:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def comparison(found: dict[str, int]) -> str:
    """
    >>> comparison({"rows": 9, "differ": 0, "judged_for_fsmc": 0, "judged_for_outlines_core": 0})
    '9 rows equal'
    """
    if not found["differ"]:
        return f"{found['rows']} rows equal"
    judged = found["judged_for_fsmc"] + found["judged_for_outlines_core"]
    return (
        f"{found['rows']} rows, {found['differ']:,} bits differ; fsmc right in {found['judged_for_fsmc']} of {judged}"
    )


def print_progress(row: dict[str, Any]) -> None:
    ratio = f", {row['ratio']:,.0f} times faster than outlines-core" if "ratio" in row else ""
    print(f"{row['name']}: {row['seconds'] * 1e3:.1f} ms{ratio}", file=sys.stderr)


def timed(function: Any) -> tuple[float, Any]:
    before = time.process_time()
    result = function()
    return time.process_time() - before, result


if __name__ == "__main__":
    main()
