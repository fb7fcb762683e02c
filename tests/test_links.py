"""Links that lead elsewhere look as they should, and `make links` says of each whether it leads there (a server of our own answers)."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

LINKS = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parent.parent / "docs" / "links.py")))


def test_external_links_look_right() -> None:
    found = LINKS.external_links(LINKS.pages())
    assert "https://github.com/huggingface/safetensors" in found
    assert LINKS.faults_of_form(list(found)) == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[a](https://example.org/a) and `http://in.code` and https://example.org/b", []),
        ("[a](http://example.org)", ["not https:// and a name"]),
        ("[a](mailto:a@example.org)", ["not https:// and a name"]),
        ("[a](https://localhost/a)", ["not https:// and a name"]),
        ("See https://example.org/a.", ["ends in punctuation"]),
        ("[a](https://example.org/a/) [b](https://www.example.org/a.git)", ["elsewhere https://example.org/a/"]),
    ],
)
def test_what_is_wrong_by_its_looks(text: str, faults: list[str], tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{text}\n\n    http://in/a/block\n\n```sh\ncurl http://localhost\n```\n")
    found = LINKS.faults_of_form(list(LINKS.external_links([page])))
    assert [fault.partition(": ")[2] for fault in found] == faults


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        code = int(self.path.split("/")[1])
        self.send_response(405 if code == 200 and self.command == "HEAD" else code)
        if code in (301, 302):
            self.send_header("Location", "/204")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_links_are_tried(server: str, tmp_path, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text("".join(f"[{code}]({server}/{code})\n" for code in (200, 204, 302, 301, 404)))
    assert LINKS.main([str(page)]) == 1
    said = dict(line.removeprefix(f"{server}/").split(": ", 1) for line in capsys.readouterr().out.splitlines()[:5])
    assert said == {
        "200": "leads there",  # although the server has no HEAD
        "204": "leads there",
        "302": "leads there",
        "301": f"has moved to {server}/204",
        "404": "answers 404",
    }


def test_what_cannot_be_reached_is_said(monkeypatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert LINKS.fault_of("http://127.0.0.1:9/none").startswith("cannot be reached")
