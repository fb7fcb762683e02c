"""The page: what was explored, the tokens, the scripts and the style, in one file that asks nothing of any network."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from fsmc.compiler.automata.recursion import RecursiveMachine
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.view.explore import Explored, explore
from fsmc.view.packing import packed_ints
from fsmc.view.vocabulary import merges_document, tokens_document

MAX_STATES = 60_000
"""Of machines that are known as a whole. A page with so many has a few megabytes."""

MAX_WALKED_STATES = 5_000
"""Of machines that are made as they are walked."""

MAX_TITLE = 50_000
"""Characters of what the machine was made of: more takes a browser seconds to show, and nobody reads it there."""

_SCRIPTS = ("dagre.min.js", "compare.js", "machine.js", "tokens.js", "graph.js", "drawing.js", "app.js")


def page(
    machine: RecursiveMachine,
    *,
    title: str,
    kind: str = "machine",
    text: str = "",
    vocabulary: Vocabulary | None = None,
    tokenizer_document: dict[str, Any] | None = None,
    max_states: int = MAX_STATES,
) -> str:
    """The HTML of a page on a machine.

    title: what it was made of, shown on demand (up to MAX_TITLE characters). text: what stands in the text field at first. vocabulary: its masks are
    shown; tokenizer_document: a tokenizer.json, so that the page can cut text as this tokenizer does (byte-level BPE).

    >>> from fsmc.cli.machine import Source
    >>> html = page(Source("yes|no", "python", 0).machine(), title="yes|no")
    >>> html.startswith("<!doctype html>"), "http://" in html.replace("http://www.w3.org/", "")
    (True, False)
    """
    found = explore(machine, max_states)
    document = {
        "title": title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}… ({len(title):,} characters)",
        "kind": kind,
        "text": text,
        "machine": machine_document(found),
        "tokens": None if vocabulary is None else tokens_document(vocabulary),
        "merges": None if vocabulary is None else merges_document(tokenizer_document, vocabulary),
    }
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    html = _asset("page.html").replace("/*style*/", _asset("page.css"))
    scripts = "\n".join(_asset(name).replace("</", "<\\/") for name in _SCRIPTS)
    licence = _asset("dagre.LICENSE.txt").replace("*/", "")
    html = html.replace("/*scripts*/", f"/* dagre, which lays the drawing out:\n{licence}*/\n{scripts}")
    return html.replace("/*data*/", data)


def machine_document(found: Explored) -> dict[str, Any]:
    """What the scripts read."""
    return {
        "states": packed_ints(found.states),
        "offsets": packed_ints(found.offsets),
        "kind": packed_ints(found.kind),
        "target": packed_ints(found.target),
        "frame": packed_ints(found.frame),
        "bytes": packed_ints(found.bytes),
        "final": packed_ints(found.final),
        "component": packed_ints(found.component),
        "returns": packed_ints([number for entry in found.returns for number in entry]),
        "compared": list(found.compared.items()),
        "returnNames": [[*key, name] for key, name in found.return_names.items()],
        "byteSets": found.byte_sets,
        "components": found.components,
        "isWhole": found.is_whole,
    }


def _asset(name: str) -> str:
    return (resources.files("fsmc.view") / "assets" / name).read_text(encoding="utf-8")
