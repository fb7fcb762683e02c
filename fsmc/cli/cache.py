"""``fsmc cache``: the disk cache that compilers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fsmc.cli.output import JsonOption, print_json, stdout_console

if TYPE_CHECKING:
    from fsmc.compiler.tokens.store import GrammarCache

app = typer.Typer(no_args_is_help=True, help="List, empty or locate the disk cache of compiled grammars.")


@app.command("path")
def path_command(as_json: JsonOption = False) -> None:
    """Print the folder. FSMC_CACHE_DIR chooses another."""
    from fsmc.cache_dir import default_cache_dir

    if as_json:
        print_json({"path": str(default_cache_dir())})
    else:
        typer.echo(default_cache_dir())


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """List the compiled grammars, newest first."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cache = _cache()
    entries = cache.entries()
    total = sum(entry.size for entry in entries)
    if as_json:
        listed = [
            {"key": entry.key, "source": entry.label, "bytes": entry.size, "age_seconds": entry.age}
            for entry in entries
        ]
        print_json({"path": str(cache.directory), "bytes": total, "entries": listed})
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("source", "bytes", "age", "key")
    for heading in headings:
        table.add_column(heading, justify="right" if heading == "bytes" else "left", no_wrap=True)
    console = stdout_console()
    rows = [(entry.label, f"{entry.size:,}", _age(entry.age), entry.key[:12]) for entry in entries]
    figures = sum(max(map(cell_len, column)) + 3 for column in [*zip(headings, *rows, strict=True)][1:])
    for label, *rest in rows:
        source = Text(label)  # a pattern, whose brackets would be read as markup
        source.truncate(max(console.width - figures - 2, 10), overflow="ellipsis")
        table.add_row(source, *rest)
    if entries:
        console.print(table)
    typer.echo(f"{len(entries)} grammars, {total:,} bytes in {cache.directory}")


@app.command("clear")
def clear_command(as_json: JsonOption = False) -> None:
    """Remove every compiled grammar."""
    cache = _cache()
    removed = cache.clear()
    if as_json:
        print_json({"path": str(cache.directory), "removed": removed})
    else:
        typer.echo(f"removed {removed} grammars from {cache.directory}")


def _cache() -> GrammarCache:
    from fsmc.compiler.pipeline import grammar_cache_dir
    from fsmc.compiler.tokens.store import GrammarCache

    return GrammarCache(grammar_cache_dir())


def _age(seconds: float) -> str:
    """
    >>> _age(12), _age(7200), _age(86400 * 3)
    ('12 s', '2 h', '3 d')
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
