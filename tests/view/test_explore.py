"""What a page holds of a machine."""

from __future__ import annotations

import grammar_examples
import pytest

from fsmc.cli.machine import Source
from fsmc.compiler.automata.dfa import DEAD
from fsmc.compiler.cfg.recipe import GrammarRecipe
from fsmc.compiler.schema.recipe import SchemaRecipe
from fsmc.compiler.schema.text_options import TextOptions
from fsmc.compiler.tags.recipe import TagRecipe
from fsmc.view.explore import CALL_EDGE, EXIT_EDGE, NOT_EXPLORED, PLAIN_EDGE, explore
from fsmc.view.page import page
from fsmc.view.vocabulary import merges_document

TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
    "additionalProperties": False,
}


def schema_machine(schema, whitespace="json"):
    return SchemaRecipe(schema, TextOptions(whitespace=whitespace)).build().handed_over()


class Replay:
    """The exported tables, run by themselves."""

    def __init__(self, found) -> None:
        self.found = found
        self.returns = {(frame, outcome): state for frame, outcome, state in found.returns}

    def accepts(self, data: bytes) -> bool:
        found, state, stack = self.found, 0, []
        for byte in data:
            while True:
                edges = range(found.offsets[state], found.offsets[state + 1])
                edge = next((e for e in edges if self.holds(found.byte_sets[found.bytes[e]], byte)), None)
                if edge is None:
                    return False
                kind, target = found.kind[edge], found.target[edge]
                if kind == CALL_EDGE:
                    stack.append(found.frame[edge])
                if kind > CALL_EDGE:
                    if not stack or (stack[-1], target) not in self.returns:
                        return False
                    target = self.returns[stack.pop(), target]
                state = target
                if kind in (PLAIN_EDGE, CALL_EDGE, EXIT_EDGE):
                    break
        outcome = found.final[state]
        while stack and outcome >= 0:
            outcome = found.final[self.returns.get((stack.pop(), outcome), DEAD)]
        return outcome >= 0

    @staticmethod
    def holds(ranges: list[int], byte: int) -> bool:
        return any(low <= byte <= high for low, high in zip(ranges[::2], ranges[1::2], strict=True))


@pytest.mark.parametrize(
    ("machine", "texts"),
    [
        (Source("(ab|é)*c?", "python", 0).machine(), ["", "abé", "abc", "ca", "e", "ééc"]),
        (schema_machine(TREE), ['{"name": "x"}', '{"name": "é", "kids": [{"name": ""}, {"name": "y", "kids": []}]}', "{}", "1"]),
        (schema_machine(TREE, "flexible"), ['{ "name" :"x"} ', '{"name":"x"', '{"name":"x","kids":[ ]}']),
        (schema_machine({"type": ["integer", "null"], "maximum": 12}), ["12", "13", "-7", "null", "1.0", "0", ""]),
        (schema_machine({"anyOf": [{"minLength": 2}, {"const": 1}]}), ['"ab"', '"a"', "1", "2", "[]", "null"]),
    ],
)  # fmt: skip
def test_the_tables_accept_what_the_machine_accepts(machine, texts) -> None:
    found = explore(machine, 20_000)
    assert found.is_whole
    replay = Replay(found)
    verdicts = [machine.matches(text.encode()) for text in texts]
    assert [replay.accepts(text.encode()) for text in texts] == verdicts
    assert True in verdicts
    assert False in verdicts


def test_parts_of_a_schema_are_named() -> None:
    labels = [c["label"] for c in explore(schema_machine(TREE), 5000).components]
    assert labels[0] == "the whole text"
    assert {"object: name, kids", "string", "array", "key"} <= set(labels)


def test_what_a_part_ends_with_is_known_for_each_entry_by_name() -> None:
    found = explore(schema_machine(TREE), 5000)
    key = next(c for c in found.components if c["label"] == "key")
    assert len(key["exits"]) == len(key["entries"])
    assert set(found.return_names.values()) == {"name", "kids"}
    first = min(
        range(len(key["entries"])), key=lambda i: key["entries"][i]
    )  # after {: only the name, which has to come
    assert len(key["exits"][first]) == 1


