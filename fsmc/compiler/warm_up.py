"""Kernels are compiled when first called, which takes seconds; this calls those that a schema may come to need, beforehand.

Without it the first request that meets a counted string, say, would wait in the middle of its text, once per machine.
Where they are on disk already it only loads them, in a tenth of a second.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fsmc.compiler.schema.counted import CountedString
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.format_machine import machine as machine_of
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.tokens.lazy_masks import LazyMasks
from fsmc.compiler.tokens.stacks import EMPTY_STACK
from fsmc.compiler.tokens.trie import TokenTrie
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.compiler.tokens.walk import NOTHING, advance, jump_on_stack

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "counted": {"type": "string", "maxLength": 5, "pattern": "^(ab)*(?=c)\\w"},
        "alternatives": {
            "anyOf": [
                {"properties": {"a": {"pattern": "^x"}, "b": {"type": "integer", "minimum": 3, "multipleOf": 2}}},
                {"properties": {"a": {"not": {"pattern": "y"}}, "b": {"type": "number", "exclusiveMaximum": 0}}},
            ]
        },
        "short": {"type": "string", "maxLength": 3},
        "different": {"type": "array", "items": {"enum": ["p", "q", 1, 2.5]}, "uniqueItems": True},
    },
    "patternProperties": {"^z[0-9]{1,2}$": {"format": "date"}},
    "additionalProperties": False,
}
_TEXT = b'{"counted": "abc", "alternatives": {"a": "x1", "b": 4}, "short": "xyz", "different": ["q", 1], "z1": "2024-02-29"}'


@functools.cache
def warm_up_schemas() -> None:
    """Load, or compile, every kernel of compiling and walking a schema; only the first call in a process does anything.

    >>> warm_up_schemas()
    """
    machine = SchemaMachine(SchemaDocument(_SCHEMA), TextOptions()).handed_over()
    letters = range(ord("a"), ord("z") + 1)
    tokens = (
        [bytes([byte]) for byte in range(256)] + [b'": "', b'"}'] + [bytes([a, b]) for a in letters for b in letters]
    )
    string = CountedString(OutcomeDFA.of(machine_of("ab")), 1, 3)  # what only strings with large patterns need
    string.row(string.dfa.start, 0, 0, 0)
    trie = TokenTrie.build(Vocabulary.from_tokens(tokens))
    masks = LazyMasks(machine, trie)
    row = np.empty(len(trie.all_tokens), np.int32)
    state, stack = machine.start, EMPTY_STACK
    masks.stacks.push(EMPTY_STACK, 0)
    nothing_known = np.zeros(0, np.int16)
    nothing_known.flags.writeable = False  # as in a JumpForwardMap: numba compiles for each kind of array
    recording = NOTHING
    for byte in _TEXT:
        masks.copy_row(state, stack, row)
        jump_on_stack(machine, masks.stacks, state, stack, nothing_known)
        data = np.frombuffer(bytes([byte]), np.uint8)  # read-only, as matchers pass it
        state, stack, recording, n = advance(machine, masks.stacks, state, stack, data, recording=recording)
        assert n == 1, "the text is valid under the schema"


@functools.cache
def warm_up_any_order() -> None:
    """The same for what only objects whose members come in any order need.

    >>> warm_up_any_order()
    """
    machine = SchemaMachine(SchemaDocument({"properties": {"a": {}}}), TextOptions(property_order="any"))
    assert machine.rsm.matches(b'{"b": 1, "a": 2}')
