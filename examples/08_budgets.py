# %% [markdown]
"""# Lesson 8: one request: going back, several tokens at once, never cut off, thinking first.

Adds to lesson 4 what an engine does with a constraint besides asking for masks. It takes tokens and is told why one does not fit, goes
back, and tries several continuations side by side. Drafts: a small model proposes tokens, and the large one checks all of them in one
pass, each under its own mask. Budgets: a text that ends because `max_tokens` is reached is no JSON; a mask can know how many tokens are
left. The gate: models think before they answer, and the constraint is for the answer.
"""

# %% [markdown]
# A matcher's whole state is a configuration: a state of the machine and the return frames of its open calls. All that is
# heavy (machine, masks) belongs to the grammar, and is shared by any number of matchers.

# %%
import fsmc

words = [b"[", b"]", b"[[", b"]]", b",", b"1", b"2", b"12", b"],["]
vocabulary = fsmc.Vocabulary.from_tokens([*words, b"", b""], eos_token_ids=[9, 10])
compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="compact")
rows_of_numbers = {"type": "array", "items": {"type": "array", "items": {"enum": [1, 2]}}}
grammar = compiler.compile_json_schema(rows_of_numbers)
matcher = fsmc.GrammarMatcher(grammar, max_rollback_tokens=8)
print("before any text:", matcher.configuration)
for token in (2, 5, 8):
    assert matcher.accept_token(token)
print("after '[[1],[':", matcher.configuration)

# %% [markdown]
# A token that does not fit is refused, nothing changes, and the error says what would have fitted (a dot too: `1.0` is the number 1).

# %%
before = matcher.configuration
assert not matcher.accept_token(7) and matcher.configuration == before
print(matcher.rejection(7))

# %% [markdown]
# Going back undoes tokens, texts and the end alike. Two kinds of token end this text; both are allowed exactly where it may end.

# %%
matcher.accept_token(3)
print("\nmay end:", matcher.is_completed(), "  has ended:", matcher.is_terminated())
matcher.accept_token(10)
print("has ended:", matcher.is_terminated(), "  entries to go back over:", matcher.rollback_limit)
matcher.rollback(2)
print("two steps back:", matcher.expected())

# %% [markdown]
# A fork costs the same however long the text is: stacks and histories are chains whose past is shared. So beam search,
# or checking a draft, is a fork for each continuation.

# %%
for continuation in ([5, 3], [5, 4, 6, 3], [4]):
    other = matcher.fork()
    n = other.validate_tokens(continuation)
    print(b"".join(vocabulary.token(token) for token in continuation).decode(), "→", n, "of", len(continuation), "fit")

# %% [markdown]
# A draft of k tokens takes 1 + k rows: what may come now, and after each token. From the first bad token on nothing is allowed.

# %%
from fsmc.runtime.bitmask import unpack_token_bitmask

words = [b'{"name":"', b"ann", b"bob", b'"', b'","age":', b"4", b"2", b"}", b"</", b"think>", b'think>{"', b"hm "]
letters = [bytes([byte]) for byte in range(256)]
vocabulary = fsmc.Vocabulary.from_tokens([*words, *letters, b""], eos_token_ids=[len(words) + 256])
compiler = fsmc.GrammarCompiler(vocabulary, cache_dir=None, whitespace="compact")
person = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"items": {"type": "string"}}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
grammar = compiler.compile_json_schema(person)


def shown(row) -> str:
    """The longer ones of the allowed tokens."""
    allowed = unpack_token_bitmask(row, vocabulary.size)
    return " ".join(vocabulary.token(i).decode() for i in range(len(words)) if allowed[i]) or "–"


matcher = fsmc.GrammarMatcher(grammar)
draft = [0, 1, 4, 7, 5]  # {"name":"  ann  ","age":  }  4
mask = fsmc.allocate_token_bitmask(1 + len(draft), vocabulary.size)
valid = fsmc.fill_draft_bitmasks(matcher, draft, mask)
print("now                  ", shown(mask[0]))
for token, fits, row in zip(draft, valid, mask[1:], strict=True):
    print(f"{vocabulary.token(token).decode():12} {'fits ' if fits else 'fails'}   ", shown(row))

# %% [markdown]
# Drafts may be trees: of each token, which one it follows (-1: none). Two names are tried, and two ages after the first.

# %%
tree, parents = [0, 1, 2, 4, 5, 6], [-1, 0, 0, 1, 3, 3]
mask = fsmc.allocate_token_bitmask(1 + len(tree), vocabulary.size)
print("\nof the tree fit:", fsmc.fill_draft_bitmasks(matcher, tree, mask, parents=parents).tolist())

# %% [markdown]
# In a batch requests have drafts of different lengths, and some no constraint. The layout says whose row is whose.

# %%
layout = fsmc.RowLayout.of([2, 0, 1], constrained=[True, False, True])
print(
    "rows of logits:", [layout.logit_rows(i) for i in range(3)], " that are masked:", layout.masked_logit_rows.tolist()
)

# %% [markdown]
# Budgets. How many tokens does the shortest person need? And what may come when there are just so many, and each step takes one of them?

# %%
needed = matcher.num_tokens_to_complete()
print(f"\n{needed} tokens are enough, the end token among them")
row = fsmc.allocate_token_bitmask(1, vocabulary.size)
while not matcher.is_terminated():
    matcher.fill_next_token_bitmask(row, max_tokens=needed)
    allowed = unpack_token_bitmask(row[0], vocabulary.size).nonzero()[0]
    token = int(allowed[0])
    matcher.accept_token(token)
    needed -= 1
    print(f"{vocabulary.token(token).decode() or 'the end':12} one of {len(allowed)}, {needed} left")

# %% [markdown]
# With too few tokens from the start there is an error, not half a text.

# %%
try:
    fsmc.GrammarMatcher(grammar).fill_next_token_bitmask(row, max_tokens=3)
except fsmc.BudgetExceeded as error:
    print(error)

# %% [markdown]
# The gate. Before the marker every token is allowed; the constraint begins with the first byte after it, even inside a token:
# `think>{"` ends the marker and begins the answer.

# %%
gate = fsmc.ReasoningGate(fsmc.GrammarMatcher(grammar), "</think>")
for token in (11, 11, 8, 10):
    assert gate.accept_token(token)
    print(f"\n{vocabulary.token(token).decode():12} thinking: {gate.is_reasoning}", end="")
print("\nand goes on with", repr(gate.find_jump_forward_string()))

# %% [markdown]
# ## Exercises (answers: `tests/test_exercises.py`)
#
# Exercise 8.1: What is the smallest budget for an address book of two persons or more (an array of them)? Does one token more change the first mask?
#
# Exercise 8.2: Without rollback a draft needs a fork. Write `fits`, which says how many tokens of a draft fit, with nothing but `fork` and `accept_token`.