SUM = """
root   ::= sum
sum    ::= product ("+" product)*
product ::= atom ("*" atom)*
atom   ::= number | "(" sum ")"
number ::= [0-9]+
"""
SUM_IN_LARK = """
start: sum
sum: product ("+" product)*
product: atom ("*" atom)*
atom: NUMBER | "(" sum ")"
NUMBER: /[0-9]+/
%ignore " "
"""


@pytest.mark.parametrize(
    ("grammar", "wanted"),
    [
        (SUM, {"the whole text", "atom", "number"}),
        (SUM_IN_LARK, {"the whole text", "atom", "NUMBER", "'+'", "'*'", "'('", "')'", "text"}),
        (grammar_examples.JSON.ebnf, {"the whole text", "string", "number", "array", "object", "ws", "'true'", "'false'", "'null'"}),
        ('start: a | b\na: "x" a "y" | "x" "y"\nb: "x" b "yy" | "x" "yy"', {"the whole text", "a | b"}),
        ('start: "(" start ")" | %json {"type": "object"}', {"the whole text", "start", "JSON value"}),
    ],
)  # fmt: skip
def test_parts_of_a_grammar_are_named_by_rule(grammar, wanted) -> None:
    found = explore(GrammarRecipe(grammar).build(), 2000)
    labels = {c["label"] for c in found.components}
    assert labels - wanted <= {"text"}
    assert wanted - labels <= {"text", "'true'", "'false'", "'null'"}
    assert {(frame, outcome) for frame, outcome, _ in found.returns} == set(found.return_names)
    assert not any("outcome" in name or "part" in name for name in found.return_names.values())


def test_parts_of_a_tag_are_named() -> None:
    schema = {"type": "json_schema", "json_schema": TREE}
    for content, wanted in (
        (schema, {"object: name, kids", "string", "array"}),
        ({"type": "grammar", "grammar": SUM}, {"atom", "number"}),
    ):
        tag = {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}
        found = explore(TagRecipe.of(tag, TextOptions(whitespace="json"), {}, ()).build(), 2000)
        labels = {c["label"] for c in found.components}
        assert {"the whole text"} | wanted <= labels
        assert "part" not in labels


def test_limits_are_kept_and_said() -> None:
    found = explore(Source("[ab]*a[ab]{10}", "python", 0).machine(), 100)
    assert not found.is_whole
    assert sum(f != NOT_EXPLORED for f in found.final) == 100
    whole = explore(schema_machine({"items": {"type": "object"}}), 40)
    assert not whole.is_whole


def test_a_title_cannot_end_the_script() -> None:
    html = page(Source("a", "python", 0).machine(), title="</script><script>alert(1)</script>", text="<!--")
    assert "alert(1)</script>" not in html
    assert html.count("<script") == 2
    assert "Permission is hereby granted" in html  # the licence of what is bundled


def test_merges_of_other_tokenizers_are_left_out() -> None:
    assert merges_document(None, None) is None
    assert merges_document({"model": {"type": "Unigram"}}, None) is None
    assert merges_document({"model": {"type": "BPE"}, "pre_tokenizer": {"type": "Metaspace"}}, None) is None


def test_command(fsmc_command, tmp_path, tokenizer_file) -> None:
    path = tmp_path / "page.html"
    assert fsmc_command("view", "a{3}", "-o", path, "-t", tokenizer_file, "--text", "aa").code == 0
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert fsmc_command("view", "a", "-o", tmp_path / "page.txt").code == 2
    assert fsmc_command("view", "a", "-o", tmp_path / "none" / "page.html").code == 3
    assert fsmc_command("view", "a", "-o", path, "--text", "\udcff").code == 2
    assert fsmc_command("view", "a", "-o", path, "--json").document["file_bytes"] == path.stat().st_size
