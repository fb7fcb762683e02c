"""Where in a JSON value the beginning of a text ends."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|"|[\[\]{},]', re.DOTALL)
_SCALAR = re.compile(r"[-+.\w]*$")


def json_place(text: str) -> tuple[str, int]:
    """The JSON pointer (RFC 6901) of the value in which the text ends, "" for the whole; and where its last token begins,
    if that need not be complete, else the end. The text must begin some JSON text.

    >>> json_place('{"a/b": [1, {"c": tr'), json_place('[[1], "x"'), json_place('{"a": 1, "na')
    (('/a~1b/1/c', 18), ('/1', 9), ('', 9))
    """
    steps: list[
        str | int | None
    ] = []  # for each open array the index, for each open object the key, or None before one
    token_start = _SCALAR.search(text).start()  # type: ignore[union-attr]  # it always matches
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            steps.append(0 if token == "[" else None)
        elif token in "]}":
            steps.pop()
        elif token == ",":
            steps[-1] = steps[-1] + 1 if isinstance(steps[-1], int) else None
        elif token == '"':  # the text ends inside this string
            token_start = match.start()
            break
        elif steps and steps[-1] is None:
            steps[-1] = json.loads(token)
    pointer = "".join(f"/{str(s).replace('~', '~0').replace('/', '~1')}" for s in steps if s is not None)
    return pointer, token_start
