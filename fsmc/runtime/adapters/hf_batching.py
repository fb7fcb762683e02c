"""Continuous batching of transformers under constraints: requests come and go, each with a grammar of its own, or none.

Transformers hands a plain logits processor only the last token of each row there, and takes none from its users. `ConstrainedBatching` is its
manager with a processor of the kind that its own temperature and top-k are (`ContinuousBatchingLogitsProcessor`): it is told the requests of a
batch before the model runs, and finds what each has written in the request itself. Written against transformers 5.24.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching import ContinuousBatchingManager
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessor

from fsmc.compiler.errors import FsmcError
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.runtime.adapters.hf_generate import ends_of, grammars_of, text_of, vocab_of
from fsmc.runtime.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from fsmc.runtime.generation import encode_prompt
from fsmc.runtime.matcher import GrammarMatcher
from fsmc.runtime.packed_model import ATTENTION
from fsmc.runtime.stop_tokens import StopTokens

_MIN_REMEMBERED = 1024
"""How many requests' matchers are kept beyond the batch: requests may wait for room. What is forgotten is read again from its tokens."""


class FsmcBatchingProcessor(ContinuousBatchingLogitsProcessor):
    """The masks of a batch: filled from the requests while the batch is laid out, applied to its logits.

    A request asks for a constraint with ``grammar=``. What it has written is read from the request, so that it may be put off, taken out of
    the cache or split into several (``num_return_sequences``) as the scheduler likes.
    """

    def __init__(self, vocab_size: int) -> None:
        self.supported_kwargs = {"grammar": CompiledGrammar}
        self.ignored_kwargs = ()
        self._mask = allocate_token_bitmask(8, vocab_size)
        self._rows: list[int] = []
        self._known: OrderedDict[str, tuple[list[int], GrammarMatcher]] = OrderedDict()

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Transformers keeps a number for each request; here it says nothing."""
        int32_tensor.fill_(0)

    def prepare_tensor_args(self, requests_with_new_token: Sequence[Any]) -> torch.Tensor:
        """Fill the masks of the requests that are about to get a token, in their order."""
        n = len(requests_with_new_token)
        if len(self._mask) < n:
            self._mask = allocate_token_bitmask(2 * n, 32 * self._mask.shape[1])
        self._rows = []
        for row, request in enumerate(requests_with_new_token):
            if "grammar" in request.state.logit_processor_kwargs:
                self._fill(row, request.state)
                self._rows.append(row)
        while len(self._known) > max(_MIN_REMEMBERED, 4 * n):
            self._known.popitem(last=False)
        return torch.zeros(n, dtype=torch.int32)

    def _fill(self, row: int, state: Any) -> None:
        """The mask of a request; one that cannot go on ends with its error, and not the others with it."""
        grammar = state.logit_processor_kwargs["grammar"]
        try:
            matcher = self._matcher_of(state, grammar)
            left = None if state.max_new_tokens is None else state.max_new_tokens - len(state.generated_tokens)
            matcher.fill_next_token_bitmask(self._mask, row, None if matcher.is_terminated() else left)
            if self._mask[row].any():
                return
            error = "the constraint goes on, but no token of the vocabulary does: its tokens cannot spell every text"
        except FsmcError as raised:
            error = str(raised)
        state.error = error
        self._mask[row] = 0
        for word, bit in StopTokens.of(grammar.vocab, end_tokens(state.eos_token_id)).bits:
            self._mask[row, word] |= bit

    def _matcher_of(self, state: Any, grammar: CompiledGrammar) -> GrammarMatcher:
        """The matcher behind what a request has written: the one of the last step, if the request went on from there."""
        written = state.generated_tokens
        if state._true_initial_tokens:  # it was put off, and what it had written became a part of its prompt
            written = state.initial_tokens[state._true_initial_tokens :] + written
        read, matcher = self._known.get(state.request_id, ([], None))
        if matcher is None or matcher.grammar is not grammar or written[: len(read)] != read:
            read, matcher = [], GrammarMatcher(grammar, end_tokens(state.eos_token_id))
        for token in written[len(read) :]:
            if not matcher.accept_token(token):
                raise matcher.rejection(token)
        self._known[state.request_id] = (list(written), matcher)
        self._known.move_to_end(state.request_id)
        return matcher

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Scores, float[rows, vocab_size], with what is not allowed at -inf. Rows behind those of the requests are padding."""
        if self._rows:
            apply_token_bitmask_inplace(scores, self._mask, indices=self._rows)
        return scores


