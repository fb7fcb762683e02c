"""What the arguments of a command name: a pattern, a JSON Schema, or an index file; and the options that all of them take."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fsmc.cli.output import UsageError
from fsmc.cli.reading import read_json, read_text

if TYPE_CHECKING:
    from fsmc.compiler.automata.dfa import DFA
    from fsmc.compiler.automata.lazy_rsm import LazyRSM
    from fsmc.compiler.automata.rsm import RSM
    from fsmc.compiler.cfg.recipe import GrammarRecipe
    from fsmc.compiler.grammar import CompiledGrammar
    from fsmc.compiler.schema.recipe import SchemaRecipe
    from fsmc.compiler.tokens.vocabulary import Vocabulary

INDEX_SUFFIX = ".fsmc"

Flavor = Literal["python", "ecma"]
Whitespace = Literal["flexible", "compact", "json"]
PropertyOrder = Literal["schema", "any"]
UniqueItems = Literal["exact", "ignore"]

_PATTERN, _SCHEMA, _LIMITS = "Patterns", "JSON Schemas", "Limits"


@dataclass(frozen=True, slots=True)
class Language:
    """The options that say which texts are meant; each command has all of them (see `grouped.expand`)."""

    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the pattern from this file (its last line break is dropped)."),
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option("--schema", help="A file with a JSON Schema, in place of a pattern. '-': standard input."),
    ] = None
    choice: Annotated[
        list[str] | None,
        typer.Option("--choice", help="A text, one of which is meant, in place of a pattern; repeatable."),
    ] = None
    tag: Annotated[
        Path | None, typer.Option("--tag", help="A file with a structural tag (JSON), in place of a pattern.")
    ] = None
    constraint: Annotated[
        Path | None,
        typer.Option(
            "--constraint",
            help="A file with what a request asks for (JSON): a response_format, text.format, structured_outputs, or SGLang's parameters.",
        ),
    ] = None
    grammar: Annotated[
        Path | None,
        typer.Option("--grammar", help="A file with a grammar, in EBNF or Lark's syntax, in place of a pattern."),
    ] = None
    flavor: Annotated[
        Flavor,
        typer.Option(
            help="python: the whole text matches. ecma: JavaScript's syntax, a match anywhere in the text.",
            rich_help_panel=_PATTERN,
        ),
    ] = "python"
    i: Annotated[bool, typer.Option("-i", help="Ignore case, like (?i).", rich_help_panel=_PATTERN)] = False
    s: Annotated[
        bool, typer.Option("-s", help="The dot matches line breaks too, like (?s).", rich_help_panel=_PATTERN)
    ] = False
    m: Annotated[bool, typer.Option("-m", help="^ and $ match at every line, like (?m).", rich_help_panel=_PATTERN)] = (
        False
    )
    x: Annotated[
        bool,
        typer.Option(
            "-x",
            help="White space and comments in the pattern are not part of it, like (?x).",
            rich_help_panel=_PATTERN,
        ),
    ] = False
    a: Annotated[
        bool, typer.Option("-a", help=r"\w, \d, \s and \b mean ASCII only, like (?a).", rich_help_panel=_PATTERN)
    ] = False
    whitespace: Annotated[
        Whitespace | None,
        typer.Option(
            help="flexible: wherever JSON allows it. compact: none. json: a space after commas and colons. Default: "
            "flexible; json where texts are made or drawn (sample, generate, view, plot).",
            rich_help_panel=_SCHEMA,
        ),
    ] = None
    max_whitespace: Annotated[
        int, typer.Option(min=1, help="Characters of flexible white space at one place.", rich_help_panel=_SCHEMA)
    ] = 40
    indent: Annotated[
        int | None,
        typer.Option(min=0, help="One member a line, indented by so many spaces a level.", rich_help_panel=_SCHEMA),
    ] = None
    property_order: Annotated[
        PropertyOrder, typer.Option(help="Members in the order of the schema, or in any.", rich_help_panel=_SCHEMA)
    ] = "schema"
    draft: Annotated[
        int | None,
        typer.Option(help="4, 6, 7, 2019 or 2020, where $schema does not say (default 2020).", rich_help_panel=_SCHEMA),
    ] = None
    unique_items: Annotated[
        UniqueItems, typer.Option(help="ignore: items need not differ.", rich_help_panel=_SCHEMA)
    ] = "exact"
    max_states: Annotated[
        int | None,
        typer.Option(min=1, help="Give up (exit code 4) beyond so many states.", rich_help_panel=_LIMITS),
    ] = None
    max_bytes: Annotated[
        int | None,
        typer.Option(min=1, help="Give up beyond so many bytes of working memory.", rich_help_panel=_LIMITS),
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Give up after so many seconds.", rich_help_panel=_LIMITS),
    ] = None

    @property
    def has_own_source(self) -> bool:
        """Whether an option says what is meant, so that there is no pattern among the arguments."""
        return bool(self._own_sources())

    def _own_sources(self) -> list[str]:
        """The options given that say what is meant."""
        return [
            name
            for name in ("file", "schema", "choice", "tag", "constraint", "grammar")
            if getattr(self, name) not in (None, [])
        ]

    def source(
        self, pattern: str | None, whitespace: Whitespace = "flexible"
    ) -> Source | SchemaSource | ChoiceSource | RequestSource | GrammarSource | IndexSource:
        """What the first argument and the options name, exactly one thing; else UsageError.

        whitespace: of schemas, unless the options say another.
        """
        if len(self._own_sources()) + (pattern is not None) > 1:
            raise UsageError(
                "give a pattern, --file, --schema, --grammar, --choice, --tag or --constraint, and only one of them"
            )
        if self.grammar is not None:
            self._refuse(_PATTERN, "go with a pattern, not with --grammar")
            self._refuse(_SCHEMA, "go with --schema")
            return GrammarSource(read_text(self.grammar, "grammar"), self.limits)
        if self.tag is not None or self.constraint is not None:
            self._refuse(_PATTERN, "go with a pattern")
            return RequestSource.read(self, self.whitespace or whitespace)
        if self.choice:
            self._refuse(_PATTERN, "go with a pattern, not with --choice")
            self._refuse(_SCHEMA, "go with --schema")
            return ChoiceSource(tuple(self.choice), self.limits)
        if self.schema is not None:
            self._refuse(_PATTERN, "go with a pattern, not with --schema")
            return SchemaSource.read(self.schema, self, self.whitespace or whitespace)
        self._refuse(_SCHEMA, "go with --schema (an index file has its layout in it)")
        if pattern is not None and self.file is None and pattern.endswith(INDEX_SUFFIX):
            return IndexSource(Path(pattern), self.limits)
        letters = {letter: getattr(self, letter) for letter in "ismxa"}
        return replace(Source.read(pattern, self.file, self.flavor, letters), limits=self.limits)

    @property
    def limits(self) -> dict[str, Any]:
        """The limits that were given, by the names of `GrammarCompiler`'s arguments."""
        given = {name: getattr(self, name) for name in ("max_states", "max_bytes", "max_seconds")}
        return {name: limit for name, limit in given.items() if limit is not None}

    def layout(self, whitespace: Whitespace) -> dict[str, Any]:
        """The options of `GrammarCompiler` that say how JSON is laid out."""
        return {
            "whitespace": whitespace,
            "max_whitespace": self.max_whitespace,
            "indent": self.indent,
            "property_order": self.property_order,
        }

    def folder_layout(self) -> dict[str, Any]:
        """The same and the limits, of a folder of files, where all other options are of one text; UsageError if there are any."""
        self._refuse(_PATTERN, "go with a pattern, not with a folder")
        if self._own_sources() or self.draft is not None or self.unique_items != "exact":
            raise UsageError("a folder's files say what is compiled: only the layout of JSON and limits can be given")
        return {**self.layout(self.whitespace or "flexible"), **self.limits}

    def _refuse(self, panel: str, why: str) -> None:
        """Raise for an option of a panel that was given (or has another value than when it is not)."""
        names = {
            _PATTERN: ("flavor", *"ismxa"),
            _SCHEMA: ("whitespace", "max_whitespace", "indent", "property_order", "draft", "unique_items"),
        }[panel]
        for option in fields(self):
            if option.name in names and getattr(self, option.name) != option.default:
                dashes = "-" if len(option.name) == 1 else "--"
                raise UsageError(f"options like {dashes}{option.name.replace('_', '-')} {why}")


