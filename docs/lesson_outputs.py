"""What the lessons print, cell by cell, in docs/lesson_outputs: `python docs/lesson_outputs.py` writes it anew; a test says when it must.

The site shows it below each cell, so that the course can be read there without being run.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "lesson_outputs"


def lessons() -> list[Path]:
    """The scripts, in order."""
    return sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))


def cells(source: str) -> list[str]:
    """The parts that begin with ``# %%``; the first is the docstring. Those of text, ``# %% [markdown]``, print nothing."""
    first, *others = source.split("\n# %%")
    return [first, *(f"# %%{cell}" for cell in others)]


def run(path: Path) -> list[str]:
    """What each cell prints, run one after the other as a notebook runs them."""
    names = {"__name__": "__main__", "__file__": str(path)}
    printed = []
    for cell in cells(path.read_text(encoding="utf-8")):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(cell, str(path), "exec"), names)
        printed.append(out.getvalue())
    return printed


def main() -> None:
    """Record all lessons, or those whose names are given."""
    FOLDER.mkdir(exist_ok=True)
    for path in lessons():
        if len(sys.argv) == 1 or path.stem in sys.argv[1:]:
            document = {"unicode": unicodedata.unidata_version, "cells": run(path)}
            text = json.dumps(document, ensure_ascii=False, indent=1)
            (FOLDER / f"{path.stem}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
