"""Formats of strings, each as a regex of our own that says exactly what its standard says."""

from __future__ import annotations

from functools import lru_cache

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.regex import parse_regex

_HEX = "[0-9a-fA-F]"
_YEAR4 = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = rf"(?:[0-9]{{4}}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_YEAR4}-02-29)"

PATTERNS: dict[str, str] = {
    "date": _DATE,
    "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "ipv4": r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!\Z)|\Z)){4}",
}
KNOWN_FORMATS = frozenset(PATTERNS)


@lru_cache(maxsize=64)
def format_dfa(name: str) -> DFA:
    """The strings (whole) of a format, over their content's UTF-8.

    >>> format_dfa("date").matches(b"2024-02-29"), format_dfa("date").matches(b"2023-02-29")
    (True, False)
    """
    return minimize(determinize(thompson(parse_regex(PATTERNS[name]))))
