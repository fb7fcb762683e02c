"""The difference walk: a state's mask row from a similar state's, visiting only where the trie can tell them apart.

Walking the whole trie from a state that allows nearly everything takes 1.4 ms (128,000 tokens), and a counter such as
``.{0,1000}`` has thousands of such states, which differ only for the few tokens longer than what remains. So two
states are walked *side by side*, from one's row to the other's, and a subtree is passed over when

- both went to the same state;
- both agree on all words as long as the subtree is high: ``partition_history``, computed once per machine, has
  the block of each state for words up to each length;
- both stay where they are on all byte groups below (`byte_groups`);
- one is dead: the whole range of ranks is cleared, or, where the other stays as it is, set.

A row from scratch is the same walk beside DEAD, whose row is empty.
"""

from __future__ import annotations

import numpy as np

from fsmc.compiler.automata.dfa import DEAD, Array
from fsmc.compiler.tokens.mask_rows import ALLOWED, BITS, FORBIDDEN
from fsmc.jit import kernel

CURSOR_SIZE = 5
NEXT, PREVIOUS, PREVIOUS_ROW, N_ROWS, N_STORED = range(CURSOR_SIZE)
"""Places in the cursor of `index_rows`: position in ``order``; state and row index (-1 before the first) of the state
before it; rows and words of ``stored`` written so far."""

HASH, N_ALLOWED, N_CHANGES = 0, 1, 2
"""Places in the digest of a row: the XOR of its words' hashes, its set bits, how many words were ever changed."""

_WORD, _SIGN = 0xFFFFFFFF, 0x80000000


@kernel
def index_rows(
    delta: Array, byte_class: Array, loops: Array, history: Array,
    byte: Array, depth: Array, end: Array, token_start: Array, first: Array, groups: Array, level: Array,
    order: Array, n_tokens: int, n_words: int, max_ids: int, row: Array, digest: Array, path: Array,
    table: Array, row_hash: Array, row_kind: Array, row_start: Array, stored: Array, row_of: Array, cursor: Array,
    budget: int,
) -> None:  # fmt: skip
    """Rows of the states in ``order``, each from the one before, equal rows stored once; at most ``budget`` states.

    The first two lines and row, digest, path are those of `_difference_walk`. n_words: of a mask row; max_ids: see `mask_rows`.
    table: int32[power of two], open-addressed by hash: row index or -1. row_hash: int64, row_kind: uint8, row_start: int64, the
    rows so far (row_start has one more); stored: int32, their ranks, or words of rank bits. row_of: int32[n_states] gets
    the row of each state of ``order``.
    Goes on where ``cursor`` says, and comes back when the budget is spent or ``stored`` may be too small for another row.
    """
    for _ in range(budget):
        if cursor[NEXT] == len(order) or cursor[N_STORED] + n_words > len(stored):
            return
        state = order[cursor[NEXT]]
        changes = digest[N_CHANGES]
        _difference_walk(
            delta, byte_class, loops, history, byte, depth, end, token_start, first, groups, level,
            state, cursor[PREVIOUS], row, digest, path,
        )  # fmt: skip
        found = cursor[PREVIOUS_ROW]
        if digest[N_CHANGES] != changes or found < 0:
            slot = digest[HASH] & (len(table) - 1)
            while True:
                found = table[slot]
                if found < 0:
                    found = cursor[N_ROWS]
                    start = cursor[N_STORED]
                    kind, size = store_ranks(row, digest[N_ALLOWED], n_tokens, n_words, max_ids, stored, start)
                    table[slot] = found
                    row_hash[found], row_kind[found] = digest[HASH], kind
                    row_start[found + 1] = start + size
                    cursor[N_ROWS] += 1
                    cursor[N_STORED] += size
                    break
                if row_hash[found] == digest[HASH] and _is_stored(
                    row, digest[N_ALLOWED], n_tokens, row_kind[found], stored, row_start[found], row_start[found + 1]
                ):
                    break
                slot = (slot + 1) & (len(table) - 1)
        row_of[state] = found
        cursor[PREVIOUS] = state
        cursor[PREVIOUS_ROW] = found
        cursor[NEXT] += 1


