"""Addresses of machines and of people: IPv4, IPv6, host names, e-mail."""

from __future__ import annotations

import numpy as np

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema.format_machine import ALPHA, DIGIT, HEXDIG, machine

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"

LABEL = f"[{ALPHA}{DIGIT}](?:[{ALPHA}{DIGIT}-]{{0,61}}[{ALPHA}{DIGIT}])?"
"""One label of a host name: 1 to 63 letters, digits and inner hyphens (RFC 1123, section 2.1; RFC 1035, section 2.3.4)."""

_MAX_LOCAL_PART = 64  # octets (RFC 5321, section 4.5.3.1.1)
_ATEXT = rf"{ALPHA}{DIGIT}!#$%&'*+/=?^_`{{|}}~\-"
_QTEXT = r" !#-\[\]-~"


def ipv6_pattern(omitted: int = 1) -> str:
    """IPv6 addresses, the last 32 bits also in IPv4's notation (RFC 3986, section 3.2.2, after RFC 4291, section 2.2).

    ``omitted``: the fewest groups that ``::`` may stand for; RFC 5321 wants two.
    """
    group = f"[{HEXDIG}]{{1,4}}"
    most = 8 - omitted

    def before(right: int) -> str:
        """At most so many groups that ``omitted`` are left between them and ``right`` groups after ``::``."""
        return f"(?:{group}(?::{group}){{0,{most - right - 1}}})?" if right < most else ""

    heads = [f"(?:{group}:){{6}}"]
    heads += [f"{before(right)}::(?:{group}:){{{right - 2}}}" for right in range(most, 1, -1)]
    last_two = f"(?:{group}:{group}|{IPV4})"
    return f"(?:(?:{'|'.join(heads)}){last_two}|{before(1)}::{group}|{before(0)}::)"


def ipv4() -> DFA:
    """RFC 2673, section 3.2, ``dotted-quad``: four numbers to 255 without leading zeros.

    >>> ipv4().matches(b"192.168.0.1"), ipv4().matches(b"192.168.0.01")
    (True, False)
    """
    return machine(IPV4)


def ipv6() -> DFA:
    """RFC 4291, section 2.2: all three forms, without zone or prefix length.

    >>> ipv6().matches(b"::ffff:192.168.0.1"), ipv6().matches(b"1::2::3")
    (True, False)
    """
    return machine(ipv6_pattern())


def hostname() -> DFA:
    """RFC 1123, section 2.1: labels of letters, digits and inner hyphens. Its length has a bound too, see MAX_LENGTH.

    No label begins with ``xn--``: only some of those are names (RFC 5890), which no machine of sane size can tell.

    >>> hostname().matches(b"www.example.com"), hostname().matches(b"-example.com"), hostname().matches(b"xn--X")
    (True, False, False)
    """
    label = f"(?![Xx][Nn]--){LABEL}"
    return machine(rf"{label}(?:\.{label})*")


def email() -> DFA:
    """RFC 5321, section 4.1.2, ``Mailbox``: local part of at most 64 octets, domain with labels of at most 63, or address.

    Address literals are IPv4 and IPv6, the registered ones.

    >>> email().matches(b'"joe bloggs"@example.com'), email().matches(b"joe..bloggs@example.com")
    (True, False)
    """
    return local_part() + machine(rf"@(?:{LABEL}(?:\.{LABEL})*|{ADDRESS_LITERAL})")


ADDRESS_LITERAL = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{ipv6_pattern(omitted=2)})\]"


def local_part(others: str = "") -> DFA:
    """What may stand before the ``@`` of an address; ``others``: further characters that need no quotes."""
    word = f"[{_ATEXT}{others}]+"
    dotted = rf"{word}(?:\.{word})*"
    quoted = rf'"(?:[{_QTEXT}{others}]|\\[ -~])*"'
    return machine(f"{dotted}|{quoted}") & _at_most(_MAX_LOCAL_PART)


def _at_most(octets: int) -> DFA:
    """All strings of at most so many bytes."""
    steps = np.concatenate(([0], np.arange(2, octets + 2), [0]))  # in state 1 + k, k bytes have been read
    accepting = np.arange(octets + 2) > 0
    return DFA.from_arrays(np.zeros(256, np.uint8), steps[:, None].astype(np.int32), accepting, 1)
