"""Where fsmc keeps what it may compute again: one folder per user, or the one that FSMC_CACHE_DIR names."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def default_cache_dir() -> Path:
    """The folder for cached files: ``FSMC_CACHE_DIR`` if set and not empty, else the platform's user cache folder.

    The folder need not exist; who writes creates it, and must go on without where that fails.

    >>> default_cache_dir().is_absolute()
    True
    """
    chosen = os.environ.get("FSMC_CACHE_DIR")
    return Path(chosen).expanduser().absolute() if chosen else Path(platformdirs.user_cache_dir("fsmc"))
