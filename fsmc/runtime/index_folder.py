"""Compile once, ship anywhere: a folder of index files, and a compiler that looks there first.

``fsmc compile DIR`` writes such a folder; an engine on another machine reads it. A manifest beside the files has a line for each
constraint: its key (kind, text, layout, vocabulary), the file, or why there is none. Lines are appended, so that a run that was
killed leaves a folder that is valid and can be completed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fsmc.compiler.errors import FsmcError, IndexFileError
from fsmc.compiler.grammar import FILE_KIND, CompiledGrammar
from fsmc.compiler.pipeline import GrammarCompiler
from fsmc.compiler.tokens.store import load_arrays
from fsmc.compiler.tokens.vocabulary import Vocabulary

log = logging.getLogger("fsmc")

MANIFEST = "manifest.jsonl"


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """One constraint: what it came from (a file's name and the digest of its bytes), its key, the index file ("" if there is none
    because of ``error``), what compiling took, and whether another run should try again (time or memory ran out)."""

    source: str
    digest: str
    kind: str
    key: str
    file: str
    error: str = ""
    seconds: float = 0.0
    nbytes: int = 0
    again: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def read_manifest(
    folder: str | os.PathLike[str], on_damage: Callable[[IndexFileError], None] | None = None
) -> list[ManifestLine]:
    """The lines of a folder's manifest; none where there is no manifest. A last line that is not whole (its writer was killed) is
    left out; any other damage raises IndexFileError, or is told to ``on_damage`` and passed over."""
    path = Path(folder) / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise IndexFileError(f"{path}: cannot be read ({error.strerror})") from None
    *lines, _ = data.split(b"\n")  # behind the last line break there is nothing, or a part of a line
    found = []
    for number, line in enumerate(lines, 1):
        try:
            read = ManifestLine(**json.loads(line))
            if not isinstance(read.key, str) or Path(read.file).name != read.file:
                raise ValueError("a file stands in the folder itself")
            found.append(read)
        except (ValueError, TypeError, RecursionError):
            damage = IndexFileError(f"{path}: line {number} is damaged: remove it, and compile again")
            if on_damage is None:
                raise damage from None
            on_damage(damage)
    return found


def constraint_key(vocab: Vocabulary, kind: str, source: Any, layout: dict[str, Any], **options: Any) -> str:
    """What a constraint is known by: the same for a schema with other white space, another for another order of members.

    layout: of JSON texts, which counts for schemas and structural tags only. Raises what reading the constraint raises.

    >>> vocab = Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
    >>> key = constraint_key(vocab, "json_schema", '{"type":  "null"}', {})
    >>> key == constraint_key(vocab, "json_schema", {"type": "null"}, {}), len(key)
    (True, 64)
    """
    if kind == "json_schema":
        from fsmc.compiler.schema.recipe import exact_json
        from fsmc.compiler.schema.source import parse_json, schema_of

        schema = schema_of(source)
        text = exact_json(parse_json(schema) if isinstance(schema, str) else schema)
    elif kind == "structural_tag":
        dump = getattr(source, "model_dump", None)
        source = dump() if callable(dump) else source
        text = json.dumps(json.loads(source) if isinstance(source, (str, bytes)) else source)
    elif kind == "choice":
        from fsmc.compiler.syntax.choice import choice_texts

        text = json.dumps([choice.decode() for choice in choice_texts(source)])
    else:
        if not isinstance(source, str):
            raise TypeError(f"a {kind} is a str, not {type(source).__name__}")
        text = source
        if kind == "grammar":
            from fsmc.compiler.cfg.recipe import syntax_of

            options["syntax"] = options.get("syntax") or syntax_of(text)
    counts = layout if kind in ("json_schema", "structural_tag") else {}
    parts = [vocab.fingerprint, kind, text, sorted(counts.items()), sorted(options.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class IndexFolder:
    """The index files of a folder, found by key. A file is opened when it is asked for; a manifest that has grown is read again."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise IndexFileError(f"{self.folder}: there is no such folder of index files")
        self._files: dict[str, str] = {}
        self._seen: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def find(self, key: str, vocab: Vocabulary) -> CompiledGrammar | None:
        """The grammar with this key, or None. A damaged or missing file is None as well, with a warning: it can be compiled again."""
        name = self._names().get(key)
        if not name:
            return None
        try:
            return CompiledGrammar.load(self.folder / name, vocab)
        except IndexFileError as error:
            log.warning("%s: compiling it again", error)
            return None

    def warn_of_another_vocabulary(self, vocab: Vocabulary) -> None:
        """Say so, once, where the files are of no use here: keys hold the vocabulary, and nothing would be found without a word."""
        for name in self._names().values():
            try:
                metadata = load_arrays(self.folder / name, kind=FILE_KIND)[1]
            except IndexFileError:
                continue
            if metadata.get("vocabulary") != vocab.fingerprint:
                log.warning(
                    "%s was made for another vocabulary (%s tokens; here are %d, ended by %s): nothing in it will be found. "
                    "Compile it with this tokenizer, --vocab-size %d and --eos",
                    self.folder,
                    metadata.get("vocab_size"),
                    vocab.size,
                    list(vocab.eos_token_ids),
                    vocab.size,
                )
            return

    def _names(self) -> dict[str, str]:
        with self._lock:
            try:
                state = os.stat(self.folder / MANIFEST)
            except OSError:
                return self._files
            if self._seen != (state.st_mtime_ns, state.st_size):
                lines = read_manifest(self.folder, lambda error: log.warning("%s", error))
                self._files = {line.key: line.file for line in lines if line.file}
                self._seen = (state.st_mtime_ns, state.st_size)
            return self._files


