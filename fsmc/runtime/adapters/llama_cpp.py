"""fsmc inside llama-cpp-python: a vocabulary, a logits processor, and a loop that jumps over forced text.

Written against llama-cpp-python 0.3.36: ``Llama.eval(tokens)``, ``n_tokens``, the context's logits (``scores`` are filled with ``logits_all`` only),
``tokenize``, ``detokenize``, ``n_vocab()``, ``token_eos()``. It imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import FsmcError, LimitExceeded
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.retokenize import Retokenizer
from fsmc.runtime.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from fsmc.runtime.jumps import Jumps
from fsmc.runtime.matcher import GrammarMatcher


def vocabulary_of(llama: Any, eos_token_ids: Iterable[int] | None = None) -> Vocabulary:
    """The vocabulary of a loaded GGUF model: every id's bytes as the model's own detokenizer writes them; ids without bytes are special.

    eos_token_ids: what ends a text (default: the model's end of text).
    """
    known = llama.n_vocab()
    tokens = [llama.detokenize([token], prev_tokens=[llama.token_bos()]) for token in range(known)]
    eos = [llama.token_eos()] if eos_token_ids is None else list(eos_token_ids)
    special = [token for token, data in enumerate(tokens) if not data or token in eos]
    tokens = [b"" if token in special else data for token, data in enumerate(tokens)]
    return Vocabulary.from_tokens(tokens, eos, special, known)


class LlamaLogitsProcessor:
    """For ``Llama.create_completion(logits_processor=LogitsProcessorList([...]))``: one text at a time.

    The prompt is what the first call sees. llama-cpp-python drops processors without a word where ``logit_bias`` is given as well.
    """

    def __init__(self, grammar: CompiledGrammar, stop_token_ids: Iterable[int] | None = None) -> None:
        self._matcher = GrammarMatcher(grammar, stop_token_ids)
        self._mask = allocate_token_bitmask(1, grammar.vocab.size)
        self._seen: npt.NDArray[Any] | None = None

    def __call__(self, input_ids: npt.NDArray[Any], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Masked scores, float32[vocab_size], behind ids, int[length]. FsmcError for a token that was not chosen under a mask."""
        ids = np.asarray(input_ids)
        before = self._seen
        if before is None or len(ids) <= len(before) or not np.array_equal(ids[: len(before)], before):
            self._matcher.reset()  # a new text
        else:
            for token in ids[len(before) :].tolist():
                if not self._matcher.accept_token(token):
                    raise FsmcError(str(self._matcher.rejection(token)))
        self._seen = ids.copy()
        self._matcher.fill_next_token_bitmask(self._mask)
        masked = np.array(scores, dtype=np.float32)
        apply_token_bitmask_inplace(masked[None], self._mask)
        return masked


def generate(
    llama: Any,
    prompt: str | Sequence[int],
    grammar: CompiledGrammar,
    *,
    max_tokens: int = 256,
    jump: bool = True,
    choose: Callable[[npt.NDArray[np.float32]], int] | None = None,
) -> str:
    """Continue ``prompt`` under ``grammar``, jumping over forced text: sampled token, forced text and corrected tokens are one evaluation.

    choose: from masked logits, float32[vocab_size], to an id (default: the likeliest). Raises LimitExceeded for a prompt that fills the
    model's context, FsmcError where no token of the vocabulary goes on.
    """
    vocab = grammar.vocab
    tokens = llama.tokenize(prompt.encode(), special=True) if isinstance(prompt, str) else list(prompt)
    room = min(max_tokens, llama.n_ctx() - len(tokens))
    if room <= 0 < max_tokens:
        raise LimitExceeded("n_ctx", llama.n_ctx(), len(tokens), "use a shorter prompt")
    matcher = GrammarMatcher(grammar)
    eos = frozenset(matcher.stop_token_ids)
    retokenizer = Retokenizer(lambda text: llama.tokenize(text.encode(), add_bos=False, special=False), vocab)
    jumps = Jumps(matcher, vocab, retokenizer, eos)
    mask = allocate_token_bitmask(1, vocab.size)
    ids: list[int] = []
    evaluated: list[int] = []
    while len(ids) < room:
        if jump and (jumped := jumps.jump(ids, room)) is not None:
            ids = jumped.ids
        if jumps.only_the_end_may_follow() or len(ids) >= room:
            break
        evaluated = _evaluate(llama, [*tokens, *ids], evaluated)
        logits = np.ctypeslib.as_array(llama._ctx.get_logits_ith(-1), shape=(llama.n_vocab(),)).copy()
        matcher.fill_next_token_bitmask(mask)
        if not mask.any():
            raise FsmcError(
                "the constraint goes on, but no token of the vocabulary does: its tokens cannot spell every text"
            )
        apply_token_bitmask_inplace(logits[None], mask)
        token = int(np.argmax(logits)) if choose is None else choose(logits)
        if not matcher.accept_token(token):
            raise FsmcError(str(matcher.rejection(token)))
        if token in eos:
            break
        ids.append(token)
    return b"".join(vocab.text(token) for token in ids).decode(errors="replace")


def _evaluate(llama: Any, wanted: list[int], there: list[int]) -> list[int]:
    """Have exactly these tokens in the model's cache: what agrees stays, the rest is dropped and evaluated; at least the last one."""
    same = 0
    while same < min(len(wanted) - 1, len(there)) and wanted[same] == there[same]:
        same += 1
    if not same:
        llama.reset()
    llama.n_tokens = same  # eval drops what lies behind it
    llama.eval(wanted[same:])
    return wanted
