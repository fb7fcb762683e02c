"""The backend in SGLang's own classes: registration, GrammarManager, batched masks, the tree of drafts, the reasoner wrapper.

Runs in an environment that has them (``bash tests/engines/run.sh sglang``).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sglang", reason="SGLang is tested in an environment of its own: bash tests/engines/run.sh sglang")

import engine_stubs  # noqa: F401  # what only pictures need
import torch
from engine_cases import CASES, EBNF, PATTERN, SCHEMA, TAG, allowed_ids, choose, toy_tokenizer
from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject, create_grammar_backend
from sglang.srt.constrained.grammar_manager import GrammarManager
from sglang.srt.plugins import load_plugins
from sglang.srt.runtime_context import get_context, get_parallel
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.server_args import GRAMMAR_BACKEND_CHOICES
from sglang.srt.speculative.spec_utils import traverse_tree

import fsmc
from fsmc.runtime.adapters import sglang_plugin
from fsmc.runtime.adapters.sglang import FsmcGrammar, FsmcGrammarBackend

load_plugins()
TOKENIZER = toy_tokenizer()
EOS = TOKENIZER.eos_token_id
VOCAB_SIZE = 420  # logits are wider than the tokenizer
KEYS = {
    "json": json.dumps(SCHEMA),
    "json_object": '{"type": "object"}',
    "regex": PATTERN,
    "grammar": EBNF,
    "structural_tag": json.dumps(TAG),
}
PARAMETERS = {"json": "json_schema", "json_object": "json_schema", "grammar": "ebnf"}


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    with (
        get_context().override_server_args(grammar_backend="fsmc"),
        get_parallel().override(pp_rank=0, tp_rank=0, pp_size=1, tp_size=1),
    ):
        yield


def make_backend() -> Any:
    return create_grammar_backend(None, TOKENIZER, VOCAB_SIZE, {EOS})


def dispatch(backend: Any, kind: str, text: str, reasoning: bool = False) -> Any:
    return backend._init_value_dispatch((kind, text), reasoning)


def make_manager(backend: Any) -> Any:
    """SGLang's queue of grammars beside a scheduler that is not there."""
    manager = object.__new__(GrammarManager)
    manager.grammar_backend, manager.grammar_queue = backend, []
    manager.grammar_sync_size = manager.pp_size = 1
    manager.pp_rank = 0
    manager.SGLANG_GRAMMAR_POLL_INTERVAL, manager.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS = 0.01, 10_000
    manager._enable_strict_thinking = False
    manager._get_request_thinking_budget = lambda request: None
    manager._apply_request_reasoning_config = lambda request: None
    manager._pp_sync_ready_failed = lambda ready, failed: (ready, failed)
    return manager


class Req:
    def __init__(self, **asked: str) -> None:
        names = ("json_schema", "regex", "ebnf", "structural_tag")
        self.sampling_params = SimpleNamespace(
            **{name: asked.get(name) for name in names}, ebnf_full_assistant=False, custom_params=None
        )
        self.origin_input_ids, self.require_reasoning = [1], False
        self.grammar: Any = None
        self.grammar_key: Any = None
        self.grammar_wait_ct, self.error = 0, ""

    def finished(self) -> bool:
        return bool(self.error)

    def set_finish_with_abort(self, message: str) -> None:
        self.error = message


def ask(manager: Any, *requests: Req) -> None:
    """Through SGLang's queue until every request is ready or has failed."""
    for request in requests:
        manager.process_req_with_grammar(request)
    until = time.monotonic() + 60
    while manager.grammar_queue:
        assert time.monotonic() < until
        manager.get_ready_grammar_requests()


def masks(grammars: list[Any]) -> Any:
    """The rows of a batch, filled as the scheduler does it."""
    batch = object.__new__(SamplingBatchInfo)
    batch.grammars, batch.vocab_size, batch.device = grammars, VOCAB_SIZE, "cpu"
    batch.temperatures = torch.ones(len(grammars), 1)
    batch.grammar_mask = None
    batch.update_regex_vocab_mask()
    return batch.grammar_mask


