"""What all commands share about output: consoles, exit codes, errors, tables, progress."""

from __future__ import annotations

import contextlib
import enum
import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class ExitCode(enum.IntEnum):
    """What the process tells its caller.

    >>> int(ExitCode.NO_MATCH)
    1
    """

    DONE = 0
    NO_MATCH = 1
    BAD_INPUT = 2
    MISSING = 3
    LIMIT = 4
    NO_READER = 141


_PIPED_WIDTH = 1000

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]


class UsageError(Exception):
    """Arguments that do not go together; the message says which."""


class MissingError(Exception):
    """Something that a command needs is not there; the message says what, and how to get it."""


def exit_code_of(error: BaseException) -> ExitCode | None:
    """The exit code for an error that a user can act on; None for one that is a fault of fsmc's own.

    >>> exit_code_of(FileNotFoundError("x")), exit_code_of(ZeroDivisionError())
    (<ExitCode.MISSING: 3>, None)
    """
    from fsmc.compiler import errors

    if isinstance(error, errors.LimitExceeded):
        return ExitCode.LIMIT
    if isinstance(error, (errors.IndexFileError, errors.VocabularyError, MissingError, OSError, ImportError)):
        return ExitCode.MISSING
    if isinstance(error, (errors.FsmcError, UsageError, UnicodeDecodeError)):
        return ExitCode.BAD_INPUT
    return None


def report_error(error: BaseException) -> int:
    """Print one message to standard error; the exit code that goes with it."""
    code = exit_code_of(error)
    if code is None:
        sys.stderr.write(f"error: {type(error).__name__}: {error}\n(a fault in fsmc: FSMC_DEBUG=1 shows where)\n")
        return 70  # EX_SOFTWARE of sysexits.h
    if isinstance(error, OSError) and error.filename is not None:
        sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
    else:
        sys.stderr.write(f"error: {error}{_option_of(error)}\n")
    return int(code)


def _option_of(error: BaseException) -> str:
    """The option that raises a limit which was reached, where there is one."""
    name = getattr(error, "name", None)
    if exit_code_of(error) != ExitCode.LIMIT or name not in ("max_states", "max_bytes", "max_seconds"):
        return ""
    return f" (--{name.replace('_', '-')} sets it)"


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output; text that is not ASCII stays readable."""
    json.dump(document, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def stdout_console() -> Console:
    """For results."""
    from rich.console import Console

    class _Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "nobody reads any more")  # `fsmc.cli.main` says so to the shell

    # what is not shown on a terminal is read by a program, or kept: tables are as wide there as they have to be
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH
    return _Piped(highlight=False, soft_wrap=True, width=width)


def print_table(title: str, rows: Mapping[str, str]) -> None:
    """A two-column table of figures."""
    from rich import box
    from rich.table import Table
    from rich.text import Text  # the rows hold patterns, whose brackets would be read as markup

    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for name, value in rows.items():
        table.add_row(name, Text(value))
    stdout_console().print(table)


class Stages:
    """Progress over the stages of a command on standard error; silent where that is not a terminal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress, self.task, self.title = progress, task, ""

    def start(self, title: str) -> None:
        """The next stage, of unknown length."""
        self.title = title
        self.progress.update(self.task, description=title, total=None, completed=0)

    def advance(self, done: int, total: int) -> None:
        """The stage has done so much; the signature is that of ``build_index``'s ``progress``."""
        self.progress.update(self.task, description=self.title, total=total, completed=done)

    def compiling(self, kernel: str) -> None:
        """A kernel is being compiled, which happens once on a machine and takes a second."""
        name = kernel.rsplit(".", 1)[-1].lstrip("_")
        self.progress.update(self.task, description=f"compiling kernels, once on this machine ({name})")


@contextlib.contextmanager
def stages() -> Iterator[Stages]:
    """Show progress while the block runs; the line is gone afterwards.

    Where standard error is no terminal, the only line is fsmc's own about compiling kernels.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from fsmc.jit import on_compile

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        shown = Stages(progress, progress.add_task("starting", total=None))
        with on_compile(shown.compiling) if console.is_terminal else contextlib.nullcontext():
            yield shown
