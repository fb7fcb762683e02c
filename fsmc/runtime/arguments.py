"""What callers give, checked when it is given: an error names the argument, its value, and what is allowed. Needs no torch."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

_ZERO: Any = 0  # mypy knows no order of Real
LARGEST_TOKEN_ID = 2**31 - 1
"""Masks, tries and tensors hold ids in 32 bits."""


def integer(name: str, value: Any, least: int | None = None, allowed: str = "") -> int:
    """An integer of any kind that Python can index with, numpy's among them; no bool. TypeError, ValueError.

    >>> integer("top_k", 1.5)
    Traceback (most recent call last):
    ...
    TypeError: top_k must be an integer, not float (1.5)
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or str(getattr(value, "dtype", "")).endswith("bool"):
        raise TypeError(f"{name} must be an integer, not {described(value)}")
    try:
        number = operator.index(value)
    except TypeError:  # of an array
        raise TypeError(f"{name} must be an integer, not {described(value)}") from None
    if least is not None and number < least:
        raise ValueError(f"{name}={shown(number)} must be {allowed or f'at least {least}'}")
    return number


def integers(name: str, values: Iterable[Any]) -> list[int]:
    """Integers, of any kind that Python can index with; no bools. TypeError.

    >>> integers("draft", [7, True])
    Traceback (most recent call last):
    ...
    TypeError: draft[1] must be an integer, not bool (True)
    """
    given = values.tolist() if hasattr(values, "tolist") else values
    found = items(name, given, "a list of integers")
    if all(type(x) is int for x in found):
        return list(found)
    return [integer(f"{name}[{i}]", x) for i, x in enumerate(found)]


def byte_string(function: str, data: Any) -> bytes:
    """What a function that takes bytes was given. TypeError for anything else: an integer, of which Python would make zeros."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{function} takes bytes, not {type(data).__name__}")
    return bytes(data)


def number(name: str, value: Any, allowed: str, fits: Callable[[float], bool]) -> float:
    """A number as a float. TypeError for anything else, ValueError where it does not fit, NaN never does."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {described(value)}")
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf if value >= _ZERO else -math.inf
    if math.isnan(as_float) or not fits(as_float):
        raise ValueError(f"{name}={shown(value)} must be {allowed}")
    return as_float


def token_id(name: str, value: Any) -> int:
    """An id of some vocabulary; of which one is not known yet."""
    number = integer(name, value, 0, "a token id, at least 0")
    if number > LARGEST_TOKEN_ID:
        raise ValueError(f"{name}={shown(number)} must be a token id, at most {LARGEST_TOKEN_ID}")
    return number


def token_ids(name: str, value: Any, what: str = "a list of token ids") -> tuple[int, ...]:
    """A list of ids; an array or tensor of one dimension will do, and None is none.

    >>> token_ids("stop_token_ids", [5, 1.5])
    Traceback (most recent call last):
    ...
    TypeError: stop_token_ids[1] must be an integer, not float (1.5)
    """
    given = value.tolist() if hasattr(value, "tolist") else value
    found = items(name, given, what)
    if all(type(x) is int for x in found) and (not found or (min(found) >= 0 and max(found) <= LARGEST_TOKEN_ID)):
        return found
    return tuple(token_id(f"{name}[{i}]", x) for i, x in enumerate(found))


def text(name: str, value: str) -> str:
    """Text that has an encoding. ValueError for halves of surrogate pairs, which JSON can hold and no tokenizer reads."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name}[{error.start}] is half of a surrogate pair ({value[error.start]!r}), no text"
        ) from None
    return value


def items(name: str, value: Any, what: str) -> tuple[Any, ...]:
    """The items of a list, none for None. TypeError for what is no list: ``what`` says what it is to be."""
    if value is None:
        return ()
    if not isinstance(value, (str, bytes, bytearray, Mapping)):
        with suppress(TypeError):
            return tuple(value)
    raise TypeError(f"{name} must be {what}, not {described(value)}")


def within(name: str, ids: Iterable[int], size: int, of: str = "the vocabulary") -> None:
    """ValueError for the first id that is not below ``size``."""
    found = tuple(ids)
    if not found or (min(found) >= 0 and max(found) < size):
        return
    for id_ in found:
        if not 0 <= id_ < size:
            raise ValueError(f"{name}: token id {shown(id_)} is outside {of}, whose ids are 0 to {size - 1}")


def shown(value: Any) -> str:
    """A value for a message, however large it is."""
    try:
        text = repr(value)
    except Exception:  # an integer of ten thousand digits, an object of someone's own
        return f"({type(value).__name__})"
    return text if len(text) <= 60 else f"{text[:57]}..."


def described(value: Any) -> str:
    """Its type, and the value unless it is None."""
    return "None" if value is None else f"{type(value).__name__} ({shown(value)})"
