"""What the pages under docs/ show at a Python prompt is what one gets; their links and those of the README lead somewhere."""

from __future__ import annotations

import doctest
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import fsmc

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if ">>> " in page.read_text(encoding="utf-8")]
NEEDS = {"docs/research.md": "scipy"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_examples_on_the_page(page: Path) -> None:
    if name(page) in NEEDS:
        pytest.importorskip(NEEDS[name(page)])
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert result.attempted > 0 and result.failed == 0, f"{result.failed} of {result.attempted} examples are wrong"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"(?:\]\(|^\[[^\]]+\]: |\b(?:href|src)=[\"'])([^)\"'\s]+)", text, flags=re.MULTILINE):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), f"{name(page)} links to {target}"
            if anchor and found.suffix == ".md":
                assert anchor in anchors(found), f"{name(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_and_names_in_the_text_are_there(page: Path) -> None:
    """`tests/test_pages.py` is a file, `fsmc.Vocabulary.from_file(…)` something in the package."""
    for span in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
        if re.match(r"(benchmarks|docs|examples|fsmc|tests|\.ci)/", span) and "NAME" not in span:
            assert (ROOT / span).exists(), span
        if "fsmc.hf" in span:
            pytest.importorskip("transformers", reason="fsmc.hf is for transformers")
        if dotted := re.match(r"fsmc(\.[a-zA-Z_]\w*)+", span):
            assert pkgutil.resolve_name(dotted[0]) is not None, span


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_figures_are_current() -> None:
    """`python docs/figures.py` makes them."""
    names = runpy.run_path(str(ROOT / "docs" / "figures.py"))
    for name, svg in names["drawings"]().items():
        assert (names["FOLDER"] / name).read_text(encoding="utf-8") == svg, name


def test_the_reference_names_everything_public() -> None:
    reference = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    missing = [
        name
        for name in fsmc.__all__
        if not name.startswith("__")
        and fsmc._MODULE_OF[name] != "fsmc.compiler.errors"
        and f"::: fsmc.{name}\n" not in reference
    ]
    assert not missing and "::: fsmc.compiler.errors\n" in reference
