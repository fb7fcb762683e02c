"""Does one constraint allow all that another does? Told exactly where the two can be combined (algebra.py), with a text that shows why not.

Where they cannot, or their states are too many, a text that shows it is sought among the short ones: see counterexample.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fsmc.compiler.algebra import allows_value, difference, network_of, shared_vocabulary
from fsmc.compiler.automata import algebra as regular
from fsmc.compiler.automata.counterexample import MAX_SEARCHED, Ending, counterexample
from fsmc.compiler.automata.determinize import MAX_SECONDS
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.equivalence import difference_witness, shortest_string
from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.pair_machine import MAX_CROSSED
from fsmc.compiler.automata.product_machine import ProductMachine
from fsmc.compiler.automata.recursion import Reading
from fsmc.compiler.automata.rsm_product import BOTH, Analysis
from fsmc.compiler.cfg.beside import Beside
from fsmc.compiler.errors import ConstraintError, EmptyLanguageError, LimitExceeded, SchemaError, UnsupportedSchemaError
from fsmc.compiler.grammar import CompiledGrammar
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.rearrange import rearranged
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.sampling import InstanceSampler, short_text
from fsmc.compiler.schema.walk import Walk
from fsmc.jit import time_limit, working_seconds

MAX_SHORTEST = 10_000
"""``max_pairs`` in the search for a shortest witness between two schemas, of which a short one is known to be found."""
_EXACT = 2 / 3
"""Of the time, for what is exact; the rest is for the search where that does not end."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether something holds of two constraints; if not, a text that shows it: see `subset` and `equivalence` on how short it is.

    >>> bool(Comparison(None)), bool(Comparison(b"x"))
    (True, False)
    """

    witness: bytes | None

    def __bool__(self) -> bool:
        return self.witness is None


def subset(
    a: CompiledGrammar,
    b: CompiledGrammar,
    *,
    max_pairs: int | None = None,
    max_crossed: int = MAX_CROSSED,
    max_searched: int = MAX_SEARCHED,
    max_seconds: float = MAX_SECONDS,
) -> Comparison:
    """Whether ``b`` allows all that ``a`` allows; the witness is a text that only ``a`` does.

    It is a shortest one, but where it had to be sought, or where the difference of two schemas has to keep values or keys in mind that were
    written (as for uniqueItems, or for keys that no schema declares) or is too large to be searched: then a short one.

    Two schemas are compared by values: what is told is whether every value that is valid under ``a`` is under ``b``, in whatever order of
    its members; the witness is the text that ``a`` allows of a value that is not.

    max_pairs, max_crossed: see algebra.py. max_searched: beginnings of texts that are looked at where it cannot be told exactly. max_seconds: of
    all that is done. Raises ConstraintError or LimitExceeded if no text shows it among them.
    """
    shared_vocabulary(a, b)
    if a.machine is b.machine:
        return Comparison(None)
    with time_limit(max_seconds):
        return _subset(a, b, max_pairs, max_crossed, max_searched, max_seconds)


def _subset(
    a: CompiledGrammar,
    b: CompiledGrammar,
    max_pairs: int | None,
    max_crossed: int,
    max_searched: int,
    max_seconds: float,
) -> Comparison:
    """`subset`, with the limit on the whole time around it: what is exact has the larger part of it."""
    if a.dfa is not None and b.dfa is not None:
        return Comparison(shortest_string(regular.difference(a.dfa, b.dfa)))
    if b.dfa is not None and (bound := _regular_bound(a)) is not None:
        with suppress(LimitExceeded):
            if shortest_string(regular.difference(bound, b.dfa)) is None:
                return Comparison(None)
    are_schemas = isinstance(a.recipe, SchemaRecipe) and isinstance(b.recipe, SchemaRecipe)
    began = working_seconds()
    try:
        with time_limit(max_seconds * _EXACT):
            only = difference(a, b, max_pairs=max_pairs, max_crossed=max_crossed, max_seconds=max_seconds)
            return Comparison(_of_values(a, only, max_pairs) if are_schemas else _shortest(only))
    except EmptyLanguageError:
        return Comparison(None)
    except (ConstraintError, LimitExceeded, UnsupportedSchemaError) as error:
        if are_schemas and isinstance(error, ConstraintError):
            raise  # they were compiled differently
        shows = (lambda text: _is_invalid(b, text)) if are_schemas else (lambda text: not b.machine.matches(text))
        ending = _ending_of(a, max_searched)
        sought = counterexample(
            a.machine, b.machine, max_searched=max_searched, ending=ending, shows=shows if are_schemas else None
        )
        if sought.is_all or sought.text is not None:
            return Comparison(sought.text)
        drawn = _drawn(a, shows, max_searched) if isinstance(a.recipe, SchemaRecipe) else None
        if drawn is None:
            if isinstance(error, LimitExceeded) and error.name == "max_seconds":
                error.limit, error.reached = max_seconds, working_seconds() - began
            raise _untold(error, max_searched) from error
        return Comparison(drawn)


def equivalence(
    a: CompiledGrammar,
    b: CompiledGrammar,
    *,
    max_pairs: int | None = None,
    max_crossed: int = MAX_CROSSED,
    max_searched: int = MAX_SEARCHED,
    max_seconds: float = MAX_SECONDS,
) -> Comparison:
    """Whether both allow the same; the witness is a text that exactly one of them does.

    It is a shortest one where those of `subset` are, both ways; where it can be told one way only, that way's. Limits: as there.
    """
    shared_vocabulary(a, b)
    if a.machine is b.machine:
        return Comparison(None)
    if a.dfa is not None and b.dfa is not None:
        return Comparison(difference_witness(a.dfa, b.dfa))
    limits: dict[str, Any] = {"max_pairs": max_pairs, "max_crossed": max_crossed, "max_searched": max_searched}
    until = working_seconds() + max_seconds
    found: list[bytes] = []
    errors: list[ConstraintError | LimitExceeded] = []
    for one, other, share in ((a, b, 0.5), (b, a, 1.0)):
        try:
            compared = subset(one, other, **limits, max_seconds=share * max(until - working_seconds(), 0.0))
        except (ConstraintError, LimitExceeded) as error:
            errors.append(error)
            continue
        if compared.witness is not None:
            found.append(compared.witness)
    if errors and not found:
        first = errors[0]
        if isinstance(first, LimitExceeded) and first.name == "max_seconds":
            first.limit, first.reached = max_seconds, max_seconds + working_seconds() - until
        raise first
    return Comparison(min(found, key=len, default=None))


def _regular_bound(a: CompiledGrammar) -> DFA | None:
    """Of an intersection with a pattern: that. None where none is known."""
    builder = a.machine.builder if isinstance(a.machine, LazyRSM) else None
    if not isinstance(builder, ProductMachine):
        return None
    accepts = builder.analysis.combination.accepts
    return None if accepts(False, True) or accepts(False, False) else builder.analysis.dfa


def _shortest(only: CompiledGrammar) -> bytes | None:
    """A shortest text of a difference that is no schema."""
    builder = only.machine.builder if isinstance(only.machine, LazyRSM) else None
    if isinstance(builder, ProductMachine):
        return builder.analysis.shortest()
    network = network_of(only.machine)
    if network is not None and not network.schemas:
        return Beside(network, regular.all_bytes()).shortest()
    return Analysis(only.machine, regular.all_bytes(), BOTH).shortest()


def _of_values(a: CompiledGrammar, only: CompiledGrammar, max_pairs: int | None) -> bytes:
    """A text of ``a`` whose value is one of a difference of schemas."""
    try:
        most = MAX_SHORTEST if max_pairs is None else max_pairs
        found = Analysis(only.machine, regular.all_bytes(), BOTH, max_pairs=most).shortest()
    except (ConstraintError, LimitExceeded):
        found = short_text(_schema_machine(only))
    assert found is not None, "a schema that allows nothing is not compiled"
    text = rearranged(_schema_machine(a), found)
    assert text is not None, "a valid value has a text"
    return text


def _is_invalid(b: CompiledGrammar, text: bytes) -> bool:
    """Whether the value of a JSON text is known not to be valid under a schema."""
    if b.machine.matches(text):
        return False
    try:
        return not allows_value(b, text)
    except (LimitExceeded, SchemaError):
        return False


def _drawn(a: CompiledGrammar, shows: Callable[[bytes], bool], n: int) -> bytes | None:
    """The shortest of some random instances of a schema that show the difference; None if none does."""
    found = []
    for seed, max_length in enumerate((20, 60, 200)):
        sampler = InstanceSampler(_schema_machine(a), seed, max_length=max_length, max_steps=n)
        try:
            found += [text for _ in range(n // 60) if shows(text := sampler.sample().encode())]
        except LimitExceeded:
            continue
    return min(found, key=len, default=None)


def _schema_machine(grammar: CompiledGrammar) -> SchemaMachine:
    assert isinstance(grammar.machine, LazyRSM)
    builder = grammar.machine.builder
    assert isinstance(builder, SchemaMachine)
    return builder


def _ending_of(a: CompiledGrammar, max_steps: int) -> Ending | None:
    """How texts of a schema are completed: also those with more than one value that must not come twice. None for all else."""
    if not isinstance(a.recipe, SchemaRecipe):
        return None
    sampler = InstanceSampler(_schema_machine(a), seed=0, max_steps=max_steps)

    def ending(text: bytes, reading: Reading) -> bytes | None:
        walk = Walk(bytearray(text), reading.here.state, list(reading.here.stack), list(reading.starts))
        try:
            sampler.close(walk, 0)
        except LimitExceeded:
            return None
        return bytes(walk.text)

    return ending


def _untold(
    error: ConstraintError | LimitExceeded | UnsupportedSchemaError, max_searched: int
) -> ConstraintError | LimitExceeded:
    """The error of what cannot be told, with what was tried."""
    tried = f"no text that shows a difference was found either, among max_searched={max_searched} beginnings of texts"
    if isinstance(error, LimitExceeded):
        return LimitExceeded(error.name, error.limit, error.reached, f"{error.hint}; {tried}", error.pointer)
    return ConstraintError(f"{error}; {tried}")
