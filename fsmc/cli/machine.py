"""What the arguments of a command name: a pattern, a file with a pattern, or an index file; and the limits on them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fsmc.cli.output import UsageError

if TYPE_CHECKING:
    from fsmc.compiler.automata.dfa import DFA

INDEX_SUFFIX = ".fsmc"

Flavor = Literal["python", "ecma"]
FlavorOption = Annotated[
    Flavor,
    typer.Option(help="python: the whole text matches. ecma: JavaScript's syntax, a match anywhere in the text."),
]
FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="Read the pattern from this file (its last line break is dropped).")
]
IgnoreCase = Annotated[bool, typer.Option("-i", help="Ignore case, like (?i).")]
DotAll = Annotated[bool, typer.Option("-s", help="The dot matches line breaks too, like (?s).")]
MultiLine = Annotated[bool, typer.Option("-m", help="^ and $ match at every line, like (?m).")]
Verbose = Annotated[
    bool, typer.Option("-x", help="White space and comments in the pattern are not part of it, like (?x).")
]
Ascii = Annotated[bool, typer.Option("-a", help=r"\w, \d, \s and \b mean ASCII only, like (?a).")]
MaxStates = Annotated[int | None, typer.Option(min=1, help="Give up (exit code 4) beyond so many states.")]
MaxSeconds = Annotated[float | None, typer.Option(min=0, help="Give up (exit code 4) after so many seconds.")]


@dataclass(frozen=True, slots=True)
class Source:
    """A pattern and how to read it."""

    pattern: str
    flavor: Flavor
    flags: int

    @classmethod
    def read(cls, pattern: str | None, file: Path | None, flavor: Flavor, letters: dict[str, bool]) -> Source:
        """From the arguments; exactly one of ``pattern`` and ``file`` must be given, else UsageError.

        >>> Source.read("a+", None, "python", {"i": True, "s": False}).flags == re.I
        True
        """
        if (pattern is None) == (file is None):
            raise UsageError("give a pattern or --file, and not both")
        if file is not None:
            pattern = file.read_text(encoding="utf-8").removesuffix("\n")
        flags = 0
        for letter, wanted in letters.items():
            flags |= int(re.RegexFlag[letter.upper()]) if wanted else 0
        return cls(pattern or "", flavor, flags)

    def to_dfa(self, max_states: int | None = None, max_seconds: float | None = None) -> DFA:
        """The minimal DFA of the pattern; no vocabulary is needed. Raises what the stages raise."""
        from fsmc.compiler.automata.determinize import MAX_SECONDS, MAX_STATES, determinize
        from fsmc.compiler.automata.minimize import minimize
        from fsmc.compiler.automata.nfa import thompson
        from fsmc.compiler.errors import EmptyLanguageError
        from fsmc.compiler.syntax.regex import parse_regex

        states, seconds = max_states or MAX_STATES, MAX_SECONDS if max_seconds is None else max_seconds
        nfa = thompson(parse_regex(self.pattern, self.flavor, self.flags), max_states=states)
        dfa = minimize(determinize(nfa, max_states=states, max_seconds=seconds))
        if dfa.is_empty:
            raise EmptyLanguageError(f"pattern {self.pattern!r} matches no text at all")
        return dfa


def names_index(pattern: str | None) -> bool:
    """Whether a command's first argument is the name of an index file rather than a pattern.

    >>> names_index("date.fsmc"), names_index("[0-9]+")
    (True, False)
    """
    return pattern is not None and pattern.endswith(INDEX_SUFFIX)


def read_bytes(text: str | None, file: Path | None) -> bytes:
    """The text that a command works on: the argument, a file, or standard input for '-' or nothing at all."""
    if text is not None and file is not None:
        raise UsageError("give a text or --text-file, and not both")
    if file is not None:
        return file.read_bytes()
    if text is None or text == "-":
        if sys.stdin is None or (text is None and sys.stdin.isatty()):  # None: it is closed
            raise UsageError("give a text, --text-file, or a text on standard input")
        return sys.stdin.buffer.read()
    return text.encode("utf-8", "surrogateescape")
