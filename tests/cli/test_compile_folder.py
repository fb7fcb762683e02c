"""``fsmc compile DIR``: what it makes, what it passes over, and a run that is killed half-way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import fsmc
from fsmc.runtime.index_folder import MANIFEST, FolderCompiler, ManifestLine, read_manifest
from fsmc.runtime.index_jobs import ManifestWriter

N_SCHEMAS = 48
SCHEMAS = {
    f"s{i:02}.json": {
        "type": "object",
        "properties": {f"p{k}": {"type": "string", "maxLength": i + k} for k in range(6)},
        "required": ["p0"],
    }
    for i in range(N_SCHEMAS)
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: Any) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE({**letters, "ab": 256, "<end>": 257}, [("a", "b")]))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "more").mkdir(parents=True)
    for name, schema in SCHEMAS.items():
        (folder / name).write_text(json.dumps(schema))
    return folder


def command(sources: Path, output: Path, tokenizer: Path, *options: str) -> list[str]:
    return [
        *(
            sys.executable,
            "-m",
            "fsmc",
            "compile",
            str(sources),
            "-o",
            str(output),
            "-t",
            str(tokenizer),
            "--eos",
            "257",
        ),
        *("--json", *options),
    ]


def run(*arguments: Any, code: int = 0) -> dict[str, Any]:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout)) if done.stdout else {"error": done.stderr}


def vocabulary(tokenizer: Path) -> fsmc.Vocabulary:
    return fsmc.Vocabulary.from_file(tokenizer, eos_token_ids=[257])


def test_every_kind_of_file_and_those_that_are_refused(sources: Path, tokenizer: Path, tmp_path: Path) -> None:
    for name in list(SCHEMAS)[2:]:
        (sources / name).unlink()
    (sources / "date.regex").write_text("[0-9]{4}-[0-9]{2}\n")
    (sources / "sum.ebnf").write_text('root ::= "(" root ")" | "x"')
    (sources / "sum.lark").write_text('start: "x" | "(" start ")"')
    (sources / "more" / "yes.choice.json").write_text('["yes", "no"]')
    (sources / "call.tag.json").write_text('{"type": "structural_tag", "format": {"type": "regex", "pattern": "a+"}}')
    (sources / "bad.json").write_text('{"type": "strin"}')
    (sources / "bad.regex").write_text("(")
    (sources / "notes.txt").write_text("not a constraint")
    output = tmp_path / "indexes"
    first = run(sources, output, tokenizer, "-p", "1", code=2)
    assert (first["files"], first["compiled"], first["passed_over"]) == (9, 7, 0)
    assert set(first["refused"]) == {"bad.json", "bad.regex"} and "strin" in first["refused"]["bad.json"]
    again = run(sources, output, tokenizer, "-p", "1", code=2)
    assert (again["files"], again["passed_over"], again["refused"]) == (9, 9, first["refused"])

    compiler = FolderCompiler(vocabulary(tokenizer), index_folder=output, cache_dir=None)
    for kind, source in [
        ("json_schema", json.dumps(SCHEMAS["s00.json"], indent=3)),
        ("regex", "[0-9]{4}-[0-9]{2}"),
        ("grammar", 'root ::= "(" root ")" | "x"'),
        ("choice", ["yes", "no"]),
        ("structural_tag", {"type": "structural_tag", "format": {"type": "regex", "pattern": "a+"}}),
    ]:
        n_loaded = compiler.n_loaded
        grammar = getattr(compiler, f"compile_{kind}")(source)
        assert compiler.n_loaded == n_loaded + 1, kind
        assert fsmc.GrammarMatcher(grammar).expected()
    compiler.compile_regex("[0-9]")
    assert FolderCompiler(
        vocabulary(tokenizer), index_folder=output, cache_dir=None, whitespace="compact"
    ).compile_regex("x")
    assert compiler.n_loaded == 5

    (sources / "s00.json").write_text('{"type": "null"}')  # a source that changed is compiled again
    changed = run(sources, output, tokenizer, "-p", "1", code=2)
    assert changed["passed_over"] == 8


def test_killed_half_way_nothing_is_lost_and_nothing_done_twice(sources: Path, tokenizer: Path, tmp_path: Path) -> None:
    output = tmp_path / "indexes"
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(command(sources, output, tokenizer, "-p", "2"), stdout=errors, stderr=errors)
    until = time.monotonic() + 240
    while len(read_manifest(output)) < 5:
        assert process.poll() is None and time.monotonic() < until, (tmp_path / "errors").read_text()
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with (output / MANIFEST).open("ab") as manifest:
        manifest.write(b'{"source": "s4')  # as if in the middle of a line
    time.sleep(1.5)  # the processes that compile notice, and end
    before = {line.source: line for line in read_manifest(output)}
    written = {path.name: path.stat().st_mtime_ns for path in output.glob("*.fsmc")}
    assert before

    result = run(sources, output, tokenizer, "-p", "2")
    assert result["compiled"] == N_SCHEMAS and result["passed_over"] == len(before)
    lines = read_manifest(output)
    assert sorted(line.source for line in lines) == sorted(SCHEMAS), "each once"
    assert {line.source: line for line in lines if line.source in before} == before
    names = {path.name for path in output.glob("*.fsmc")}
    assert names == {line.file for line in lines}
    assert {name: (output / name).stat().st_mtime_ns for name in written} == written, "no file was written again"
    assert not [path for path in output.iterdir() if path.suffix not in (".fsmc", ".jsonl")]
    vocab = vocabulary(tokenizer)
    for line in lines:
        grammar = fsmc.CompiledGrammar.load(output / line.file, vocab)
        assert json.loads(grammar.source) == SCHEMAS[line.source]


def test_what_cannot_be_done_is_said(sources: Path, tokenizer: Path, tmp_path: Path) -> None:
    output = tmp_path / "indexes"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no file in it" in run(empty, output, tokenizer, code=3)["error"]
    assert "another folder" in run(sources, sources, tokenizer, code=2)["error"]
    assert "go with a pattern" in run(sources, output, tokenizer, "-i", code=2)["error"]
    writer = ManifestWriter(output)
    assert "another process" in run(sources, output, tokenizer, code=3)["error"]
    writer.close()
    (output / MANIFEST).write_text("{}\n")
    assert "line 1 is damaged" in run(sources, output, tokenizer, code=3)["error"]


def test_an_engine_goes_on_with_a_damaged_folder(tmp_path: Path, caplog: Any) -> None:
    """Lines that are no lines, files outside the folder or cut off, another vocabulary: said in the log, and compiled."""
    vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    compiler = FolderCompiler(vocab, cache_dir=None)
    lines = []
    for name, pattern in {"whole": "a+", "cut": "ab", "outside": "b+"}.items():
        grammar = compiler.compile_regex(pattern)
        grammar.build_index()
        grammar.save(tmp_path / f"{name}.fsmc")
        file = f"../{tmp_path.name}/{name}.fsmc" if name == "outside" else f"{name}.fsmc"
        lines.append(ManifestLine(name, "", "regex", compiler.key("regex", pattern), file).text())
    (tmp_path / "cut.fsmc").write_bytes((tmp_path / "cut.fsmc").read_bytes()[:500])
    (tmp_path / MANIFEST).write_bytes(b"\xff\n" + "".join(lines).encode() + b'{"source": 5}\n[' + lines[0].encode())
    engine = FolderCompiler(vocab, cache_dir=None, index_folder=tmp_path)
    for pattern in ("a+", "ab", "b+", "a+"):
        assert engine.compile_regex(pattern).machine.matches({"a+": b"aa", "ab": b"ab", "b+": b"b"}[pattern])
    assert engine.n_loaded == 2
    assert "line 1 is damaged" in caplog.text and "line 4 is damaged" in caplog.text and "cut.fsmc" in caplog.text
    assert "another vocabulary" not in caplog.text
    wider = fsmc.Vocabulary.from_tokens([b"a", b"b", b"", b""], eos_token_ids=[2])
    other = FolderCompiler(wider, cache_dir=None, index_folder=tmp_path)
    assert other.compile_regex("a+").machine.matches(b"a") and other.n_loaded == 0
    assert "made for another vocabulary (3 tokens; here are 4" in caplog.text
    with pytest.raises(fsmc.IndexFileError, match="line 1 is damaged"):
        read_manifest(tmp_path)


def test_bytes_cross_processes(tokenizer: Path) -> None:
    vocab = vocabulary(tokenizer)
    data = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_json_schema({"const": 1}).to_bytes()
    assert fsmc.CompiledGrammar.from_bytes(data, vocab).machine.matches(b"1")
    with pytest.raises(fsmc.IndexFileError, match=r"truncated|damaged"):
        fsmc.CompiledGrammar.from_bytes(data[:-1], vocab)


def test_as_tasks_of_ray(sources: Path, tokenizer: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'fsmc[ray]')")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    result = run(sources, tmp_path / "indexes", tokenizer, "--ray")
    assert result["compiled"] == N_SCHEMAS
    assert run(sources, tmp_path / "indexes", tokenizer, "-p", "1")["passed_over"] == N_SCHEMAS
