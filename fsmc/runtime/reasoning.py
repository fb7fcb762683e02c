"""The reasoning gate: a constraint that begins after an end-of-thinking marker; before it, every token is allowed.

One decision about the border. The constrained text begins with the first byte after the marker, wherever tokens end: where
a token ends the marker and goes on, the rest of it is the first constrained text, and a token whose rest the constraint
refuses is not allowed. A marker given as token ids ends with its last token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import BudgetExceeded, TokenRejected, VocabularyError
from fsmc.runtime.arguments import integer, integers
from fsmc.runtime.budget import NEVER
from fsmc.runtime.constraint import accepted_prefix
from fsmc.runtime.marker_paths import MarkerPaths
from fsmc.runtime.mask_arrays import mask_row
from fsmc.runtime.matcher import GrammarMatcher

_Entry: TypeAlias = "tuple[_Entry | None, int, bool]"
"""(the entry before, how much of the marker was read, terminated): what a rollback restores while the gate is shut."""


class ReasoningGate:
    """A matcher behind a gate that opens after a marker. It has the methods of `GrammarMatcher`.

    matcher: the constraint; it belongs to the gate from here on, and should not have read anything. end: the marker, as text
    (bytes or str) or as token ids. A text may come in any tokens, also from the middle of one to the middle of another; special
    tokens have no text, so a marker that is one of them is given by its id. reasoning: False opens the gate at once (a model
    that was told not to think).

    Before the marker every id is allowed, end tokens too: a text that ends there has no constrained part, and is terminated but
    not completed. Raises ValueError for an empty marker or an id outside the vocabulary.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"hm", b"</th", b"ink>", b"ink>{", b"ink>[", b"{}", b"}", b""], eos_token_ids=[7])
    >>> grammar = fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex(r"\\{\\}")
    >>> gate = ReasoningGate(fsmc.GrammarMatcher(grammar), "</think>")
    >>> [gate.accept_token(token) for token in (0, 1, 4, 3)], gate.is_reasoning, gate.find_jump_forward_string()
    ([True, True, False, True], False, '}')
    >>> gate.rollback(2); gate.is_reasoning
    True
    """

    def __init__(self, matcher: GrammarMatcher, end: str | bytes | Sequence[int], *, reasoning: bool = True) -> None:
        if not isinstance(matcher, GrammarMatcher):
            raise TypeError(f"a gate is put before a GrammarMatcher, not a {type(matcher).__name__}")
        self._inner = matcher
        self._text: bytes | None = None
        self._ids: tuple[int, ...] | None = None
        if isinstance(end, str):
            self._text = end.encode()
        elif isinstance(end, (bytes, bytearray)):
            self._text = bytes(end)
        else:
            try:
                self._ids = tuple(integers("end", (end,) if end is None else end))
            except TypeError:
                raise TypeError(
                    f"the marker that ends the thinking is a text, as '</think>', or a list of token ids, not {end!r}"
                ) from None
        if not self._marker:
            raise ValueError("an empty marker ends nothing: give the text or the token ids that end the thinking")
        for token_id in self._ids or ():
            if not 0 <= token_id < matcher.vocab_size:
                raise ValueError(
                    f"token {token_id} of the marker is outside the vocabulary of {matcher.vocab_size} ids"
                )
        vocab = matcher.grammar.vocab
        ends = (i for i in matcher.stop_token_ids if self._text is not None and vocab.token(i))
        self._paths = MarkerPaths.of(vocab, self._marker, frozenset(ends))
        self._starts_open = not reasoning
        self._start = matcher.fork()
        self._needed: dict[tuple[int, bool], list[tuple[int, int]]] = {}
        self.reset()

    @property
    def _marker(self) -> bytes | tuple[int, ...]:
        return self._text if self._text is not None else self._ids or ()

    def __repr__(self) -> str:
        return f"<ReasoningGate {'shut' if self.is_reasoning else 'open'}, before {self._inner!r}>"

    # ------------------------------------------------------------------------------------------------ where the gate is

    @property
    def is_reasoning(self) -> bool:
        """Whether the marker is still to come."""
        return not self._is_open

    @property
    def matcher(self) -> GrammarMatcher | None:
        """The constraint, None before the marker: what `fill_bitmask_batch` takes. Do not move it: that is the gate's part."""
        return self._inner if self._is_open else None

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return self._inner.vocab_size

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """The ids that end the text."""
        return self._inner.stop_token_ids

    def reset(self) -> None:
        """Back to the beginning."""
        self._inner = self._start.fork()
        self._history: _Entry | None = None
        self._n_reachable = 0
        self._n_shut = 0  # entries up to the one that opened the gate
        self._n_rest = 0  # whether that one left the matcher an entry
        self._n_read, self._is_open, self._ended_early = 0, self._starts_open, False

    def fork(self) -> ReasoningGate:
        """A gate at the same place, independent from here on."""
        other = object.__new__(ReasoningGate)
        other.__dict__.update(self.__dict__)
        other._inner = self._inner.fork()
        return other

    # ------------------------------------------------------------------------------------------------- going forward

    def accept_token(self, token_id: int) -> bool:
        """Take one token; False, and nothing changes, if it is not allowed."""
        if type(token_id) is not int:
            token_id = integer("token_id", token_id)
        if self._is_open:
            return self._counted(self._inner.accept_token, token_id)
        if not 0 <= token_id < self.vocab_size:
            return False
        if self._ended_early:
            return token_id in self.stop_token_ids
        if token_id in self.stop_token_ids and not (self._ids and token_id in self._ids):
            self._remember()
            self._ended_early = True
            return True
        if self._ids is not None:
            n_read = self._paths.read(self._n_read, (token_id,))[0]
            self._remember()
            self._n_read = n_read
            self._is_open = n_read == len(self._ids)
            return True
        return self._take(self._inner.grammar.vocab.token(token_id))

    def accept_bytes(self, data: bytes) -> bool:
        """Take some text: all of it, or nothing and return False. Text never is part of a marker given as token ids."""
        if self._is_open:
            return self._counted(self._inner.accept_bytes, data)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"accept_bytes takes bytes, not {type(data).__name__}")
        if self._ended_early and data:
            return False
        if self._ids is not None:
            self._remember()
            self._n_read = 0 if data else self._n_read
            return True
        return self._take(bytes(data))

    def _take(self, data: bytes) -> bool:
        n_read, end = self._paths.read(self._n_read, data)
        if n_read == len(self._marker):
            rest = data[end:]
            if rest and not self._inner.accept_bytes(rest):
                return False
            self._n_rest = int(bool(rest))
            self._is_open = True
        self._remember()
        self._n_read = n_read
        return True

    def validate_tokens(self, token_ids: Iterable[int]) -> int:
        """How many of these tokens could be accepted, one after the other. The gate stays where it is."""
        return accepted_prefix(self.fork(), token_ids)

    def rejection(self, token_id: int) -> TokenRejected:
        """The error that says why a token is not allowed, and what is."""
        token_id = integer("token_id", token_id)
        if self._is_open or not 0 <= token_id < self.vocab_size or self._ended_early:
            return (
                self._inner.rejection(token_id)
                if self._is_open
                else TokenRejected(f"token {token_id} is not allowed: here comes {self.expected()}")
            )
        data = self._inner.grammar.vocab.token(token_id)
        rest = data[self._paths.read(self._n_read, data)[1] :]
        probe = self._inner.fork()
        read = rest[: probe.longest_prefix(rest)]
        probe.accept_bytes(read)
        return TokenRejected(
            f"token {token_id} ({data!r}) ends the marker and goes on with {rest!r}, which the constraint does not allow: "
            f"{f'after {read!r}' if read else 'there'} comes {probe.expected()}"
        )

    def find_jump_forward_string(self) -> str:
        """The text that is forced from here: none before the marker."""
        return self._inner.find_jump_forward_string() if self._is_open else ""

    # ----------------------------------------------------------------------------------------------------- going back

    def _remember(self) -> None:
        self._history = (self._history, self._n_read, self._ended_early)
        self._n_shut += 1
        self._reach(1)

    def _counted(self, accept: Callable[[Any], bool], what: Any) -> bool:
        before = self._inner.n_entries
        accepted = accept(what)
        self._reach(self._inner.n_entries - before)
        return accepted

    def _reach(self, n_more: int) -> None:
        """So many more entries can be rolled back, of at most ``max_rollback_tokens``."""
        most = self._inner.max_rollback_tokens
        self._n_reachable += n_more
        if most is not None:
            self._n_reachable = min(self._n_reachable, most)

    @property
    def rollback_limit(self) -> int:
        """How many entries can be rolled back now."""
        if not self._is_open:
            return min(self._n_shut, self._n_reachable)
        inner = self._inner.rollback_limit
        behind = self._inner.n_entries - self._start.n_entries - self._n_rest
        return inner if inner < behind else min(behind + self._n_shut, self._n_reachable)

    def rollback(self, num_tokens: int = 1) -> None:
        """Undo the last entries, the one that opened the gate and those before it too. ValueError, and nothing changes, if
        they are more than ``rollback_limit``."""
        num_tokens = integer("num_tokens", num_tokens)
        if not 0 <= num_tokens <= self.rollback_limit:
            raise ValueError(f"cannot roll back {num_tokens} tokens: the history holds {self.rollback_limit}")
        self._n_reachable -= num_tokens
        if self._is_open:
            behind = self._inner.n_entries - self._start.n_entries - self._n_rest
            if num_tokens <= behind:
                return self._inner.rollback(num_tokens)
            num_tokens -= behind
            self._inner, self._is_open, self._n_rest = self._start.fork(), False, 0
        for _ in range(num_tokens):
            assert self._history is not None
            self._history, self._n_read, self._ended_early = self._history
        self._n_shut -= num_tokens

    # ---------------------------------------------------------------------------------------------------- where we are

    def is_completed(self) -> bool:
        """Whether the constrained text may end here."""
        return self._is_open and self._inner.is_completed()

    def is_terminated(self) -> bool:
        """Whether an end token was taken, also before the marker."""
        return self._inner.is_terminated() if self._is_open else self._ended_early

    def expected(self) -> str:
        """What may come next, for error messages."""
        if self._is_open:
            return self._inner.expected()
        return "nothing (the text has ended)" if self._ended_early else "anything, up to the end of the thinking"

    def num_tokens_to_complete(self) -> int:
        """How many tokens are enough to write what is left of the marker, and the constrained text."""
        if self._is_open:
            return self._inner.num_tokens_to_complete()
        if self._ended_early:
            return 0
        return int(self._paths.costs[self._n_read]) + self._inner.num_tokens_to_complete()

    def is_far_from(self, max_tokens: int) -> bool:
        """Whether so many tokens are plenty, see `GrammarMatcher.is_far_from`."""
        max_tokens = integer("max_tokens", max_tokens)
        if self._is_open:
            return self._inner.is_far_from(max_tokens)
        if self._ended_early:
            return True
        needed = self._paths.worst + self._inner.num_tokens_to_complete()
        return needed < max_tokens and self._refused(max_tokens - 1) == self._refused(None)

    # ---------------------------------------------------------------------------------------------------------- masks

    def fill_next_token_bitmask(self, mask: Any, index: int = 0, max_tokens: int | None = None) -> None:
        """Write the tokens allowed next into row ``index``, see `GrammarMatcher.fill_next_token_bitmask`.

        max_tokens: the text is to be complete, so that end tokens are not allowed before the marker, and no token after which what
        is left of the marker, and the shortest constrained text, would take more tokens than are left.
        """
        if self._is_open:
            return self._inner.fill_next_token_bitmask(mask, index, max_tokens)
        if max_tokens is not None:
            max_tokens = integer("max_tokens", max_tokens)
        row = mask_row(mask, index, -(-self.vocab_size // 32))
        words = row.view(np.uint32)
        if self._ended_early:
            row.fill(0)
            for token_id in self.stop_token_ids:
                words[token_id >> 5] |= np.uint32(1 << (token_id & 31))
            return
        allowed: npt.NDArray[np.bool_] | None = None  # None: all
        refused = self._refused(None)
        if max_tokens is not None:
            inside = self._inner.num_tokens_to_complete()
            paths, room = self._paths, max_tokens - 1 - inside
            if paths.costs[self._n_read] > room + 1:
                raise BudgetExceeded(max_tokens, int(paths.costs[self._n_read]) + inside)
            if paths.worst > room:
                allowed = (paths.costs <= room)[paths.after(self._n_read)]
            of_marker = self._ids or ()
            refused = self._refused(max_tokens - 1) + [token for token in self.stop_token_ids if token not in of_marker]
        row.fill(-1)
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            row.view(np.uint8)[: len(bits)] = bits
        for token_id in refused:
            words[token_id >> 5] &= ~np.uint32(1 << (token_id & 31))
        last, n_used = divmod(self.vocab_size, 32)  # ids that do not exist are never allowed
        if n_used:
            words[last] &= np.uint32((1 << n_used) - 1)
        row[-(-self.vocab_size // 32) :] = 0

    def _refused(self, n_left: int | None) -> list[int]:
        """The tokens that end the marker and go on with what the constraint refuses, or what leaves it too few tokens."""
        if self._text is None:
            return []
        key = self._n_read, n_left is not None
        if key not in self._needed:
            ending = np.flatnonzero(self._paths.after(self._n_read) == len(self._text)).tolist()
            self._needed[key] = [self._needed_after(x, key[1]) for x in ending if x not in self.stop_token_ids]
        return [token_id for token_id, needed in self._needed[key] if needed > (n_left or 0)]

    def _needed_after(self, token_id: int, counts: bool) -> tuple[int, int]:
        """The token, and how many tokens (where that ``counts``, else none) the constraint needs after it; NEVER if it refuses it."""
        data = self._inner.grammar.vocab.token(token_id)
        _, end = self._paths.read(self._n_read, data)
        if end == len(data):
            return token_id, 0  # as any other token: the constraint begins with the next one
        probe = self._inner.fork()
        if not probe.accept_bytes(data[end:]):
            return token_id, NEVER
        try:
            return token_id, probe.num_tokens_to_complete() if counts else 0
        except VocabularyError:  # no tokens are known to complete it
            return token_id, NEVER
