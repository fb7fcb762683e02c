"""The machine of finitely many texts, of which a schema may list many, with the truth that goes with each."""

from __future__ import annotations

from collections.abc import Mapping

from fsmc.compiler.automata.words import word_table
from fsmc.compiler.schema.outcome_dfa import OutcomeDFA


def word_machine(outcomes: Mapping[bytes, int], vectors: tuple[tuple[bool, ...], ...]) -> OutcomeDFA:
    """The minimal machine of these texts, each with its outcome: an index into ``vectors``.

    Raises LimitExceeded if its table takes more than ``MAX_WORD_BYTES``.

    >>> words = word_machine({b"a": 0, b"ab": 1, b"b": 0, b"bb": 1}, ((True,), (False,)))
    >>> words.run(b"ab"), words.run(b"abb"), words.n_states
    ((False,), None, 4)
    """
    byte_class, delta, outcome = word_table(outcomes)
    return OutcomeDFA(byte_class, delta, outcome, min(1, len(delta) - 1), vectors)
