"""A tokenizer as the commands are given one: its vocabulary, and text into its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsmc.cli.generate import model_tokenizer
from fsmc.cli.output import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsmc.compiler.tokens.vocabulary import Vocabulary
    from fsmc.jumpforward.retokenize import Retokenizer

VocabSize = Annotated[int | None, typer.Option(min=1, help="Width of the model's logits, where they are padded.")]
EosIds = Annotated[
    list[int] | None,
    typer.Option(min=0, metavar="ID", help="A token that ends a text, in place of those the files name; repeatable."),
]


@dataclass(frozen=True, slots=True)
class TokenizerChoice:
    """The options of the commands that show tokens (see `grouped.expand`)."""

    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            "-t",
            help="Show tokens too: those of this tokenizer (a file or folder, a .gguf file, or 'smollm2').",
        ),
    ] = None
    vocab_size: VocabSize = None
    eos: EosIds = None

    def check(self) -> None:
        """Raise UsageError for options that say nothing."""
        if self.tokenizer is None and (self.vocab_size is not None or self.eos):
            raise UsageError("--vocab-size and --eos go with a tokenizer (-t)")

    def read(self) -> TextTokenizer | None:
        """The tokenizer; None where none is named. Raises as `TextTokenizer.read`."""
        return None if self.tokenizer is None else TextTokenizer.read(self.tokenizer, self.vocab_size, self.eos)


@dataclass(frozen=True, slots=True)
class TextTokenizer:
    """Text into tokens.

    own: the library's tokenizer, which cuts text as the model has seen it; None where there are only the tokens: the text is
    then cut into as few of them as will do. document: of a tokenizer.json, what is in it.
    """

    vocabulary: Vocabulary
    own: Any
    document: dict[str, Any] | None = None

    @classmethod
    def read(cls, name: str, vocab_size: int | None = None, eos: list[int] | None = None) -> TextTokenizer:
        """From a file, a folder or a model's name. Raises VocabularyError, MissingError; UsageError for the others with a model."""
        from fsmc.compiler.tokens.vocabulary import Vocabulary
        from fsmc.runtime.model_files import SMOLLM2

        if name == SMOLLM2 or name.endswith(".gguf"):
            refuse_for_models(name, vocab_size, eos)
            tokenizer, vocabulary = model_tokenizer(name)
            return cls(vocabulary, tokenizer.backend_tokenizer, _document(tokenizer.backend_tokenizer))
        vocabulary = Vocabulary.from_file(name, vocab_size=vocab_size, eos_token_ids=eos or None)
        path = Path(name)
        file = path / "tokenizer.json" if path.is_dir() else path
        if file.suffix != ".json" or not file.is_file():
            return cls(vocabulary, None)
        from tokenizers import Tokenizer

        try:
            own = Tokenizer.from_file(str(file))
        except Exception:  # the library raises nothing more special; tekken.json is no file of its kind
            return cls(vocabulary, None)
        return cls(vocabulary, own, _document(own))

    def retokenizer(self) -> Retokenizer:
        """See `Retokenizer`."""
        from fsmc.jumpforward.retokenize import Retokenizer

        if self.own is not None:
            return Retokenizer.for_tokenizer(self.own, self.vocabulary)
        return Retokenizer(lambda text: fewest_tokens(self.vocabulary, text.encode()), self.vocabulary)

    def encode(self, data: bytes) -> list[int]:
        """Ids whose bytes are exactly ``data``; UsageError where no tokens spell it."""
        from fsmc.compiler.errors import VocabularyError

        try:
            text = data.decode()
            return self.retokenizer().tokenize(text) if self.own is not None else fewest_tokens(self.vocabulary, data)
        except UnicodeDecodeError:
            return fewest_tokens(self.vocabulary, data)
        except VocabularyError as error:
            raise UsageError(f"this tokenizer cannot spell the text: {error}") from error


def refuse_for_models(name: str, vocab_size: int | None, eos: list[int] | None) -> None:
    """Raise UsageError where there are any."""
    if vocab_size is not None or eos:
        raise UsageError(f"--vocab-size and --eos go with a tokenizer's file: the model {name} has its own")


def fewest_tokens(vocabulary: Vocabulary, data: bytes) -> list[int]:
    """The shortest list of tokens whose bytes are ``data``. Raises UsageError if there is none.

    >>> from fsmc.compiler.tokens.vocabulary import Vocabulary
    >>> fewest_tokens(Vocabulary.from_tokens(["a", "b", "ab", "bab"]), b"abab")
    [2, 2]
    """
    ids = dict(reversed([(token, token_id) for token_id, token in enumerate(vocabulary.tokens) if token]))
    longest = max(map(len, ids), default=0)
    fewest, last = [0], [-1]  # for each prefix: of how many tokens, and which is the last of them
    for end in range(1, len(data) + 1):
        ways = [
            (fewest[start] + 1, ids[data[start:end]])
            for start in range(max(0, end - longest), end)
            if fewest[start] >= 0 and data[start:end] in ids
        ]
        count, token_id = min(ways, default=(-1, -1))
        fewest.append(count)
        last.append(token_id)
    if fewest[-1] < 0:
        raise UsageError("no tokens of this vocabulary spell the text: are single bytes missing?")
    found: list[int] = []
    place = len(data)
    while place:
        found.append(last[place])
        place -= len(vocabulary.token(last[place]))
    return found[::-1]


def shown(tokens: Iterable[bytes], at_most: int) -> list[str]:
    """Some of them as text: of several characters first, then single ones, then what does not print, each in the given order.

    >>> shown([b"a", b" ", b"the", b"\\xff", b"in"], 4)
    ['the', 'in', 'a', ' ']
    """
    groups: tuple[list[str], list[str], list[str]] = ([], [], [])
    for token in tokens:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            continue
        groups[2 if not text.isprintable() or not text.strip() else int(len(text) == 1)].append(text)
        if len(groups[0]) == at_most:
            break
    return [text for group in groups for text in group][:at_most]


def _document(own: Any) -> dict[str, Any] | None:
    import json

    document = json.loads(own.to_str())
    return document if isinstance(document, dict) else None
