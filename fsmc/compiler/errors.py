"""One tree of exceptions. Each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import re
import sys

_SURROGATE = re.compile("[\ud800-\udfff]")


class FsmcError(Exception):
    """Base of every error that fsmc raises on purpose.

    >>> issubclass(PatternSyntaxError, FsmcError)
    True
    """


class PatternSyntaxError(FsmcError, ValueError):
    """A pattern cannot be read. Carries ``pattern`` and ``span`` (start, end; code points) and draws a caret.

    >>> print(PatternSyntaxError("repeat bounds are reversed", "a{5,2}", (1, 6)))
    repeat bounds are reversed, at position 1
      a{5,2}
       ^^^^^
    """

    def __init__(self, message: str, pattern: str, span: tuple[int, int], hint: str = "") -> None:
        self.message, self.pattern, self.span, self.hint = message, pattern, span, hint
        super().__init__(message, pattern, span, hint)

    def placed(self, place: str) -> PatternSyntaxError:
        """The same error of a pattern that is part of something: says where that is."""
        return type(self)(f"{place}: {self.message}", self.pattern, self.span, self.hint)

    def __str__(self) -> str:
        start, end = self.span
        before, _, rest = self.pattern[:start].rpartition("\n")
        line_start = start - len(rest)
        line = self.pattern[line_start:].split("\n", 1)[0]
        number = before.count("\n") + 2 if before or self.pattern[:start].endswith("\n") else 1
        where = f"at position {start}" if "\n" not in self.pattern else f"at position {start} (line {number})"
        width = max(1, min(end, line_start + len(line)) - start)
        if len(line) > 100:  # a window around the place, so that a 1 MB pattern prints as one short line
            shift = max(0, len(rest) - 40)
            line, rest = ("…" + line[shift + 1 : shift + 100]) if shift else line[:100], rest[shift:]
            width = min(width, 60)
        line = _SURROGATE.sub("\ufffd", line)  # or the message could not be printed
        text = f"{self.message}, {where}\n  {line}\n  {' ' * len(rest)}{'^' * width}"
        return f"{text}\n  {self.hint}" if self.hint else text


class UnsupportedPatternError(PatternSyntaxError):
    """The pattern is well-formed but uses what no finite-state machine can do (or what changes the language silently).

    >>> raise UnsupportedPatternError("back-references are not regular", r"(a)\\1", (3, 5))
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.UnsupportedPatternError: back-references are not regular, at position 3
      (a)\\1
         ^^
    """


class GrammarError(FsmcError, ValueError):
    """A grammar cannot be read, or a rule of it means nothing. Carries ``text``, ``span`` (characters), ``line`` and ``column`` (from
    1) and the ``rule`` concerned ("" outside of rules).

    >>> print(GrammarError("there is no rule 'itme'", "root ::= itme+", (9, 13), "root"))
    line 1, column 10, in rule 'root': there is no rule 'itme'
      root ::= itme+
               ^^^^
    """

    def __init__(self, message: str, text: str, span: tuple[int, int], rule: str = "", hint: str = "") -> None:
        self.message, self.text, self.span, self.rule, self.hint = message, text, span, rule, hint
        self.line = text.count("\n", 0, span[0]) + 1
        self.column = span[0] - text.rfind("\n", 0, span[0])
        super().__init__(message, text, span, rule, hint)

    def placed(self, place: str) -> GrammarError:
        """The same error of a grammar that is part of something: says where that is."""
        return type(self)(f"{self.message} ({place})", self.text, self.span, self.rule, self.hint)

    def __str__(self) -> str:
        start, end = self.span
        first = self.text.rfind("\n", 0, start) + 1
        line = self.text[first:].split("\n", 1)[0]
        place, width = start - first, max(1, min(end, first + len(line)) - start)
        if len(line) > 100:
            shift = max(0, place - 40)
            line, place, width = line[shift : shift + 100], place - shift, min(width, 60)
        line = _SURROGATE.sub("\ufffd", line.replace("\t", " "))
        where = f"line {self.line}, column {self.column}" + (f", in rule {_cut(repr(self.rule))}" if self.rule else "")
        text = f"{where}: {_cut(self.message)}\n  {line}\n  {' ' * place}{'^' * width}"
        return f"{text}\n  {self.hint}" if self.hint else text


class UnsupportedGrammarError(GrammarError):
    """The grammar is well-formed but uses what fsmc cannot compile exactly."""


class EmptyLanguageError(FsmcError, ValueError):
    """The constraint matches no text at all, so that nothing could ever be generated.

    >>> raise EmptyLanguageError("pattern 'a(?!a)a' matches nothing")
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.EmptyLanguageError: pattern 'a(?!a)a' matches nothing
    """


class LimitExceeded(FsmcError):
    """A bound on states, memory, time or depth was reached; ``limit`` and ``reached`` are in the bound's own unit.

    ``pointer``: of a JSON Schema, the JSON pointer of the part that is too large, None where that is not known.

    >>> raise LimitExceeded("max_states", 1000, 1001, "raise the limit or simplify the pattern")
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.LimitExceeded: max_states=1000 exceeded (reached 1001): raise the limit or simplify the pattern
    """

    def __init__(self, name: str, limit: float, reached: float, hint: str = "", pointer: str | None = None) -> None:
        self.name, self.limit, self.reached, self.hint, self.pointer = name, limit, reached, hint, pointer
        super().__init__(name, limit, reached, hint, pointer)

    def locate(self, pointer: str) -> None:
        """Say where, if that is not known yet."""
        if self.pointer is None:
            self.pointer = pointer

    def __str__(self) -> str:
        limit, reached = (_figure(number) for number in (self.limit, self.reached))
        text = f"{self.name}={limit} exceeded (reached {reached})"
        text = text if self.pointer is None else f"{place_text(self.pointer)}: {text}"
        return f"{text}: {self.hint}" if self.hint else text


def stack_exceeded() -> LimitExceeded:
    """What a RecursionError becomes: parts are within their limits, but compiled from far down, as in a test or a server."""
    depth = sys.getrecursionlimit()
    hint = "parts inside of parts, on Python's stack: let them nest less, or name them in rules and $defs"
    return LimitExceeded("max_depth", depth, depth + 1, hint)


class ConstraintError(FsmcError, ValueError):
    """What describes a constraint (a list of choices, a structural tag, a request's parameters) is not well-formed.

    ``place`` is the way to the part at fault, as Python would write it.

    >>> raise ConstraintError("must be a list of texts, not an int", "format.tags[0].end")
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.ConstraintError: format.tags[0].end: must be a list of texts, not an int
    """

    def __init__(self, message: str, place: str = "") -> None:
        self.message, self.place = message, place
        super().__init__(message, place)

    def __str__(self) -> str:
        text = self.message if len(self.message) <= 1000 else f"{self.message[:600]}…{self.message[-300:]}"
        text = f"{_cut(self.place)}: {text}" if self.place else text
        return _SURROGATE.sub("\ufffd", text)  # or the message could not be printed


class MachineError(FsmcError, ValueError):
    """Arrays given as a machine do not describe one (shape, dtype, a target out of range)."""


class VocabularyError(FsmcError, ValueError):
    """A tokenizer file or token list cannot be turned into a vocabulary; the message names the file and the place."""


class IndexFileError(FsmcError, ValueError):
    """An index file is truncated, damaged, of another format version, or made for another vocabulary."""


class TokenRejected(FsmcError, ValueError):
    """A token (or text) that the constraint does not allow was forced on a matcher."""


class BudgetExceeded(FsmcError, ValueError):
    """The text cannot be completed in the tokens that are left. ``needed`` are known to be enough; ``max_tokens`` are there.

    name: of the argument that says how many are there. end_counts: whether the end token is one of them.

    >>> raise BudgetExceeded(3, 7)
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.BudgetExceeded: max_tokens=3 is not enough to complete the text: 7 are (the end token counts)
    """

    def __init__(self, max_tokens: int, needed: int, name: str = "max_tokens", end_counts: bool = True) -> None:
        self.max_tokens, self.needed, self.name, self.end_counts = max_tokens, needed, name, end_counts
        super().__init__(max_tokens, needed, name, end_counts)

    def __str__(self) -> str:
        end = " (the end token counts)" if self.end_counts else ""
        return f"{self.name}={self.max_tokens} is not enough to complete the text: {self.needed} are{end}"


class SchemaError(FsmcError, ValueError):
    """A JSON Schema is not one: a keyword has a value of the wrong type, or a reference leads nowhere.

    ``pointer`` is the JSON pointer of the place (RFC 6901; given as None: not known yet), ``keyword`` the keyword at fault.

    >>> raise SchemaError("must be an array of names, not a string", "/properties/a/required", "required")
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.SchemaError: #/properties/a/required: must be an array of names, not a string
    """

    def __init__(self, message: str, pointer: str | None, keyword: str) -> None:
        self.message, self.pointer, self.keyword = message, pointer or "", keyword
        self.is_located = pointer is not None
        super().__init__(message, pointer, keyword)

    def locate(self, pointer: str) -> None:
        """Say where, if that is not known yet."""
        if not self.is_located:
            self.pointer, self.is_located = pointer, True

    def __str__(self) -> str:
        where = place_text(self.pointer)
        is_named = not self.keyword or self.pointer.endswith(f"/{self.keyword}")  # once is enough
        return f"{where}: {self.message}" if is_named else f"{where}: {self.keyword}: {self.message}"


class UnsupportedSchemaError(SchemaError):
    """The schema is well-formed but uses what fsmc cannot compile exactly."""


def type_of(value: object) -> str:
    """What a value is, for messages.

    >>> type_of(5), type_of("x"), type_of(None)
    ('an int', 'a str', 'None')
    """
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


def _cut(text: str) -> str:
    """A text that may hold a name of any length, cut."""
    return text if len(text) <= 300 else f"{text[:200]}…{text[-90:]}"


def _figure(number: float) -> str:
    """A figure of a few digits; counts in full, as long as they are no astronomical ones."""
    if isinstance(number, float):
        return f"{number:g}"
    return str(number) if abs(number) < 10**15 else f"about 10^{number.bit_length() * 0.30103:.0f}"


def place_text(pointer: str) -> str:
    """A JSON pointer as a URI fragment, very long ones cut; one into another document already is a URI."""
    place = pointer if "#" in pointer.partition("/")[0] or "://" in pointer else f"#{pointer}"
    return place if len(place) <= 300 else f"{place[:200]}…{place[-100:]}"
