"""Strings: from a formula over patterns, lengths, formats and enumerations to a machine over content.

Each atom is a DFA over the string's content (UTF-8; string_machines.py). Their product, run all at once, knows which atoms
hold of a text; what must hold decides whether the text may end there, what is watched is the outcome. Only then is the
machine carried over to JSON text (json_text.py), in which some characters are written as escapes. A bound on the length
is kept out of the product where it can be (counted.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from fsmc.compiler.automata.algebra import all_text
from fsmc.compiler.errors import UnsupportedSchemaError
from fsmc.compiler.schema.atoms import Format, Length, Pattern
from fsmc.compiler.schema.bits import told_apart
from fsmc.compiler.schema.conditions import merge_enumerations
from fsmc.compiler.schema.formula import ATOM, TRUE, Formulas
from fsmc.compiler.schema.joint import joint_component
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA
from fsmc.compiler.schema.string_doubts import without_doubt
from fsmc.compiler.schema.string_machines import atom_dfa, string_sorters, strings_that
from fsmc.compiler.schema.word_machine import word_machine


@lru_cache(maxsize=1)
def any_string() -> OutcomeDFA:
    """All strings, by content, with one outcome."""
    return OutcomeDFA.of(all_text())


def split_length(formula: int, table: Formulas) -> tuple[int, int, int | None]:
    """A string formula as (what it asks apart from its length, minimum, maximum length); a length inside it stays there.

    >>> from fsmc.compiler.schema.atoms import Pattern
    >>> table = Formulas()
    >>> digits = table.atom(Pattern("^[0-9]*$"))
    >>> rest, low, high = split_length(table.conj([digits, table.atom(Length(2, 5)), table.atom(Length(0, 3))]), table)
    >>> rest == digits, low, high
    (True, 2, 3)
    """
    low, high, rest = 0, None, []
    for part in table.conjuncts(formula):
        literal = table.literal(part)
        payload = table.payload(literal[0]) if literal else None
        if isinstance(payload, Length) and literal and literal[1]:
            low = max(low, payload.minimum)
            if payload.maximum is not None:
                high = payload.maximum if high is None else min(high, payload.maximum)
        else:
            rest.append(part)
    return table.conj(rest), low, high


def string_component(must: int, watches: Sequence[int], table: Formulas) -> OutcomeDFA:
    """The machine over string content that accepts where ``must`` holds, its outcomes telling which of ``watches`` hold.

    Texts of which a format's machine cannot tell what ``must`` or ``watches`` have to know are left out (`without_doubt`).
    Raises LimitExceeded if the atoms' product grows too large, UnsupportedSchemaError if no other text is left to watch.

    >>> from fsmc.compiler.schema.atoms import Pattern
    >>> table = Formulas()
    >>> digits, short = table.atom(Pattern("^[0-9]*$")), table.atom(Length(0, 2))
    >>> component = string_component(digits, [short], table)
    >>> component.run(b"12"), component.run(b"123"), component.run(b"x")
    ((True,), (False,), None)
    """
    if must == TRUE and not watches:
        return any_string()
    if not watches and table.kind(must) == ATOM and isinstance(payload := table.payload(must), (Format, Pattern)):
        return OutcomeDFA.of(atom_dfa(payload, table.clock))  # text already: nothing to multiply it with
    component = listed_strings(must, watches, table, str.encode)
    if component is None:
        certain = without_doubt(must, watches, table)
        component = joint_component(all_text(), lambda atoms: string_sorters(atoms, table), certain, watches, table)
        if certain != must:
            _check_told(component, must, watches, table)
    return component


def listed_strings(
    must: int, watches: Sequence[int], table: Formulas, spell: Callable[[str], bytes]
) -> OutcomeDFA | None:
    """As `string_component`, if only finitely many strings come into question, else None: each is judged by itself, whatever
    the other atoms' machines are. spell: how a string is written in the machine's texts.

    >>> from fsmc.compiler.schema.atoms import StrEnum
    >>> table = Formulas()
    >>> listed_strings(table.atom(StrEnum(frozenset({"a", "b"}))), (), table, str.encode).run(b"b")
    ()
    """
    certain = without_doubt(must, watches, table)
    included, rest = merge_enumerations(table, certain)
    if included is None:
        return None
    texts = sorted(included)
    good, *watched = strings_that([rest, *watches], texts, table)
    which, vectors = told_apart(good, watched, len(texts))
    words = {spell(text): outcome for text, outcome in zip(texts, which.tolist(), strict=True) if outcome >= 0}
    component = word_machine(words, vectors)
    if certain != must:
        _check_told(component, must, watches, table)
    return component


def _check_told(component: OutcomeDFA, must: int, watches: Sequence[int], table: Formulas) -> None:
    if watches and not component.vectors:
        raise UnsupportedSchemaError(
            f"cannot tell which alternative holds of any text that satisfies {table.show(must)}", None, "format"
        )
