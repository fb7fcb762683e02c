"""How the grammar cache lays out its entries: a file of plain bytes each, named by the cache's database.

diskcache pickles what is not bytes, text or a number, and unpickles what its database says is a pickle: whoever can
write to a cache folder could run code. This layout refuses both, and touches only files that it has named itself.
"""

from __future__ import annotations

import io
import logging
import os
import re
from typing import Any

import diskcache  # type: ignore[import-untyped]  # it has no types

log = logging.getLogger("fsmc")

_BINARY_MODE = 2  # diskcache's number for "bytes in a file"; it has no public name
_OWN_FILE = re.compile(r"[0-9a-f]{2}[/\\][0-9a-f]{2}[/\\][0-9a-f]{28}\.val")


class BytesDisk(diskcache.Disk):  # type: ignore[misc]  # so its base is Any
    """Keys are text, values are bytes in files. Anything else in the database reads as missing."""

    def get(self, key: Any, raw: bool) -> Any:
        """A key as the database holds it; one that claims to be a pickle stays bytes."""
        return super().get(key, True)

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, str, None]:
        """Write a value to a new file: (size, mode, file name, nothing for the database itself)."""
        if type(value) is not bytes:
            raise TypeError(f"only bytes are cached, not {type(value).__name__}")
        name, path = self.filename(key, value)
        try:
            self._write(path, io.BytesIO(value), "xb")
        except OSError:
            self.remove(name)  # a full disk should not also keep half of what did not fit
            raise
        return len(value), _BINARY_MODE, name, None

    def fetch(self, mode: int, filename: Any, value: Any, read: bool) -> Any:
        """The bytes of a file, or the open file. OSError, which diskcache takes for a missing entry, for all else."""
        if mode != _BINARY_MODE or not self._is_own(filename):
            log.warning("%s: damaged cache entry (it is not a file of bytes)", self._directory)
            raise OSError("not a cache entry of fsmc")
        return super().fetch(mode, filename, value, read)

    def remove(self, file_path: Any) -> None:
        """Delete an entry's file; a path that leads elsewhere is left alone."""
        if self._is_own(file_path):
            super().remove(file_path)

    @staticmethod
    def _is_own(name: Any) -> bool:
        return isinstance(name, str) and _OWN_FILE.fullmatch(name) is not None


def open_cache(directory: str | os.PathLike[str], size_limit: int) -> Any:
    """The diskcache.Cache in ``directory``, made if need be. Raises OSError or sqlite3.Error where that fails.

    Entries go in the order in which they were stored: to go by their use, every read would have to write.
    """
    return diskcache.Cache(
        os.fspath(directory), disk=BytesDisk, size_limit=size_limit, eviction_policy="least-recently-stored", timeout=10
    )