@kernel
def _difference_walk(
    delta: Array, byte_class: Array, loops: Array, history: Array,
    byte: Array, depth: Array, end: Array, token_start: Array, first: Array, groups: Array, level: Array,
    state: int, neighbour: int, row: Array, digest: Array, path: Array,
) -> None:  # fmt: skip
    """Turn ``row``, the rank bits of ``neighbour``, into those of ``state``.

    loops: int64[n_states], see `byte_groups`; history: int32[n_levels, n_states]; then arrays of the `TokenTrie`.
    row: int32[ceil(n_tokens / 32)]; digest: int64[3]; path: int32[height + 1, 3], scratch: after each depth the two
    states and the last level to which they agree. It is left as it is when the walk goes on with a sibling, which mostly leads to the
    same two states. The flips of a word are gathered and made at once: along the walk ranks only grow.
    """
    word = flips = np.int64(0)
    path[0, 0], path[0, 1] = state, neighbour
    for lead in range(256):
        top = first[lead]
        if top < 0 or delta[state, byte_class[lead]] == delta[neighbour, byte_class[lead]]:
            continue
        node, stop = top, end[top]
        while node < stop:
            d = depth[node]
            c = byte_class[byte[node]]
            q, p = delta[path[d - 1, 0], c], delta[path[d - 1, 1], c]
            below = end[node]
            if q == p:
                node = below
                continue
            if q != DEAD and p != DEAD:
                if below == node + 1:
                    node = below
                    continue
                if path[d, 0] != q or path[d, 1] != p:
                    agreed = 0
                    while agreed + 1 < len(history) and history[agreed + 1, q] == history[agreed + 1, p]:
                        agreed += 1
                    path[d, 0], path[d, 1], path[d, 2] = q, p, agreed
                if level[node] <= path[d, 2] or groups[node] & ~(loops[q] & loops[p]) == 0:
                    node = below
                    continue
                node += 1
                continue
            whole = q == DEAD or groups[node] & ~loops[q] == 0  # decided for all below, not only for the tokens here
            low, high = token_start[node], token_start[below if whole else node + 1]
            if low < high:
                value = 0 if q == DEAD else -1
                for w in range(low >> 5, (high + 31) >> 5):
                    if w != word:
                        if flips != 0:
                            _flip(row, digest, word, flips)
                        word, flips = w, np.int64(0)
                    changed = np.int64(row[w] ^ value) & _WORD
                    if w << 5 < low:
                        changed &= np.int64(_WORD) << (low & 31)
                    if (w + 1) << 5 > high:
                        changed &= (np.int64(1) << (high & 31)) - 1
                    flips |= changed
            if whole:
                node = below
                continue
            path[d, 0], path[d, 1], path[d, 2] = q, p, -1
            node += 1
    if flips != 0:
        _flip(row, digest, word, flips)


@kernel
def _flip(row: Array, digest: Array, word: int, flips: int) -> None:
    """Flip bits of one word and keep the digest up."""
    before = row[word]
    row[word] = (((before ^ flips) & _WORD) ^ _SIGN) - _SIGN  # as int32: its bit 31 is the sign
    digest[HASH] ^= _scramble(word, before) ^ _scramble(word, row[word])
    digest[N_ALLOWED] += _count_bits(row[word]) - _count_bits(before)
    digest[N_CHANGES] += 1


@kernel
def _scramble(word: int, bits: int) -> int:
    """A 64-bit hash of one word of a row and its place; an empty word counts nothing."""
    if bits == 0:
        return 0
    x = ((np.int64(word) << 32) ^ (np.int64(bits) & _WORD)) * np.int64(0x1E3779B97F4A7C15)
    x ^= (x >> 29) & 0x7FFFFFFFF
    x *= np.int64(0x3F58476D1CE4E5B9)
    return int(x ^ ((x >> 32) & _WORD))


