"""A headless Chromium, where there is one: playwright's own, or the system's. Where there is none, the tests are skipped and say so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SYSTEM_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).resolve().parents[2] / ".tokenizers" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with playwright.sync_playwright() as started:
        own = Path(started.chromium.executable_path)
        found = None if own.exists() else next(filter(None, map(shutil.which, SYSTEM_BROWSERS)), None)
        if not own.exists() and found is None:
            pytest.skip(
                "no Chromium: playwright install chromium --only-shell, or apt-get install chromium-headless-shell"
            )
        running = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """``open_page(html)`` → the page, loaded; a fault in a script, a message or a request to anywhere fails the test."""
    faults: list[str] = []
    contexts = []

    def open_(html: str, **options):
        path = tmp_path / f"{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else faults.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("#canvas .state")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE.exists():
        pytest.skip("no axe-core: npm install --prefix .tokenizers --no-save axe-core")
    return AXE.read_text(encoding="utf-8")
