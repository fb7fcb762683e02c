"""Formats against tables of cases, against other judges of the same standards, and against the official test suite."""

from __future__ import annotations

import calendar
import contextlib
import datetime
import gzip
import ipaddress
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.errors import UnsupportedPatternError, UnsupportedSchemaError
from fsmc.compiler.schema.atoms import Format, Length, Pattern, StrEnum
from fsmc.compiler.schema.document import SchemaDocument
from fsmc.compiler.schema.format_doubts import INEXACT
from fsmc.compiler.schema.formats import KNOWN_FORMATS, MAX_LENGTH, doubtful_dfa, format_dfa
from fsmc.compiler.schema.formula import Formulas
from fsmc.compiler.schema.machine import SchemaMachine
from fsmc.compiler.schema.string_emptiness import string_satisfiable
from fsmc.compiler.schema.strings import string_component
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.syntax.regex import parse_regex

SUITE = Path(__file__).resolve().parents[3] / "shared" / "data" / "json_schema_test_suite_dev.jsonl.gz"

CASES: dict[str, tuple[list[str], list[str]]] = {  # format: accepted, rejected
    "date": (["2024-02-29", "0000-01-01", "1999-12-31"], ["1900-02-29", "2024-04-31", "2024-1-01", "٢024-01-01", ""]),
    "date-time": (
        [
            "2024-02-29T23:59:59Z",
            "1937-01-01t12:00:27.87+00:20",
            "2024-01-01T00:00:00-23:59",
            "2024-01-01T00:00:00-00:00",
        ],
        [
            "2024-01-01 00:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2023-02-29T00:00:00Z",
        ],
    ),
    "time": (["00:00:00Z", "23:59:59.5z", "12:00:00+23:59"], ["12:00Z", "12:00:00", "12:00:00+24:00", "12:00:00+1:00"]),
    "duration": (
        ["P1Y2M3DT4H5M6S", "PT1M2S", "P2W", "P0D", "P1M2D"],
        ["P", "PT", "P1YT", "P1Y2D", "PT1H2S", "P1W2D", "P1.5D", "-P1D", "p1d", "1D"],
    ),
    "email": (
        ["a@b", "o'neil+x@mail.example.org", '"a b"@c', r'"\""@c', "x@[127.0.0.1]", "x@[IPv6:1::2]", "a" * 64 + "@b"],
        [
            "a",
            "@b",
            "a@",
            "a.@b",
            ".a@b",
            "a b@c",
            "a@-b",
            "a@b-",
            "a@b..c",
            "a@b_c",
            '"@c',
            "x@[1.2.3]",
            "x@[IPv6:1:2]",
            "x@[IPv6:1:2:3:4:5:6:7::]",
            "a" * 65 + "@b",
            "a@" + "b" * 64,
            "é@b",
            "a@é",
        ],
    ),
    "idn-email": (
        ["é@é", "例え@例え.jp", "a@b", '"é"@b', "é" * 32 + "@b"],
        ["é", "é..é@b", "a@l·a", "é" * 33 + "@b", "a＠b"],
    ),
    "hostname": (
        ["a", "1.2.3.4", "a-b.c", "a--b", "ab--c", "a" * 63, ".".join(["a" * 63] * 3)],
        ["", ".", "a.", ".a", "a..b", "-a", "a-", "a_b", "a" * 64, "xn--X", "b.XN--x", "a\n"],
    ),
    "idn-hostname": (
        ["a。b", "실례.테스트", "ß", "l·l", "α͵β", "א׳ב", "・カ", "क्‍ष", "بي‌بي", "۰0", "א.com", "ب٠"],
        ["aא", "0a.א", "a·l", "α͵", "׳א", "・", "क‍ष", "ب٠۰", "A\u00e9", "e\u0301", "xn--X", "a。", "ㅋ", "́a", "ü" * 12],
    ),
    "ipv4": (["0.0.0.0", "255.255.255.255"], ["256.0.0.0", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4 ", "1.2.3.４"]),
    "ipv6": (
        [
            "::",
            "1::",
            "::1",
            "1:2:3:4:5:6:7:8",
            "1::8",
            "1:2:3:4:5:6:7::",
            "::1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4",
            "ABCD::ef",
        ],
        [
            "",
            ":",
            ":::",
            "1",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8::",
            "1::2::3",
            "12345::",
            "::1%eth0",
            "::1.2.3",
            "[::1]",
        ],
    ),
    "uri": (
        [
            "a:",
            "http://",
            "urn:a:b",
            "http://u:p@h:80/p?q=/?#f",
            "http://[v1.x]/",
            "http://999.1.1.1",
            "mailto:a@b",
            "a:/%41",
        ],
        [
            "",
            "//a",
            "1a:b",
            "a b:c",
            "http://a b",
            "http://[::1",
            "a:%4",
            "http://é",
            "http://a:b",
            "http://a/[",
            "a:\\",
            "a:#b#c",
        ],
    ),
    "uri-reference": (
        ["", "//a", "?", "#", "../a:b", "a/b:c", "http://a"],
        ["1:b", ":a", "a b", "%", "//[", "é", "a#b#c"],
    ),
    "iri": (["http://é/é?\ue000#é", "a:"], ["é:a", "http://a/\ue000", "http://é b", "é"]),
    "iri-reference": (["", "é", "?\ue000"], ["\ue000", "é b", "<"]),
    "uuid": (
        ["123E4567-e89b-12d3-a456-426614174000"],
        ["123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}"],
    ),
    "json-pointer": (["", "/", "/a~0~1/é", "//"], ["a", "#/a", "/~", "/~2"]),
    "relative-json-pointer": (["0", "10/a", "0#", "1//"], ["", "/a", "01", "-1", "1#/a", "0##"]),
    "uri-template": (
        ["", "{a}", "{+a,b*,c:3}", "x{?q.r}y%20é", "{%41}"],
        ["{", "}", "{}", "{a,}", "{a:0}", "{a:10000}", "{a..b}", "{=a}", "a b", "{a b}", "%4"],
    ),
    "regex": (
        [
            "",
            "a|b|",
            "(a(b(c)))*?",
            "[]",
            "[^]",
            "[a-z-]",
            "[-a]",
            r"\d+\.\x41",
            "a{2,10}",
            "a{9,9}",
            "(?=a(b))c",
            r"[^\x00-\x7f]",
        ],
        [
            "(",
            ")",
            "*",
            "a**",
            "a{2,1}",
            "a{20,19}",
            "{1}",
            "[z-a]",
            "[",
            "]",
            "\\",
            r"\a",
            "(?i)a",
            "(?P<n>a)",
            "(?=a)*",
            "^*",
        ],
    ),
}


def accepts(name: str, text: str) -> bool:
    return len(text) <= MAX_LENGTH.get(name, len(text)) and format_dfa(name).matches(text.encode())


def test_every_format_has_cases() -> None:
    assert set(CASES) == KNOWN_FORMATS


@pytest.mark.parametrize("name", sorted(CASES))
def test_cases(name: str) -> None:
    good, bad = CASES[name]
    assert [text for text in good if not accepts(name, text)] == []
    assert [text for text in bad if accepts(name, text)] == []


def test_names_have_253_characters_at_most() -> None:
    label = "a" * 62 + "."
    assert accepts("hostname", label * 4 + "a") and not accepts("hostname", label * 4 + "aa")


@pytest.mark.parametrize("year", [0, 4, 100, 400, 1900, 2000, 2023, 2024, 2100, 9999])
def test_calendar(year: int) -> None:
    for month in range(14):
        for day in range(33):
            # calendar counts a year 0 as it would a year 400: the calendar repeats
            exists = 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 400, month)[1]
            assert accepts("date", f"{year:04}-{month:02}-{day:02}") == exists


def test_leap_seconds_are_the_last_of_june_and_december_in_utc() -> None:
    for last in (datetime.datetime(1998, 12, 31, 23, 59), datetime.datetime(1997, 6, 30, 23, 59)):
        for quarter in range(-95, 96):
            local = last + datetime.timedelta(minutes=15 * quarter)
            offset = f"{'-' if quarter < 0 else '+'}{abs(quarter) // 4:02}:{abs(quarter) % 4 * 15:02}"
            assert accepts("date-time", f"{local:%Y-%m-%dT%H:%M}:60.25{offset}")
            assert accepts("time", f"{local:%H:%M}:60{offset}")
            for minutes in (-1440, -60, -1, 1, 15, 1440):
                wrong = local + datetime.timedelta(minutes=minutes)
                assert not accepts("date-time", f"{wrong:%Y-%m-%dT%H:%M}:60{offset}")
    assert accepts("time", "23:59:60Z") and not accepts("date-time", "1998-11-30T23:59:60Z")


def judged_by_ipaddress(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version and "%" not in text
    except ValueError:
        return False


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(["0", "1", "00", "255", "256", "abcd", "12345", ":", "::", ".", ":", ":"]), max_size=17)
)
def test_ip_addresses_as_python_reads_them(parts: list[str]) -> None:
    text = "".join(parts)
    assert accepts("ipv4", text) == judged_by_ipaddress(text, 4)
    assert accepts("ipv6", text) == judged_by_ipaddress(text, 6)


