"""The backend in vLLM's own classes: configuration, request validation, StructuredOutputManager, drafts, reasoning.

Runs in an environment that has them (``bash tests/engines/run.sh vllm``).
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is tested in an environment of its own: bash tests/engines/run.sh vllm")

import torch
from engine_cases import CASES, EBNF, PATTERN, SCHEMA, Case, allowed_ids, choose, toy_tokenizer
from vllm.config import StructuredOutputsConfig
from vllm.exceptions import VLLMValidationError
from vllm.plugins import load_general_plugins
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1 import structured_output
from vllm.v1.request import Request

import fsmc
from fsmc.runtime.adapters import vllm_plugin
from fsmc.runtime.adapters.vllm import FsmcBackend

load_general_plugins()
TOKENIZER = toy_tokenizer()
EOS = TOKENIZER.eos_token_id
MODEL = SimpleNamespace(
    is_diffusion=False, skip_tokenizer_init=False, get_vocab_size=lambda: 420, hf_config=SimpleNamespace(model_type="")
)  # logits are wider than the tokenizer


class Reasoner:
    """A reasoning parser: thinking ends with the first newline token."""

    def __init__(self, tokenizer: Any, **_: Any) -> None:
        (self.end,) = tokenizer.encode("\n")

    def is_reasoning_end(self, ids: Any) -> bool:
        return self.end in list(ids)

    def is_reasoning_end_streaming(self, ids: Any, delta: Any) -> bool:
        return self.end in list(delta)


def make_manager(monkeypatch: Any, backend: str = "fsmc", n_drafts: int = 0, **options: Any) -> Any:
    monkeypatch.setattr(structured_output, "cached_tokenizer_from_config", lambda model_config: TOKENIZER)
    config = SimpleNamespace(
        model_config=MODEL,
        structured_outputs_config=StructuredOutputsConfig(backend=backend, **options),
        parallel_config=SimpleNamespace(distributed_executor_backend=None),
        scheduler_config=SimpleNamespace(max_num_seqs=256),
        speculative_config=SimpleNamespace(num_speculative_tokens=n_drafts) if n_drafts else None,
        num_speculative_tokens=n_drafts,
    )
    return structured_output.StructuredOutputManager(config)


def ask(manager: Any, name: str = "r", prompt: tuple[int, ...] = (1, 2), **asked: Any) -> Any:
    """A request through vLLM's own validation and compilation, as front end and engine do it."""
    params = SamplingParams(structured_outputs=StructuredOutputsParams(**asked), max_tokens=100)
    params.update_from_generation_config({}, EOS)
    params._validate_structured_outputs(MODEL, manager.vllm_config.structured_outputs_config, TOKENIZER)
    request = Request(name, list(prompt), params, None)
    manager.grammar_init(request)
    until = time.monotonic() + 60
    while not request.structured_output_request.is_grammar_ready:
        assert time.monotonic() < until
        time.sleep(0.001)
    if isinstance(request.structured_output_request.grammar, Exception):
        raise request.structured_output_request.grammar
    return request


def asked_of(case: Case) -> dict[str, Any]:
    if case.kind == "json_object":
        return {"json_object": True}
    return {case.kind: json.dumps(case.source) if case.kind == "structural_tag" else case.source}


def take(manager: Any, request: Any, tokens: list[int]) -> bool:
    request.append_output_token_ids(tokens)
    return bool(manager.accept_tokens(request, tokens))


def walk(manager: Any, requests: dict[str, Any], seed: int, n_closing: int = 40) -> dict[str, str]:
    """Random tokens under the masks of the whole batch, step by step, until all texts have ended."""
    rng, texts = random.Random(seed), {}
    ids: dict[str, list[int]] = {name: [] for name in requests}
    for step in range(1000):
        names = [name for name in requests if name not in texts]
        if not names:
            return texts
        mask = manager.grammar_bitmask(requests, names, {})
        for row, name in enumerate(names):
            matcher = requests[name].structured_output_request.grammar.matcher
            token = choose(allowed_ids(mask[row]), rng, matcher, closing=step > n_closing)
            assert take(manager, requests[name], [token])
            ids[name].append(token)
            if requests[name].structured_output_request.grammar.is_terminated():
                assert token == EOS
                texts[name] = TOKENIZER.decode(ids[name][:-1])
    raise AssertionError(f"no end after 1000 steps: {ids}")


