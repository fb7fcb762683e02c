"""The Python on the pages runs, with a toy model in the place of a real one."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fsmc
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.regex import parse_regex

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets(page: Path) -> list[str]:
    """The blocks of Python that are no session at a prompt: those are doctests."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [block for block in blocks if ">>> " not in block]


def given(toy: Any) -> dict[str, Any]:
    """What the snippets speak of without making it."""
    compiler = fsmc.GrammarCompiler(toy.vocab, cache_dir=None, whitespace="json")
    narrow, wide = compiler.compile_regex("[0-9]{1,6}"), compiler.compile_regex("[0-9]*")
    matcher = fsmc.GrammarMatcher(narrow)
    number = toy.tokenizer.encode("7")[-1]

    def choose(mask: Any) -> int:
        return int(np.flatnonzero(np.unpackbits(np.asarray(mask[0]).view(np.uint8), bitorder="little"))[-1])

    return {
        "fsmc": fsmc,
        "model": toy.model,
        "tokenizer": toy.tokenizer,
        "vocab": toy.vocab,
        "inputs": toy.tokenizer("A form: ", return_tensors="pt", return_token_type_ids=False),
        "prompt": "A form: ",
        "prompts": ["A form: ", "Another: "],
        "other": "The fox ",
        "schema": SCHEMA,
        "schema_a": SCHEMA,
        "schema_b": {"enum": [1, 2]},
        "schemas": [SCHEMA, {"enum": [1, 2]}],
        "work": [("A form: ", SCHEMA), ("Another: ", {"enum": [1, 2]})],
        "request": {"response_format": {"type": "json_schema", "json_schema": {"name": "ok", "schema": SCHEMA}}},
        "tools": TOOLS,
        "compiler": compiler,
        "pattern": "[0-9]{1,6}",
        **{stage.__name__: stage for stage in (parse_regex, thompson, determinize, minimize)},
        "grammar": narrow,
        "narrow": narrow,
        "wide": wide,
        "matcher": matcher,
        "matchers": [fsmc.GrammarMatcher(wide), fsmc.GrammarMatcher(narrow)],
        "mask": fsmc.allocate_token_bitmask(1, toy.vocab.size),
        "batch_size": 2,
        "logits": np.zeros((2, toy.vocab.size), np.float32),
        "token_id": number,
        "draft": [number],
        "left": 9,
        "choose": choose,
    }


PYTHON = [page for page in PAGES if snippets(page)]


@pytest.mark.parametrize("page", PYTHON, ids=name)
def test_python_runs(page: Path, tmp_path, monkeypatch, request) -> None:
    """Each block by itself, after what the blocks before it on the page have made."""
    torch = pytest.importorskip("torch", reason="the toy model needs torch")
    pytest.importorskip("transformers", reason="the toy model needs transformers")
    from fsmc.runtime import models
    from fsmc.runtime.toy_model import toy_model

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # beside other work, several threads wait for each other
    request.addfinalizer(lambda: torch.set_num_threads(threads))
    toy = toy_model(n_layers=1, hidden_size=32)
    toy.model.generation_config.max_new_tokens = 24  # words without meaning end nowhere
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "load_model", lambda *_, **__: toy)
    small_caches(monkeypatch)
    toy.tokenizer.save_pretrained("path/to")
    names = given(toy)
    for block in snippets(page):
        if "llama_cpp" in block:
            names |= llama_cpp()
        if name(page) == "README.md":  # each of its blocks is for a different reader
            names = given(toy) | {key: names[key] for key in ("grammar",) if "manager" not in block}
        if "max_tokens=left" in block:
            names["mask"] = fsmc.allocate_token_bitmask(names.get("batch_size", 1), toy.vocab.size)
        exec(compile(block, str(page), "exec"), names)


def small_caches(monkeypatch) -> None:
    """Continuous batching takes most of the machine's memory unless it is told how much."""
    from transformers import ContinuousBatchingConfig

    import fsmc.hf

    for function in ("ConstrainedBatching", "generate_batch"):
        room = ContinuousBatchingConfig(num_blocks=64, page_size=16, max_batch_tokens=64)
        small = functools.partial(getattr(fsmc.hf, function), continuous_batching_config=room)
        monkeypatch.setattr(fsmc.hf, function, small)


def llama_cpp() -> dict[str, Any]:
    """llama-cpp-python where there is none."""
    from llama_stand_in import StandIn

    return {"llama": StandIn(), "LogitsProcessorList": list}
