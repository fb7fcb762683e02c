"""The one file that names every stage: a GrammarCompiler turns a description into a CompiledGrammar.

pattern ──parse_regex──► Expr ──thompson──► NFA ──determinize──► DFA ──minimize──► DFA ──from_dfa──► RSM ──► masks
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import logging
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fsmc.cache_dir import default_cache_dir
from fsmc.compiler.automata.determinize import MAX_BYTES, MAX_SECONDS, MAX_STATES, determinize_ranges
from fsmc.compiler.automata.dfa import DFA
from fsmc.compiler.automata.lazy_rsm import MAX_STATES as MAX_GROWN_STATES
from fsmc.compiler.automata.minimize import minimize, minimize_ranges
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.automata.subsets import Limits
from fsmc.compiler.automata.words import words_dfa
from fsmc.compiler.errors import EmptyLanguageError, IndexFileError, stack_exceeded
from fsmc.compiler.grammar import FILE_KIND, FORMAT, CompiledGrammar, CompileStats
from fsmc.compiler.inputs import read_constraint
from fsmc.compiler.syntax.choice import choice_texts
from fsmc.compiler.syntax.regex import parse_regex
from fsmc.compiler.tokens.store import GrammarCache, from_bytes, to_bytes
from fsmc.compiler.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from fsmc.compiler.schema.text_options import TextOptions

log = logging.getLogger("fsmc")


def grammar_cache_dir() -> Path:
    """Where compilers keep grammars unless told otherwise: a folder in `default_cache_dir`."""
    return default_cache_dir() / "grammars"


class GrammarCompiler:
    """Compiles constraints for one vocabulary. Thread-safe; results are kept in a disk cache shared by processes.

    vocab: the `Vocabulary`. cache_dir: "user" (the user's cache folder), a path, or None for no disk cache.
    max_states, max_bytes (of working memory), max_seconds: bounds on each machine built on the way; reaching one raises
    LimitExceeded with the figure reached. Of a JSON Schema's machine, which grows as texts walk through it, they bound the whole
    and the seconds that one step may take. max_states is 1,000,000 for patterns and 4,000,000 for all else, unless given.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"7", b"42", b"x", b""], eos_token_ids=[3])
    >>> compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
    >>> matcher = fsmc.GrammarMatcher(compiler.compile_regex("[0-9]{1,2}"))
    >>> matcher.accept_token(1), matcher.accept_token(0), matcher.accept_token(3), matcher.is_terminated()
    (True, False, True, True)
    """

    def __init__(
        self,
        vocab: Vocabulary,
        *,
        cache_dir: str | os.PathLike[str] | None = "user",
        max_states: int | None = None,
        max_bytes: int = MAX_BYTES,
        max_seconds: float = MAX_SECONDS,
        whitespace: Literal["flexible", "compact", "json"] = "flexible",
        max_whitespace: int = 40,
        indent: int | None = None,
        property_order: Literal["schema", "any"] = "schema",
    ) -> None:
        if not isinstance(vocab, Vocabulary):
            raise TypeError(f"vocab must be a Vocabulary, not {type(vocab).__name__} (see Vocabulary.from_huggingface)")
        self.vocab = vocab
        self._layout: dict[str, Any] = {
            "whitespace": whitespace,
            "max_whitespace": max_whitespace,
            "indent": indent,
            "property_order": property_order,
        }
        for name, limit in (("max_states", max_states), ("max_bytes", max_bytes), ("max_seconds", max_seconds)):
            if not isinstance(limit, (int, float)) and (name, limit) != ("max_states", None):
                raise TypeError(f"{name} must be a number, not {type(limit).__name__}")
            if limit is not None and not limit >= 0:
                raise ValueError(f"{name}={limit} must be at least 0")
        self.max_states = MAX_STATES if max_states is None else max_states
        self.max_bytes, self.max_seconds = max_bytes, max_seconds
        self._growing = {"max_seconds": max_seconds, "max_bytes": max_bytes}
        if max_states is not None:
            self._growing["max_states"] = max_states
        directory = grammar_cache_dir() if cache_dir == "user" else cache_dir
        self.cache = GrammarCache(directory) if directory is not None else None

    def bound(self, max_seconds: float) -> None:
        """Give each machine, and each step of one that grows, no more than so many seconds from here on; no disk cache."""
        self.max_seconds = min(self.max_seconds, max_seconds)
        self._growing = {**self._growing, "max_seconds": self.max_seconds}
        self.cache = None

    def compile_regex(
        self, pattern: str, *, flavor: Literal["python", "ecma"] = "python", flags: int = 0
    ) -> CompiledGrammar:
        """Compile a regular expression: texts that match as a whole (python), or that contain a match (ecma).

        flags: any of re.I, re.M, re.S, re.X, re.A. Raises PatternSyntaxError or UnsupportedPatternError with a caret,
        EmptyLanguageError if no text matches, LimitExceeded.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1])
        >>> fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("a{2,3}").machine.matches(b"aaa")
        True
        """
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern is a str, not {type(pattern).__name__}")
        key = self._key("regex", pattern, flavor, int(flags))
        cached = self._from_cache(key)
        if cached is not None:
            return cached
        seconds: dict[str, float] = {}
        limits = Limits(self.max_states, self.max_bytes, self.max_seconds)
        expr = _timed(seconds, "parse", parse_regex, pattern, flavor, flags)
        nfa = _timed(seconds, "nfa", thompson, expr, max_states=self.max_states)
        # minimize(determinize(nfa)), kept in byte ranges until it is small: half the time for large machines
        raw = _timed(seconds, "determinize", determinize_ranges, nfa, limits)
        dfa = _timed(seconds, "minimize", lambda: minimize_ranges(raw).to_dfa())
        if dfa.is_empty:
            raise EmptyLanguageError(f"pattern {_short(pattern)} matches no text at all, so nothing could be generated")
        stats = CompileStats(nfa.n_states, raw.n_states, dfa.n_states, dfa.n_classes, seconds)
        return self._finish(key, RSM.from_dfa(dfa), "regex", pattern, stats)

    def compile_choice(self, choices: Iterable[str]) -> CompiledGrammar:
        """Compile a list of literal texts, one of which is to be written: their minimal acyclic DFA.

        A text may be the beginning of another; one that is listed twice counts once. Members of an ``Enum`` stand for their
        values. Raises ConstraintError, with the place in the list, for what is not text and for an empty list, LimitExceeded.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"go", b" on", b""], eos_token_ids=[2])
        >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_choice(["go", "go on", "1.0"])
        >>> [grammar.machine.matches(text) for text in (b"go", b"go on", b"1x0")]
        [True, True, False]
        """
        seconds: dict[str, float] = {}
        words = choice_texts(choices)
        limits = {"max_states": self._growing.get("max_states", MAX_GROWN_STATES), "max_bytes": self.max_bytes}
        dfa = _timed(seconds, "machine", words_dfa, words, **limits)
        stats = CompileStats(0, dfa.n_states, dfa.n_states, dfa.n_classes, seconds)
        source = json.dumps([word.decode() for word in words], ensure_ascii=False)
        return self._finish(None, RSM.from_dfa(dfa), "choice", source, stats)

    def compile_fsm(self, fsm: Any) -> CompiledGrammar:
        """Compile a machine made elsewhere: a `DFA`, an `RSM`, or an ``interegular.FSM``.

        Raises EmptyLanguageError if it accepts nothing, MachineError if it is none of these.

        >>> import fsmc, interegular
        >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
        >>> fsm = interegular.parse_pattern("a+b").to_fsm()
        >>> fsmc.GrammarCompiler(vocab, cache_dir=None).compile_fsm(fsm).machine.matches(b"aab")
        True
        """
        seconds: dict[str, float] = {}
        if isinstance(fsm, RSM):
            machine, raw_states = fsm, fsm.n_states
        else:
            if not isinstance(fsm, DFA):
                from fsmc.compiler.automata.interop import from_interegular

                fsm = _timed(seconds, "convert", from_interegular, fsm)
            raw_states = fsm.n_states
            dfa = _timed(seconds, "minimize", minimize, fsm)
            if dfa.is_empty:
                raise EmptyLanguageError("the machine accepts no text at all, so nothing could be generated")
            machine = RSM.from_dfa(dfa)
        stats = CompileStats(0, raw_states, machine.n_states, machine.n_classes, seconds)
        return self._finish(None, machine, "fsm", "", stats)

    def compile_json_schema(
        self,
        schema: Any,
        *,
        draft: int | None = None,
        registry: Any = None,
        unique_items: Literal["exact", "ignore"] = "exact",
    ) -> CompiledGrammar:
        """Compile a JSON Schema: exactly the JSON texts that are valid under it (see docs/json-schema.md).

        schema: a dict or bool, JSON text, or a pydantic model, dataclass or TypedDict. draft: 4, 6, 7, 2019 or 2020 where
        ``$schema`` does not say. registry: a ``referencing.Registry`` of documents that references may name. unique_items:
        "ignore" drops the keyword, and says so in the grammar's ``notes``.

        The machine is built as it is walked: compiling reads the schema, it does not unfold it. Raises SchemaError and
        UnsupportedSchemaError with the JSON pointer, EmptyLanguageError if no value is valid, LimitExceeded.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"1", b"[", b"]", b""], eos_token_ids=[3])
        >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_json_schema({"type": "array", "maxItems": 1})
        >>> grammar.machine.matches(b"[1]"), grammar.machine.matches(b"[1, 1]")
        (True, False)
        """
        from fsmc.compiler.schema.recipe import SchemaRecipe

        seconds: dict[str, float] = {}
        recipe = SchemaRecipe(schema, self._text_options, draft, unique_items, registry)
        _timed(seconds, "schema", lambda: recipe.document)
        machine = _timed(seconds, "machine", recipe.build, **self._growing).handed_over()
        stats = CompileStats(0, 0, machine.n_states, 0, seconds)
        return CompiledGrammar(
            machine,
            self.vocab,
            kind="json_schema",
            source="",
            stats=stats,
            recipe=recipe,
            before_masks=self._share_masks,
        )

    def compile_grammar(
        self, text: str, syntax: Literal["ebnf", "lark"] | None = None, *, start: str | None = None
    ) -> CompiledGrammar:
        """Compile a context-free grammar: exactly the texts that its first rule derives (see docs/grammars.md).

        syntax: "ebnf" (llama.cpp's and XGrammar's) or "lark"; None: whichever it is in. start: the first rule, ``root`` in EBNF and
        ``start`` in Lark unless given.

        A regular grammar becomes a plain machine; any other one's is built as it is walked. Raises GrammarError (with line, column and
        rule), UnsupportedGrammarError, EmptyLanguageError if no text can be derived, LimitExceeded.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"(", b")", b"x", b""], eos_token_ids=[3])
        >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_grammar('root ::= "(" root ")" | "x"')
        >>> grammar.machine.matches(b"((x))"), grammar.machine.matches(b"((x)")
        (True, False)
        """
        from fsmc.compiler.cfg.recipe import GrammarRecipe

        recipe = GrammarRecipe(text, syntax, start)
        key = self._key("grammar", "with notes", text, syntax or "", start or "")
        cached = self._from_cache(key)
        if cached is not None:
            return cached
        seconds: dict[str, float] = {}
        _timed(seconds, "parse", lambda: recipe.tree)
        machine, notes = _timed(
            seconds,
            "machine",
            recipe.build_with_notes,
            max_states=self.max_states,
            max_bytes=self.max_bytes,
            max_seconds=self.max_seconds,
        )
        stats = CompileStats(0, 0, machine.n_states, 0, seconds)
        if isinstance(machine, RSM):
            return self._finish(key, machine, "grammar", text, stats, notes)
        return CompiledGrammar(machine, self.vocab, kind="grammar", source=text, stats=stats, recipe=recipe)

    def compile_structural_tag(self, tag: Any, *, max_sought: int | None = None) -> CompiledGrammar:
        """Compile a structural tag: free text in which triggers open constrained parts (see docs/structure.md).

        tag: a dict, JSON text or an object with ``model_dump``, in either form: ``{"type": "structural_tag", "format": {...}}``,
        or ``{"structures": [...], "triggers": [...]}``. Special tokens that it names in its texts are allowed there, as
        tokens; the grammar's ``vocab`` says which (`Vocabulary.with_markers`). max_sought: bytes of all the texts that may end one
        free text, or that it excludes (default: 100,000). Raises ConstraintError with the place in the tag, and what patterns and
        schemas raise.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"<f>", b"1", b"</f>", b"hi", b""], eos_token_ids=[4])
        >>> tag = {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": {}}, "end": "</f>"}
        >>> tag = {"type": "triggered_tags", "triggers": ["<f>"], "tags": [tag]}
        >>> matcher = fsmc.GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_structural_tag(tag))
        >>> [matcher.accept_token(token) for token in (3, 0, 3, 1, 2, 3, 4)]
        [True, True, False, True, True, True, True]
        """
        from fsmc.compiler.tags.clock import TagClock
        from fsmc.compiler.tags.free_text import MAX_SOUGHT
        from fsmc.compiler.tags.recipe import TagRecipe

        seconds: dict[str, float] = {}
        most = MAX_SOUGHT if max_sought is None else max_sought
        special = self.vocab.special_texts, self.vocab.special_token_ids, most
        options, clock = self._text_options, TagClock(self.max_seconds)
        recipe = _timed(seconds, "tag", TagRecipe.of, tag, options, *special, clock)
        limits = {"max_states": self.max_states, "max_bytes": self.max_bytes, "max_seconds": self.max_seconds}
        build = recipe.build_with_notes
        machine, notes = _timed(seconds, "machine", build, regex_limits=limits, clock=clock, **self._growing)
        vocab = self.vocab.with_markers(recipe.marker_ids)
        stats = CompileStats(0, 0, machine.n_states, 0, seconds)
        return CompiledGrammar(
            machine, vocab, kind="structural_tag", source="", stats=stats, recipe=recipe, notes=notes
        )

    def compile_constraint(self, request: Any) -> CompiledGrammar:
        """Compile what a request asks for: OpenAI's ``response_format`` or ``text.format``, vLLM's ``structured_outputs``, SGLang's parameters.

        request: such a dict as it is (or the object that an engine makes of it), by itself or as the member of that name in
        a larger dict; also a JSON Schema other than ``{}``, a type for pydantic, or a list of choices. Exactly one constraint must be set. What it says of
        white space holds for this grammar, all else as this compiler has it. Raises ConstraintError with the place, and what the
        method for its kind raises.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"yes", b"no", b""], eos_token_ids=[2])
        >>> compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
        >>> compiler.compile_constraint({"structured_outputs": {"choice": ["yes", "no"]}}).kind
        'choice'
        >>> compiler.compile_constraint({"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": 1}}}).kind
        'json_schema'
        """
        constraint = read_constraint(request)
        compiler = self
        if constraint.layout:
            compiler = copy.copy(self)
            compiler._layout = {**self._layout, "indent": None, **constraint.layout}
            for of_layout in ("_text_options", "_share_masks"):
                compiler.__dict__.pop(of_layout, None)
        syntax = [constraint.syntax] if constraint.kind == "grammar" else []
        grammar: CompiledGrammar = getattr(compiler, f"compile_{constraint.kind}")(constraint.value, *syntax)
        return grammar

    @cached_property
    def _text_options(self) -> TextOptions:
        """The layout of JSON texts; asked for when the first schema comes, which is when its kernels are loaded."""
        from fsmc.compiler.schema.text_options import TextOptions
        from fsmc.compiler.warm_up import warm_up_any_order, warm_up_schemas

        warm_up_schemas()
        options = TextOptions(**self._layout)
        if options.property_order == "any":
            warm_up_any_order()
        return options

    @cached_property
    def _share_masks(self) -> Callable[[], None]:
        """What has the masks that all schemas share ready, see shared_masks.py; the vocabulary keeps them."""
        from fsmc.compiler.shared_masks import share_masks

        folder = None if self.cache is None else self.cache.masks_folder
        return functools.cache(functools.partial(share_masks, self.vocab, self._text_options, folder))

    def _key(self, *parts: str | int) -> str:
        """Everything that the result depends on: also Unicode's version, and Python's (its ``\\B`` changed once)."""
        context = (FORMAT, unicodedata.unidata_version, *sys.version_info[:2], self.vocab.fingerprint)
        limits = (self.max_states, self.max_bytes)
        return hashlib.sha256(json.dumps([*context, *limits, *parts]).encode()).hexdigest()

    def _from_cache(self, key: str) -> CompiledGrammar | None:
        if self.cache is None or (data := self.cache.get(key)) is None:
            return None
        try:
            arrays, metadata = from_bytes(data, kind=FILE_KIND)
            if metadata.get("key") != key:
                raise IndexFileError("entry of another grammar")
            grammar = CompiledGrammar._from_parts(arrays, metadata, self.vocab, "cache entry", from_cache=True)
        except IndexFileError as error:
            log.warning("damaged cache entry %s… (%s): compiling again", key[:12], error)
            return None
        return grammar

    def _finish(
        self, key: str | None, machine: RSM, kind: str, source: str, stats: CompileStats, notes: tuple[str, ...] = ()
    ) -> CompiledGrammar:
        def store(grammar: CompiledGrammar) -> None:
            if self.cache is not None and key is not None:
                arrays, metadata = grammar._parts()
                self.cache.put(key, to_bytes(arrays, metadata | {"key": key}), label=f"{kind} {_short(source)}")

        grammar = CompiledGrammar(
            machine, self.vocab, kind=kind, source=source, stats=stats, on_index=store, notes=notes
        )
        store(grammar)
        return grammar


def _timed(seconds: dict[str, float], stage: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    start = time.perf_counter()
    try:
        result = function(*args, **kwargs)
    except RecursionError:
        raise stack_exceeded() from None
    seconds[stage] = time.perf_counter() - start
    return result


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "…")
