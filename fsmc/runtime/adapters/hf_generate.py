"""Constrained generation with transformers in one call, and jump-forward as a ``custom_generate`` of its ``generate``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fsmc.compiler.errors import ConstraintError, VocabularyError
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.adapters.transformers import FsmcLogitsProcessor
from fsmc.runtime.engine import Engine
from fsmc.runtime.generation import encode_prompt, eos_of
from fsmc.runtime.jumps import Jump
from fsmc.runtime.request import Request
from fsmc.runtime.sampling_params import SamplingParams

_compilers: weakref.WeakKeyDictionary[Any, dict[int, GrammarCompiler]] = weakref.WeakKeyDictionary()


def compiler_for(model: Any, tokenizer: Any) -> GrammarCompiler:
    """A compiler for a model's tokenizer at the width of its logits; the same one every time."""
    size = int(model.config.get_text_config().vocab_size)
    known = _compilers.setdefault(tokenizer, {})
    if size not in known:
        known[size] = GrammarCompiler(Vocabulary.from_huggingface(tokenizer, vocab_size=size))
    return known[size]


def generate(
    model: Any,
    tokenizer: Any,
    prompts: str | Sequence[str],
    *,
    json_schema: Any = None,
    regex: Any = None,
    choice: Any = None,
    ebnf: Any = None,
    structural_tag: Any = None,
    grammar: Any = None,
    jump: Jump = "off",
    max_new_tokens: int = 256,
    **options: Any,
) -> Any:
    """Texts that the model writes behind prompts, each under a constraint: a text for one prompt, a list for several.

    Exactly one of json_schema, regex, choice, ebnf, structural_tag and grammar (a `CompiledGrammar`) says which. A list holds one for each
    prompt (of choices: a list of lists); of grammars some may be None, for prompts that are free.
    jump: "canonical" or "exact" jumps over forced text (`jump_forward`); "off" is transformers' own decoding, and takes
    all its options (``num_beams``, ``do_sample``, ``num_return_sequences``, ``prompt_lookup_num_tokens``, …) as ``options``.
    max_new_tokens: no text is cut off: tokens are chosen so that it ends in time. BudgetExceeded where that is too few to begin with.

    Raises ConstraintError for none or several constraints, and what compiling one raises.

    >>> import fsmc.hf
    >>> from fsmc.runtime.toy_model import toy_model
    >>> model, tokenizer, _ = toy_model()
    >>> fsmc.hf.generate(model, tokenizer, "Who? ", choice=["the librarian", "the gardener"]) in ("the librarian", "the gardener")
    True
    >>> [len(text) for text in fsmc.hf.generate(model, tokenizer, ["a", "b c"], regex=["[0-9]{3}", "[a-z]{5}"], jump="canonical")]
    [3, 5]
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    if not texts:
        return []
    asked = {
        "json_schema": json_schema,
        "regex": regex,
        "choice": choice,
        "grammar": ebnf,
        "structural_tag": structural_tag,
    }
    grammars = grammars_of(model, tokenizer, {**asked, "compiled": grammar}, len(texts))
    vocab = vocab_of(model, tokenizer, grammars)
    ids = [encode_prompt(tokenizer, text) for text in texts]
    eos = ends_of(model, vocab)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else eos[0]
    length = max(map(len, ids))
    rows = torch.tensor([[pad] * (length - len(row)) + row for row in ids], device=model.device)
    attention = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in ids], device=model.device)
    if jump != "off":
        options["custom_generate"] = jump_forward(tokenizer, grammars, jump=jump)
    elif any(one is not None for one in grammars):
        processor = FsmcLogitsProcessor(grammars, eos, max_new_tokens)
        options["logits_processor"] = [*options.get("logits_processor", ()), processor]
    given = {"max_new_tokens": max_new_tokens, "pad_token_id": pad, "eos_token_id": eos, **options}
    out = model.generate(input_ids=rows, attention_mask=attention, **given)
    n_per_prompt = len(out) // len(texts)
    written = [
        text_of(grammars[i // n_per_prompt], vocab, row[length:].tolist(), frozenset(eos)) for i, row in enumerate(out)
    ]
    return written[0] if isinstance(prompts, str) and len(written) == 1 else written


def grammars_of(model: Any, tokenizer: Any, asked: dict[str, Any], n: int) -> list[CompiledGrammar | None]:
    """One for each prompt."""
    given = [kind for kind, value in asked.items() if value is not None]
    if len(given) != 1:
        names = "json_schema, regex, choice, ebnf, structural_tag, grammar"
        raise ConstraintError(f"exactly one of {names} must be given, not {len(given)}")
    (kind,) = given
    value = asked[kind]
    many = isinstance(value, (list, tuple)) and (
        kind != "choice" or any(isinstance(one, (list, tuple)) for one in value)
    )
    values = list(value) if many else [value] * n
    if len(values) != n:
        raise ConstraintError(f"{n} prompts need one constraint, or as many, not {len(values)}")
    if kind == "compiled":
        for one in values:
            if one is not None and not isinstance(one, CompiledGrammar):
                raise TypeError(
                    f"grammar must be a CompiledGrammar, not {type(one).__name__} (a text is given as ebnf=)"
                )
        return values
    compile_ = getattr(compiler_for(model, tokenizer), f"compile_{kind}")
    if not many:
        return [compile_(value)] * n
    return [compile_(one) for one in values]


def vocab_of(model: Any, tokenizer: Any, grammars: Sequence[CompiledGrammar | None]) -> Vocabulary:
    """That of the grammars, or the model's where no prompt has one."""
    return next((one.vocab for one in grammars if one is not None), None) or compiler_for(model, tokenizer).vocab