@dataclass(frozen=True, slots=True)
class Source:
    """A pattern and how to read it."""

    pattern: str
    flavor: Flavor
    flags: int
    limits: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, pattern: str | None, file: Path | None, flavor: Flavor, letters: dict[str, bool]) -> Source:
        """From the arguments; exactly one of ``pattern`` and ``file`` must be given, else UsageError.

        >>> Source.read("a+", None, "python", {"i": True, "s": False}).flags == re.I
        True
        """
        if (pattern is None) == (file is None):
            raise UsageError("give a pattern, --file, --schema, --grammar, --choice, --tag or --constraint")
        if file is not None:
            pattern = read_text(file, "pattern").removesuffix("\n")
        flags = 0
        for letter, wanted in letters.items():
            flags |= int(re.RegexFlag[letter.upper()]) if wanted else 0
        return cls(pattern or "", flavor, flags)

    def to_dfa(self) -> DFA:
        """The minimal DFA of the pattern; no vocabulary is needed. Raises what the stages raise."""
        from fsmc.compiler.automata.determinize import MAX_STATES, determinize
        from fsmc.compiler.automata.minimize import minimize
        from fsmc.compiler.automata.nfa import thompson
        from fsmc.compiler.errors import EmptyLanguageError
        from fsmc.compiler.syntax.regex import parse_regex

        expr = parse_regex(self.pattern, self.flavor, self.flags)
        nfa = thompson(expr, max_states=self.limits.get("max_states", MAX_STATES))
        dfa = minimize(determinize(nfa, **self.limits))
        if dfa.is_empty:
            raise EmptyLanguageError(f"pattern {self.pattern!r} matches no text at all")
        return dfa

    def machine(self) -> RSM:
        """Its machine."""
        from fsmc.compiler.automata.rsm import RSM

        return RSM.from_dfa(self.to_dfa())

    def compile(self, vocabulary: Vocabulary, cache: bool = True) -> CompiledGrammar:
        """Its grammar for a vocabulary."""
        from fsmc.compiler.pipeline import GrammarCompiler

        compiler = GrammarCompiler(vocabulary, cache_dir="user" if cache else None, **self.limits)
        return compiler.compile_regex(self.pattern, flavor=self.flavor, flags=self.flags)


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """The text of a JSON Schema, and how to read it."""

    text: str
    options: dict[str, Any]
    draft: int | None
    unique_items: UniqueItems
    limits: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, language: Language, whitespace: Whitespace) -> SchemaSource:
        """From a file, or standard input for '-'."""
        text = read_json(path, "schema")
        return cls(text, language.layout(whitespace), language.draft, language.unique_items, language.limits)

    def recipe(self) -> SchemaRecipe:
        """All that its machine is made from."""
        from fsmc.compiler.schema.recipe import SchemaRecipe
        from fsmc.compiler.schema.text_options import TextOptions

        return SchemaRecipe(self.text, TextOptions(**self.options), self.draft, self.unique_items)

    def machine(self) -> LazyRSM:
        """Its machine."""
        return self.recipe().build(**self.limits).handed_over()

    def compile(self, vocabulary: Vocabulary, cache: bool = True) -> CompiledGrammar:
        """Its grammar for a vocabulary. There is nothing to cache."""
        from fsmc.compiler.pipeline import GrammarCompiler

        compiler = GrammarCompiler(vocabulary, cache_dir=None, **self.options, **self.limits)
        return compiler.compile_json_schema(self.text, draft=self.draft, unique_items=self.unique_items)


