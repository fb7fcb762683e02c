"""The shared table of cases, where the checkout has it beside it: every kind that a regex alone can run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fsmc

RUNNER = Path(__file__).resolve().parents[2] / "shared" / "bench" / "cases.py"


@pytest.mark.skipif(not RUNNER.exists(), reason="no ../shared/bench/cases.py beside this checkout")
@pytest.mark.parametrize("kind", ["regex", "utf8", "tokenizer", "jump_forward", "performance/exponential-dfa"])
def test_no_case_differs(kind: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(fsmc.__file__).parents[1])}
    command = [sys.executable, str(RUNNER), "--kind", kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 differ" in done.stdout and not done.stdout.rstrip().endswith("0 right, 0 differ, 0 by hand")