def walks(dfa: DFA, count: int, seed: int) -> list[str]:
    """Accepted texts found by stepping at random, ASCII and punctuation more often than their share of the bytes."""
    rng = np.random.default_rng(seed)
    table = dfa.delta[:, dfa.byte_class]
    marks = np.frombuffer(rb"()[]{}|^-,?:=!<\.0123579", np.uint8)
    texts: list[str] = []
    while len(texts) < count:
        state, text, wanted = dfa.start, bytearray(), rng.integers(1, 30)
        while len(text) < 200 and not (len(text) >= wanted and dfa.accepting[state]):
            choices = np.flatnonzero(table[state])
            some = choices[np.isin(choices, marks)] if rng.random() < 0.5 else choices[choices < 0x80]
            choices = some if len(some) and rng.random() < 0.9 else choices
            if not len(choices):
                break
            text.append(int(rng.choice(choices)))
            state = int(table[state, text[-1]])
        if dfa.accepting[state]:
            texts.append(text.decode())
    return texts


def test_regexes_are_read_by_the_parser_of_patterns() -> None:
    for text in walks(format_dfa("regex"), 600, seed=1):
        with contextlib.suppress(UnsupportedPatternError):  # half a surrogate pair is a pattern, of no text
            parse_regex(text, "ecma")


