"""The lessons in examples/ run, in a fresh interpreter, without network or a real tokenizer, and all but the engine's
without torch."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
AGAIN = "the site shows another output: python docs/lesson_outputs.py"
WITHOUT = "import sys\nfor name in ('torch', 'transformers', 'tokenizers'): sys.modules[name] = None\n"


def test_the_ladder_has_no_missing_rung() -> None:
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, 11))


def notebook(source: str) -> list[tuple[str, str]]:
    """(markdown or code, text) of each cell, as editors and jupytext read the percent format."""
    cells: list[tuple[str, str]] = []
    for part in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        assert head in (" [markdown]", ""), "a cell's first line holds nothing else: notebooks do not show it"
        body = body.strip("\n")
        if head and not body.startswith('"""'):
            assert all(line == "#" or line.startswith("# ") for line in body.split("\n"))
            body = "\n".join(line[2:] for line in body.split("\n"))
        cells.append(("markdown" if head else "code", body.removeprefix('"""').removesuffix('"""') if head else body))
    return cells


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_explains_each_step(path: Path) -> None:
    """What is explained stands in Markdown cells, one before each cell of code, and no sentence begins in a comment of code."""
    cells = notebook(path.read_text(encoding="utf-8"))
    assert cells[0][0] == "markdown" and cells[0][1].startswith("# Lesson ")
    assert cells[-1][0] == "markdown" and cells[-1][1].startswith("## Exercises")
    for (kind, text), (before, explained) in zip(cells[1:], cells, strict=False):
        if kind == "code":
            ast.parse(text)  # in a notebook each cell stands by itself
            assert not text.startswith("#")
            assert before == "markdown" and len(explained) > 20
        else:
            plain = re.sub(r"`[^`]*`|\*[\w ]+\*", "", text)
            assert not re.search(r"[*_<\[\\$|]", plain), "Markdown would read this as something else: mark it as code"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert (ast.get_docstring(ast.parse(source)) or "").startswith(f"# Lesson {int(path.name[:2])}: ")
    without = WITHOUT
    if "toy_model" in source:
        without = ""
        for name in ("torch", "transformers"):
            pytest.importorskip(name, reason=f"the engine needs {name}")
    done = subprocess.run(
        [sys.executable, "-c", f"{without}import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"],
        capture_output=True,
        text=True,
        env={**os.environ, "FSMC_QUIET": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "a lesson shows something"
    assert not done.stderr.strip(), done.stderr
    recorded = json.loads((ROOT / "docs" / "lesson_outputs" / f"{path.stem}.json").read_text(encoding="utf-8"))
    assert len(recorded["cells"]) == len(source.split("\n# %%"))
    printed = "".join(recorded["cells"])
    if "toy_model" in source or recorded["unicode"] != unicodedata.unidata_version:
        # Which requests share a pass depends on the clock, and how many letters there are on the version of Unicode.
        assert len(printed.splitlines()) == len(done.stdout.splitlines()), AGAIN
    else:
        assert printed == done.stdout, AGAIN
