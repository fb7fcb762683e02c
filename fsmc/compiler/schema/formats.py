"""Formats of strings: for each name of JSON Schema's ``format``, the machine that says exactly what its standard says.

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
    """The strings (whole) of a format, over their content's UTF-8; with at most ``MAX_LENGTH`` characters, where it names one.

    >>> format_dfa("date").matches(b"2024-02-29"), format_dfa("date").matches(b"2023-02-29")
    (True, False)
    """
    return _MACHINES[name]()
