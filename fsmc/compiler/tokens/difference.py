"""The difference walk: a state's mask row from a similar state's, visiting only where the trie can tell them apart.

Walking the whole trie from a state that allows nearly everything takes 1.4 ms (128,000 tokens), and a counter such as
``.{0,1000}`` has thousands of such states, which differ only for the few tokens longer than what remains. So two
states are walked *side by side*, from one's row to the other's, and a subtree is passed over when

- both went to the same state;
- both agree on all words as long as the subtree is high: ``partition_history``, computed once per machine, has
  the block of each state for words up to each length;
- both stay where they are on all byte groups below (`byte_groups`);
- one is dead: the whole range of ranks is cleared.

A row from scratch is the same walk beside DEAD, whose row is empty.
"""

from __future__ import annotations

import numpy as np

from fsmc.jit import kernel

CURSOR_SIZE = 5
NEXT, PREVIOUS, PREVIOUS_ROW, N_ROWS, N_STORED = range(CURSOR_SIZE)
"""Places in `index_rows`'s cursor: position in ``order``; state and row index of the state before it; rows and words of
``stored`` written so far."""


@kernel
def _count_bits(word):  # type: ignore[no-untyped-def]
    """Bits set in an int32 (the pattern that LLVM turns into one POPCNT)."""
    x = np.int64(word) & 0xFFFFFFFF
    x -= (x >> 1) & 0x55555555
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24) & 0xFF


@kernel
def _scramble(word, bits):  # type: ignore[no-untyped-def]
    """A 64-bit hash of one word of a row and its place; an empty word counts nothing. A row's hash is their XOR."""
    if bits == 0:
        return np.int64(0)
    x = ((np.int64(word) << 32) ^ (np.int64(bits) & 0xFFFFFFFF)) * np.int64(0x1E3779B97F4A7C15)
    x ^= (x >> 29) & 0x7FFFFFFFF
    x *= np.int64(0x3F58476D1CE4E5B9)
    return x ^ ((x >> 32) & 0xFFFFFFFF)


@kernel
def _flip(row, digest, word, flips):  # type: ignore[no-untyped-def]
    """Flip bits of one word, keeping up the digest: hash of the row, number of bits, number of words ever changed."""
    before = row[word]
    row[word] = before ^ flips
    digest[0] ^= _scramble(word, before) ^ _scramble(word, row[word])
    digest[1] += _count_bits(row[word]) - _count_bits(before)
    digest[2] += 1


@kernel
def _fill_range(row, digest, low, high, value):  # type: ignore[no-untyped-def]
    """Set all bits of the ranks low … high - 1 to ``value`` (0 or -1)."""
    for word in range(low >> 5, (high + 31) >> 5):
        mask = np.int64(0xFFFFFFFF)
        if word << 5 < low:
            mask &= np.int64(0xFFFFFFFF) << (low & 31)
        if (word + 1) << 5 > high:
            mask &= np.int64(0xFFFFFFFF) >> (((word + 1) << 5) - high)
        flips = (row[word] ^ value) & mask
        if flips != 0:
            _flip(row, digest, word, flips)


