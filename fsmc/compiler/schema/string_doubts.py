"""Formats that a machine cannot tell for certain, in formulas: what may be concluded, and which texts are left out.

A format's machine may accept less than its standard (format_doubts.py says of which texts it cannot tell). Where the format
has to hold that is sound. Where it must not hold, or something else depends on whether it does, it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product

from fsmc.compiler.schema.atoms import Doubtful, Format
from fsmc.compiler.schema.format_doubts import INEXACT
from fsmc.compiler.schema.formula import AND, ATOM, OR, Formulas


def without_doubt(must: int, watches: Sequence[int], table: Formulas) -> int:
    """``must``, and that no format is in doubt whose absence something here may rest on.

    A text that a format's machine does not accept may have the format all the same. So where a format must not hold, is one
    of alternatives of which exactly one must, or is watched, the texts it cannot tell are left out.

    >>> table = Formulas()
    >>> name = table.atom(Format("hostname"))
    >>> table.show(without_doubt(table.negate(name), (), table))
    "(not Format(name='hostname') and not Doubtful(name='hostname'))"
    >>> without_doubt(name, (), table) == name
    True
    """
    inexact = _inexact_formats((must, *watches), table)
    if not inexact:
        return must
    at_stake = _negative_atoms(must, table).union(*map(table.atoms, watches))
    names = sorted(name for atom, name in inexact.items() if atom in at_stake)
    return table.conj([must, *(table.negate(table.atom(Doubtful(name))) for name in names)])


def _inexact_formats(formulas: Iterable[int], table: Formulas) -> dict[int, str]:
    """The atoms of formats about some of whose texts there is doubt, and the formats' names."""
    payloads = {atom: table.payload(atom) for formula in formulas for atom in table.atoms(formula)}
    return {atom: p.name for atom, p in payloads.items() if isinstance(p, Format) and p.name in INEXACT}


def _negative_atoms(formula: int, table: Formulas) -> frozenset[int]:
    """The atoms that do not only speak for the formula: all but those under nothing else than "and" and "or"."""
    kind = table.kind(formula)
    if kind in (AND, OR):
        return frozenset().union(*(_negative_atoms(part, table) for part in table.arguments(formula)))
    return frozenset() if kind == ATOM else table.atoms(formula)


def readings(formula: int, table: Formulas) -> Iterator[int]:
    """The formula with each doubtful format taken as the machine's texts, or as those and the texts in doubt: every way."""
    inexact = _inexact_formats((formula,), table)
    choices = [((atom, atom), (atom, table.disj([atom, table.atom(Doubtful(name))]))) for atom, name in inexact.items()]
    for chosen in product(*choices):
        yield table.substitute(formula, partial(_reread, dict(chosen)))


def _reread(reading: dict[int, int], atom: int) -> int:
    return reading.get(atom, atom)
