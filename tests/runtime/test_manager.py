"""Grammars in the background: shared, bounded, cancelled, timed out, and lost without a hang."""

import functools
import gc
import itertools
import random
import threading
import time
import tracemalloc

import pytest

from fsmc import jit
from fsmc.compiler.cfg import rules
from fsmc.compiler.errors import LimitExceeded
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime import manager as manager_module
from fsmc.runtime.bitmask import allocate_token_bitmask
from fsmc.runtime.grammar_queue import GrammarQueue
from fsmc.runtime.grammar_workers import InvalidGrammar
from fsmc.runtime.manager import GrammarManager
from fsmc.runtime.matcher import GrammarMatcher

VOCAB = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)] + [b""], eos_token_ids=[256])


class Scripted(GrammarCompiler):
    """A compiler whose patterns may do what a test needs: wait for an event, kill the thread, end it without a word."""

    def __init__(self, **options):
        super().__init__(VOCAB, cache_dir=None, **options)
        self.gate = threading.Event()
        self.compiled = []
        self.lock = threading.Lock()

    def compile_regex(self, pattern, **options):
        with self.lock:
            self.compiled.append(pattern)
        script = str(pattern)
        if script.startswith("slow"):
            assert self.gate.wait(30)
        if script.startswith("die"):
            raise SystemExit(pattern)
        if script.startswith("memory"):
            raise MemoryError
        return super().compile_regex(pattern, **options)


@pytest.fixture
def compiler():
    compiler = Scripted()
    yield compiler
    compiler.gate.set()


@pytest.fixture
def manager(compiler):
    with GrammarManager(compiler, max_workers=2) as manager:
        yield manager


def refused(outcome, reason="refused"):
    assert isinstance(outcome, InvalidGrammar) and outcome.reason == reason, outcome
    return outcome.message


def test_one_compilation_for_all_who_want_the_same(compiler, manager):
    pending = [manager.request("regex", "slow") for _ in range(20)]
    assert all(one.poll() is None for one in pending)
    compiler.gate.set()
    grammars = {one.wait() for one in pending} | {manager.request("regex", "slow").poll()}
    assert len(grammars) == 1 and compiler.compiled == ["slow"]
    assert isinstance(grammars.pop(), CompiledGrammar)
    (stats,) = manager.stats()
    assert (stats.kind, stats.source, stats.hits, stats.error) == ("regex", "slow", 20, None)
    assert stats.n_states == 6 and stats.compile_seconds > 0 and stats.nbytes > 0


def test_from_many_threads(compiler, manager):
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append([manager.request("regex", f"a{{{n}}}").wait() for n in range(1, 9)])
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(row == found[0] for row in found)
    assert sorted(compiler.compiled) == [f"a{{{n}}}" for n in range(1, 9)]


def test_keys_carry_the_kind_and_the_options(manager):
    requests = [
        ("regex", '"a"', {}),
        ("regex", '"a"', {"flavor": "ecma"}),
        ("json_schema", '{"const": "a"}', {}),
        ("json_schema", {"const": "a"}, {}),
        ("json_schema", {"const": "a"}, {"draft": 7}),
    ]
    grammars = [manager.request(kind, source, **options).wait() for kind, source, options in requests]
    assert len(set(map(id, grammars))) == 4 and grammars[2] is grammars[3]
    assert not grammars[0].machine.matches(b'x"a"') and grammars[1].machine.matches(b'x"a"')


def test_the_order_of_members_is_part_of_the_key(manager):
    one, other = (
        manager.request("json_schema", {"properties": dict.fromkeys(names, True), "type": "object"}).wait()
        for names in ("ab", "ba")
    )
    assert one.machine.matches(b'{"a":1,"b":1}') and not other.machine.matches(b'{"a":1,"b":1}')


def test_a_schema_that_changes_afterwards(compiler, manager):
    slow = [manager.request("regex", f"slow{i}") for i in range(2)]
    schema = {"const": 1}
    pending = manager.request("json_schema", schema)
    schema["const"] = 2
    compiler.gate.set()
    assert pending.wait().machine.matches(b"1") and all(one.wait() for one in slow)


NESTED = functools.reduce(lambda inner, _: {"items": inner}, range(3000), {})