class ConstrainedBatching(ContinuousBatchingManager):
    """Transformers' manager of continuous batching, whose requests may have a grammar; used in a ``with`` it starts and stops.

    generation_config, continuous_batching_config: as for ``model.init_continuous_batching``. The batch is laid out when the tokens before are
    known, so that ``use_async_batching`` and CUDA graphs are off; ValueError where they are asked for.

    >>> import fsmc
    >>> from fsmc.runtime.toy_model import toy_model
    >>> model, tokenizer, vocab = toy_model()
    >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("[0-9]{3}")
    >>> small = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64, page_size=16)
    >>> with ConstrainedBatching(model, continuous_batching_config=small) as manager:
    ...     name = manager.add_request(tokenizer.encode("Born in "), grammar=grammar, max_new_tokens=9)
    ...     output = manager.get_result(name)
    >>> tokenizer.decode(output.generated_tokens, skip_special_tokens=True).isdigit()
    True
    """

    def __init__(
        self,
        model: Any,
        generation_config: GenerationConfig | None = None,
        continuous_batching_config: ContinuousBatchingConfig | None = None,
        workload_hints: Any = None,
    ) -> None:
        generation = copy.deepcopy(model.generation_config if generation_config is None else generation_config)
        if generation.eos_token_id is None:
            generation.eos_token_id = -1  # transformers' word for none
        config = copy.deepcopy(continuous_batching_config or ContinuousBatchingConfig())
        graphs = config.use_cuda_graph if isinstance(config.use_cuda_graph, tuple) else (config.use_cuda_graph,)
        if config.use_async_batching or any(graphs):
            raise ValueError(
                "use_async_batching and use_cuda_graph do not go with constraints: which tokens may come next is known "
                "only when the tokens before are there; leave them off"
            )
        config.use_async_batching, config.use_cuda_graph = False, (False, False)
        if model.config.get_text_config()._attn_implementation == ATTENTION:
            model.set_attn_implementation(
                "sdpa"
            )  # our engine has read this model before; its attention cannot be paged
        super().__init__(model, generation, config, workload_hints)
        self._vocab_size = int(model.config.get_text_config().vocab_size)
        processors = self.logit_processor
        processors.logits_processor.insert(0, FsmcBatchingProcessor(self._vocab_size))  # before top-k and its like
        processors.tensors_required += 1
        processors.supported_keys["grammar"] = CompiledGrammar
        processors.do_processing = True

    def __enter__(self) -> ConstrainedBatching:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(block=True)
        self.destroy()

    def add_request(
        self,
        input_ids: list[int],
        request_id: str | None = None,
        max_new_tokens: int | None = None,
        streaming: bool = False,
        record_timestamps: bool = False,
        eos_token_id: int | list[int] | None = None,
        *,
        grammar: CompiledGrammar | None = None,
        **logit_processor_kwargs: Any,
    ) -> str | None:
        """As transformers' own, with a grammar: within ``max_new_tokens`` only tokens are chosen after which the text can still end in time.

        Raises BudgetExceeded where ``max_new_tokens`` are too few for any text, ValueError for a grammar of another model's vocabulary,
        TypeError for what is no grammar.
        """
        config = self.generation_config
        limit = config.max_new_tokens if max_new_tokens is None else max_new_tokens
        ends = config.eos_token_id if eos_token_id is None else eos_token_id
        if grammar is not None:
            if not isinstance(grammar, CompiledGrammar):
                raise TypeError(f"grammar must be a CompiledGrammar, not {type(grammar).__name__}")
            if grammar.vocab.size > self._vocab_size:
                raise ValueError(
                    f"the grammar's vocabulary has {grammar.vocab.size} tokens and the model {self._vocab_size}: it is another's"
                )
            GrammarMatcher(grammar, end_tokens(ends)).plan_to_complete(limit)
            logit_processor_kwargs["grammar"] = grammar
        return super().add_request(
            input_ids,
            request_id=request_id,
            max_new_tokens=limit,
            streaming=streaming,
            record_timestamps=record_timestamps,
            eos_token_id=ends,
            **logit_processor_kwargs,
        )


