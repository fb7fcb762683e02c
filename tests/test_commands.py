"""The commands on the pages run, each page's in their order, on small files and with a toy model in the place of a real one,
and print what the page says. What cannot run here (`NOT_RUN`) is looked through instead."""

from __future__ import annotations

import argparse
import configparser
import importlib.util
import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from page_commands import PAGES, ROOT, Command, shown_commands, variants

import fsmc
from fsmc.cli import app

TORCH = importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")
FIGURES = importlib.util.find_spec("matplotlib")
SHOWN = shown_commands()
RUN = {name: [shown for shown in page if re.match("fsmc |cat ", shown.line)] for name, page in SHOWN.items()}
SCHEMA = {"properties": {"a": {"type": "integer"}, "age": {"maximum": 150}}, "additionalProperties": False}
FILES = {
    "schema.json": json.dumps(SCHEMA),
    "ann.json": '{"name": "Ann", "age": 36}',
    "prompts.jsonl": '{"prompt": "A word: ", "regex": "[a-z]{3}"}\n{"messages": [{"role": "user", "content": "Well?"}], "choice": ["a", "b"]}\n',
    "constraints/ok.json": json.dumps(SCHEMA),
    "constraints/digits.regex": "[0-9]+",
    "schemas/ok.json": json.dumps(SCHEMA),
} | {shown.line[4:]: shown.output for page in RUN.values() for shown in page if shown.line.startswith("cat ")}
STAND_FOR = {
    "PATTERN": "[ab]+",
    "TEXT": "abba",
    "…": "[ab]+",
    "TOKENIZER": "tokenizer.json",
    "MODEL": "smollm2",
    "DIR": "constraints/",
    "FILE": "prompts.jsonl",
}


@pytest.fixture(scope="module")
def toy_folder(tmp_path_factory) -> Path | None:
    """A toy model as transformers saves it, if there are torch and transformers."""
    if not TORCH:
        return None
    from fsmc.runtime.toy_model import toy_model

    folder = tmp_path_factory.mktemp("toy")
    toy = toy_model(n_layers=1, hidden_size=32)
    toy.model.save_pretrained(folder)
    toy.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Beside other work, several threads wait for each other; and `fsmc generate` chooses how many torch has from now on."""
    if not TORCH:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", [name for name, page in RUN.items() if page])
def test_commands_run(page: str, fsmc_command, toy_folder, tokenizer_file, one_thread, tmp_path, monkeypatch) -> None:
    from fsmc.runtime import model_files

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FSMC_QUIET", "1")  # what is said while kernels compile is not on the page
    for name, content in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy((toy_folder or tokenizer_file.parent) / name, name)
    monkeypatch.setattr(model_files, "_smollm2_file", lambda: toy_folder)
    faults, left_out = [], []
    for shown in RUN[page]:
        for words in variants(shown.line) if shown.line.startswith("fsmc ") else []:
            words = [STAND_FOR.get(word, word) for word in words[1:]]
            is_figure = words[0] == "plot" and words[1:]
            if (is_figure and not FIGURES) or ("smollm2" in words and not toy_folder):
                left_out.append(shown.line)
            elif fault := _run(fsmc_command, words, shown):
                faults.append(f"{shown.line}\n{fault}")
    assert not faults, "\n".join(faults)
    if left_out:
        pytest.skip(f"these need torch and transformers, or matplotlib: {'; '.join(left_out)}")


def _run(fsmc_command: Callable[..., Any], words: list[str], shown: Command) -> str:
    """What is wrong with it, or "". Texts may be shown that do not match; a command's bare name stands for its help."""
    end = next((i for i, word in enumerate(words) if word in ("|", ">")), len(words))
    named = len(words) == 1 and words != ["warmup"]
    outcome = fsmc_command(*words[:end], *(["--help"] if named else []))
    if words[end : end + 1] == [">"]:
        Path(words[end + 1]).write_text(outcome.out, encoding="utf-8")
    if outcome.code not in ((0, 1) if words[0] in ("match", "explain") else (0,)):
        return f"exit code {outcome.code}: {outcome.out}{outcome.err}"
    printed = (outcome.out + outcome.err).rstrip()
    return f"prints\n{printed}" if shown.output is not None and printed != shown.output.rstrip() else ""


class Parsed(Exception):
    """Raised where a script has read its options and would begin."""


