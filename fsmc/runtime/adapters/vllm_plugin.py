"""The entry point in vLLM's group ``vllm.general_plugins``: makes ``{"backend": "fsmc"}`` a structured-outputs backend.

vLLM has no registry of such backends: the name has to be put into its configuration's list, and two methods have to know it. That is
tied to versions. In those that are known here it is done when vLLM loads its plug-ins, in each of its processes; it changes nothing unless
the backend is chosen. In others it is not done, and the log says so; FSMC_VLLM_ANY_VERSION=1 does it all the same.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Any, Literal, get_args

NAME = "fsmc"
KNOWN_VERSIONS = ("0.32", "0.33")

log = logging.getLogger("vllm.plugins.fsmc")


def register() -> None:
    """Make the backend known to vLLM; doing so twice changes nothing."""
    import vllm

    version = ".".join(str(vllm.__version__).split(".")[:2])
    if version not in KNOWN_VERSIONS and not os.environ.get("FSMC_VLLM_ANY_VERSION"):
        log.warning(
            "fsmc knows vLLM %s, and this is %s: its backend is not registered. FSMC_VLLM_ANY_VERSION=1 registers it all the same.",
            " and ".join(KNOWN_VERSIONS),
            vllm.__version__,
        )
        return
    from vllm.sampling_params import SamplingParams
    from vllm.v1.structured_output import StructuredOutputManager

    if getattr(SamplingParams._validate_structured_outputs, "of_fsmc", False):
        return
    _allow_the_name()
    _wrap(SamplingParams, "_validate_structured_outputs", _validating)
    _wrap(StructuredOutputManager, "__init__", _starting)


def _allow_the_name() -> None:
    """Add the name to those that the configuration takes, and to those that may be told about white space and members."""
    from pydantic.dataclasses import rebuild_dataclass
    from vllm.config import VllmConfig
    from vllm.config import structured_outputs as module

    config = module.StructuredOutputsConfig
    choices = (*get_args(module.StructuredOutputsBackend), NAME)
    names = Literal[choices]  # type: ignore[valid-type]
    module.StructuredOutputsBackend = names
    config.__annotations__["backend"] = names
    config.__dataclass_fields__["backend"].type = names
    config.__pydantic_fields__["backend"].annotation = names
    check = config._validate_structured_output_config

    def checked(self: Any) -> Any:
        return self if self.backend == NAME else check(self)

    decorator = config.__pydantic_decorators__.model_validators["_validate_structured_output_config"]
    decorator.func = checked
    rebuild_dataclass(config, force=True)
    rebuild_dataclass(VllmConfig, force=True)  # it holds a copy of the other's checks


def _wrap(owner: type, name: str, wrapper: Any) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    wrapped.of_fsmc = True  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)


def _validating(
    original: Any, self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any, *rest: Any, **more: Any
) -> None:
    """In the front end: what vLLM checks of a request under any backend, and then what fsmc would refuse."""
    asked = self.structured_outputs
    if asked is None or getattr(structured_outputs_config, "backend", None) != NAME:
        original(self, model_config, structured_outputs_config, tokenizer, *rest, **more)
        return
    from vllm.exceptions import VLLMValidationError

    from fsmc.compiler.errors import FsmcError
    from fsmc.runtime.adapters.vllm import validate

    if tokenizer is None:
        raise VLLMValidationError("structured outputs need a tokenizer: they do not go with skip_tokenizer_init")
    if getattr(model_config, "is_diffusion", False):
        raise VLLMValidationError("structured outputs do not go with diffusion language models")
    if asked._backend not in (None, NAME):
        raise VLLMValidationError(
            f"this engine runs with the backend {NAME!r}, and the request names {asked._backend!r}"
        )
    try:
        validate(asked, _manager(tokenizer, model_config.get_vocab_size()))
    except (FsmcError, TypeError, ValueError) as error:
        raise VLLMValidationError(str(error)) from error
    asked._backend = NAME


def _starting(original: Any, self: Any, vllm_config: Any, *rest: Any, **more: Any) -> None:
    """In the engine, as it starts: make the backend, so that no request waits for a tokenizer to be read or kernels to be compiled."""
    original(self, vllm_config, *rest, **more)
    if vllm_config.structured_outputs_config.backend == NAME and not vllm_config.model_config.skip_tokenizer_init:
        from fsmc.runtime.adapters.vllm import FsmcBackend

        size = vllm_config.model_config.get_vocab_size()
        self.backend = FsmcBackend(vllm_config, tokenizer=self.tokenizer, vocab_size=size)
        self.backend_name = NAME


_managers: list[tuple[Any, int, Any]] = []
"""(tokenizer, vocabulary size, manager) of the front end; a process has one or two tokenizers."""


def _manager(tokenizer: Any, vocab_size: int) -> Any:
    for known, size, manager in _managers:
        if known is tokenizer and size == vocab_size:
            return manager
    from fsmc.runtime.adapters.serving import engine_manager

    manager = engine_manager(tokenizer, vocab_size, None)
    _managers.append((tokenizer, vocab_size, manager))
    del _managers[:-4]
    return manager
