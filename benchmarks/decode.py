"""Whole texts by a real model on the CPU: jump-forward on and off in one engine, and transformers with three processors.

    python benchmarks/decode.py [--model smollm2] [--tasks server,form] [--batches 1,8] [--repeats 1] [--record]

Twelve tasks (decode_tasks.py), eight of them heavy with keys. Every way writes each of them greedily: fsmc's engine with
canonical jumps, exact jumps and none, and transformers' `generate` with the logits processors of fsmc, XGrammar and
llguidance (batch 1 only). They take turns within a task. Times are of the whole request, prompt included; CPU seconds are of all
threads of the process. What counts is *canonical tokens of the final text per second*: without jumps a model spells forced
keys in many small tokens, which would count as more work done.

exact jumps must give the text of no jumps. Where a text differs, the figures say how close the two best tokens were at
that place: packed rows round differently from single ones, so that a tie may fall either way.

*mask*: microseconds for each mask, filled (CPU time of the thread that does it) and applied. A row and step has one, and one
more for each token that exact jumps draft. Every grammar is new to each way, so that masks met for the first time are in it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from decode_tasks import TASKS, Task
from maskbench import is_installed
from report import about_this_run, given, keep_record, percentile, show_table

import fsmc

JUMPS = ("canonical", "exact", "off")
PEERS = {"generate + fsmc": "fsmc", "generate + xgrammar": "xgrammar", "generate + llguidance": "llguidance"}
TIE = 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a folder, a .gguf file, 'smollm2', or 'toy'")
    parser.add_argument("--tasks", default="", help=f"some of {', '.join(task.name for task in TASKS)}")
    parser.add_argument("--batches", default="1,8", help="requests at the same time")
    parser.add_argument(
        "--ways",
        default="engine,generate",
        help="parts of their names (canonical, off, xgrammar …); 'engine, off' always runs",
    )
    parser.add_argument("--repeats", type=int, default=1, help="the fastest counts; free texts: three times as many")
    parser.add_argument("--max-new-tokens", type=int, default=300)
    parser.add_argument("--threads", type=int, help="of the model (default: what is fastest now)")
    parser.add_argument("--record", nargs="?", type=Path, const=Path(), help="keep a record (in benchmarks/record)")
    arguments = parser.parse_args()
    loaded = load(arguments.model, arguments.threads)
    chosen = [task for task in TASKS if not arguments.tasks or task.name in arguments.tasks.split(",")]
    ways = Ways(loaded, arguments.max_new_tokens)
    names = [name for name in ways.all if any(part in name for part in arguments.ways.split(","))]
    runs = []
    for batch in map(int, arguments.batches.split(",")):
        for task in chosen:
            runs += measure(ways, names, task, batch, arguments.repeats)
    report = {
        **about_this_run(["torch", "transformers", "xgrammar", "llguidance"]),
        "model": arguments.model,
        "runs": runs,
    }
    report |= {"threads": ways.n_threads, "summary": summary(runs)}
    show(report)
    if arguments.record is not None:
        for run in runs:
            run.pop("mask", None)
        keep_record("decode", report, arguments.record if arguments.record.parts else None)


def load(model: str, threads: int | None) -> Any:
    from fsmc.runtime.models import choose_threads, load_model
    from fsmc.runtime.toy_model import toy_model

    loaded = toy_model() if model == "toy" else given(lambda: load_model(model, threads=threads))
    if threads is None:
        choose_threads(loaded.model)
    return loaded


class Ways:
    """All ways to write a text, by name: each a function (task, batch) → figures, with a grammar of its own."""

    def __init__(self, loaded: Any, max_new_tokens: int) -> None:
        import torch

        self.model, self.tokenizer, self.vocab = loaded
        self.max_new_tokens = max_new_tokens
        self.n_threads = torch.get_num_threads()
        self.passes = 0
        self.model.register_forward_hook(self._count)
        for task in (Task("", "Hm?", regex="[a-c]{1,3}"), Task("", "Hm?", schema={"enum": [1, "a"]})):
            for jump in JUMPS:
                self.engine(task, 1, jump)  # kernels loaded, as they are in a server
        self.all: dict[str, Callable[[Task, int], dict[str, Any]]] = {
            f"engine, {jump}": lambda task, batch, jump=jump: self.engine(task, batch, jump) for jump in JUMPS
        }
        for title, package in PEERS.items():
            if is_installed(package):
                self.all[title] = lambda task, batch, package=package: self.generate(task, package)

    def _count(self, *_: Any) -> None:
        self.passes += 1

    def prompt(self, task: Task) -> list[int]:
        messages = [{"role": "user", "content": task.prompt}]
        whole = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer.encode(whole, add_special_tokens=False))

    def grammar(self, task: Task) -> fsmc.CompiledGrammar:
        compiler = fsmc.GrammarCompiler(self.vocab, whitespace="json", cache_dir=None)
        return compiler.compile_regex(task.regex) if task.regex else compiler.compile_json_schema(task.schema)

    def engine(self, task: Task, batch: int, jump: Any) -> dict[str, Any]:
        from fsmc.runtime.engine import Engine, Step
        from fsmc.runtime.request import Request

        steps: list[Step] = []
        grammar, prompt = self.grammar(task), self.prompt(task)
        engine = Engine(self.model, self.tokenizer, self.vocab, max_batch_size=batch, on_step=steps.append)
        limit = min(task.max_new_tokens, self.max_new_tokens)
        requests = [Request(prompt, grammar, jump=jump, max_new_tokens=limit) for _ in range(batch)]
        responses, figures = self._timed(lambda: engine.run(requests))
        engine.close()
        for response in responses:
            if response.error is not None:
                raise response.error
        return (
            figures
            | self._of_texts([(r.text, r.token_ids) for r in responses])
            | {
                "finished": all(response.finish_reason == "stop" for response in responses),
                "mask": [1e6 * step.mask_seconds / step.n_masks for step in steps if step.n_masks],
                "waiting_seconds": sum(step.waiting_seconds for step in steps),
                "computed": engine.model.n_tokens,
            }
        )

    def generate(self, task: Task, package: str) -> dict[str, Any]:
        import torch

        processor = {"fsmc": self._fsmc, "xgrammar": self._xgrammar, "llguidance": self._llguidance}[package](task)
        prompt = self.prompt(task)
        options = {"max_new_tokens": min(task.max_new_tokens, self.max_new_tokens), "do_sample": False}
        output, figures = self._timed(
            lambda: self.model.generate(torch.tensor([prompt]), logits_processor=[processor], **options)
        )
        ids = output[0, len(prompt) :].tolist()
        finished = ids[-1] in self.vocab.eos_token_ids
        ids = ids[:-1] if finished else ids
        return figures | self._of_texts([(self.tokenizer.decode(ids), ids)]) | {"finished": finished}

    def _timed(self, function: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
        passes, cpu, wall = self.passes, time.process_time(), time.perf_counter()
        result = function()
        seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
        return result, {"passes": self.passes - passes, "seconds": seconds, "cpu_seconds": cpu_seconds}

    def _of_texts(self, texts: list[tuple[str, list[int]]]) -> dict[str, Any]:
        canonical = sum(len(self.tokenizer.encode(text, add_special_tokens=False)) for text, _ in texts)
        return {
            "tokens": sum(len(ids) for _, ids in texts),
            "canonical": canonical,
            "text": texts[0][0],
            "ids": texts[0][1],
        }

    def _fsmc(self, task: Task) -> Any:
        return fsmc.FsmcLogitsProcessor(self.grammar(task))

    def _xgrammar(self, task: Task) -> Any:
        import xgrammar

        stops = list(self.vocab.eos_token_ids)
        info = xgrammar.TokenizerInfo(self.vocab.tokens, vocab_size=self.vocab.size, stop_token_ids=stops)
        compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        if task.regex:
            compiled = compiler.compile_regex(task.regex)
        else:
            compiled = compiler.compile_json_schema(json.dumps(task.schema), any_whitespace=False)
        matcher, mask = xgrammar.GrammarMatcher(compiled), xgrammar.allocate_token_bitmask(1, self.vocab.size)

        def fill() -> Any:
            matcher.fill_next_token_bitmask(mask)
            return mask

        return OneRow(matcher.accept_token, fill)

    def _llguidance(self, task: Task) -> Any:
        import llguidance
        from llguidance.hf import from_tokenizer
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        schema = {"x-guidance": layout, **(task.schema or {})}
        source = {"rx": task.regex} if task.regex else {"json_schema": schema}
        grammar = (
            llguidance.LLMatcher.grammar_from_regex(source["rx"])
            if task.regex
            else llguidance.LLMatcher.grammar_from_json_schema(schema)
        )
        matcher = llguidance.LLMatcher(from_tokenizer(self.tokenizer, self.vocab.size), grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        mask = allocate_token_bitmask(1, self.vocab.size)

        def fill() -> Any:
            fill_next_token_bitmask(matcher, mask, 0)
            return mask

        return OneRow(matcher.consume_token, fill)


class OneRow:
    """A logits processor of one sequence: accepts the token that was chosen, then applies the next mask (with fsmc's kernel)."""

    def __init__(self, accept: Callable[[int], Any], fill: Callable[[], Any]) -> None:
        self.accept, self.fill, self.started = accept, fill, False

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self.started:
            self.accept(int(input_ids[0, -1]))
        self.started = True
        fsmc.apply_token_bitmask_inplace(scores, self.fill())
        return scores


def measure(ways: Ways, names: list[str], task: Task, batch: int, repeats: int) -> list[dict[str, Any]]:
    """Every way once or more, taking turns; of each the fastest. Texts that are free need three times as many turns of the engine's
    ways: their ratios are near 1, nearer than two runs of the same are to each other on many machines."""
    best: dict[str, dict[str, Any]] = {}
    names = [name for name in names if batch == 1 or name.startswith("engine")]
    names += [] if "engine, off" in names else ["engine, off"]
    for turn in range(3 * repeats if task.is_free else repeats):
        mine = names if turn < repeats else [name for name in names if name.startswith("engine")]
        for name in mine[::-1] if turn % 2 else mine:
            figures = ways.all[name](task, batch)
            if name not in best or figures["seconds"] < best[name]["seconds"]:
                best[name] = figures
    off = best["engine, off"]
    rows = []
    for name, figures in best.items():
        per_second = {clock: figures["canonical"] / figures[clock] for clock in ("seconds", "cpu_seconds")}
        base = {clock: off["canonical"] / off[clock] for clock in per_second}
        rows.append(
            {"task": task.name, "free": task.is_free, "batch": batch, "way": name}
            | {key: value for key, value in figures.items() if key != "ids"}
            | {"wall ratio": per_second["seconds"] / base["seconds"]}
            | {"cpu ratio": per_second["cpu_seconds"] / base["cpu_seconds"]}
        )
        if name == "engine, exact":
            same = off["text"] == figures["text"]
            gap = None if same else gap_at_difference(ways, task, off["ids"], figures["ids"])
            rows[-1] |= {"same text as off": same, "gap": gap}
        told = f"{task.name}, batch {batch}, {name}: {figures['passes']} passes, {figures['cpu_seconds']:.2f} s of CPU"
        mask = f", masks {statistics.mean(figures['mask']):.0f} µs each" if figures.get("mask") else ""
        print(f"{told}, × off {rows[-1]['cpu ratio']:.2f}{mask}", file=sys.stderr, flush=True)
    return rows


def gap_at_difference(ways: Ways, task: Task, off: list[int], exact: list[int]) -> float:
    """By how much, in logits of a single row, the better of two tokens wins where two outputs part."""
    import torch

    n = next((i for i, (a, b) in enumerate(zip(off, exact, strict=False)) if a != b), None)
    if n is None:
        return math.inf
    with torch.inference_mode():
        logits = ways.model(torch.tensor([ways.prompt(task) + off[:n]])).logits[0, -1]
    return abs(float(logits[off[n]] - logits[exact[n]]))


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By batch and way: geometric means and worst of the ratios to the engine without jumps, and the figures of masks."""
    found = []
    for batch in sorted({run["batch"] for run in runs}):
        for way in dict.fromkeys(run["way"] for run in runs if run["batch"] == batch):
            entry: dict[str, Any] = {"batch": batch, "way": way}
            mine = [run for run in runs if run["batch"] == batch and run["way"] == way]
            for kind, is_free in (("keys", False), ("free", True)):
                for clock in ("wall", "cpu"):
                    ratios = [run[f"{clock} ratio"] for run in mine if run["free"] == is_free]
                    if ratios:
                        entry[f"{kind}, {clock}"] = statistics.geometric_mean(ratios)
                        entry[f"{kind}, {clock}, least"] = min(ratios)
            masks = [value for run in mine for value in run.get("mask", ())]
            if masks:
                entry |= {"mask mean": statistics.mean(masks), "mask p99": percentile(masks, 99), "steps": len(masks)}
            found.append(entry)
    return found


def show(report: dict[str, Any]) -> None:
    rows = [
        (
            f"{run['task']}{' (free)' if run['free'] else ''}", run["batch"], run["way"], run["tokens"], run["canonical"],
            run["passes"], run["seconds"], run["cpu_seconds"], run["wall ratio"], run["cpu ratio"],
            "" if run["finished"] else "cut off",
        )
        for run in report["runs"]
    ]  # fmt: skip
    headings = ("task", "batch", "way", "tokens", "canonical", "passes", "wall, s", "CPU, s", "× off, wall", "CPU", "")
    threads = f"{report['threads']} thread{'s' if report['threads'] > 1 else ''}"
    show_table(f"{report['model']}, {report['machine']}, {threads}", headings, rows)
    columns = [
        f"{kind}, {clock}{least}" for kind in ("keys", "free") for clock in ("wall", "cpu") for least in ("", ", least")
    ]
    rows = [
        (entry["way"], entry["batch"], *(entry.get(c) for c in columns), entry.get("mask mean"), entry.get("mask p99"))
        for entry in report["summary"]
    ]
    headings = ("", "batch", *columns, "µs a mask", "p99")
    show_table("canonical tokens a second, × the engine without jumps: geometric means and least", headings, rows)
    for run in report["runs"]:
        if run.get("same text as off") is False:
            tie = "a tie" if run["gap"] < TIE else "NOT a tie"
            print(
                f"{run['task']}, batch {run['batch']}: exact parts from off where two tokens are {run['gap']:.2g} apart: {tie}"
            )
    compared = [run for run in report["runs"] if "same text as off" in run]
    same = sum(run["same text as off"] for run in compared)
    print(f"exact gave the text of no jumps in {same} of {len(compared)} runs")


if __name__ == "__main__":
    main()
