r"""What the machines of formats cannot tell: for each, a regular superset of everything that its standard may mean.

A machine that accepts less than its standard is sound where a format has to hold, but not where it must not, nor where
something depends on whether it does. There, texts in doubt (in the superset here, not accepted by the machine) have to
be left out. The supersets are as narrow as is cheap: where some rule surely forbids a text, it should not be in doubt.

Without doubt, since their machines are the whole grammar of their RFC, rule by rule: date, ipv4, ipv6, uri,
uri-reference, iri, iri-reference, json-pointer, uuid.
"""

from __future__ import annotations

from collections.abc import Callable

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema.format_dates import LEAP_SECOND_OFFSETS
from fsmc.compiler.schema.format_hosts import LABEL
from fsmc.compiler.schema.format_idn import DOT
from fsmc.compiler.schema.format_machine import ALPHA, DIGIT, machine
from fsmc.compiler.schema.format_uris import POINTER, template_pattern

_BEYOND = "\x80-\U0010ffff"
"""Characters that are not ASCII."""

# ── dates ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_KNOWN_MINUTES = "|".join(f"{minutes:02}" for minutes in LEAP_SECOND_OFFSETS)
_SECOND_60 = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:60(?:\.[0-9]+)?"
_OFFSET = "[+-](?:[01][0-9]|2[0-3]):"
_UNKNOWN_OFFSET = f"{_OFFSET}(?!{_KNOWN_MINUTES})[0-5][0-9]"
_MONTH_ENDS = "0[13578]-31|1[02]-31|0[469]-30|11-30|02-2[89]"  # and the days after them: the offset shifts the day
_MONTH_CHANGE = f"(?:{_MONTH_ENDS}|(?:0[1-9]|1[0-2])-01)"


def _time() -> str:
    """Second 60 with an offset whose minutes `format_dates.time` does not know."""
    return f"{_SECOND_60}{_UNKNOWN_OFFSET}"


def _date_time() -> str:
    """So too; and leap seconds of other months, which RFC 3339 (section 5.7) does not exclude: "to date" there were none."""
    other_months = f"(?!06-30|07-01|12-31|01-01){_MONTH_CHANGE}[Tt]{_SECOND_60}(?:[Zz]|{_OFFSET}[0-5][0-9])"
    return f"[0-9]{{4}}-(?:{other_months}|{_MONTH_CHANGE}[Tt]{_SECOND_60}{_UNKNOWN_OFFSET})"


def _duration() -> str:
    """Letters of either case: as RFC 5234 reads ABNF, but ISO 8601, which the appendix describes, has capitals only."""
    n = "[0-9]+"
    time_part = f"[Tt](?:{n}[Hh](?:{n}[Mm](?:{n}[Ss])?)?|{n}[Mm](?:{n}[Ss])?|{n}[Ss])"
    day_part = f"(?:{n}[Dd]|{n}[Mm](?:{n}[Dd])?|{n}[Yy](?:{n}[Mm](?:{n}[Dd])?)?)"
    return f"[Pp](?:{day_part}(?:{time_part})?|{time_part}|{n}[Ww])"


# ── hosts and addresses ──────────────────────────────────────────────────────────────────────────────────────────────


def _hostname() -> str:
    """Labels that begin with ``xn--``: which of them are names depends on what they decode to."""
    return rf"{LABEL}(?:\.{LABEL})*"


_LETTERS_DIGITS = f"{ALPHA}{DIGIT}"
_LITERAL = r"\[[!-Z^-~]*\]"  # RFC 5321's General-address-literal, RFC 5322's domain-literal, numbers with leading zeros


def _local_part(more: str = "") -> str:
    """Words of any length, quoted or not, with dots between them."""
    word = rf'(?:[{_LETTERS_DIGITS}!#$%&\'*+/=?^_`{{|}}~{more}-]+|"(?:[^"\\]|\\.)*")'
    return rf"{word}(?:\.{word})*"


