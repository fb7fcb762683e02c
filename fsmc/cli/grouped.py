"""Options that many commands share, declared once: as the fields of a dataclass, which a command takes as one argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_type_hints


def expand(group: type, parameter: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: to typer, the command has an option for each field of ``group`` in place of ``parameter``.

    An option of the same name that the command has itself stands in its place; the field keeps its default then.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: int = 0
    ...     y: int = 0
    >>> @expand(Point, "point")
    ... def show(name: str, point: Point) -> None:
    ...     print(name, point)
    >>> str(inspect.signature(show))
    '(name: str, *, x: int = 0, y: int = 0) -> None'
    >>> show("p", x=1, y=2)
    p Point(x=1, y=2)
    """
    hints = get_type_hints(group, include_extras=True)
    fields_as_options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(group)
    ]
    assert all(option.default is not MISSING for option in fields_as_options), "an option needs a default"

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        options = [option for option in fields_as_options if option.name not in signature.parameters]

        @functools.wraps(command)
        def with_options(*arguments: Any, **given: Any) -> None:
            grouped = group(**{option.name: given.pop(option.name) for option in options})
            command(*arguments, **given, **{parameter: grouped})

        own = [p for name, p in signature.parameters.items() if name != parameter]
        with_options.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]  # inspect reads it
        with_options.__annotations__ = {p.name: p.annotation for p in [*own, *options]}
        return with_options

    return decorate
