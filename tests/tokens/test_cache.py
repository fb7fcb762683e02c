"""The disk cache: damage of any kind is a miss, the disk's failings only switch it off, processes share it."""

import contextlib
import hashlib
import logging
import multiprocessing
import os
import pickle
import resource
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fsmc.compiler.tokens.store import GrammarCache


@pytest.fixture
def cache(tmp_path):
    cache = GrammarCache(tmp_path / "cache")
    yield cache
    cache.close()


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="fsmc")
    return lambda: [record.getMessage() for record in caplog.records]


def value_files(cache):
    folders = os.walk(cache.directory)  # unlike glob, no matter what other processes remove meanwhile
    return sorted(Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".val"))


def test_entries_come_back_and_are_replaced(cache, warnings):
    assert cache.get("a") is None
    cache.put("a", b"one")
    cache.put("b", b"")
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (b"one", b"", None)
    cache.put("a", b"two")
    assert cache.get("a") == b"two"
    assert len(value_files(cache)) == 2
    assert not warnings()


def test_another_cache_object_sees_the_entries(cache):
    cache.put("a", b"x" * 100_000)
    other = GrammarCache(cache.directory)
    assert other.get("a") == b"x" * 100_000
    other.close()


def test_nothing_is_made_on_disk_by_looking(cache):
    assert cache.get("a") is None
    assert cache.entries() == []
    assert cache.clear() == 0
    assert not cache.directory.exists()


def test_entries_lists_key_label_size_and_age(cache):
    cache.put("old", b"12345", label="regex a*b")
    os.utime(value_files(cache)[0], (time.time() - 3600,) * 2)
    cache.put("new", b"123", label="two\n  lines " + "x" * 1000)
    new, old = cache.entries()
    assert (old.key, old.label, old.size) == ("old", "regex a*b", 5)
    assert 3599 < old.age < 3700 and new.age < 100
    assert new.label.startswith("two lines x") and len(new.label) <= 200


def test_clear_counts_entries_and_leaves_no_file(cache):
    cache.put("a", b"1")
    cache.put("b", b"2")
    stray = value_files(cache)[0].with_name("0" * 28 + ".val")  # of a process that was killed while it wrote
    stray.write_bytes(b"half")
    assert cache.clear() == 2
    assert value_files(cache) == [] and cache.entries() == []
    cache.put("a", b"3")
    assert cache.get("a") == b"3"


def test_size_is_bounded(tmp_path):
    cache = GrammarCache(tmp_path, size_limit=400_000)
    for i in range(60):
        cache.put(str(i), bytes(20_000))
    assert sum(entry.size for entry in cache.entries()) < 420_000
    assert cache.get("59") is not None and cache.get("0") is None
    cache.put("large", bytes(400_001))
    assert cache.get("large") is None and cache.get("59") is not None
    cache.close()


# --- damage -----------------------------------------------------------------------------------------------------


def halve(path, _):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path, _):
    path.write_bytes(b"")


def flip_in_the_middle(path, _):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def put_anothers_content(path, other):
    path.write_bytes(other.read_bytes())


def remove(path, _):
    path.unlink()


@pytest.mark.parametrize("damage", [halve, empty, flip_in_the_middle, put_anothers_content, remove])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_damaged_entry_is_a_miss_and_is_replaced(cache, warnings, damage, reopened):
    cache.put("a", b"content of a" * 100)
    (file,) = value_files(cache)
    cache.put("b", b"content of b" * 100)
    (other,) = set(value_files(cache)) - {file}
    damage(file, other)
    reader = GrammarCache(cache.directory) if reopened else cache
    assert reader.get("a") is None
    assert damage is remove or any("damaged cache entry a" in message for message in warnings())
    assert reader.get("b") == b"content of b" * 100
    reader.put("a", b"fresh")
    assert reader.get("a") == cache.get("a") == b"fresh"
    assert not file.exists()  # the bad entry is gone, not hidden
    reader.close()


@pytest.mark.parametrize("damage", [halve, empty, "overwrite"])
def test_a_damaged_database_is_started_afresh(cache, warnings, damage):
    for i in range(50):
        cache.put(str(i), b"x" * i)
    cache.close()
    database = cache.directory / "cache.db"
    damage(database, None) if callable(damage) else database.write_bytes(b"no database at all" * 1000)
    cache.put("a", b"1")
    assert cache.get("a") == b"1"
    cache.close()
    assert GrammarCache(cache.directory).get("a") == b"1"
    assert damage is empty or any("damaged cache database" in message for message in warnings())


def test_folder_removed_under_a_running_process(cache):
    cache.put("a", b"1")
    shutil.rmtree(cache.directory)
    assert cache.get("a") is None
    cache.put("a", b"2")
    reader = GrammarCache(cache.directory)
    reader.put("b", b"3")
    assert reader.get("b") == b"3"
    reader.close()


def in_database(cache, statement, *values):
    with sqlite3.connect(cache.directory / "cache.db") as connection:
        connection.execute(statement, values)
    connection.close()


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["FSMC_TEST_BOMB"],)