def test_the_entry_point_and_the_option() -> None:
    (found,) = [entry for entry in entry_points(group="sglang.srt.plugins") if entry.name == "fsmc"]
    assert found.load() is sglang_plugin.register
    sglang_plugin.register()  # again: nothing changes
    assert GRAMMAR_BACKEND_CHOICES.count("fsmc") == 1
    assert isinstance(make_backend(), FsmcGrammarBackend)


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_request_in_one_batch(seed: int) -> None:
    manager = make_manager(make_backend())
    cases = [case for case in CASES if case.kind in KEYS]
    requests = [Req(**{PARAMETERS.get(case.kind, case.kind): KEYS[case.kind]}) for case in cases]
    ask(manager, *requests)
    rng, ids = random.Random(seed), [[] for _ in cases]
    for step in range(1000):
        rows = masks([request.grammar for request in requests])
        logits = torch.zeros(len(cases), VOCAB_SIZE)
        rows.apply(logits)
        for i, request in enumerate(requests):
            allowed = [token for token in allowed_ids(rows.vocab_mask[i]) if token < VOCAB_SIZE]
            assert torch.isfinite(logits[i]).nonzero().flatten().tolist() == allowed
            if request.grammar.is_terminated():
                assert len(allowed) == VOCAB_SIZE, "a row that has ended is not constrained"
                continue
            token = choose(allowed, rng, request.grammar.matcher, closing=step > 40)
            request.grammar.accept_token(token)
            ids[i].append(token)
        if all(request.grammar.is_terminated() for request in requests):
            break
    for case, row in zip(cases, ids, strict=True):
        assert row[-1] == EOS and case.is_valid(TOKENIZER.decode(row[:-1])), (case.kind, TOKENIZER.decode(row))


def test_any_json() -> None:
    grammar = dispatch(make_backend(), "json", "$$ANY$$")
    for token in [*TOKENIZER.encode('[1, {"a": null}]'), EOS]:
        grammar.accept_token(token)
    assert grammar.is_terminated()


def test_the_same_masks_as_xgrammar() -> None:
    """Where both are exact, along the same tokens: for regexes and grammars."""
    module = pytest.importorskip("sglang.srt.constrained.xgrammar_backend")
    theirs = module.XGrammarGrammarBackend(TOKENIZER, VOCAB_SIZE, [EOS])
    for kind, text in (("regex", PATTERN), ("ebnf", EBNF)):
        pair = [dispatch(backend, kind, text) for backend in (make_backend(), theirs)]
        rng = random.Random(3)
        for _ in range(12):
            rows = [grammar.allocate_vocab_mask(VOCAB_SIZE, 1, "cpu") for grammar in pair]
            for grammar, row in zip(pair, rows, strict=True):
                grammar.fill_vocab_mask(row, 0)
            allowed = [allowed_ids(row[0]) for row in rows]
            assert allowed[0] == allowed[1]
            token = rng.choice(allowed[0])
            for grammar in pair:
                grammar.accept_token(token)
            if token == EOS:
                assert all(grammar.is_terminated() for grammar in pair)
                break


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"json_schema": '{"type": "strin"}'}, "strin"),
        ({"json_schema": "{"}, "JSON"),
        ({"json_schema": '{"type": "string", "minLength": 3, "maxLength": 2}'}, "no value"),
        ({"regex": "(a"}, "no closing"),
        ({"ebnf": "root ::= missing"}, "missing"),
        ({"structural_tag": '{"type": "structural_tag", "format": {"type": "nothing"}}'}, "nothing"),
    ],
)
def test_what_cannot_be_compiled_ends_its_request_alone(asked: dict[str, str], message: str) -> None:
    manager = make_manager(make_backend())
    bad, good, again = Req(**asked), Req(regex="a"), Req(**asked)
    ask(manager, bad, good)
    assert message.lower() in bad.error.lower(), bad.error
    assert isinstance(good.grammar, FsmcGrammar) and not good.error
    ask(manager, again)  # from SGLang's cache
    assert again.error == bad.error


def test_a_cached_grammar_starts_afresh_and_says_so() -> None:
    manager = make_manager(make_backend())
    first, second = Req(regex=PATTERN), Req(regex=PATTERN)
    ask(manager, first)
    first.grammar.accept_token(TOKENIZER.encode("1")[0])
    ask(manager, second)
    assert second.grammar.matcher.n_entries == 0
    stats = [request.grammar.grammar_stats for request in (first, second)]
    assert [(one.dispatch_type, one.is_cache_hit) for one in stats] == [("regex", False), ("regex", True)]
    assert stats[0].compilation_time > 0
    assert manager.grammar_backend.manager.stats()[0].kind == "regex"


