# %% [markdown]
"""# Lesson 3: the smallest machine, and what only it can do.

Adds minimization to lesson 1. Subset construction gives *a* machine, with states that no text can tell apart. Merging
them (Moore 1956; Hopcroft 1971 made it fast) gives *the* machine: every regular language has exactly one minimal DFA,
up to the names of its states. So two patterns mean the same if and only if their minimal machines are equal, and whole
languages can be combined, compared, counted and sampled like numbers.
"""

# %% [markdown]
# Two patterns for one language give different machines ...

# %%
from fsmc.compiler.automata.determinize import determinize
from fsmc.compiler.automata.minimize import minimize
from fsmc.compiler.automata.nfa import thompson
from fsmc.compiler.syntax.regex import parse_regex


def raw(pattern: str):
    return determinize(thompson(parse_regex(pattern)))


one, other = raw("cats?|bats?|rats?"), raw("[bcr]at|[bcr]ats")
print(f"before: {one.n_states} and {other.n_states} states")

# %% [markdown]
# ... and the same minimal machine, number for number, since fsmc numbers states in the order of a breadth-first walk.

# %%
first, second = minimize(one), minimize(other)
print(f"after:  {first.n_states} and {second.n_states} states, tables equal: {(first.delta == second.delta).all()}")
print(first.dump())

# %% [markdown]
# How it works: begin with two blocks, accepting and not. States of a block whose moves lead to different blocks can be
# told apart by some text: split them. When nothing splits any more, a block is a state. After r rounds, states share a
# block exactly if no text of up to r bytes tells them apart. fsmc keeps that history: tokens are short, and two states which no text as long as
# the longest token tells apart allow the same tokens (lesson 4).

# %%
from fsmc.compiler.automata.minimize import partition_history

initial = one.accepting.astype("int32")
history = partition_history(one.delta, initial, range(4))
for rounds, blocks in enumerate(history):
    print(f"  after {rounds} rounds: {len(set(blocks.tolist()))} blocks  {blocks.tolist()}")

# %% [markdown]
# Machines as sets. Which dates does a sloppy pattern allow that a careful one does not? The difference of two
# languages is a language; the shortest text in it is a counterexample.

# %%
from fsmc.compiler.automata.equivalence import difference_witness

sloppy = minimize(raw("[0-9]{2}/[0-9]{2}"))
careful = minimize(raw("(0[1-9]|1[0-2])/(0[1-9]|[12][0-9]|3[01])"))
print("\nsloppy accepts, careful does not:", difference_witness(sloppy, careful))
only_sloppy = sloppy - careful
print("and so are:", [text.decode() for text in (b"13/01", b"12/31", b"00/10") if only_sloppy.matches(text)])

# %% [markdown]
# Counting and sampling: how many texts are there, and a fair draw from them.

# %%
import numpy as np

from fsmc.compiler.automata.counting import count_strings, sample_string

print("sloppy:", sum(count_strings(sloppy, 5)), " careful:", sum(count_strings(careful, 5)))
rng = np.random.default_rng(1)
print("a fair draw:", [sample_string(careful, rng, max_length=5).decode() for _ in range(4)])

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 3.1: Are `(a|b)*` and `(a*b*)*` the same language? Are `(ab)*a` and `a(ba)*`? Decide it with machines.
#
# Exercise 3.2: Brzozowski (1963): reversing and determinizing a machine twice minimizes it. Check it with `reverse` of the algebra.
#
# Exercise 3.3: Which is the shortest date that the careful pattern above accepts and the calendar does not?
