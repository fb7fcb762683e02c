"""Vocabularies read from large tokenizer files, kept on disk: 200 ms of reading JSON and decoding pieces become 20.

Each is an index file in the user's cache folder, named by all that it was read from (the file, those beside it, the arguments,
and the code that read them), so that none can be out of date.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.cache_dir import default_cache_dir, digest_of_sources
from fsmc.compiler.errors import IndexFileError
from fsmc.compiler.tokens.loaders import BESIDE
from fsmc.compiler.tokens.store import load_arrays, save_arrays

KIND = "fsmc-vocabulary-1"

SMALLEST = 1 << 20
"""Files below this size (1 MB) are read anew each time: that takes a few milliseconds."""

_READERS = ("*_files.py", "decoders.py", "loaders.py", "token_table.py", "tokenizer_json.py", "vocabulary*.py")

Parts = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], tuple[int, ...], tuple[int, ...], Mapping[int, bytes]]
"""The fields of a `Vocabulary`, in order: token_bytes, token_offsets, eos_token_ids, special_token_ids, special_texts."""


@dataclass(frozen=True)
class VocabularyFile:
    """Where one vocabulary is kept: ``source`` is the digest of what it was read from, "" for one that is not kept.

    >>> VocabularyFile.of(Path("tokenizer.json"), b"{}", None, None, None).load() is None
    True
    """

    source: str

    @classmethod
    def of(
        cls,
        file: Path,
        raw: bytes,
        special_tokens: Mapping[str, int] | None,
        eos_token_ids: list[int] | None,
        vocab_size: int | None,
    ) -> VocabularyFile:
        """That of ``file``, whose content is ``raw``, read with these arguments."""
        code = digest_of_sources(Path(__file__).parent, _READERS) if len(raw) >= SMALLEST else None
        if code is None:
            return cls("")
        special = None if special_tokens is None else list(special_tokens.items())
        digest = hashlib.sha256(code + repr((special, eos_token_ids, vocab_size)).encode("utf-8", "backslashreplace"))
        for name in BESIDE:
            try:
                content = (file.parent / name).read_bytes()
            except OSError as error:
                content = type(error).__name__.encode()
            digest.update(b"%d " % len(content) + content)
        digest.update(raw)
        return cls(digest.hexdigest())

    @property
    def _path(self) -> Path:
        return default_cache_dir() / f"vocabulary-{self.source[:40]}.fsmc"

    def load(self) -> Parts | None:
        """The vocabulary's parts, None where it is not there or damaged."""
        if not self.source:
            return None
        try:
            arrays, metadata = load_arrays(self._path, kind=KIND)
        except IndexFileError:
            return None
        if metadata.get("source") != self.source:
            return None
        names, offsets = arrays["names"].tobytes(), arrays["name_offsets"].tolist()
        texts = {
            token_id: names[begin:end]
            for token_id, begin, end in zip(arrays["named"].tolist(), offsets, offsets[1:], strict=False)
        }
        eos, special = (tuple(arrays[name].tolist()) for name in ("eos", "special"))
        return arrays["token_bytes"], arrays["token_offsets"], eos, special, texts

    def store(
        self,
        token_bytes: npt.NDArray[np.uint8],
        token_offsets: npt.NDArray[np.int64],
        eos: Iterable[int],
        special: Iterable[int],
        texts: Mapping[int, bytes],
    ) -> None:
        """Keep the parts of a vocabulary; failing to is no error."""
        if not self.source:
            return
        arrays: dict[str, npt.NDArray[Any]] = {
            "token_bytes": token_bytes,
            "token_offsets": token_offsets,
            "eos": np.fromiter(eos, np.int64),
            "special": np.fromiter(special, np.int64),
            "named": np.fromiter(texts, np.int64),
            "names": np.frombuffer(b"".join(texts.values()), np.uint8),
            "name_offsets": np.cumsum([0, *map(len, texts.values())], dtype=np.int64),
        }
        with contextlib.suppress(OSError):
            default_cache_dir().mkdir(parents=True, exist_ok=True)
            save_arrays(self._path, arrays, {"kind": KIND, "source": self.source})
