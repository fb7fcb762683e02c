"""``fsmc generate``: a model writes a text that matches."""

from __future__ import annotations

import codecs
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fsmc.cli.generate_many import Defaults, generate_many
from fsmc.cli.grouped import expand
from fsmc.cli.machine import Language
from fsmc.cli.output import JsonOption, MissingError, UsageError, print_json, stages
from fsmc.cli.reading import read_bytes

if TYPE_CHECKING:
    from fsmc.compiler.tokens.vocabulary import Vocabulary
    from fsmc.runtime.generation import Generation
    from fsmc.runtime.models import LoadedModel

Jump = Literal["canonical", "exact", "off"]


@expand(Language, "language")
def generate_command(
    language: Language,
    model: Annotated[
        str, typer.Option("--model", help="A folder as transformers saves it, a .gguf file, 'smollm2', or owner/name.")
    ],
    pattern: Annotated[str | None, typer.Argument(metavar="PATTERN|INDEX.fsmc", help="What the text matches.")] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="'-' or nothing: standard input.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="Read the prompt from this file.")] = None,
    requests: Annotated[
        Path | None,
        typer.Option(
            "--requests",
            help="A file of JSON lines, each with a prompt and perhaps a schema, regex, choice, grammar, constraint or response_format; '-': "
            "standard input. Answers come as JSON lines.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="With --requests: so many at the same time.")] = 8,
    chat: Annotated[
        bool, typer.Option("--chat", help="The prompt is a user's message, in the model's chat form.")
    ] = False,
    jump: Annotated[Jump, typer.Option(help="What to do where the pattern forces the text.")] = "canonical",
    max_tokens: Annotated[int, typer.Option(min=0, help="At most so many tokens.")] = 256,
    temperature: Annotated[float, typer.Option(min=0.0, help="0: always the likeliest token.")] = 0.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0)] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads for the model. Default: torch's choice, or one where that is faster."),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print figures to standard error.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let a model write a text that matches, streamed to standard output; what the pattern forced is shown dim.

    `fsmc generate --schema schema.json --model smollm2 --chat -p 'Describe a cat.'`,
    `fsmc generate --requests prompts.jsonl --model smollm2 --chat > answers.jsonl`,
    `fsmc generate '(yes|no), because [a-z ,]{10,80}!' --model smollm2 --chat -p 'Is the sea salty?' --stats`
    """
    from fsmc.runtime.sampling_params import SamplingParams

    try:
        SamplingParams(temperature=temperature, top_p=top_p, seed=seed)
    except ValueError as error:
        raise UsageError(str(error)) from error
    limits: dict[str, Any] = language.limits
    if requests is not None:
        if pattern is not None or prompt is not None or prompt_file is not None or language != Language(**limits):
            raise UsageError("with --requests each line has its own prompt and constraint: leave out the others")
        data = read_bytes(None, None if str(requests) == "-" else requests)
        lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
        defaults = Defaults(chat, jump, max_tokens, temperature, top_p, seed)
        return _answer(lines, model, threads, defaults, batch_size, limits)
    source = language.source(pattern, whitespace="json")
    text = read_bytes(prompt, prompt_file).decode("utf-8")
    with stages() as progress:
        progress.start("reading the model's tokenizer")
        vocabulary = model_vocabulary(model)
        progress.start("compiling the pattern")
        grammar = source.compile(vocabulary)  # before the model is loaded: what is wrong with it is told sooner
        progress.start("loading the model")
        loaded = _load(model, threads)
    from fsmc.runtime.generation import generate

    result = generate(
        loaded.model,
        loaded.tokenizer,
        _in_chat_form(loaded.tokenizer, text) if chat else text,
        grammar,
        jump=jump,
        max_new_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        on_text=None if as_json else _stream,
    )
    if as_json:
        print_json(asdict(result))
    else:
        sys.stdout.write("\n")
    if stats:
        sys.stderr.write(figures(result))


def _answer(
    lines: list[bytes], model: str, threads: int | None, defaults: Defaults, batch_size: int, limits: dict[str, Any]
) -> None:
    from fsmc.compiler.pipeline import GrammarCompiler
    from fsmc.runtime.manager import GrammarManager

    with stages() as progress:
        progress.start("reading the model's tokenizer")
        vocabulary = model_vocabulary(model)
        progress.start("loading the model")
        loaded = _load(model, threads)
    with GrammarManager(GrammarCompiler(vocabulary, whitespace="json", **limits)) as manager:
        generate_many(lines, loaded, manager, defaults, batch_size)


def model_vocabulary(model: str) -> Vocabulary:
    """The vocabulary of a model, whose weights are not read. Raises MissingError."""
    return model_tokenizer(model)[1]


def model_tokenizer(model: str) -> tuple[Any, Vocabulary]:
    """The tokenizer and the vocabulary of a model, whose weights are not read. Raises MissingError."""
    from fsmc.compiler.errors import FsmcError
    from fsmc.runtime.model_files import find_model

    try:
        find_model(model)  # of a wrong name: before torch is imported
        try:
            from fsmc.runtime.models import load_tokenizer
        except ImportError as error:
            raise MissingError(f"a model needs torch and transformers ({error}): pip install 'fsmc[hf]'") from error
        return load_tokenizer(model)
    except FsmcError as error:
        raise MissingError(str(error)) from error


def _load(model: str, threads: int | None) -> LoadedModel:
    from fsmc.compiler.errors import FsmcError
    from fsmc.runtime.models import choose_threads, load_model

    try:
        loaded = load_model(model, threads=threads)
    except FsmcError as error:
        raise MissingError(str(error)) from error
    if threads is None:
        choose_threads(loaded.model)
    return loaded


def _in_chat_form(tokenizer: Any, text: str) -> list[int]:
    """The ids of one user message and the opening of the model's answer."""
    if not getattr(tokenizer, "chat_template", None):
        raise MissingError("this model's tokenizer has no chat template: leave out --chat")
    messages = [{"role": "user", "content": text}]
    whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return list(tokenizer.encode(whole, add_special_tokens=False))


def _stream(piece: str, forced: bool) -> None:
    """Forced text is dim on a terminal, plain elsewhere."""
    dim = forced and sys.stdout.isatty()
    sys.stdout.write(f"\x1b[2m{piece}\x1b[0m" if dim else piece)
    sys.stdout.flush()


def figures(result: Generation) -> str:
    """What it took, for people.

    >>> from types import SimpleNamespace
    >>> print(figures(SimpleNamespace(forward_passes=3, sampled_tokens=3, jumped_tokens=5, retokenized_tokens=1,
    ...     token_ids=[0] * 8, mask_seconds=0.001, jump_seconds=0.002, seconds=0.5, finish_reason="stop")), end="")
    8 tokens in 3 forward passes (stop): 3 sampled, 5 by jumps, 1 retokenized
    0.50 s, of which masks 1.0 ms and jumps 2.0 ms
    """
    return (
        f"{len(result.token_ids)} tokens in {result.forward_passes} forward passes ({result.finish_reason}): "
        f"{result.sampled_tokens} sampled, {result.jumped_tokens} by jumps, {result.retokenized_tokens} retokenized\n"
        f"{result.seconds:.2f} s, of which masks {result.mask_seconds * 1e3:.1f} ms "
        f"and jumps {result.jump_seconds * 1e3:.1f} ms\n"
    )