@pytest.mark.parametrize(
    ("kind", "source", "options", "message"),
    [
        ("regex", "a(", {}, "no closing"),
        ("regex", 7, {}, "a pattern is a str, not int"),
        ("regex", "a", {"flavour": 1}, "flavour"),
        ("json_schema", {"type": "strin"}, {}, "#/type"),
        ("json_schema", object(), {}, "neither a JSON Schema"),
        ("json_schema", {"not": {}}, {}, "no value"),
        ("json_schema", NESTED, {}, "max_depth=400 exceeded"),
        ("structural_tag", NESTED, {}, "structural_tag: nests too deeply to be read"),
        ("nonsense", "a", {}, "no kind of constraint 'nonsense'"),
        (None, "a", {}, "no kind of constraint None"),
    ],
)
def test_what_is_wrong_with_a_constraint_is_its_own_error(manager, kind, source, options, message):
    assert message in refused(manager.request(kind, source, **options).wait(5))
    assert message in refused(manager.validate(kind, source, **options))
    assert manager.validate("regex", "ab*") is None
    assert manager.request("regex", "ok").wait(5).machine.matches(b"ok")


def test_failures_are_remembered_with_their_message(compiler, manager):
    messages = {refused(manager.request("regex", "a(").wait()) for _ in range(3)}
    assert len(messages) == 1 and compiler.compiled == ["a("]
    assert manager.stats()[0].error in messages


def test_validation_does_not_compile_what_is_large(compiler, manager):
    began = time.thread_time()
    assert manager.validate("regex", r"(a|b)*a(a|b){22}") is None
    assert manager.validate("json_schema", {"type": "array", "items": {"maxLength": 10**6, "type": "string"}}) is None
    assert time.thread_time() - began < 2 and not compiler.compiled and not manager.stats()


def test_validation_looks_at_its_clock_within_a_rule(manager, monkeypatch):
    looked_at = []
    weight = rules._weight
    monkeypatch.setattr(rules, "_weight", lambda *arguments: looked_at.append(arguments) or weight(*arguments))
    source = "root ::= " + " | ".join(f'"{n}"' for n in range(1000))
    assert manager.validate("grammar", source) is None and len(looked_at) >= 1000
    looked_at.clear()
    monkeypatch.setattr(manager_module, "VALIDATION_SECONDS", 0)
    assert manager.validate("grammar", source) is None and len(looked_at) < 2


def test_a_limit_that_is_reached():
    with GrammarManager(Scripted(max_states=1000)) as manager:
        assert "max_states=1000" in refused(manager.request("regex", r"(a|b)*a(a|b){14}").wait(30))


def test_timeouts_are_of_requests(compiler, manager):
    short, long = manager.request("regex", "slow", timeout=0.05), manager.request("regex", "slow", timeout=30)
    assert "more than 0.05 seconds" in refused(short.wait(), "timeout")
    assert long.poll() is None
    compiler.gate.set()
    assert isinstance(long.wait(), CompiledGrammar)
    assert refused(short.poll(), "timeout") and compiler.compiled == ["slow"]


def test_compilations_that_are_given_up_do_not_hold_up_others(compiler, manager):
    stuck = [manager.request("regex", f"slow{i}", timeout=0.05) for i in range(2)]  # both threads
    behind = manager.request("regex", "behind")
    for one in stuck:
        refused(one.wait(), "timeout")
    assert isinstance(behind.wait(10), CompiledGrammar)


def test_cancelling(compiler, manager):
    running = [manager.request("regex", f"slow{i}") for i in range(2)]
    while manager.n_running < 2:
        time.sleep(0.001)
    mine, theirs, alone = (manager.request("regex", pattern) for pattern in ("shared", "shared", "alone"))
    mine.cancel(), alone.cancel()
    refused(mine.poll(), "cancelled"), refused(alone.poll(), "cancelled")
    compiler.gate.set()
    assert isinstance(theirs.wait(), CompiledGrammar) and all(
        isinstance(one.wait(), CompiledGrammar) for one in running
    )
    mine.cancel()
    refused(mine.poll(), "cancelled")
    assert "alone" not in compiler.compiled
    assert isinstance(manager.request("regex", "alone").wait(), CompiledGrammar)  # another time it is compiled


def test_threads_that_die(compiler, manager):
    dead = [manager.request("regex", f"die{i}") for i in range(5)]
    assert all("died" in refused(one.wait(10), "lost") for one in dead)
    assert isinstance(manager.request("regex", "alive").wait(10), CompiledGrammar)
    assert "died" in refused(manager.request("regex", "die0").wait(10), "lost")
    assert compiler.compiled.count("die0") == 2  # not remembered: it was not the constraint's fault


