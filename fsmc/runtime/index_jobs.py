"""Compiling the files of a folder into a folder of index files: what a job is, how one is done, and how many are, at once.

`fsmc.runtime.index_folder` says what is made. Jobs are done in processes of this machine or as tasks of a Ray cluster; one process, the
caller's, writes the manifest. A run that was killed is completed by running it again: what the manifest has is passed over, and an index file
whose line was not written is taken as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fsmc.compiler.errors import FsmcError, IndexFileError, LimitExceeded
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.compiler.warm_up import warm_up_schemas
from fsmc.runtime.index_folder import MANIFEST, FolderCompiler, ManifestLine, read_manifest

KINDS = {
    ".choice.json": "choice",
    ".tag.json": "structural_tag",
    ".json": "json_schema",
    ".regex": "regex",
    ".ebnf": "grammar",
    ".gbnf": "grammar",
    ".lark": "grammar",
}
"""By the end of a file's name; the first that fits."""

IN_FLIGHT = 4
"""Jobs that wait for each process, so that none is idle and few texts are in memory."""


@dataclass(frozen=True, slots=True)
class Job:
    """A file to compile: its name in the folder, what it is, its text, and the digest of text and settings."""

    source: str
    kind: str
    text: bytes
    digest: str


def jobs_in(
    folder: Path, vocab: Vocabulary, options: dict[str, Any]
) -> tuple[list[tuple[str, str]], Callable[[str, str], Job]]:
    """The names and kinds of all files in a folder and those below it that can be compiled, and what reads one of them."""
    found = []
    for path in sorted(folder.rglob("*")):
        kind = next((kind for suffix, kind in KINDS.items() if path.name.endswith(suffix)), None)
        if kind is not None and path.is_file():
            found.append((path.relative_to(folder).as_posix(), kind))
    settings = json.dumps([vocab.fingerprint, sorted(options.items())]).encode()

    def read(source: str, kind: str) -> Job:
        text = (folder / source).read_bytes()
        return Job(source, kind, text, hashlib.sha256(settings + b"\0" + text).hexdigest())

    return found, read


def compile_job(compiler: FolderCompiler, job: Job, folder: Path | None) -> tuple[ManifestLine, bytes]:
    """Compile one file; the index file goes into ``folder``, or comes back as bytes if that is None.

    Whatever is wrong with the file is told by the line's ``error``; OSError is raised where the disk does not do its part.
    """
    began = time.perf_counter()
    key, name, data = "", "", b""
    try:
        text = job.text.decode()
        source: Any = text.removesuffix("\n") if job.kind == "regex" else text
        if job.kind == "choice":
            source = json.loads(text)
        options = {"syntax": "lark" if job.source.endswith(".lark") else "ebnf"} if job.kind == "grammar" else {}
        key = compiler.key(job.kind, source, **options)
        name = f"{job.source.replace('/', '--')}.{key[:16]}.fsmc"
        if folder is not None and (folder / name).exists():  # it was written whole, and its line was not
            return ManifestLine(
                job.source, job.digest, job.kind, key, name, "", 0.0, (folder / name).stat().st_size
            ), b""
        grammar = getattr(compiler, f"compile_{job.kind}")(source, **options)
        if grammar.dfa is not None:
            grammar.build_index()
        if folder is None:
            data = grammar.to_bytes()
            size = len(data)
        else:
            grammar.save(folder / name)
            size = (folder / name).stat().st_size
        return ManifestLine(job.source, job.digest, job.kind, key, name, "", _since(began), size), data
    except (FsmcError, TypeError, ValueError, RecursionError, MemoryError) as error:
        message = str(error) or type(error).__name__
        again = isinstance(error, MemoryError) or (isinstance(error, LimitExceeded) and error.name == "max_seconds")
        return ManifestLine(job.source, job.digest, job.kind, key, "", message, _since(began), 0, again), b""


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 6)


