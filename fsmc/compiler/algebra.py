"""The algebra of compiled constraints: ``a & b``, ``a | b``, ``a - b``, ``~a``, ``a + b``. Inclusion and equivalence: comparison.py.

Four ways, each exact:

- Two regular constraints are combined as DFAs.
- Two JSON Schemas are combined as schemas, so of *values*: ``a - b`` has the JSON texts of the values that are valid under a and not
  under b, ``~a`` those of all other values.
- A regular constraint and any other one are run side by side (`rsm_product`), so as sets of *texts*; a grammar that is read in so many ways that
  this takes too many states, or does not end, is combined as a grammar (`beside`), where the result is one.
- Two others are run side by side where their calls nest in each other (`pair_machine`); the intersection of two context-free languages need not
  be one, and ConstraintError then shows a text in which they do not.

Where two are run side by side, ``max_pairs`` bounds the states of both together, and ``max_crossed`` the return frames that one may have above those
of calls that the other made before; ``max_seconds`` bounds the time of each way that is tried. The functions take them as arguments, the operators as they are by default.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from typing import Any

import referencing.jsonschema

from fsmc.compiler.automata import algebra as regular
from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.pair_machine import MAX_CROSSED, PairMachine
from fsmc.compiler.automata.product_machine import ProductMachine
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.automata.rsm_product import BOTH, DFA_ONLY, EITHER, MAX_PAIRS, Analysis, Combination
from fsmc.compiler.cfg import beside
from fsmc.compiler.cfg.machine import GrammarMachine
from fsmc.compiler.cfg.recipe import GrammarRecipe, syntax_of
from fsmc.compiler.cfg.rules import Network
from fsmc.compiler.errors import ConstraintError, EmptyLanguageError, LimitExceeded, type_of
from fsmc.compiler.grammar import CompiledGrammar, CompileStats
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.references import SPECIFICATIONS
from fsmc.compiler.schema.source import parse_json
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.tags.language import tag_language
from fsmc.compiler.tags.machine import TagMachine
from fsmc.compiler.tags.recipe import TagRecipe
from fsmc.compiler.tags.tree import Automaton, GrammarText, Pattern, Schema, Sequence
from fsmc.compiler.tokens.vocabulary import Vocabulary

MAX_PAIRED = 40_000
"""``max_pairs`` of two constraints neither of which is regular; MAX_PAIRS of others."""
MAX_STACK = 64
"""Places of a stack in a grammar's machine beside a DFA; deeper ones show that it has no end, and the two are combined as grammars."""

_DRAFT_URIS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


def intersection(
    a: CompiledGrammar,
    b: CompiledGrammar,
    *,
    max_pairs: int | None = None,
    max_crossed: int = MAX_CROSSED,
    max_seconds: float = MAX_SECONDS,
) -> CompiledGrammar:
    """What both allow."""
    return _combined(
        "&", a, b, regular.intersection, lambda x, y: {"allOf": [x, y]}, BOTH, BOTH, max_pairs, max_crossed, max_seconds
    )


def union(
    a: CompiledGrammar,
    b: CompiledGrammar,
    *,
    max_pairs: int | None = None,
    max_crossed: int = MAX_CROSSED,
    max_seconds: float = MAX_SECONDS,
) -> CompiledGrammar:
    """What at least one allows."""
    return _combined(
        "|", a, b, regular.union, lambda x, y: {"anyOf": [x, y]}, EITHER, EITHER, max_pairs, max_crossed, max_seconds
    )


def difference(
    a: CompiledGrammar,
    b: CompiledGrammar,
    *,
    max_pairs: int | None = None,
    max_crossed: int = MAX_CROSSED,
    max_seconds: float = MAX_SECONDS,
) -> CompiledGrammar:
    """What ``a`` allows and ``b`` does not."""
    machine_only = Combination(lambda dfa, machine: machine and not dfa)
    return _combined(
        "-",
        a,
        b,
        regular.difference,
        lambda x, y: {"allOf": [x, {"not": y}]},
        DFA_ONLY,
        machine_only,
        max_pairs,
        max_crossed,
        max_seconds,
    )


def complement(a: CompiledGrammar, *, max_pairs: int = MAX_PAIRS, max_seconds: float = MAX_SECONDS) -> CompiledGrammar:
    """What ``a`` does not allow: of a schema the JSON texts of all other values, else all other texts."""
    if a.dfa is not None:
        return _of_dfa(regular.complement(a.dfa), a.vocab, f"~({a.source})")
    if isinstance(a.recipe, SchemaRecipe):
        return _of_schemas(a.vocab, lambda x: {"not": x}, a.recipe)
    return _of_product(
        Analysis(a.machine, regular.all_text(), DFA_ONLY, max_pairs=max_pairs, max_seconds=max_seconds),
        a.vocab,
        f"~({a.source})",
    )


