"""The algebra of compiled constraints: ``a & b``, ``a | b``, ``a - b``, ``~a``. ``a + b``: concatenation.py. Inclusion and equivalence: comparison.py.

Four ways, each exact:

- Two regular constraints are combined as DFAs.
- Two JSON Schemas are combined as schemas, so of *values*: ``a - b`` has the JSON texts of the values that are valid under a and not
  under b, ``~a`` those of all other values.
- A regular constraint and any other one are run side by side (`rsm_product`), so as sets of *texts*; a grammar that is read in so many ways that
  this does not end is combined as a grammar (`beside`), where the result is one: a complement need not be, and ConstraintError says so.
- Two others are run side by side where their calls nest in each other (`pair_machine`); the intersection of two context-free languages need not
  be one, and ConstraintError then shows a text in which they do not. The union of two grammars is one always (`joined`).

Where two are run side by side, ``max_pairs`` bounds the states of both together, and ``max_crossed`` the return frames that one may have above those
of calls that the other made before; ``max_seconds`` bounds the time of each way that is tried. The functions take them as arguments, the operators as they are by default.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import referencing.jsonschema

from fsmc.compiler.automata import algebra as regular
from fsmc.compiler.automata.counting import is_finite
from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.pair_machine import MAX_CROSSED, PairMachine
from fsmc.compiler.automata.product_machine import ProductMachine
from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.automata.rsm_product import BOTH, DFA_ONLY, EITHER, MAX_PAIRS, Analysis, Combination
from fsmc.compiler.cfg import beside, joined
from fsmc.compiler.cfg.machine import GrammarMachine
from fsmc.compiler.cfg.rules import Network
from fsmc.compiler.errors import ConstraintError, EmptyLanguageError, LimitExceeded, type_of
from fsmc.compiler.grammar import CompiledGrammar, CompileStats
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.references import SPECIFICATIONS
from fsmc.compiler.schema.source import parse_json
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
        return of_dfa(regular.complement(a.dfa), a.vocab, f"~({a.source})")
    if isinstance(a.recipe, SchemaRecipe):
        return _of_schemas(a.vocab, lambda x: {"not": x}, a.recipe)
    return _beside_dfa(a, regular.all_text(), DFA_ONLY, max_pairs, max_seconds, a.vocab, f"~({a.source})")


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
        return of_dfa(of_dfas(a.dfa, b.dfa), vocab, source)
    if isinstance(a.recipe, SchemaRecipe) and isinstance(b.recipe, SchemaRecipe):
        return _of_schemas(vocab, of_schemas, a.recipe, b.recipe)
    most = MAX_PAIRS if max_pairs is None else max_pairs
    if a.dfa is not None:
        return _beside_dfa(b, a.dfa, if_a_is_regular, most, max_seconds, vocab, source)
    if b.dfa is not None:
        return _beside_dfa(a, b.dfa, if_b_is_regular, most, max_seconds, vocab, source)
    most = MAX_PAIRED if max_pairs is None else max_pairs
    one, other = grammar_of(a), grammar_of(b)
    united = partial(joined.union, one, other) if if_a_is_regular is EITHER and one and other else None
    try:
        pair = PairMachine(a.machine, b.machine, if_a_is_regular, max_crossed=max_crossed)
        limits: dict[str, Any] = {"max_pairs": most, "max_seconds": max_seconds, "check": _watch(a.machine, b.machine)}
        made = _of_product(Analysis(pair.rsm, regular.all_bytes(), BOTH, **limits), vocab, source)
    except (ConstraintError, LimitExceeded, _Endless) as error:
        if united is not None:
            return _of_network(united(), vocab, source)
        if isinstance(error, _Endless):
            raise _no_end() from None
        raise
    if united is not None:
        _grammars[made] = united
    return made


def _beside_dfa(
    a: CompiledGrammar,
    dfa: DFA,
    combination: Combination,
    max_pairs: int,
    max_seconds: float,
    vocab: Vocabulary,
    source: str,
) -> CompiledGrammar:
    """A machine and a DFA side by side; a grammar whose machine has no end is combined as a grammar where the result is one."""
    network = grammar_of(a)

    def as_grammar() -> Network | None:
        assert network is not None
        if combination is EITHER:
            return joined.union(network, joined.of_dfa(dfa))
        allowed = dfa if combination.accepts(True, True) else regular.complement(dfa, regular.all_bytes())
        return beside.Beside(network, allowed, max_places=max_pairs, max_seconds=max_seconds).intersection()

    is_grammar = combination is EITHER or not combination.without_machine
    is_grammar &= network is not None and not (network.schemas and combination is not EITHER)
    is_bounded = not combination.without_dfa and combination.without_machine and is_finite(dfa)
    check = _watch() if is_bounded else _watch(a.machine)
    try:
        analysis = Analysis(a.machine, dfa, combination, max_pairs=max_pairs, max_seconds=max_seconds, check=check)
        made = _of_product(analysis, vocab, source)
    except _Endless:
        if not is_grammar:
            raise _no_end() from None
        found = as_grammar()
        if found is None:
            raise _empty(source) from None
        return _of_network(found, vocab, source)
    if is_grammar:
        _grammars[made] = as_grammar
    return made


_grammars: weakref.WeakKeyDictionary[CompiledGrammar, Callable[[], Network | None]] = weakref.WeakKeyDictionary()
"""How combinations that are run side by side are written as grammars, so that they can be part of what is no product."""


def grammar_of(a: CompiledGrammar) -> Network | None:
    """A constraint as a grammar; None for one that is none, or is not known to be one."""
    if a.dfa is not None:
        return joined.of_dfa(a.dfa)
    return _grammars[a]() if a in _grammars else network_of(a.machine)


class _Endless(Exception):
    """The machine of a grammar has no end."""


def _watch(*machines: RecursiveMachine) -> Callable[[], None]:
    """A check that raises `_Endless` as soon as one of the machines turns out to be a grammar's that has no end, or to have one in it: its new
    stacks are deep."""
    depths = [builder.sets.depth for machine in machines for builder in _grammars_in(machine)]
    known = [len(depth) for depth in depths]

    def check() -> None:
        if any(len(depth) > n and depth[-1] > MAX_STACK for depth, n in zip(depths, known, strict=True)):
            raise _Endless

    return check


def _grammars_in(machine: RecursiveMachine) -> list[GrammarMachine]:
    """The machine of a grammar, or those that a structural tag or a sum has in it; not those that something else keeps bounded."""
    found: list[GrammarMachine] = []
    pending = [machine]
    while pending:
        builder = getattr(pending.pop(), "builder", None)
        if isinstance(builder, GrammarMachine):
            found.append(builder)
        pending += getattr(builder, "parts", ())
    return found


def _no_end() -> ConstraintError:
    return ConstraintError(
        "a grammar that is read in ever more ways has a machine without end, and what it does not allow, or allows together with another one, "
        "need not be a grammar's: write it so that each text can be read from left to right in few ways, or combine it, by itself, with a pattern by & or |"
    )


def network_of(machine: RecursiveMachine) -> Network | None:
    """The network of a machine that is a grammar's; None for others."""
    builder = machine.builder if isinstance(machine, LazyRSM) else None
    return builder.network if isinstance(builder, GrammarMachine) else None


def _of_network(network: Network, vocab: Vocabulary, source: str) -> CompiledGrammar:
    return CompiledGrammar(GrammarMachine(network).rsm, vocab, kind="product", source=source, stats=CompileStats())


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


def of_dfa(dfa: DFA, vocab: Vocabulary, source: str) -> CompiledGrammar:
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


def _empty(source: str) -> EmptyLanguageError:
    shown = source if len(source) <= 80 else source[:79] + "…"
    return EmptyLanguageError(f"{shown} allows no text at all, so nothing could be generated")
