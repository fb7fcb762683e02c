"""What the site has besides the pages under docs/: README, changelog and lessons as pages, and the files that pages link to.

On the repository's own pages links lead to files (``../examples/01_regex_to_dfa.py``). Here each such link is turned to
the page that shows that file, and a file that no page shows gets one.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")
AS_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}


def on_config(config: Any) -> Any:
    """A page that the navigation does not name yet is found under "More"."""
    named = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    if more := [page for page in pages if page not in named]:
        config.nav.append({"More": more})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, until no page links to a file that has none."""
    for source, page in AS_PAGES.items():
        add(files, config, page, (ROOT / source).read_text(encoding="utf-8"))
    for lesson in sorted((ROOT / "examples").glob("[0-9][0-9]_*.py")):
        add(files, config, f"lessons/{lesson.stem}.md", lesson_page(lesson))
    for file in list(files.documentation_pages()):
        for _, target, _ in LINK.findall(file.content_string):
            source = repository_path(file.src_uri, target)
            if source and page_of(source) not in files.src_uris and (ROOT / source).is_file():
                text = (ROOT / source).read_text(encoding="utf-8")
                language = {".py": "python", ".json": "json"}.get(Path(source).suffix, "text")
                fence = "`" * 6
                hidden = "---\nsearch:\n  exclude: true\n---\n"
                add(files, config, page_of(source), f"{hidden}# {source}\n\n{fence}{language}\n{text}\n{fence}\n")
    files.append(
        File.generated(config, "assets/iframe-worker.js", abs_src_path=str(ROOT / "docs/site/iframe-worker.js"))
    )
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links to files into links to their pages."""
    here = page.file.src_uri

    def turned(match: re.Match[str]) -> str:
        source = repository_path(here, match[2])
        if source is None:
            return match[0]
        target = page_of(source)
        return f"{match[1]}{posixpath.relpath(target, posixpath.dirname(here) or '.')}{match[3]}"

    return LINK.sub(turned, markdown)


def repository_path(page: str, target: str) -> str | None:
    """The file of the repository that a link means, None for one that is left as it is (to a page beside it)."""
    origin = next((source for source, name in AS_PAGES.items() if name == page), f"docs/{page}")
    if page.startswith("lessons/"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    return path if not path.startswith("..") else None


def page_of(source: str) -> str:
    """Where on the site a file of the repository is."""
    if source in AS_PAGES:
        return AS_PAGES[source]
    if source.startswith("docs/"):
        return source[5:]
    if source.rstrip("/") == "examples":
        return "guides/teaching.md"
    if lesson := re.fullmatch(r"examples/(\d\d_\w+)\.py", source):
        return f"lessons/{lesson[1]}.md"
    return f"source/{source}.md"


def lesson_page(path: Path) -> str:
    """A lesson: its docstring, then each Markdown cell as text, each other one as code, and what it prints."""
    source = path.read_text(encoding="utf-8")
    recorded = json.loads((ROOT / "docs" / "lesson_outputs" / f"{path.stem}.json").read_text(encoding="utf-8"))
    title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    parts = [title.rstrip("."), text]
    for cell, printed in zip(source.split("\n# %%")[1:], recorded["cells"][1:], strict=True):
        head, _, body = cell.partition("\n")
        if head.strip() == "[markdown]":
            parts.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip("\n").split("\n")))
        else:
            parts.append(f"```python\n{body.strip(chr(10))}\n```")
        if printed.strip():
            shown = printed.strip("\n")
            parts.append(f"```text\n{shown}\n```")
    return "\n\n".join(
        [
            *parts,
            f"The whole of it: `examples/{path.name}`, to run or to open as a notebook. Output is that of one run.\n",
        ]
    )


def add(files: Any, config: Any, uri: str, content: str) -> None:
    files.append(File.generated(config, uri, content=content))
