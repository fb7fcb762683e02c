"""What a compiler makes, and matchers run on: the machine, its masks and its forced text; to and from index files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from fsmc.compiler.automata.lazy_rsm import LazyRSM
from fsmc.compiler.automata.machine_arrays import pack, unpack
from fsmc.compiler.automata.rsm import RSM
from fsmc.compiler.errors import IndexFileError, MachineError
from fsmc.compiler.tokens.masks import LazyMasks, TokenIndex, build_index
from fsmc.compiler.tokens.store import from_bytes, load_arrays, save_arrays, to_bytes
from fsmc.compiler.tokens.trie import TokenTrie, trie_of
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.jump_map import JumpForwardMap

if TYPE_CHECKING:
    from fsmc.compiler.cfg.recipe import GrammarRecipe
    from fsmc.compiler.comparison import Comparison
    from fsmc.compiler.schema.recipe import SchemaRecipe
    from fsmc.compiler.tags.recipe import TagRecipe

FILE_KIND = "fsmc-grammar"
FORMAT = 1
"""Of the arrays in an index file and of what the stages make of a pattern: a change of either raises it."""

MAX_INDEX_BYTES = 1 << 30

_STATE_BYTES = 500
"""Of the key of a state that is made as it is walked, and what the builder knows of it."""

_ATTRIBUTES = frozenset(["dfa", "kind", "machine", "stats", "vocab"])

Progress = Callable[[int, int], None]
"""Called with (states done, states in all) while a whole index is built."""


@dataclass(frozen=True, slots=True)
class CompileStats:
    """Sizes of the machines on the way to the grammar (states, byte classes) and wall seconds by stage name.

    ``from_cache`` says that the machine was read from the disk cache; the other figures are then those of the run that
    wrote it.
    """

    nfa_states: int = 0
    raw_states: int = 0
    states: int = 0
    byte_classes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    from_cache: bool = False


class CompiledGrammar:
    """A constraint, compiled for one vocabulary: what matchers run on. Shared by any number of them, in any thread.

    ``machine`` is the RSM that runs, ``dfa`` the same as a plain DFA (None if it has calls, as those of schemas do), ``vocab`` the vocabulary,
    ``kind`` and ``source`` what it was compiled from, ``stats`` how that went, ``masks`` where the rows of allowed tokens
    come from: computed when a state is first met, or a whole `TokenIndex` after `build_index`. None of them can be set.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"yes", b"no", b"n", b""], eos_token_ids=[3])
    >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("yes|no")
    >>> grammar.machine.matches(b"no"), grammar.stats.states
    (True, 6)
    """

    def __init__(
        self,
        machine: RSM | LazyRSM,
        vocab: Vocabulary,
        *,
        kind: str,
        source: str,
        stats: CompileStats,
        index: TokenIndex | None = None,
        on_index: Callable[[CompiledGrammar], None] | None = None,
        recipe: SchemaRecipe | TagRecipe | GrammarRecipe | None = None,
        before_masks: Callable[[], None] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.machine, self.vocab = machine, vocab
        self._before_masks = before_masks
        self.kind, self.stats = kind, stats
        self._source, self._recipe = source, recipe
        self._notes = notes
        self.dfa = machine.to_dfa() if isinstance(machine, RSM) and machine.is_regular else None
        self._index, self._on_index = index, on_index
        self._lazy: LazyMasks | None = None
        self._jump_map: JumpForwardMap | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """What is shared does not change. AttributeError."""
        if name[0] != "_" and (name in self.__dict__ or name not in _ATTRIBUTES):
            raise AttributeError(f"a compiled grammar is shared and does not change: its {name} cannot be set")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a compiled grammar is shared and does not change: its {name} cannot be deleted")

    def __repr__(self) -> str:
        shown = self._source if len(self._source) <= 40 else self._source[:39] + "…"
        return f"<CompiledGrammar: {self.kind}{f' {shown!r}' if shown else ''}, {self.machine.n_states} states>"

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledGrammar:
        """Itself: it is shared also by the copies that engines make of a request."""
        return self

    @property
    def trie(self) -> TokenTrie:
        """The vocabulary's token trie (built once per vocabulary)."""
        return trie_of(self.vocab)

    @property
    def source(self) -> str:
        """What it was compiled from: the pattern, or the schema as JSON text; "" for a machine."""
        return self._source if self._recipe is None else self._recipe.text

    @property
    def recipe(self) -> SchemaRecipe | TagRecipe | GrammarRecipe | None:
        """What a machine is made from that is built as it is walked; None for others."""
        return self._recipe

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know: parts of a schema that are not checked (formats nobody knows), rules that nothing uses."""
        return self.machine.builder.notes if isinstance(self.machine, LazyRSM) else self._notes

    @property
    def index(self) -> TokenIndex | None:
        """The whole index, if it was built or came with the file."""
        return self._index

    @property
    def masks(self) -> TokenIndex | LazyMasks:
        """Where a matcher gets its rows: ``copy_row(state, stack, out)``."""
        if self._index is not None:
            return self._index
        if self._lazy is None:
            if self._before_masks is not None:
                self._before_masks()
            self._lazy = LazyMasks(self.machine, self.trie)
        return self._lazy

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about: of the machine, which may grow with the texts, of its return stacks, and of its masks."""
        machine = self.machine
        if isinstance(machine, LazyRSM):
            n = machine.nbytes + _STATE_BYTES * machine.n_states
        else:
            n = sum(array.nbytes for array in machine.tables[:6])
        if self._index is not None:
            n += sum(array.nbytes for array in self._index.arrays().values())
        return n + (self._lazy.nbytes + self._lazy.stacks.nodes.nbytes if self._lazy is not None else 0)

    @property
    def jump_map(self) -> JumpForwardMap:
        """The forced text from every state or configuration, made on first use."""
        if self._jump_map is None:
            self._jump_map = JumpForwardMap(self.machine)
        return self._jump_map

    def build_index(self, progress: Progress | None = None, max_bytes: int = MAX_INDEX_BYTES) -> TokenIndex:
        """Compute the mask of every state now; matchers made afterwards only copy rows.

        progress: called with (states done, states in all). max_bytes: of the rows in memory; more raises LimitExceeded.
        Raises MachineError for a machine with calls, whose masks depend on the stack.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"yes", b"no", b"n", b""], eos_token_ids=[3])
        >>> index = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("yes|no").build_index()
        >>> index.n_rows  # what may come first, and nothing
        2
        """
        if self._index is None:
            if self.dfa is None:
                raise MachineError(
                    "a whole index needs a machine without calls; masks of this one are computed when met. For texts of "
                    "bounded nesting: compiler.compile_fsm(grammar.machine.flatten(max_depth)).build_index()"
                )
            self._index = build_index(self.dfa, self.trie, progress=progress, max_bytes=max_bytes)
            if self._on_index is not None:
                self._on_index(self)
        return self._index

    def __and__(self, other: CompiledGrammar) -> CompiledGrammar:
        """What both allow, see `fsmc.compiler.algebra`.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"[1]", b"[", b"]", b""], eos_token_ids=[3])
        >>> compiler = fsmc.GrammarCompiler(vocab, cache_dir=None)
        >>> lists, short = compiler.compile_json_schema({"type": "array", "items": {"type": "null"}}), compiler.compile_regex(".{0,6}")
        >>> both = lists & short
        >>> both.machine.matches(b"[null]"), both.machine.matches(b"[null,null]"), bool(both.subset_of(short))
        (True, False, True)
        """
        from fsmc.compiler.algebra import intersection

        return intersection(self, other)

    def __or__(self, other: CompiledGrammar) -> CompiledGrammar:
        """What at least one of the two allows."""
        from fsmc.compiler.algebra import union

        return union(self, other)

    def __sub__(self, other: CompiledGrammar) -> CompiledGrammar:
        """What this one allows and the other does not."""
        from fsmc.compiler.algebra import difference

        return difference(self, other)

    def __invert__(self) -> CompiledGrammar:
        """What this one does not allow: of a schema the JSON texts of all other values, else all other texts."""
        from fsmc.compiler.algebra import complement

        return complement(self)

    def __add__(self, other: CompiledGrammar) -> CompiledGrammar:
        """A text of this one, followed by one of the other."""
        from fsmc.compiler.concatenation import concatenation

        return concatenation(self, other)

    def subset_of(self, other: CompiledGrammar, **limits: Any) -> Comparison:
        """Whether the other allows all that this one allows: true or false, with a ``witness`` if not.

        The witness is a text that only this one allows, and a shortest one, but where it had to be sought or values that were written have to
        be kept in mind. Two schemas are compared by values, in whatever order of their members.

        limits: ``max_pairs``, ``max_crossed``, ``max_searched``, ``max_seconds`` of `comparison.subset`. Raises ConstraintError or LimitExceeded where it
        cannot be told exactly and no short text shows it.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"1", b""], eos_token_ids=[1])
        >>> compiler = fsmc.GrammarCompiler(vocab, cache_dir=None, whitespace="compact")
        >>> year, integer = compiler.compile_regex("[0-9]{4}"), compiler.compile_json_schema({"type": "integer"})
        >>> result = year.subset_of(integer)
        >>> bool(result), result.witness
        (False, b'0000')
        """
        from fsmc.compiler.comparison import subset

        return subset(self, other, **limits)

    def equivalent(self, other: CompiledGrammar, **limits: Any) -> Comparison:
        """Whether both allow the same, as `subset_of`."""
        from fsmc.compiler.comparison import equivalence

        return equivalence(self, other, **limits)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an index file: the machine and, if it was built, the whole index. Atomic; safetensors form.

        Of a JSON Schema the file holds the schema (with the documents that it refers to), the layout and the draft: its
        machine is made as it is walked, and starts anew. Raises SchemaError if the schema is a dict with something in it
        that is not JSON.

        >>> import fsmc, tempfile, os
        >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
        >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("a*b")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     grammar.save(os.path.join(folder, "ab.fsmc"))
        ...     again = fsmc.CompiledGrammar.load(os.path.join(folder, "ab.fsmc"), vocab)
        >>> again.source
        'a*b'
        """
        save_arrays(path, *self._parts())

    def to_bytes(self) -> bytes:
        """The content of the file that `save` would write: a grammar crosses processes as bytes.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
        >>> data = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("a*b").to_bytes()
        >>> fsmc.CompiledGrammar.from_bytes(data, vocab).machine.matches(b"aab")
        True
        """
        return to_bytes(*self._parts())

    @classmethod
    def from_bytes(cls, data: bytes, vocab: Vocabulary) -> CompiledGrammar:
        """What `to_bytes` gave. Raises IndexFileError as `load` does."""
        if not isinstance(vocab, Vocabulary):
            raise TypeError(f"vocab must be a Vocabulary, not {type(vocab).__name__}")
        arrays, metadata = from_bytes(data, kind=FILE_KIND, where="index bytes")
        return cls._from_parts(arrays, metadata, vocab, "index bytes")

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vocab: Vocabulary, *, limits: Mapping[str, Any] | None = None
    ) -> CompiledGrammar:
        """Read an index file that `save` wrote, memory-mapped.

        limits: of a machine that is made as texts walk through it: ``max_states``, ``max_bytes``, ``max_seconds`` of `GrammarCompiler`.
        Raises IndexFileError if the file is missing, truncated, damaged, of another version, or made for a vocabulary
        other than ``vocab``.
        """
        if not isinstance(vocab, Vocabulary):
            raise TypeError(f"vocab must be a Vocabulary, not {type(vocab).__name__}")
        arrays, metadata = load_arrays(path, kind=FILE_KIND)
        return cls._from_parts(arrays, metadata, vocab, os.fspath(path), limits)

    def _parts(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
        arrays: dict[str, npt.NDArray[Any]]
        metadata: dict[str, str] = {}
        if self._recipe is not None:
            texts, metadata = self._recipe.to_arrays()
            arrays = {**texts}
        elif not isinstance(self.machine, RSM):
            raise MachineError(f"a {self.kind} that is made as it is walked cannot be saved: save what it was made of")
        else:
            arrays = {f"machine.{name}": array for name, array in pack(self.machine).items()}
        if self._index is not None:
            arrays |= {f"index.{name}": array for name, array in self._index.arrays().items()}
        metadata |= {
            "kind": FILE_KIND,
            "format": str(FORMAT),
            "grammar_kind": self.kind,
            "source": self._source,
            "vocabulary": self.vocab.fingerprint,
            "vocab_size": str(self.vocab.size),
            "stats": json.dumps(asdict(self.stats)),
        }
        if self._notes:
            metadata["notes"] = "\n".join(self._notes)
        if self.vocab.markers:
            metadata["markers"] = " ".join(map(str, self.vocab.markers))
        return arrays, metadata

    @classmethod
    def _from_parts(
        cls,
        arrays: dict[str, npt.NDArray[Any]],
        metadata: dict[str, str],
        vocab: Vocabulary,
        where: str,
        limits: Mapping[str, Any] | None = None,
        *,
        from_cache: bool = False,
    ) -> CompiledGrammar:
        if "markers" in metadata:
            vocab = vocab.with_markers(int(i) for i in metadata["markers"].split() if int(i) in vocab.special_token_ids)
        if metadata.get("vocabulary") != vocab.fingerprint:
            raise IndexFileError(
                f"{where}: made for another vocabulary (fingerprint {metadata.get('vocabulary', '')[:12]}…, "
                f"this one is {vocab.fingerprint[:12]}…): compile it again for this tokenizer"
            )
        machine, index, stats, recipe = _unpack(arrays, metadata, where, limits)
        stats = replace(stats, from_cache=True) if from_cache else stats
        kind, source = metadata["grammar_kind"], metadata["source"]
        notes = tuple(metadata.get("notes", "").splitlines())
        return cls(machine, vocab, kind=kind, source=source, stats=stats, index=index, recipe=recipe, notes=notes)


def read_parts(
    path: str | os.PathLike[str], limits: Mapping[str, Any] | None = None
) -> tuple[RSM | LazyRSM, TokenIndex | None, dict[str, str]]:
    """The machine, the whole index (None if it was saved without) and the metadata of an index file, memory-mapped.

    For looking inside and for matching text, which need no vocabulary. limits, and IndexFileError: as of `CompiledGrammar.load`.
    """
    arrays, metadata = load_arrays(path, kind=FILE_KIND)
    machine, index, _, recipe = _unpack(arrays, metadata, os.fspath(path), limits)
    return machine, index, metadata if recipe is None else {**metadata, "source": recipe.text}


def read_recipe(path: str | os.PathLike[str]) -> SchemaRecipe | TagRecipe | GrammarRecipe | None:
    """What the machine of an index file is made from as it is walked; None for others. Raises as `read_parts`."""
    arrays, metadata = load_arrays(path, kind=FILE_KIND)
    return _unpack(arrays, metadata, os.fspath(path))[3]


def _unpack(
    arrays: dict[str, npt.NDArray[Any]],
    metadata: dict[str, str],
    where: str,
    limits: Mapping[str, Any] | None = None,
) -> tuple[RSM | LazyRSM, TokenIndex | None, CompileStats, SchemaRecipe | TagRecipe | GrammarRecipe | None]:
    """What a file's arrays and metadata describe; IndexFileError if they do not fit together."""
    if metadata.get("format") != str(FORMAT):
        raise IndexFileError(f"{where}: format {metadata.get('format')}, this fsmc reads {FORMAT}: compile it again")
    try:
        recipe: SchemaRecipe | TagRecipe | GrammarRecipe | None = None
        machine: RSM | LazyRSM
        if metadata["grammar_kind"] == "json_schema":
            from fsmc.compiler.schema import recipe as schema_recipe

            recipe = schema_recipe.SchemaRecipe.from_arrays(arrays, metadata)
            machine = recipe.build(**limits or {}).handed_over()
        elif "grammar.text" in arrays:
            from fsmc.compiler.cfg import recipe as grammar_recipe

            recipe = grammar_recipe.GrammarRecipe.from_arrays(arrays, metadata)
            machine = recipe.build(**limits or {})
        elif metadata["grammar_kind"] == "structural_tag":
            from fsmc.compiler.tags import recipe as tag_recipe

            recipe = tag_recipe.TagRecipe.from_arrays(arrays, metadata)
            machine = recipe.build(**limits or {})
        else:
            machine = unpack({k[8:]: a for k, a in arrays.items() if k.startswith("machine.")})
        parts = {k[6:]: a for k, a in arrays.items() if k.startswith("index.")}
        size = int(metadata["vocab_size"])
        index = TokenIndex.from_arrays(parts, n_states=machine.n_states, vocab_size=size) if parts else None
        stats = CompileStats(**json.loads(metadata["stats"]))
        missing = {"grammar_kind", "source", "vocabulary"} - metadata.keys()
        if missing:
            raise KeyError(*missing)
        return machine, index, stats, recipe
    except (KeyError, TypeError, ValueError) as error:
        raise IndexFileError(f"{where}: not a complete index file ({error}): compile it again") from error
