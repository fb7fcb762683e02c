"""fsmc: compiles regexes into finite-state machines over bytes, token masks and jump-forward text.

The public names load when first used, so that ``import fsmc`` costs milliseconds and never imports torch.

>>> import fsmc
>>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b"ab", b""], eos_token_ids=[3])
>>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("(ab)+")
>>> matcher = fsmc.GrammarMatcher(grammar)
>>> mask = fsmc.allocate_token_bitmask(1, vocab.size)
>>> matcher.fill_next_token_bitmask(mask)
>>> f"{mask[0, 0]:04b}"
'0101'
>>> matcher.find_jump_forward_string()
'ab'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsmc.compiler.automata.dfa import DFA as DFA
    from fsmc.compiler.automata.rsm import RSM as RSM
    from fsmc.compiler.errors import BudgetExceeded as BudgetExceeded
    from fsmc.compiler.errors import ConstraintError as ConstraintError
    from fsmc.compiler.errors import EmptyLanguageError as EmptyLanguageError
    from fsmc.compiler.errors import FsmcError as FsmcError
    from fsmc.compiler.errors import GrammarError as GrammarError
    from fsmc.compiler.errors import IndexFileError as IndexFileError
    from fsmc.compiler.errors import LimitExceeded as LimitExceeded
    from fsmc.compiler.errors import MachineError as MachineError
    from fsmc.compiler.errors import PatternSyntaxError as PatternSyntaxError
    from fsmc.compiler.errors import SchemaError as SchemaError
    from fsmc.compiler.errors import TokenRejected as TokenRejected
    from fsmc.compiler.errors import UnsupportedGrammarError as UnsupportedGrammarError
    from fsmc.compiler.errors import UnsupportedPatternError as UnsupportedPatternError
    from fsmc.compiler.errors import UnsupportedSchemaError as UnsupportedSchemaError
    from fsmc.compiler.errors import VocabularyError as VocabularyError
    from fsmc.compiler.grammar import CompiledGrammar as CompiledGrammar
    from fsmc.compiler.pipeline import GrammarCompiler as GrammarCompiler
    from fsmc.compiler.tags.tool_calls import tool_call_tag as tool_call_tag
    from fsmc.compiler.tokens.masks import TokenIndex as TokenIndex
    from fsmc.compiler.tokens.trie import TokenTrie as TokenTrie
    from fsmc.compiler.tokens.vocabulary import Vocabulary as Vocabulary
    from fsmc.jumpforward.jump_map import JumpForwardMap as JumpForwardMap
    from fsmc.jumpforward.retokenize import retokenize as retokenize
    from fsmc.runtime.adapters.transformers import FsmcLogitsProcessor as FsmcLogitsProcessor
    from fsmc.runtime.batch import fill_bitmask_batch as fill_bitmask_batch
    from fsmc.runtime.bitmask import allocate_token_bitmask as allocate_token_bitmask
    from fsmc.runtime.bitmask import apply_token_bitmask_inplace as apply_token_bitmask_inplace
    from fsmc.runtime.constraint import Constraint as Constraint
    from fsmc.runtime.drafts import RowLayout as RowLayout
    from fsmc.runtime.drafts import fill_draft_bitmask_batch as fill_draft_bitmask_batch
    from fsmc.runtime.drafts import fill_draft_bitmasks as fill_draft_bitmasks
    from fsmc.runtime.engine import Engine as Engine
    from fsmc.runtime.generation import generate as generate
    from fsmc.runtime.grammar_queue import GrammarQueue as GrammarQueue
    from fsmc.runtime.grammar_workers import InvalidGrammar as InvalidGrammar
    from fsmc.runtime.manager import GrammarManager as GrammarManager
    from fsmc.runtime.manager import GrammarStats as GrammarStats
    from fsmc.runtime.manager import PendingGrammar as PendingGrammar
    from fsmc.runtime.matcher import GrammarMatcher as GrammarMatcher
    from fsmc.runtime.ranks import RankAgreement as RankAgreement
    from fsmc.runtime.reasoning import ReasoningGate as ReasoningGate
    from fsmc.runtime.request import Request as Request
    from fsmc.runtime.request import Response as Response
    from fsmc.runtime.sampling_params import SamplingParams as SamplingParams

__version__ = "0.1.0"

_HOME = {
    "fsmc.compiler.automata.dfa": ("DFA",),
    "fsmc.compiler.automata.rsm": ("RSM",),
    "fsmc.compiler.errors": (
        "BudgetExceeded",
        "ConstraintError",
        "EmptyLanguageError",
        "FsmcError",
        "GrammarError",
        "IndexFileError",
        "LimitExceeded",
        "MachineError",
        "PatternSyntaxError",
        "SchemaError",
        "TokenRejected",
        "UnsupportedGrammarError",
        "UnsupportedPatternError",
        "UnsupportedSchemaError",
        "VocabularyError",
    ),
    "fsmc.compiler.grammar": ("CompiledGrammar",),
    "fsmc.compiler.pipeline": ("GrammarCompiler",),
    "fsmc.compiler.tags.tool_calls": ("tool_call_tag",),
    "fsmc.compiler.tokens.masks": ("TokenIndex",),
    "fsmc.compiler.tokens.trie": ("TokenTrie",),
    "fsmc.compiler.tokens.vocabulary": ("Vocabulary",),
    "fsmc.jumpforward.jump_map": ("JumpForwardMap",),
    "fsmc.jumpforward.retokenize": ("retokenize",),
    "fsmc.runtime.adapters.transformers": ("FsmcLogitsProcessor",),
    "fsmc.runtime.batch": ("fill_bitmask_batch",),
    "fsmc.runtime.bitmask": ("allocate_token_bitmask", "apply_token_bitmask_inplace"),
    "fsmc.runtime.constraint": ("Constraint",),
    "fsmc.runtime.drafts": ("RowLayout", "fill_draft_bitmask_batch", "fill_draft_bitmasks"),
    "fsmc.runtime.engine": ("Engine",),
    "fsmc.runtime.generation": ("generate",),
    "fsmc.runtime.grammar_queue": ("GrammarQueue",),
    "fsmc.runtime.grammar_workers": ("InvalidGrammar",),
    "fsmc.runtime.manager": ("GrammarManager", "GrammarStats", "PendingGrammar"),
    "fsmc.runtime.matcher": ("GrammarMatcher",),
    "fsmc.runtime.ranks": ("RankAgreement",),
    "fsmc.runtime.reasoning": ("ReasoningGate",),
    "fsmc.runtime.request": ("Request", "Response"),
    "fsmc.runtime.sampling_params": ("SamplingParams",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fsmc' has no attribute {name!r}")
    try:
        module = importlib.import_module(_MODULE_OF[name])
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise ImportError(f"fsmc.{name} needs {error.name}: pip install 'fsmc[hf]'", name=error.name) from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
