"""SentencePiece .model files, read with sixty lines of protobuf instead of a dependency.

The format is ``ModelProto`` of sentencepiece_model.proto: field 1, repeated, is a piece {1: text, 2: score, 3: type};
field 2 is the trainer's specification, in which field 35 says whether bytes have pieces and 40 to 43 are the ids of
unknown, beginning of text, end of text and padding.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsmc.compiler.errors import VocabularyError
from fsmc.compiler.tokens.decoders import SENTENCEPIECE_DECODER
from fsmc.compiler.tokens.token_table import TokenTable

_PIECES, _TRAINER, _PIECE_TEXT, _PIECE_TYPE, _TRAINER_EOS_ID = 1, 2, 1, 3, 42
_UNKNOWN_PIECE, _CONTROL_PIECE = 2, 3
_DEFAULT_EOS_ID = 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_sentencepiece(raw: bytes, where: str) -> TokenTable:
    """The tokens of a SentencePiece model: "▁" is a space, byte pieces are bytes, control and unknown are special.

    Raises VocabularyError for what is no such model or breaks off.
    """
    pieces: list[str] = []
    special: set[int] = set()
    eos = _DEFAULT_EOS_ID
    try:
        for field, value in _fields(raw):
            if field == _PIECES and isinstance(value, bytes):
                text, kind = "", 1
                for name, content in _fields(value):
                    if name == _PIECE_TEXT and isinstance(content, bytes):
                        text = content.decode()
                    elif name == _PIECE_TYPE and isinstance(content, int):
                        kind = content
                if kind in (_UNKNOWN_PIECE, _CONTROL_PIECE):
                    special.add(len(pieces))
                pieces.append(text)
            elif field == _TRAINER and isinstance(value, bytes):
                eos = next((v for k, v in _fields(value) if k == _TRAINER_EOS_ID and isinstance(v, int)), eos)
    except (IndexError, ValueError) as error:
        raise VocabularyError(f"{where}: not a SentencePiece model, or a truncated one ({error})") from None
    if not pieces:
        raise VocabularyError(f"{where}: not a SentencePiece model (it has no pieces)")
    table = TokenTable(SENTENCEPIECE_DECODER.decode(pieces), special)
    table.names = {piece: token_id for token_id, piece in enumerate(pieces)}
    if eos in special:  # absent where the model was trained without an end of text (−1), and never an ordinary piece
        table.eos = {eos}
    return table


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one protobuf message in order: (number, integer or bytes); fixed-width ones are left out."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(message, at)
            yield number, value
        elif wire_type == _BYTES:
            length, at = _varint(message, at)
            if length > end - at:
                raise ValueError(f"field {number} needs {length} bytes, {end - at} are left")
            yield number, message[at : at + length]
            at += length
        elif wire_type in (_FIXED32, _FIXED64):
            at += 4 if wire_type == _FIXED32 else 8
            if at > end:
                raise ValueError(f"field {number} breaks off")
        else:
            raise ValueError(f"wire type {wire_type} of field {number} is unknown")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The integer at ``at``, seven bits a byte, least significant first, and the place after it."""
    byte = message[at]
    if byte < 0x80:  # nearly all of them
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise ValueError("an integer of more than 64 bits")
    return value, at + 1