def concatenation(a: CompiledGrammar, b: CompiledGrammar) -> CompiledGrammar:
    """A text of ``a``, followed by one of ``b``. Raises ConstraintError also where a byte could belong to either (see `TagMachine`)."""
    vocab = shared_vocabulary(a, b)
    if a.dfa is not None and b.dfa is not None:
        return _of_dfa(regular.concatenate(a.dfa, b.dfa), vocab, f"({a.source}) + ({b.source})")
    options = {options for g in (a, b) if (options := _options_of(g)) is not None}
    if len(options) > 1:
        raise ConstraintError("the two lay out JSON differently: compile them with the same options")
    tree, laid_out = Sequence((_as_node(a), _as_node(b))), options.pop() if options else TextOptions()
    machine = TagMachine(tag_language(tree, {}, TagRecipe.grammar), laid_out).handed_over()
    source = f"({a.source}) + ({b.source})"
    joined = CompiledGrammar(machine, vocab, kind="concatenation", source=source, stats=CompileStats())
    _sequences[joined] = tree, laid_out
    return joined


def allows_value(a: CompiledGrammar, text: bytes) -> bool:
    """Whether the value of a JSON text is valid under a schema, however it is written."""
    assert isinstance(a.recipe, SchemaRecipe)
    value = SchemaRecipe({"const": parse_json(text.decode())}, a.recipe.options, None, a.recipe.unique_items)
    try:
        _of_schemas(a.vocab, lambda x, y: {"allOf": [x, y]}, a.recipe, value)
    except EmptyLanguageError:
        return False
    return True


# ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _combined(
    sign: str,
    a: CompiledGrammar,
    b: CompiledGrammar,
    of_dfas: Callable[[DFA, DFA], DFA],
    of_schemas: Callable[[Any, Any], Any],
    if_a_is_regular: Combination,
    if_b_is_regular: Combination,
    max_pairs: int | None,
    max_crossed: int,
    max_seconds: float,
) -> CompiledGrammar:
    vocab, source = shared_vocabulary(a, b), f"({a.source}) {sign} ({b.source})"
    if a.dfa is not None and b.dfa is not None:
        return _of_dfa(of_dfas(a.dfa, b.dfa), vocab, source)
    if isinstance(a.recipe, SchemaRecipe) and isinstance(b.recipe, SchemaRecipe):
        return _of_schemas(vocab, of_schemas, a.recipe, b.recipe)
    most = MAX_PAIRS if max_pairs is None else max_pairs
    if a.dfa is not None:
        return _beside_dfa(b.machine, a.dfa, if_a_is_regular, most, max_seconds, vocab, source)
    if b.dfa is not None:
        return _beside_dfa(a.machine, b.dfa, if_b_is_regular, most, max_seconds, vocab, source)
    pair = PairMachine(a.machine, b.machine, if_a_is_regular, max_crossed=max_crossed)
    most = MAX_PAIRED if max_pairs is None else max_pairs
    return _of_product(
        Analysis(pair.rsm, regular.all_bytes(), BOTH, max_pairs=most, max_seconds=max_seconds), vocab, source
    )


def _beside_dfa(
    machine: RecursiveMachine,
    dfa: DFA,
    combination: Combination,
    max_pairs: int,
    max_seconds: float,
    vocab: Vocabulary,
    source: str,
) -> CompiledGrammar:
    """A machine and a DFA side by side; a grammar whose machine is too large for that, or has no end, is combined as a grammar."""
    network = network_of(machine)
    is_wider = combination.without_machine
    if network is None or (is_wider and not combination.without_dfa) or (network.schemas and not is_wider):
        analysis = Analysis(machine, dfa, combination, max_pairs=max_pairs, max_seconds=max_seconds)
        return _of_product(analysis, vocab, source)
    depths = _depths_of(machine)

    def check() -> None:
        if depths[-1] > MAX_STACK:
            raise LimitExceeded("max_stack", MAX_STACK, depths[-1], "the machine of the grammar has no end")

    try:
        return _of_product(
            Analysis(machine, dfa, combination, max_pairs=max_pairs, max_seconds=max_seconds, check=check),
            vocab,
            source,
        )
    except LimitExceeded as error:
        if error.name != "max_stack":
            raise
    if is_wider:
        combined = beside.union(network, dfa)
    else:
        allowed = dfa if combination.accepts(True, True) else regular.complement(dfa, regular.all_bytes())
        found = beside.Beside(network, allowed, max_places=max_pairs, max_seconds=max_seconds).intersection()
        if found is None:
            raise _empty(source)
        combined = found
    return CompiledGrammar(GrammarMachine(combined).rsm, vocab, kind="product", source=source, stats=CompileStats())