def _email() -> str:
    """Until 2019-09 JSON Schema meant RFC 5322, section 3.4.1, with comments, folding and obsolete forms.

    Those need a parenthesis, white space or a control character outside quotes. Else: parts longer than RFC 5321 wants
    them (its grammar has no lengths), domains of any atoms, other address literals.
    """
    atom = rf"[{_LETTERS_DIGITS}!#$%&'*+/=?^_`{{|}}~-]+"
    odd = r"[\x00-\x20(\x7f]"
    return (
        rf"(?s){_local_part()}@(?:{atom}(?:\.{atom})*|{_LITERAL})"
        rf"|[\x00-\x7f]*{odd}[\x00-\x7f]*@[\x00-\x7f]*|[\x00-\x7f]*@[\x00-\x7f]*{odd}[\x00-\x7f]*"
    )


def _idn_email() -> str:
    """Parts of any length, domains with whatever beyond ASCII (IDNA, normalized or not), other address literals."""
    label = f"[{_LETTERS_DIGITS}{_BEYOND}](?:[{_LETTERS_DIGITS}{_BEYOND}-]*[{_LETTERS_DIGITS}{_BEYOND}])?"
    return rf"(?s){_local_part(_BEYOND)}@(?:{label}(?:\.{label})*|{_LITERAL})"


def _idn_hostname() -> str:
    """Labels with whatever beyond ASCII, of any length; in ASCII those with hyphens third and fourth, as in ``xn--``."""
    beyond = f"(?:(?!{DOT})[{_BEYOND}])"
    either = f"(?:[{_LETTERS_DIGITS}]|{beyond})"
    inner = f"(?:[{_LETTERS_DIGITS}-]|{beyond})*"
    unicode_label = f"(?:{beyond}(?:{inner}{either})?|[{_LETTERS_DIGITS}]{inner}{beyond}(?:{inner}{either})?)"
    label = f"(?:{LABEL}|{unicode_label})"
    return f"{label}(?:{DOT}{label})*"


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _relative_json_pointer() -> str:
    """Index manipulation (``0+1/a``), which later drafts of relative JSON pointers have, and earlier ones have not."""
    return rf"(?:0|[1-9][0-9]*)(?:[+-](?:0|[1-9][0-9]*))?(?:#|{POINTER})"


def _uri_template() -> str:
    """The operators that RFC 6570 keeps for later: its grammar has them, its section 2.2 gives them no meaning."""
    return template_pattern("+#./;?&=,!@|")


def _regex() -> DFA:
    r"""Any text, but what nothing allows: an end in a backslash, a quantifier first, or on nothing before any class.

    On nothing: after another quantifier (``?`` may follow one), after a parenthesis, ``|`` or ``^``. So too ``(?`` and
    something that begins no kind of group.
    """
    outside = r"(?:[^\\\[]|\\.)*"
    forbidden = [
        r"(?:[^\\]|\\.)*\\",
        r"[*+?].*",
        rf"{outside}(?:[*+?][*+]|\([*+]|[|^][*+?]|\(\?[^:=!<ims-]).*",
    ]
    return ~machine("(?s)" + "|".join(forbidden))


_PATTERNS: dict[str, Callable[[], str]] = {
    "date-time": _date_time,
    "duration": _duration,
    "email": _email,
    "hostname": _hostname,
    "idn-email": _idn_email,
    "idn-hostname": _idn_hostname,
    "relative-json-pointer": _relative_json_pointer,
    "time": _time,
    "uri-template": _uri_template,
}
INEXACT = frozenset((*_PATTERNS, "regex"))
"""The formats about some of whose texts there is doubt."""


def superset(name: str) -> DFA:
    """What may be of an inexact format, and what a wide reading of its standard calls so.

    >>> superset("duration").matches(b"p1d"), superset("duration").matches(b"P1")
    (True, False)
    """
    return _regex() if name == "regex" else machine(_PATTERNS[name]())
