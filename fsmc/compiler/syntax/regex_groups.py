"""What follows an opening parenthesis: names, flags, looks, comments, and the kinds of group that are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from fsmc.compiler.errors import PatternSyntaxError, UnsupportedPatternError
from fsmc.compiler.syntax.regex_mode import Mode

_NAME = re.compile(r"([^>)]*)(>?)")
_FLAGS = re.compile(r"([A-Za-z]*)(-?)([A-Za-z]*)")
_FIELDS = {"i": "ignore_case", "m": "multiline", "s": "dot_all", "x": "verbose", "a": "ascii", "u": "ascii"}


@dataclass(frozen=True, slots=True)
class GroupStart:
    """A group's opening, up to ``end``. ``flags`` are for the whole pattern; ``mode`` is the one in force after it."""

    kind: Literal["group", "ahead", "not ahead", "behind", "not behind", "flags", "comment"]
    mode: Mode
    end: int


def read_group_start(pattern: str, start: int, mode: Mode, names: set[str]) -> GroupStart:
    """Read the opening whose parenthesis is at ``start``; a group's name is added to ``names``.

    Raises PatternSyntaxError for an opening that does not exist, a bad or repeated name, or wrong flags;
    UnsupportedPatternError for named back-references, conditionals and atomic groups.

    >>> read_group_start("(?i:a)", 0, Mode(), set()).mode.ignore_case
    True
    """
    if not pattern.startswith("?", start + 1):
        return GroupStart("group", mode, start + 1)
    at = start + 2
    for opening, kind in _PLAIN_OPENINGS.items():
        if pattern.startswith(opening, at):
            return GroupStart(kind, mode, at + len(opening))
    if pattern.startswith("#", at):
        end = pattern.find(")", at)
        if end < 0:
            raise PatternSyntaxError("the comment has no closing )", pattern, (start, start + 3))
        return GroupStart("comment", mode, end + 1)
    for opening, (message, until) in _REFUSED.items():
        if pattern.startswith(opening, at):
            end = pattern.find(until, at) + 1 if until else at + len(opening)
            raise UnsupportedPatternError(message, pattern, (start, end or len(pattern)), _REFUSED_HINT[opening])
    if pattern.startswith(("P<", "<"), at):
        return _named(pattern, start, mode, names)
    letter = pattern[at : at + 1]
    if letter == "-" or (letter.isascii() and letter.isalpha() and letter != "P"):
        return _flags(pattern, start, mode)
    raise PatternSyntaxError(
        "this kind of group does not exist" if at < len(pattern) else "the pattern ends inside a group's opening",
        pattern,
        (start, min(at + 1, len(pattern))),
        r"write \( for a parenthesis, (?:…) for a group",
    )


_PLAIN_OPENINGS: dict[str, Literal["group", "ahead", "not ahead", "behind", "not behind"]] = {
    ":": "group",
    "=": "ahead",
    "!": "not ahead",
    "<=": "behind",
    "<!": "not behind",
}

_REFUSED = {  # what follows "(?": the message, and where the span ends
    "P=": ("back-references are not regular", ")"),
    "(": ("conditional groups are not regular", ")"),
    ">": ("atomic groups are not regular", ""),
}
_REFUSED_HINT = {
    "P=": "no finite-state machine can compare two parts of a text: write the alternatives out",
    "(": "write both cases out as alternatives",
    ">": "write (?:…), which keeps the alternatives that an atomic group drops",
}


def _named(pattern: str, start: int, mode: Mode, names: set[str]) -> GroupStart:
    at = pattern.index("<", start) + 1
    if mode.flavor == "python" and pattern[at - 2] != "P":
        hint = "Python writes (?P<name>…)"
        raise PatternSyntaxError("this kind of group does not exist", pattern, (start, at), hint)
    match = _NAME.match(pattern, at)
    assert match
    name, span = match[1], (at, max(match.end(1), at))
    if not match[2]:
        raise PatternSyntaxError("the group's name has no closing >", pattern, (start, match.end()))
    if not name.replace("$", "_" if mode.flavor == "ecma" else "$").isidentifier():
        span = span if name else (start, match.end())
        raise PatternSyntaxError("a group's name must be an identifier", pattern, span, "such as (?P<year>…)")
    if mode.flavor == "python" and name in names:  # ECMA-262 allows it in different alternatives; names do nothing here
        raise PatternSyntaxError("this group name is already in use", pattern, span)
    names.add(name)
    return GroupStart("group", mode, match.end())


def _flags(pattern: str, start: int, mode: Mode) -> GroupStart:
    match = _FLAGS.match(pattern, start + 2)
    assert match
    on, off = match[1], match[3]
    for group in (1, 3):
        for index, flag in enumerate(match[group], match.start(group)):
            _check_flag(pattern, (index, index + 1), flag, mode, turned_off=group == 3)
    end = match.end()
    closing = pattern[end : end + 1]
    if closing not in (":", ")") or not closing or (match[2] and not off):
        message = "a flag is missing after -" if match[2] and not off else "flags must be followed by : or )"
        raise PatternSyntaxError(message, pattern, (start, min(end + 1, len(pattern))), "such as (?i:…) or (?-i:…)")
    if match[2] and closing == ")":
        raise PatternSyntaxError(
            "flags can only be turned off for a part of the pattern", pattern, (start, end + 1), "such as (?-i:…)"
        )
    if set(on) & set(off):
        raise PatternSyntaxError("a flag is turned both on and off", pattern, (start, end + 1))
    if ("a" in on and "u" in on) or (closing == ")" and "u" in on and mode.ascii):
        raise PatternSyntaxError("the flags a and u exclude each other", pattern, (start, end + 1))
    for flag in on + off:
        # u is the absence of a, and so the only one that clears by being turned on
        mode = replace(mode, **{_FIELDS[flag]: flag in on and flag != "u"})  # type: ignore[arg-type]  # all are bool
    return GroupStart("flags" if closing == ")" else "group", mode, end + 1)


def _check_flag(pattern: str, span: tuple[int, int], flag: str, mode: Mode, turned_off: bool) -> None:
    if mode.flavor == "python" and flag == "L":
        hint = "texts are Unicode: (?a) restricts classes to ASCII"
        raise UnsupportedPatternError("locale-dependent matching is not supported", pattern, span, hint)
    known = "imsxau" if mode.flavor == "python" else "ims"
    if flag not in known:
        raise PatternSyntaxError(f"there is no flag {flag}", pattern, span, f"the flags are {', '.join(known)}")
    if turned_off and flag in "au":
        raise PatternSyntaxError(f"the flag {flag} cannot be turned off", pattern, span, "turn on the other of a and u")
