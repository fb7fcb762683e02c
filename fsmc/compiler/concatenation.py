"""``a + b`` on compiled constraints: a text of one, followed by one of the other.

Two regular ones are joined as DFAs, grammars with each other and with regular ones as one grammar: exactly, however they overlap. Where a JSON Schema or
a structural tag is part of it, the machine is that of a structural tag, a sequence, in which each byte belongs to one part only.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from fsmc.compiler.algebra import grammar_of, of_dfa, shared_vocabulary
from fsmc.compiler.automata import algebra as regular
from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.cfg import joined
from fsmc.compiler.cfg.machine import GrammarMachine
from fsmc.compiler.errors import ConstraintError, UnsupportedGrammarError
from fsmc.compiler.grammar import CompiledGrammar, CompileStats
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.tags.clock import TagClock
from fsmc.compiler.tags.embedded import Embedded
from fsmc.compiler.tags.language import tag_language
from fsmc.compiler.tags.machine import TagMachine
from fsmc.compiler.tags.recipe import TagRecipe, grammar_machine
from fsmc.compiler.tags.tree import Automaton, Pattern, Schema, Sequence

_sequences: weakref.WeakKeyDictionary[CompiledGrammar, tuple[Sequence, TextOptions]] = weakref.WeakKeyDictionary()
"""What sequences were made of, so that they can be part of others."""


def concatenation(a: CompiledGrammar, b: CompiledGrammar) -> CompiledGrammar:
    """A text of ``a``, followed by one of ``b``.

    Raises ConstraintError where a byte could belong to a schema or a structural tag and to what stands beside it (see `TagMachine`), LimitExceeded.

    >>> import fsmc
    >>> compiler = fsmc.GrammarCompiler(fsmc.Vocabulary.from_tokens([b"a", b"b"]), cache_dir=None)
    >>> pairs, more = compiler.compile_grammar('root ::= "a" root "b" | ""'), compiler.compile_regex("b*")
    >>> [concatenation(pairs, more).machine.matches(text) for text in (b"aabb", b"abbb", b"aab")]
    [True, True, False]
    """
    vocab, source = shared_vocabulary(a, b), f"({a.source}) + ({b.source})"
    if a.dfa is not None and b.dfa is not None:
        return of_dfa(regular.concatenate(a.dfa, b.dfa), vocab, source)
    one, other = grammar_of(a), grammar_of(b)
    if one is not None and other is not None:
        try:
            machine = GrammarMachine(joined.concatenation(one, other)).rsm
        except UnsupportedGrammarError as error:
            raise ConstraintError(str(error)) from error
        return CompiledGrammar(machine, vocab, kind="concatenation", source=source, stats=CompileStats())
    options = {options for g in (a, b) if (options := _options_of(g)) is not None}
    if len(options) > 1:
        raise ConstraintError("the two lay out JSON differently: compile them with the same options")
    tree, laid_out = Sequence((_as_node(a), _as_node(b))), options.pop() if options else TextOptions()
    clock = TagClock(MAX_SECONDS)
    with clock.as_a_whole():
        language = tag_language(tree, {}, partial(grammar_machine, clock=clock), clock=clock)
        sequence = TagMachine(language, laid_out, clock=clock).handed_over()
    made = CompiledGrammar(sequence, vocab, kind="concatenation", source=source, stats=CompileStats())
    _sequences[made] = tree, laid_out
    return made


def _options_of(grammar: CompiledGrammar) -> TextOptions | None:
    """How the JSON in a constraint is laid out; None where there is none."""
    if grammar in _sequences:
        return _sequences[grammar][1]
    return grammar.recipe.options if isinstance(grammar.recipe, (SchemaRecipe, TagRecipe)) else None


def _as_node(grammar: CompiledGrammar) -> Any:
    """A constraint as part of a sequence."""
    if grammar.dfa is not None:
        return Automaton(grammar.dfa, grammar.source)
    if grammar in _sequences:
        return _sequences[grammar][0]
    recipe = grammar.recipe
    if isinstance(recipe, SchemaRecipe) and recipe.registry is None and recipe.draft is None:
        schema = Schema(recipe.schema, "the schema")
        if recipe.options.whitespace != "flexible" or recipe.options.indent is not None:
            return schema
        space = Pattern(f"[ \\t\\n\\r]{{0,{recipe.options.max_whitespace}}}", "white space")
        return Sequence((space, schema, space))
    if isinstance(recipe, TagRecipe) and not recipe.names:
        return recipe.tree
    if grammar.kind in ("grammar", "product", "concatenation"):
        return Embedded(grammar.machine, f"the {grammar.kind}")
    raise ConstraintError(
        f"a {grammar.kind} cannot be part of a sequence: only patterns, schemas, grammars and structural tags can"
    )
