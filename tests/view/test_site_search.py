"""The site's search works on pages that are opened from disk, and no page of the site asks anything of a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRAME = ROOT / "docs" / "site" / "iframe-worker.js"


@pytest.fixture
def requests_of(browser):
    """A page of a fresh browser, and what it asks for outside the disk and says of faults."""
    page = browser.new_page()
    outside: list[str] = []
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "about:")) else outside.append(r.url))
    page.on("pageerror", lambda error: outside.append(str(error)))
    yield page, outside
    page.close()


def test_a_frame_does_a_workers_work(requests_of, tmp_path: Path) -> None:
    page, outside = requests_of
    (tmp_path / "frame.js").write_text(FRAME.read_text())
    (tmp_path / "worker.js").write_text(
        "addEventListener('message', async e => { postMessage({twice: 2 * e.data}); });"
    )
    (tmp_path / "page.html").write_text(
        "<!doctype html><body><script src=frame.js></script><script>\n"
        "const said = []; const worker = new Worker('worker.js');\n"
        "worker.addEventListener('message', e => said.push(e.data.twice));\n"
        "for (const n of [1, 2, 3]) worker.postMessage(n);</script>"
    )
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_function("said.length === 3")
    assert page.evaluate("said") == [2, 4, 6] and outside == []


def test_the_site_asks_nothing_of_a_network() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in text and re.search(r"^  - offline\b", text, flags=re.MULTILINE)
    assert "polyfills: [assets/iframe-worker.js]" in text


def test_searching_the_built_site(requests_of, tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the site's tools are not installed (make docs)")
    pytest.importorskip("mkdocstrings_handlers.python", reason="the site's tools are not installed (make docs)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    page, outside = requests_of
    for path in sorted(tmp_path.rglob("*.html")):
        page.goto(path.as_uri(), wait_until="load")
    page.goto((tmp_path / "lessons/05_jump_forward.html").as_uri())
    page.fill("input[data-md-component=search-query]", "jump-forward")
    page.wait_for_selector("a.md-search-result__link")
    links = page.eval_on_selector_all("a.md-search-result__link", "links => links.map(link => link.href)")
    assert any("how-it-works.html" in link for link in links) and outside == []