def check_make(words: list[str], tmp_path: Path) -> None:
    made = subprocess.run(["make", "-n", f"VENV={tmp_path}/none", *words[1:]], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0 and f"make {words[1]} " in (ROOT / "Makefile").read_text(), made.stderr


def check_pip(words: list[str], tmp_path: Path) -> None:
    """Only options that pip has; the extras are ours."""
    options = [word for word in words[2:] if word.startswith("-")]
    assert words[1] == "install" and {*options} <= {"--no-deps", "-e"}
    for word in words[2:]:
        if extras := re.fullmatch(r"(?:\.|fsmc)\[(.+)\]", word):
            assert {*extras[1].split(",")} <= extras_of_fsmc(), word


def check_python(words: list[str], tmp_path: Path) -> None:
    if words[1] == "-m":
        assert words[2].startswith("sglang.") or importlib.util.find_spec(words[2])
    else:
        script = ROOT / words[1]
        assert script.is_file()
        if words[2:]:
            parser_of(script, words[2:])


def parser_of(script: Path, arguments: list[str] | None) -> argparse.ArgumentParser:
    """The parser that a script makes, once it has read these arguments; the script goes no further."""
    parse_args = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser, *_: Any) -> None:
        if arguments is not None:
            parse_args(parser, arguments)
        raise Parsed(parser)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Parsed) as parsed:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        patch.setattr(sys, "path", [str(script.parent), *sys.path])
        before = {*sys.modules}
        runpy.run_path(str(script), run_name="__main__")
    for name in {*sys.modules} - before:
        if str(script.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]  # others may have a module of this name
    (parser,) = parsed.value.args
    return parser


def check_bash(words: list[str], tmp_path: Path) -> None:
    subprocess.run(["bash", "-n", str(ROOT / words[1])], check=True)


def check_server(words: list[str], tmp_path: Path) -> None:
    """What is JSON in it is; a request's constraint compiles."""
    for word in words:
        if word.startswith("{"):
            body = json.loads(word)
            if constraint := body.get("sampling_params") or body.get("structured_outputs"):
                vocab = fsmc.Vocabulary.from_tokens([b"0"])
                fsmc.GrammarCompiler(vocab, cache_dir=None).compile_constraint(constraint)
            else:
                assert body == {"backend": "fsmc"}


NOT_RUN: dict[str, tuple[str, Callable[[list[str], Path], None]]] = {
    "make": ("sets up an environment", check_make),
    "pip": ("needs a registry", check_pip),
    "python": ("measures for minutes, or rewrites what other tests compare; SGLang is not installed", check_python),
    "bash": ("sets up an environment, or wants a GPU", check_bash),
    "vllm": ("is not installed", check_server),
    "curl": ("wants a server", check_server),
}
LOOKED_THROUGH = sorted({shown.line for name, page in SHOWN.items() for shown in page if shown not in RUN[name]})


@pytest.mark.parametrize("line", LOOKED_THROUGH)
def test_commands_that_cannot_run_here(line: str, tmp_path) -> None:
    for words in variants(line):
        while "=" in words[0]:
            words.pop(0)
        assert words[0] in NOT_RUN, f"{words[0]}: run it in test_commands_run, or say in NOT_RUN why it cannot be"
        _, check = NOT_RUN[words[0]]
        check(words, tmp_path)


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda script: script.name)
def test_usage_of_benchmarks(script: Path) -> None:
    """The options that a script's first lines show are those that it has."""
    usage = "\n".join(re.findall(r"^ {4}python benchmarks/.*", script.read_text(encoding="utf-8"), flags=re.MULTILINE))
    if options := set(re.findall(r"--[a-z-]+", usage)):
        assert options <= set(parser_of(script, None)._option_string_actions)


def extras_of_fsmc() -> set[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    return {*setup["options.extras_require"]}


def test_extras_variables_and_options_in_the_text() -> None:
    """The extras that messages tell one to install, the variables of the environment, the options on the command line's pages."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "fsmc").rglob("*.py"))
    assert {extra for extras in re.findall(r"fsmc\[(\w+)\]", code) for extra in extras.split(",")} <= extras_of_fsmc()
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    read = code + (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert all(variable in read for variable in re.findall(r"\bFSMC_\w+", text))
    group = typer.main.get_group(app)
    commands = [group, *group.commands.values(), *group.commands["cache"].commands.values()]
    known = {option for command in commands for p in command.params for option in (*p.opts, *p.secondary_opts)}
    for page in ("cli.md", "view.md", "guides/command-line.md"):
        spans = re.findall(r"`(--?[a-zA-Z][^`\n]*)`", (ROOT / "docs" / page).read_text(encoding="utf-8"))
        named = {word.split("=")[0] for span in spans for word in span.split() if word.startswith("-")}
        assert named <= known, f"{page}: {named - known}"
