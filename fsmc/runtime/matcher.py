"""One constrained generation: where it stands, what may come next, and the way back.

A matcher's whole state is a configuration (machine state and return stack), whether an end token was taken, and the
configurations before. Everything heavy (machine, masks, forced text) belongs to the grammar and is shared.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.tokens.lazy_masks import LazyMasks, copy_flipped
from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks
from fsmc.compiler.tokens.walk import NOTHING, Recording, advance
from fsmc.jit import addresses_of
from fsmc.runtime.stop_tokens import StopTokens

if TYPE_CHECKING:
    from fsmc.compiler.grammar import CompiledGrammar

_Entry: TypeAlias = "tuple[_Entry | None, int, int, bool, Recording]"
"""(the entry before, state, stack node, terminated, recording): what one rollback restores. Entries are never changed, so forks
share their past."""

_NO_ROW: npt.NDArray[np.int32] = np.empty(0, np.int32)
_NO_ADDRESS = addresses_of(_NO_ROW)


class GrammarMatcher:
    """The progress of one request under a compiled grammar.

    grammar: a `CompiledGrammar`. stop_token_ids: the ids that end the text, for this request (default: the vocabulary's
    EOS ids; ValueError for an id outside the vocabulary). They are allowed exactly where the text may end, and are never
    text, even if the vocabulary has bytes for them. max_rollback_tokens: how far `rollback` may go back (None: to the
    start).

    Matchers may share a grammar across threads; one matcher belongs to one thread at a time.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"[1", b",1", b"]", b"[", b""], eos_token_ids=[4])
    >>> matcher = GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex(r"\\[1(,1)*\\]"))
    >>> matcher.accept_token(3), matcher.accept_token(2), matcher.find_jump_forward_string()
    (True, False, '1')
    >>> matcher.accept_bytes(b"1,1]"), matcher.is_completed(), matcher.accept_token(4), matcher.is_terminated()
    (True, True, True, True)
    >>> matcher.rollback(2); matcher.expected()
    "'1'"
    """

    def __init__(
        self,
        grammar: CompiledGrammar,
        stop_token_ids: Iterable[int] | None = None,
        max_rollback_tokens: int | None = None,
    ) -> None:
        if max_rollback_tokens is not None and max_rollback_tokens < 0:
            raise ValueError(f"max_rollback_tokens={max_rollback_tokens} must not be negative")
        vocab = grammar.vocab
        self._grammar, self._machine, self._masks = grammar, grammar.machine, grammar.masks
        # Stack nodes mean something only in the pool that the masks know; a whole index is of a machine without calls.
        self._lazy = self._masks if isinstance(self._masks, LazyMasks) else None
        self._stacks = self._lazy.stacks if self._lazy else ReturnStacks()
        self._data, self._size = vocab.token_bytes, vocab.size
        self._offsets = memoryview(vocab.token_offsets)  # type: ignore[arg-type]  # its items are Python's integers at once
        self._stop_ids, self._stop_bits, self._stop_texts = StopTokens.of(vocab, stop_token_ids)
        self._max_rollback = max_rollback_tokens
        self._mask: Any = None
        self._data_ptr: Any = None
        self._mask_pointer = 0
        self._mask_index = -1
        self._row, self._row_address = _NO_ROW, _NO_ADDRESS
        self.reset()

    def __repr__(self) -> str:
        where = "ended" if self._terminated else f"in state {self._state}"
        return f"<GrammarMatcher {where} after {self._n_entries} entries, of {self._grammar!r}>"

    def reset(self) -> None:
        """Back to the beginning, with an empty history."""
        self._state, self._stack, self._terminated = self._machine.start, EMPTY_STACK, False
        self._recording = NOTHING
        self._history: _Entry | None = None
        self._n_entries = 0  # in the chain of the history
        self._n_reachable = 0  # of these, how many rollback may undo

    def fork(self) -> GrammarMatcher:
        """A matcher at the same place with the same history, independent from here on; costs the same at any length.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
        >>> matcher = GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("[ab]{2}"))
        >>> other = matcher.fork()
        >>> other.accept_bytes(b"ab"), other.is_completed(), matcher.is_completed()
        (True, True, False)
        """
        other = object.__new__(GrammarMatcher)
        other.__dict__.update(self.__dict__)
        return other

    # ------------------------------------------------------------------------------------------------- going forward

    def accept_token(self, token_id: int) -> bool:
        """Take one token. False, and nothing changes, if it is not allowed: also for ids outside the vocabulary.

        A stop token is allowed where the text may end, and terminates the matcher. After that only stop tokens are
        allowed; taking one again changes nothing, not even the history.
        """
        token_id = operator.index(token_id)
        if token_id in self._stop_ids:
            if self._terminated:
                return True
            if not self.is_completed():
                return False
            self._remember()
            self._terminated = True
            return True
        if self._terminated or not 0 <= token_id < self._size:
            return False
        begin, end = self._offsets[token_id], self._offsets[token_id + 1]
        return begin < end and self._accept(self._data, begin, end)

    def accept_bytes(self, data: bytes) -> bool:
        """Take some text, which may end inside a character: all of it, or nothing and return False.

        It is one entry of the history, to be undone by ``rollback(1)``, whatever its length. After termination only
        b"" is accepted.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"accept_bytes takes bytes, not {type(data).__name__}")
        if self._terminated and data:
            return False
        array = np.frombuffer(bytes(data), np.uint8)
        return self._accept(array, 0, len(array))

    def _accept(self, data: npt.NDArray[np.uint8], begin: int, end: int) -> bool:
        state, stack, recording, n = advance(
            self._machine, self._stacks, self._state, self._stack, data, begin, end, self._recording
        )
        if n < end:
            return False
        self._remember()
        self._state, self._stack, self._recording = state, stack, recording
        return True

    def validate_tokens(self, token_ids: Iterable[int]) -> int:
        """How many of these tokens could be accepted, one after the other. The matcher stays where it is."""
        probe, n_accepted = self.fork(), 0
        for token_id in token_ids:
            if not probe.accept_token(token_id):
                break
            n_accepted += 1
        return n_accepted

    def find_jump_forward_string(self) -> str:
        """The text that is forced from here, in whole characters: "" if none is, or if the text so far ends inside one.

        It is not taken: `accept_bytes` does that.
        """
        if self._terminated:
            return ""
        forced = self._grammar.jump_map.follow_on_stack(self._stacks, self._state, self._stack).text
        try:
            return forced.decode()
        except UnicodeDecodeError as error:  # it began inside a character, or a machine given as arrays forces no text
            return forced[: error.start].decode()

    # ----------------------------------------------------------------------------------------------------- going back

    def rollback(self, num_tokens: int = 1) -> None:
        """Undo the last ``num_tokens`` entries: accepted tokens, texts and end tokens alike.

        Raises ValueError, and nothing changes, if that is negative or more than ``rollback_limit``.
        """
        num_tokens = operator.index(num_tokens)
        if not 0 <= num_tokens <= self._n_reachable:
            raise ValueError(
                f"cannot roll back {num_tokens} tokens: the history holds {self._n_reachable}"
                + (f" (max_rollback_tokens={self._max_rollback})" if self._max_rollback is not None else "")
            )
        for _ in range(num_tokens):
            assert self._history is not None
            self._history, self._state, self._stack, self._terminated, self._recording = self._history
        self._n_entries -= num_tokens
        self._n_reachable -= num_tokens

    @property
    def rollback_limit(self) -> int:
        """How many entries can be rolled back now."""
        return self._n_reachable

    def _remember(self) -> None:
        """Put the present on the history."""
        self._history = (self._history, self._state, self._stack, self._terminated, self._recording)
        self._n_entries += 1
        self._n_reachable += 1
        if self._max_rollback is not None and self._n_reachable > self._max_rollback:
            self._n_reachable = self._max_rollback
            if self._n_entries > 2 * self._max_rollback:
                self._forget()

    def _forget(self) -> None:
        """Copy the entries within reach, so that the older ones can be freed; forks may still need the old chain.

        It copies as many entries as were added since the last time, or fewer: a constant for each.
        """
        newest = []
        entry = self._history
        for _ in range(self._n_reachable):
            assert entry is not None
            newest.append(entry[1:])
            entry = entry[0]
        self._history, self._n_entries = None, self._n_reachable
        for rest in reversed(newest):
            self._history = (self._history, *rest)

    # ---------------------------------------------------------------------------------------------------- where we are

    @property
    def grammar(self) -> CompiledGrammar:
        return self._grammar

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """The ids that end the text, ascending."""
        return tuple(sorted(self._stop_ids))

    @property
    def configuration(self) -> Configuration:
        """The machine's state and the return frames of its open calls, the innermost last."""
        return Configuration(self._state, self._stacks.frames(self._stack))

    def is_completed(self) -> bool:
        """Whether the text may end here (an end token is allowed, or was taken)."""
        machine, stack = self._machine, self._stack
        outcome = machine.final(self._state)
        while stack != EMPTY_STACK and outcome >= 0:
            stack, frame = self._stacks.top(stack)
            outcome = machine.final(machine.after_outcome(frame, outcome))
        return outcome >= 0

    def is_terminated(self) -> bool:
        """Whether an end token was taken."""
        return self._terminated

    def longest_prefix(self, data: bytes) -> int:
        """How many bytes of ``data`` could be accepted from here: where `accept_bytes` fails."""
        if self._terminated:
            return 0
        array = np.frombuffer(bytes(data), np.uint8)
        return advance(self._machine, self._stacks, self._state, self._stack, array, recording=self._recording)[3]

    def expected(self) -> str:
        """What may come next, for error messages, see `describe_bytes`."""
        if self._terminated:
            return "nothing (the text has ended)"
        here = self.configuration
        live = [byte for byte in range(256) if self._machine.step(here, byte) is not None]
        return describe_bytes(live, may_end=self.is_completed())

    # ---------------------------------------------------------------------------------------------------------- masks

    def fill_next_token_bitmask(self, mask: Any, index: int = 0) -> None:
        """Write the tokens allowed next into row ``index`` of ``mask``; no other row is touched.

        mask: int32[batch, n_words] as from `allocate_token_bitmask`, or one row int32[n_words]; a numpy array or a torch
        tensor on the CPU. Words past the vocabulary become 0. Stop tokens are allowed exactly where the text may end;
        after termination they are all that is allowed.

        Raises TypeError for another dtype, device or kind of array, ValueError for too few words, IndexError for a row
        that does not exist.
        """
        if (
            mask is not self._mask
            or index != self._mask_index
            or (self._data_ptr is not None and self._data_ptr() != self._mask_pointer)
        ):
            self._row = _mask_row(mask, index, -(-self._size // 32))
            self._row_address = addresses_of(self._row)
            self._mask, self._mask_index = mask, index  # an engine brings the same mask at every step: check it once
            self._data_ptr = getattr(mask, "data_ptr", None)  # but a tensor may be moved
            self._mask_pointer = 0 if self._data_ptr is None else self._data_ptr()
        row = self._row
        if self._terminated:
            row.fill(0)
        else:
            lazy, may_end = self._lazy, True
            if lazy is None:
                self._masks.copy_row(self._state, self._stack, row)
            else:
                known = lazy.asked.get((self._state, self._stack))
                held = lazy.row(self._state, self._stack) if known is None else known
                copy_flipped(held[0], self._row_address)
                may_end = held[1]
            if self._stop_texts:
                for word, other_bits in self._stop_texts:
                    row[word] &= other_bits
            if not may_end or not self.is_completed():
                return
        for word, bit in self._stop_bits:
            row[word] |= bit


def _mask_row(mask: Any, index: int, n_words: int) -> npt.NDArray[np.int32]:
    """Row ``index`` of a mask as a writable view of at least ``n_words`` words."""
    rows = mask_rows(mask, n_words)
    if not 0 <= index < rows.shape[0]:
        raise IndexError(f"row {index} does not exist; the mask has {rows.shape[0]} rows")
    row: npt.NDArray[np.int32] = rows[index]
    return row


def mask_rows(mask: Any, n_words: int) -> npt.NDArray[np.int32]:
    """A mask as a writable view int32[batch, at least n_words]; the words of each row are adjacent.

    Raises TypeError for another dtype, device or kind of array, ValueError for another shape or memory layout.
    """
    torch = sys.modules.get("torch")
    array = mask
    if torch is not None and isinstance(mask, torch.Tensor):
        if mask.device.type != "cpu":
            raise TypeError(f"the mask is on {mask.device}: fill one on the CPU, and move that")
        array = mask.numpy()
    if not isinstance(array, np.ndarray):
        raise TypeError(f"the mask must be a numpy array or a torch tensor, not {type(mask).__name__}")
    if array.dtype != np.int32:
        raise TypeError(f"the mask must be int32, not {array.dtype}: make it with allocate_token_bitmask")
    if array.ndim not in (1, 2) or array.shape[-1] < n_words:
        raise ValueError(f"the mask has shape {array.shape}; this vocabulary needs (batch, {n_words}), or more words")
    rows = array if array.ndim == 2 else array[None]
    if not rows.flags.writeable or (rows.shape[1] > 1 and rows.strides[1] != 4):
        raise ValueError("the mask must be writable, and the words of a row adjacent")
    if len(rows) > 1 and (rows.strides[0] % 4 or rows.strides[0] < 4 * rows.shape[1]):
        raise ValueError("the rows of the mask must follow each other in memory, each at whole words")
    return rows


def describe_bytes(live: Iterable[int], may_end: bool) -> str:
    """Bytes that may come next as readable text: ASCII as characters, first bytes of longer ones as code point ranges.

    >>> describe_bytes(b"+0123456789", may_end=True)
    "'+', '0'–'9' or the end of the text"
    >>> describe_bytes([0x0A, 0xC3, 0xE7, 0xE8], may_end=False)
    "'\\\\n', some of U+00C0–U+00FF or some of U+7000–U+8FFF"
    >>> describe_bytes([0x80, 0x81, 0xBF], may_end=False)
    'byte 80–81 or byte bf'
    """
    runs: list[list[int]] = []
    for byte in live:
        if runs and byte == runs[-1][1] + 1 and byte not in (0x80, 0xC2, 0xE0, 0xF0, 0xF5):
            runs[-1][1] = byte
        else:
            runs.append([byte, byte])
    items = []
    for low, high in runs:
        if low < 0x80:
            items.append(f"{chr(low)!r}–{chr(high)!r}" if low < high else repr(chr(low)))
        elif 0xC2 <= low < 0xF5:
            items.append(f"some of U+{_code_points(low)[0]:04X}–U+{_code_points(high)[1]:04X}")
        else:  # inside a character, or no text at all
            items.append(f"byte {low:02x}–{high:02x}" if low < high else f"byte {low:02x}")
    if may_end:
        items.append("the end of the text")
    return " or ".join(filter(None, [", ".join(items[:-1]), *items[-1:]])) or "nothing"


def _code_points(first_byte: int) -> tuple[int, int]:
    """The first and last code point whose UTF-8 form begins with ``first_byte`` (C2–F4; RFC 3629)."""
    if first_byte < 0xE0:
        return (first_byte & 0x1F) << 6, (first_byte & 0x1F) << 6 | 0x3F
    if first_byte < 0xF0:
        return max((first_byte & 0x0F) << 12, 0x800), (first_byte & 0x0F) << 12 | 0xFFF
    return max((first_byte & 0x07) << 18, 0x10000), min((first_byte & 0x07) << 18 | 0x3FFFF, 0x10FFFF)
