"""``fsmc.hf.generate``: batches of different constraints, beams, sampling, prompt lookup, jumps; a free constraint changes nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from form_requests import PROMPTS, SCHEMAS

torch = pytest.importorskip("torch", reason="the adapter needs torch")
pytest.importorskip("transformers", reason="the adapter needs transformers")
jsonschema = pytest.importorskip("jsonschema")

import fsmc  # noqa: E402
import fsmc.hf  # noqa: E402


def write(loaded: Any, prompts: Any, **options: Any) -> Any:
    return fsmc.hf.generate(loaded.model, loaded.tokenizer, prompts, **options)


def check(texts: list[str], schemas: list[Any]) -> None:
    assert len(texts) == len(schemas)
    for text, schema in zip(texts, schemas, strict=True):
        jsonschema.validate(json.loads(text), schema)


def test_a_batch_of_eight_schemas(loaded: Any) -> None:
    greedy = write(loaded, PROMPTS, json_schema=SCHEMAS, max_new_tokens=40)
    check(greedy, SCHEMAS)
    alone = write(loaded, PROMPTS[0], json_schema=SCHEMAS[0], max_new_tokens=40)
    check([alone], SCHEMAS[:1])
    torch.manual_seed(3)
    check(write(loaded, PROMPTS, json_schema=SCHEMAS, max_new_tokens=40, do_sample=True, temperature=1.5), SCHEMAS)


def test_four_beams(loaded: Any) -> None:
    texts = write(loaded, PROMPTS[:2], json_schema=SCHEMAS[:2], max_new_tokens=30, num_beams=4, num_return_sequences=2)
    check(texts, [SCHEMAS[0], SCHEMAS[0], SCHEMAS[1], SCHEMAS[1]])


def test_prompt_lookup_gives_the_same(loaded: Any) -> None:
    prompt = 'A form: {"name": "Mara"} and {"name": "Mara"}; {"name": "Oren"}. Once more: '
    plain = write(loaded, prompt, json_schema=SCHEMAS[0], max_new_tokens=30)
    assert write(loaded, prompt, json_schema=SCHEMAS[0], max_new_tokens=30, prompt_lookup_num_tokens=4) == plain
    check([plain], SCHEMAS[:1])


def test_a_constraint_that_allows_everything_changes_nothing(loaded: Any) -> None:
    if loaded.vocab.size < 1000:
        pytest.skip("random weights write bytes that are no UTF-8, which no constraint allows")
    inputs = loaded.tokenizer(PROMPTS[1], return_tensors="pt")
    grammar = fsmc.hf.compiler_for(loaded.model, loaded.tokenizer).compile_regex("(?s:.*)")
    for options in ({"do_sample": False}, {"do_sample": True, "temperature": 1.2}):
        given = {**inputs, **options, "max_new_tokens": 20}
        torch.manual_seed(5)
        free = loaded.model.generate(**given)
        torch.manual_seed(5)
        processor = fsmc.FsmcLogitsProcessor(grammar)
        tokens = loaded.model.generate(**given, logits_processor=[processor])
        texts = [loaded.tokenizer.decode(row[0, inputs.input_ids.shape[1] :]) for row in (free, tokens)]
        assert texts[0] == texts[1]


def test_jumps(loaded: Any) -> None:
    for jump in ("canonical", "exact"):
        check(write(loaded, PROMPTS[:4], json_schema=SCHEMAS[:4], max_new_tokens=60, jump=jump), SCHEMAS[:4])
    form = "the (fox|owl) is [a-z]{3} and [0-9]{2} years old"
    plain = write(loaded, PROMPTS[0], regex=form, max_new_tokens=200)
    assert write(loaded, PROMPTS[0], regex=form, max_new_tokens=200, jump="exact") == plain


def test_nothing_is_cut_off(loaded: Any) -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    for n in (3, 12):
        check([write(loaded, PROMPTS[2], json_schema=schema, max_new_tokens=n)], [schema])
    with pytest.raises(fsmc.BudgetExceeded):
        write(loaded, PROMPTS[2], json_schema=schema, max_new_tokens=1)


def test_other_kinds_and_free_rows(loaded: Any) -> None:
    assert write(loaded, PROMPTS[0], choice=["yes", "no"]) in ("yes", "no")
    assert re.fullmatch("[ab]{4}", write(loaded, PROMPTS[0], regex="[ab]{4}"))
    assert write(loaded, PROMPTS[0], ebnf='root ::= "x" | "y"') in "xy"
    grammar = fsmc.hf.compiler_for(loaded.model, loaded.tokenizer).compile_regex("[0-9]{2}")
    texts = write(loaded, PROMPTS[:2], grammar=[None, grammar], max_new_tokens=5)
    assert texts[1].isdigit() and not texts[0].isdigit()


def test_wrong_arguments(loaded: Any) -> None:
    with pytest.raises(fsmc.ConstraintError, match="exactly one"):
        write(loaded, "x")
    with pytest.raises(fsmc.ConstraintError, match="exactly one"):
        write(loaded, "x", regex="a", choice=["b"])
    with pytest.raises(fsmc.ConstraintError, match="2 prompts need"):
        write(loaded, ["x", "y"], regex=["a", "b", "c"])
    with pytest.raises(TypeError, match="CompiledGrammar"):
        write(loaded, "x", grammar="root ::= 'a'")
    with pytest.raises(ValueError, match="num_beams"):
        write(loaded, "x", regex="a", jump="canonical", num_beams=2)
    assert write(loaded, [], regex="a") == []
