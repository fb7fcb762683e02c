"""Machines of formats, kept on disk: the larger ones take 20 to 200 ms to build and 1 to 3 ms to read.

Each is a sealed file of the user's cache folder, believed only by the sources and the Unicode version that wrote it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fsmc.cache_dir import default_cache_dir, digest_of_sources, read_sealed, write_sealed
from fsmc.compiler.automata.dfa import DFA

_MAGIC = b"fsmc format machine 1\n"  # count up when the layout below changes, or the regex compiler is corrected
_MAX_STATES = 1 << 16  # targets are stored in two bytes


def kept_on_disk(name: str, build: Callable[[], DFA]) -> DFA:
    """The machine ``name``: as an earlier process stored it, or built, and then stored."""
    sources = digest_of_sources(Path(__file__).parent, ("format*.py",))
    if sources is None:
        return build()
    path = default_cache_dir() / f"format-{unicodedata.unidata_version}-{name}.bin"
    stored = read_sealed(path, _MAGIC + sources)
    if stored is not None:
        return _unpack(stored)
    dfa = build()
    if dfa.n_states <= _MAX_STATES:
        write_sealed(path, _MAGIC + sources, _pack(dfa))
    return dfa


def _pack(dfa: DFA) -> bytes:
    """Number of states and start (4 bytes each), byte classes, acceptance, and the table in two-byte targets."""
    numbers = np.array([dfa.n_states, dfa.start], "<u4")
    return b"".join(
        part.tobytes() for part in (numbers, dfa.byte_class, dfa.accepting.astype(np.uint8), dfa.delta.astype("<u2"))
    )


def _unpack(data: bytes) -> DFA:
    n_states, start = (int(number) for number in np.frombuffer(data, "<u4", 2))
    byte_class = np.frombuffer(data, np.uint8, 256, 8)
    accepting = np.frombuffer(data, np.uint8, n_states, 264) != 0
    delta = np.frombuffer(data[264 + n_states :], "<u2").reshape(n_states, -1)
    return DFA(byte_class, delta.astype(np.int32), accepting, start)
