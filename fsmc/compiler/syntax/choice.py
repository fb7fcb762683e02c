"""A list of literal texts, one of which is to be written."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from fsmc.compiler.errors import ConstraintError, type_of


def choice_texts(choices: Iterable[str]) -> list[bytes]:
    """The texts as UTF-8, each once, in their order. Members of an ``Enum`` stand for their values.

    Raises ConstraintError, with the place in the list, for what is no list, not text, or has half a surrogate pair; and
    for an empty list, of which nothing could be written.

    >>> choice_texts(["é", "a|b", "é"])
    [b'\\xc3\\xa9', b'a|b']
    >>> choice_texts(["a", 1])
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.ConstraintError: choice[1]: a choice is a text, not the number 1: write it as the model should, '1'
    """
    if isinstance(choices, (str, bytes, dict)) or not isinstance(choices, Iterable):
        raise ConstraintError(f"must be a list of texts, not {_shown(choices)}", "choice")
    words: dict[bytes, None] = {}
    for i, given in enumerate(choices):
        text = given.value if isinstance(given, Enum) else given
        if not isinstance(text, str):
            hint = f": write it as the model should, {str(text)!r}" if isinstance(text, (int, float)) else ""
            raise ConstraintError(f"a choice is a text, not {_shown(text)}{hint}", f"choice[{i}]")
        try:
            words[text.encode()] = None
        except UnicodeEncodeError as error:
            raise ConstraintError(
                f"half a surrogate pair ({text[error.start]!a}) at character {error.start}, which is no text",
                f"choice[{i}]",
            ) from error
    if not words:
        raise ConstraintError("the list is empty, so nothing could be written: give at least one text", "choice")
    return list(words)


def _shown(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the number {value}"
    return type_of(value)
