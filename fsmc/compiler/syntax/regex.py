r"""Regular expressions in Python's ``re`` syntax, or in ECMA-262's, read into a syntax tree.

The reader goes over the pattern once, with a stack of open groups instead of recursion, so that nesting costs no
Python stack. It desugars as it reads: flags, case, lazy marks and group names are gone from the tree, ``^ $ \b \B``
have become looks. Then what the surroundings decide is settled (assertions.py), and the tree is done.

What no finite-state machine can do, or would silently change the language, is refused by name: back-references,
conditionals, atomic groups and possessive quantifiers (both cut off alternatives that a language keeps).

Where ``re`` and ECMA-262 leave the texts open, these are Unicode texts without surrogates, as UTF-8 is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from fsmc.compiler.errors import LimitExceeded, PatternSyntaxError, UnsupportedPatternError
from fsmc.compiler.syntax.assertions import search, settle
from fsmc.compiler.syntax.charclass import CharClass
from fsmc.compiler.syntax.expr import Chars, Expr, TextEnd, TextStart
from fsmc.compiler.syntax.regex_classes import SURROGATE_HINT, read_class
from fsmc.compiler.syntax.regex_escapes import read_escape
from fsmc.compiler.syntax.regex_groups import GroupStart, read_group_start
from fsmc.compiler.syntax.regex_mode import Flavor, Mode
from fsmc.compiler.syntax.simplify import alternate, concat, look, repeat

_PLAIN = re.compile(r"[^\\^$.|?*+()\[{]+")
_PLAIN_VERBOSE = re.compile(r"[^\\^$.|?*+()\[{# \t\n\r\v\f]+")
_VERBOSE_FILLER = re.compile(r"(?:[ \t\n\r\v\f]+|#[^\n]*\n?)+")
_BOUNDS = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_ATOM = re.compile(r"\\[^0-9]|\[\^?\]?(?:[^\]\\]|\\.)*\]|[.^$]", re.S)
_ANCHORS = {"^", "$", r"\b", r"\B", r"\A", r"\Z"}
_MAX_REPEAT = 2**31 - 1

_SUPPORTED_FLAGS = int(re.I | re.M | re.S | re.X | re.A | re.U)
_PYTHON_ONLY = int(re.X | re.A)
_I, _M, _S, _X, _A, _U = map(int, (re.I, re.M, re.S, re.X, re.A, re.U))  # enumerations take microseconds to combine


def parse_regex(
    pattern: str,
    flavor: Flavor = "python",
    flags: int = 0,
    *,
    max_pattern_length: int = 2_000_000,
    max_depth: int = 100,
) -> Expr:
    r"""The syntax tree of the texts that ``pattern`` matches.

    ``flavor="python"``: those for which ``re.fullmatch(pattern, text, flags)`` is not None; ``\p{…}`` (general
    categories) is added. ``flavor="ecma"``: those in which ECMA-262 with the ``u`` flag finds a match somewhere, which
    is how JSON Schema's ``pattern`` reads; a leading ``(?i)`` and needless backslashes are tolerated. ``flags`` are
    those of ``re``: I, M, S, and X and A for Python's flavor.

    ``max_pattern_length`` is in characters, ``max_depth`` in groups open at once.

    Raises PatternSyntaxError, with the span of the fault, for a pattern that is wrong; UnsupportedPatternError, a
    subclass, for one that is not regular; LimitExceeded for one that is too long, too deep or repeats too often.

    >>> parse_regex("ab?")
    Concat(parts=(Chars(chars=CharClass(ranges=((97, 97),))),
        Repeat(body=Chars(chars=CharClass(ranges=((98, 98),))), minimum=0, maximum=1)))
    >>> parse_regex("^[0-9]$", flavor="ecma") == parse_regex("[0-9]")
    True
    >>> parse_regex("a{5,2}")
    Traceback (most recent call last):
    ...
    fsmc.compiler.errors.PatternSyntaxError: the repeat bounds are reversed, at position 1
      a{5,2}
       ^^^^^
    """
    if flavor not in ("python", "ecma"):
        raise ValueError(f"flavor must be 'python' or 'ecma', not {flavor!r}")
    if not isinstance(pattern, str):
        raise TypeError(f"a pattern is a str, not {type(pattern).__name__}")
    flags = int(flags)
    if flags & ~_SUPPORTED_FLAGS or (flavor == "ecma" and flags & _PYTHON_ONLY) or (flags & _A and flags & _U):
        raise ValueError(
            f"these flags of re cannot be used, or not together, in the {flavor} flavor: {re.RegexFlag(flags)!r}"
        )
    if len(pattern) > max_pattern_length:
        raise LimitExceeded(
            "max_pattern_length",
            max_pattern_length,
            len(pattern),
            "split the pattern; parse_regex takes a higher limit",
        )
    try:
        pattern.encode()
    except UnicodeEncodeError as error:
        span = (error.start, error.start + 1)
        raise PatternSyntaxError("the pattern holds a lone surrogate", pattern, span, SURROGATE_HINT) from None
    mode = Mode(
        flavor,
        ignore_case=bool(flags & _I),
        multiline=bool(flags & _M),
        dot_all=bool(flags & _S),
        verbose=bool(flags & _X),
        ascii=bool(flags & _A),
    )
    parser = _Parser(pattern, mode, max_depth)
    body = parser.parse()
    if flavor == "ecma":
        return search(body)
    return settle(body) if parser.asserts else body


@lru_cache(maxsize=1024)
def _literal(mode: Mode, character: str) -> Chars:
    return Chars(mode.fold(CharClass.of(character)))


@dataclass(slots=True)
class _Group:
    """An open group: what to do when it closes, and what it holds so far."""

    start: int
    outer_mode: Mode  # to return to
    close: Callable[[Expr], Expr]
    branches: list[Expr] = field(default_factory=list)
    parts: list[Expr] = field(default_factory=list)  # of the branch being read
    repeatable: str = "nothing"  # what a quantifier would find now: "nothing", an "item", or a "repeat"


class _Parser:
    """One pass over the pattern. Literals, classes and anchors that are read alike share one node, so that whatever
    follows can remember by identity: a pattern of a megabyte has few different ones."""

    def __init__(self, pattern: str, mode: Mode, max_depth: int) -> None:
        self.pattern, self.max_depth = pattern, max_depth
        self.position = 0
        self.group = _Group(0, mode, lambda body: body)
        self.outer: list[_Group] = []
        self.names: set[str] = set()
        self.asserts = False  # an anchor or a look was read
        self.nodes: dict[Mode, tuple[dict[str, Expr], dict[str, Expr]]] = {}
        self._enter(mode)

    def parse(self) -> Expr:
        pattern = self.pattern
        while self.position < len(pattern):
            if self.mode.verbose:
                filler = _VERBOSE_FILLER.match(pattern, self.position)
                if filler:
                    self.position = filler.end()
                    continue
            plain = (_PLAIN_VERBOSE if self.mode.verbose else _PLAIN).match(pattern, self.position)
            if plain:
                self.position = plain.end()
                self._add_literals(plain[0])
            else:
                self._read_special(self.position, pattern[self.position])
        if self.outer:
            span = (self.group.start, self.group.start + 1)
            raise PatternSyntaxError("the group has no closing )", pattern, span, r"write \( for the character itself")
        return self._close_branches(self.group)

    def _enter(self, mode: Mode) -> None:
        self.mode = mode
        self.literals, self.atoms = self.nodes.setdefault(mode, ({}, {}))

    def _add(self, expr: Expr, repeatable: str = "item") -> None:
        self.group.parts.append(expr)
        self.group.repeatable = repeatable

    def _add_literals(self, characters: str) -> None:
        for character in set(characters) - self.literals.keys():
            self.literals[character] = _literal(self.mode, character)
        self.group.parts.extend(map(self.literals.__getitem__, characters))
        self.group.repeatable = "item"

    def _read_special(self, start: int, character: str) -> None:
        if character in "\\[.^$":
            self._read_atom(start)
        elif character == "(":
            self._open_group(start)
        elif character == ")":
            self._close_group(start)
        elif character == "|":
            self.position += 1
            self.group.branches.append(concat(self.group.parts))
            self.group.parts, self.group.repeatable = [], "nothing"
        else:
            self._read_quantifier(start, character)

    def _read_atom(self, start: int) -> None:
        source = _ATOM.match(self.pattern, start)
        node = self.atoms.get(source[0]) if source else None
        if source and node is not None:
            self.position = source.end()
        else:
            node = self._make_atom(start, self.pattern[start])
            if source and self.position == source.end():  # else it reads on behind what _ATOM saw: \x41
                self.atoms[source[0]] = node
        if source and source[0] in _ANCHORS:
            self.asserts = True
            if self.group.parts and self.group.parts[-1] is node:  # to assert twice is to assert once
                self.group.repeatable = "nothing"
            else:
                self._add(node, repeatable="nothing")
        else:
            self._add(node)

    def _make_atom(self, start: int, character: str) -> Expr:
        self.position = start + 1
        if character == ".":
            return Chars(self.mode.dot())
        if character == "^":
            return self.mode.line_start()
        if character == "$":
            return self.mode.line_end()
        if character == "[":
            chars, self.position = read_class(self.pattern, start, self.mode)
            return Chars(chars)
        meaning, self.position = read_escape(self.pattern, start, self.mode, in_class=False)
        if isinstance(meaning, CharClass):
            return Chars(meaning)
        if isinstance(meaning, str):
            if meaning in "AZ":
                return TextStart() if meaning == "A" else TextEnd()
            return self.mode.word_boundary(negated=meaning == "B")
        if 0xD800 <= meaning <= 0xDFFF:
            span = (start, self.position)
            raise UnsupportedPatternError("a lone surrogate matches no text", self.pattern, span, SURROGATE_HINT)
        return Chars(self.mode.fold(CharClass.of(chr(meaning))))

    def _open_group(self, start: int) -> None:
        opened = read_group_start(self.pattern, start, self.mode, self.names)
        self.position = opened.end
        if opened.kind == "comment":
            return
        if opened.kind == "flags":
            if self.outer or self.group.branches or self.group.parts:
                raise PatternSyntaxError(
                    "flags for the whole pattern must come first",
                    self.pattern,
                    (start, opened.end),
                    "for a part of it, write (?i:…)",
                )
            self._enter(opened.mode)
            return
        self.outer.append(self.group)
        self.group = _Group(start, self.mode, _closer(opened))
        self.asserts = self.asserts or opened.kind != "group"
        self._enter(opened.mode)
        if len(self.outer) > self.max_depth:
            raise LimitExceeded(
                "max_depth",
                self.max_depth,
                len(self.outer),
                f"groups nest too deeply at position {start} of the pattern",
            )

    def _close_group(self, start: int) -> None:
        if not self.outer:
            hint = r"write \) for the character itself"
            raise PatternSyntaxError("this ) closes no group", self.pattern, (start, start + 1), hint)
        group = self.group
        self.group = self.outer.pop()
        self._enter(group.outer_mode)
        self.position = start + 1
        self._add(group.close(self._close_branches(group)))

    @staticmethod
    def _close_branches(group: _Group) -> Expr:
        last = concat(group.parts)
        return alternate([*group.branches, last]) if group.branches else last

    def _read_quantifier(self, start: int, character: str) -> None:
        pattern = self.pattern
        minimum: int
        maximum: int | None
        if character == "{":
            bounds = _BOUNDS.match(pattern, start)
            if not bounds or bounds[0] == "{}":  # like re, and like browsers: a brace that is no quantifier is literal
                self.position += 1
                self._add_literals("{")
                return
            self.position = bounds.end()
            if self.mode.flavor == "ecma" and not bounds[1]:
                hint = f"write {{0{bounds[0][1:]}, or \\{bounds[0]} for the text itself"
                raise PatternSyntaxError("ECMA-262 needs a lower bound here", pattern, bounds.span(), hint)
            minimum = self._count(bounds[1] or "0", bounds.start(1))
            maximum = self._count(bounds[3], bounds.start(3)) if bounds[3] else (None if bounds[2] else minimum)
            if maximum is not None and maximum < minimum:
                raise PatternSyntaxError("the repeat bounds are reversed", pattern, bounds.span())
        else:
            self.position += 1
            minimum, maximum = {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        span = (start, self.position)
        if self.group.repeatable == "nothing":
            hint = f"write \\{character} for the character itself"
            raise PatternSyntaxError("there is nothing to repeat here", pattern, span, hint)
        if self.group.repeatable == "repeat":
            hint = "put the first repeat in a group: (?:…)"
            raise PatternSyntaxError("a repeat cannot be repeated", pattern, span, hint)
        if pattern.startswith("+", self.position):
            raise UnsupportedPatternError(
                "possessive quantifiers are not regular", pattern, (start, self.position + 1), "leave out the last +"
            )
        if pattern.startswith("?", self.position):  # lazy: which match is found first, not which texts match
            self.position += 1
        self._add(repeat(self.group.parts.pop(), minimum, maximum), repeatable="repeat")

    def _count(self, digits: str, position: int) -> int:
        digits = digits.lstrip("0") or "0"
        count = int(digits[:11])
        if count > _MAX_REPEAT or len(digits) > 11:
            raise LimitExceeded(
                "max_repeat", _MAX_REPEAT, count, f"the repeat count at position {position} of the pattern is too large"
            )
        return count


def _closer(opened: GroupStart) -> Callable[[Expr], Expr]:
    if opened.kind == "group":
        return lambda body: body
    ahead, negated = "ahead" in opened.kind, opened.kind.startswith("not")
    return lambda body: look(body, ahead, negated)