def test_international_names_have_an_ascii_form() -> None:
    idna = pytest.importorskip("idna", reason="the judge of this test")
    for text in walks(format_dfa("idn-hostname"), 1500, seed=2):
        if len(text) <= MAX_LENGTH["idn-hostname"]:
            idna.encode(text.lower() if text.isascii() else text)  # raises if it is not a name


DOUBTS: dict[str, tuple[list[str], list[str]]] = {  # format: cannot be told, certainly not of the format
    "date-time": (
        ["1998-12-31T23:00:60-00:59", "1998-03-31T23:59:60Z", "1999-01-01t00:10:60.5+00:11"],
        ["1998-12-31T23:58:60Z", "1998-12-30T23:59:60+00:11", "1998-12-31T23:59:61Z", "1998-13-31T23:59:60Z", ""],
    ),
    "time": (["00:10:60+00:11", "23:00:60-00:59"], ["23:58:60Z", "12:00:60", "12:00:61+00:11", "24:00:60+00:11"]),
    "duration": (["p1d", "P1d", "Pt1S", "p2w"], ["p", "p1", "1d", "p1y2d", "P0.5D"]),
    "hostname": (["xn--9n2bp8q", "a.XN--x.b"], ["a.-b", "xn--x.", "xn--" + "a" * 60, "a_b", "é", ""]),
    "idn-hostname": (
        ["xn--9n2bp8q", "ab--c", "é" * 12, "e\u0301", "a·l", "a.b.c.é", "É", "a。É"],
        ["-é", "é-", "é.", "..é", "é。", "é_", "a b", "a" * 64, ""],
    ),
    "email": (
        [
            "a" * 65 + "@b",
            "a@" + "b" * 64,
            "a@b_c",
            "x@[IPv6:1:2:3:4:5:6:7::]",
            "x@[1.2.3.04]",
            "a(c)@b",
            "a @b",
            'a."b"@c',
            '"\n"@b',
        ],
        ["a", "@b", "a@", "a.@b", "a@b..c", "é@b", "a@é", '"@c', "a@b@c", "a,b@c"],
    ),
    "idn-email": (
        ["é@e\u0301", "é" * 33 + "@b", "a@l·a", "a@" + "é" * 12],
        ["é", "é..é@b", "é@", "é@-é", "a＠b", "é@é_"],
    ),
    "relative-json-pointer": (["0+1/a", "1-10#", "2+0"], ["+1", "0+/a", "0+01", "01", "/a", "0+1a"]),
    "uri-template": (["{=a}", "{!a,b*}", "x{|a}", "{,a}", "{@a}"], ["{=}", "{=a", "{$a}", "{==a}", "a b"]),
    "regex": (
        ["(?<n>a)", r"\a", "]", "((((a))))", "(abc", r"(a)\1", "a{3,2}", "[z-a]", "(?i:a)", "[*+]*+"],
        ["*", "?a", "a**", "a++", "a|*", "(+a)", "^*", "(?P<n>a)", "(?#c)", "\\", "a\\\\\\", r"\\**"],
    ),
}