def test_nothing_is_ever_unpickled(cache, tmp_path, monkeypatch, warnings):
    monkeypatch.setenv("FSMC_TEST_BOMB", str(tmp_path / "exploded"))
    poison = pickle.dumps(Bomb())
    cache.put("file", b"1")
    value_files(cache)[0].write_bytes(poison)
    in_database(cache, "UPDATE Cache SET mode = 4")
    cache.put("row", b"1")
    in_database(cache, "UPDATE Cache SET mode = 4, filename = NULL, value = ? WHERE key = 'row'", poison)
    cache.put("key", b"1")
    in_database(cache, "UPDATE Cache SET key = ?, raw = 0 WHERE key = 'key'", poison)
    assert cache.get("file") is None and cache.get("row") is None
    cache.entries()
    cache.clear()
    assert warnings()
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["../../precious", "aa/bb/../../../precious", "", None, 7])
def test_files_outside_the_cache_are_neither_read_nor_deleted(cache, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep me")
    cache.put("a", b"1")
    in_database(cache, "UPDATE Cache SET filename = ?", str(precious) if name == "" else name)
    assert cache.get("a") is None
    cache.put("a", b"2")
    assert cache.get("a") == b"2"
    cache.clear()
    assert precious.read_bytes() == b"keep me"


@pytest.mark.parametrize("setting", ["cull_limit", "size_limit", "disk_min_file_size", "eviction_policy", "statistics"])
def test_damaged_settings_do_not_raise(cache, setting):
    cache.put("a", b"1")
    cache.close()
    in_database(cache, "UPDATE Settings SET value = 'nonsense' WHERE key = ?", setting)
    cache.get("a")
    cache.put("b", b"2")
    cache.entries()


# --- a disk that does not play along ---------------------------------------------------------------------------------


def use_everything(cache):
    cache.put("a", b"1")
    assert cache.get("a") is None
    cache.put("b", b"2")
    assert cache.entries() == []
    assert cache.clear() == 0


def test_directory_that_cannot_be_made(tmp_path, warnings):
    (tmp_path / "file").write_bytes(b"")
    use_everything(GrammarCache(tmp_path / "file" / "cache"))
    assert len(warnings()) == 1 and "no disk cache from here on" in warnings()[0]


def _as_nobody(directory, messages):
    """In a child process: use a cache in a folder that it may read but not write."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setuid(65534)  # permissions do not hold back root
    _collect_warnings(directory, messages)


def _with_no_room(directory, messages):
    """In a child process: no file may grow beyond a few thousand bytes, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
    _collect_warnings(directory, messages)


def _collect_warnings(directory, messages):
    class Collect(logging.Handler):
        def emit(self, record):
            collected.append(record.getMessage())

    collected = []
    logging.getLogger("fsmc").addHandler(Collect())
    try:
        cache = GrammarCache(directory)
        for i in range(3):
            cache.put(str(i), bytes(100_000))
        outcome = [cache.get("0"), cache.entries()]
    except BaseException as error:
        outcome = repr(error)
    messages.put((outcome, collected))


@pytest.mark.skipif(os.name != "posix", reason="permissions and file size limits of POSIX")
@pytest.mark.parametrize("child", [_as_nobody, _with_no_room])
@pytest.mark.parametrize("existing", [False, True])
def test_read_only_or_full_directory_only_disables_the_cache(tmp_path, child, existing):
    directory = tmp_path / "cache"
    directory.mkdir()
    if existing:
        cache = GrammarCache(directory)
        cache.put("old", b"1")
        cache.close()
    if child is _as_nobody:
        for path in (directory, *directory.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        for parent in list(directory.parents)[:3]:
            parent.chmod(0o755)  # pytest's folders are its user's alone
    context = multiprocessing.get_context("fork")
    messages = context.Queue()
    process = context.Process(target=child, args=(directory, messages))
    process.start()
    outcome, collected = messages.get(timeout=60)
    process.join(60)
    assert outcome == [None, []]
    assert len(collected) == 1 and "no disk cache from here on" in collected[0]


# --- sharing -----------------------------------------------------------------------------------------------------------


def content_of(key, seed):
    return hashlib.sha256(f"{key}/{seed}".encode()).digest() * (50 + 400 * (seed % 3))


def _share(directory, seed, results):
    """One of ten processes: writes 20 keys that all of them write, reads them all the time, now and then damages one."""
    cache = GrammarCache(directory)
    legal = {f"key{k}": {content_of(f"key{k}", s) for s in range(10)} for k in range(20)}
    wrong, hits = 0, 0
    for turn in range(3):
        for key in legal:
            cache.put(key, content_of(key, seed))
            found = cache.get(key)
            hits += found is not None
            wrong += found is not None and found not in legal[key]
        if seed == 0:
            for file in value_files(cache)[turn : turn + 2]:
                with contextlib.suppress(FileNotFoundError):
                    file.write_bytes(b"")
    cache.close()
    results.put((seed, hits, wrong))


@pytest.mark.parametrize(("method", "n_processes"), [("fork", 10), ("spawn", 3)])  # spawning imports everything anew
def test_processes_share_one_cache(tmp_path, method, n_processes):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no start method {method} here")
    context = multiprocessing.get_context(method)
    results = context.Queue()
    processes = [
        context.Process(target=_share, args=(tmp_path / "cache", seed, results)) for seed in range(n_processes)
    ]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(seed for seed, _, _ in outcomes) == list(range(n_processes))
    assert all(wrong == 0 for _, _, wrong in outcomes)
    assert sum(hits for _, hits, _ in outcomes) > 30 * n_processes  # of 60; the others hit a moment of replacement
    cache = GrammarCache(tmp_path / "cache")
    assert 20 - 6 <= len(cache.entries()) <= 20  # 6 were damaged
    cache.close()


def test_threads_share_one_cache_object(cache):
    started = threading.Barrier(8)

    def work(seed):
        started.wait(30)
        for turn in range(10):
            cache.put(f"{seed}-{turn}", content_of(turn, seed))
        return [cache.get(f"{seed}-{turn}") == content_of(turn, seed) for turn in range(10)]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(found) for found in pool.map(work, range(8)))
