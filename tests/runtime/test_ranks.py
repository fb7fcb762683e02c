"""Tensor-parallel ranks over gloo: what is ready on all is ready, what fails on one fails, and who dies holds up nobody for long."""

import os
import time

import pytest

from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.grammar_queue import GrammarQueue
from fsmc.runtime.grammar_workers import InvalidGrammar
from fsmc.runtime.manager import GrammarManager
from fsmc.runtime.ranks import RankAgreement

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

VOCAB = Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])


class Uneven(GrammarCompiler):
    """On rank 1 some patterns are slow, some fail, some end the process."""

    def __init__(self, rank):
        super().__init__(VOCAB, cache_dir=None)
        self.rank = rank

    def compile_regex(self, pattern, **options):
        if self.rank == 1:
            if "s" in pattern:
                time.sleep(0.4)
            if "f" in pattern:
                raise ValueError("only here")
            if "d" in pattern:
                os._exit(3)
        return super().compile_regex(pattern.replace("s", "a").replace("d", "a").replace("f", "a"), **options)


def run(rank, n_ranks, folder, body):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=n_ranks)
    with GrammarManager(Uneven(rank), max_workers=1) as manager:
        said = body(rank, n_ranks, manager)
    with open(f"{folder}/{rank}", "w") as file:
        file.write(repr(said))
    os._exit(0)  # without waiting for ranks that died


def spawn(n_ranks, folder, body):
    """What each rank said; None for those that died."""
    context = mp.get_context("spawn")
    processes = [context.Process(target=run, args=(rank, n_ranks, str(folder), body)) for rank in range(n_ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
        assert process.exitcode is not None, "a rank hangs"
    return [(folder / str(rank)).read_text() if (folder / str(rank)).exists() else None for rank in range(n_ranks)]


def rounds(queue, until=30.0):
    """All that came out, by rounds in which something did."""
    said, deadline = [], time.monotonic() + until
    while len(queue):
        assert time.monotonic() < deadline
        taken = queue.take_ready()
        if taken:
            said.append([(name, getattr(outcome, "message", "ready")) for name, outcome in taken])
        time.sleep(0.01)
    return said


def slow_failing_then_dead(rank, n_ranks, manager):
    """Of one group: a rank is slow, and fails; with four ranks, the same again as two stages of two; then rank 1 dies."""
    queue = GrammarQueue(manager, RankAgreement(dist.group.WORLD, timeout=10))
    for name, pattern in {"fine": "a", "failing": "fa", "slow": "sa"}.items():
        queue.add(name, "regex", pattern)
    together, staged, follows = rounds(queue), [], False
    if n_ranks == 4:
        tensor = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        pipeline = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        ranks = RankAgreement(tensor[rank // 2], pipeline[rank % 2])
        follows = ranks.follows
        stage = GrammarQueue(manager, ranks)
        for name, pattern in {"fine": "ab", "slow": "sb", "failing": "f"}.items():
            stage.add(name, "regex", pattern)
        staged = rounds(stage)
    queue.add("deadly", "regex", "d")
    lost = rounds(queue)
    queue.add("later", "regex", "a")
    return together, follows, staged, lost + rounds(queue)


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_one_rank_is_slow_fails_and_dies(n_ranks, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    said = spawn(n_ranks, tmp_path, slow_failing_then_dead)
    assert said.pop(1) is None
    said = [eval(one) for one in said]
    for together, _, staged, lost in said:
        assert together == said[0][0] and staged == said[0][2]
        expected = {"fine": "ready", "failing": "only here", "slow": "ready"}
        assert dict(pair for taken in together for pair in taken) == expected
        assert n_ranks == 2 or dict(pair for taken in staged for pair in taken) == expected
        (deadly,), (later,) = lost
        assert deadly[0] == "deadly" and later[0] == "later"
        assert "a rank does not answer" in deadly[1] and "a rank does not answer" in later[1]
    assert [follows for _, follows, *_ in said] == [False, True, True][: len(said)]


def test_alone():
    assert RankAgreement().agree(["a", "b"], {"b": "no", "c": "never"}) == ({"a"}, {"b": "no", "c": "never"})
    with GrammarManager(Uneven(0)) as manager:
        queue = GrammarQueue(manager, RankAgreement())
        queue.add("a", "regex", "a")
        assert rounds(queue) == [[("a", "ready")]]
        queue.add("b", "regex", "(")
        while len(queue):
            taken = queue.take_ready()
        assert isinstance(taken[0][1], InvalidGrammar)