def end_tokens(eos_token_id: int | Iterable[int] | None) -> list[int] | None:
    """What ends a request's text; None, the vocabulary's own end tokens, where it names none."""
    ids = [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id or ())
    return [token for token in ids if token >= 0] or None


def generate_batch(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    json_schema: Any = None,
    regex: Any = None,
    choice: Any = None,
    ebnf: Any = None,
    structural_tag: Any = None,
    grammar: Any = None,
    max_new_tokens: int = 256,
    continuous_batching_config: ContinuousBatchingConfig | None = None,
    **options: Any,
) -> list[str]:
    """Texts behind prompts by continuous batching: any number of prompts, of which as many are in the batch as the cache has room for.

    The constraints are those of `fsmc.hf.generate`, one for all prompts or a list. options: of a ``GenerationConfig``, such as ``do_sample``,
    ``temperature``, ``num_return_sequences`` (the texts of a prompt stand together).

    Raises ConstraintError for none or several constraints, ValueError for unknown options, BudgetExceeded, FsmcError for a request that could
    not go on, RuntimeError where transformers gave up, and what compiling a constraint raises.

    >>> import fsmc.hf
    >>> from fsmc.runtime.toy_model import toy_model
    >>> model, tokenizer, _ = toy_model()
    >>> small = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64, page_size=16)
    >>> texts = fsmc.hf.generate_batch(model, tokenizer, ["a", "b c"], regex=["[0-9]{3}", "[a-z]{5}"], continuous_batching_config=small)
    >>> [len(text) for text in texts]
    [3, 5]
    """
    if not prompts:
        return []
    asked = {"json_schema": json_schema, "regex": regex, "choice": choice, "grammar": ebnf, "compiled": grammar}
    grammars = grammars_of(model, tokenizer, {**asked, "structural_tag": structural_tag}, len(prompts))
    vocab = vocab_of(model, tokenizer, grammars)
    ends = ends_of(model, vocab)
    config = copy.deepcopy(model.generation_config)
    if unknown := config.update(**{"eos_token_id": ends, **options, "max_new_tokens": max_new_tokens}):
        raise ValueError(f"options unknown to a GenerationConfig: {', '.join(sorted(unknown))}")
    n_per_prompt = config.num_return_sequences or 1
    with ConstrainedBatching(model, config, continuous_batching_config) as manager:
        names = [str(i) for i in range(len(prompts))]
        for name, prompt, one in zip(names, prompts, grammars, strict=True):
            manager.add_request(encode_prompt(tokenizer, prompt), name, grammar=one)
        outputs: dict[str, Any] = {}
        while len(outputs) < len(names) * n_per_prompt:
            output = manager.get_result(timeout=1)
            if output is not None and output.is_finished():
                outputs[output.request_id] = output
            elif output is None and not manager.is_running():
                raise RuntimeError(f"transformers gave up: {manager.background_thread_status.fatal_error}")
    texts = []
    for name, one in zip(names, grammars, strict=True):
        for request_id in (name, *(f"{name}__child#{i}" for i in range(n_per_prompt - 1))):
            output = outputs[request_id]
            if output.error is not None:
                raise FsmcError(f"request {request_id}: {output.error}")
            texts.append(text_of(one, vocab, output.generated_tokens, frozenset(ends)))
    return texts
