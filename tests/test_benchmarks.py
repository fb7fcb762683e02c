"""The benchmarks run, on tiny inputs, and print and record what they should. No times are asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
ROWS = [
    {
        "id": "person",
        "schema": SCHEMA,
        "tests": [{"data": {"name": "a name that is long"}, "valid": True}, {"data": {"name": 1}, "valid": False}],
    },
    {
        "id": "words",
        "schema": {"type": "array", "items": {"type": "string"}},
        "tests": [{"data": ["one word", "another word"], "valid": True}, {"data": [0], "valid": False}],
    },
    {"id": "broken", "schema": {"type": "no such type"}, "tests": [{"data": 1, "valid": True}]},
]
PEERS = {
    "llguidance": "llguidance",
    "xgrammar": "xgrammar",
    "xgrammar-strict": "xgrammar",
    "outlines-core": "outlines_core",
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Path:
    """A byte-level tokenizer of single bytes and an end token."""
    tokenizers = pytest.importorskip("tokenizers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    built = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    built.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.decoder = tokenizers.decoders.ByteLevel()
    built.add_special_tokens(["</s>"])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    built.save(str(path))
    path.with_name("tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    return path


@pytest.fixture(scope="module")
def schemas(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("schemas") / "schemas.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def run(script: str, *arguments: object, **environment: str) -> str:
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def record(folder: Path) -> dict:
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("engine", ["fsmc", "fsmc-any", *PEERS])
def test_maskbench(engine: str, tokenizer: Path, schemas: Path, tmp_path: Path) -> None:
    if engine in PEERS:
        pytest.importorskip(PEERS[engine], reason=f"{engine} is not installed (pip install '.[bench]')")
    shown = run(
        "maskbench.py", schemas, "--tokenizer", tokenizer, "--engines", engine, "--failures", "--record", tmp_path
    )
    report = record(tmp_path)
    figures = report["engines"][engine]
    assert report["schemas"] == 3 and figures["invalid accepted"] == figures["crashes"] == figures["timeouts"] == 0
    if engine.startswith("fsmc"):
        assert figures["passed"] == 2 and figures["compile errors"] == 1
        assert figures["masks"] > 40 and figures["TTFM"]["p50"] > 0 and figures["TBM"]["max"] > 0
        assert f"{engine} broken" in shown
    assert "TTFM p50" in shown and "invalid accepted" in shown


def test_start_up(tokenizer: Path, tmp_path: Path) -> None:
    shown = run("start_up.py", tokenizer, "--runs", 1, "--record", tmp_path)
    figures = record(tmp_path)["milliseconds"]["fsmc"]
    assert "first mask" in shown and figures["together"] == pytest.approx(sum(list(figures.values())[:-1]))
    assert all(value > 0 for value in figures.values())


def test_a_crash_and_a_hang_cost_one_schema_each(tokenizer: Path, schemas: Path, tmp_path: Path) -> None:
    """The process is started anew after it."""
    script = tmp_path / "breaking.py"
    script.write_text(
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "import engines, maskbench\n"
        "class Breaking(engines.Fsmc):\n"
        "    def compile(self, schema):\n"
        "        if 'properties' in schema: os._exit(3)\n"
        "        if schema == {'type': 'no such type'}: time.sleep(60)\n"
        "        return super().compile(schema)\n"
        "engines.ENGINES['fsmc'] = ('fsmc', 'fsmc', Breaking)\n"
        "maskbench.__file__ = __file__\n"
        "maskbench.main()\n"
    )
    run(str(script), schemas, "--tokenizer", tokenizer, "--engines", "fsmc", "--limit", 1, "--record", tmp_path)
    figures = record(tmp_path)["engines"]["fsmc"]
    assert (figures["crashes"], figures["timeouts"], figures["passed"]) == (1, 1, 1)


def test_missing_schemas_are_said(tokenizer: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(BENCHMARKS / "maskbench.py"),
        str(tmp_path / "none.jsonl"),
        "--tokenizer",
        str(tokenizer),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "no schemas at" in done.stderr and "Traceback" not in done.stderr


TAKE_A_TOKENIZER = {
    "ablation.py": [],
    "batch.py": [],
    "budget_walks.py": ["--tokenizer"],
    "grammars.py": ["--tokenizer"],
    "growth.py": [],
    "index.py": [],
    "maskbench.py": ["--tokenizer"],
    "memory.py": ["--tokenizer"],
    "start_up.py": [],
}
TAKE_SCHEMAS = {
    "ablation.py": ["--schemas"],
    "batch.py": ["--data"],
    "budget_walks.py": [],
    "maskbench.py": [],
    "memory.py": [],
}


def said_of(script: str, *arguments: object) -> str:
    """The one line with which a benchmark refuses its input."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "FSMC_QUIET": "1"})
    assert done.returncode == 2 and done.stdout == "", done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("script", TAKE_A_TOKENIZER)
