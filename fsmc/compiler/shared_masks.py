"""The masks of what every schema has in common (strings, keys, numbers, literals, white space), made once per vocabulary.

What stays inside these components and where they end does not depend on the schema. It is walked when a vocabulary's
first schema comes, 13 ms for 128,000 tokens and 93 states, and kept in a file beside the grammar cache, which all
processes map.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.errors import IndexFileError
from fsmc.compiler.schema.machine import any_value
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.tokens.lazy_masks import LazyMasks, SharedRow
from fsmc.compiler.tokens.store import load_arrays, save_arrays
from fsmc.compiler.tokens.trie import trie_of
from fsmc.compiler.tokens.vocabulary import Vocabulary

KIND = "fsmc-shared-masks-1"

log = logging.getLogger("fsmc")


def share_masks(vocab: Vocabulary, options: TextOptions, folder: Path | None) -> None:
    """See to it that the masks of the components of any value are there for all grammars of a vocabulary: from ``folder`` (None:
    no files), else made and put there. A file that is damaged, foreign or cannot be written is passed over.

    >>> vocab = Vocabulary.from_tokens([b'"', b"a", b""], eos_token_ids=[2])
    >>> share_masks(vocab, TextOptions(), None)
    """
    machine = any_value(options)
    masks = LazyMasks(machine, trie_of(vocab))
    if masks.knows_shared(_names(machine)):
        return
    path = None if folder is None else folder / f"{_file_name(vocab, machine)}.fsmc"
    if path is not None and path.exists():
        try:
            masks.put_shared(_unpack(load_arrays(path, kind=KIND), _names(machine), vocab))
            return
        except IndexFileError as error:
            log.warning("damaged file of shared masks (%s): made again", error)
    rows = masks.walk_shared()
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            save_arrays(path, *_pack(rows, vocab))


def _names(machine: LazyRSM) -> list[tuple[Any, int]]:
    """(name of the block, place in it) of the states that have such masks, in the order of their numbers."""
    return [key for _, key in LazyMasks.shared_states(machine)]


def _file_name(vocab: Vocabulary, machine: LazyRSM) -> str:
    """Of all that the masks depend on: the vocabulary, and the tables of the machine."""
    tables = machine.tables
    digest = hashlib.sha256(f"{KIND} {vocab.fingerprint} {_names(machine)}".encode())
    for array in (tables.edges, tables.states, tables.class_maps, tables.actions, tables.loops):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:40]


def _pack(
    rows: list[tuple[tuple[Any, int], SharedRow]], vocab: Vocabulary
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """All rows in five arrays. base: 0 for a row that begins with no tokens, 1 for all, 2 for words of its own."""
    trie = trie_of(vocab)
    base = [0 if row.words is trie.no_tokens else 1 if row.words is trie.all_tokens else 2 for _, row in rows]
    own = [row.words for (_, row), kind in zip(rows, base, strict=True) if kind == 2]
    arrays = {
        "base": np.array(base, np.int32),
        "words": np.stack(own) if own else np.zeros((0, len(trie.no_tokens)), np.int32),
        "sizes": np.array([(len(row.ids), len(row.exits)) for _, row in rows], np.int32),
        "ids": np.concatenate([row.ids for _, row in rows]),
        "exits": np.concatenate([row.exits for _, row in rows]),
    }
    names = json.dumps([repr(name) for name, _ in rows])
    return arrays, {"kind": KIND, "vocabulary": vocab.fingerprint, "names": names}


def _unpack(
    stored: tuple[dict[str, npt.NDArray[Any]], dict[str, str]], names: list[tuple[Any, int]], vocab: Vocabulary
) -> list[tuple[tuple[Any, int], SharedRow]]:
    arrays, metadata = stored
    trie = trie_of(vocab)
    if metadata.get("vocabulary") != vocab.fingerprint or metadata.get("names") != json.dumps([*map(repr, names)]):
        raise IndexFileError("it is of another vocabulary or version")
    try:
        base, words, sizes = arrays["base"].tolist(), arrays["words"], arrays["sizes"]
        ids, exits = arrays["ids"], arrays["exits"]
        n_own = base.count(2)
        n_ids, n_exits = sizes.sum(axis=0).tolist()
        shapes = (words.shape, sizes.shape, ids.shape, exits.shape)
        if shapes != ((n_own, len(trie.no_tokens)), (len(names), 2), (n_ids,), (n_exits, 3)):
            raise ValueError("arrays of other sizes")
        if any(array.dtype != np.int32 for array in arrays.values()) or not set(base) <= {0, 1, 2}:
            raise ValueError("arrays of other kinds")
        if sizes.min(initial=0) < 0 or ids.min(initial=0) < 0 or ids.max(initial=0) >= trie.vocab_size:
            raise ValueError("numbers out of range")
        if exits[:, 0].min(initial=0) < 0 or exits[:, 0].max(initial=0) >= trie.n_nodes:
            raise ValueError("nodes out of range")
    except (KeyError, ValueError) as error:
        raise IndexFileError(str(error)) from None
    found, own, place = [], iter(words), np.zeros(2, np.int64)
    for name, kind, size in zip(names, base, sizes, strict=True):
        row_words = next(own) if kind == 2 else (trie.no_tokens, trie.all_tokens)[kind]
        end = place + size
        row = SharedRow(row_words, ids[place[0] : end[0]], exits[place[1] : end[1]])
        found.append((name, row))
        place = end
    return found
