"""From a regex to a machine, for the grammars of formats, and the ABNF core rules that several of them share."""

from __future__ import annotations

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.regex import parse_regex

ALPHA, DIGIT, HEXDIG = "A-Za-z", "0-9", "0-9A-Fa-f"
"""For use inside the brackets of a class (RFC 5234, appendix B.1; ABNF's letters have no case)."""


def machine(pattern: str) -> DFA:
    """The minimal DFA of the texts that a regex matches whole.

    >>> machine("a|b").matches(b"a"), machine("a|b").matches(b"ab")
    (True, False)
    """
    return minimize(determinize(thompson(parse_regex(pattern))))