def _depths_of(machine: RecursiveMachine) -> list[int]:
    assert isinstance(machine, LazyRSM) and isinstance(machine.builder, GrammarMachine)
    return machine.builder.sets.depth


def network_of(machine: RecursiveMachine) -> Network | None:
    """The network of a machine that is a grammar's; None for others."""
    builder = machine.builder if isinstance(machine, LazyRSM) else None
    return builder.network if isinstance(builder, GrammarMachine) else None


def shared_vocabulary(a: CompiledGrammar, b: CompiledGrammar) -> Vocabulary:
    """The vocabulary of both; where one names special tokens, that one's. Raises ConstraintError if they differ, TypeError where one
    is no compiled constraint."""
    for given in (a, b):
        if not isinstance(given, CompiledGrammar):
            raise TypeError(f"compiled constraints are combined and compared, not {type_of(given)}: compile it first")
    for vocab, other in ((a.vocab, b.vocab), (b.vocab, a.vocab)):
        if vocab.fingerprint == other.fingerprint:
            return vocab
        if other.markers and not vocab.markers and set(other.markers) <= set(vocab.special_token_ids):
            if vocab.with_markers(other.markers).fingerprint == other.fingerprint:
                return other
    raise ConstraintError("the two were compiled for different vocabularies (or name different special tokens)")


def _of_dfa(dfa: DFA, vocab: Vocabulary, source: str) -> CompiledGrammar:
    if dfa.is_empty:
        raise _empty(source)
    stats = CompileStats(0, dfa.n_states, dfa.n_states, dfa.n_classes)
    return CompiledGrammar(RSM.from_dfa(dfa), vocab, kind="fsm", source=source, stats=stats)


def _of_product(analysis: Analysis, vocab: Vocabulary, source: str) -> CompiledGrammar:
    product = ProductMachine(analysis)
    if product.is_empty:
        raise _empty(source)
    return CompiledGrammar(product.rsm, vocab, kind="product", source=source, stats=CompileStats())


def _of_schemas(vocab: Vocabulary, write: Callable[..., Any], *recipes: SchemaRecipe) -> CompiledGrammar:
    """Schemas in one, each as a document of its own, so that references, identifiers and drafts mean in it what they did."""
    first = recipes[0]
    if any((r.options, r.unique_items) != (first.options, first.unique_items) for r in recipes):
        raise ConstraintError("the two lay out JSON differently: compile them with the same options")
    registry: Any = referencing.jsonschema.EMPTY_REGISTRY
    references = []
    for recipe in recipes:
        schema = parse_json(recipe.text)
        draft = recipe.document.draft(recipe.document.root)
        if isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": _DRAFT_URIS[draft], **schema}
        uri = f"urn:fsmc:{hashlib.sha256(recipe.text.encode()).hexdigest()[:16]}:{draft}"
        if recipe.registry is not None:
            registry = registry.combine(recipe.registry)
        registry = registry.with_resource(uri, SPECIFICATIONS[draft].create_resource(schema))
        references.append({"$ref": uri})
    combined = SchemaRecipe(write(*references), first.options, None, first.unique_items, registry)
    machine = combined.build().handed_over()
    return CompiledGrammar(machine, vocab, kind="json_schema", source="", stats=CompileStats(), recipe=combined)


_sequences: weakref.WeakKeyDictionary[CompiledGrammar, tuple[Sequence, TextOptions]] = weakref.WeakKeyDictionary()
"""What concatenations were made of, so that they can be part of others."""


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
    if isinstance(recipe, GrammarRecipe) and recipe.start is None:
        return GrammarText(recipe.text, recipe.syntax or syntax_of(recipe.text), "the grammar")
    raise ConstraintError(
        f"a {grammar.kind} cannot be part of a sequence: only patterns, schemas, grammars and structural tags can"
    )


def _empty(source: str) -> EmptyLanguageError:
    shown = source if len(source) <= 80 else source[:79] + "…"
    return EmptyLanguageError(f"{shown} allows no text at all, so nothing could be generated")
