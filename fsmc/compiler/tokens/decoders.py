"""From the pieces in which tokenizers write their tokens to the bytes that the tokens add to a text.

Two ways of writing are in use. *Byte-level* (GPT-2): each byte of the token is one printable character of a fixed
alphabet of 256. *Text*: the token is text in which a mark, "▁", stands for a space, and bytes that are no characters
have pieces of their own, "<0x0A>". What a whole text's decoder does besides (dropping the space that encoding put in
front of it) happens once, before the first token, and is no part of any token's bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import VocabularyError

SPACE_MARK = "▁"
_HEX_DIGITS = "0123456789abcdefABCDEF"
_NEIGHBOUR_DECODERS = {
    "WordPiece": "puts a space before a token unless it starts with '##', comes first, or is punctuation",
    "BPEDecoder": "turns a token's end mark into a space unless the token comes last",
    "CTC": "drops a token that repeats the one before it",
}
"""Decoders under which a token has no bytes of its own: what it adds depends on its neighbours."""


def byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: character → byte. Printable Latin-1 stands for itself, the other 68 bytes for U+0100 onwards.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", the published encoder.

    >>> alphabet = byte_alphabet()
    >>> len(alphabet), alphabet["A"], alphabet["Ġ"], alphabet["Ċ"]
    (256, 65, 32, 10)
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


@dataclass(frozen=True)
class PieceDecoder:
    """How one tokenizer writes its pieces: byte-level, or text with replacements and perhaps byte pieces.

    >>> PieceDecoder(byte_level=True).decode(["Ġyes", "Ã©"])
    [b' yes', b'\\xc3\\xa9']
    >>> PieceDecoder(replacements=(("▁", " "),), byte_fallback=True).decode(["▁yes", "<0x0A>", "▁▁"])
    [b' yes', b'\\n', b'  ']
    """

    byte_level: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    byte_fallback: bool = False

    def decode(self, pieces: Sequence[str]) -> list[bytes]:
        """The bytes of each piece. Raises UnicodeEncodeError for a piece that is not Unicode (a lone surrogate)."""
        return _decode_byte_level(pieces) if self.byte_level else self._decode_text(pieces)

    def _decode_text(self, pieces: Sequence[str]) -> list[bytes]:
        if not pieces:
            return []
        # One replacement over all pieces at once; FF, which no UTF-8 text contains, keeps them apart.
        joined = b"\xff".join(map(str.encode, pieces))
        for old, new in self.replacements:
            joined = joined.replace(old.encode(), new.encode())
        tokens = joined.split(b"\xff")
        if self.byte_fallback:
            places = {piece: i for i, piece in enumerate(pieces)}
            for high in _HEX_DIGITS:
                for low in _HEX_DIGITS:
                    place = places.get(f"<0x{high}{low}>")
                    if place is not None:
                        tokens[place] = bytes([int(high + low, 16)])
        return tokens


SENTENCEPIECE_DECODER = PieceDecoder(replacements=((SPACE_MARK, " "),), byte_fallback=True)


def piece_decoder(
    decoder: Mapping[str, Any] | None,
    pre_tokenizer: Mapping[str, Any] | None,
    byte_fallback: bool,
    where: str = "tokenizer",
) -> PieceDecoder:
    """The decoder that a tokenizer.json's ``decoder`` entry describes; without one, its pre-tokenizer tells.

    ``byte_fallback`` is the model's own flag: such a model emits "<0x0A>" for a byte whatever its decoder says.
    Raises VocabularyError, naming the decoder, where tokens have no bytes of their own or the decoder is not known.

    >>> piece_decoder({"type": "ByteLevel"}, None, False)
    PieceDecoder(byte_level=True, replacements=(), byte_fallback=False)
    """
    byte_level, fused = False, False
    replacements: list[tuple[str, str]] = []
    steps = list(_steps(decoder, "decoders"))
    if not steps:
        steps = [s for s in _steps(pre_tokenizer, "pretokenizers") if s.get("type") in ("ByteLevel", "Metaspace")]
        if not steps and not byte_fallback:
            raise VocabularyError(f"{where}: it has no decoder, so nothing says how its tokens join to a text")
    for step in steps:
        kind, pattern = step.get("type"), step.get("pattern")
        if kind == "ByteLevel":
            byte_level = True
        elif kind == "Metaspace":
            replacements.append((step.get("replacement", SPACE_MARK), " "))
        elif kind == "Replace" and not fused and isinstance(pattern, Mapping) and "String" in pattern:
            replacements.append((pattern["String"], step.get("content", "")))
        elif kind == "ByteFallback":
            byte_fallback = True
        elif kind == "Fuse":
            fused = True
        elif kind == "Strip" and fused:
            pass  # of the whole text, once: the space that encoding put in front
        elif kind in _NEIGHBOUR_DECODERS:
            raise VocabularyError(
                f"{where}: decoder {kind} {_NEIGHBOUR_DECODERS[kind]}, so its tokens have no bytes of their own; "
                "byte-level BPE and SentencePiece tokenizers are supported"
            )
        else:
            raise VocabularyError(f"{where}: decoder step {dict(step)!r} is not supported (here)")
    if byte_level and (replacements or byte_fallback):
        raise VocabularyError(f"{where}: a decoder that mixes ByteLevel with other replacements is not supported")
    return PieceDecoder(byte_level, tuple(replacements), byte_fallback)


def _steps(part: Mapping[str, Any] | None, inner: str) -> Iterator[Mapping[str, Any]]:
    """The steps of a decoder or pre-tokenizer, sequences unfolded."""
    if part is not None and part.get("type") == "Sequence":
        for step in part.get(inner, ()):
            yield from _steps(step, inner)
    elif part is not None:
        yield part


def _byte_of_code_point() -> npt.NDArray[np.int16]:
    """int16[0x144 + 1]: the byte of each character of the alphabet, −1 for others; the last entry is for all above."""
    table = np.full(256 + 68 + 1, -1, dtype=np.int16)
    for character, byte in byte_alphabet().items():
        table[ord(character)] = byte
    return table


_BYTE_OF_CODE_POINT = _byte_of_code_point()


def _decode_byte_level(pieces: Sequence[str]) -> list[bytes]:
    """All pieces in one table look-up; a piece with a character outside the alphabet is text as it stands."""
    code_points = np.frombuffer("".join(pieces).encode("utf-32-le"), dtype="<u4")
    values = _BYTE_OF_CODE_POINT[np.minimum(code_points, len(_BYTE_OF_CODE_POINT) - 1)]
    data = values.astype(np.uint8).tobytes()
    bounds = np.cumsum([0, *map(len, pieces)])
    ends = bounds.tolist()
    tokens = [data[begin:end] for begin, end in itertools.pairwise(ends)]
    for place in np.unique(np.searchsorted(bounds, np.flatnonzero(values < 0), side="right") - 1).tolist():
        tokens[place] = pieces[place].encode()
    return tokens
