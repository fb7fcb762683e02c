"""``fsmc compile DIR -o FOLDER``: every schema, pattern, grammar, tag and choice list of a folder into a folder of index files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsmc.cli.output import ExitCode, MissingError, UsageError, print_json, print_table, stages

if TYPE_CHECKING:
    from fsmc.compiler.tokens.vocabulary import Vocabulary
    from fsmc.runtime.index_jobs import Job

_SHOWN_ERRORS = 5


def compile_folder(
    folder: Path,
    output: Path,
    vocab: Vocabulary,
    options: dict[str, Any],
    *,
    n_processes: int | None,
    ray: bool,
    as_json: bool,
) -> None:
    """Do what is not done yet, and say what there is then; files that cannot be compiled are named, and end with exit code 2."""
    from fsmc.compiler.warm_up import warm_up_schemas
    from fsmc.runtime.index_jobs import KINDS, ManifestWriter, in_processes, in_ray, jobs_in

    names, read = jobs_in(folder, vocab, options)
    if not names:
        raise MissingError(f"{folder}: no file in it ends in any of {', '.join(KINDS)}")
    if output.resolve() == folder.resolve():
        raise UsageError(f"{output}: give another folder than the one with the sources")
    writer = ManifestWriter(output)
    began, n_passed_over, lines = time.perf_counter(), 0, []

    def to_do() -> Iterator[Job]:
        nonlocal n_passed_over
        for source, kind in names:
            job = read(source, kind)
            line = writer.done.get((job.source, job.digest))
            if line is not None and (not line.file or (output / line.file).exists()):
                n_passed_over += 1
                lines.append(line)
                progress.advance(len(lines), len(names))
            else:
                yield job

    try:
        with stages() as progress:
            progress.start("loading kernels")
            warm_up_schemas()  # here first: kernels are compiled once, not once in each process
            progress.start(f"compiling {len(names):,} files")
            if ray:
                try:
                    done = in_ray(to_do(), vocab, options, output)
                    first = next(done, None)
                except ImportError as error:
                    raise MissingError(f"--ray needs Ray ({error}): pip install 'fsmc[ray]'") from error
                results = [first] if first is not None else []
            else:
                n = n_processes or max(1, (os.cpu_count() or 2) // 2)
                results, done = [], in_processes(to_do(), vocab, options, output, n)
            for line in results:
                writer.add(line)
                lines.append(line)
            for line in done:
                writer.add(line)
                lines.append(line)
                progress.advance(len(lines), len(names))
    finally:
        writer.close()
    failed = sorted((line for line in lines if line.error), key=lambda line: line.source)
    document = {
        "folder": str(output),
        "files": len(lines),
        "compiled": len(lines) - len(failed),
        "refused": {line.source: line.error for line in failed},
        "passed_over": n_passed_over,
        "bytes": sum(line.nbytes for line in lines),
        "seconds": round(time.perf_counter() - began, 3),
        "compile_seconds": round(sum(line.seconds for line in lines), 3),
    }
    if as_json:
        print_json(document)
    else:
        print_table(
            str(output),
            {
                "files": f"{len(lines):,}, {n_passed_over:,} of them done before",
                "index files": f"{document['compiled']:,}, {document['bytes']:,} bytes",
                "refused": f"{len(failed):,}",
                "seconds": f"{document['seconds']}",
            },
        )
        for line in failed[:_SHOWN_ERRORS]:
            sys.stderr.write(f"{line.source}: {line.error.splitlines()[0]}\n")
        if len(failed) > _SHOWN_ERRORS:
            sys.stderr.write(f"and {len(failed) - _SHOWN_ERRORS} more: see {writer.path}\n")
    if failed:
        sys.exit(ExitCode.BAD_INPUT)