def ends_of(model: Any, vocab: Vocabulary) -> list[int]:
    """The tokens that end a text; VocabularyError where there are none."""
    eos = sorted(frozenset(vocab.eos_token_ids) | eos_of(model))
    if not eos:
        raise VocabularyError("neither the tokenizer nor the model has an end token: a text could never end")
    return eos


def text_of(grammar: CompiledGrammar | None, vocab: Vocabulary, ids: list[int], eos: frozenset[int]) -> str:
    """The text of ids up to the first that ends it; special tokens that the constraint names have theirs."""
    known = grammar.vocab if grammar is not None else vocab
    end = next((i for i, token in enumerate(ids) if token in eos), len(ids))
    return b"".join(known.text(token) for token in ids[:end]).decode(errors="replace")


def jump_forward(
    tokenizer: Any, grammar: CompiledGrammar | Sequence[CompiledGrammar | None], *, jump: Jump = "canonical"
) -> Callable[..., torch.Tensor]:
    """What ``model.generate(..., custom_generate=)`` takes: decoding that jumps over forced text, all rows of a batch in packed passes.

    grammar: one for all rows, or one for each (None: that row is free). Of the generation's settings it follows ``max_new_tokens``,
    ``do_sample`` with temperature, top_k, top_p and min_p, repetition_penalty and the end tokens; ValueError for several beams, several
    sequences of a prompt, and processors of one's own, which need a decoding that takes one token at a time.

    >>> import fsmc
    >>> from fsmc.runtime.toy_model import toy_model
    >>> model, tokenizer, vocab = toy_model()
    >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex('{"age": [1-9]}')
    >>> inputs = tokenizer("Fill in: ", return_tensors="pt")
    >>> ids = model.generate(**inputs, custom_generate=jump_forward(tokenizer, grammar), max_new_tokens=30)
    >>> tokenizer.decode(ids[0, inputs.input_ids.shape[1] :], skip_special_tokens=True)[:8]
    '{"age": '
    """

    def custom_generate(
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        **model_kwargs: Any,
    ) -> torch.Tensor:
        attention_mask = model_kwargs.get("attention_mask")
        config = generation_config
        for name, usual in (("num_beams", 1), ("num_return_sequences", 1)):
            if (getattr(config, name) or 1) != usual:
                raise ValueError(f"{name}={getattr(config, name)} does not go with jumps: use FsmcLogitsProcessor")
        grammars = [grammar] * len(input_ids) if not isinstance(grammar, Sequence) else list(grammar)
        if len(grammars) != len(input_ids):
            raise ValueError(f"{len(grammars)} grammars for {len(input_ids)} rows")
        n_new = config.max_length - input_ids.shape[1]
        stops = config.eos_token_id
        stops = [] if stops is None else [stops] if isinstance(stops, int) else list(stops)
        prompts = [
            row[attention_mask[i].bool()].tolist() if attention_mask is not None else row.tolist()
            for i, row in enumerate(input_ids)
        ]
        sampling = _sampling(config)
        requests = [
            Request(
                prompt,
                one,
                sampling,
                jump,
                n_new,
                stop_token_ids=stops,
                never_cut_off=one is not None and jump == "exact",
            )
            for prompt, one in zip(prompts, grammars, strict=True)
        ]
        vocab = next((one.vocab for one in grammars if one is not None), None)
        with Engine(model, tokenizer, vocab, max_batch_size=max(1, len(requests))) as engine:
            responses = engine.run(requests)
        for response in responses:
            if response.error is not None:
                raise response.error
        end = stops[0] if stops else vocab.eos_token_ids[0] if vocab is not None and vocab.eos_token_ids else 0
        pad = config.pad_token_id if config.pad_token_id is not None else end
        made = [response.token_ids + [end] * (response.finish_reason == "stop") for response in responses]
        width = max(map(len, made), default=0)
        new = torch.tensor([row + [pad] * (width - len(row)) for row in made], dtype=input_ids.dtype).reshape(
            len(made), width
        )
        return torch.cat([input_ids, new.to(input_ids.device)], dim=1)

    return custom_generate


def _sampling(config: Any) -> SamplingParams:
    """How a generation's settings choose tokens."""
    penalty = config.repetition_penalty if config.repetition_penalty is not None else 1.0
    if not config.do_sample:
        return SamplingParams(repetition_penalty=penalty)

    def or_else(value: Any, usual: Any) -> Any:
        return usual if value is None else value

    return SamplingParams(
        temperature=or_else(config.temperature, 1.0),
        top_k=or_else(config.top_k, 0),
        top_p=or_else(config.top_p, 1.0),
        min_p=or_else(config.min_p, 0.0),
        repetition_penalty=penalty,
        seed=int(torch.randint(1 << 31, ()).item()),
    )
