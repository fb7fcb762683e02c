"""Runs examples/demo.py and keeps what it shows as docs/demo.svg, the picture in the README.

python docs/record_demo.py [options of the demo]
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="demo")
    with open(os.devnull, "w") as nowhere:
        recorder = Console(record=True, width=100, force_terminal=False, highlight=False, file=nowhere)
        demo["main"].__globals__["Console"] = lambda **_: recorder
        status: int = demo["main"](sys.argv[1:])
        title = "python examples/demo.py"
        (ROOT / "docs" / "demo.svg").write_text(recorder.export_svg(title=title, clear=False), encoding="utf-8")
        print(recorder.export_text())
    return status


if __name__ == "__main__":
    sys.exit(main())
