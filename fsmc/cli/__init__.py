"""The command line: ``fsmc compile``, ``inspect``, ``match``, ``explain``, ``view``, ``plot``, ``sample``, ``generate``, ``cache`` and ``warmup``.

Results go to standard output (one JSON document with ``--json``), progress and errors to standard error, and the exit
code tells scripts what happened (see `ExitCode`). The commands import what they need when they run, so that
``fsmc --help`` and shell completion answer at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from fsmc.cli.cache import app as cache_app
from fsmc.cli.compile import compile_command
from fsmc.cli.explain_command import explain_command
from fsmc.cli.generate import generate_command
from fsmc.cli.inspect import inspect_command
from fsmc.cli.match import match_command
from fsmc.cli.output import ExitCode, report_error
from fsmc.cli.plot import plot_command
from fsmc.cli.sample import sample_command
from fsmc.cli.view import view_command
from fsmc.cli.warmup import warmup_command

app = typer.Typer(
    name="fsmc",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compile patterns into finite-state machines over bytes, with a mask of allowed tokens for every state.",
    epilog="Exit codes: 0 done or match, 1 no match, 2 bad usage or pattern, 3 a file or package is missing or damaged, "
    "4 a limit was reached.",
)
app.command("compile")(compile_command)
app.command("inspect")(inspect_command)
app.command("match")(match_command)
app.command("explain")(explain_command)
app.command("view")(view_command)
app.command("plot")(plot_command)
app.command("sample")(sample_command)
app.command("generate")(generate_command)
app.add_typer(cache_app, name="cache")
app.command("warmup")(warmup_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        import fsmc

        typer.echo(f"fsmc {fsmc.__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="FSMC_DEBUG", help="Show the whole traceback of an error.")
    ] = False,
) -> None:
    if debug:
        os.environ["FSMC_DEBUG"] = "1"


def _has_no_reader(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, BrokenPipeError):
        cause = cause.__context__
    return cause is not None


def main(arguments: list[str] | None = None) -> NoReturn:
    """The ``fsmc`` script: run a command, turn what it raises into one message and an exit code (SystemExit)."""
    try:
        _run(arguments)
    except BaseException as error:
        if not _has_no_reader(error):  # which click and rich tell as exit code 1: no match
            raise
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)  # or Python complains when it flushes what is left
        sys.exit(ExitCode.NO_READER)  # as a program that knows nothing of it, and dies of SIGPIPE


def _run(arguments: list[str] | None) -> NoReturn:
    try:
        try:
            app(arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("FSMC_DEBUG"):
            raise
        sys.exit(report_error(error))
    sys.exit(ExitCode.DONE)