def test_a_refused_token_is_a_value_error_that_says_why() -> None:
    grammar = dispatch(make_backend(), "regex", "yes")
    with pytest.raises(ValueError, match="here comes 'y'"):
        grammar.accept_token(TOKENIZER.encode("x")[0])
    for token in [*TOKENIZER.encode("yes"), EOS, EOS]:
        grammar.accept_token(token)  # what comes after the end does not count
    assert grammar.is_terminated()
    grammar.rollback(1)
    assert not grammar.is_terminated()


def test_a_tree_of_drafts() -> None:
    """SGLang's own walk over the tree 0 ─ 1 ─ 2 ─ EOS, with siblings of 1 and 2, one of them refused."""
    grammar = dispatch(make_backend(), "regex", "[ab]{2}")
    a, b, x = (TOKENIZER.encode(text)[0] for text in "abx")
    tokens = torch.tensor([0, a, b, EOS, x, b])
    next_token = torch.tensor([1, 2, 3, -1, -1, -1])
    next_sibling = torch.tensor([-1, 4, -1, -1, 5, -1])  # 1, 4 and 5 are siblings
    mask = grammar.allocate_vocab_mask(VOCAB_SIZE, len(tokens), "cpu")
    traverse_tree(next_token, next_sibling, tokens, grammar, mask, VOCAB_SIZE)
    expected = []
    for text in ("", "a", "ab", None, None, "b"):
        matcher = fsmc.GrammarMatcher(grammar.matcher.grammar)
        row = torch.full((1, mask.shape[1]), -1, dtype=torch.int32)
        if text is not None:  # rows after the end, or after a token that is refused, stay as they were
            assert matcher.accept_bytes(text.encode())
            matcher.fill_next_token_bitmask(row)
        expected.append(allowed_ids(row[0]))
    assert [allowed_ids(row) for row in mask] == expected
    assert grammar.matcher.n_entries == 0, "it stands where it stood"


def test_thinking_comes_first() -> None:
    """The wrapper that SGLang puts around its own backends, made by the factory because of --reasoning-parser."""
    with get_context().override_server_args(grammar_backend="fsmc", reasoning_parser="qwen3"):
        backend = make_backend()
        assert type(backend).__name__ == "ReasonerGrammarBackend"
        grammar = dispatch(backend, "regex", PATTERN, reasoning=True)
        rows = masks([grammar])
        assert len(allowed_ids(rows.vocab_mask[0])) >= VOCAB_SIZE
        for token in [*TOKENIZER.encode("hm"), *backend.think_end_ids]:
            grammar.accept_token(token)
        direct = fsmc.GrammarMatcher(grammar.grammar.matcher.grammar)
        row = torch.zeros((1, 14), dtype=torch.int32)
        direct.fill_next_token_bitmask(row)
        assert allowed_ids(masks([grammar]).vocab_mask[0]) == allowed_ids(row[0])
        grammar.accept_token(TOKENIZER.encode("19")[0])
        grammar.rollback(2)
        assert len(allowed_ids(masks([grammar]).vocab_mask[0])) >= VOCAB_SIZE, "back in the thinking"


def test_the_token_filter_of_strict_thinking() -> None:
    mask = torch.full((2, 14), -1, dtype=torch.int32)
    tokens = [0, 31, 63, 100]
    FsmcGrammarBackend.set_token_filter(mask, tokens, 1, is_allowed=False, reset_vocab_mask=False)
    assert sorted(set(range(448)) - set(allowed_ids(mask[1]))) == tokens
    FsmcGrammarBackend.set_token_filter(mask, tokens, 1)
    assert allowed_ids(mask[1]) == tokens
    assert len(allowed_ids(mask[0])) == 448


def test_jumping_forward_for_forks_that_do() -> None:
    grammar = dispatch(make_backend(), "regex", r'\{"name": "[a-z]{1,5}"\}')
    old = TOKENIZER.encode("{")
    for token in old:
        grammar.accept_token(token)
    helper = grammar.try_jump_forward(TOKENIZER)
    text, state = grammar.jump_forward_str_state(helper)
    assert text == '"name": "'
    new = TOKENIZER.encode("{" + text)
    grammar.jump_and_retokenize(old, new, state)
    assert grammar.matcher.n_entries == len(new)
    with pytest.raises(ValueError, match="not allowed"):
        grammar.jump_and_retokenize(new, [*old, *TOKENIZER.encode("x")], state)
    assert grammar.matcher.n_entries == len(new), "nothing has changed"


def test_invalid_objects_are_theirs() -> None:
    invalid = dispatch(make_backend(), "regex", r"(a)\1")
    assert isinstance(invalid, InvalidGrammarObject) and "back-reference" in invalid.error_message
