"""The lessons in examples/ run, in a fresh interpreter, without network or a real tokenizer, and all but the engine's
without torch."""

from __future__ import annotations

import ast
import json
import os
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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert "# %%" in source and ast.get_docstring(ast.parse(source)), "a lesson has cells and says what it adds"
    assert source.startswith(f'"""Lesson {int(path.name[:2])}: ')
    for cell in source.split("\n# %%"):
        ast.parse(cell if cell.startswith('"""') else f"# %%{cell}")  # in a notebook each cell stands by itself
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