@kernel
def difference_walk(
    delta, byte_class, loops, history,
    byte, depth, end, token_start, first, groups, level,
    state, neighbour, row, digest, path,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Turn ``row``, the rank bits of ``neighbour``, into those of ``state``.

    loops: int64[n_states], see `byte_groups`; history: int32[n_levels, n_states]; then arrays of the `TokenTrie`.
    row: int32[ceil(n_tokens / 32)]; digest: int64[3], see `_flip`; path: int32[height + 1, 2], scratch: the two states
    after each depth. Flips are gathered per word, because ranks only ever grow along the walk.
    """
    word, flips = 0, np.int64(0)
    path[0, 0], path[0, 1] = state, neighbour
    for lead in range(256):
        node = first[lead]
        if node < 0 or delta[state, byte_class[lead]] == delta[neighbour, byte_class[lead]]:
            continue
        stop = end[node]
        while node < stop:
            d = depth[node]
            c = byte_class[byte[node]]
            q, p = delta[path[d - 1, 0], c], delta[path[d - 1, 1], c]
            below = end[node]
            if q == p:
                node = below
                continue
            if q != 0 and p != 0:
                if (
                    below == node + 1
                    or history[level[node], q] == history[level[node], p]
                    or groups[node] & ~(loops[q] & loops[p]) == 0
                ):
                    node = below
                    continue
            elif q == 0 or (below != node + 1 and groups[node] & ~loops[q] == 0):
                if flips != 0:
                    _flip(row, digest, word, flips)
                    flips = np.int64(0)
                _fill_range(row, digest, token_start[node], token_start[below], 0 if q == 0 else -1)
                node = below
                continue
            else:
                for rank in range(token_start[node], token_start[node + 1]):
                    if rank >> 5 != word:
                        if flips != 0:
                            _flip(row, digest, word, flips)
                        word, flips = rank >> 5, np.int64(0)
                    flips |= np.int64(1) << (rank & 31)
            path[d, 0], path[d, 1] = q, p
            node += 1
    if flips != 0:
        _flip(row, digest, word, flips)


@kernel
def _same_row(kind, size, stored, start, row, n_set, n_tokens):  # type: ignore[no-untyped-def]
    """Whether the stored row at ``start`` (ranks or words, see `index_rows`) has exactly the bits of ``row``."""
    if kind == 2:
        for w in range(len(row)):
            if stored[start + w] != row[w]:
                return False
        return True
    if size != (n_set if kind == 0 else n_tokens - n_set):
        return False
    for i in range(start, start + size):
        if (row[stored[i] >> 5] >> (stored[i] & 31) & 1) == kind:
            return False
    return True


@kernel
def _store(row, n_set, n_tokens, n_words, stored, start):  # type: ignore[no-untyped-def]
    """Append a row to ``stored`` in the smallest form. Returns its kind (see `mask_rows`) and size."""
    kind = 0 if n_set < n_words else 1 if n_tokens - n_set < n_words else 2
    if kind == 2:
        for w in range(n_words):
            stored[start + w] = row[w] if w < len(row) else 0
        return kind, n_words
    n = start
    for w in range(len(row)):
        bits = np.int64(row[w]) & 0xFFFFFFFF
        if kind == 1:
            bits ^= 0xFFFFFFFF
        if bits != 0:
            for rank in range(w << 5, min((w + 1) << 5, n_tokens)):
                if bits >> (rank & 31) & 1:
                    stored[n] = rank
                    n += 1
    return kind, n - start


@kernel
def index_rows(
    delta, byte_class, loops, history,
    byte, depth, end, token_start, first, groups, level,
    order, n_tokens, n_words, row, digest, path,
    table, row_hash, row_kind, row_start, stored, row_of, cursor, budget,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Rows of the states in ``order``, each from the one before, equal rows stored once; at most ``budget`` states.

    table: int32[power of two], open-addressed by hash, row index or -1. row_hash: int64, row_kind: uint8, row_start:
    int64, one (and for row_start one more) for each row so far; stored: int32, ranks or words. row_of: int32[n_states] gets the row of each state
    of ``order``. Goes on where ``cursor`` says, and comes back when the budget is spent or ``stored`` may be too small.
    """
    for _ in range(budget):
        if cursor[NEXT] == len(order) or cursor[N_STORED] + n_words > len(stored):
            return
        state = order[cursor[NEXT]]
        changes = digest[2]
        difference_walk(
            delta, byte_class, loops, history,
            byte, depth, end, token_start, first, groups, level,
            state, cursor[PREVIOUS], row, digest, path,
        )  # fmt: skip
        found = cursor[PREVIOUS_ROW]
        if digest[2] != changes or found < 0:
            slot = digest[0] & (len(table) - 1)
            while True:
                found = table[slot]
                if found < 0:
                    found = cursor[N_ROWS]
                    start = cursor[N_STORED]
                    kind, size = _store(row, digest[1], n_tokens, n_words, stored, start)
                    table[slot] = found
                    row_hash[found] = digest[0]
                    row_kind[found] = kind
                    row_start[found + 1] = start + size
                    cursor[N_ROWS] += 1
                    cursor[N_STORED] += size
                    break
                start = row_start[found]
                size = row_start[found + 1] - start
                if row_hash[found] == digest[0] and _same_row(
                    row_kind[found], size, stored, start, row, digest[1], n_tokens
                ):
                    break
                slot = (slot + 1) & (len(table) - 1)
        row_of[state] = found
        cursor[PREVIOUS] = state
        cursor[PREVIOUS_ROW] = found
        cursor[NEXT] += 1


@kernel
def ranks_to_ids(row_kind, row_start, stored, token_ids, scratch):  # type: ignore[no-untyped-def]
    """Rewrite the rows that `index_rows` stored, from ranks to token ids, in place. scratch: int32[n_words]."""
    for r in range(len(row_kind)):
        if row_kind[r] != 2:
            for i in range(row_start[r], row_start[r + 1]):
                stored[i] = token_ids[stored[i]]
            continue
        start = row_start[r]
        for w in range(len(scratch)):
            scratch[w] = stored[start + w]
            stored[start + w] = 0
        for rank in range(len(token_ids)):
            if scratch[rank >> 5] >> (rank & 31) & 1:
                token = token_ids[rank]
                stored[start + (token >> 5)] |= np.int64(1) << (token & 31)


@kernel
def order_along_splits(history, states, order, scratch, counts):  # type: ignore[no-untyped-def]
    """Sort ``states`` by their blocks in the first round, then the second, …: neighbours agree as long as can be.

    A radix sort from the last round to the first, each pass by counting. order, scratch: int32[n]; counts: int32[n blocks + 1].
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
