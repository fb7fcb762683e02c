"""One constrained generation: where it stands, what may come next, and the way back.

A matcher's whole state is a configuration (machine state and return stack), whether an end token was taken, and the
configurations before. Everything heavy (machine, masks, forced text) belongs to the grammar and is shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.recursion import Configuration
from fsmc.compiler.errors import BudgetExceeded, TokenRejected, VocabularyError
from fsmc.compiler.tokens.lazy_masks import LazyMasks, copy_flipped
from fsmc.compiler.tokens.stacks import EMPTY_STACK, ReturnStacks
from fsmc.compiler.tokens.walk import NOTHING, Recording, advance
from fsmc.jit import addresses_of
from fsmc.runtime.arguments import byte_string, integer
from fsmc.runtime.budget import TokenBudget, budget_of, keep_within
from fsmc.runtime.byte_text import describe_bytes
from fsmc.runtime.constraint import accepted_prefix
from fsmc.runtime.mask_arrays import mask_row
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
    EOS ids; TypeError, ValueError for what is no id of the vocabulary). They are allowed exactly where the text may end, and are never
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
        if max_rollback_tokens is not None:
            max_rollback_tokens = integer("max_rollback_tokens", max_rollback_tokens, 0, "None or at least 0")
        if not hasattr(grammar, "vocab"):
            raise TypeError(f"a matcher is of a compiled grammar, not of a {type(grammar).__name__}")
        vocab = grammar.vocab
        self._grammar, self._machine, self._masks = grammar, grammar.machine, grammar.masks
        # Stack nodes mean something only in the pool that the masks know; a whole index is of a machine without calls.
        self._lazy = self._masks if isinstance(self._masks, LazyMasks) else None
        self._stacks = self._lazy.stacks if self._lazy else ReturnStacks()
        self._data, self._size = vocab.token_bytes, vocab.size
        self._offsets = memoryview(vocab.token_offsets)  # type: ignore[arg-type]  # its items are Python's integers at once
        self._stop_ids, self._stop_bits, self._stop_texts = StopTokens.of(vocab, stop_token_ids)
        self._markers = frozenset(vocab.markers)
        self._max_rollback = max_rollback_tokens
        self._budget: TokenBudget | None = None
        self._mask: Any = None
        self._data_ptr: Any = None
        self._mask_pointer = 0
        self._mask_index = -1
        self._row, self._row_address = _NO_ROW, _NO_ADDRESS
        self.reset()

    def __repr__(self) -> str:
        where = "ended" if self._terminated else f"in state {self._state}"
        return f"<GrammarMatcher {where} after {self._n_accepted} entries, of {self._grammar!r}>"

    def reset(self) -> None:
        """Back to the beginning, with an empty history."""
        self._state, self._stack, self._terminated = self._machine.start, EMPTY_STACK, False
        self._recording = NOTHING
        self._history: _Entry | None = None
        self._n_accepted = 0
        self._chain_begin = 0  # how many entries were accepted before those in the chain of the history
        self._floor = 0  # and before those that rollback may undo

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
        """Take one token. False, and nothing changes, if it is not allowed: also for ids outside the vocabulary. TypeError for
        what is no integer (numpy's are; True and 1.0 are none).

        A stop token is allowed where the text may end, and terminates the matcher. After that only stop tokens are
        allowed; taking one again changes nothing, not even the history. One that the constraint names (``<|call|>``, say) is
        part of the text where that has it, and terminates the matcher if the text may end after it.

        All that a mask allows is accepted, and nothing else, with one exception: a token that ends an item of an array with
        ``uniqueItems`` and goes on into the next is accepted where the text can go on so, but a mask may leave it out (see
        `fill_next_token_bitmask`).
        """
        if type(token_id) is not int:
            token_id = integer("token_id", token_id)
        if token_id in self._stop_ids:
            if self._terminated:
                return True
            if token_id in self._markers and self._accept(
                self._data, self._offsets[token_id], self._offsets[token_id + 1]
            ):
                self._terminated = self.is_completed()
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
        array = np.frombuffer(byte_string("accept_bytes", data), np.uint8)
        if self._terminated and len(array):
            return False
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
        """How many of these tokens `accept_token` would take, one after the other. The matcher stays where it is.

        A mask may leave out some of them where items have to differ (see `fill_next_token_bitmask`): what a verifier that
        samples from masks can take of a draft, `fill_draft_bitmasks` tells.
        """
        return accepted_prefix(self.fork(), token_ids)

    def rejection(self, token_id: int) -> TokenRejected:
        """The error that says why a token is not allowed, and what is: ``raise matcher.rejection(token_id)``.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"yes", b"yet", b""], eos_token_ids=[2])
        >>> matcher = GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("yes"))
        >>> print(matcher.rejection(1))
        token 1 (b'yet') is not allowed here: after b'ye' comes 's'
        """
        token_id = integer("token_id", token_id)
        if not 0 <= token_id < self._size:
            return TokenRejected(f"token {token_id} is not one of the {self._size} ids of the vocabulary")
        data, probe = self._grammar.vocab.token(token_id), self.fork()
        if token_id in self._stop_ids or not data:
            what = "ends the text" if token_id in self._stop_ids else "is not text (a special token, or padding)"
            return TokenRejected(f"token {token_id} {what}: here comes {self.expected()}")
        read = data[: self.longest_prefix(data)]
        probe.accept_bytes(read)
        where = f"after {read!r}" if read else "here"
        return TokenRejected(f"token {token_id} ({data!r}) is not allowed here: {where} comes {probe.expected()}")

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

        Raises TypeError or ValueError, and nothing changes, if that is no integer, negative, or more than ``rollback_limit``.
        """
        num_tokens = integer("num_tokens", num_tokens)
        if not 0 <= num_tokens <= self.rollback_limit:
            raise ValueError(
                f"cannot roll back {num_tokens} tokens: the history holds {self.rollback_limit}"
                + (f" (max_rollback_tokens={self._max_rollback})" if self._max_rollback is not None else "")
            )
        for _ in range(num_tokens):
            assert self._history is not None
            self._history, self._state, self._stack, self._terminated, self._recording = self._history
        self._n_accepted -= num_tokens

    @property
    def max_rollback_tokens(self) -> int | None:
        """How many entries are kept to be rolled back; None: all."""
        return self._max_rollback

    @property
    def rollback_limit(self) -> int:
        """How many entries can be rolled back now."""
        return self._n_accepted - self._floor

    @property
    def n_entries(self) -> int:
        """How many entries were accepted and not rolled back, within reach of `rollback` or not."""
        return self._n_accepted

    def _remember(self) -> None:
        """Put the present on the history."""
        self._history = (self._history, self._state, self._stack, self._terminated, self._recording)
        self._n_accepted += 1
        most = self._max_rollback
        if most is not None and self._n_accepted - self._floor > most:
            self._floor = self._n_accepted - most
            if self._n_accepted - self._chain_begin > 2 * most:
                self._forget()

    def _forget(self) -> None:
        """Copy the entries within reach, so that the older ones can be freed; forks may still need the old chain.

        It copies as many entries as were added since the last time, or fewer: a constant for each.
        """
        newest = []
        entry = self._history
        for _ in range(self.rollback_limit):
            assert entry is not None
            newest.append(entry[1:])
            entry = entry[0]
        self._history, self._chain_begin = None, self._floor
        for rest in reversed(newest):
            self._history = (self._history, *rest)

    # ---------------------------------------------------------------------------------------------------- where we are

    @property
    def grammar(self) -> CompiledGrammar:
        return self._grammar

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return self._size

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
        array = np.frombuffer(byte_string("longest_prefix", data), np.uint8)
        if self._terminated:
            return 0
        return advance(self._machine, self._stacks, self._state, self._stack, array, recording=self._recording)[3]

    def expected(self) -> str:
        """What may come next, for error messages, see `describe_bytes`."""
        if self._terminated:
            return "nothing (the text has ended)"
        here = self.configuration
        live = [byte for byte in range(256) if self._machine.step(here, byte) is not None]
        return describe_bytes(live, may_end=self.is_completed())

    # --------------------------------------------------------------------------------------------------------- budgets

    def num_tokens_to_complete(self) -> int:
        """How many tokens are enough to complete the text from here, the end token among them; 0 after it.

        Never too few. It is the least number for a machine without calls of up to 256 states; else that of one of the texts
        with the fewest bytes. Raises VocabularyError if no tokens are known that complete the text, LimitExceeded where that
        is too hard to find out.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"aa", b"b", b""], eos_token_ids=[3])
        >>> matcher = GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("a{5}b*"))
        >>> matcher.num_tokens_to_complete(), matcher.accept_token(0), matcher.num_tokens_to_complete()
        (4, True, 3)
        """
        return 0 if self._terminated else len(self.plan_to_complete()) + bool(self._stop_ids)

    def is_far_from(self, max_tokens: int) -> bool:
        """Whether so many tokens are plenty: whichever is next, enough are left. False also where that is not known."""
        max_tokens = integer("max_tokens", max_tokens)
        return self._terminated or self.budget.is_plenty(self.place, max_tokens)

    def plan_to_complete(self, max_tokens: int | None = None) -> tuple[int, ...]:
        """The ids of tokens that complete the text, without an end token: of as few tokens as are known to do so.

        Raises BudgetExceeded if these, and an end token, are more than ``max_tokens``; and what `num_tokens_to_complete` raises.
        """
        plan = () if self._terminated else self.budget.plan(self.place)
        if plan is None:
            raise VocabularyError(
                "no tokens of this vocabulary are known to complete the text from here: are single bytes missing?"
            )
        needed = 0 if self._terminated else len(plan) + bool(self._stop_ids)
        if max_tokens is not None and needed > integer("max_tokens", max_tokens):
            raise BudgetExceeded(max_tokens, needed)
        return plan

    @property
    def budget(self) -> TokenBudget:
        """What is known of shortest completions, shared with other matchers of the grammar."""
        if self._budget is None:
            self._budget = budget_of(self._grammar, self._stacks, self._stop_ids)
        return self._budget

    @property
    def place(self) -> tuple[int, int, Recording]:
        """The machine's state, the stack as a node of the grammar's pool, and what open recorded calls have read."""
        return self._state, self._stack, self._recording

    # ---------------------------------------------------------------------------------------------------------- masks

    def fill_next_token_bitmask(self, mask: Any, index: int = 0, max_tokens: int | None = None) -> None:
        """Write the tokens allowed next into row ``index`` of ``mask``; no other row is touched.

        mask: int32[batch, n_words] as from `allocate_token_bitmask`, or one row int32[n_words]; a numpy array or a torch
        tensor on the CPU. Words past the vocabulary become 0. Stop tokens are allowed exactly where the text may end;
        after termination they are all that is allowed.

        max_tokens: how many tokens may still come, the end token among them. Then only those are allowed after which the
        text can be completed in one fewer: who gives ``n`` and one fewer with each token, ``n`` being no less than
        `num_tokens_to_complete`, always has a token left, and a complete text in at most ``n`` of them. While tokens are
        plenty the mask is the one without a budget. Few tokens may be refused although they would do: where many kinds of
        them have to be tried one by one (items that must differ), only some are.

        A bit is set if and only if the text with that token can be completed, with one exception: a token that ends an item
        which must differ from others (``uniqueItems``), or the name of an undeclared member, *and* goes on into the next may be left
        out, as what may follow depends on the text that it ends. Wherever the text can go on, some shorter token leads there.

        Raises TypeError for another dtype, device or kind of array, ValueError for too few words, IndexError for a row
        that does not exist; BudgetExceeded where ``max_tokens`` are not enough.

        >>> import fsmc
        >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"aa", b"b", b""], eos_token_ids=[3])
        >>> matcher = GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("(a{3})*b"))
        >>> mask = fsmc.allocate_token_bitmask(1, vocab.size)
        >>> matcher.fill_next_token_bitmask(mask, max_tokens=3); f"{mask[0, 0]:04b}"
        '0100'
        >>> matcher.fill_next_token_bitmask(mask, max_tokens=4); f"{mask[0, 0]:04b}"
        '0111'
        """
        if max_tokens is not None and not self.is_far_from(max_tokens := integer("max_tokens", max_tokens)):
            self.plan_to_complete(max_tokens)  # it raises before anything is written
            self.fill_next_token_bitmask(mask, index)
            return keep_within(self, self._row, max_tokens)
        if (
            mask is not self._mask
            or index != self._mask_index
            or type(index) is not int  # True, which equals 1
            or (self._data_ptr is not None and self._data_ptr() != self._mask_pointer)
        ):
            if (
                mask is self._mask
                and type(mask) is np.ndarray
                and mask.ndim == 2
                and type(index) is int
                and 0 <= index < len(mask)
            ):
                self._row = mask[index]  # as the row that was checked, of a draft say
            else:
                self._row = mask_row(mask, index, -(-self._size // 32))
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
