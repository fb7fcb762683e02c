"""Dates, times and durations (RFC 3339), with the calendar and with leap seconds where they can be."""

from __future__ import annotations

from collections.abc import Iterable

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema.format_machine import machine

_DAYS = (  # of every year
    "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])"
)
# Every fourth year, but of the centuries only every fourth
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = f"(?:[0-9]{{4}}-(?:{_DAYS})|{_LEAP_YEAR}-02-29)"

_HOUR_MINUTE = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]+)?"

LEAP_SECOND_OFFSETS = (0, 15, 30, 45)
"""Minutes of the offsets from UTC with which a leap second may be written.

RFC 3339 allows any; clocks have had no other since there are leap seconds (1972). With all 60, date-time has 19,896
states instead of 1,647, which every schema with a time stamp would pay for.
"""


def date() -> DFA:
    """RFC 3339, ``full-date``: a day of the Gregorian calendar, years 0000 to 9999.

    >>> date().matches(b"2024-02-29"), date().matches(b"2100-02-29")
    (True, False)
    """
    return machine(_DATE)


def time() -> DFA:
    """RFC 3339, ``full-time``; second 60 where it is 23:59 in UTC; ``z`` for ``Z`` too (section 5.6, note).

    >>> time().matches(b"01:29:60+01:30"), time().matches(b"01:29:60Z")
    (True, False)
    """
    same_day, next_day = _leap_seconds()
    return _plain_time() | same_day | next_day


def date_time() -> DFA:
    """RFC 3339, ``date-time``; second 60 at the end of June or December in UTC (section 5.7); ``t`` for ``T`` too.

    >>> accepts = date_time().matches
    >>> accepts(b"1990-12-31T15:59:60-08:00"), accepts(b"1991-01-01T00:59:60+01:00"), accepts(b"1990-12-30T23:59:60Z")
    (True, True, False)
    """
    same_day, next_day = _leap_seconds()
    eve, morrow = machine("[0-9]{4}-(?:06-30|12-31)[Tt]"), machine("[0-9]{4}-(?:07|01)-01[Tt]")
    return (machine(f"{_DATE}[Tt]") + _plain_time()) | (eve + same_day) | (morrow + next_day)


def duration() -> DFA:
    """RFC 3339, appendix A: no unit left out between two others, weeks alone, whole numbers, capitals as in ISO 8601.

    >>> duration().matches(b"P1DT12H"), duration().matches(b"P1Y2D")
    (True, False)
    """
    n = "[0-9]+"
    time_part = f"T(?:{n}H(?:{n}M(?:{n}S)?)?|{n}M(?:{n}S)?|{n}S)"
    day_part = f"(?:{n}D|{n}M(?:{n}D)?|{n}Y(?:{n}M(?:{n}D)?)?)"
    return machine(f"P(?:{day_part}(?:{time_part})?|{time_part}|{n}W)")


def _plain_time() -> DFA:
    return machine(f"{_HOUR_MINUTE}:[0-5][0-9]{_FRACTION}(?:[Zz]|[+-]{_HOUR_MINUTE})")


def _leap_seconds() -> tuple[DFA, DFA]:
    """The times with second 60 whose minute is 23:59 in UTC: where the day is UTC's, and where it is the next already.

    West of Greenwich clock and offset add up to 23:59; east of it the clock stands one minute short of the offset.
    """
    minutes = LEAP_SECOND_OFFSETS
    same_day = _second_60("-", [(23 - h, h) for h in range(24)], [(59 - m, m) for m in minutes])
    same_day |= machine(rf"23:59:60{_FRACTION}(?:[Zz]|\+00:00)")
    past_hour = _second_60(r"\+", [(h, h) for h in range(24)], [(m - 1, m) for m in minutes if m])
    full_hour = _second_60(r"\+", [(h - 1, h) for h in range(1, 24)], [(59, 0)])
    return same_day, past_hour | full_hour


def _second_60(sign: str, hours: Iterable[tuple[int, int]], minutes: Iterable[tuple[int, int]]) -> DFA:
    """Times with second 60 whose (clock, offset) are among these pairs, in hours and in minutes.

    The minutes' machine knows the whole form, that of the hours only where hours stand; their intersection is small work
    where all combinations would be a long regex.
    """
    by_hour = [f"{clock:02}:[0-9:.]*{sign}{offset:02}:[0-9]*" for clock, offset in hours]
    by_minute = [f"[0-9]{{2}}:{clock:02}:60{_FRACTION}{sign}[0-9]{{2}}:{offset:02}" for clock, offset in minutes]
    return machine("|".join(by_hour)) & machine("|".join(by_minute))
