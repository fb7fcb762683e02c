"""Imports go one way: each layer sees only the layers named beside it, whatever the time at which it imports them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fsmc

PACKAGE = Path(fsmc.__file__).parent

# Layer → the layers it may import, besides itself. A module belongs to the longest prefix that fits.
MAY_IMPORT: dict[str, set[str]] = {
    "fsmc.jit": set(),
    "fsmc.cache_dir": set(),
    "fsmc.compiler.errors": set(),
    "fsmc.compiler.kept": set(),
    "fsmc.compiler.syntax": {"fsmc.jit", "fsmc.cache_dir", "fsmc.compiler.errors", "fsmc.compiler.kept"},
    "fsmc.compiler.automata": {"fsmc.jit", "fsmc.compiler.errors", "fsmc.compiler.kept", "fsmc.compiler.syntax"},
    "fsmc.compiler.tokens": {
        "fsmc.jit",
        "fsmc.cache_dir",
        "fsmc.compiler.errors",
        "fsmc.compiler.automata",
    },
    "fsmc.compiler.schema": {
        "fsmc.jit",
        "fsmc.cache_dir",
        "fsmc.compiler.errors",
        "fsmc.compiler.kept",
        "fsmc.compiler.syntax",
        "fsmc.compiler.automata",
    },
    "fsmc.compiler.cfg": {
        "fsmc.jit",
        "fsmc.compiler.errors",
        "fsmc.compiler.kept",
        "fsmc.compiler.syntax",
        "fsmc.compiler.automata",
        "fsmc.compiler.schema",
    },
    "fsmc.compiler.tags": {
        "fsmc.compiler.cfg",
        "fsmc.compiler.errors",
        "fsmc.compiler.one_constraint",
        "fsmc.compiler.syntax",
        "fsmc.compiler.automata",
        "fsmc.compiler.schema",
        "fsmc.jit",
    },
    "fsmc.jumpforward": {
        "fsmc.jit",
        "fsmc.compiler.errors",
        "fsmc.compiler.automata",
        "fsmc.compiler.tokens",
    },
    "fsmc.compiler.warm_up": {"fsmc.compiler.schema", "fsmc.compiler.tokens"},
    "fsmc.compiler.shared_masks": {
        "fsmc.compiler.errors",
        "fsmc.compiler.automata",
        "fsmc.compiler.schema",
        "fsmc.compiler.tokens",
    },
    "fsmc.compiler.grammar": {
        "fsmc.compiler.algebra",  # the operators, when they are used
        "fsmc.compiler.comparison",
        "fsmc.compiler.concatenation",
        "fsmc.jit",
        "fsmc.cache_dir",
        "fsmc.compiler.errors",
        "fsmc.compiler.syntax",
        "fsmc.compiler.automata",
        "fsmc.compiler.schema",
        "fsmc.compiler.cfg",
        "fsmc.compiler.tags",
        "fsmc.compiler.tokens",
        "fsmc.jumpforward",
    },
    "fsmc.compiler.one_constraint": {"fsmc.compiler.errors"},
    "fsmc.compiler.inputs": {"fsmc.compiler.errors", "fsmc.compiler.one_constraint"},
    "fsmc.compiler.algebra": {"fsmc.compiler"},
    "fsmc.compiler.comparison": {"fsmc.compiler", "fsmc.jit"},
    "fsmc.compiler.concatenation": {"fsmc.compiler"},
    "fsmc.compiler.pipeline": {
        "fsmc.compiler.inputs",
        "fsmc.compiler.warm_up",
        "fsmc.compiler.shared_masks",
        "fsmc.compiler.grammar",
        "fsmc.jit",
        "fsmc.cache_dir",
        "fsmc.compiler.errors",
        "fsmc.compiler.syntax",
        "fsmc.compiler.automata",
        "fsmc.compiler.schema",
        "fsmc.compiler.cfg",
        "fsmc.compiler.tags",
        "fsmc.compiler.tokens",
        "fsmc.jumpforward",
    },
    "fsmc.runtime": {"fsmc.jit", "fsmc.cache_dir", "fsmc.compiler", "fsmc.jumpforward"},
    "fsmc.runtime.bitmask": {"fsmc.jit", "fsmc.runtime.bitmask_triton"},  # the mask kernels see nothing of fsmc
    "fsmc.runtime.bitmask_triton": set(),
    "fsmc.runtime.adapters.serving": {
        "fsmc.kernels",
        "fsmc.compiler",
        "fsmc.runtime",
    },  # engines start with all kernels
    "fsmc.research": {"fsmc.compiler"},
    "fsmc.kernels": {"fsmc"},  # it runs everything, to list the kernels
    "fsmc.view": {"fsmc.compiler"},
    "fsmc.plot": {"fsmc.cli", "fsmc.compiler"},
    "fsmc.cli": {"fsmc"},
    "fsmc": {"fsmc"},  # the public API itself
}

MAY_IMPORT_TORCH = "fsmc.runtime"
WITHOUT_TORCH = {"fsmc.runtime.bitmask", "fsmc.runtime.matcher"}
"""Only modules of the runtime import torch, triton or transformers when they are imported, and these two do not: masks
for numpy arrays need no torch. tests/test_import.py checks what is really loaded."""


def test_every_import_goes_down_the_picture() -> None:
    wrong = []
    for module, path in modules():
        layer = longest_prefix(module, MAY_IMPORT)
        assert layer, f"{module} belongs to no layer"
        allowed = MAY_IMPORT[layer] | {layer}
        for target, line in imports_of(path):
            if target.split(".")[0] == "fsmc" and not longest_prefix(target, allowed):
                wrong.append(f"{path.relative_to(PACKAGE.parent)}:{line}: {layer} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_torch_is_imported_in_the_runtime_only() -> None:
    wrong = []
    for module, path in modules():
        if longest_prefix(module, {MAY_IMPORT_TORCH}) and not longest_prefix(module, WITHOUT_TORCH):
            continue
        for target, line in imports_of(path, top_level_only=True):
            if target.split(".")[0] in {"torch", "triton", "transformers", "accelerate", "gguf"}:
                wrong.append(f"{path.relative_to(PACKAGE.parent)}:{line}: imports {target}")
    assert not wrong, "\n".join(wrong)


def test_the_walk_sees_a_forbidden_import() -> None:
    """The checks above would pass on an empty list of imports; this one says that the list is not empty."""
    seen = {
        target for module, path in modules() if module == "fsmc.compiler.automata.nfa" for target, _ in imports_of(path)
    }
    assert any(target.startswith("fsmc.compiler.syntax") for target in seen)
    assert not longest_prefix("fsmc.compiler.tokens.trie", MAY_IMPORT["fsmc.compiler.syntax"])


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports_of(path: Path, top_level_only: bool = False) -> Iterator[tuple[str, int]]:
    """(module, line) of each import statement; ``from a import b`` counts as ``a.b`` when that is a module of ours."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in run_at_import(tree) if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / target.replace(".", "/")).with_suffix(".py").exists()
                yield (target if is_module else str(node.module)), node.lineno


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What Python executes when it imports the module: not function bodies, not ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from run_at_import(child)


def longest_prefix(module: str, layers: set[str] | dict[str, set[str]]) -> str:
    """The layer that ``module`` lies in, or ''. The bare name ``fsmc`` covers everything only where it is listed."""
    candidates = [layer for layer in layers if module == layer or module.startswith(layer + ".")]
    return max(candidates, key=len, default="")