def test_the_entry_point_and_the_option() -> None:
    (found,) = [entry for entry in entry_points(group="vllm.general_plugins") if entry.name == "fsmc"]
    assert found.load() is vllm_plugin.register
    vllm_plugin.register()  # again: nothing changes
    assert StructuredOutputsConfig(backend="fsmc", disable_any_whitespace=True).backend == "fsmc"
    with pytest.raises(ValueError, match="disable_any_whitespace is only supported"):
        StructuredOutputsConfig(backend="outlines", disable_any_whitespace=True)
    with pytest.raises(ValueError, match="fsmc"):
        StructuredOutputsConfig(backend="fsmcc")


def test_the_command_line_takes_the_name(monkeypatch: Any) -> None:
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    monkeypatch.setattr(vllm.platforms, "_current_platform", CpuPlatform())
    arguments = pytest.importorskip("vllm.engine.arg_utils")
    parser = pytest.importorskip("vllm.utils.argparse_utils").FlexibleArgumentParser()
    parser = arguments.AsyncEngineArgs.add_cli_args(parser)
    for given in (
        ["--structured-outputs-config", '{"backend": "fsmc"}'],
        ["--structured-outputs-config.backend", "fsmc"],
    ):
        assert parser.parse_args(given).structured_outputs_config.backend == "fsmc"


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_request_in_one_batch(monkeypatch: Any, seed: int) -> None:
    manager = make_manager(monkeypatch)
    requests = {case.kind: ask(manager, case.kind, **asked_of(case)) for case in CASES}
    assert isinstance(manager.backend, FsmcBackend)
    texts = walk(manager, requests, seed)
    for case in CASES:
        assert case.is_valid(texts[case.kind]), (case.kind, texts[case.kind])
    manager.clear_backend()


def test_the_same_masks_as_xgrammar(monkeypatch: Any) -> None:
    """Where both are exact, along the same tokens: for regexes, choices and grammars."""
    pytest.importorskip("xgrammar")
    ours, theirs = make_manager(monkeypatch), make_manager(monkeypatch, "xgrammar")
    for asked in ({"regex": PATTERN}, {"choice": ["yes", "no", "not now"]}, {"grammar": EBNF}):
        pair = [(manager, {"r": ask(manager, **asked)}) for manager in (ours, theirs)]
        rng = random.Random(7)
        for _ in range(12):
            rows = [allowed_ids(manager.grammar_bitmask(requests, ["r"], {})[0]) for manager, requests in pair]
            assert rows[0] == rows[1], asked
            token = rng.choice(rows[0])
            assert all(take(manager, requests["r"], [token]) for manager, requests in pair)
            if token == EOS:
                break


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"json": {"type": "strin"}}, "strin"),
        ({"json": "{"}, "JSON"),
        ({"json": {"type": "string", "minLength": 3, "maxLength": 2}}, "no value"),
        ({"regex": "(a"}, r"\("),
        ({"regex": r"(a)\1"}, "back-reference"),
        ({"grammar": "root ::= missing"}, "missing"),
        ({"choice": []}, "empty"),
        ({"structural_tag": '{"type": "structural_tag", "format": {"type": "nothing"}}'}, "nothing"),
        ({"json_object": False}, "must be set"),
        ({"regex": "a", "disable_any_whitespace": True}, "disable_any_whitespace"),
        ({"json": {}, "whitespace_pattern": "x"}, "whitespace_pattern"),
    ],
)
def test_what_is_refused_is_refused_up_front(monkeypatch: Any, asked: dict[str, Any], message: str) -> None:
    manager = make_manager(monkeypatch)
    with pytest.raises(VLLMValidationError, match=f"(?i){message}"):
        ask(manager, **asked)
    assert not manager.backend.manager.stats(), "nothing reached the engine"


