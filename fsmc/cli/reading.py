"""What commands read: files and standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from fsmc.cli.output import UsageError

MAX_SCHEMA_BYTES = 1 << 28


def read_json(path: Path, what: str) -> str:
    """The text of a file, as of `read_text`, that has to hold JSON. Raises UsageError with the file's name and the place in it."""
    from fsmc.compiler.errors import SchemaError
    from fsmc.compiler.schema.source import parse_json

    text = read_text(path, what)
    try:
        parse_json(text)
    except SchemaError as error:
        raise UsageError(f"{'standard input' if str(path) == '-' else path}: {error.message}") from error
    return text


def read_text(path: Path, what: str) -> str:
    """The text of a file, or of standard input for '-'."""
    if str(path) == "-" and sys.stdin is None:
        raise UsageError(f"standard input is closed: there is no {what} on it")
    if str(path) == "-":
        data = sys.stdin.buffer.read(MAX_SCHEMA_BYTES + 1)
    else:
        with path.open("rb") as file:
            data = file.read(MAX_SCHEMA_BYTES + 1)
    if len(data) > MAX_SCHEMA_BYTES:
        raise UsageError(f"{path}: more than {MAX_SCHEMA_BYTES >> 20} MiB, which no {what} should need")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 text (byte {data[error.start]:#04x} at {error.start}): a {what} has to be"
        ) from error


def read_bytes(text: str | None, file: Path | None) -> bytes:
    """The text that a command works on: the argument, a file, or standard input for '-' or nothing at all."""
    if text is not None and file is not None:
        raise UsageError("give a text or --text-file, and not both")
    if file is not None:
        return file.read_bytes()
    if text is None or text == "-":
        if sys.stdin is None or (text is None and sys.stdin.isatty()):  # None: it is closed
            raise UsageError("give a text, --text-file, or a text on standard input")
        return sys.stdin.buffer.read()
    return text.encode("utf-8", "surrogateescape")