def in_doubt(name: str, text: str) -> bool:
    doubtful = doubtful_dfa(name)
    return doubtful is not None and len(text) <= MAX_LENGTH.get(name, len(text)) and doubtful.matches(text.encode())


def test_every_inexact_format_has_doubts() -> None:
    assert set(DOUBTS) == INEXACT
    assert all(doubtful_dfa(name) is None for name in KNOWN_FORMATS - INEXACT)


@pytest.mark.parametrize("name", sorted(DOUBTS))
def test_doubts(name: str) -> None:
    unknown, certain = DOUBTS[name]
    assert [text for text in unknown if not in_doubt(name, text)] == []
    assert [text for text in certain if in_doubt(name, text) or accepts(name, text)] == []
    doubtful = doubtful_dfa(name)
    assert doubtful is not None and (doubtful & format_dfa(name)).is_empty


def test_what_is_in_doubt_is_never_written_where_that_matters() -> None:
    table = Formulas()
    host, mail = table.atom(Format("hostname")), table.atom(Format("email"))
    some = table.atom(Pattern("^[a-z0-9.-]*$"))
    name = table.conj([host, table.atom(Length(0, 253))])
    for must, still in (
        (table.negate(host), b"-"),
        (table.negate(name), b"a@b"),
        (table.exactly_one([host, mail]), b"a@b"),
        (table.negate(table.exactly_one([host, mail])), b"a@"),
        (table.disj([some, table.negate(host)]), b"a.b"),
    ):
        component = string_component(must, (), table)
        assert component.run(b"xn--9n2bp8q") is None and component.run(still) is not None
    watched = string_component(some, (host,), table)
    assert watched.run(b"xn--9n2bp8q") is None
    assert (watched.run(b"a.b"), watched.run(b"-a")) == ((True,), (False,))
    # where it only has to hold, or does not occur, nothing is lost
    assert string_component(table.disj([host, some]), (), table).run(b"xn--9n2bp8q") is not None


def test_satisfiable_as_far_as_can_be_told() -> None:
    table = Formulas()
    host, only = table.atom(Format("hostname")), table.atom(StrEnum(frozenset({"xn--9n2bp8q"})))
    assert string_satisfiable(table.negate(host), table)
    assert not string_satisfiable(table.conj([only, host]), table)
    assert not string_satisfiable(table.conj([only, table.negate(host)]), table)
    with pytest.raises(UnsupportedSchemaError, match="cannot tell"):
        string_component(only, (host,), table)


def test_doubt_decides_nothing() -> None:
    """No text of ``a`` is known to be a name, nor known not to be: neither may be concluded from the other."""
    condition = {
        "if": {"properties": {"a": {"format": "hostname"}}},
        "then": {"required": ["b"]},
        "else": {"required": ["c"]},
    }
    schema = {"type": "object", "required": ["a"], **condition}

    def accepts_object(a: dict[str, object], *others: str) -> bool:
        document = SchemaDocument({**schema, "properties": {"a": a}})
        text = json.dumps({"a": "xn--9n2bp8q", **dict.fromkeys(others, 0)})
        return SchemaMachine(document, TextOptions()).rsm.matches(text.encode())

    with pytest.raises(UnsupportedSchemaError, match="cannot tell"):
        accepts_object({"enum": ["xn--9n2bp8q"]}, "b")
    assert not accepts_object({"type": "string"}, "b", "c")
    assert accepts_object({"type": "string", "not": {"format": "hostname"}}, "c") is False
    del schema["if"]  # nothing asks any more
    assert accepts_object({"enum": ["xn--9n2bp8q"]})


@pytest.mark.parametrize("name", ["date", "uri", "email"])
def test_a_format_alone_is_its_machine(name: str) -> None:
    table = Formulas()
    component = string_component(table.atom(Format(name)), (), table)
    assert component.only().equivalent(format_dfa(name))


@pytest.mark.skipif(not SUITE.exists(), reason="no ../shared/data beside this checkout")
def test_official_suite() -> None:
    judged = in_vain = 0
    for line in gzip.decompress(SUITE.read_bytes()).splitlines():
        group = json.loads(line)
        name = group["schema"].get("format") if isinstance(group["schema"], dict) else None
        if not group["file"].startswith("optional/format/") or name not in KNOWN_FORMATS:
            continue
        for test in group["tests"]:
            text = test["data"]
            if isinstance(text, str):
                judged += 1
                in_vain += in_doubt(name, text)
                told = in_doubt(name, text) or accepts(name, text) == test["valid"]
                assert told, (name, text, test["description"])
    assert judged > 500
    assert in_vain < judged / 4  # or the doubts are too wide to be of use
