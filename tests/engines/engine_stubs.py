"""Stands in for torchvision, which SGLang imports on the way to its text-only parts; nothing of it is called."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import sglang  # noqa: F401  # before the stub: sglang itself looks whether torchvision is there


class _Stub(ModuleType):
    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


if importlib.util.find_spec("torchvision") is None:
    for _name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional", "torchvision.io"):
        sys.modules[_name] = _Stub(_name)
