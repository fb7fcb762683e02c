"""Machines as matrices, and what dynamic programming over their states computes exactly; see docs/research.md.

Everything takes a `DFA` (of a JSON Schema: ``machine.flatten(max_depth)``) and is plain numpy; scipy is imported only where a
sparse matrix is asked for.
"""

from __future__ import annotations

from fsmc.research.blocks import Block, BlockSampler, most_probable_block
from fsmc.research.conditional import ConditionedModel, product_matrix
from fsmc.research.entropy import count_completions, growth_rate, remaining_bits
from fsmc.research.hidden_markov import HiddenMarkovModel
from fsmc.research.matrices import RecursiveMatrices, class_matrices, recursive_matrices, transition_matrix
from fsmc.research.token_machine import TokenMachine

__all__ = [
    "Block",
    "BlockSampler",
    "ConditionedModel",
    "HiddenMarkovModel",
    "RecursiveMatrices",
    "TokenMachine",
    "class_matrices",
    "count_completions",
    "growth_rate",
    "most_probable_block",
    "product_matrix",
    "recursive_matrices",
    "remaining_bits",
    "transition_matrix",
]
