"""The steps of a text as tables that fit the terminal: places and counts are never cut, the rest has what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from fsmc.cli.trace import ByteStep, TokenStep

_GAP, _EDGES = 3, 2  # columns between two of a table, and at its sides
_LEAST = 8  # of a column that may be cut, where it has so many
_NUMBERS = {"id", "at", "state", "open", "allowed"}


def byte_table(steps: Sequence[ByteStep], width: int) -> Table:
    """One row for each byte; ``width``: columns of the terminal."""
    rows = []
    for step in steps:
        byte = "end" if step.byte is None else _byte(step.byte)
        style = "" if step.read or (step.byte is None and step.may_end) else "bold red"
        rows.append([
            _cell(byte, style), *map(_cell, map(str, (step.at, step.state, step.depth, step.allowed))),
            _cell(_short(step.expected, 44)), _cell(_visible(step.forced), "cyan"),
        ])  # fmt: skip
    return _table(["byte", "at", "state", "open", "allowed", "may come", "forced"], rows, ["may come", "forced"], width)


def token_table(steps: Sequence[TokenStep], width: int) -> Table:
    """One row for each token; ``width``: columns of the terminal."""
    rows = []
    for step in steps:
        text = _cell("end" if step.token_id is None else _visible(step.token))
        good = step.is_allowed or (step.token_id is None and step.may_end)
        text.stylize("" if good else "bold red", step.read if step.token_id is not None else 0)
        examples = [*(["(the end)"] if step.may_end else []), *map(_mark, step.examples)]
        rows.append([
            text, _cell("" if step.token_id is None else str(step.token_id)),
            *map(_cell, (str(step.at), str(step.state), str(step.depth), f"{step.allowed:,}")),
            _cell(_short("  ".join(examples), 44), "dim"), _cell(_visible(step.forced), "cyan"),
        ])  # fmt: skip
    names = ["token", "id", "at", "state", "open", "allowed", "for example", "forced"]
    return _table(names, rows, ["token", "forced", "for example"], width)


def _table(names: list[str], rows: list[list[Text]], may_be_cut: list[str], width: int) -> Table:
    """may_be_cut: these columns share what the others leave; where that is too little even for their names, the last ones are left out."""
    from rich import box
    from rich.table import Table

    needs = {name: max(len(name), *(row[i].cell_len for row in rows)) for i, name in enumerate(names)}
    kept = list(may_be_cut)
    while True:
        columns = [name for name in names if name in kept or name not in may_be_cut]
        least = {name: min(needs[name], max(len(name), _LEAST)) for name in kept}
        fixed = sum(needs[name] for name in columns if name not in kept)
        room = width - _EDGES - fixed - _GAP * (len(columns) - 1) - sum(least.values())
        if room >= 0 or len(kept) == 1:
            break
        kept.pop()
    for i, name in enumerate(sorted(kept, key=lambda name: needs[name] - least[name])):
        more = max(0, min(needs[name] - least[name], room // (len(kept) - i)))
        least[name] += more
        room -= more
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        right = "right" if name in _NUMBERS else "left"
        table.add_column(name, justify=right, no_wrap=True, width=least.get(name, needs[name]))  # type: ignore[arg-type]  # right is one of Rich's words
    for row in rows:
        table.add_row(*(row[names.index(name)] for name in columns))
    return table


def _cell(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style)


def _visible(data: bytes) -> str:
    """Bytes as text on one line."""
    return _short(_mark(data.decode("utf-8", "backslashreplace")), 40)


def _mark(text: str) -> str:
    """Text with white space that can be seen."""
    return "".join("·" if c == " " else c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _byte(byte: int) -> str:
    return _mark(chr(byte)) if byte < 0x80 else f"{byte:02X}"


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
