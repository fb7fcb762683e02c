# %% [markdown]
"""# Lesson 1: a pattern becomes a table.

A regular expression describes a set of texts. This lesson turns one into a deterministic finite automaton (DFA), a
table that says for every state and every byte which state comes next, by the classical three steps: parse, build a
nondeterministic automaton (Thompson 1968), make it deterministic (Rabin and Scott 1959). At the end the table is plain
numpy, and matching is three lines of Python. Everything else in fsmc is built on this table.
"""

# %% [markdown]
# Parse: text to tree. The tree has seven kinds of node, whatever syntax the pattern used.

# %%
from fsmc.compiler.syntax.expr import Alternate, Chars, Concat, Expr, Repeat
from fsmc.compiler.syntax.regex import parse_regex


def show(expr: Expr, indent: int = 0) -> None:
    """One node a line, children indented."""
    match expr:
        case Chars(chars):
            label, children = f"Chars {[(chr(low), chr(high)) for low, high in chars.ranges]}", ()
        case Concat(parts) | Alternate(parts):
            label, children = type(expr).__name__, parts
        case Repeat(body, minimum, maximum):
            label, children = f"Repeat {minimum} to {'any number' if maximum is None else maximum}", (body,)
        case _:
            label, children = type(expr).__name__, ()
    print("  " * indent + label)
    for child in children:
        show(child, indent + 1)


pattern = "(ab|ac)*d"
tree = parse_regex(pattern)
show(tree)

# %% [markdown]
# Thompson: tree to NFA. Every piece of the tree gets a few states; "free" moves (epsilon) read nothing and glue the pieces
# together: from 0 one may go round the loop (1) or past it (8), from 1 into the branch that reads `ab` (2) or the one that reads
# `ac` (5). Two branches begin with the same byte, so that after an `a` nobody knows which of them it was: this is what
# *nondeterministic* means.

# %%
from fsmc.compiler.automata.nfa import thompson

nfa = thompson(tree)
print(f"\nNFA: {nfa.n_states} states; the text is complete in state {nfa.final}")
for source, low, _, target in nfa.edges.tolist():
    print(f"  {source} reads {chr(low)} and is in {target}")
free = [(source, target) for source, target, _ in nfa.epsilons.tolist()]
print("  free moves:", ", ".join(f"{source} to {target}" for source, target in free))

# %% [markdown]
# Reading a text therefore means keeping track of *all* states that one could be in: the set of them, with what free moves reach from
# there. A byte leads each state of the set on, or not.

# %%


def with_free_moves(states: set[int]) -> frozenset[int]:
    """The states, and what free moves lead to from them."""
    while more := {target for source, target in free if source in states} - states:
        states = states | more
    return frozenset(states)


def after(states: frozenset[int], byte: int) -> frozenset[int]:
    """Where one could be after one more byte."""
    return with_free_moves({t for s, low, high, t in nfa.edges.tolist() if s in states and low <= byte <= high})


for text in (b"d", b"abd", b"acabd", b"ab"):
    states = with_free_moves({nfa.start})
    for byte in text:
        states = after(states, byte)
    assert (nfa.final in states) == nfa.matches(text)
    print(f"  {text!r:10} could be in {sorted(states)}: {'match' if nfa.final in states else 'no match'}")

# %% [markdown]
# There are only so many sets, and what follows a set depends on nothing else. So take each set that can come up as *one* state of
# another machine: begin with the first set, ask for each byte which set comes next, and go on with the sets that are new. This is
# the subset construction.

# %%
sets, todo = {with_free_moves({nfa.start}): "A"}, [with_free_moves({nfa.start})]
print("\nthe sets, and where each byte leads:")
for states in todo:
    moves = []
    for byte in b"abcd":
        if following := after(states, byte):
            if following not in sets:
                sets[following] = chr(ord("A") + len(sets))
                todo.append(following)
            moves.append(f"{chr(byte)} to {sets[following]}")
    end = "  (complete)" if nfa.final in states else ""
    print(f"  {sets[states]} = {sorted(states)}: {', '.join(moves) or 'nothing more'}{end}")

# %% [markdown]
# That machine has one next state for every byte: it is *deterministic*, and reading a text is one table look-up a byte. The library
# does the same in a kernel, on ranges of bytes, and with smaller sets: a state with free moves alone has done its part once they
# are followed, so that only states that read, or in which the text is complete, are kept. A, D and E all read on from 2, 5 and 8,
# and are one.

# %%
from fsmc.compiler.automata.determinize import determinize

dfa = determinize(nfa)
print(f"\nDFA: {dfa.n_states} states (state 0 is DEAD: no completion exists any more)")
reading = {source for source, *_ in nfa.edges.tolist()} | {nfa.final}
assert dfa.n_states == 1 + len({states & reading for states in sets})
print(dfa.dump())

# %% [markdown]
# The table is two arrays. Bytes that behave alike everywhere share a column, a *byte class*: 256 columns shrink to a
# handful. Here every byte other than a, b, c, d leads to DEAD from everywhere, so they are one class.

# %%
print("\nbyte classes:", dfa.n_classes, " table:", dfa.delta.shape, dfa.delta.dtype)

# %% [markdown]
# Three lines of numpy are a whole regex engine.

# %%
state = dfa.start
for byte in b"abacd":
    state = dfa.delta[state, dfa.byte_class[byte]]
print("abacd", "matches" if dfa.accepting[state] else "does not match")

# %% [markdown]
# The same three steps, as the pipeline writes them, against Python's own engine.

# %%
import re

for text in ("d", "abd", "abacd", "a", "abacab", "dd", ""):
    assert dfa.matches(text.encode()) == bool(re.fullmatch(pattern, text)), text
print("agrees with re.fullmatch")

# %% [markdown]
# Determinism has a price. "The 4th symbol from the end is an a" must remember the last four symbols: 2⁴ states.
# Every further symbol doubles the machine, so all construction in fsmc runs under limits that are arguments.

# %%
from fsmc.compiler.errors import LimitExceeded

for n in range(1, 5):
    raw = determinize(thompson(parse_regex(f"(a|b)*a(a|b){{{n - 1}}}")))
    print(f"  a as symbol {n} from the end: {raw.n_states - 1} states")
try:
    determinize(thompson(parse_regex("(a|b)*a(a|b){20}")), max_states=10_000)
except LimitExceeded as error:
    print(f"  the 21st from the end: {error}")

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 1.1: How many states does the DFA of "the n-th symbol from the *start* is an a" need, for n = 1 to 4? Why does it not double?
#
# Exercise 1.2: Write `reads(dfa, text)`, which returns how many bytes of a text can be read before no completion exists any more.
#
# Exercise 1.3: Find a text that `(ab|a)(c|bc)` matches in two ways. How many ways does the DFA know?
