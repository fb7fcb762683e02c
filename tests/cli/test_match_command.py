"""`fsmc match`: the verdict, the place, what was expected, and exit codes for scripts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsmc.cli.explain import describe, explain, next_characters, read
from fsmc.cli.machine import Source
from fsmc.compiler.syntax.charclass import CharClass


def machine_of(pattern: str):
    return Source(pattern, "python", 0).machine()


@pytest.mark.parametrize(
    ("pattern", "text", "code", "said"),
    [
        ("[0-9]{4}-[0-9]{2}", "2024-07", 0, "match (7 bytes)"),
        ("[0-9]{4}-[0-9]{2}", "2024-x7", 1, "no match, at byte 5\n  2024-x7\n       ^\n  expected [0-9]"),
        ("[0-9]{4}-[0-9]{2}", "2024-", 1, "the text ends too early, at byte 5\n  2024-\n       ^\n  expected [0-9]"),
        ("ab?", "abb", 1, "no match, at byte 2\n  abb\n    ^\n  expected the end of the text"),
        ("ab*", "ax", 1, "expected b or the end of the text"),
        ("[^a]", "a", 1, "expected [^a]"),
        ("漢字é", "漢字e", 1, "no match, at byte 6\n  漢字e\n      ^\n  expected é"),  # two columns a character
        ("é", "è", 1, "no match, at byte 1\n  è\n  ^\n  expected é"),  # C3 A9 and C3 A8: the first byte could be read
        (r"a\nb", "a\nc", 1, "no match, at byte 2 (line 2)\n  c\n  ^\n  expected b"),
    ],
)
def test_verdict(fsmc_command, pattern: str, text: str, code: int, said: str) -> None:
    outcome = fsmc_command("match", pattern, text)
    assert (outcome.code, outcome.err) == (code, "")
    assert said in outcome.out


def test_json(fsmc_command) -> None:
    outcome = fsmc_command("match", "é[0-9]", "éx", "--json")
    assert outcome.code == 1
    assert outcome.document == {
        "matches": False,
        "bytes": 3,
        "fails_at_byte": 2,
        "character": 1,
        "ends_too_early": False,
        "expected": "[0-9]",
        "expected_ranges": [[48, 57]],
        "could_end_here": False,
    }
    assert fsmc_command("match", "a", "a", "--json").document == {"matches": True, "bytes": 1}


def test_text_from_stdin_and_files(fsmc_command, tmp_path) -> None:
    (tmp_path / "pattern").write_text("a+\n")
    (tmp_path / "text").write_bytes(b"aaa")
    assert fsmc_command("match", "a+", "-", stdin=b"aa").code == 0
    assert fsmc_command("match", "a+", stdin=b"aa\n").code == 1  # a line break is part of the text
    assert fsmc_command("match", "--file", tmp_path / "pattern", "aa").code == 0
    assert fsmc_command("match", "a+", "--text-file", tmp_path / "text").code == 0
    assert fsmc_command("match", "a+", "--", "-i").code == 1


def test_text_that_is_not_utf8(fsmc_command) -> None:
    outcome = fsmc_command("match", "(?s:.)+", "-", "--json", stdin=b"ab\xff")
    assert outcome.code == 1 and outcome.document["fails_at_byte"] == 2


def test_flags_and_flavor(fsmc_command) -> None:
    assert fsmc_command("match", "-i", "YES", "yes").code == 0
    assert fsmc_command("match", "-s", "a.b", "a\nb").code == 0
    assert fsmc_command("match", "-x", "a b # c", "ab").code == 0
    assert fsmc_command("match", "-a", r"\d", "٣").code == 1
    assert fsmc_command("match", r"\d", "٣").code == 0
    assert fsmc_command("match", "--flavor", "ecma", "b", "abc").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["a{5,2}", "a"], 2, "^^^^^"),
        ([r"(a)\1", "aa"], 2, "^^"),
        (["a(?!a)a", "a"], 2, "matches no text"),
        (["(a|b)*a(a|b){20}", "a"], 4, "max_"),
        (["a", "b", "c"], 2, "quote the pattern"),
        (["missing.fsmc", "a"], 3, "missing.fsmc"),
        (["--file", "no-such-file", "a"], 3, "no-such-file"),
        ([], 2, "give a pattern, --file, --schema, --grammar, --choice, --tag or --constraint"),
    ],
)
def test_errors_are_one_message_without_a_traceback(fsmc_command, arguments: list[str], code: int, said: str) -> None:
    outcome = fsmc_command("match", *arguments)
    assert outcome.code == code and outcome.out == ""
    assert said in outcome.err and "Traceback" not in outcome.err


PATTERNS = ["[a-c]{2,4}", "(ab|é)+c?", "[^x]é", "(?s:.){3}", "a*(?!b)[a-d]", "[😀-😏漢]{1,2}z"]


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=40, deadline=None)
@given(text=st.text(alphabet="abcdxzéè漢😀😎\n", max_size=6))
def test_the_place_is_where_the_last_completion_dies(pattern: str, text: str) -> None:
    """Against bytes tried one by one, and re.fullmatch."""
    machine, data = machine_of(pattern), text.encode()
    dfa, verdict = machine.to_dfa(), explain(machine, data)
    assert verdict.matches == bool(re.fullmatch(pattern, text))
    alive = [n for n in range(len(data) + 1) if dfa.run(data[:n]) != 0]
    assert read(machine, data)[0] == verdict.offset == max(alive)
    before = data[: verdict.character_start].decode()  # never cuts a character
    state = dfa.run(before.encode())
    for character in "abcdxzéè漢😀😎\n\x00￿":
        assert verdict.expected.contains(ord(character)) == (dfa.run(character.encode(), state) != 0)


def test_next_characters_of_large_classes() -> None:
    machine = machine_of(r"\w")
    from fsmc.compiler.syntax.unicode_tables import unicode_word

    assert next_characters(machine, machine.initial) == unicode_word()
    assert describe(unicode_word()).endswith("…]")


@pytest.mark.parametrize(
    ("ranges", "shown"),
    [
        ([(0, 0x10FFFF)], "any character"),
        ([(ord("a"), ord("c"))], "[a-c]"),
        ([(ord("a"), ord("b"))], "[ab]"),
        ([(10, 10)], r"\n"),
        ([(ord("-"), ord("-")), (ord("]"), ord("]"))], r"[\-\]]"),
        ([(0, 9), (11, 0x10FFFF)], r"[^\n]"),
    ],
)
def test_describe(ranges: list[tuple[int, int]], shown: str) -> None:
    assert describe(CharClass.from_ranges(ranges)) == shown
