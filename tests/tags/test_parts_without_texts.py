"""Parts of a tag that have no text, as formal languages have it: a branch less, nothing to repeat, and nothing at all in a sequence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fsmc

VOCAB = fsmc.Vocabulary.from_tokens([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])
COMPILER = fsmc.GrammarCompiler(VOCAB, cache_dir=None)

NOTHING: dict[str, tuple[dict[str, Any], str]] = {
    "grammar": ({"type": "grammar", "grammar": 'root ::= "a" root'}, r"in rule 'root': no text can be derived"),
    "pattern": ({"type": "regex", "pattern": "a(?!a)a"}, "matches no text at all"),
    "false": ({"type": "json_schema", "json_schema": False}, "json_schema: the schema allows no value at all"),
    "schema": (
        {"type": "json_schema", "json_schema": {"type": "string", "minLength": 3, "maxLength": 2}},
        "#/minLength and #/maxLength contradict",
    ),
}
X = {"type": "const_string", "value": "x"}
NUMBER = {"type": "json_schema", "json_schema": {"type": "integer"}}
PAIRS = {"type": "grammar", "grammar": 'root ::= "(" root ")" | "."'}
TEXTS = [b"", b"x", b"xx", b"a", b"aa", b"<x>", b"<>", b"x,x", b"7", b"(.)", b"<7>", b'""', b"<t>7</t>", b"<n>"]


def tag(begin: str, content: dict[str, Any], end: str) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


@pytest.mark.parametrize("nothing", NOTHING)
@pytest.mark.parametrize("other", [X, NUMBER, PAIRS], ids=["text", "schema", "grammar"])
def test_one_branch_less(nothing: str, other: dict[str, Any]) -> None:
    part, why = NOTHING[nothing]
    alone = COMPILER.compile_structural_tag(other).machine
    for elements in ([part, other], [other, part], [part, other, part]):
        made = COMPILER.compile_structural_tag({"type": "or", "elements": elements})
        assert [made.machine.matches(text) for text in TEXTS] == [alone.matches(text) for text in TEXTS]
        assert any(why.split(": ")[-1].strip("#/") in note or "contradict" in note for note in made.notes), made.notes


@pytest.mark.parametrize("nothing", NOTHING)
def test_nothing_repeated(nothing: str) -> None:
    part, why = NOTHING[nothing]
    for repeated in (
        {"type": "star", "content": part},
        {"type": "optional", "content": part},
        {"type": "repeat", "content": part, "min": 0, "max": 3},
        {"type": "star", "content": {"type": "sequence", "elements": [X, part]}},
    ):
        made = COMPILER.compile_structural_tag(repeated)
        assert [text for text in TEXTS if made.machine.matches(text)] == [b""]
        behind = COMPILER.compile_structural_tag({"type": "sequence", "elements": [repeated, X]})
        assert [text for text in TEXTS if behind.machine.matches(text)] == [b"x"]
    for repeated in (
        {"type": "plus", "content": part},
        {"type": "sequence", "elements": [X, part]},
        {"type": "sequence", "elements": [part, NUMBER]},
        {"type": "or", "elements": [part, {"type": "sequence", "elements": [part, X]}]},
        tag("<", part, ">"),
        part,
    ):
        with pytest.raises(fsmc.EmptyLanguageError, match=why):
            COMPILER.compile_structural_tag(repeated)


@pytest.mark.parametrize("nothing", NOTHING)
def test_a_tag_that_no_text_has(nothing: str) -> None:
    part, why = NOTHING[nothing]
    tags = [tag("<n>", part, "</n>"), tag("<t>", NUMBER, "</t>")]
    made = COMPILER.compile_structural_tag({"type": "triggered_tags", "triggers": ["<n", "<t"], "tags": tags})
    only = COMPILER.compile_structural_tag(
        {"type": "triggered_tags", "triggers": ["<t"], "tags": tags[1:], "excludes": ["<n"]}
    )
    assert [made.machine.matches(text) for text in TEXTS] == [only.machine.matches(text) for text in TEXTS]
    matcher = fsmc.GrammarMatcher(made)
    assert matcher.accept_bytes(b"hi <") and not matcher.accept_bytes(b"n") and matcher.accept_bytes(b"t>7</t>")
    assert any(note.startswith("format.tags[0].content") for note in made.notes)
    with pytest.raises(fsmc.EmptyLanguageError, match=why):
        COMPILER.compile_structural_tag(
            {"type": "triggered_tags", "triggers": ["<n"], "tags": tags[:1], "at_least_one": True}
        )


@pytest.mark.parametrize("nothing", NOTHING)
def test_notes_are_kept(nothing: str, tmp_path: Path) -> None:
    part, _ = NOTHING[nothing]
    for other in (X, NUMBER):
        made = COMPILER.compile_structural_tag({"type": "or", "elements": [part, other]})
        made.save(tmp_path / "x.fsmc")
        assert fsmc.CompiledGrammar.load(tmp_path / "x.fsmc", VOCAB).notes == made.notes != ()