def test_a_thread_that_ends_without_a_word(compiler, manager, monkeypatch):
    monkeypatch.setattr("fsmc.runtime.grammar_workers.Job.finish", lambda *_: None)
    pending = manager.request("regex", "die")
    while pending._job.thread is None or pending._job.thread.is_alive():
        time.sleep(0.001)
    monkeypatch.undo()
    manager._threads._running[pending._job.thread] = pending._job  # as if not even its last words had been said
    assert "died" in refused(pending.wait(5), "lost")
    assert isinstance(manager.request("regex", "alive").wait(10), CompiledGrammar)


def test_memory_that_runs_out_is_not_remembered(compiler, manager):
    for _ in range(2):
        refused(manager.request("regex", "memory").wait())
    assert compiler.compiled == ["memory", "memory"]


def test_closing(compiler):
    manager = GrammarManager(compiler, max_workers=1)
    running, waiting = manager.request("regex", "slow"), manager.request("regex", "b")
    while manager.n_running < 1:
        time.sleep(0.001)
    manager.close()
    assert "closed" in refused(waiting.wait(), "cancelled")
    assert "closed" in refused(manager.request("regex", "c").wait(), "cancelled")
    compiler.gate.set()
    assert isinstance(running.wait(), CompiledGrammar)


def test_what_runs_when_python_ends_comes_to_its_limits(monkeypatch):
    monkeypatch.setattr(jit, "_is_over", False)
    began = threading.Event()

    class Endless(GrammarCompiler):
        def compile_regex(self, pattern, **options):
            for n in itertools.count():
                began.set()
                super().compile_regex("(a|b)*a(a|b){9}|" + "x" * n, **options)

    manager = GrammarManager(Endless(VOCAB, cache_dir=None), max_workers=1, timeout=1000)
    runs, waits = manager.request("regex", "a"), manager.request("regex", "b")
    assert began.wait(30)
    manager._threads.begin_to_end()
    manager._threads.wait_to_end(time.monotonic() + 30)
    assert manager.n_running == manager.n_waiting == 0
    assert refused(waits._job.outcome, "cancelled") and "max_seconds" in refused(runs._job.outcome)


def test_what_begins_when_python_ends_comes_to_its_limits_too(monkeypatch):
    monkeypatch.setattr(jit, "_is_over", True)
    for _ in range(2):
        with pytest.raises(LimitExceeded, match="max_seconds"):
            GrammarCompiler(VOCAB, cache_dir=None).compile_regex("(a|b)*a(a|b){9}")


def test_more_than_may_wait(compiler):
    with GrammarManager(compiler, max_workers=1, max_waiting=2) as manager:
        running = manager.request("regex", "slow")
        while manager.n_running < 1:
            time.sleep(0.001)
        waiting = [manager.request("regex", pattern) for pattern in "abc"]
        assert "try later" in refused(waiting[2].poll(), "lost")
        compiler.gate.set()
        assert all(isinstance(one.wait(), CompiledGrammar) for one in (running, *waiting[:2]))


def test_memory_is_bounded_and_the_oldest_go(compiler):
    with GrammarManager(compiler, max_workers=1, max_bytes=60_000) as manager:
        kept = manager.request("regex", "k{9}").wait()
        for n in range(40):
            manager.request("regex", f"x{{{n + 1}}}y").wait()
            assert manager.request("regex", "k{9}").wait() is kept  # in use
        deadline = time.monotonic() + 5
        while manager.nbytes > 60_000 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert manager.nbytes <= 60_000 and manager.n_evictions > 0
        sources = [stats.source for stats in manager.stats()]
        assert "k{9}" in sources and "x{1}y" not in sources and "x{40}y" in sources
        assert GrammarMatcher(kept).accept_bytes(b"k" * 9)


def test_the_disk_cache_lies_below(tmp_path):
    for times in range(2):
        with GrammarManager(GrammarCompiler(VOCAB, cache_dir=tmp_path)) as manager:
            assert isinstance(manager.request("regex", "ab+c").wait(), CompiledGrammar)
            assert manager.stats()[0].from_cache == bool(times)


@pytest.mark.parametrize(("option", "value"), [("max_workers", 0), ("max_bytes", -1), ("timeout", -0.5)])
def test_options_that_make_no_sense(compiler, option, value):
    with pytest.raises(ValueError, match=option):
        GrammarManager(compiler, **{option: value})


# --------------------------------------------------------------------------------------------------------------- queues


