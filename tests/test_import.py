"""What an import loads, each in a fresh interpreter."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

import fsmc

HEAVY = {"torch", "triton", "transformers", "accelerate", "gguf"}


def loaded_by(statement: str, **environment: str) -> set[str]:
    """Top-level packages in ``sys.modules`` after the statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import fsmc",
        "import fsmc.cli",
        "import fsmc.compiler.pipeline",
        "import fsmc.jumpforward.jump_map",
        "import fsmc.runtime.matcher, fsmc.runtime.bitmask",
        "from fsmc import GrammarCompiler, GrammarMatcher, Vocabulary, apply_token_bitmask_inplace",
    ],
)
def test_no_torch(statement: str) -> None:
    assert not loaded_by(statement) & HEAVY


def test_import_fsmc_loads_no_kernels() -> None:
    assert not loaded_by("import fsmc") & {"numba", "llvmlite", "numpy", "tokenizers"}


def test_importing_the_command_line_loads_no_kernels() -> None:
    """`fsmc --help` and shell completion must answer at once."""
    assert not loaded_by("import fsmc.cli") & {"numba", "llvmlite", "tokenizers"}


def test_everything_public_can_be_imported() -> None:
    """All of it with the extra `hf` installed; without, whatever needs no torch."""
    needs_torch = {"FsmcLogitsProcessor", "generate"}
    have = all(importlib.util.find_spec(package) for package in ("torch", "transformers"))
    names = [name for name in fsmc.__all__ if have or name not in needs_torch]
    loaded_by(f"import fsmc\nfor name in {names}: getattr(fsmc, name)\nassert set(fsmc.__all__) <= set(dir(fsmc))")


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        fsmc.no_such_name  # noqa: B018 - the access is the test


def test_import_survives_a_cache_folder_that_cannot_be_made(tmp_path) -> None:
    """numba raises while decorating when no cache folder can be written; kernels then go without a disk cache."""
    blocker = tmp_path / "file"
    blocker.write_text("a file where a folder would have to be")
    environment = {
        "NUMBA_CACHE_DIR": str(blocker / "numba"),
        "FSMC_CACHE_DIR": str(blocker / "fsmc"),
        "FSMC_QUIET": "1",
    }
    statement = (
        "import fsmc, re\n"
        "vocabulary = fsmc.Vocabulary.from_tokens([b'a', b'b', b''], eos_token_ids=[2])\n"
        "matcher = fsmc.GrammarMatcher(fsmc.GrammarCompiler(vocabulary).compile_regex('ab'))\n"
        "assert matcher.accept_token(0) and not matcher.is_completed()"
    )
    assert "fsmc" in loaded_by(statement, **environment)