def test_a_tokenizer_that_is_none_is_said(script: str, schemas: Path, tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text('{"model": 1}')
    given = ["--data", schemas] if script == "batch.py" else [schemas] if script in TAKE_SCHEMAS else []
    given = ["--schemas", schemas] if script == "ablation.py" else given
    for path in (tmp_path / "none.json", broken):
        assert str(path) in said_of(script, *given, *TAKE_A_TOKENIZER[script], path)


@pytest.mark.parametrize("script", TAKE_SCHEMAS)
def test_schemas_that_are_none_are_said(script: str, tokenizer: Path, tmp_path: Path) -> None:
    broken = tmp_path / "schemas.jsonl"
    broken.write_text(json.dumps(ROWS[0]) + "\n{\n")
    given = [*TAKE_A_TOKENIZER[script], tokenizer]
    for path, said in ((tmp_path / "none.jsonl", str(tmp_path)), (broken, f"{broken}:2: not JSON")):
        assert said in said_of(script, *given, *TAKE_SCHEMAS[script], path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b"", "there are no schemas in it"),
        ("a.jsonl", b"\xff\n", "utf-8"),
        ("a.jsonl.gz", b"no gzip", "gzip"),
        ("a.jsonl", b"[1]\n", ":1: not an object with"),
        ("a.jsonl", b'{"id": "a", "schema": true}\n', ":1: not an object with"),
        ("folder/a.json", b"{", "a.json: not JSON"),
        ("folder/a.json", b'{"schema": true}', "a.json: not an object with"),
    ],
)
def test_what_is_wrong_with_schemas(name, content, said, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from report import read_schemas

    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(SystemExit) as stopped:
        read_schemas(path.parent if path.parent.name == "folder" else path)
    shown = capsys.readouterr().err
    assert stopped.value.code == 2 and said in shown and shown.count("\n") == 1


@pytest.mark.parametrize("script", ["decode.py", "soak.py"])
def test_a_model_that_is_none_is_said(script: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="models need transformers")
    assert "no model of this name" in said_of(script, "--model", tmp_path / "none")


def test_batch(tokenizer: Path, schemas: Path, tmp_path: Path) -> None:
    options = ["--rows", "1,3", "--schemas", 2, "--steps", 2, "--rounds", 2, "--engines", "fsmc,llguidance,xgrammar"]
    shown = run("batch.py", tokenizer, "--data", schemas, *options, "--record", tmp_path)
    report = record(tmp_path)
    assert [batch["rows"] for batch in report["batches"]] == [1, 3] and report["schemas"] == 2
    assert all(batch["microseconds"]["fsmc"]["warm"] > 0 for batch in report["batches"])
    assert "fsmc, one by one" in shown


@pytest.mark.parametrize("order", ["schema", "any"])
def test_memory(order: str, tokenizer: Path, schemas: Path, tmp_path: Path) -> None:
    shown = run("memory.py", schemas, "--tokenizer", tokenizer, "--order", order, "--record", tmp_path)
    report = record(tmp_path)
    assert report["compiled"] == 2 and report["grammar bytes"]["p50"] > 0
    assert "p50 < 200 KiB" in shown


def test_decode(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the engine needs transformers")
    options = ["--model", "toy", "--tasks", "call,form", "--batches", "1,2", "--max-new-tokens", 30, "--threads", 1]
    shown = run("decode.py", *options, "--record", tmp_path)
    report = record(tmp_path)
    ways = {run["way"] for run in report["runs"] if run["batch"] == 1}
    assert {"engine, canonical", "engine, exact", "engine, off", "generate + fsmc"} <= ways
    assert all(run["canonical"] and run["cpu ratio"] > 0 for run in report["runs"])
    assert {entry["batch"] for entry in report["summary"]} == {1, 2}
    assert "exact gave the text of no jumps in 4 of 4 runs" in shown or "apart" in shown


def test_soak(tmp_path: Path) -> None:
    """Bad constraints, aborts, callers' mistakes, threads that are killed: every request ends as it should."""
    pytest.importorskip("transformers", reason="the engine needs transformers")
    shown = run("soak.py", "--requests", 200, "--record", tmp_path)
    report = record(tmp_path)
    assert report["requests"] == sum(report["ends"].values()) == 200 and report["faults"] == []
    assert {"abort", "error", "length", "stop"} <= set(report["ends"])
    assert "all 200 requests ended as they should" in shown


def test_gpu_script_in_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="triton is not installed")
    script = BENCHMARKS / "gpu/run.sh"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OUT": str(tmp_path), "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", str(script), "--small"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = record(tmp_path)
    assert report["checked"] == 80 and report["wrong"] == [] and len(report["timed"]) == 20
    assert "of copy" in (tmp_path / "table.txt").read_text()


def test_the_mask_kernels_need_nothing_but_numpy_and_numba() -> None:
    """The GPU script runs where the other dependencies are not installed."""
    script = (
        "import sys\n"
        "for name in ('diskcache', 'interegular', 'rich', 'typer', 'referencing', 'platformdirs', 'safetensors', "
        "'tokenizers', 'jsonschema_specifications'): sys.modules[name] = None\n"
        "import fsmc.runtime.bitmask\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("engine", ["fsmc", "llguidance", "xgrammar"])
def test_grammars(engine: str, tokenizer: Path, tmp_path: Path) -> None:
    if engine in PEERS:
        pytest.importorskip(PEERS[engine], reason=f"{engine} is not installed (pip install '.[bench]')")
    names = ("--grammars", "arithmetic,lisp", "--engines", engine, "--texts", 3)
    shown = run("grammars.py", *names, "--tokenizer", tokenizer, "--record-dir", tmp_path)
    figures = record(tmp_path)["engines"][engine]["grammars"]
    assert figures["arithmetic"]["texts"] == figures["arithmetic"]["of"] > 5
    assert figures["arithmetic"]["mean_us"] > 0 and f"{engine}: lisp" in shown


def test_ablation(tokenizer: Path, schemas: Path, tmp_path: Path) -> None:
    """It stops itself where a variant fills other masks."""
    shown = run("ablation.py", tokenizer, "--schemas", schemas, "--n", 2, "--record", tmp_path)
    report = record(tmp_path)
    variants = {row["variant"] for row in report["masks"]}
    assert {"all ideas", "no sharing", "no rests", "no blocks", "no memory"} <= variants and report["schemas"] == 2
    compressed, plain = report["compression"]
    assert compressed["passes"] < plain["passes"] and compressed["forced_percent"] > 0 == plain["forced_percent"]
    lazy, whole = report["laziness"]
    assert lazy["most_states"] <= whole["most_states"] and whole["not_whole"] == 0
    assert "no laziness" in shown


def test_ablation_builds_all_that_texts_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsmc

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from ablation import build_whole

    vocabulary = fsmc.Vocabulary.from_tokens([bytes([byte]) for byte in range(256)])
    compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="json")
    tree = {**SCHEMA, "properties": {"name": {"anyOf": [{"type": "string"}, {"$ref": "#"}]}, "n": {"type": "integer"}}}
    machine = compiler.compile_json_schema(tree).machine
    assert build_whole(machine, 10_000)
    before = machine.n_states
    for text in ('{"name": {"name": "x", "n": -12}, "n": 0}', '{"name": "\\n\\"é"}'):
        assert machine.matches(text.encode()) and machine.n_states == before
    assert not build_whole(compiler.compile_json_schema(tree).machine, 10)
