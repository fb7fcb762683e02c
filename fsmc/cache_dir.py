"""Where fsmc keeps what it may compute again: one folder per user, or the one that FSMC_CACHE_DIR names.

A *sealed* file there is only a shortcut: it carries a checksum, and where it is missing, damaged or cannot be written,
what it holds is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from functools import cache
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


def read_sealed(path: Path, magic: bytes) -> bytes | None:
    """What `write_sealed` wrote to ``path`` with the same ``magic``; None for anything else that may be there.

    >>> read_sealed(Path("no such file"), b"numbers 1\\n") is None
    True
    """
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(magic) + hashlib.sha256().digest_size
    payload = data[start:]
    return payload if data[:start] == magic + _checksum(path, payload) else None


def write_sealed(path: Path, magic: bytes, payload: bytes) -> None:
    """Write a file with its checksum, whole or not at all; failing to is no error. ``magic`` says what the payload is.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sealed(Path(folder, "x"), b"numbers 1\\n", b"123")
    ...     read_sealed(Path(folder, "x"), b"numbers 1\\n"), read_sealed(Path(folder, "x"), b"numbers 2\\n")
    (b'123', None)
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "wb") as file:
            file.write(magic + _checksum(path, payload) + payload)
        os.replace(temporary, path)  # atomic: who reads meanwhile sees the old file or the new one, never a half
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


@cache
def digest_of_sources(folder: Path, patterns: Iterable[str]) -> bytes | None:
    """SHA-256 of the modules in ``folder`` whose names match one of ``patterns`` (a tuple): what they made on disk is believed only
    by the same code. None where there is no source to be read; 0.3 ms, once.

    >>> len(digest_of_sources(Path(__file__).parent, ("cache_dir.py",)))
    32
    """
    digest = hashlib.sha256()
    try:
        for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
            source = path.read_bytes()
            digest.update(b"%s %d\n" % (path.name.encode(), len(source)) + source)
    except OSError:
        return None
    return digest.digest()


def _checksum(path: Path, payload: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + payload).digest()  # with the name: no file can stand in for another
