"""Token masks: every state's at once (`TokenIndex`), or each configuration's when it is met (`LazyMasks`)."""

from fsmc.compiler.tokens.lazy_masks import LazyMasks
from fsmc.compiler.tokens.token_index import TokenIndex, build_index

__all__ = ["LazyMasks", "TokenIndex", "build_index"]
