"""What a constraint forces, as tokens: the two rules of jump-forward, for one request (see `generation`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fsmc.compiler.errors import TokenRejected
from fsmc.compiler.tokens.vocabulary import Vocabulary
from fsmc.jumpforward.retokenize import Retokenized, Retokenizer
from fsmc.runtime.bitmask import allocate_token_bitmask, pack_token_bitmask, unpack_token_bitmask

Jump = Literal["canonical", "exact", "off"]


class Matcher(Protocol):
    """What jumps ask of a constraint's matcher."""

    def find_jump_forward_string(self) -> str: ...
    def accept_bytes(self, data: bytes) -> bool: ...
    def is_completed(self) -> bool: ...
    def fill_next_token_bitmask(self, mask: npt.NDArray[np.int32]) -> None: ...


class Jumped(NamedTuple):
    """The ids after a jump; how many of the old ones stay as they are, in front; the text that was forced."""

    ids: list[int]
    kept: int
    forced: bytes


class Jumps:
    """The forced text of one request. matcher: where its constraint stands. stop_token_ids: what ends its text."""

    def __init__(
        self, matcher: Matcher, vocab: Vocabulary, retokenizer: Retokenizer, stop_token_ids: Iterable[int]
    ) -> None:
        self._matcher, self._vocab, self._retokenizer = matcher, vocab, retokenizer
        self._mask = allocate_token_bitmask(1, vocab.size)
        self._only_stops = pack_token_bitmask(np.isin(np.arange(vocab.size), sorted(stop_token_ids)))

    def only_the_end_may_follow(self) -> bool:
        """Whether the text is complete and cannot go on, so that asking the model would be a wasted pass."""
        if not self._matcher.is_completed():
            return False
        self._matcher.fill_next_token_bitmask(self._mask)
        return bool((self._mask[0] == self._only_stops).all())

    def draft(self, room: int) -> list[int]:
        """The tokens of the forced text, at most ``room``. The matcher stays where it is."""
        forced = self._matcher.find_jump_forward_string()
        return self._retokenizer.tokenize(forced)[:room] if forced and room > 0 else []

    def jump(self, ids: Sequence[int], max_tokens: int) -> Jumped | None:
        """Append what the constraint forces to ``ids``, and cut the last tokens afresh; None if nothing is forced.

        The matcher takes the forced text. There are at most ``max_tokens`` ids in the end: the forced text is cut where
        there is no room for more.
        """
        forced = self._matcher.find_jump_forward_string().encode()
        if not forced:
            return None
        new = self._retokenizer(ids, forced)
        if len(new.ids) > max_tokens:  # no room: old tokens stay, as the text that is out must not shrink
            added = self._retokenizer.tokenize(forced)[: max_tokens - len(ids)]
            new = Retokenized([*ids, *added], len(ids))
            forced = b"".join(map(self._vocab.text, added))
        n_open = self._bytes_left_open(new.ids[-1], forced) if forced else 0
        self._accept(forced[: len(forced) - n_open])
        if n_open and self._some_allowed_token_is_longer(n_open):
            return Jumped(new.ids[:-1], min(new.kept, len(new.ids) - 1), forced[:-n_open])
        self._accept(forced[len(forced) - n_open :])
        return Jumped(new.ids, new.kept, forced)

    def _bytes_left_open(self, last_token: int, forced: bytes) -> int:
        """The length of the last token after a jump if it may be left to the model, else 0.

        Behind ``name: `` a model would rather write `` Ann`` in one token than a lone space and ``Ann``. Only white space
        is worth it: other tokens are as likely to be cut where the forced text ends, and one left open costs a pass.
        """
        token = self._vocab.text(last_token)
        is_text = 0 < len(token) <= len(forced) and token[0] & 0xC0 != 0x80
        return len(token) if is_text and forced.decode(errors="replace")[-1].isspace() else 0

    def _some_allowed_token_is_longer(self, length: int) -> bool:
        """Whether a token that may come next has more bytes. Where ``length`` bytes are forced, it begins with them."""
        self._matcher.fill_next_token_bitmask(self._mask)
        allowed = unpack_token_bitmask(self._mask[0], self._vocab.size)
        return bool((np.diff(self._vocab.token_offsets)[allowed] > length).any())

    def _accept(self, forced: bytes) -> None:
        if forced and not self._matcher.accept_bytes(forced):
            raise TokenRejected(f"the constraint forces {forced!r} but does not accept it")