def test_requests_that_are_not_ready_do_not_hold_up_those_behind(compiler, manager):
    queue = GrammarQueue(manager)
    queue.add("first", "regex", "slow")
    queue.add("second", "regex", "quick")
    queue.add("third", "regex", "(")
    taken = []
    while len(taken) < 2:
        taken += queue.take_ready()
    assert dict(taken).keys() == {"second", "third"} and "first" in queue and len(queue) == 1
    with pytest.raises(ValueError, match="waits already"):
        queue.add("first", "regex", "b")
    compiler.gate.set()
    while len(queue):
        taken += queue.take_ready()
    assert [name for name, _ in taken][2:] == ["first"] and queue.take_ready() == []


def test_aborting(compiler, manager):
    queue = GrammarQueue(manager)
    queue.add("a", "regex", "slow")
    assert queue.abort("a") and not queue.abort("a") and len(queue) == 0
    queue.add("a", "regex", "b")
    while len(queue):
        for name, outcome in queue.take_ready():
            assert name == "a" and isinstance(outcome, CompiledGrammar)


def test_two_hundred_requests_of_which_many_are_bad():
    """Bad schemas, limits, aborts at random, threads that die: every request ends, with a grammar or an error of its own."""
    rng = random.Random(5)
    compiler = Scripted(max_states=20_000)
    compiler.gate.set()
    bad = [
        lambda i: ("json_schema", {"type": f"strin{i}"}),
        lambda i: ("json_schema", {"$ref": f"#/nowhere{i}"}),
        lambda i: ("json_schema", f'{{"const": {i}'),
        lambda i: ("regex", f"({i}"),
        lambda i: ("regex", rf"(a|b)*a(a|b){{20}}{i}"),  # the limit
        lambda i: ("regex", f"die{i}"),
        lambda i: ("nonsense", i),
    ]
    with GrammarManager(compiler, max_workers=2, max_bytes=1 << 20) as manager:
        queue = GrammarQueue(manager)
        aborted, ended, is_bad = set(), {}, {}
        for i in range(200):
            name = f"request {i}"
            is_bad[name] = rng.random() < 0.3
            source = rng.choice(bad)(i) if is_bad[name] else ("json_schema", {"const": i % 40})
            queue.add(name, *source)
            for done, outcome in queue.take_ready():
                ended[done] = outcome
            if rng.random() < 0.15:
                victim = f"request {rng.randrange(i + 1)}"
                if queue.abort(victim):
                    aborted.add(victim)
        deadline = time.monotonic() + 60
        while len(queue):
            assert time.monotonic() < deadline, "a request hangs"
            ended.update(queue.take_ready())
            time.sleep(0.001)
        assert ended.keys() | aborted == is_bad.keys() and not ended.keys() & aborted
        for name, outcome in ended.items():
            assert isinstance(outcome, InvalidGrammar) == is_bad[name], (name, outcome)
        assert len({outcome.message for name, outcome in ended.items() if is_bad[name]}) > 20
        assert aborted and manager.n_waiting == 0
    deadline = time.monotonic() + 10
    while any(thread.name == "fsmc-compile" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "threads are left"
        time.sleep(0.01)


def test_patterns_get_their_whole_index():
    compiler = GrammarCompiler(VOCAB, cache_dir=None)
    for states, whole in ((10_000, True), (5, False)):
        with GrammarManager(compiler, max_index_states=states) as manager:
            assert (manager.request("regex", "a{3,9}").wait().index is not None) is whole
            assert manager.request("json_schema", {"type": "null"}).wait().index is None


@pytest.mark.parametrize(
    "kind, source",
    [
        ("regex", "({}" + "x" * 100_000),
        ("json_schema", '{{"type": "frob{}' + "x" * 100_000 + '"}}'),
        ("grammar", "root ::= {} '" + "x" * 100_000),
        ("choice", ["{}", 5, "x" * 100_000]),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_failures_count_for_the_bound_with_their_text(kind, source):
    def numbered(i):
        return source.format(i) if isinstance(source, str) else [source[0].format(i), *source[1:]]

    manager = GrammarManager(GrammarCompiler(VOCAB, cache_dir=None), max_bytes=1_000_000)
    assert isinstance(manager.request(kind, numbered(0)).wait(), InvalidGrammar)
    gc.collect()
    tracemalloc.start()
    for i in range(1, 40):
        failure = manager.request(kind, numbered(i)).wait()
        assert isinstance(failure, InvalidGrammar) and failure.error.__traceback__ is None
        assert manager.nbytes <= 1_000_000
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    manager.close()
    assert held < 2_000_000


def test_arguments_that_are_none(manager):
    compiler = manager.compiler
    for options in (
        *({"timeout": None}, {"timeout": "5"}, {"max_waiting": "x"}, {"max_workers": 1.5}, {"max_bytes": 2.5}),
        {"max_index_states": None},
    ):
        with pytest.raises(TypeError, match=f"{next(iter(options))} must be"):
            GrammarManager(compiler, **options)
    for options in ({"timeout": float("nan")}, {"timeout": -1}, {"max_waiting": -1}, {"max_workers": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            GrammarManager(compiler, **options)
    with pytest.raises(TypeError, match="compiler must be a GrammarCompiler, not NoneType"):
        GrammarManager(None)
    with pytest.raises(ValueError, match="timeout=nan must be a number"):
        manager.request("regex", "a", timeout=float("nan"))
    with pytest.raises(TypeError, match="timeout must be a number of seconds, not 'x'"):
        manager.request("regex", "a", timeout="x")
    assert manager.request("regex", "a{3}", timeout=-1).wait().reason == "timeout"


def test_grammars_that_grow_while_they_are_walked_are_dropped_in_time(compiler):
    schema = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": ["string", "number"]}}}
    with GrammarManager(compiler, max_workers=1) as manager:
        grammars = [manager.request("json_schema", {"title": str(n), **schema}).wait() for n in range(3)]
        manager.max_bytes = manager.nbytes + 1000
        for grammar in grammars:
            matcher = GrammarMatcher(grammar)
            mask = allocate_token_bitmask(1, grammar.vocab.size)
            for byte in b'{"abc": ["x", 12.5e3, "yz"], "d": []}':
                matcher.fill_next_token_bitmask(mask)
                assert matcher.accept_bytes(bytes([byte]))
        assert manager.nbytes <= manager.max_bytes and manager.n_evictions > 0
        assert sum(stats.nbytes for stats in manager.stats()) <= manager.max_bytes
        assert manager.stats()[-1].source.startswith('{"title": "2"')


def test_what_is_kept_is_not_measured_at_every_request(manager, monkeypatch):
    measured = []
    monkeypatch.setattr(manager_module, "_MEASURE_SECONDS", 30)
    size = manager_module._size
    monkeypatch.setattr(manager_module, "_size", lambda job: measured.append(job) or size(job))
    for i in range(100):
        manager.request("regex", f"a{{{i}}}").wait()
    deadline = time.monotonic() + 30
    while len(measured) < 100 and time.monotonic() < deadline:
        time.sleep(0.01)
    for i in range(100):
        manager.request("regex", f"a{{{i}}}").wait()
    assert len(measured) <= 300, "once when it is made, once when it is asked for, and all of them now and then"
    assert manager._total == manager.nbytes
    manager.max_bytes = manager.nbytes
    measured.clear()
    for i in range(100, 150):  # at the bound, too
        manager.request("regex", f"a{{{i}}}").wait()
    deadline = time.monotonic() + 30
    while len(measured) < 50 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(measured) <= 250 and manager.n_evictions > 0 and manager._total <= manager.max_bytes


@pytest.mark.parametrize("give_up", ["poll", "cancel", "release"])
def test_a_request_that_several_threads_give_up_is_given_up_once(compiler, manager, monkeypatch, give_up):
    """Who waits for the same grammar still does."""
    for _ in range(2):  # the threads of the manager
        manager.request("regex", f"slow{_}")
    mine, other = manager.request("regex", "ab", timeout=60), manager.request("regex", "ab", timeout=60)
    n_left = []
    leave = manager.leave
    monkeypatch.setattr(manager, "leave", lambda job: (n_left.append(job), leave(job)))

    def slowly():
        now = manager_module.time.monotonic() + (1e9 if give_up == "poll" else 0)
        time.sleep(0.05)  # all the threads come to this point before one is past it
        return now

    monkeypatch.setattr(manager_module, "working_seconds", slowly)
    threads = [threading.Thread(target=getattr(mine, give_up)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    assert len(n_left) == 1
    compiler.gate.set()
    assert isinstance(other.wait(30), CompiledGrammar)


def test_what_gets_ready_while_sizes_are_measured_counts(manager, monkeypatch):
    size = manager_module._size

    def keep(pattern, n_kept):
        assert isinstance(manager.request("regex", pattern).wait(30), CompiledGrammar)
        deadline = time.monotonic() + 30
        while len(manager._sizes) < n_kept and time.monotonic() < deadline:
            time.sleep(0.01)

    def slowly(job):
        monkeypatch.setattr(manager_module, "_size", size)
        keep("b{3}", 2)
        return size(job)

    keep("a{3}", 1)
    monkeypatch.setattr(manager_module, "_size", slowly)
    manager._measure()
    assert len(manager._sizes) == 2 and manager._total == sum(manager._sizes.values())