@dataclass(frozen=True, slots=True)
class ChoiceSource:
    """Texts, one of which is meant."""

    choices: tuple[str, ...]
    limits: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of them, as a JSON list."""
        return json.dumps(self.choices, ensure_ascii=False)

    def machine(self) -> RSM:
        """Its machine."""
        from fsmc.compiler.automata.rsm import RSM
        from fsmc.compiler.automata.words import words_dfa
        from fsmc.compiler.syntax.choice import choice_texts

        limits = {name: limit for name, limit in self.limits.items() if name != "max_seconds"}  # it takes no time
        return RSM.from_dfa(words_dfa(choice_texts(self.choices), **limits))

    def compile(self, vocabulary: Vocabulary, cache: bool = True) -> CompiledGrammar:
        """Its grammar for a vocabulary. There is nothing to cache."""
        from fsmc.compiler.pipeline import GrammarCompiler

        return GrammarCompiler(vocabulary, cache_dir=None, **self.limits).compile_choice(self.choices)


@dataclass(frozen=True, slots=True)
class RequestSource:
    """A structural tag, or what a request asks for; as JSON text."""

    text: str
    options: dict[str, Any]
    is_tag: bool
    limits: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, language: Language, whitespace: Whitespace) -> RequestSource:
        """From the file that one of the two options names."""
        path = language.tag or language.constraint
        assert path is not None
        is_tag = language.tag is not None
        return cls(read_json(path, "constraint"), language.layout(whitespace), is_tag, language.limits)

    def machine(self) -> RSM | LazyRSM:
        """Its machine, that of `without_vocabulary`."""
        return self.without_vocabulary().machine

    def without_vocabulary(self) -> CompiledGrammar:
        """Its grammar where no special tokens are known: their names are read as text."""
        from fsmc.compiler.tokens.vocabulary import Vocabulary

        return self.compile(Vocabulary.from_tokens([b""]), cache=False)

    def compile(self, vocabulary: Vocabulary, cache: bool = True) -> CompiledGrammar:
        """Its grammar for a vocabulary."""
        from fsmc.compiler.pipeline import GrammarCompiler
        from fsmc.compiler.schema.source import parse_json

        compiler = GrammarCompiler(vocabulary, cache_dir="user" if cache else None, **self.options, **self.limits)
        if self.is_tag:  # not every format by itself would be known as one
            return compiler.compile_structural_tag(self.text)
        return compiler.compile_constraint(parse_json(self.text))


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """The text of a grammar."""

    text: str
    limits: dict[str, Any] = field(default_factory=dict)

    def machine(self) -> RSM | LazyRSM:
        """Its machine; no vocabulary is needed."""
        return self.recipe().build(**self.limits)

    def recipe(self) -> GrammarRecipe:
        """All that its machine is made from."""
        from fsmc.compiler.cfg.recipe import GrammarRecipe

        return GrammarRecipe(self.text)

    def compile(self, vocabulary: Vocabulary, cache: bool = True) -> CompiledGrammar:
        """Its grammar for a vocabulary."""
        from fsmc.compiler.pipeline import GrammarCompiler

        return GrammarCompiler(vocabulary, cache_dir="user" if cache else None, **self.limits).compile_grammar(
            self.text
        )


@dataclass(frozen=True, slots=True)
class IndexSource:
    """An index file. limits: of a machine that is made as it is walked; others are in the file."""

    path: Path
    limits: dict[str, Any] = field(default_factory=dict)

    def machine(self) -> RSM | LazyRSM:
        """The machine in it; no vocabulary is needed. Raises IndexFileError."""
        from fsmc.compiler.grammar import read_parts

        return read_parts(self.path, self.limits)[0]

    def compile(self, vocabulary: Vocabulary, cache: bool = True) -> CompiledGrammar:
        """The grammar in it. Raises IndexFileError, also if it was made for another vocabulary."""
        from fsmc.compiler.grammar import CompiledGrammar

        return CompiledGrammar.load(self.path, vocabulary, limits=self.limits)
