"""``fsmc generate --requests``: many prompts, each with a constraint of its own, through the engine; JSONL in and out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from fsmc.cli.output import ExitCode

if TYPE_CHECKING:
    from fsmc.runtime.manager import GrammarManager
    from fsmc.runtime.models import LoadedModel
    from fsmc.runtime.request import Request, Response

CONSTRAINTS = {
    "schema": "json_schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
    "structural_tag": "structural_tag",
    "constraint": "constraint",
    "response_format": "constraint",
    "structured_outputs": "constraint",
}
"""Members of a line → the kinds of the grammar manager; a line has at most one of them."""

SAMPLING = {
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "min_new_tokens", "logit_bias", "seed",
}  # fmt: skip
OTHERS = {"id", "prompt", "messages", "max_tokens", "stop", "jump", "never_cut_off"}


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for a line that does not say otherwise."""

    chat: bool
    jump: Any
    max_tokens: int
    temperature: float
    top_p: float
    seed: int | None


def generate_many(
    lines: Iterable[bytes], loaded: LoadedModel, manager: GrammarManager, defaults: Defaults, batch_size: int
) -> None:
    """Answer every line with one line on standard output, as soon as it is done. Exits with 1 if some have an error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from fsmc.runtime.engine import Engine

    n_errors = 0
    asked: list[tuple[dict[str, Any], Request]] = []

    def write(record: dict[str, Any]) -> None:
        nonlocal n_errors
        n_errors += "error" in record
        sys.stdout.write(as_line(record, sys.stdout.encoding or "utf-8") + "\n")
        sys.stdout.flush()

    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        record: dict[str, Any] = {"line": number}
        try:
            row = json.loads(line.decode("utf-8"))
            if not isinstance(row, dict):
                raise ValueError(f"a line is a JSON object, not {type(row).__name__}")
            if "id" in row:
                record["id"] = row["id"]
            asked.append((record, read_request(row, loaded, manager, defaults)))
        except Exception as error:  # nothing that a line holds may keep the others from being answered
            write({**record, "error": str(error) or type(error).__name__})
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("generating", total=len(asked))

        def done(place: int, response: Response) -> None:
            write({**asked[place][0], **as_record(response)})
            bar.advance(task)

        with Engine(loaded.model, loaded.tokenizer, loaded.vocab, max_batch_size=batch_size) as engine:
            engine.run([request for _, request in asked], on_done=done)
    if n_errors:
        sys.stderr.write(f"{n_errors} of the requests failed; each line says why\n")
        raise typer.Exit(ExitCode.NO_MATCH)


def read_request(row: dict[str, Any], loaded: LoadedModel, manager: GrammarManager, defaults: Defaults) -> Request:
    """The request that a line describes. Raises ValueError or TypeError that says what is wrong with it."""
    from fsmc.runtime.arguments import described, integer
    from fsmc.runtime.request import Request
    from fsmc.runtime.sampling_params import SamplingParams

    unknown = set(row) - SAMPLING - OTHERS - set(CONSTRAINTS)
    if unknown:
        known = ", ".join(sorted(SAMPLING | OTHERS | set(CONSTRAINTS)))
        raise ValueError(f"unknown member {sorted(unknown)[0]!r}: a line may have {known}")
    kinds = [name for name in CONSTRAINTS if name in row]
    if len(kinds) > 1:
        raise ValueError(f"{kinds[0]} and {kinds[1]} are two constraints: a line has at most one")
    if ("prompt" in row) == ("messages" in row):
        raise ValueError("a line needs a prompt (text) or messages (a chat), one of the two")
    prompt: Any = row.get("prompt")
    if "prompt" in row and not isinstance(prompt, str):
        raise TypeError(f"prompt must be text, not {described(prompt)}")
    if "messages" in row or defaults.chat:
        messages = row.get("messages", [{"role": "user", "content": prompt}])
        if not isinstance(messages, list) or not messages:
            raise TypeError(f"messages must be a list of at least one message, not {described(messages)}")
        prompt = in_chat_form(loaded.tokenizer, messages)
    options = {name: row[name] for name in SAMPLING & set(row)}
    sampling = {"temperature": defaults.temperature, "top_p": defaults.top_p, "seed": defaults.seed, **options}
    asked = Request(
        prompt,
        None,
        SamplingParams(**sampling),
        row.get("jump", defaults.jump),
        integer("max_tokens", row.get("max_tokens", defaults.max_tokens), 0),
        stop=row.get("stop"),
        never_cut_off=row.get("never_cut_off", False),
    )
    # Last: nothing is compiled for a line that is refused.
    return replace(asked, grammar=manager.request(CONSTRAINTS[kinds[0]], row[kinds[0]])) if kinds else asked


def in_chat_form(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """The ids of some messages and the opening of the model's answer. ValueError without a chat template."""
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("this model's tokenizer has no chat template: give a prompt, without --chat")
    try:
        whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except Exception as error:  # templates are programs; what they raise is theirs to choose
        raise ValueError(f"the chat template does not take these messages: {error}") from error
    return list(tokenizer.encode(whole, add_special_tokens=False))


def as_line(record: dict[str, Any], encoding: str) -> str:
    """The record as one line that can be written in this encoding: what has no place in it (half of a surrogate pair) is escaped.

    >>> as_line({"id": "\\ud800é"}, "utf-8"), as_line({"id": "é"}, "utf-8")
    ('{"id": "\\\\ud800\\\\u00e9"}', '{"id": "é"}')
    """
    try:
        line = json.dumps(record, ensure_ascii=False)
        line.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(record)
    except RecursionError:  # an id of a thousand brackets, which could just be read
        return as_line({**record, "id": None}, encoding)
    return line


def as_record(response: Response) -> dict[str, Any]:
    """What a line tells of a response.

    >>> from fsmc.runtime.request import Response
    >>> as_record(Response("yes", [7], "stop", prompt_tokens=3, forward_passes=1))
    {'text': 'yes', 'finish_reason': 'stop', 'prompt_tokens': 3, 'tokens': 1, 'forward_passes': 1, 'seconds': 0.0}
    """
    record: dict[str, Any] = {
        "text": response.text,
        "finish_reason": response.finish_reason,
        "prompt_tokens": response.prompt_tokens,
        "tokens": len(response.token_ids),
        "forward_passes": response.forward_passes,
        "seconds": round(response.seconds, 3),
    }
    return record if response.error is None else {**record, "error": str(response.error) or repr(response.error)}