@kernel
def _count_bits(word: int) -> int:
    """Bits set in an int32 (the pattern that LLVM turns into one POPCNT)."""
    x = np.int64(word) & _WORD
    x -= (x >> 1) & 0x55555555
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return int((x * 0x01010101) >> 24 & 0xFF)


@kernel
def _is_stored(row: Array, n_allowed: int, n_tokens: int, kind: int, stored: Array, start: int, stop: int) -> bool:
    """Whether ``stored[start:stop]``, of the given kind, has exactly the bits of ``row``."""
    if kind == BITS:
        for w in range(len(row)):  # noqa: SIM110 (a generator is slow to compile)
            if stored[start + w] != row[w]:
                return False
        return True
    if stop - start != (n_allowed if kind == ALLOWED else n_tokens - n_allowed):
        return False
    bit = 1 if kind == ALLOWED else 0
    for i in range(start, stop):  # noqa: SIM110
        if row[stored[i] >> 5] >> (stored[i] & 31) & 1 != bit:
            return False
    return True


@kernel
def store_ranks(
    row: Array, n_allowed: int, n_tokens: int, n_words: int, max_ids: int, stored: Array, start: int
) -> tuple[int, int]:
    """Write a row of rank bits, ``n_allowed`` of them set, to ``stored`` from ``start``. Returns its kind and size."""
    kind = ALLOWED if n_allowed <= max_ids else FORBIDDEN if n_tokens - n_allowed <= max_ids else BITS
    if kind == BITS:
        for w in range(n_words):
            stored[start + w] = row[w] if w < len(row) else 0
        return kind, n_words
    size = 0
    for w in range(len(row)):
        bits = np.int64(row[w]) & _WORD
        if kind == FORBIDDEN:
            bits ^= _WORD
        if bits != 0:
            for rank in range(w << 5, (w + 1) << 5):
                if rank < n_tokens and bits >> (rank & 31) & 1:
                    stored[start + size] = rank
                    size += 1
    return kind, size


@kernel
def ranks_to_ids(
    row_kind: Array, row_start: Array, stored: Array, token_ids: Array, all_tokens: Array, scratch: Array
) -> None:
    """Rewrite rows that `store_ranks` wrote, from ranks to token ids, in place. all_tokens, scratch: int32[n_words].

    Bits go to scattered places, a nanosecond each: a row that is mostly full is made from that of all tokens.
    """
    for r in range(len(row_kind)):
        start = row_start[r]
        if row_kind[r] != BITS:
            for i in range(start, row_start[r + 1]):
                stored[i] = token_ids[stored[i]]
            continue
        more_full = 0
        for w in range(len(scratch)):
            scratch[w] = stored[start + w]
            if scratch[w] == -1:
                more_full += 1
            elif scratch[w] == 0:
                more_full -= 1
        for w in range(len(scratch)):
            stored[start + w] = all_tokens[w] if more_full > 0 else 0
        for w in range((len(token_ids) + 31) >> 5):
            bits = np.int64(scratch[w]) & _WORD
            if more_full > 0:
                bits ^= _WORD
            if bits != 0:
                for rank in range(w << 5, (w + 1) << 5):
                    if rank < len(token_ids) and bits >> (rank & 31) & 1:
                        token = token_ids[rank]
                        stored[start + (token >> 5)] ^= np.int32(1) << np.int32(token & 31)


@kernel
def order_along_splits(history: Array, states: Array, order: Array, scratch: Array, counts: Array) -> None:
    """Sort ``states`` by their blocks in the first round, then the second, …: neighbours agree as long as can be.

    A radix sort from the last round to the first, each pass by counting. order, scratch: int32[n]; counts: int32[n_blocks + 1].
    """
    for i in range(len(states)):
        order[i] = states[i]
    for r in range(len(history) - 1, -1, -1):
        for b in range(len(counts)):
            counts[b] = 0
        for i in range(len(order)):
            scratch[i] = order[i]
            counts[history[r, order[i]] + 1] += 1
        for b in range(1, len(counts)):
            counts[b] += counts[b - 1]
        for i in range(len(order)):
            b = history[r, scratch[i]]
            order[counts[b]] = scratch[i]
            counts[b] += 1