def test_white_space_and_members_of_one_request(monkeypatch: Any) -> None:
    """They reach the engine, for this request and no other; asking twice with the same parameters changes nothing."""
    manager = make_manager(monkeypatch)
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    texts = {}
    for name, options in {
        "compact": {"whitespace_pattern": ""},
        "closed": {"disable_additional_properties": True, "whitespace_pattern": ""},
        "plain": {},
    }.items():
        request = ask(manager, name, json=schema, **options)
        grammar = request.structured_output_request.grammar
        texts[name] = [
            text
            for text in ('{"a":1}', '{"a": 1}', '{"a":1,"b":2}')
            if len(grammar.validate_tokens([*TOKENIZER.encode(text), EOS])) == len(TOKENIZER.encode(text)) + 1
        ]
        request.sampling_params._validate_structured_outputs(
            MODEL, manager.vllm_config.structured_outputs_config, TOKENIZER
        )
    assert texts == {
        "compact": ['{"a":1}', '{"a":1,"b":2}'],
        "closed": ['{"a":1}'],
        "plain": ['{"a":1}', '{"a": 1}', '{"a":1,"b":2}'],
    }


def test_white_space_of_structural_tags(monkeypatch: Any) -> None:
    """A request's own word, or the engine's: "json output will always be compact"."""
    tag = json.dumps(
        {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"const": {"a": [1, 2]}}}}
    )

    def accepts(request: Any, text: str) -> bool:
        ids = [*TOKENIZER.encode(text), EOS]
        return request.structured_output_request.grammar.validate_tokens(ids) == ids

    plain = make_manager(monkeypatch)
    compact = make_manager(monkeypatch, disable_any_whitespace=True)
    own = ask(plain, "own", structural_tag=tag, disable_any_whitespace=True)
    for request in (own, ask(compact, "engine's", structural_tag=tag), ask(compact, json={"const": {"a": [1, 2]}})):
        assert accepts(request, '{"a":[1,2]}') and not accepts(request, '{"a": [1, 2]}')
    assert accepts(ask(plain, "plain", structural_tag=tag), '{"a": [1, 2]}')
    own.sampling_params._validate_structured_outputs(MODEL, plain.vllm_config.structured_outputs_config, TOKENIZER)


@pytest.mark.parametrize("schema", ['{"$fsmc": 1}', '{"$fsmc": {"regex": "a"}, "of": {}}', '{"$fsmc": [], "of": 1}'])
def test_what_looks_like_our_wrapping_does_no_harm(monkeypatch: Any, schema: str) -> None:
    with contextlib.suppress(VLLMValidationError):
        ask(make_manager(monkeypatch), json=schema)


def test_drafts_rows_validation_and_the_way_back(monkeypatch: Any) -> None:
    manager = make_manager(monkeypatch, n_drafts=4)
    request = ask(manager, regex=PATTERN)
    plain = make_manager(monkeypatch)
    good = TOKENIZER.encode("1987-1")[:3]
    bad = TOKENIZER.encode("x")
    for draft in (good, [*good[:2], *bad, *bad], [-1, -1], [], [*good, -1]):
        kept = manager.validate_tokens(request, list(draft))
        assert kept == [token for token in draft if token in good][: len(kept)] and len(kept) <= len(good)
        draft = [*kept, *([-1] * (len(draft) - len(kept)))]
        rows = manager.grammar_bitmask({"r": request}, ["r"], {"r": draft})
        for n in range(len(kept) + 1):
            other = ask(plain, f"{draft}{n}", regex=PATTERN)
            assert take(plain, other, kept[:n])
            expected = plain.grammar_bitmask({"o": other}, ["o"], {})[0]
            assert allowed_ids(rows[n]) == allowed_ids(expected), (draft, n)
        assert request.structured_output_request.grammar.validate_tokens(good) == good, "it stands where it stood"
    assert take(manager, request, [*TOKENIZER.encode("1987-12"), EOS, EOS])
    grammar = request.structured_output_request.grammar
    assert grammar.is_terminated() and grammar.validate_tokens([EOS]) == []
    grammar.rollback(2)
    assert not grammar.is_terminated()
    assert not grammar.accept_tokens("r", bad)
    grammar.reset()
    assert grammar.validate_tokens([*TOKENIZER.encode("1987-12"), EOS, 1])[-1] == EOS


