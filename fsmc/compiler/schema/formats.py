"""Formats of strings: for each name of JSON Schema's ``format``, a machine that accepts nothing else, and what it leaves open.

What is no format here is an annotation and asserts nothing (JSON Schema validation, section 7).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.schema import format_dates as dates
from fsmc.compiler.schema import format_hosts as hosts
from fsmc.compiler.schema import format_idn as idn
from fsmc.compiler.schema import format_uris as uris
from fsmc.compiler.schema.format_cache import kept_on_disk
from fsmc.compiler.schema.format_doubts import INEXACT, superset
from fsmc.compiler.schema.format_machine import HEXDIG, machine
from fsmc.compiler.schema.format_regex import regex


def uuid() -> DFA:
    """RFC 4122, section 3: hexadecimal digits of any case in groups of 8, 4, 4, 4, 12; any version and variant.

    >>> uuid().matches(b"123e4567-e89b-12d3-a456-426614174000")
    True
    """
    return machine(f"[{HEXDIG}]{{8}}-(?:[{HEXDIG}]{{4}}-){{3}}[{HEXDIG}]{{12}}")


_MACHINES: dict[str, Callable[[], DFA]] = {
    "date": dates.date,
    "date-time": dates.date_time,
    "duration": dates.duration,
    "email": hosts.email,
    "hostname": hosts.hostname,
    "idn-email": idn.idn_email,
    "idn-hostname": idn.idn_hostname,
    "ipv4": hosts.ipv4,
    "ipv6": hosts.ipv6,
    "iri": uris.iri,
    "iri-reference": uris.iri_reference,
    "json-pointer": uris.json_pointer,
    "regex": regex,
    "relative-json-pointer": uris.relative_json_pointer,
    "time": dates.time,
    "uri": uris.uri,
    "uri-reference": uris.uri_reference,
    "uri-template": uris.uri_template,
    "uuid": uuid,
}
KNOWN_FORMATS = frozenset(_MACHINES)

MAX_LENGTH = {"hostname": 253, "idn-hostname": 253}
"""Format → most characters of its strings, where its machine alone does not see to it.

A label's length and the name's counted in one machine take 23,810 states; apart, 130, and the counter of `maxLength`.
"""


@cache
def format_dfa(name: str) -> DFA:
    """Strings (whole) of a format, over their content's UTF-8; with at most ``MAX_LENGTH`` characters, where it names one.

    What it accepts is of the format; what it does not accept is not, unless `doubtful_dfa` accepts it.

    >>> format_dfa("date").matches(b"2024-02-29"), format_dfa("date").matches(b"2023-02-29")
    (True, False)
    """
    return kept_on_disk(name, _MACHINES[name])


@cache
def doubtful_dfa(name: str) -> DFA | None:
    """The strings of which `format_dfa` does not tell whether they are of the format; None if there are none.

    >>> doubtful = doubtful_dfa("hostname")
    >>> doubtful.matches(b"xn--9n2bp8q"), doubtful.matches(b"example.com"), doubtful.matches(b"-")
    (True, False, False)
    >>> doubtful_dfa("date") is None
    True
    """
    if name not in INEXACT:
        return None
    return kept_on_disk(f"{name}-doubtful", lambda: superset(name) - format_dfa(name))
