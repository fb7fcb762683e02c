"""What the plug-ins for serving engines share: a manager for an engine's vocabulary, and what is set by the environment.

Engines load plug-ins by name, in several processes, and hand them nothing; so what is fsmc's own is read from the environment,
which those processes inherit:

FSMC_INDEX_FOLDER     a folder of index files, as ``fsmc compile DIR`` writes it, in which grammars are looked up first
FSMC_PROPERTY_ORDER   schema (default) or any: the order in which members may come
FSMC_TIMEOUT          seconds after which a request's compilation is given up (default 60)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.runtime.grammar_workers import InvalidGrammar
from fsmc.runtime.index_folder import FolderCompiler
from fsmc.runtime.manager import DEFAULT_TIMEOUT, GrammarManager


def engine_manager(
    tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None, *, warm: bool = False, **layout: Any
) -> GrammarManager:
    """A manager for an engine's tokenizer, at the width of its masks. layout: options of `GrammarCompiler` that the engine sets.

    warm: for the process that serves: compile the kernels, or read them, while the engine starts, and not while its first requests wait.

    Raises VocabularyError for a tokenizer that cannot be read, ValueError for what the environment says wrongly.

    >>> from tokenizers import Tokenizer, decoders, models
    >>> tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    >>> tokenizer.decoder = decoders.ByteLevel()
    >>> manager = engine_manager(tokenizer, vocab_size=4, eos_token_ids=[3])
    >>> compiled(manager, "regex", "(ab)+").vocab.size
    4
    """
    eos = sorted(set(eos_token_ids)) if eos_token_ids else None
    vocab = Vocabulary.from_huggingface(tokenizer, vocab_size, eos_token_ids=eos)
    options = {"property_order": os.environ.get("FSMC_PROPERTY_ORDER") or "schema", **layout}
    compiler = FolderCompiler(vocab, index_folder=os.environ.get("FSMC_INDEX_FOLDER") or None, **options)
    timeout = os.environ.get("FSMC_TIMEOUT") or DEFAULT_TIMEOUT
    try:
        seconds = float(timeout)
    except ValueError:
        raise ValueError(f"FSMC_TIMEOUT={timeout!r} must be a number of seconds") from None
    if warm:
        from fsmc.kernels import use_every_kernel

        use_every_kernel()
    return GrammarManager(compiler, timeout=seconds)


def compiled(manager: GrammarManager, kind: str, source: Any, **options: Any) -> CompiledGrammar | InvalidGrammar:
    """The grammar, or what is wrong with it; waits for it, as engines ask in threads of their own."""
    outcome = manager.request(kind, source, **options).wait()
    assert outcome is not None, "without a time of its own, `wait` ends with the request"
    return outcome