def test_thinking_comes_first(monkeypatch: Any) -> None:
    manager = make_manager(monkeypatch)
    manager.reasoner_cls = Reasoner
    request = ask(manager, regex=PATTERN)
    requests = {"r": request}
    for token in TOKENIZER.encode("hm {"):
        assert len(allowed_ids(manager.grammar_bitmask(requests, ["r"], {})[0])) >= MODEL.get_vocab_size()
        assert take(manager, request, [token])
    assert take(manager, request, [*TOKENIZER.encode("\n"), *TOKENIZER.encode("19")])
    matcher = fsmc.GrammarMatcher(request.structured_output_request.grammar.matcher.grammar)
    assert matcher.accept_bytes(b"19")
    row = torch.zeros((1, 14), dtype=torch.int32)
    matcher.fill_next_token_bitmask(row)
    assert allowed_ids(manager.grammar_bitmask(requests, ["r"], {})[0]) == allowed_ids(row[0])


def test_stop_tokens_of_a_request(monkeypatch: Any) -> None:
    manager = make_manager(monkeypatch)
    (stop,) = TOKENIZER.encode("z")
    params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="[a-z]{2}"), stop_token_ids=[stop])
    params.update_from_generation_config({}, EOS)
    params._validate_structured_outputs(MODEL, manager.vllm_config.structured_outputs_config, TOKENIZER)
    request = Request("stop", [1], params, None)
    manager.grammar_init(request)
    while not request.structured_output_request.is_grammar_ready:
        time.sleep(0.001)
    assert stop not in allowed_ids(manager.grammar_bitmask({"r": request}, ["r"], {})[0])
    assert take(manager, request, TOKENIZER.encode("a") + TOKENIZER.encode("b"))
    assert allowed_ids(manager.grammar_bitmask({"r": request}, ["r"], {})[0]) == sorted([stop, EOS])


def test_a_folder_of_index_files_comes_first(monkeypatch: Any, tmp_path: Any) -> None:
    from fsmc.runtime.index_folder import MANIFEST, FolderCompiler, ManifestLine

    vocab = fsmc.Vocabulary.from_huggingface(TOKENIZER, MODEL.get_vocab_size())
    compiler = FolderCompiler(vocab, cache_dir=None)
    grammar = compiler.compile_regex(PATTERN)
    grammar.build_index()
    grammar.save(tmp_path / "date.fsmc")
    line = ManifestLine("date", "", "regex", compiler.key("regex", PATTERN), "date.fsmc")
    (tmp_path / MANIFEST).write_text(line.text())
    monkeypatch.setenv("FSMC_INDEX_FOLDER", str(tmp_path))
    manager = make_manager(monkeypatch)
    request = ask(manager, regex=PATTERN)
    assert request.structured_output_request.grammar.matcher.grammar.index is not None
    assert manager.backend.manager.compiler.n_loaded == 1
    ask(manager, "schema", json=SCHEMA)
    assert manager.backend.manager.compiler.n_loaded == 1


def test_other_versions_are_left_alone(monkeypatch: Any, caplog: Any) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.99.1")
    monkeypatch.setattr(vllm_plugin, "_allow_the_name", lambda: pytest.fail("it was registered"))
    vllm_plugin.register()
