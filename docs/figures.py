"""The drawings of docs/how-it-works.md, in docs/figures: `python docs/figures.py` makes them anew; a test says when it must."""

from __future__ import annotations

from pathlib import Path

from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.regex import parse_regex

FOLDER = Path(__file__).resolve().parent / "figures"


def drawings() -> dict[str, str]:
    """File name → SVG."""
    words = determinize(thompson(parse_regex("cats?|bats?")))
    form = minimize(determinize(thompson(parse_regex('"ok": (yes|no)!'))))
    return {
        "deterministic.svg": words.to_svg(),
        "minimal.svg": minimize(words).to_svg(),
        "forced.svg": form.to_svg(),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, svg in drawings().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