class ManifestWriter:
    """Appends lines to a folder's manifest; one writer at a time. done: the lines that were there, by source and digest."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / MANIFEST
        self._file = open(self.path, "ab+")  # noqa: SIM115 - it stays open as long as the writer
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._file.close()
                raise IndexFileError(f"{folder}: another process is compiling into this folder") from None
        self.done = {(line.source, line.digest): line for line in read_manifest(folder) if not line.again}
        size = self._file.seek(0, os.SEEK_END)
        whole = len(self.path.read_bytes().rpartition(b"\n")[0]) + 1 if size else 0
        if size and whole != size:  # the rest of a line whose writer was killed
            self._file.truncate(whole if whole > 1 else 0)

    def add(self, line: ManifestLine) -> None:
        self._file.write(line.text().encode())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────────

Done = tuple[ManifestLine, bytes]
_compiler: FolderCompiler
_folder: Path


def in_processes(
    jobs: Iterable[Job], vocab: Vocabulary, options: dict[str, Any], folder: Path, n_processes: int
) -> Iterator[ManifestLine]:
    """The lines of jobs as they end, done by so many processes, which write the index files.

    Raises FsmcError if a process dies (out of memory, say): what was done is kept.
    """
    pool = ProcessPoolExecutor(n_processes, get_context("spawn"), _begin, (vocab, options, folder, os.getpid()))
    with pool:
        try:
            yield from (line for line, _ in _window(jobs, lambda job: pool.submit(_do, job), IN_FLIGHT * n_processes))
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if type(error).__name__ == "BrokenProcessPool":
                raise FsmcError(
                    "a process that compiles died (out of memory?): run it again to go on, with fewer processes"
                ) from error
            raise


def _window(jobs: Iterable[Job], submit: Callable[[Job], Future[Done]], size: int) -> Iterator[Done]:
    running: set[Future[Done]] = set()
    for job in jobs:
        running.add(submit(job))
        if len(running) >= size:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    while running:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        yield from (future.result() for future in done)


def _begin(vocab: Vocabulary, options: dict[str, Any], folder: Path, parent: int) -> None:
    """In each process, once. It leaves the interrupt key to the caller, and ends when that is gone: killed, it can tell nobody."""
    global _compiler, _folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _compiler, _folder = FolderCompiler(vocab, cache_dir=None, **options), folder

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    warm_up_schemas()  # or the first job's time would be that of loading kernels


def _do(job: Job) -> Done:
    return compile_job(_compiler, job, _folder)


def in_ray(jobs: Iterable[Job], vocab: Vocabulary, options: dict[str, Any], folder: Path) -> Iterator[ManifestLine]:
    """The same as tasks of a Ray cluster (the one that ``ray.init()`` finds, or a local one); index files come back as bytes.

    Raises ImportError without Ray (``pip install 'fsmc[ray]'``), and what Ray raises where a task cannot be done.
    """
    import ray

    if not ray.is_initialized():
        ray.init(logging_level="ERROR", include_dashboard=False)
    shared = ray.put((vocab, options))

    @ray.remote  # type: ignore[untyped-decorator]
    def do(settings: Any, job: Job) -> Done:
        return compile_job(_ray_compiler(*settings), job, None)

    running: list[Any] = []
    size = IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))

    def next_done() -> ManifestLine:
        (first,), running[:] = ray.wait(running, num_returns=1)
        line: ManifestLine
        line, data = ray.get(first)
        if data:
            _write(folder / line.file, data)
        return line

    for job in jobs:
        running.append(do.remote(shared, job))
        if len(running) >= size:
            yield next_done()
    while running:
        yield next_done()


_compilers: dict[str, FolderCompiler] = {}


def _ray_compiler(vocab: Vocabulary, options: dict[str, Any]) -> FolderCompiler:
    """One for all tasks of a worker with the same settings."""
    key = json.dumps([vocab.fingerprint, sorted(options.items())])
    if key not in _compilers:
        _compilers[key] = FolderCompiler(vocab, cache_dir=None, **options)
    return _compilers[key]


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, path)
