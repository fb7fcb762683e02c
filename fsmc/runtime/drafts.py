"""Masks for speculative decoding: a row for where the text is, and one for each token of a draft that is to be checked.

A draft of k tokens, a chain or a tree, takes 1 + k rows. Those that follow a token the constraint refuses allow nothing:
a verifier can neither accept such a token nor sample after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fsmc.runtime.arguments import LARGEST_TOKEN_ID, integer, integers, shown
from fsmc.runtime.mask_arrays import mask_rows

if TYPE_CHECKING:
    from fsmc.runtime.constraint import Constraint


def fill_draft_bitmasks(
    matcher: Constraint,
    draft: Sequence[int],
    mask: Any,
    first_row: int = 0,
    *,
    parents: Sequence[int] | None = None,
    max_tokens: int | None = None,
) -> npt.NDArray[np.bool_]:
    """Write 1 + k rows of ``mask`` for a draft of k tokens; the matcher stays where it is.

    Row ``first_row`` is what the matcher allows now, row ``first_row + 1 + i`` what comes after ``draft[i]``: nothing, if that
    token or one before it is not allowed. After an end token only end tokens are allowed.

    draft: token ids; any others, such as -1 for padding, are tokens that are not allowed. parents: for a tree, of each
    token the place in the draft of the token that it follows, or -1 where it comes first; a token follows one that
    stands before it. None: a chain. max_tokens: how many tokens the whole text may still have, see
    `GrammarMatcher.fill_next_token_bitmask`; those of a path count. mask: int32[batch, n_words] as from `allocate_token_bitmask`.

    Returns bool[k]: which tokens the rows allow, with all those before them (where items have to differ these may be fewer than
    `GrammarMatcher.validate_tokens` would take: see `GrammarMatcher.fill_next_token_bitmask`). Raises ValueError for parents that do not
    fit, IndexError for rows that do not exist, before anything is written; and what filling a mask raises.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    >>> matcher = fsmc.GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("a?b"))
    >>> mask = fsmc.allocate_token_bitmask(4, vocab.size)
    >>> fill_draft_bitmasks(matcher, [0, 0, 1], mask).tolist(), [f"{word & 7:03b}" for word in mask[:, 0]]
    ([True, False, False], ['011', '010', '000', '000'])
    >>> fill_draft_bitmasks(matcher, [0, 1, 1], mask, parents=[-1, 0, -1]).tolist(), [f"{word & 7:03b}" for word in mask[:, 0]]
    ([True, True, True], ['011', '010', '100', '100'])
    """
    _check_is_matcher(matcher)
    draft = integers("draft", draft)
    k = len(draft)
    before = _checked_parents(parents, k)
    first_row = integer("first_row", first_row)
    rows = mask_rows(mask, -(-matcher.vocab_size // 32))
    if not (first_row >= 0 and first_row + k < len(rows)):
        raise IndexError(
            f"a draft of {k} tokens needs rows {first_row} to {first_row + k}; the mask has {len(rows)} rows"
        )
    rows = rows[first_row : first_row + 1 + k]
    matcher.fill_next_token_bitmask(rows, 0, max_tokens=max_tokens)
    valid = np.zeros(k, np.bool_)
    n_children = np.bincount(before + 1, minlength=k + 1).tolist()
    probes: list[Constraint | None] = [matcher.fork() if k else None]  # by row; None when nobody needs it any more
    lengths = [0]
    for i, token_id in enumerate(draft):
        parent = int(before[i]) + 1
        probe = probes[parent]
        lengths.append(lengths[parent] + 1)
        n_children[parent] -= 1
        if n_children[parent]:
            probe = probe.fork() if probe is not None else None
        else:
            probes[parent] = None  # the last child may have it
        is_id = 0 <= token_id < matcher.vocab_size
        if probe is None or not is_id or not rows[parent, token_id >> 5] >> (token_id & 31) & 1:
            probes.append(None)
            rows[1 + i].fill(0)
            continue
        valid[i] = probe.accept_token(token_id)
        assert valid[i], f"token {token_id} is allowed"
        probe.fill_next_token_bitmask(rows, 1 + i, None if max_tokens is None else max_tokens - lengths[-1])
        probes.append(probe)
    return valid


def _check_is_matcher(matcher: Any) -> None:
    if not hasattr(matcher, "vocab_size"):
        raise TypeError(f"drafts are judged by a matcher, not by a {type(matcher).__name__}")


def _checked_parents(parents: Sequence[int] | None, k: int) -> npt.NDArray[np.int64]:
    if parents is None:
        return np.arange(-1, k - 1)
    before = integers("parents", parents)
    if len(before) != k:
        raise ValueError(f"a draft of {k} tokens has as many parents, not {len(before)}")
    for i, parent in enumerate(before):
        if not -1 <= parent < i:
            raise ValueError(
                f"parents[{i}]={shown(parent)}: a token follows one that stands before it in the draft, or -1"
            )
    return np.array(before, np.int64)


@dataclass(frozen=True)
class RowLayout:
    """Which rows belong to which request, in a batch whose requests bring drafts of different lengths.

    The model gives 1 + k rows of logits for a request with a draft of k tokens, requests one after the other. The mask has
    rows for the constrained requests only.

    logit_start, mask_start: int64[n + 1], where the rows of request ``i`` begin; those of the mask are none (the next one
    begins there too) where it is not constrained.

    >>> layout = RowLayout.of([2, 0, 1], constrained=[True, True, False])
    >>> layout.logit_rows(2), layout.mask_rows(0), layout.mask_rows(2), layout.n_mask_rows
    (range(4, 6), range(0, 3), range(4, 4), 4)
    >>> layout.masked_logit_rows.tolist()
    [0, 1, 2, 3]
    """

    logit_start: npt.NDArray[np.int64]
    mask_start: npt.NDArray[np.int64]

    @classmethod
    def of(cls, draft_lengths: Sequence[int], constrained: Sequence[bool] | None = None) -> RowLayout:
        """The layout of requests with drafts of these lengths. ValueError for a negative one, or as many flags as not."""
        given = integers("draft_lengths", draft_lengths)
        for length in given:
            if not 0 <= length <= LARGEST_TOKEN_ID:
                raise ValueError(f"a draft cannot have {shown(length)} tokens")
        lengths = np.array(given, np.int64)
        flags = np.ones(len(lengths), np.bool_) if constrained is None else np.array(constrained, np.bool_)
        if flags.shape != lengths.shape:
            raise ValueError(f"{len(lengths)} requests need as many flags, not {flags.size}")
        starts = np.zeros((2, len(lengths) + 1), np.int64)
        np.cumsum(1 + lengths, out=starts[0, 1:])
        np.cumsum((1 + lengths) * flags, out=starts[1, 1:])
        starts.setflags(write=False)
        return cls(starts[0], starts[1])

    @property
    def n_logit_rows(self) -> int:
        return int(self.logit_start[-1])

    @property
    def n_mask_rows(self) -> int:
        return int(self.mask_start[-1])

    def logit_rows(self, request: int) -> range:
        """The rows of logits of a request: after the text so far, and after each token of its draft."""
        return range(int(self.logit_start[request]), int(self.logit_start[request + 1]))

    def mask_rows(self, request: int) -> range:
        """Its rows of the mask; none if it is not constrained."""
        return range(int(self.mask_start[request]), int(self.mask_start[request + 1]))

    @property
    def masked_logit_rows(self) -> npt.NDArray[np.int64]:
        """int64[n_mask_rows]: the row of logits that each row of the mask is for."""
        shift = np.repeat(self.logit_start[:-1] - self.mask_start[:-1], np.diff(self.mask_start))
        rows: npt.NDArray[np.int64] = shift + np.arange(self.n_mask_rows)
        return rows

    def spread(self, mask: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """A mask with a row for each row of logits, all bits set where nothing is constrained: what `apply_token_bitmask_inplace`
        takes without ``indices``. mask: int32[at least n_mask_rows, n_words]. IndexError for fewer rows."""
        if len(mask) < self.n_mask_rows:
            raise IndexError(f"these drafts need {self.n_mask_rows} rows; the mask has {len(mask)}")
        out = np.full((self.n_logit_rows, mask.shape[1]), -1, np.int32)
        out[self.masked_logit_rows] = mask[: self.n_mask_rows]
        return out


def fill_draft_bitmask_batch(
    matchers: Sequence[Constraint | None], drafts: Sequence[Sequence[int]], mask: Any
) -> tuple[RowLayout, list[npt.NDArray[np.bool_]]]:
    """The rows of a batch, each request with a chain of its own; where the rows are, and which tokens are allowed.

    matchers: None for a request that is not constrained, which has no rows and whose tokens are all allowed. mask: int32 with at
    least ``RowLayout.n_mask_rows`` rows, see `fill_draft_bitmasks`.

    >>> import fsmc
    >>> vocab = fsmc.Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    >>> matcher = fsmc.GrammarMatcher(fsmc.GrammarCompiler(vocab, cache_dir=None).compile_regex("ab"))
    >>> mask = fsmc.allocate_token_bitmask(3, vocab.size)
    >>> layout, valid = fill_draft_bitmask_batch([None, matcher], [[1], [0, 0]], mask)
    >>> layout.masked_logit_rows.tolist(), [flags.tolist() for flags in valid]
    ([2, 3, 4], [[True], [True, False]])
    """
    if len(matchers) != len(drafts):
        raise ValueError(f"{len(matchers)} requests need as many drafts, not {len(drafts)}")
    for matcher in matchers:
        if matcher is not None:
            _check_is_matcher(matcher)
    layout = RowLayout.of([len(draft) for draft in drafts], [matcher is not None for matcher in matchers])
    n_words = max((-(-matcher.vocab_size // 32) for matcher in matchers if matcher is not None), default=0)
    n_rows = len(mask_rows(mask, n_words))
    if n_rows < layout.n_mask_rows:
        raise IndexError(f"these drafts need {layout.n_mask_rows} rows; the mask has {n_rows}")
    valid = []
    for i, (matcher, draft) in enumerate(zip(matchers, drafts, strict=True)):
        if matcher is None:
            valid.append(np.ones(len(draft), np.bool_))
        else:
            valid.append(fill_draft_bitmasks(matcher, draft, mask, layout.mask_rows(i).start))
    return layout, valid
