# %% [markdown]
"""# Lesson 4: which tokens may come next?

Adds a vocabulary to the machine. A language model writes tokens, each a string of bytes. A token is allowed in a state
of the machine if its bytes lead to a state from which some completion exists. fsmc answers that for *all* tokens of the
vocabulary at once, as a packed bitmask, and applies it to the model's logits before sampling. Here the vocabulary has
twenty tokens, so that every mask can be read; a real one has 128,000 and everything works the same.
"""

# %% [markdown]
# A vocabulary: byte strings by id. Some are pieces of others, and one ends in the middle of "é" (C3 A9).

# %%
import fsmc

tokens = [b"0", b"1", b"2", b"19", b"20", b"201", b"-", b"-0", b"-1", b"12", b"31", b"T", b"caf", "café".encode()]
tokens += [b"\xc3", b"\xa9", b"2024-", b"30-", b"", b""]
PAD, EOS = 18, 19
vocabulary = fsmc.Vocabulary.from_tokens(tokens, eos_token_ids=[EOS], special_token_ids=[PAD])
print(vocabulary)


def show(mask) -> list[str]:
    """The tokens whose bits are set."""
    row = mask[0].view("uint32")
    allowed = [i for i in range(vocabulary.size) if row[i // 32] >> (i % 32) & 1]
    return ["<eos>" if i == EOS else repr(vocabulary.token(i))[1:] for i in allowed]


# %% [markdown]
# Compile a pattern for this vocabulary, and walk through a text token by token.

# %%
compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None)
grammar = compiler.compile_regex("(19|20)[0-9]{2}-(0[1-9]|1[0-2])")
matcher = fsmc.GrammarMatcher(grammar)
mask = fsmc.allocate_token_bitmask(1, vocabulary.size)
for token in (b"20", b"1", b"2", b"-1", b"2"):
    matcher.fill_next_token_bitmask(mask)
    print(f"allowed {', '.join(show(mask))}\n   the model takes {token.decode()}")
    assert matcher.accept_token(tokens.index(token))
matcher.fill_next_token_bitmask(mask)
print(f"allowed {', '.join(show(mask))}: the date is complete\n")

# %% [markdown]
# The mask is a row of int32 words, bit i of the row for token i. Applied to logits it rules the others out.

# %%
import numpy as np

logits = np.zeros((1, vocabulary.size), dtype=np.float32)
fsmc.apply_token_bitmask_inplace(logits, mask)
print("words:", mask.tolist(), " logits left finite:", np.flatnonzero(np.isfinite(logits[0])).tolist())

# %% [markdown]
# How all tokens are decided at once: they form a trie, stored in preorder as flat arrays. When a byte is rejected, so
# is everything below it: jump to `end`. Twenty tokens have few beginnings in common, so the walk from the start state still visits most nodes;
# of the 100,297 nodes of a real vocabulary (SmolLM2's) it visits 235.

# %%
trie = fsmc.TokenTrie.build(vocabulary)
dfa = grammar.dfa
print(f"\ntrie: {trie.n_nodes} nodes")
position, states, visited = 0, [dfa.start], 0
while position < trie.n_nodes:
    visited += 1
    del states[trie.depth[position] :]
    state = dfa.run(bytes([trie.byte[position]]), states[-1])
    if state == 0:  # DEAD: skip the subtree
        position = int(trie.end[position])
    else:
        states.append(state)
        position += 1
print(f"the walk from the start state visits {visited} of them")

# %% [markdown]
# A whole index has the row of every state (DEAD, state 0, is one of the eleven), equal rows once. The oracle for all of it is one sentence: a bit is set if
# and only if the text so far plus the token's bytes can still be completed.

# %%
index = grammar.build_index()
print(f"\nindex: {dfa.n_states} states, {index.n_rows} distinct rows")
for state in range(1, dfa.n_states):
    by_hand = [i for i, text in enumerate(vocabulary.tokens) if text and dfa.run(text, state) != 0]
    assert sorted(index.allowed_token_ids(state)) == by_hand
print("every row checked token by token")

# %% [markdown]
# Special tokens are never text, and a token may end inside a character: after C3, only the second byte of é or è can follow, A9 or A8 (or
# a token that begins with one). This vocabulary has no A8.

# %%
matcher = fsmc.GrammarMatcher(compiler.compile_regex("caf[éè]"))
for token in (b"caf", b"\xc3"):
    assert matcher.accept_token(tokens.index(token))
matcher.fill_next_token_bitmask(mask)
print("\nafter 'caf' and the byte C3:", *show(mask))

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 4.1: Write `mask_by_hand(dfa, state, vocabulary)`: the allowed tokens, from the definition, in two lines.
#
# Exercise 4.2: How many of the trie's nodes does the walk visit from a state in which every byte is allowed? And in which only "T" is?
#
# Exercise 4.3: Can a state of a trimmed machine have an empty mask? Find a pattern and a vocabulary, and say what is missing.
