"""The links of the pages that lead elsewhere: `make links` (`python docs/links.py [PAGE.md ...]`) tries each over the network.

A link that leads nowhere is a fault, and so is one that leads to a place that has moved for good: the page should name the new
one. What can be said without a network is a test (tests/test_pages.py).
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 20
CODE = re.compile(r"^```.*?^```|^(?: {4}).*?$|`[^`\n]*`", flags=re.MULTILINE | re.DOTALL)
EXTERNAL = re.compile(r"(?<=\]\()[a-z][a-z+.-]*:[^)\s]*|\b(?:https?|ftp)://[^\s<>\"'()\[\]]+")


def pages() -> list[Path]:
    """README, changelog, the pages under docs/, and the lessons, which are pages of the site."""
    markdown = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return markdown + sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))


def external_links(paths: list[Path]) -> dict[str, list[str]]:
    """Address → the pages that link to it; what stands in code is no link."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for address in dict.fromkeys(EXTERNAL.findall(CODE.sub("", text) if path.suffix == ".md" else text)):
            found[address].append(path.name)
    return dict(found)


def faults_of_form(addresses: list[str]) -> list[str]:
    """What is wrong with them by their looks: no https, a sentence's punctuation at the end, two spellings of one place."""
    faults, places = [], {}
    for address in addresses:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme != "https" or not re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc):
            faults.append(f"{address}: not https:// and a name")
        if re.search(r"[.,;:!?*_'\"]$", address):
            faults.append(f"{address}: ends in punctuation")
        path = re.sub(r"(/index\.html?|\.git|/)$", "", parts.path)
        place = (parts.netloc.removeprefix("www."), path.lower(), parts.query, parts.fragment)
        if (other := places.setdefault(place, address)) != address:
            faults.append(f"{address}: elsewhere {other}")
    return faults


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows them, and remembers where the first one leads that is for good."""

    moved_to = ""

    def redirect_request(self, request: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if code in (301, 308):
            self.moved_to = self.moved_to or newurl
        return super().redirect_request(request, fp, code, msg, headers, newurl)


def fault_of(address: str) -> str:
    """What a server says against the link, or ""."""
    answer = ""
    for method in ("HEAD", "GET"):  # some servers refuse the first
        redirects = _Redirects()
        request = urllib.request.Request(address, method=method, headers={"User-Agent": "Mozilla/5.0 (link check)"})
        try:
            urllib.request.build_opener(redirects).open(request, timeout=SECONDS).close()
            return f"has moved to {redirects.moved_to}" if redirects.moved_to else ""
        except urllib.error.HTTPError as error:
            answer = f"answers {error.code}"
        except (OSError, ValueError) as error:
            answer = f"cannot be reached ({getattr(error, 'reason', error)})"
    return answer


def main(arguments: list[str]) -> int:
    links = external_links([Path(name) for name in arguments] or pages())
    faults = faults_of_form(list(links))
    with ThreadPoolExecutor(8) as pool:
        for (address, where), fault in zip(links.items(), pool.map(fault_of, links), strict=True):
            print(f"{address}: {fault or 'leads there'}")
            faults += [f"{address} ({', '.join(where)}): {fault}"] if fault else []
    print(*(f"wrong: {fault}" for fault in faults), f"{len(links)} links, {len(faults)} wrong", sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