class FolderCompiler(GrammarCompiler):
    """A `GrammarCompiler` that looks into a folder of index files first; what is not there is compiled.

    index_folder: as ``fsmc compile DIR`` writes it (None: there is none). n_loaded: how many grammars came from it.

    >>> vocab = Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    >>> FolderCompiler(vocab, cache_dir=None).compile_regex("a*b").machine.matches(b"aab")
    True
    """

    def __init__(
        self, vocab: Vocabulary, *, index_folder: str | os.PathLike[str] | None = None, **options: Any
    ) -> None:
        super().__init__(vocab, **options)
        self.index_folder = IndexFolder(index_folder) if index_folder is not None else None
        self.n_loaded = 0
        if self.index_folder is not None:
            self.index_folder.warn_of_another_vocabulary(vocab)

    def compile_regex(self, pattern: str, **options: Any) -> CompiledGrammar:
        """See `GrammarCompiler.compile_regex`."""
        return self._found("regex", pattern, options) or super().compile_regex(pattern, **options)

    def compile_choice(self, choices: Any) -> CompiledGrammar:
        """See `GrammarCompiler.compile_choice`."""
        choices = choices if isinstance(choices, str) else list(choices)
        return self._found("choice", choices, {}) or super().compile_choice(choices)

    def compile_json_schema(self, schema: Any, **options: Any) -> CompiledGrammar:
        """See `GrammarCompiler.compile_json_schema`."""
        return self._found("json_schema", schema, options) or super().compile_json_schema(schema, **options)

    def compile_grammar(self, text: str, syntax: Any = None, **options: Any) -> CompiledGrammar:
        """See `GrammarCompiler.compile_grammar`."""
        given = {**options, "syntax": syntax}
        return self._found("grammar", text, given) or super().compile_grammar(text, syntax, **options)

    def compile_structural_tag(self, tag: Any, **options: Any) -> CompiledGrammar:
        """See `GrammarCompiler.compile_structural_tag`."""
        return self._found("structural_tag", tag, options) or super().compile_structural_tag(tag, **options)

    def key(self, kind: str, source: Any, **options: Any) -> str:
        """The key of a constraint under this compiler's layout; options that have their usual value do not count."""
        usual = {
            "flavor": "python",
            "flags": 0,
            "draft": None,
            "unique_items": "exact",
            "start": None,
            "max_sought": None,
        }
        told = {name: value for name, value in options.items() if name not in usual or value != usual[name]}
        return constraint_key(self.vocab, kind, source, self._layout, **told)

    def _found(self, kind: str, source: Any, options: dict[str, Any]) -> CompiledGrammar | None:
        if self.index_folder is None or options.get("registry") is not None:
            return None
        try:
            key = self.key(kind, source, **options)
        except (FsmcError, TypeError, ValueError, RecursionError):
            return None  # the compiler says better what is wrong
        grammar = self.index_folder.find(key, self.vocab)
        if grammar is not None:
            self.n_loaded += 1
        return grammar
