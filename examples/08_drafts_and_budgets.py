"""Lesson 8: several tokens at once, never cut off, and thinking first.

Adds three things that engines need around the masks of lesson 7. Drafts: a small model proposes tokens, and the large one checks
all of them in one pass, each under its own mask. Budgets: a text that ends because `max_tokens` is reached is no JSON; a mask can
know how many tokens are left. The gate: models think before they answer, and the constraint is for the answer.
"""

# %% A draft of k tokens takes 1 + k rows: what may come now, and after each token. From the first bad token on nothing is allowed.
import fsmc
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

# %% Drafts may be trees: of each token, which one it follows (-1: none). Two names are tried, and two ages after the first.
tree, parents = [0, 1, 2, 4, 5, 6], [-1, 0, 0, 1, 3, 3]
mask = fsmc.allocate_token_bitmask(1 + len(tree), vocabulary.size)
print("\nof the tree fit:", fsmc.fill_draft_bitmasks(matcher, tree, mask, parents=parents).tolist())

# %% In a batch requests have drafts of different lengths, and some no constraint. The layout says whose row is whose.
layout = fsmc.RowLayout.of([2, 0, 1], constrained=[True, False, True])
print(
    "rows of logits:", [layout.logit_rows(i) for i in range(3)], " that are masked:", layout.masked_logit_rows.tolist()
)

# %% Budgets. How many tokens does the shortest person need? And what may come when just one more than these are left?
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

# %% With too few tokens from the start there is an error, not half a text.
try:
    fsmc.GrammarMatcher(grammar).fill_next_token_bitmask(row, max_tokens=3)
except fsmc.BudgetExceeded as error:
    print(error)

# %% The gate. Before the marker every token is allowed; the constraint begins with the first byte after it, even inside a token:
# 'think>{"' ends the marker and begins the answer.
gate = fsmc.ReasoningGate(fsmc.GrammarMatcher(grammar), "</think>")
for token in (11, 11, 8, 10):
    assert gate.accept_token(token)
    print(f"\n{vocabulary.token(token).decode():12} thinking: {gate.is_reasoning}", end="")
print("\nand goes on with", repr(gate.find_jump_forward_string()))
