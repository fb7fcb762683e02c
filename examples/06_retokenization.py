# %% [markdown]
"""# Lesson 6: why token boundaries matter.

Adds to lesson 5 what a jump does to the tokens. A model has seen text cut by its tokenizer, and only so: of the many ways to spell a text in
tokens it knows one. Forced text that is appended by whatever tokens happen to fit shows the model ids in an order that it has
never met. So around a jump the text is tokenized again, and the longest common beginning of old and new ids keeps its key-value cache.
"""

# %% [markdown]
# A tokenizer: the longest token first. (Real ones merge pairs, Sennrich et al. 2016; what follows is the same with them.)

# %%
import itertools
from collections import Counter

import fsmc

letters = [bytes([byte]) for byte in range(32, 127)]
words = [
    b'{"',
    b'":',
    b' "',
    b'",',
    b'"}',
    b'", "',
    b'": "',
    b"name",
    b"size",
    b" small",
    b" large",
    b"ann",
    b"bob",
    b"na",
    b"me",
]
END = len(letters) + len(words)
vocabulary = fsmc.Vocabulary.from_tokens([*letters, *words, b"<|end|>"], eos_token_ids=[END], special_token_ids=[END])


def encode(text: str) -> list[int]:
    """Ids of a text. Like real tokenizers it takes the name of a special token for the special token."""
    ids, data = [], text.encode()
    while data:
        fitting = [i for i in range(END) if data.startswith(vocabulary.token(i))]
        best = END if data.startswith(b"<|end|>") else max(fitting, key=lambda i: len(vocabulary.token(i)))
        ids.append(best)
        data = data[7:] if best == END else data[len(vocabulary.token(best)) :]
    return ids


def pieces(ids: list[int]) -> list[str]:
    return [vocabulary.token(i).decode() or "<|end|>" for i in ids]


print(pieces(encode('{"name": "ann", "size": "small"}')))

# %% [markdown]
# One text has many spellings. Counted with the machine over tokens (lesson 9 uses it more): paths through the DFA of that one text.

# %%
import numpy as np

from fsmc.research import TokenMachine

compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None)
one_text = compiler.compile_regex(r'\{"name": "ann", "size": "small"\}').dfa
machine = TokenMachine.of(one_text, vocabulary)
matrix, reached, n_spellings = machine.matrix().astype(object), np.eye(machine.n_states, dtype=object)[machine.start], 0
while reached[: machine.ended].any():
    n_spellings += sum(reached[: machine.ended] * one_text.accepting)
    reached = reached @ matrix
print(f"{n_spellings:,} spellings, of which the model has seen one")

# %% [markdown]
# A "model": which token follows which, counted over texts as the tokenizer cuts them.

# %%
corpus = [f'{{"name": "{name}", "size": "{size}"}}' for name in ("ann", "bob") for size in ("small", "large")] * 25
seen: Counter[tuple[int, int]] = Counter()
for text in corpus:
    ids = encode(text)
    seen.update(itertools.pairwise(ids))


def likely(ids: list[int]) -> list[str]:
    """What the model thinks comes next, by how often it came."""
    total = sum(n for (left, _), n in seen.items() if left == ids[-1])
    return [
        f"{pieces([right])[0]!r} {n / total:.0%}" for (left, right), n in seen.most_common() if left == ids[-1]
    ] or ["never seen"]


# %% [markdown]
# The model has written `{"name": "ann` and now a quote, because the mask allowed it. What follows is forced: `, "size": "`

# %%
old = [*encode('{"name": "ann'), *encode('"')]
forced = ', "size": "'
naive = [*old, *encode(forced)]
print("\nappended: ", pieces(naive))
again = fsmc.retokenize(encode, vocabulary, old, forced)
print("tokenized:", pieces(again.ids))
print(
    f"{again.kept} of {len(old)} old tokens keep their place in the cache, {len(again.ids) - again.kept} go through the model in one pass"
)

# %% [markdown]
# Does it matter? After the quote by itself the model has no idea: in its texts the quote came with the comma.

# %%
print("\nafter 'ann' and a lone quote:", likely(old))
print("after the tokenizer's token: ", likely(again.ids[: again.kept + 1]))

# %% [markdown]
# Guards. The name of a special token in forced text must not become the special token: the model would take it for the end. That
# spot is spelled in smaller pieces, and the bytes stay the same.

# %%
print("\nthe tokenizer says:", pieces(encode("say <|end|>")), " retokenize says:", end=" ")
safe = fsmc.retokenize(encode, vocabulary, encode("say "), "<|end|>")
print(pieces(safe.ids))
assert END not in safe.ids and b"".join(map(vocabulary.token, safe.ids)) == b"say <|end|>"

# %% [markdown]
# The last token. Forced text that ends in a space is special: many tokens begin with one (" small"), and a text in which the space is a
# token by itself is as rare as the lone quote. `generate` leaves the space to the model if a token that begins with it is allowed.

# %%
print(
    "\nclosed:", pieces([*encode("size: "), *encode("small")]), " open:", pieces([*encode("size:"), *encode(" small")])
)

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 6.1: Give a text and forced text for which nothing of the old tokens can be kept.
#
# Exercise 6.2: Is `encode(a) + encode(b) == encode(a + b)` more often true where `a` ends with a space? Try all cuts of the texts above.
