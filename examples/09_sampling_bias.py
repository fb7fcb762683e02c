# %% [markdown]
"""# Lesson 9: what a mask does to the model's opinion.

Adds the question whether masked sampling is the model given that its text is valid. It is not: masking forbids tokens that lead nowhere and
renormalizes *at each step*, so a token keeps its probability even where little that is valid and likely comes after it. Every text is valid, but their
proportions are wrong. On a small language all of it can be enumerated; for small models it can be computed; for large ones it is estimated.
"""

# %% [markdown]
# A model that writes a word letter by letter. It likes to begin with a; after a it likes x, which the constraint does not know.

# %%
import itertools

import numpy as np

import fsmc
from fsmc.research import ConditionedModel, HiddenMarkovModel, TokenMachine, product_matrix

TOKENS = [b"a", b"b", b"x", b"y", b""]
A, B, X, Y, EOS = range(5)
vocabulary = fsmc.Vocabulary.from_tokens(TOKENS, eos_token_ids=[EOS])
first = np.array([0.8, 0.2, 0, 0, 0])
following = np.array(
    [
        [0.04, 0.01, 0.90, 0.00, 0.05],  # after a: nearly always x
        [0.10, 0.30, 0.00, 0.30, 0.30],  # after b
        [0.20, 0.20, 0.20, 0.20, 0.20],  # after x
        [0.20, 0.20, 0.20, 0.20, 0.20],  # after y
        [0.00, 0.00, 0.00, 0.00, 1.00],
    ]
)


def model(prefix: tuple[int, ...]) -> np.ndarray:
    """The distribution of the next token."""
    return following[prefix[-1]] if prefix else first


# %% [markdown]
# The constraint: a's and b's, one to three of them.

# %%
grammar = fsmc.GrammarCompiler(vocabulary, cache_dir=None).compile_regex("[ab]{1,3}")
words = [(*word, EOS) for n in (1, 2, 3) for word in itertools.product((A, B), repeat=n)]


def name(tokens: tuple[int, ...]) -> str:
    return b"".join(TOKENS[token] for token in tokens).decode()


# %% [markdown]
# What the model itself thinks of these words: enumerate, multiply, divide by the sum. That is the definition of "the model, given that the
# text is valid", and what one would get by drawing until something valid comes out.

# %%
own = np.array([np.prod([model(word[:i])[token] for i, token in enumerate(word)]) for word in words])
print(
    f"of the model's texts {own.sum():.1%} are valid: drawing until one is takes {1 / own.sum():.0f} draws on average"
)
exact = own / own.sum()

# %% [markdown]
# What masking does: at each step what is forbidden is set to zero, the rest is divided by its sum.


# %%
def masked(prefix: tuple[int, ...]) -> np.ndarray:
    """The model's distribution under the mask of lesson 4."""
    matcher, mask = fsmc.GrammarMatcher(grammar), fsmc.allocate_token_bitmask(1, vocabulary.size)
    assert all(matcher.accept_token(token) for token in prefix)
    matcher.fill_next_token_bitmask(mask)
    with np.errstate(divide="ignore"):
        logits = np.log(model(prefix))[None].astype(np.float32)
    fsmc.apply_token_bitmask_inplace(logits, mask)
    return np.exp(logits[0]) / np.exp(logits[0]).sum()


under_mask = np.array([np.prod([masked(word[:i])[token] for i, token in enumerate(word)]) for word in words])
print(f"\n{'':6}{'exact':>8}{'masked':>8}")
for word, p, q in zip(words, exact, under_mask, strict=True):
    print(f"{name(word):6}{p:8.3f}{q:8.3f}")
print(
    f"total variation distance: {abs(exact - under_mask).sum() / 2:.2f}; divergence {np.sum(under_mask * np.log2(under_mask / exact)):.2f} bits"
)

# %% [markdown]
# Why. Throwing away costs the mask nothing: what is kept is scaled up to 1. So a word's weight is the model's own times the product, over the
# steps, of 1 / what was kept. Behind a the model wanted x, and only 0.10 are kept: words that begin with a are ten times too heavy, those that
# begin with b 1 / 0.70 times; each further step multiplies again.

# %%
for prefix in ((), (A,), (B,)):
    allowed = masked(prefix) > 0
    print(f"kept after {name(prefix)!r:4}: {model(prefix)[allowed].sum():.2f}")

# %% [markdown]
# Exactly, without enumeration. Weigh each token by the probability that what follows it fits: h(token). For a model with few states that
# is a table over (position, state of the machine, state of the model), filled from the end. Here the model's state is its last token.

# %%
machine = TokenMachine.of(grammar.dfa, vocabulary)
bigrams = HiddenMarkovModel.from_bigrams(first, following)
conditioned = ConditionedModel(machine, bigrams, max_tokens=4)
print(f"\nvalid by the table: {np.exp(conditioned.log_probability):.1%}")
computed = np.exp([conditioned.text_log_probability(word) for word in words])
assert np.allclose(computed, exact)
print("first token, masked:", masked(()).round(3)[:2], " exact:", conditioned.next_token_distribution([]).round(3)[:2])
rng = np.random.default_rng(0)
drawn = [tuple(conditioned.sample(rng)) for _ in range(2000)]
print("drawn:", {name(word): round(drawn.count(word) / 2000, 3) for word in words[:4]}, "…")

# %% [markdown]
# The same table is a matrix: machine times model. Its powers are the passes.

# %%
matrix = product_matrix(machine, bigrams)
start = np.kron(np.eye(machine.n_states)[machine.start], first)
end = np.kron(np.eye(machine.n_states)[machine.ended], np.ones(5))
print(f"\n{matrix.shape[0]} states of the product; valid: {start @ np.linalg.matrix_power(matrix, 4) @ end:.1%}")

# %% [markdown]
# A large language model has no such table: its state is the whole text. One can weigh samples: draw under the mask, and count each draw by
# the product of what its steps kept (importance sampling). Unbiased, and as noisy as the bias is large.


# %%
def draw_masked() -> tuple[tuple[int, ...], float]:
    prefix: tuple[int, ...] = ()
    weight = 1.0
    while prefix[-1:] != (EOS,):
        distribution = masked(prefix)
        weight *= model(prefix)[distribution > 0].sum()
        prefix += (int(rng.choice(5, p=distribution / distribution.sum())),)
    return prefix, weight


samples = [draw_masked() for _ in range(400)]
total = sum(weight for _, weight in samples)
begins_with_a = sum(weight for word, weight in samples if word[0] == A) / total
plain = sum(word[0] == A for word, _ in samples) / 400
truth = sum(p for word, p in zip(words, exact, strict=True) if word[0] == A)
print(f"begins with a: masked {plain:.2f}, weighted {begins_with_a:.2f}, exact {truth:.2f}")

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 9.1: For which constraints is masked sampling exact, whatever the model? Give one that forbids something.
#
# Exercise 9.2: Make the bias as bad as you like: a model and a constraint for which masking gives probability 0.999 to a text that should have 0.001.
#
# Exercise 9.3: Which model makes `ConditionedModel` draw uniformly from the words of three letters that have a b? How many are there, by `count_strings`?
