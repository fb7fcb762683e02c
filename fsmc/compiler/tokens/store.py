"""Compiled grammars on disk: index files that are read memory-mapped, and the cache that processes share.

An index file is a safetensors file: eight bytes with the length of a JSON header, the header (for each array its dtype,
shape and place, and a map of strings), then the arrays. Nothing in it can be executed, and nothing is ever unpickled.
What is read is checked before it is believed, by a checksum over the arrays, their names and the metadata.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import mmap
import os
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import IndexFileError

Array = npt.NDArray[Any]
_T = TypeVar("_T")

log = logging.getLogger("fsmc")

_DTYPES = {
    "BOOL": "?", "U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_DTYPE_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 1 << 24


def to_bytes(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """The content of an index file: named arrays (bool, integers, float32/64) and strings, with a checksum.

    ``metadata`` must hold a "kind", which the reader has to ask for. Raises ValueError for another dtype.

    >>> content = to_bytes({"row": np.arange(3)}, {"kind": "fsmc-example"})
    >>> arrays, metadata = from_bytes(content, kind="fsmc-example")
    >>> arrays["row"], metadata["kind"]
    (array([0, 1, 2]), 'fsmc-example')
    """
    from safetensors.numpy import save  # reading does without it

    if not metadata.get("kind") or "checksum" in metadata:
        raise ValueError("metadata must have a 'kind', and no 'checksum' yet")
    little = {}
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("<")
        if dtype not in _DTYPE_NAMES:
            raise ValueError(f"array {name!r} of dtype {array.dtype} cannot be stored (only {', '.join(_DTYPES)})")
        little[name] = np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)
    return bytes(save(little, {**metadata, "checksum": _checksum(little, metadata)}))


def from_bytes(data: bytes | mmap.mmap, *, kind: str, where: str = "index") -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays (read-only views of ``data``) and metadata that `to_bytes` packed; ``where`` names it in errors.

    Raises IndexFileError for content that is truncated, damaged, no index at all, or of another kind.
    """
    header, start = _header(data, where)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise IndexFileError(f"{where}: a safetensors file, but not one of fsmc's")
    if metadata.get("kind") != kind:
        raise IndexFileError(f"{where}: this is {metadata.get('kind', 'no fsmc file')!r}, expected {kind!r}")
    arrays: dict[str, Array] = {}
    end = start
    for name, entry in sorted(header.items(), key=lambda item: _place(item[1])):
        try:
            dtype, shape, (begin, stop) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
            count = math.prod(shape)
            if min(shape, default=0) < 0 or start + begin != end or stop - begin != count * dtype.itemsize:
                raise ValueError("its place does not follow the array before it, or its size is not that of its shape")
            if start + stop > len(data):
                raise ValueError(f"truncated: it ends at byte {start + stop} of {len(data)}")
            if end % dtype.itemsize:
                raise ValueError("it is not aligned")
            arrays[name] = np.frombuffer(data, dtype=dtype, count=count, offset=end if count else 0).reshape(shape)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise IndexFileError(f"{where}: array {name[:40]!r} cannot be read ({error})") from None
        end = start + stop
    if end != len(data):
        raise IndexFileError(f"{where}: {len(data) - end} bytes too many")
    if metadata.pop("checksum", None) != _checksum(arrays, metadata):
        raise IndexFileError(f"{where}: damaged (the checksum does not match the content)")
    return arrays, metadata


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write an index file, whole or not at all: to a file beside ``path`` that then takes its place.

    Who has the old file mapped keeps it. Raises OSError where the folder cannot be written, or ``path`` is no
    regular file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_arrays(folder + "/x", {"row": np.arange(3)}, {"kind": "fsmc-example"})
    ...     load_arrays(folder + "/x", kind="fsmc-example")[0]["row"]
    array([0, 1, 2])
    """
    content = to_bytes(arrays, metadata)
    target = Path(path)
    if target.exists() and not target.is_file():  # or the superuser would replace a device by a file
        raise OSError(f"{target}: exists and is not a regular file")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # or a crash could leave the new name with none of the new content
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # name what the caller knows, not the temporary file
            error.filename = os.fspath(target.parent if isinstance(error, FileNotFoundError) else target)
            error.filename2 = None
        raise


def load_arrays(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and metadata of an index file. The arrays are read-only and memory-mapped: loading copies nothing.

    Raises IndexFileError, naming the file, if it is missing, truncated, damaged, no index file, or of another kind.
    """
    where = os.fspath(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):  # to open a pipe would wait for ever
            raise IndexFileError(f"{where}: not a regular file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise IndexFileError(f"{where}: cannot be read ({error.strerror or error})") from None
    return from_bytes(data, kind=kind, where=where)


def _header(data: bytes | mmap.mmap, where: str) -> tuple[dict[str, Any], int]:
    """The JSON header and the place where the arrays start."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if len(data) < _LENGTH_BYTES + 2:
        raise IndexFileError(f"{where}: empty or truncated ({len(data)} bytes)")
    if length > _MAX_HEADER_BYTES:
        raise IndexFileError(f"{where}: not an index file (it does not start like one)")
    start = _LENGTH_BYTES + length
    if start > len(data):
        raise IndexFileError(f"{where}: truncated or not an index file ({len(data)} bytes, header ends at {start})")
    try:
        header = json.loads(data[_LENGTH_BYTES:start])
    except (ValueError, RecursionError):
        raise IndexFileError(f"{where}: not an index file, or its header is damaged (no JSON)") from None
    if not isinstance(header, dict):
        raise IndexFileError(f"{where}: not an index file (its header is no JSON object)")
    return header, start


def _place(entry: Any) -> tuple[int, int]:
    """Where a header entry says that its array lies, for sorting; an entry that is none comes first, and fails there."""
    try:
        begin, stop = entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        return -1, -1
    return (begin, stop) if isinstance(begin, int) and isinstance(stop, int) else (-1, -1)


def _checksum(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    """SHA-256 (1.5 GB/s here, blake2b 0.6) over metadata, names, dtypes, shapes and bytes, whatever the file's layout."""
    digest = hashlib.sha256()
    outline = [[name, arrays[name].dtype.str, list(arrays[name].shape)] for name in sorted(arrays)]
    digest.update(json.dumps([sorted(metadata.items()), outline]).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer
    return "sha256:" + digest.hexdigest()


@dataclass(frozen=True)
class CacheEntry:
    """One cached grammar: its key, what was compiled (cut to a line), its size in bytes and its age in seconds."""

    key: str
    label: str
    size: int
    age: float


class GrammarCache:
    """Key → bytes on disk, shared by any number of processes and threads, bounded in size, safe to lose.

    directory: made when first written. size_limit: bytes; beyond it the entries stored longest ago go.

    An entry that is not what was put under its key (truncated, damaged, another entry's content) is dropped with a
    warning and reads as missing. Where the directory cannot be used (read-only, full, no folder) the cache says so once
    and does nothing from then on. No method raises for anything that happens on the disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = GrammarCache(folder)
    ...     cache.put("key", b"content", label="a*b")
    ...     cache.get("key"), cache.get("other"), cache.entries()[0].label, cache.clear()
    (b'content', None, 'a*b', 1)
    """

    def __init__(self, directory: str | os.PathLike[str], size_limit: int = 1 << 30) -> None:
        self.directory = Path(directory)
        self.size_limit = size_limit
        self._lock = threading.Lock()
        self._cache: Any = None  # diskcache.Cache once it has been needed
        self._disabled = False

    def get(self, key: str) -> bytes | None:
        """The bytes that were put under ``key``, or None."""
        stored = self._attempt(lambda cache: cache.get(key), None)
        if stored is None:
            return None
        data = stored[_SEAL_BYTES:]
        if stored[:_SEAL_BYTES] == _seal(key, data):
            return bytes(data)
        log.warning("%s: damaged cache entry %s… dropped", self.directory, key[:12])
        self._attempt(lambda cache: cache.delete(key), None)
        return None

    def put(self, key: str, data: bytes, label: str = "") -> None:
        """Keep ``data`` under ``key`` in place of what was there; what exceeds ``size_limit`` alone is not kept.

        ``label`` says in `entries` what it is.
        """
        if len(data) + _SEAL_BYTES <= self.size_limit:
            line = " ".join(label[:200].split())
            self._attempt(lambda cache: cache.set(key, _seal(key, data) + data, tag=line), None, create=True)

    def entries(self) -> list[CacheEntry]:
        """What the cache holds, newest first."""
        nothing: list[CacheEntry] = []
        return sorted(self._attempt(_read_entries, nothing), key=lambda entry: entry.age)

    def clear(self) -> int:
        """Remove everything, also files left behind by a process that was killed; how many entries there were."""
        count = self._attempt(lambda cache: int(cache.clear()), 0)
        self._remove_files(".val")
        with contextlib.suppress(OSError):
            for path in self.masks_folder.glob("*.fsmc"):
                path.unlink()
        return count

    @property
    def masks_folder(self) -> Path:
        """Where the masks lie that all schemas share, see shared_masks.py."""
        return self.directory / "masks"

    def close(self) -> None:
        """Let go of the database; the next use opens it again."""
        with self._lock:
            if self._cache is not None:
                self._cache.close()
            self._cache = None

    def _attempt(self, use: Callable[[Any], _T], otherwise: _T, create: bool = False) -> _T:
        """``use(cache)``, or ``otherwise`` where the disk does not allow it; ``create``: make the folder if need be."""
        if self._disabled or (self._cache is None and not create and not self.directory.exists()):
            return otherwise
        from diskcache import Timeout  # type: ignore[import-untyped]  # not every program has a cache

        try:
            try:
                return use(self._opened())
            except (Timeout, OSError):
                raise
            except Exception as error:
                # Damage shows in many ways, not all of them sqlite3.Error: the database also holds diskcache's own
                # settings. A folder emptied under a running process shows as a missing table.
                if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
                    raise  # read-only, full, locked for a minute: not the content's fault
                log.warning("%s: damaged cache database (%s), starting afresh", self.directory, error)
                self.close()
                self._remove_files("cache.db", "cache.db-wal", "cache.db-shm", ".val")
                return use(self._opened())
        except Timeout:  # other processes kept the database locked for seconds: one miss, no more
            log.info("%s: cache busy, not used this time", self.directory)
        except Exception as error:
            log.warning("%s: no disk cache from here on (%s)", self.directory, error)
            self._disabled = True
        return otherwise

    def _opened(self) -> Any:
        from fsmc.compiler.tokens.bytes_disk import open_cache

        with self._lock:
            if self._cache is None:
                self._cache = open_cache(self.directory, self.size_limit)
            return self._cache

    def _remove_files(self, *suffixes: str) -> None:
        for folder, _, names in os.walk(self.directory):  # which passes over folders that others remove meanwhile
            for name in names:
                if name.endswith(suffixes):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(folder, name))


_SEAL_BYTES = hashlib.sha256().digest_size


def _seal(key: str, data: bytes) -> bytes:
    """What precedes an entry on disk: over the key as well, so that another entry's content does not pass."""
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _read_entries(cache: Any) -> list[CacheEntry]:
    """The entries of an open cache, from its keys and the state of their files."""
    entries = []
    for key in list(cache.iterkeys()):
        file, label = cache.get(key, read=True, tag=True)
        if file is not None:
            with file:
                state = os.fstat(file.fileno())
            size, age = max(0, state.st_size - _SEAL_BYTES), max(0.0, time.time() - state.st_mtime)
            entries.append(CacheEntry(str(key), label or "", size, age))
    return entries
